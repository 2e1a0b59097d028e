"""Limits that are promised: which cannot work, and what of them the host's own hard limits take away."""

import resource

import pytest

from cobalt.sandbox.limits import Limits, host_obstacles


@pytest.fixture
def hard(monkeypatch):
    """Hard limits by number; all others are without end."""
    values: dict[int, int] = {}
    monkeypatch.setattr("resource.getrlimit", lambda what: (0, values.get(what, resource.RLIM_INFINITY)))
    return values


@pytest.mark.parametrize(
    ("name", "need"),
    [("STACK", 1 << 30), ("NOFILE", 128), ("FSIZE", 16 << 20), ("AS", 1 << 30), ("DATA", 1 << 30), ("CPU", 6),
     ("NPROC", 72)],
)  # fmt: skip
def test_each_limit_is_compared_with_what_is_promised(hard, name, need):
    what = getattr(resource, f"RLIMIT_{name}")
    hard[what] = need
    assert host_obstacles(Limits()) == []
    hard[what] = need - 1
    (found,) = host_obstacles(Limits())
    assert found.startswith(f"RLIMIT_{name}: the hard limit is {need - 1}, {need} are promised (ulimit -H")


def test_what_is_in_the_way_may_be_asked_for(hard):
    hard[resource.RLIMIT_STACK] = 8 << 20
    assert "ask for Limits(stack_bytes=...)" in host_obstacles(Limits())[0]
    assert host_obstacles(Limits(stack_bytes=8 << 20)) == []


@pytest.mark.parametrize(
    "values",
    [{"cpu_s": 0}, {"cpu_s": 4, "wall_s": 3}, {"cpu_s": 120}, {"memory_bytes": 1}, {"suite_s": -1},
     {"stack_bytes": 1}, {"packages": ("no_such_package",)}],
)  # fmt: skip
def test_limits_that_cannot_work_are_refused(values):
    with pytest.raises(ValueError, match="limits"):
        Limits(**values)
