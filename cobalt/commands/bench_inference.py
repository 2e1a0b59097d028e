"""Trajectories per hour of the published design and of ours, on the same engine and the same work.

The published design: two tasks at once; the samples of a task are one batch; the engine takes one batch at a
time (two engines, in the published setting, so one for each task); all tests of a turn are waited for before
the next turn begins. Both designs sample the same conversations with the same seeds. On a real engine ours
lets equal programs of a task share a verdict, as its doors do; the published design runs each.
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
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cobalt.cli import parser, positive_int
from cobalt.commands import measured
from cobalt.engines import ENGINES, check, connect
from cobalt.engines.base import ChatEngine, Completion
from cobalt.engines.seeds import derive
from cobalt.engines.simulated import MODEL, Engine, running
from cobalt.errors import InfraError, InputError
from cobalt.output import write_jsonl
from cobalt.prompts import DEFAULT, load
from cobalt.rollouts.dialogue import Dialogue, Turn, read_response
from cobalt.rollouts.judging import shown_tests, verdict
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rollouts.work import usage
from cobalt.rows import Row, read_rows
from cobalt.schema import ExecutionResult
from cobalt.testcases import TestCases

FEEDBACK = "Input:\n1\nProgram's Output:\n2\nExpected Output:\n3"
TASKS_AT_ONCE, TESTS_AT_ONCE = 2, 64


@dataclass(frozen=True)
class Result:
    """One design on one engine. `tokens` of all completions; `wall_s` from first request to last row."""

    design: str
    trajectories: int
    tokens: int
    wall_s: float

    @property
    def per_hour(self) -> float:
        return 3600 * self.trajectories / self.wall_s

    @property
    def tokens_per_s(self) -> float:
        return self.tokens / self.wall_s


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
        passing = [rng.random() < 0.3 for _ in tests.inputs]
        return {
            "passing": passing, "feedback": [FEEDBACK] * len(tests),
            "status": "ok", "per_test": [], "suite_limit": False, "shared": False,
        }  # fmt: skip


async def published(
    engine: ChatEngine, evaluator: Any, rows: list[Row], settings: MultiTurnSettings, replicas: int
) -> Result:
    """The published loop; `replicas` batches may be in the engine at a time."""
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
        from cobalt.evaluator.feedback import first_failure

        tests = shown_tests(row, settings.tests, f"task {row['id']!r}")
        dialogues = [Dialogue(settings.prompts.messages(row["instruction"])) for _ in range(settings.samples)]
        for turn in range(settings.turns):
            if turn == 0:
                first = settings.first(row["id"], settings.samples)
                made = await batch([engine.chat(dialogues[0].messages, first)])
            else:
                seeds = [derive(settings.seed, row["id"], s, turn) for s in range(settings.samples)]
                made = await batch([
                    engine.chat(dialogue.messages, settings.sampling(1, seed))
                    for dialogue, seed in zip(dialogues, seeds, strict=True)
                ])  # fmt: skip
            responses = [read_response(c.text, settings, c.finish_reason, usage(c)) for c in made]
            results = await asyncio.gather(*(judged(response.code, tests) for response in responses))
            for dialogue, response, result in zip(dialogues, responses, results, strict=True):
                shown = settings.prompts.no_code if response.code is None else first_failure(result)
                dialogue.turns.append(Turn(response, result, settings.prompts.feedback_message(shown)))

    async def bounded(row: Row) -> None:
        async with tasks:
            await one(row)

    began = time.monotonic()
    await asyncio.gather(*(bounded(row) for row in rows))
    return Result("published", len(rows) * settings.samples, tokens, time.monotonic() - began)


async def ours(
    engine: ChatEngine, evaluator: Any, rows: list[Row], settings: MultiTurnSettings, concurrency: int
) -> Result:
    """The runner behind the doors, files and journal included."""
    with tempfile.TemporaryDirectory() as folder:
        source, output = Path(folder) / "tasks.jsonl", Path(folder) / "out.jsonl"
        write_jsonl(source, rows)
        began = time.monotonic()
        summary = await multi_turn(source, output, engine, evaluator, settings, concurrency=concurrency)
        wall_s = time.monotonic() - began
        if summary.failed:
            raise InfraError(f"{summary.failed} tasks failed")
        tokens = sum(
            each["completion_tokens"]
            for _, row in read_rows(output)
            for turn in row["usage"]
            for each in turn
        )
    return Result("ours", len(rows) * settings.samples, tokens, wall_s)


def simulated_tasks(count: int) -> list[Row]:
    """Tasks with statements of some length and three public tests."""
    tests = TestCases(["1\n"] * 3, ["1\n"] * 3).to_json()
    return [
        {
            "id": i,
            "instruction": DEFAULT.wrap(f"Task {i}. " + "Read numbers. " * 40),
            "public_test_cases": tests,
        }
        for i in range(count)
    ]


def tiny_tasks(count: int) -> list[Row]:
    """Tasks of the demo's family, those of its held-out split."""
    from cobalt.tasks import tiny

    with tempfile.TemporaryDirectory() as folder:
        tiny.write_splits(Path(folder), seed=0, train=1, dev=1, heldout=count)
        return [row for _, row in read_rows(Path(folder) / "heldout.jsonl")]


