"""Trajectories per hour of the published design and of ours, on the same engine and the same work.

The published design: two tasks at once; the samples of a task are one batch; the engine takes one batch at a
time (two engines, in the published setting, so one for each task); all tests of a turn are waited for before
the next turn begins. Both designs sample the same conversations with the same seeds. On a real engine ours
lets equal programs of a task share a verdict, as its commands do; the published design runs each.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import random
import statistics
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import measured
from simulated_engine import MODEL, Engine, running

from cobalt.cli import parser, positive_int, run_main
from cobalt.engines import ENGINES, check, connect
from cobalt.engines.base import ChatEngine, Completion
from cobalt.errors import InfraError
from cobalt.evaluator import LocalEvaluator
from cobalt.evaluator.feedback import first_failure
from cobalt.output import write_jsonl
from cobalt.prompts import DEFAULT, load
from cobalt.rollouts.inputs import shown_tests
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rollouts.trajectory import Trajectory, read_response, usage, verdict
from cobalt.rows import Row, read_rows
from cobalt.schema import ExecutionResult
from cobalt.tasks import tiny
from cobalt.testcases import TestCases

FEEDBACK = "Input:\n1\nProgram's Output:\n2\nExpected Output:\n3"
TASKS_AT_ONCE, TESTS_AT_ONCE = 2, 64


class SimulatedEvaluator:
    """Verdicts by a hash of program and tests, after a log-normal time (median 1 s of the engine's clock)."""

    name = isolation = "simulated"

    def __init__(self, scale: float) -> None:
        self.counters: dict[str, Any] = {}
        self._scale, self._slots = scale, asyncio.Semaphore(TESTS_AT_ONCE)

    async def aevaluate(self, code: str | None, test_cases: Any) -> ExecutionResult:
        tests = TestCases.parse(test_cases)
        rng = random.Random(hashlib.sha256(repr((code, tests.inputs)).encode()).digest())
        async with self._slots:
            await asyncio.sleep(rng.lognormvariate(0.0, 0.5) / self._scale)
        return {
            "passing": [rng.random() < 0.3 for _ in tests.inputs], "feedback": [FEEDBACK] * len(tests),
            "status": "ok", "per_test": [], "suite_limit": False, "shared": False,
        }  # fmt: skip


async def published(
    engine: ChatEngine, evaluator: Any, rows: list[Row], settings: MultiTurnSettings, replicas: int
) -> int:
    """The published loop; `replicas` batches may be in the engine at a time. Returns all tokens sampled."""
    tasks, tests_slots = asyncio.Semaphore(TASKS_AT_ONCE), asyncio.Semaphore(TESTS_AT_ONCE)
    replica = asyncio.Semaphore(replicas)
    tokens = 0

    async def batch(requests: list[Any]) -> list[Completion]:
        nonlocal tokens
        async with replica:
            made = [each for got in await asyncio.gather(*requests) for each in got]
        tokens += sum(each.completion_tokens for each in made)
        return made

    async def judged(code: str | None, tests: TestCases) -> ExecutionResult:
        async with tests_slots:
            return await verdict(evaluator, code, tests)

    async def one(row: Row) -> None:
        tests, key = shown_tests(row, settings.tests, f"task {row['id']!r}"), row["id"]
        samples = [Trajectory(settings.prompts.messages(row["instruction"])) for _ in range(settings.samples)]
        for turn in range(settings.turns):
            requests = [engine.chat(samples[0].messages, settings.first(key, len(samples)))]
            if turn:
                requests = [
                    engine.chat(each.messages, settings.later(key, number, turn))
                    for number, each in enumerate(samples)
                ]
            responses = [
                read_response(each.text, settings, each.finish_reason, usage(each))
                for each in await batch(requests)
            ]
            results = await asyncio.gather(*(judged(response.code, tests) for response in responses))
            for each, response, result in zip(samples, responses, results, strict=True):
                shown = settings.prompts.no_code if response.code is None else first_failure(result)
                each.pending = response
                each.add(result, settings.prompts.feedback_message(shown))

    async def bounded(row: Row) -> None:
        async with tasks:
            await one(row)

    await asyncio.gather(*(bounded(row) for row in rows))
    return tokens


async def ours(
    engine: ChatEngine, evaluator: Any, source: Path, settings: MultiTurnSettings, concurrency: int
) -> int:
    """The run behind the commands, files and journal included. Returns all tokens sampled."""
    output = source.with_name("out.jsonl")
    summary = await multi_turn(source, output, engine, evaluator, settings, concurrency=concurrency)
    if summary.failed:
        raise InfraError(f"{summary.failed} tasks failed")
    used = (each for _, row in read_rows(output) for turn in row["usage"] for each in turn)
    return sum(each["completion_tokens"] for each in used)


def simulated_tasks(count: int) -> list[Row]:
    """Tasks with statements of some length and three public tests."""
    tests = TestCases(["1\n"] * 3, ["1\n"] * 3).to_json()
    statements = [DEFAULT.wrap(f"Task {i}. " + "Read numbers. " * 40) for i in range(count)]
    return [{"id": i, "instruction": text, "public_test_cases": tests} for i, text in enumerate(statements)]


@contextlib.asynccontextmanager
async def opened(
    args: argparse.Namespace, sharing: bool
) -> AsyncIterator[tuple[ChatEngine, Any, MultiTurnSettings]]:
    """Engine, evaluator (with shared verdicts if `sharing`) and settings of one measurement."""
    settings = MultiTurnSettings(n=args.samples, turns=args.turns, first_turn=True)
    with contextlib.ExitStack() as stack:
        evaluator: Any = SimulatedEvaluator(args.scale)
        if args.engine == "simulated":
            url = stack.enter_context(running(Engine(args.slots, args.rate, args.scale)))
            engine = connect("openai", MODEL, url)
        else:
            engine = connect(args.engine, args.model_name, args.base_url)
            evaluator = stack.enter_context(LocalEvaluator(args.workers, shared_verdicts=sharing))
            settings = MultiTurnSettings(
                temperature=1.0, max_tokens=128, prompts=load("tiny"), n=args.samples, turns=args.turns,
                first_turn=True,
            )  # fmt: skip
        try:
            await check(engine)
            yield engine, evaluator, settings
        finally:
            await engine.aclose()


async def measure(args: argparse.Namespace, design: str, folder: Path) -> dict[str, Any]:
    """One design on an engine of its own: trajectories, tokens, seconds from first request to last row."""
    source = folder / "heldout.jsonl"
    if args.engine == "simulated":
        write_jsonl(source, simulated_tasks(args.tasks))
    else:
        tiny.write_splits(folder, seed=0, train=1, dev=1, heldout=args.tasks)
    replicas = 1 if args.engine == "transformers" else TASKS_AT_ONCE  # one model in this process
    async with opened(args, design == "ours") as (engine, evaluator, settings):
        rows, began = [row for _, row in read_rows(source)], time.monotonic()
        if design == "ours":
            tokens = await ours(engine, evaluator, source, settings, args.concurrency)
        else:
            tokens = await published(engine, evaluator, rows, settings, replicas)
        wall_s = time.monotonic() - began
    return {
        "design": design, "trajectories": len(rows) * settings.samples, "tokens": tokens, "wall_s": wall_s,
    }  # fmt: skip


def report(args: argparse.Namespace, rounds: list[dict[str, Any]]) -> None:
    """Print the table and the ratio."""
    print(f"{'design':<12}{'trajectories/h':>16}{'tokens/s':>12}{'wall s':>10}   medians of {args.rounds}")
    rates = {}
    for design in ("published", "ours"):
        mine = [each for each in rounds if each["design"] == design]
        rates[design] = statistics.median(3600 * each["trajectories"] / each["wall_s"] for each in mine)
        tokens = statistics.median(each["tokens"] / each["wall_s"] for each in mine)
        wall = statistics.median(each["wall_s"] for each in mine)
        print(f"{design:<12}{rates[design]:>16.0f}{tokens:>12.0f}{wall:>10.1f}")
        if args.engine == "simulated":
            saturated = Engine(args.slots, args.rate, args.scale).tokens_per_s
            print(f"{'':<12}{100 * tokens / saturated:.1f} % of the saturated rate")
    print(f"ours / published: {rates['ours'] / rates['published']:.2f}")


def main(argv: list[str] | None = None) -> int:
    """Both designs in turn, `--rounds` times; returns the exit code."""
    flags = parser("Trajectories per hour: the published design against this one, same engine, same work.")
    flags.add_argument("--engine", choices=("simulated", *ENGINES), default="simulated", help="what samples")
    flags.add_argument("--model_name", default="models/tiny-reference", help="of engines with a model")
    flags.add_argument("--base_url", help="of engines behind a URL")
    flags.add_argument("--tasks", type=positive_int, default=24, help="tasks")
    flags.add_argument("--samples", type=positive_int, default=16, help="samples per task")
    flags.add_argument("--turns", type=positive_int, default=9, help="programs per trajectory")
    flags.add_argument("--concurrency", type=positive_int, default=256, help="completions in flight (ours)")
    flags.add_argument("--slots", type=positive_int, default=64, help="simulated: sequences at once")
    flags.add_argument("--rate", type=float, default=40.0, help="simulated: tokens/s of a sequence")
    flags.add_argument("--scale", type=float, default=100.0, help="simulated: how much faster its clock runs")
    flags.add_argument("--workers", type=positive_int, default=2, help="evaluator workers of real engines")
    flags.add_argument("--rounds", type=positive_int, default=1, help="rounds; medians are shown")
    measured.output_flag(flags)
    args = flags.parse_args(argv)
    rounds = []
    for _ in range(args.rounds):
        for design in ("published", "ours"):
            with tempfile.TemporaryDirectory() as folder:
                rounds.append(asyncio.run(measure(args, design, Path(folder))))
    report(args, rounds)
    facts = {name: getattr(args, name) for name in ("engine", "tasks", "samples", "turns", "concurrency")}
    model = MODEL if args.engine == "simulated" else args.model_name
    measured.write(args.output, "inference", {"model": model, **facts, "rounds": rounds})
    return 0


if __name__ == "__main__":
    run_main(main)
