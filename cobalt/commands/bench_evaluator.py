"""Measure the evaluator on this machine, beside other ways of running the same tests, in turn and in one run.

CPU is that of the whole process tree (the service's processes included), measured between rounds, when every
child has ended and its time stands in its parent's account.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from importlib.util import find_spec

from cobalt.cli import make_progress, parser, positive_int
from cobalt.commands import bench_ways, measured
from cobalt.commands.bench_ways import BATCH, TESTS, Run
from cobalt.sandbox.policy import LEVELS, package_paths

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
    tests = way.programs * way.tests
    points = sorted(1000 * each for each in took)
    return Rate(
        way.name,
        round(tests / wall, 1),
        round(1000 * cpu / tests, 2),
        round(statistics.median(points), 1),
        round(points[min(len(points) - 1, int(0.99 * len(points)))], 1),
    )


def medians(rates: list[Rate]) -> list[Rate]:
    """The median round of each way, figure by figure, in the order of first appearance."""
    names = list(dict.fromkeys(rate.way for rate in rates))
    result = []
    for name in names:
        mine = [asdict(rate) for rate in rates if rate.way == name]
        figures = {key: statistics.median(each[key] for each in mine) for key in mine[0] if key != "way"}
        result.append(Rate(name, **figures))
    return result


def table(rates: list[Rate]) -> str:
    """Medians as text; the last column is the rate relative to a plain interpreter per test."""
    rows = medians(rates)
    base = next((rate.tests_per_s for rate in rows if rate.way == "plain"), None)
    width = max(len(rate.way) for rate in rows)
    head = f"{'way':<{width}} {'tests/s':>9} {'CPU ms/test':>12} {'p50 ms':>9} {'p99 ms':>9} {'x plain':>8}"
    lines = [head]
    for rate in rows:
        ratio = f"{rate.tests_per_s / base:8.2f}" if base else ""
        lines.append(
            f"{rate.way:<{width}} {rate.tests_per_s:>9.1f} {rate.cpu_ms_per_test:>12.2f} {rate.p50_ms:>9.1f} "
            f"{rate.p99_ms:>9.1f} {ratio}"
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser(
        f"Tests per second and CPU per trivial test ({TESTS} tests a program), beside a fresh interpreter "
        "per test, the least that a fork per test costs, and verl's own scorer. All ways take turns."
    )
    flags.add_argument("--programs", type=positive_int, default=32, help="programs a round")
    flags.add_argument("--rounds", type=positive_int, default=3, help="rounds; medians are shown")
    flags.add_argument("--workers", type=positive_int, default=1, help="evaluator workers")
    flags.add_argument(
        "--levels", nargs="*", default=["namespaces", "landlock", "none"], choices=LEVELS, help="isolation"
    )
    flags.add_argument("--no_service", action="store_true", help="leave out Ray Serve")
    flags.add_argument(
        "--clients", type=positive_int, nargs="+", default=[1, 8, 64],
        help=f"clients of the service at once, each with requests of {BATCH} programs",
    )  # fmt: skip
    measured.output_flag(flags)
    args = flags.parse_args(argv)
    rates: list[Rate] = []
    with contextlib.ExitStack() as stack:
        ways = _open(stack, args.levels, args.workers, args.programs)
        _rounds(ways, args.rounds, rates)
    if not args.no_service:
        with contextlib.ExitStack() as stack:
            ways = _open_service(stack, args.workers, args.clients, args.programs)
            _rounds(ways, args.rounds, rates)
    print(table(rates))
    facts = {
        "cpus": len(os.sched_getaffinity(0)),
        "workers": args.workers,
        "tests_per_program": TESTS,
        "medians": [asdict(rate) for rate in medians(rates)],
        "rounds": [asdict(rate) for rate in rates],
    }
    measured.write(args.output, "evaluator", facts)
    return 0


def _open(stack: contextlib.ExitStack, levels: list[str], workers: int, programs: int) -> list[Way]:
    def way(name: str, opened: AbstractContextManager[Run], count: int, tests: int = TESTS) -> Way:
        return Way(name, stack.enter_context(opened), count, tests)

    few = max(1, programs // 4)
    ways = [
        way("plain", bench_ways.plain(), few),
        way("bare os.fork", bench_ways.fork(), programs),
    ]
    if find_spec("verl"):
        ways.append(way("verl prime_code", bench_ways.prime_code(), few))
    ways += [way(level, bench_ways.evaluator(level, workers), programs) for level in levels]
    if levels:
        long = partial(bench_ways.evaluator, program=_LONG_PROGRAM, tests=_LONG)
        ways.append(way(f"{levels[0]}, 2 MB of output", long(levels[0], workers), few, 4))
    if levels and package_paths(["numpy"]):
        heavy = partial(bench_ways.evaluator, program=_HEAVY_PROGRAM)
        ways.append(way(f"{levels[0]}, import numpy", heavy(levels[0], workers), few))
    return ways


def _open_service(stack: contextlib.ExitStack, workers: int, clients: list[int], programs: int) -> list[Way]:
    by_handle, by_http = stack.enter_context(bench_ways.serve_application(workers))
    # In process beside the service, so that their ratio is of the same minutes.
    ways = [Way("auto, in process", stack.enter_context(bench_ways.evaluator("auto", workers)), programs)]
    send: Callable[[object], object]
    for name, send in (("handle", by_handle), ("HTTP", by_http)):
        for count in clients:
            run = stack.enter_context(bench_ways.service(send, count))
            ways.append(Way(f"Serve by {name}, {count} clients", run, max(programs, count * BATCH // 4)))
    return ways


def _rounds(ways: list[Way], rounds: int, rates: list[Rate]) -> None:
    with make_progress() as progress:
        for number in range(rounds):
            for place, way in enumerate(ways, 1):
                rates.append(measure(way, number))
                progress.advance("measured", number * len(ways) + place, rounds * len(ways), way=way.name)


if __name__ == "__main__":
    from cobalt.cli import run_main

    run_main(main)
