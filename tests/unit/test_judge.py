"""A suite judged from scripted runs: its time, faults of ours, kills that the host may have made."""

import contextlib
from dataclasses import replace
from pathlib import Path

import pytest

from cobalt.errors import InfraError
from cobalt.evaluator import LocalEvaluator, endings, judge
from cobalt.evaluator.checker import PUBLISHED, Rule
from cobalt.evaluator.endings import MemoryKills, counters
from cobalt.evaluator.feedback import first_failure
from cobalt.evaluator.judge import judge_suite
from cobalt.rollouts.trajectory import pass_rate
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.worker import RunFacts, WorkerLost
from cobalt.testcases import TestCases

OUT_OF_TIME = "TimeoutError: Tests timed out after {:g} seconds."


def ran(cpu_s=0.0, wall_s=None, *, returncode=0, limit="", queued_s=0.0, stdout=b"x"):
    wall_s = cpu_s if wall_s is None else wall_s
    return RunFacts(returncode, limit, cpu_s, wall_s, 0, stdout, b"", len(stdout), 0, queued_s)


class Runs:
    """A pool, worker and program in one. `script`: facts of each run in order, or what it raises."""

    def __init__(self, *script):
        self.script, self.asked, self.workers = list(script), [], 0

    @contextlib.contextmanager
    def lend(self):
        self.workers += 1
        yield self

    @contextlib.contextmanager
    def program(self, source, limits, *, fn_name, output_bytes):
        yield self

    def prepare(self, stdin):
        pass

    def start(self, cpu_s, wall_s):
        self.asked.append((cpu_s, wall_s))

    def finish(self):
        found = self.script.pop(0)
        if isinstance(found, BaseException):
            raise found
        return found(*self.asked[-1]) if callable(found) else found


def judged(runs, count, limits=None, rule=PUBLISHED):
    tests = TestCases([""] * count, ["x"] * count)
    return judge_suite(runs, "code", tests, limits or Limits(), rule)


def statuses(result):
    return [each["status"] for each in result["per_test"]]


def spin(seconds):
    """A run that would take so many CPU seconds, under the limit that it is given."""
    return lambda cpu_s, _: ran(min(seconds, cpu_s), limit="cpu" if seconds >= cpu_s else "")


def sleep(seconds):
    return lambda _, wall_s: ran(0.0, min(seconds, wall_s), limit="wall" if seconds >= wall_s else "")


@pytest.mark.parametrize(
    ("count", "run"),
    [
        (26, spin(3.9)),  # published: 27 s of wall time hold four tests at once, ceil(26 / 4) x 3.9 s = 27 s
        (27, spin(3.99)),
        (26, sleep(5.0)),
        (20, ran(1.0, 130.0, queued_s=129.0)),  # time in which the host gave no CPU is not charged
    ],
)
def test_what_passes_under_the_published_limits_passes(count, run):
    result = judged(Runs(*[run] * count), count)
    assert result["passing"] == [True] * count and result["suite_limit"] is False


def test_a_suite_over_its_time_has_no_passing_test():
    result = judged(Runs(*[spin(3.9)] * 28), 28)
    assert result["passing"] == [False] * 28 and result["suite_limit"] is True and result["status"] == "ok"
    assert statuses(result) == ["passed"] * 27 + ["time_limit"]
    assert result["feedback"] == [OUT_OF_TIME.format(108)] * 28
    assert result["per_test"][-1]["cpu_s"] == pytest.approx(108 - 27 * 3.9)
    # So in training as in rollouts: a slow program does not regress against the rate that was stored of it.
    assert pass_rate(result) == 0.0
    assert first_failure(result) == OUT_OF_TIME.format(108)
    result = judged(Runs(*[sleep(13.0)] * 26), 26)
    assert result["suite_limit"] is True and sum(each["wall_s"] for each in result["per_test"]) == 137.0


def test_a_test_that_ends_at_its_own_limit_does_not_end_the_suite():
    limits = Limits(cpu_s=4, suite_s=8)
    for seconds, expected, cut in (
        ((4.0, 9.0), ["time_limit"] * 2, False),
        ((3.9, 4.1), ["passed", "time_limit"], False),
        ((3.9, 3.9, 3.9), ["passed"] * 2 + ["time_limit"], True),
    ):
        result = judged(Runs(*map(spin, seconds)), len(seconds), limits)
        assert statuses(result) == expected and result["suite_limit"] is cut
    runs = Runs(ran(3.0), ran(5.0))  # the last test uses up the time and passes
    assert judged(runs, 2, limits)["passing"] == [True, True] and runs.asked == [(4, 14), (4, 11)]
    runs = Runs(*[ran(1.0, 1.0, queued_s=5.0)] * 3)  # two clocks: time is never given back
    judged(runs, 3)
    assert [wall_s for _, wall_s in runs.asked] == [14.0] * 3


