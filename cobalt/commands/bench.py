"""Measure the evaluator on this machine: tests per second and CPU per test, beside a plain interpreter."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial

from cobalt.evaluator import LocalEvaluator
from cobalt.flags import parser, positive_int
from cobalt.records import TestCases
from cobalt.run.meter import Meter

TESTS = 20
PROGRAM = "print(sum(map(int, input().split())))\n"


@dataclass(frozen=True)
class Rate:
    """One round of one way: wall rate and CPU milliseconds per test, children included."""

    way: str
    tests_per_s: float
    cpu_ms_per_test: float


def measure(way: str, run: Callable[[], int]) -> Rate:
    """Time ``run``, which returns the number of tests it ran; CPU is that of the whole process tree."""
    with Meter(0.02) as meter:
        before = meter.usage()
        tests = run()
        after = meter.usage()
    return Rate(
        way,
        round(tests / (after.wall_s - before.wall_s), 1),
        round(1000 * (after.cpu_s - before.cpu_s) / tests, 2),
    )


def evaluator(level: str, workers: int, programs: int, round_: int) -> int:
    """Distinct trivial programs with ``TESTS`` tests each; its start and its end are counted too."""
    cases = TestCases([f"{i} 1" for i in range(TESTS)], [str(i + 1) for i in range(TESTS)])
    code = [(f"{PROGRAM}# {round_} {i}\n", cases) for i in range(programs)]
    with LocalEvaluator(workers, isolation=level) as judge:
        for result in judge.evaluate_many(code):
            if not all(result["passing"]):
                raise RuntimeError(f"the evaluator judged a right program wrong: {result}")
    return programs * TESTS


def plain(tests: int) -> int:
    """A fresh ``python -I -S`` for every test, one after another."""
    for i in range(tests):
        ran = subprocess.run(
            [sys.executable, "-I", "-S", "-c", PROGRAM], input=f"{i} 1", capture_output=True, text=True
        )
        if ran.stdout != f"{i + 1}\n":
            raise RuntimeError(f"the plain interpreter printed {ran.stdout!r}")
    return tests


def main(argv: list[str] | None = None) -> int:
    """The command line of `make bench`; returns the exit code."""
    flags = parser("Tests per second and CPU per trivial test, beside a fresh interpreter per test.")
    flags.add_argument(
        "--programs", type=positive_int, default=30, help=f"programs a round, {TESTS} tests each"
    )
    flags.add_argument("--rounds", type=positive_int, default=3, help="rounds; the median is shown")
    flags.add_argument("--workers", type=positive_int, default=1, help="evaluator workers")
    flags.add_argument("--levels", nargs="+", default=["namespaces", "landlock"], help="isolation levels")
    flags.add_argument("-o", "--output", help="write every round as JSON to this file")
    args = flags.parse_args(argv)
    rates: list[Rate] = []
    for number in range(args.rounds):
        for level in args.levels:
            rates.append(measure(level, partial(evaluator, level, args.workers, args.programs, number)))
        rates.append(measure("plain", partial(plain, args.programs * TESTS // 5)))
    print(f"{'way':<12}{'tests/s':>10}{'CPU ms/test':>14}   median of {args.rounds} rounds")
    for way in [*args.levels, "plain"]:
        mine = [rate for rate in rates if rate.way == way]
        speed = statistics.median(rate.tests_per_s for rate in mine)
        cost = statistics.median(rate.cpu_ms_per_test for rate in mine)
        print(f"{way:<12}{speed:>10.1f}{cost:>14.2f}")
    if args.output:
        from cobalt.files import atomic_write

        atomic_write(args.output, json.dumps([asdict(rate) for rate in rates], indent=2) + "\n")
    return 0


if __name__ == "__main__":
    from cobalt.flags import run_main

    run_main(main)
