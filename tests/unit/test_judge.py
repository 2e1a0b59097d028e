"""A suite judged from scripted runs: its time, faults of ours, kills that the host may have made."""

import contextlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from cobalt.errors import InfraError
from cobalt.evaluator import LocalEvaluator, judge
from cobalt.evaluator.checker import PUBLISHED, Rule
from cobalt.evaluator.feedback import first_failure
from cobalt.evaluator.judge import judge_suite
from cobalt.evaluator.memory_kills import MemoryKills, counters
from cobalt.rollouts import trajectory as rollouts
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.worker import RunFacts, WorkerLost
from cobalt.testcases import TestCases
from cobalt.training import scoring as training

OUT_OF_TIME = "TimeoutError: Tests timed out after {:g} seconds."


def ran(cpu_s=0.0, wall_s=None, *, returncode=0, limit="", queued_s=0.0, stdout=b"x", peak_bytes=0):
    wall_s = cpu_s if wall_s is None else wall_s
    return RunFacts(returncode, limit, cpu_s, wall_s, peak_bytes, stdout, b"", len(stdout), 0, queued_s)


class Runs:
    """A pool, worker and program in one. `script`: facts of each run in order, or what it raises."""

    def __init__(self, *script):
        self.script, self.asked, self.workers, self.closed = list(script), [], 0, 0

    @contextlib.contextmanager
    def lend(self):
        self.workers += 1
        yield self

    @contextlib.contextmanager
    def program(self, source, limits, *, fn_name, output_bytes):
        yield self

    def prepare(self, stdin):
        return self

    def close(self):
        self.closed += 1

    def start(self, files, *, cpu_s, wall_s):
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


@pytest.mark.parametrize(("count", "seconds"), [(26, 3.9), (27, 3.99), (4, 3.9), (1, 3.9)])
def test_what_passes_under_the_published_limits_passes(count, seconds):
    """There 27 s of wall time hold four tests at once: ceil(26 / 4) x 3.9 s = 27 s at the most."""
    result = judged(Runs(*[spin(seconds)] * count), count)
    assert result["passing"] == [True] * count and result["suite_limit"] is False


def test_a_suite_over_its_time_has_no_passing_test():
    result = judged(Runs(*[spin(3.9)] * 28), 28)
    assert result["passing"] == [False] * 28 and result["suite_limit"] is True and result["status"] == "ok"
    assert statuses(result) == ["passed"] * 27 + ["time_limit"]
    assert result["feedback"] == [OUT_OF_TIME.format(108)] * 28
    assert result["per_test"][-1]["cpu_s"] == pytest.approx(108 - 27 * 3.9)


def test_every_reader_of_a_verdict_sees_the_same_rate():
    """So the same slow program does not regress against the rate that was stored of it."""
    result = judged(Runs(*[spin(3.9)] * 28), 28)
    assert rollouts.pass_rate(result) == training.pass_rate(result) == 0.0
    assert first_failure(result) == OUT_OF_TIME.format(108)


def test_tests_that_end_at_their_own_limit_do_not_make_a_suite_end():
    limits = Limits(cpu_s=4, suite_s=8)
    result = judged(Runs(spin(4.0), spin(9.0)), 2, limits)
    assert result["suite_limit"] is False and statuses(result) == ["time_limit"] * 2
    result = judged(Runs(spin(3.9), spin(4.1)), 2, limits)
    assert result["passing"] == [True, False] and result["suite_limit"] is False
    assert judged(Runs(spin(3.9), spin(3.9), spin(3.9)), 3, limits)["suite_limit"] is True


def test_a_last_test_that_uses_up_the_time_and_passes_counts():
    runs = Runs(ran(3.0), ran(5.0))
    assert judged(runs, 2, Limits(cpu_s=4, suite_s=8))["passing"] == [True, True]
    assert runs.asked == [(4, 14), (4, 11)]


def test_sleepers_end_a_suite_within_minutes():
    limits = Limits()
    assert (limits.suite_s, limits.suite_wall_s) == (108.0, 137.0)
    result = judged(Runs(*[sleep(13.0)] * 26), 26)
    assert result["suite_limit"] is True and sum(each["wall_s"] for each in result["per_test"]) == 137.0
    assert result["passing"] == [False] * 26 and result["feedback"] == [OUT_OF_TIME.format(108)] * 26
    assert judged(Runs(*[sleep(5.0)] * 26), 26)["passing"] == [True] * 26


def test_time_in_which_the_host_gave_no_cpu_is_not_charged():
    runs = Runs(*[ran(1.0, 130.0, queued_s=129.0)] * 20)
    assert judged(runs, 20)["passing"] == [True] * 20
    runs = Runs(*[ran(1.0, 1.0, queued_s=5.0)] * 3)  # two clocks: time is never given back
    judged(runs, 3)
    assert [wall_s for _, wall_s in runs.asked] == [14.0] * 3