def test_a_suite_that_stops_at_its_first_failure():
    rule = Rule(stop_on_first_failure=True)
    result = judged(Runs(spin(3.9), spin(3.9)), 3, Limits(cpu_s=4, suite_s=5), rule)
    assert result["suite_limit"] is True and result["passing"] == [False] * 3
    assert statuses(result) == ["passed", "time_limit", "skipped"]
    result = judged(Runs(ran(), ran(stdout=b"y")), 3, rule=rule)
    assert result["passing"] == [True, False, False] and result["suite_limit"] is False


@pytest.fixture
def kills(tmp_path, monkeypatch):
    """The file of the kernel's counter, which `killed_by_host` raises."""
    file = tmp_path / "vmstat"
    file.write_text("nr_free_pages 5\noom_kill 3\noom_kill_x 9\n")
    monkeypatch.setattr(endings, "_memory_kills", MemoryKills([file, tmp_path / "none"]))
    return file


KILLED = ran(0.1, returncode=-9, stdout=b"")


def killed_by_host(file, facts=KILLED):
    def run(*_):
        count = int(file.read_text().split()[3])
        file.write_text(f"nr_free_pages 5\noom_kill {count + 1}\n")
        return facts

    return run


def test_a_program_that_kills_itself_is_judged_at_once(kills):
    runs = Runs(KILLED, ran(), KILLED)
    result = judged(runs, 3)
    assert statuses(result) == ["runtime_error", "passed", "runtime_error"] and runs.workers == 1
    assert [each["returncode"] for each in result["per_test"]] == [-9, 0, -9]
    assert judged(Runs(replace(KILLED, compile_failed=True)), 2)["status"] == "compile_error"


def test_a_program_that_the_host_may_have_killed_runs_again_elsewhere(kills):
    by_host, compiler = killed_by_host(kills), killed_by_host(kills, replace(KILLED, compile_failed=True))
    for first in (by_host, compiler):
        runs = Runs(ran(), first, ran(), ran())
        assert judged(runs, 3)["passing"] == [True] * 3 and runs.workers == 2
        result = judged(Runs(first, first), 2)
        assert result["status"] == "infra_error" and result["passing"] == [False] * 2
        assert "twice on test 0: a test was killed while the host ran out of memory" in result["feedback"][0]
    assert statuses(judged(Runs(by_host, KILLED), 1)) == ["runtime_error"]  # then it was not the host
    for limit, status in (("cpu", "time_limit"), ("memory", "memory_limit")):  # struck by us
        struck = killed_by_host(kills, ran(4.0, returncode=-9, limit=limit))
        assert statuses(judged(Runs(struck), 1)) == [status]


def test_no_verdict_is_made_of_a_kill_that_nobody_can_explain(kills):
    kills.unlink()
    assert judged(Runs(KILLED, KILLED), 1)["status"] == "infra_error"
    assert judged(Runs(KILLED, ran()), 1)["passing"] == [True]
    assert statuses(judged(Runs(ran(4.0, returncode=-9, limit="cpu")), 1)) == ["time_limit"]


def test_a_kill_is_seen_by_all_that_ran_then(kills):
    assert counters()[0] == Path("/proc/vmstat") and MemoryKills([]).since(0.0) is None
    watch, before = MemoryKills([kills]), judge.time.monotonic()
    killed_by_host(kills)()
    assert watch.since(before) is True and watch.since(before) is True
    assert watch.since(judge.time.monotonic()) is False


@pytest.mark.parametrize("fault", [WorkerLost("gone"), OSError(24, "Too many open files"), MemoryError()])
def test_a_fault_of_ours_is_tried_again_and_then_no_verdict(fault):
    assert judged(Runs(ran(), fault, ran(), fault, ran()), 3)["passing"] == [True] * 3
    result = judged(Runs(ran(), fault, fault), 2)
    assert result["status"] == "infra_error"
    assert result["feedback"][0].startswith("Exception: the sandbox failed twice on test 1: ")


@pytest.fixture
def local(monkeypatch):
    monkeypatch.setattr("cobalt.evaluator.local.resolve", lambda *_: "none")
    with LocalEvaluator(1, shared_verdicts=True) as evaluator:
        yield evaluator


def raising(fault):
    def fail(*_):
        raise fault

    return fail


@pytest.mark.parametrize("fault", [InfraError("no worker"), RuntimeError("no thread"), TypeError()])
def test_no_fault_of_ours_escapes_the_evaluator(local, monkeypatch, fault):
    monkeypatch.setattr("cobalt.evaluator.local.judge_suite", raising(fault))
    result = local.evaluate("code", {"inputs": ["", ""], "outputs": ["", ""]})
    assert result["status"] == "infra_error" and result["passing"] == [False] * 2
    assert result["feedback"][0] in (f"Exception: {fault}", f"Exception: {type(fault).__name__}")
    assert local.counters["infra_errors"] == 1


def test_a_thread_that_cannot_be_started_is_a_fault_of_ours(local, monkeypatch):
    monkeypatch.setattr(local._threads, "submit", raising(RuntimeError("can't start new thread")))
    result = local.evaluate("code", {"inputs": [""], "outputs": [""]})
    assert result["status"] == "infra_error"
    local._closed.set()
    with pytest.raises(InfraError, match="closed"):
        local._start("code", TestCases([""], [""]), PUBLISHED)
