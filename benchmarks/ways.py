"""The ways of running tests that `benchmarks/evaluator.py` compares: context managers that yield a `Run`."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bare_fork import PROGRAM

from cobalt.cluster import allow_slow_start
from cobalt.evaluator import LocalEvaluator
from cobalt.sandbox.limits import Limits

TESTS = 20
BATCH = 16  # programs in a request to the service
TRIVIAL = {"inputs": [f"{i} 1" for i in range(TESTS)], "outputs": [str(i + 1) for i in range(TESTS)]}

# Runs a number of distinct programs in a round, checks every verdict, returns the seconds of each request.
Run = Callable[[int, int], list[float]]


def _one_by_one(judge: Callable[[str], object]) -> Run:
    """Programs one after another, each by `judge`."""

    def run(programs: int, round_: int) -> list[float]:
        return [_timed(judge, _distinct(number, round_)) for number in range(programs)]

    return run


def _timed(work: Callable[[Any], object], given: object) -> float:
    began = time.monotonic()
    work(given)
    return time.monotonic() - began


def _each_test(stdout: Callable[[str], str]) -> Callable[[str], None]:
    """Judges the fixed program by what it prints on each of the tests."""

    def judge(_: str) -> None:
        for stdin, expected in zip(TRIVIAL["inputs"], TRIVIAL["outputs"], strict=True):
            _check(stdout(stdin).strip() == expected, stdin)

    return judge


@contextlib.contextmanager
def plain() -> Iterator[Run]:
    """A fresh `python -I -S` for every test."""
    command = [sys.executable, "-I", "-S", "-c", PROGRAM]
    yield _one_by_one(
        _each_test(lambda stdin: subprocess.run(command, input=stdin, capture_output=True, text=True).stdout)
    )


@contextlib.contextmanager
def fork() -> Iterator[Run]:
    """A warm interpreter that forks for each test, without isolation, limits or time-outs."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    file = Path(__file__).with_name("bare_fork.py")
    command = [sys.executable, "-I", "-S", str(file), str(theirs.fileno())]

    def stdout(stdin: str) -> str:
        files = [os.memfd_create("stdin"), os.memfd_create("stdout")]
        try:
            os.write(files[0], stdin.encode())
            os.lseek(files[0], 0, os.SEEK_SET)
            socket.send_fds(ours, [b"run"], files)
            ours.recv(1 << 16)
            return os.pread(files[1], 1 << 16, 0).decode()
        finally:
            for each in files:
                os.close(each)

    with ours, subprocess.Popen(command, pass_fds=(theirs.fileno(),)):
        theirs.close()
        try:
            yield _one_by_one(_each_test(stdout))
        finally:
            ours.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def prime_code() -> Iterator[Run]:
    """verl's own scorer of programs: a process per program, no isolation."""
    from verl.utils.reward_score import prime_code as scorer

    def judge(code: str) -> None:
        with contextlib.redirect_stdout(sys.stderr):
            passed, why = scorer.compute_score(code, TRIVIAL)
        _check(passed is True, why)

    yield _one_by_one(judge)


@contextlib.contextmanager
def local(
    level: str,
    workers: int,
    *,
    program: str = PROGRAM,
    tests: dict[str, list[str]] = TRIVIAL,
    packages: tuple[str, ...] = (),
) -> Iterator[Run]:
    """Ours in process at an isolation level, warm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        limits = Limits(packages=packages)
        judge = LocalEvaluator(workers, isolation=level, limits=limits, shared_verdicts=False)

    def one(code: str) -> None:
        result = judge.evaluate(code, tests)
        _check(all(result["passing"]), result)

    with judge, ThreadPoolExecutor(workers) as threads:
        for _ in range(2):
            one(program)
        yield lambda programs, round_: list(
            threads.map(lambda code: _timed(one, code), _codes(programs, round_, program))
        )


@contextlib.contextmanager
def service(send: Callable[[Any], Any], clients: int) -> Iterator[Run]:
    """The running service asked through `send`, in requests of `BATCH` programs by `clients` at once."""

    def one(batch: list[str]) -> None:
        results = send([{"code": code, "test_cases": TRIVIAL} for code in batch])
        _check(all(all(result["passing"]) for result in results), results)

    def run(programs: int, round_: int) -> list[float]:
        codes = _codes(programs, round_, PROGRAM)
        batches = [codes[at : at + BATCH] for at in range(0, programs, BATCH)]
        with ThreadPoolExecutor(clients) as threads:
            return list(threads.map(lambda batch: _timed(one, batch), batches))

    for _ in range(2):
        one([PROGRAM])
    yield run


@contextlib.contextmanager
def each_test(send: Callable[..., Any], clients: int, *, fusion: bool) -> Iterator[Run]:
    """The running service asked by HTTP for one test a request: our route, or SandboxFusion's (`fusion`)."""

    def one(test: tuple[str, str, str]) -> None:
        code, stdin, expected = test
        if fusion:
            found = send({"code": code, "language": "python", "stdin": stdin}, "/run_code")
            right = found["status"] == "Success" and found["run_result"]["stdout"].strip() == expected
        else:
            found = send({"code": code, "test_cases": {"inputs": [stdin], "outputs": [expected]}})
            right = found["passing"] == [True]
        _check(right, found)

    def run(programs: int, round_: int) -> list[float]:
        pairs = list(zip(TRIVIAL["inputs"], TRIVIAL["outputs"], strict=True))
        tests = [(code, *pair) for code in _codes(programs, round_, PROGRAM) for pair in pairs]
        with ThreadPoolExecutor(clients) as threads:
            return list(threads.map(lambda test: _timed(one, test), tests))

    yield run


@contextlib.contextmanager
def serve_application(workers: int) -> Iterator[dict[str, Callable[[Any], Any]]]:
    """A Ray of our own with the service on it: how to ask it through a handle, and over HTTP."""
    import ray
    from ray import serve

    from cobalt.evaluator.service import Settings, app

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory(prefix="cb", dir="/tmp") as folder:  # socket paths must be short
        allow_slow_start()
        ray.init(
            num_cpus=max(2, workers), include_dashboard=False, _temp_dir=folder, log_to_driver=False,
            logging_level="error",
        )  # fmt: skip
        try:
            serve.start(http_options={"host": "127.0.0.1", "port": port})
            settings = Settings(replicas=1, workers=workers, shared_verdicts=False)
            handle = serve.run(app(settings), name="evaluator", route_prefix="/evaluator")

            def by_http(request: Any, path: str = "") -> Any:
                url, headers = f"http://127.0.0.1:{port}/evaluator", {"Content-Type": "application/json"}
                post = urllib.request.Request(url + path, json.dumps(request).encode(), headers)
                with urllib.request.urlopen(post, timeout=600) as response:
                    return json.load(response)

            yield {"handle": lambda request: handle.remote(request).result(timeout_s=600), "HTTP": by_http}
        finally:
            serve.shutdown()
            ray.shutdown()


def _codes(programs: int, round_: int, program: str) -> list[str]:
    return [_distinct(number, round_, program) for number in range(programs)]


def _distinct(number: int, round_: int, program: str = PROGRAM) -> str:
    return f"{program}# {round_} {number}\n"


def _check(right: bool, facts: object) -> None:
    if not right:
        raise RuntimeError(f"a right program was judged wrong: {str(facts)[:500]}")
