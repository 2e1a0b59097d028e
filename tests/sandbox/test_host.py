"""The host's side: dead workers, a killed host, closing, threads, load."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from cobalt.errors import BadRequest, InfraError, InputError
from cobalt.evaluator import LocalEvaluator
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.probe import try_limits

ECHO = "print(input())"


def echo_tests(*values):
    return {"inputs": list(values), "outputs": list(values)}


def group_of(pid: int) -> set[int]:
    """All processes of the session that a worker started (its own session, and those below it)."""
    children: dict[int, list[int]] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                parent = int(file.read().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    found, todo = {pid}, [pid]
    while todo:
        for child in children.get(todo.pop(), []):
            found.add(child)
            todo.append(child)
    return found


def alive(pids: set[int]) -> set[int]:
    found = set()
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rpartition(")")[2].split()[0] not in "ZX":
                    found.add(pid)
        except OSError:
            continue
    return found


def wait_gone(pids: set[int], seconds: float = 10) -> set[int]:
    deadline = time.monotonic() + seconds
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    return alive(pids)


@pytest.fixture(params=["namespaces", "landlock"])
def level(request, usable):
    return usable(request.param)


def test_a_dead_worker_is_replaced_and_its_test_run_again(level):
    with LocalEvaluator(1, isolation=level, shared_verdicts=False) as evaluator:
        assert evaluator.evaluate(ECHO, echo_tests("1"))["passing"] == [True]
        for pid in evaluator._pool.pids():
            os.kill(pid, signal.SIGKILL)
        assert evaluator.evaluate(ECHO, echo_tests("2"))["passing"] == [True]
        assert evaluator._pool.restarts == 1


def test_a_worker_killed_during_a_test_loses_nothing(level):
    with LocalEvaluator(1, isolation=level) as evaluator:
        code = "import time\ntime.sleep(0.3)\nprint(input())"
        future = evaluator.submit(code, echo_tests("1", "2", "3"))
        deadline = time.monotonic() + 30
        while not evaluator._pool.pids() and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(0.4)
        for pid in evaluator._pool.pids():
            os.kill(pid, signal.SIGKILL)
        result = future.result(timeout=60)
        assert result["passing"] == [True, True, True]
        assert evaluator.counters["infra_errors"] == 0


def test_a_worker_that_dies_twice_is_an_infra_error_and_no_verdict(level):
    with LocalEvaluator(1, isolation=level) as evaluator:
        stop = threading.Event()

        def kill() -> None:
            while not stop.is_set():
                for pid in evaluator._pool.pids():
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        continue
                time.sleep(0.01)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            result = evaluator.evaluate("import time\ntime.sleep(1)\nprint(input())", echo_tests("1"))
        finally:
            stop.set()
            killer.join()
        assert result["status"] == "infra_error"
        assert result["passing"] == [False]
        assert evaluator.counters["infra_errors"] == 1
        # Not remembered: the next request is run.
        assert evaluator.evaluate("import time\ntime.sleep(1)\nprint(input())", echo_tests("1"))[
            "passing"
        ] == [True]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_nothing_outlives_a_killed_host(level, number, tmp_path):
    script = textwrap.dedent(
        f"""
        import sys, time
        from cobalt.evaluator import LocalEvaluator
        evaluator = LocalEvaluator(2, isolation={level!r})
        evaluator.evaluate("print(1)", {{"inputs": [""], "outputs": ["1"]}})
        for code in ("while True: pass", "import time; time.sleep(100)"):
            evaluator.submit(code, {{"inputs": [""], "outputs": ["1"]}})
        time.sleep(0.7)
        print("ready", flush=True)
        time.sleep(100)
        """
    )
    host = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    try:
        assert host.stdout.readline() == "ready\n"
        family = group_of(host.pid) - {host.pid}
        assert len(family) >= 4
        host.send_signal(number)
        host.wait(20)
        assert wait_gone(family) == set()
    finally:
        host.kill()
        host.stdout.close()


def test_closing_leaves_no_process(level):
    evaluator = LocalEvaluator(2, isolation=level)
    futures = [evaluator.submit(f"while True: pass  # {n}", echo_tests("1")) for n in range(2)]
    deadline = time.monotonic() + 30
    while len(evaluator._pool.pids()) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    time.sleep(0.1)
    family = set().union(*(group_of(pid) for pid in evaluator._pool.pids()))
    assert family
    evaluator.close()
    evaluator.close()
    assert wait_gone(family) == set()
    for future in futures:
        assert future.cancelled() or isinstance(future.exception(timeout=10), InfraError)
    with pytest.raises(InfraError, match="closed"):
        evaluator.evaluate(ECHO, echo_tests("1"))


def test_a_forgotten_evaluator_leaves_no_process(level):
    script = (
        "from cobalt.evaluator import LocalEvaluator\n"
        f"evaluator = LocalEvaluator(1, isolation={level!r})\n"
        "evaluator.evaluate('print(1)', {'inputs': [''], 'outputs': ['1']})\n"
        "print(*evaluator._pool.pids())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    assert wait_gone({int(done.stdout)}) == set()


def test_evaluate_may_be_called_from_many_threads(level):
    with LocalEvaluator(2, isolation=level, shared_verdicts=False) as evaluator:

        def one(n: int) -> list[bool]:
            return evaluator.evaluate(ECHO, {"inputs": [str(n)], "outputs": [str(n % 7)]})["passing"]

        with ThreadPoolExecutor(16) as threads:
            assert list(threads.map(one, range(48))) == [[n < 7] for n in range(48)]


def test_a_pool_is_refused_after_a_fork(level):
    with LocalEvaluator(1, isolation=level) as evaluator:
        assert evaluator.evaluate(ECHO, echo_tests("1"))["passing"] == [True]
        pid = os.fork()
        if pid == 0:
            try:
                with evaluator._pool.lend():
                    os._exit(1)
            except InfraError:
                os._exit(0)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert evaluator.evaluate(ECHO, echo_tests("2"))["passing"] == [True]


def test_descriptors_do_not_pile_up(level):
    with LocalEvaluator(1, isolation=level, shared_verdicts=False) as evaluator:
        evaluator.evaluate(ECHO, echo_tests("1"))
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            evaluator.evaluate(ECHO, echo_tests("1", "2"))
        assert len(os.listdir("/proc/self/fd")) == before


def test_right_programs_pass_while_all_cores_are_busy(level):
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(4)]
    try:
        code = "import time\nwhile time.process_time() < 0.6: pass\nprint(input())"
        with LocalEvaluator(2, isolation=level, limits=Limits(cpu_s=1.0)) as evaluator:
            result = evaluator.evaluate(code, echo_tests("1", "2", "3"))
        assert result["passing"] == [True] * 3, result["per_test"]
    finally:
        for each in spinners:
            each.kill()
            each.wait()


def test_the_probe_can_tell_a_broken_limit():
    """At level none, which limits nothing but resources, most attempts must be seen to succeed."""
    names = {
        "host files cannot be read",
        "host files cannot be listed",
        "no network socket",
        "no new process",
    }
    found = try_limits("none", names=names)
    assert {name for name, answer in found.items() if answer != "held"} == names


def test_no_isolation_is_used_only_when_asked_for_and_warns():
    with (
        pytest.warns(UserWarning, match="isolation 'none'"),
        LocalEvaluator(1, isolation="none") as evaluator,
    ):
        assert evaluator.isolation == "none"
        assert evaluator.evaluate(ECHO, echo_tests("1"))["passing"] == [True]
        code = "import os, time\nif os.fork() == 0:\n    time.sleep(60)\nprint(input())"
        start = time.monotonic()
        assert evaluator.evaluate(code, echo_tests("1"))["passing"] == [True]
        assert time.monotonic() - start < 20


def test_an_unknown_level_is_refused():
    with pytest.raises(InputError, match="namespaces"):
        LocalEvaluator(1, isolation="docker")


def test_tests_of_the_wrong_shape_are_refused(level):
    with LocalEvaluator(1, isolation=level) as evaluator:
        for bad in (
            {},
            {"inputs": ["1"]},
            {"inputs": ["1"], "outputs": []},
            {"inputs": [1], "outputs": ["1"]},
            "{",
        ):
            with pytest.raises(BadRequest):
                evaluator.evaluate(ECHO, bad)


def test_signals_that_the_host_ignores_are_as_usual_in_programs(usable):
    code = """
import signal
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.worker import Worker
for number in (signal.SIGCHLD, signal.SIGHUP, signal.SIGUSR1):
    signal.signal(number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
worker = Worker('namespaces')
with worker.program(b'import os\\nos.kill(os.getpid(), 1)', Limits()) as program:
    print(program.run(b'').returncode, program.run(b'').returncode)
worker.close()
"""
    usable("namespaces")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["-1", "-1"], done.stderr
