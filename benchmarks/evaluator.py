"""Measure the evaluator on this machine, beside other ways of running the same tests, in turn and in one run.

    python benchmarks/evaluator.py [--programs N] [--rounds N] [--workers N] [--json FILE]

CPU is that of the whole process tree (the service's processes included), measured between rounds, when every
child has ended and its time stands in its parent's account.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from typing import Any

import measured
from ways import BATCH, TESTS, Run, each_test, fork, local, plain, prime_code, serve_application, service

from cobalt.cli import make_progress, parser, positive_int, run_main
from cobalt.sandbox.limits import LEVELS, package_paths

_LONG = {"inputs": ["1 1"] * 4, "outputs": ["1 1\n" * 500_000] * 4}
_HEAVY_PROGRAM = "import numpy\nprint(int(numpy.sum(list(map(int, input().split())))))\n"
_LONG_PROGRAM = "print((input() + '\\n') * 500_000)\n"


@dataclass(frozen=True)
class Rate:
    """One round of one way. CPU milliseconds include all processes; latency is that of a request."""

    way: str
    tests_per_s: float
    cpu_ms_per_test: float
    p50_ms: float
    p99_ms: float


@dataclass
class Way:
    """A way to run tests, opened once, and what a round of it is."""

    name: str
    run: Run
    programs: int
    tests: int = TESTS


def cpu_seconds() -> float:
    """CPU seconds of this process, of those below it that run, and of all that these have waited for."""
    import psutil

    total, me = 0.0, psutil.Process()
    for process in [me, *me.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def measure(way: Way, round_: int) -> Rate:
    """One round."""
    cpu, began = cpu_seconds(), time.monotonic()
    took = way.run(way.programs, round_)
    wall, cpu = time.monotonic() - began, cpu_seconds() - cpu
    tests, points = way.programs * way.tests, sorted(1000 * each for each in took)
    last = points[min(len(points) - 1, int(0.99 * len(points)))]
    figures = (tests / wall, 1), (1000 * cpu / tests, 2), (statistics.median(points), 1), (last, 1)
    return Rate(way.name, *(round(value, digits) for value, digits in figures))


def medians(rates: list[Rate]) -> list[Rate]:
    """The median round of each way, figure by figure, in the order of first appearance."""
    result = []
    for name in dict.fromkeys(rate.way for rate in rates):
        mine = [asdict(rate) for rate in rates if rate.way == name]
        figures = {key: statistics.median(each[key] for each in mine) for key in mine[0] if key != "way"}
        result.append(Rate(name, **figures))
    return result


def table(rates: list[Rate]) -> str:
    """Medians as text; the last column is the rate relative to a plain interpreter per test."""
    rows = medians(rates)
    base = next((rate.tests_per_s for rate in rows if rate.way == "plain"), None)
    width = max(len(rate.way) for rate in rows)
    lines = [
        f"{'way':<{width}} {'tests/s':>9} {'CPU ms/test':>12} {'p50 ms':>9} {'p99 ms':>9} {'x plain':>8}"
    ]
    for rate in rows:
        ratio = f"{rate.tests_per_s / base:8.2f}" if base else ""
        figures = (
            f"{rate.tests_per_s:>9.1f} {rate.cpu_ms_per_test:>12.2f} {rate.p50_ms:>9.1f} {rate.p99_ms:>9.1f}"
        )
        lines.append(f"{rate.way:<{width}} {figures} {ratio}")
    return "\n".join(lines)


def rounds(ways: list[Way], count: int) -> Iterator[Rate]:
    """All ways in turn, `count` times."""
    with make_progress() as progress:
        for number in range(count):
            for place, way in enumerate(ways, 1):
                yield measure(way, number)
                progress.advance("measured", number * len(ways) + place, count * len(ways), way=way.name)


def _in_process(levels: list[str], workers: int, programs: int) -> Iterable[tuple[Any, ...]]:
    """(name, way, programs a round, tests of a program)."""
    few = max(1, programs // 4)
    yield "plain", plain(), few, TESTS
    yield "bare os.fork", fork(), programs, TESTS
    if find_spec("verl"):
        yield "verl prime_code", prime_code(), few, TESTS
    for level in levels:
        yield level, local(level, workers), programs, TESTS
    if levels:
        long = local(levels[0], workers, program=_LONG_PROGRAM, tests=_LONG)
        yield f"{levels[0]}, 2 MB of output", long, few, 4
    if levels and package_paths(["numpy"]):
        heavy = local(levels[0], workers, program=_HEAVY_PROGRAM, packages=("numpy",))
        yield f"{levels[0]}, import numpy", heavy, few, TESTS


def _over_http(send: Callable[..., Any], clients: list[int], programs: int) -> Iterable[tuple[Any, ...]]:
    """As `_in_process`: our route by programs and by tests, SandboxFusion's by tests; the same programs."""
    for count in clients:
        yield f"HTTP, {BATCH} programs a request, {count} clients", service(send, count), programs, TESTS
        for name, fusion in (("HTTP", False), ("SandboxFusion's route", True)):
            way = each_test(send, count, fusion=fusion)
            yield f"{name}, a test a request, {count} clients", way, programs, TESTS


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser(
        f"Tests per second and CPU per trivial test ({TESTS} tests a program), beside a fresh interpreter "
        "per test, the least that a fork per test costs, and verl's own scorer. All ways take turns."
    )
    flags.add_argument("--programs", type=positive_int, default=32, help="programs a round")
    flags.add_argument("--rounds", type=positive_int, default=3, help="rounds; medians are shown")
    flags.add_argument("--workers", type=positive_int, default=1, help="evaluator workers")
    flags.add_argument("--levels", nargs="*", default=list(LEVELS), choices=LEVELS, help="isolation")
    flags.add_argument("--no_service", action="store_true", help="leave out Ray Serve")
    said = "only our HTTP route, and beside it SandboxFusion's, also with one test of a program in a request"
    flags.add_argument("--each_test", action="store_true", help=said)
    said = f"clients of the service at once, each with requests of {BATCH} programs"
    flags.add_argument("--clients", type=positive_int, nargs="+", default=[1, 8, 64], help=said)
    measured.output_flag(flags)
    args = flags.parse_args(argv)
    rates: list[Rate] = []

    def run(asked: Iterable[tuple[str, AbstractContextManager[Run], int, int]]) -> None:
        with ExitStack() as stack:
            ways = [Way(name, stack.enter_context(way), *more) for name, way, *more in asked]
            rates.extend(rounds(ways, args.rounds))

    if args.each_test:
        with serve_application(args.workers) as doors:
            run(_over_http(doors["HTTP"], args.clients, args.programs))
    else:
        run(_in_process(args.levels, args.workers, args.programs))
    if not (args.no_service or args.each_test):
        with serve_application(args.workers) as doors:
            # In process beside the service, so that their ratio is of the same minutes.
            beside = [("auto, in process", local("auto", args.workers), args.programs, TESTS)]
            asked = [
                (
                    f"Serve by {name}, {count} clients",
                    service(send, count),
                    max(args.programs, count * BATCH // 4),
                    TESTS,
                )
                for name, send in doors.items()
                for count in args.clients
            ]
            run(beside + asked)
    print(table(rates))
    facts = {
        "cpus": len(os.sched_getaffinity(0)), "workers": args.workers, "tests_per_program": TESTS,
        "medians": [asdict(rate) for rate in medians(rates)], "rounds": [asdict(rate) for rate in rates],
    }  # fmt: skip
    measured.write(args.output, "evaluator", facts)
    return 0


if __name__ == "__main__":
    run_main(main)
