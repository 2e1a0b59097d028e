"""`cobalt eval`: from a model to its table. First programs, repairs and hidden tests by the functions of
their doors, into the files that the doors write.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.cli import HelpFormatter, Parser, Progress, parser
from cobalt.engines.own import engine_of
from cobalt.errors import InputError
from cobalt.evaluation.evaluate import HiddenTests, hidden_tests
from cobalt.evaluation.terminal import turn_table
from cobalt.evaluator.verdict_cache import VerdictCache
from cobalt.manifest import check_resume, read_manifest, write_manifest
from cobalt.output import write_jsonl
from cobalt.pipeline import Summary
from cobalt.prompts import load
from cobalt.rollouts.cli import PROVIDERS, carry_out, run_flags, sampling_given
from cobalt.rollouts.inputs import Source
from cobalt.rollouts.multi_turn import dialogue_flags, dialogue_given, multi_turn
from cobalt.rollouts.settings import Budget, MultiTurnSettings, RolloutSettings
from cobalt.rollouts.single_turn import check_row, single_turn
from cobalt.run.dialogues import complete as all_rows
from cobalt.tasks.own import is_perturbed
from cobalt.tasks.sets import SET_HELP, task_set

if TYPE_CHECKING:
    from cobalt.engines.base import ChatEngine
    from cobalt.evaluator.base import Evaluator

SAMPLES, TURNS = 4, 3

_ABOUT = """From a model to Pass@1 by turn, in one command: first programs, repairs on the feedback of
public tests, and the hidden tests of every program. Run it again to continue, or to see the table again."""

_EXAMPLES = """\
MODEL is one of
  http://localhost:8000     a server with an OpenAI-compatible API (vLLM, SGLang, llama.cpp, ...)
  models/tiny-reference     a folder in Hugging Face format, run in this process
  gpt-5-mini-2025-08-07     a provider's model, by LiteLLM's name; its key in the environment
  mine.py:Engine            an engine of your own (docs/howto/engine.md)
  Qwen/Qwen3-8B             a model of the hub, cached here; with --engine vllm one that is served

Tasks need 'id', 'question' or 'instruction', and 'test_cases' (docs/data.md; `cobalt data check FILE`).
Public and hidden tests are those that a row names; else its first four tests are public.

  cobalt eval http://localhost:8000 --tasks tasks.jsonl --limit 20 --dry_run    what it takes
  cobalt eval http://localhost:8000 --tasks tasks.jsonl -o before               the table, and its files
  cobalt compare before/multi_eval.jsonl after/multi_eval.jsonl                 two of them, paired by task
"""


class _Help(HelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Examples as they stand."""


async def evaluate_model(
    source: Source,
    folder: Path,
    engine: ChatEngine,
    evaluator: Evaluator,
    settings: MultiTurnSettings,
    *,
    concurrency: int = 256,
    budget: Budget | None = None,
    progress: Progress | None = None,
) -> HiddenTests:
    """Evaluate a model on tasks: `tasks.jsonl`, `single.jsonl`, `multi.jsonl` and `multi_eval.jsonl` in
    `folder`, each with its manifest, and continued if they are there.

    `settings.samples` dialogues per task of `settings.turns` programs; `budget` is for all of it. Raises
    InfraError if a task fails, SettingsChanged for a folder of another model, other tasks or settings.
    """
    tasks, single, multi = (folder / f"{name}.jsonl" for name in ("tasks", "single", "multi"))
    _keep(source, tasks)
    budget = budget or Budget()
    more: dict[str, Any] = {"concurrency": concurrency, "progress": progress}
    evaluator.cache = VerdictCache(200_000, by_test=True)  # all tests contain the public and the hidden ones
    first = RolloutSettings(**{each.name: getattr(settings, each.name) for each in fields(RolloutSettings)})
    all_rows(await single_turn(tasks, single, engine, evaluator, first, budget=budget, **more))
    spent = ((read_manifest(single) or {}).get("tokens") or {}).get("cost_usd", 0.0)
    budget = replace(budget, earlier=spent)
    further = replace(settings, n=None, first_turn=False)
    all_rows(await multi_turn(single, multi, engine, evaluator, further, budget=budget, **more))
    target = folder / "multi_eval.jsonl"
    return await hidden_tests(multi, target, evaluator, seed=settings.seed, progress=progress)


