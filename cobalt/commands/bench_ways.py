"""The ways of running tests that `cobalt bench evaluator` compares.

A way is a context manager that yields a function of a number of programs and a round number: it runs that
many distinct programs with `TESTS` tests each, checks every verdict, and returns the seconds of each request.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from cobalt.cluster import allow_slow_start
from cobalt.commands import bare_fork
from cobalt.evaluator import LocalEvaluator

TESTS = 20
BATCH = 16  # programs in a request to the service
PROGRAM = bare_fork.PROGRAM
TRIVIAL = {"inputs": [f"{i} 1" for i in range(TESTS)], "outputs": [str(i + 1) for i in range(TESTS)]}

Run = Callable[[int, int], list[float]]


class WrongVerdict(RuntimeError):
    """A right program was judged wrong: the measurement would mean nothing."""


@contextlib.contextmanager
def plain() -> Iterator[Run]:
    """A fresh `python -I -S` for every test."""

    def run(programs: int, _: int) -> list[float]:
        took = []
        for _ in range(programs):
            began = time.monotonic()
            for stdin, expected in zip(TRIVIAL["inputs"], TRIVIAL["outputs"], strict=True):
                command = [sys.executable, "-I", "-S", "-c", PROGRAM]
                ran = subprocess.run(command, input=stdin, capture_output=True, text=True)
                _check(ran.stdout.strip() == expected, ran)
            took.append(time.monotonic() - began)
        return took

    yield run


@contextlib.contextmanager
def fork() -> Iterator[Run]:
    """A warm interpreter that forks for each test, without isolation, limits or time-outs."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-I", "-S", str(Path(bare_fork.__file__)), str(theirs.fileno())]
    with ours, subprocess.Popen(command, pass_fds=(theirs.fileno(),)):
        theirs.close()

        def run(programs: int, _: int) -> list[float]:
            took = []
            for _ in range(programs):
                began = time.monotonic()
                for stdin, expected in zip(TRIVIAL["inputs"], TRIVIAL["outputs"], strict=True):
                    _check(_fork_one(ours, stdin) == expected, stdin)
                took.append(time.monotonic() - began)
            return took

        try:
            yield run
        finally:
            ours.shutdown(socket.SHUT_RDWR)


def _fork_one(control: socket.socket, stdin: str) -> str:
    files = [os.memfd_create("stdin"), os.memfd_create("stdout")]
    try:
        os.write(files[0], stdin.encode())
        os.lseek(files[0], 0, os.SEEK_SET)
        socket.send_fds(control, [b"{}"], files)
        json.loads(control.recv(1 << 16))
        return os.pread(files[1], 1 << 16, 0).decode().strip()
    finally:
        for each in files:
            os.close(each)


@contextlib.contextmanager
def prime_code() -> Iterator[Run]:
    """verl's own scorer of programs: a process per program, no isolation."""
    from verl.utils.reward_score import prime_code as scorer

    def run(programs: int, round_: int) -> list[float]:
        took = []
        for number in range(programs):
            began = time.monotonic()
            with contextlib.redirect_stdout(sys.stderr):
                passed, why = scorer.compute_score(_distinct(number, round_), TRIVIAL)
            _check(passed is True, why)
            took.append(time.monotonic() - began)
        return took

    yield run


@contextlib.contextmanager
def evaluator(
    level: str, workers: int, *, program: str = PROGRAM, tests: dict[str, list[str]] = TRIVIAL
) -> Iterator[Run]:
    """Ours in process at an isolation level, warm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        judge = LocalEvaluator(workers, isolation=level, shared_verdicts=False)
    with judge:
        _warm(lambda: judge.evaluate(program, tests))

        def run(programs: int, round_: int) -> list[float]:
            codes = [_distinct(number, round_, program) for number in range(programs)]
            with ThreadPoolExecutor(workers) as threads:

                def one(code: str) -> float:
                    began = time.monotonic()
                    result = judge.evaluate(code, tests)
                    _check(all(result["passing"]), result)
                    return time.monotonic() - began

                return list(threads.map(one, codes))

        yield run


@contextlib.contextmanager
def service(send: Callable[[Any], Any], clients: int) -> Iterator[Run]:
    """The running service asked through `send`, in requests of `BATCH` programs by `clients` at once."""
    _warm(lambda: send([{"code": PROGRAM, "test_cases": TRIVIAL}]))

    def run(programs: int, round_: int) -> list[float]:
        codes = [_distinct(number, round_) for number in range(programs)]
        batches = [codes[at : at + BATCH] for at in range(0, programs, BATCH)]

        def one(batch: list[str]) -> float:
            began = time.monotonic()
            results = send([{"code": code, "test_cases": TRIVIAL} for code in batch])
            _check(all(all(result["passing"]) for result in results), results)
            return time.monotonic() - began

        with ThreadPoolExecutor(clients) as threads:
            return list(threads.map(one, batches))

    yield run


@contextlib.contextmanager
def serve_application(workers: int) -> Iterator[tuple[Callable[[Any], Any], Callable[[Any], Any]]]:
    """A Ray of our own with the service on it: how to ask it through a handle, and over HTTP."""
    import tempfile
    import urllib.request

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
            handle = serve.run(
                app(Settings(replicas=1, workers=workers, shared_verdicts=False)),
                name="evaluator", route_prefix="/evaluator",
            )  # fmt: skip

            def by_handle(request: Any) -> Any:
                return handle.remote(request).result(timeout_s=600)

            def by_http(request: Any) -> Any:
                url, headers = f"http://127.0.0.1:{port}/evaluator", {"Content-Type": "application/json"}
                post = urllib.request.Request(url, json.dumps(request).encode(), headers)
                with urllib.request.urlopen(post, timeout=600) as response:
                    return json.load(response)

            yield by_handle, by_http
        finally:
            serve.shutdown()
            ray.shutdown()


def _distinct(number: int, round_: int, program: str = PROGRAM) -> str:
    return f"{program}# {round_} {number}\n"


def _warm(run: Callable[[], object]) -> None:
    for _ in range(2):
        run()


def _check(right: bool, facts: object) -> None:
    if not right:
        raise WrongVerdict(f"a right program was judged wrong: {str(facts)[:500]}")
