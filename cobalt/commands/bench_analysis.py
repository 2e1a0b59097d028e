"""Measure evaluation beside the bare evaluator, and the report, on made trajectories of a given size."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cobalt.cli import parser, positive_int
from cobalt.commands.bench_evaluator import Way, measure, medians
from cobalt.commands.bench_ways import TESTS, TRIVIAL, Run
from cobalt.commands.bench_ways import evaluator as bare_evaluator
from cobalt.prompts import DEFAULT
from cobalt.rows import Row, encode_row

_WORDS = [
    "read",
    "each",
    "value",
    "keep",
    "them",
    "in",
    "a",
    "list",
    "then",
    "sort",
    "it",
    "because",
    "order",
]
_HIDDEN = TESTS - 3


def make(path: Path, tasks: int, samples: int, turns: int, distinct: int, *, evaluated: bool) -> int:
    """Write trajectories of programs that add two numbers, `distinct` different ones per task (0: all are),
    with 17 hidden and 3 public tests. Returns the number of distinct (task, program) pairs.
    """
    rng, pairs = random.Random(0), 0
    with open(path, "wb") as handle:
        for task in range(tasks):
            pool = [_program(rng, task, i) for i in range(distinct or samples * turns)]
            order = pool if not distinct else [*pool, *rng.choices(pool, k=samples * turns - distinct)]
            rng.shuffle(order)
            pairs += len(pool)
            handle.write(encode_row(_row(rng, task, samples, turns, order, evaluated)))
    return pairs


def _program(rng: random.Random, task: int, number: int) -> str:
    lines = [f"# {task} {number}", "print(sum(map(int, input().split())))"]
    return "\n".join([*lines, *(f"# {_words(rng, 9)}" for _ in range(25))])


def _words(rng: random.Random, count: int) -> str:
    return " ".join(rng.choices(_WORDS, k=count))


def _row(
    rng: random.Random, task: int, samples: int, turns: int, programs: list[str], evaluated: bool
) -> Row:
    tests = {
        "inputs": [f"{i} {task}" for i in range(TESTS)],
        "outputs": [str(i + task) for i in range(TESTS)],
    }
    public, hidden = ({k: v[part] for k, v in tests.items()} for part in (slice(3), slice(3, None)))
    said = [
        f"Input:\n{i}\nProgram's Output:\n{o}\nExpected Output:\n{o}"
        for i, o in zip(*public.values(), strict=True)
    ]
    conversations, rates = [], []
    for sample in range(samples):
        messages: list[Any] = DEFAULT.messages(DEFAULT.wrap(f"Add. {_words(rng, 120)}"))
        for turn in range(turns):
            code = programs[sample * turns + turn]
            text = f"{_words(rng, 60)}\n```python\n{code}\n```"
            messages += [
                {"role": "assistant", "content": text},
                {"role": "user", "content": DEFAULT.feedback_message(said[0])},
            ]
        conversations.append(messages)
        rates.append([rng.choice([0.0, 0.5, 1.0]) for _ in range(turns)])
    row: Row = {
        "id": task, "difficulty": ("easy", "medium", "hard")[task % 3],
        "public_test_cases": json.dumps(public), "hidden_test_cases": json.dumps(hidden),
        "conversations": conversations,
    }  # fmt: skip
    if evaluated:
        result = {"passing": [True] * 3, "feedback": said, "status": "ok"}
        thinking = [[f"{_words(rng, 400)}</think>" for _ in range(samples)] for _ in range(turns)]
        row |= {
            "raw_responses": thinking, "public_exec_results": [[result] * samples] * turns,
            "all_pass_rates": rates, "exec_status": [["ok"] * turns] * samples,
        }  # fmt: skip
    return row


@contextlib.contextmanager
def evaluation(source: Path, folder: Path, workers: int, tests: int) -> Iterator[Run]:
    """Evaluation of `source` by a warm evaluator that remembers nothing, so that only the stage shares."""
    from cobalt.analysis.hidden_tests import hidden_tests
    from cobalt.evaluator import LocalEvaluator

    with LocalEvaluator(workers, shared_verdicts=False) as judge:
        judge.evaluate("print(1)", {"inputs": [""], "outputs": ["1"]})

        def run(programs: int, round_: int) -> list[float]:
            before, began = judge.counters["tests"], time.monotonic()
            done = asyncio.run(hidden_tests(source, folder / f"evaluated{round_}.jsonl", judge))
            ran = judge.counters["tests"] - before
            if ran != tests or done.exit_code or done.summary["pass_at_1"][0] != 1:
                raise RuntimeError(f"{ran} tests were run instead of {tests}, or right programs failed")
            return [time.monotonic() - began]

        yield run


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt bench analysis`; returns the exit code."""
    flags = parser(
        "Tests per second of an evaluation beside those of the bare evaluator (in turns, as many distinct "
        "tests), and seconds and bytes of a report."
    )
    flags.add_argument("--tasks", type=positive_int, default=175, help="of the report")
    flags.add_argument("--eval_tasks", type=positive_int, default=5, help="of the evaluation")
    flags.add_argument("--samples", type=positive_int, default=16, help="per task")
    flags.add_argument("--turns", type=positive_int, default=9, help="per trajectory")
    flags.add_argument("--distinct", type=positive_int, default=40, help="different programs of a task")
    flags.add_argument("--rounds", type=positive_int, default=3, help="rounds; the median is shown")
    flags.add_argument("--workers", type=positive_int, default=1, help="evaluator workers")
    args = flags.parse_args(argv)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "trajectories.jsonl"
        pairs = make(source, args.eval_tasks, args.samples, args.turns, args.distinct, evaluated=False)
        part = {name: values[:_HIDDEN] for name, values in TRIVIAL.items()}
        with (
            bare_evaluator("auto", args.workers, tests=part) as bare,
            evaluation(source, folder, args.workers, pairs * _HIDDEN) as ours,
        ):
            ways = [Way("evaluator", bare, pairs, _HIDDEN), Way("evaluation", ours, pairs, _HIDDEN)]
            rates = [measure(way, number) for number in range(args.rounds) for way in ways]
        bare_rate, our_rate = medians(rates)
        for rate in (bare_rate, our_rate):
            print(f"{rate.way:<12}{rate.tests_per_s:>9.1f} tests/s{rate.cpu_ms_per_test:>9.2f} CPU ms/test")
        programs = args.eval_tasks * args.samples * args.turns
        speed = our_rate.tests_per_s / bare_rate.tests_per_s
        cpu = our_rate.cpu_ms_per_test / bare_rate.cpu_ms_per_test
        print(f"{programs} programs, {pairs} distinct: {speed:.2f} of the bare rate, {cpu:.2f} of its CPU")
        _report(args, folder)
    print(f"load {os.getloadavg()[0]:.1f}")
    return 0


def _report(args: Any, folder: Path) -> None:
    from cobalt.report.build import build

    source = folder / "big_eval.jsonl"
    make(source, args.tasks, args.samples, args.turns, 0, evaluated=True)
    began, used = time.monotonic(), time.process_time()
    build([str(source)], folder / "report")
    wall, cpu = time.monotonic() - began, time.process_time() - used
    every = [path.stat().st_size for path in (folder / "report").rglob("*") if path.is_file()]
    first = sum((folder / "report" / path).stat().st_size for path in ("index.html", "data/index.js"))
    size = f"{args.tasks} x {args.samples} x {args.turns} programs ({source.stat().st_size / 1e6:.0f} MB)"
    print(
        f"report of {size}: {wall:.1f} s wall, {cpu:.1f} s CPU; {first / 1e6:.2f} MB at load, "
        f"{sum(every) / 1e6:.0f} MB in all"
    )