@contextlib.asynccontextmanager
async def opened(
    args: argparse.Namespace, sharing: bool
) -> AsyncIterator[tuple[ChatEngine, Any, list[Row], MultiTurnSettings]]:
    """Engine, evaluator (with shared verdicts if `sharing`), tasks and settings of one measurement."""
    more = {"n": args.samples, "turns": args.turns, "first_turn": True}
    with contextlib.ExitStack() as stack:
        evaluator: Any
        if args.engine == "simulated":
            url = stack.enter_context(running(_simulation(args)))
            engine = connect("openai", MODEL, url)
            evaluator = SimulatedEvaluator(args.scale)
            rows, settings = simulated_tasks(args.tasks), MultiTurnSettings(**more)
        else:
            from cobalt.evaluator import LocalEvaluator

            engine = connect(args.engine, args.model_name, args.base_url)
            evaluator = stack.enter_context(LocalEvaluator(args.workers, shared_verdicts=sharing))
            rows = tiny_tasks(args.tasks)
            settings = MultiTurnSettings(temperature=1.0, max_tokens=128, prompts=load("tiny"), **more)
        try:
            await check(engine)
            yield engine, evaluator, rows, settings
        finally:
            await engine.aclose()


def _simulation(args: argparse.Namespace) -> Engine:
    return Engine(slots=args.slots, rate=args.rate, scale=args.scale)


async def measure(args: argparse.Namespace) -> list[Result]:
    """Both designs, `rounds` times in turn, each with an engine of its own."""
    results = []
    for _ in range(args.rounds):
        for design in ("published", "ours"):
            async with opened(args, design == "ours") as (engine, evaluator, rows, settings):
                if design == "published":
                    one = args.engine == "transformers"  # one model in this process; elsewhere two replicas
                    results.append(
                        await published(engine, evaluator, rows, settings, 1 if one else TASKS_AT_ONCE)
                    )
                else:
                    results.append(await ours(engine, evaluator, rows, settings, args.concurrency))
    return results


def report(args: argparse.Namespace, results: list[Result]) -> Iterator[str]:
    """The table and the ratio, line by line."""
    yield f"{'design':<12}{'trajectories/h':>16}{'tokens/s':>12}{'wall s':>10}   medians of {args.rounds}"
    rates = {}
    for design in ("published", "ours"):
        mine = [each for each in results if each.design == design]
        rates[design] = statistics.median(each.per_hour for each in mine)
        tokens = statistics.median(each.tokens_per_s for each in mine)
        wall = statistics.median(each.wall_s for each in mine)
        yield f"{design:<12}{rates[design]:>16.0f}{tokens:>12.0f}{wall:>10.1f}"
        if args.engine == "simulated":
            yield f"{'':<12}{100 * tokens / _simulation(args).tokens_per_s:.1f} % of the saturated rate"
    yield f"ours / published: {rates['ours'] / rates['published']:.2f}"


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt bench inference`; returns the exit code."""
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
    if args.scale <= 0 or args.rate <= 0:
        raise InputError("--scale and --rate must be above 0")
    results = asyncio.run(measure(args))
    for line in report(args, results):
        print(line)
    facts = {
        "engine": args.engine,
        "model": MODEL if args.engine == "simulated" else args.model_name,
        **{name: getattr(args, name) for name in ("tasks", "samples", "turns", "concurrency")},
        "rounds": [asdict(each) for each in results],
    }
    measured.write(args.output, "inference", facts)
    return 0
