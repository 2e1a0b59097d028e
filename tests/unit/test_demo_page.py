"""The demo's figures in README and docs are those of docs/demo.json, made for the reference that is here."""

import json
import sys
from pathlib import Path

import pytest

from cobalt.errors import InputError
from cobalt.run.job import model_hash
from cobalt.tasks import tiny

ROOT = Path(__file__).parents[2]


@pytest.fixture
def demo_page(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import demo_page

    yield demo_page
    sys.modules.pop("demo_page", None)


def test_pages_hold_what_is_recorded_of_the_reference_that_is_shipped(demo_page):
    runs = json.loads(demo_page.RECORD.read_text())
    for path in demo_page.PAGES:
        said = path.read_text(encoding="utf-8")
        assert said.count("<!-- demo -->") == 1 and demo_page.renewed(path, runs) == said, path
    assert {run["family_hash"] for run in runs} == {tiny.SECOND.family_hash()}
    assert {run["model_sha256"] for run in runs} == {model_hash(ROOT / "models" / "tiny-reference-2")}


def test_a_run_of_another_configuration_is_refused(demo_page, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({"schema": 1, "name": "tiny", "smoke": False}))
    with pytest.raises(InputError, match=r"no run of configs/demo\.yaml"):
        demo_page.taken(tmp_path)