def _keep(source: Source, target: Path) -> None:
    """Write the tasks of an evaluation down, once. Raises SettingsChanged where others are there."""
    settings = {"stage": "tasks to evaluate on", "input_sha256": source.sha256, "tasks": len(source)}
    check_resume(target, settings)
    target.parent.mkdir(parents=True, exist_ok=True)
    count = write_jsonl(target, source)
    write_manifest(target, settings=settings, inputs=source.inputs(), counts={"written": count})


def _flags() -> Parser:
    flags = parser(_ABOUT, epilog=_EXAMPLES, formatter_class=_Help)
    flags.add_argument("model", metavar="MODEL", help="what is evaluated, see below")
    flags.add_argument("--tasks", required=True, metavar="SET", help=SET_HELP)
    flags.add_argument(
        "-o", "--output", type=Path, metavar="DIR",
        help="folder of this evaluation; run again to continue (default: outputs/eval/MODEL-SET)",
    )  # fmt: skip
    dialogue_flags(flags, turns=TURNS)
    run_flags(flags, None, "dialogues per task (published: 16, of 9 turns)")
    flags.set_defaults(num_completions=SAMPLES, evaluator="local")
    return flags


def _parsed(argv: list[str] | None) -> argparse.Namespace:
    """The flags, with engine, model and address that MODEL means, and the sampling that goes with them."""
    flags = _flags()
    args = flags.parse_args(argv)
    named = args.engine is not None and not args.model.startswith(("http://", "https://"))
    found = {"engine": args.engine, "model_name": args.model} if named else engine_of(args.model)
    if (args.engine or found["engine"]) == "litellm":
        flags.set_defaults(**PROVIDERS)
        args = flags.parse_args(argv)
    for name, value in found.items():
        if getattr(args, name) is None:
            setattr(args, name, value)
    return args


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt eval`; returns the exit code."""
    args = _parsed(argv)
    settings = MultiTurnSettings(**sampling_given(args), **dialogue_given(args), first_turn=True)
    source = Source(task_set(args.tasks, load(args.prompts)), check_row, args.limit)
    if settings.tests == "auto" and is_perturbed(next(iter(source))):
        settings = replace(settings, tests="perturbed")
    folder = args.output or Path("outputs", "eval", f"{_word(args.model)}-{_word(Path(args.tasks).stem)}")
    args.output_file = folder / "multi_eval.jsonl"
    made: list[HiddenTests] = []
    model = ""

    async def stage(
        source: Source, output: Path, engine: ChatEngine, evaluator: Evaluator, *given: Any, **more: Any
    ) -> Summary:
        nonlocal model
        model = engine.name
        made.append(await evaluate_model(source, output.parent, engine, evaluator, *given, **more))
        return made[0].run

    programs = len(source) * settings.samples * settings.turns
    code = asyncio.run(carry_out(args, source, settings, stage, programs=programs, turns=settings.turns))
    for done in made:
        turn_table(done.summary, f"{model} on {args.tasks}")
        for note in done.notes:
            print(f"note: {note}")
        print(f"every program in a browser: cobalt report {args.output_file} -o {folder / 'report'}")
        code = done.exit_code
    return code


def _word(name: str) -> str:
    """A name as part of a folder's."""
    word = re.sub(r"[^\w.]+", "-", re.sub(r"^https?://", "", name)).strip("-.")
    if not word:
        raise InputError(f"'{name}' gives no name for a folder; give one with -o")
    return word
