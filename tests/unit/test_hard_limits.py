"""Hard limits of the host that are below what programs are promised."""

import resource

import pytest

from cobalt.sandbox.limits import Limits, host_obstacles

LIMITS = Limits(files=128, processes=64)


@pytest.fixture
def hard(monkeypatch):
    """Hard limits by number; all others are without end."""
    values: dict[int, int] = {}
    monkeypatch.setattr("resource.getrlimit", lambda what: (0, values.get(what, resource.RLIM_INFINITY)))
    return values


def test_a_host_without_limits_is_no_obstacle(hard):
    assert host_obstacles(LIMITS) == []


def test_an_obstacle_says_what_to_do(hard):
    hard[resource.RLIMIT_NOFILE] = 64
    assert host_obstacles(LIMITS) == [
        "RLIMIT_NOFILE: the hard limit is 64, 128 are promised (ulimit -Hn; raise it, or ask for "
        "Limits(files=...))"
    ]
    assert host_obstacles(Limits(files=64)) == []


@pytest.mark.parametrize(
    ("name", "need"),
    [("STACK", 1 << 30), ("NOFILE", 128), ("FSIZE", 16 << 20), ("AS", 1 << 30), ("DATA", 1 << 30), ("CPU", 6),
     ("NPROC", 72)],
)  # fmt: skip
def test_each_limit_is_compared_with_what_is_promised(hard, name, need):
    what = getattr(resource, f"RLIMIT_{name}")
    hard[what] = need
    assert host_obstacles(LIMITS) == []
    hard[what] = need - 1
    (found,) = host_obstacles(LIMITS)
    assert found.startswith(f"RLIMIT_{name}: the hard limit is {need - 1}, {need} are promised (ulimit -H")


def test_a_smaller_stack_may_be_asked_for(hard):
    hard[resource.RLIMIT_STACK] = 8 << 20
    assert len(host_obstacles(Limits())) == 1
    assert host_obstacles(Limits(stack_bytes=8 << 20)) == []
