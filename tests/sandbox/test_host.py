"""The host's side: dead workers, a killed host, closing, threads, load, memory."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import psutil
import pytest

from cobalt.errors import InfraError, InputError
from cobalt.evaluator import LocalEvaluator
from cobalt.evaluator.checker import Rule
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


def test_a_worker_killed_between_or_during_tests_loses_nothing(level):
    with LocalEvaluator(1, isolation=level, shared_verdicts=False) as evaluator:
        assert evaluator.evaluate(ECHO, echo_tests("1"))["passing"] == [True]
        for pid in evaluator._pool.pids():
            os.kill(pid, signal.SIGKILL)
        assert evaluator.evaluate(ECHO, echo_tests("2"))["passing"] == [True]
        future = evaluator.submit(f"import time\ntime.sleep(0.3)\n{ECHO}", echo_tests("1", "2", "3"))
        time.sleep(0.4)
        for pid in evaluator._pool.pids():
            os.kill(pid, signal.SIGKILL)
        assert future.result(timeout=60)["passing"] == [True, True, True]
        assert evaluator._pool.restarts == 2 and evaluator.counters["infra_errors"] == 0


def test_a_worker_that_dies_twice_is_an_infra_error_and_no_verdict(level):
    code = f"import time\ntime.sleep(1)\n{ECHO}"
    with LocalEvaluator(1, isolation=level) as evaluator:
        stop = threading.Event()

        def kill() -> None:
            while not stop.wait(0.01):
                for pid in evaluator._pool.pids():
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            result = evaluator.evaluate(code, echo_tests("1"))
        finally:
            stop.set()
            killer.join()
        assert result["status"] == "infra_error" and result["passing"] == [False]
        assert evaluator.counters["infra_errors"] == 1
        assert evaluator.evaluate(code, echo_tests("1"))["passing"] == [True]  # not remembered: it is run


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


def test_many_callers_at_once_leave_no_descriptor(level):
    with LocalEvaluator(2, isolation=level, shared_verdicts=False) as evaluator:

        def one(n: int) -> list[bool]:
            tests = {"inputs": [str(n), str(n)], "outputs": [str(n % 7), str(n)]}
            return evaluator.evaluate(ECHO, tests, rule=Rule(stop_on_first_failure=n % 2 == 0))["passing"]

        with ThreadPoolExecutor(16) as threads:
            list(threads.map(one, range(16)))
            before = len(os.listdir("/proc/self/fd"))
            wanted = [[n < 7, n < 7 or n % 2 == 1] for n in range(48)]
            assert list(threads.map(one, range(48))) == wanted
        assert len(os.listdir("/proc/self/fd")) == before


@contextlib.contextmanager
def spinning(count: int) -> Iterator[None]:
    """Somebody else's work on this machine."""
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in spinners:
            each.kill()
            each.wait()


@pytest.mark.parametrize("programs", [1, pytest.param(60, marks=pytest.mark.full)])
def test_right_programs_near_their_limit_pass_on_a_busy_machine(level, programs):
    code = f"import time\nwhile time.process_time() < 0.6: pass\n{ECHO}"
    with spinning(4), LocalEvaluator(2, isolation=level, limits=Limits(cpu_s=1.0)) as evaluator:
        asked = ((f"{code}  # {n}", echo_tests("1", "2", "3")) for n in range(programs))
        for result in evaluator.evaluate_many(asked):
            assert result["passing"] == [True] * 3, result["per_test"]


def worker_bytes(evaluator: LocalEvaluator) -> list[int]:
    """Memory of each worker: all its processes, shared pages divided among their users."""
    outers = [psutil.Process(pid) for pid in evaluator._pool.pids()]
    return [
        sum(each.memory_full_info().pss for each in [outer, *outer.children(recursive=True)])
        for outer in outers
    ]


@pytest.mark.full
def test_a_hundred_thousand_tests_leave_memory_flat():
    tests = {"inputs": [str(n) for n in range(500)], "outputs": [str(n + 1) for n in range(500)]}
    with LocalEvaluator(2, shared_verdicts=False, limits=Limits(suite_s=600)) as evaluator:
        sizes, own = [], []
        for round_ in range(10):
            programs = ((f"print(int(input()) + 1)  # {round_} {n}", tests) for n in range(20))
            assert all(all(result["passing"]) for result in evaluator.evaluate_many(programs))
            sizes.append(max(worker_bytes(evaluator)))
            own.append(psutil.Process().memory_full_info().uss)
        assert evaluator.counters["tests"] == 100_000 and evaluator.restarts == 0
    assert max(sizes) < 60 << 20
    assert sizes[-1] < sizes[1] + (1 << 20) and own[-1] < own[1] + (8 << 20)


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
