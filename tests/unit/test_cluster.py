"""What stands in the way of a Serve application, told from the state that Ray reports."""

from types import SimpleNamespace

import pytest
from ray import serve
from ray.serve.schema import ApplicationStatus

from cobalt import cluster
from cobalt.errors import InputError


@pytest.mark.parametrize("status", [ApplicationStatus.DEPLOY_FAILED, ApplicationStatus.UNHEALTHY])
def test_an_application_that_failed_is_named_with_its_reason(status, monkeypatch):
    found = {"evaluator": SimpleNamespace(status=status, message="no such module\n", deployments={})}
    monkeypatch.setattr(cluster, "_address", lambda: "auto")
    monkeypatch.setattr("ray.is_initialized", lambda: True)
    monkeypatch.setattr(serve, "status", lambda: SimpleNamespace(applications=found))
    with pytest.raises(InputError, match=f"'evaluator' is {status.value}: no such module$"):
        cluster.application("evaluator", "Evaluator")