def test_a_suite_that_stops_at_its_first_failure_may_be_over_its_time_too():
    rule = Rule(stop_on_first_failure=True)
    result = judged(Runs(spin(3.9), spin(3.9)), 3, Limits(cpu_s=4, suite_s=5), rule)
    assert result["suite_limit"] is True and result["passing"] == [False] * 3
    assert statuses(result) == ["passed", "time_limit", "skipped"]
    result = judged(Runs(ran(), ran(stdout=b"y")), 3, rule=rule)
    assert result["passing"] == [True, False, False] and result["suite_limit"] is False


@pytest.fixture
def kills(tmp_path, monkeypatch):
    """The file of the kernel's counter; `counts(n)` as a run's script raises it by n and is killed."""
    file = tmp_path / "vmstat"
    file.write_text("nr_free_pages 5\noom_kill 3\noom_kill_x 9\n")
    monkeypatch.setattr(judge, "_memory_kills", MemoryKills([file, tmp_path / "none"]))
    return file


KILLED = ran(0.1, returncode=-9, stdout=b"")


def killed_by_host(file):
    def run(*_):
        count = int(file.read_text().split()[3])
        file.write_text(f"nr_free_pages 5\noom_kill {count + 1}\n")
        return KILLED

    return run


def test_a_program_that_kills_itself_is_judged_at_once(kills):
    runs = Runs(KILLED, ran(), ran(0.1, returncode=-9, peak_bytes=1 << 30))
    result = judged(runs, 3)
    assert statuses(result) == ["runtime_error", "passed", "runtime_error"] and runs.workers == 1
    assert [each["returncode"] for each in result["per_test"]] == [-9, 0, -9]


def test_a_program_that_the_host_may_have_killed_runs_again_elsewhere(kills):
    runs = Runs(ran(), killed_by_host(kills), ran(), ran())
    result = judged(runs, 3)
    assert result["passing"] == [True] * 3 and runs.workers == 2
    runs = Runs(killed_by_host(kills), KILLED)  # the second time it was not the host
    assert statuses(judged(runs, 1)) == ["runtime_error"]


def test_a_host_that_kills_twice_gives_no_verdict(kills):
    result = judged(Runs(killed_by_host(kills), killed_by_host(kills)), 2)
    assert result["status"] == "infra_error" and result["passing"] == [False] * 2
    assert (
        "failed twice on test 0: a test was killed while the host ran out of memory" in result["feedback"][0]
    )


def test_a_limit_of_ours_is_no_kill_of_the_host(kills):
    run = killed_by_host(kills)
    result = judged(Runs(lambda *_: (run(), ran(4.0, returncode=-9, limit="cpu"))[1]), 1)
    assert statuses(result) == ["time_limit"]
    result = judged(Runs(lambda *_: (run(), ran(1.0, returncode=-9, limit="memory"))[1]), 1)
    assert statuses(result) == ["memory_limit"]


def test_a_compiler_that_the_host_may_have_killed_gives_no_verdict(kills):
    killed = replace(KILLED, compile_failed=True)
    assert judged(Runs(killed), 2)["status"] == "compile_error"

    def by_host(*_):
        killed_by_host(kills)()
        return killed

    assert judged(Runs(by_host, by_host), 2)["status"] == "infra_error"
    assert judged(Runs(by_host, ran(), ran()), 2)["passing"] == [True, True]


def test_no_verdict_is_made_of_a_kill_that_nobody_can_explain(kills):
    kills.unlink()
    assert judged(Runs(KILLED, KILLED), 1)["status"] == "infra_error"
    assert judged(Runs(KILLED, ran()), 1)["passing"] == [True]
    assert statuses(judged(Runs(KILLED, ran(4.0, returncode=-9, limit="cpu")), 1)) == ["time_limit"]


def test_a_kill_seen_by_one_is_seen_by_all_that_ran_then(kills):
    watch = MemoryKills([kills])
    before = judge.time.monotonic()
    killed_by_host(kills)()
    assert watch.since(before) is True and watch.since(before) is True
    assert watch.since(judge.time.monotonic()) is False
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(lambda _: watch.since(before), range(100))) == [True] * 100


def test_the_counters_of_this_machine_can_be_named():
    assert counters()[0] == Path("/proc/vmstat")
    assert MemoryKills([]).since(0.0) is None


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


@pytest.mark.parametrize(
    "fault", [InfraError("no worker"), RuntimeError("no thread"), TypeError(), MemoryError()]
)
def test_no_fault_of_ours_escapes_the_evaluator(local, monkeypatch, fault):
    def fail(*_):
        raise fault

    monkeypatch.setattr("cobalt.evaluator.local.judge_suite", fail)
    result = local.evaluate("code", {"inputs": ["", ""], "outputs": ["", ""]})
    assert result["status"] == "infra_error" and result["passing"] == [False] * 2
    assert result["feedback"][0] in (f"Exception: {fault}", f"Exception: {type(fault).__name__}")
    assert local.counters["infra_errors"] == 1


def test_a_thread_that_cannot_be_started_is_a_fault_of_ours(local, monkeypatch):
    def fail(*_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(local._threads, "submit", fail)
    result = local.evaluate("code", {"inputs": [""], "outputs": [""]})
    assert result["status"] == "infra_error" and local.waiting == 0
    local._closed.set()
    with pytest.raises(InfraError, match="closed"):
        local._start("code", TestCases([""], [""]), PUBLISHED)
