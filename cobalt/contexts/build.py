"""Evaluated trajectories to bandit contexts (`preproc/process_multi_turn_taco.py`)."""

from __future__ import annotations

import os
import random
import tempfile
import time
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.cli import Progress, make_progress, parser, positive_int, tell
from cobalt.contexts.rule import BUILT_IN, OFFERED, cuts, open_rule
from cobalt.contexts.select import SELECTIONS, Selection, candidate_indices
from cobalt.contexts.slice import MAX_PROMPT_TOKENS, POLICIES, Policy
from cobalt.contexts.summary import Summary
from cobalt.contexts.trajectories import Trajectories, read_trajectories
from cobalt.convert import Rejects, bad_row_flag, in_order, rejected
from cobalt.errors import InputError
from cobalt.files import StrPath, replacing, writing
from cobalt.manifest import write_manifest
from cobalt.output import refuse_overwriting
from cobalt.own import Own, load
from cobalt.rows import INPUT_HELP, Raw, Row, Rows, as_rows, encode_row, open_rows, parsed
from cobalt.schema import Message
from cobalt.text import PromptCounter, load_tokenizer

DEFAULT_MODEL = "Qwen/Qwen3-8B"
DEFAULT_SEED = 42


@dataclass
class Built:
    """What became of one row: its id, its contexts as lines and their counts, or why it cannot be used."""

    task_id: str | int | None = None
    lines: list[bytes] = field(default_factory=list)
    counts: Summary = field(default_factory=Summary)
    error: str | None = None


@dataclass
class Builder:
    """Cuts by a rule; ``builder((where, raw))`` says what became of a row."""

    count: PromptCounter
    is_test: bool
    rule: Own
    max_prompt_tokens: int
    seed: int = 0

    def __call__(self, item: tuple[str, Raw]) -> Built:
        (where, raw), built = item, Built()
        try:
            task = read_trajectories(parsed(raw, where), where)
            built.task_id = task.task_id
            built.lines = [encode_row(row) for row in self._contexts(task, where, built.counts)]
            built.counts.contexts = len(built.lines)
        except InputError as error:
            return Built(error=str(error))
        return built

    def _contexts(self, task: Trajectories, where: str, counts: Summary) -> Iterator[Row]:
        counts.tasks += 1
        counts.assumed["public"] += not task.counted_public
        counts.assumed["singles"] += not task.judged_singles
        counts.unjudged += 0 if task.solved else sum(rates is None for rates in task.rates)
        open_to = [] if task.solved else candidate_indices(task.rates, validation=self.is_test)
        counts.candidates += len(open_to)
        known, kept, some = dict[tuple[str, ...], int](), set[int](), False

        def tokens(messages: Sequence[Message]) -> int:
            key = tuple(message["content"] for message in messages)
            if key not in known:
                of = [s for s, each in enumerate(task.conversations) if len(each) >= len(key) > 2 and
                      each[2] is messages[2]]  # fmt: skip
                known[key] = self.count(messages, f"{where}: conversations[{of[0] if of else 0}]")
            return known[key]

        def note(sample: int, reason: str) -> None:
            kept.add(sample)
            counts.stops[reason] = counts.stops.get(reason, 0) + 1

        draw = random.Random(f"selection {self.seed} {task.task_id!r}")
        for sample, programs in cuts(
            self.rule, task, where, draw, tokens, self.max_prompt_tokens, validation=self.is_test, note=note
        ):
            some = True
            counts.by_depth[programs] = counts.by_depth.get(programs, 0) + 1
            messages, rates = task.conversations[sample][: 2 + 2 * programs], task.rates[sample]
            if programs:
                kept.add(sample)
                counts.longest_prompt = max(counts.longest_prompt, tokens(messages))
            yield _context(task, messages, max(rates[:programs]) if programs and rates else 0.0)
        counts.skipped += not some
        counts.kept += len(kept)
        counts.tasks_with_trajectories += bool(kept)


def _context(task: Trajectories, messages: list[Message], prev_best: float) -> Row:
    return {
        "example_id": task.task_id,
        "conversation": messages,
        "test_cases": task.test_cases,
        "difficulty": task.difficulty,
        "prev_best_pass_rate": prev_best,
    }


def build_contexts(
    source: Rows | StrPath | Iterable[Row],
    output: StrPath,
    *,
    is_test: bool = False,
    policy: Policy = "faithful",
    selection: Selection = "max_variance",
    max_prompt_tokens: int = MAX_PROMPT_TOKENS,
    rule: Own | None = None,
    seed: int = DEFAULT_SEED,
    model_name: str = DEFAULT_MODEL,
    tokenizer: Any = None,
    workers: int = 1,
    on_bad_row: str = "fail",
    progress: Progress | None = None,
) -> Summary:
    """Select, slice and shuffle; replaces ``output`` (JSONL of `cobalt.schema.ContextRow`) atomically.

    Each task of ``source`` (rows of `cobalt.schema.EvalRow`) that is not skipped gives its opening as a
    context (of any length, as published), then the slices of its kept trajectories (``is_test``, ``policy``,
    ``selection``, ``max_prompt_tokens``: see `select` and `slices`); or what ``rule`` says in place of policy
    and selection (`cobalt.contexts.rule`). Lengths are those of ``tokenizer``, or
    of that of ``model_name``. The order is that of ``random.Random(seed).shuffle``, whatever the number of
    processes (``workers``).

    Raises InputError for an unreadable file, a malformed row (``file:line``, field), a doubled id, no rows,
    no tokenizer, or an output that cannot be written. Nothing has been changed then.
    """
    started = time.perf_counter()
    output = Path(output)
    rows = as_rows(source)
    refuse_overwriting(rows.paths, output)
    counter = PromptCounter(load_tokenizer(model_name) if tokenizer is None else tokenizer)
    published = {"policy": policy, "selection": selection}
    used = rule or load(BUILT_IN, "contexts", OFFERED, constants=published)
    builder = Builder(counter, is_test, used, max_prompt_tokens, seed)
    rejects = Rejects(output, on_bad_row)
    summary = _write(rows, output, builder, workers, rejects, progress)
    summary.own = rule is not None
    rejects.close()
    summary.bad_rows = len(rejects)
    write_manifest(
        output,
        settings={
            "stage": "contexts", "is_test": is_test, **(rule.identity("rule") if rule else published),
            "max_prompt_tokens": max_prompt_tokens, "seed": seed, "on_bad_row": on_bad_row,
            "model_name": model_name if tokenizer is None else str(getattr(tokenizer, "name_or_path", "")),
        },
        inputs=rows.paths if len(rows.paths) == 1 else [],
        counts=summary.counts(),
        extra={"warnings": summary.warnings, "workers": workers}
        | {"wall_s": round(time.perf_counter() - started, 3)}
        | ({"own": {"contexts": rule.about}} if rule else {})
        | ({} if isinstance(rows.table, list) else {"input": rows.facts()}),
    )  # fmt: skip
    return summary


def _write(
    rows: Rows, output: Path, builder: Builder, workers: int, rejects: Rejects, progress: Progress | None
) -> Summary:
    """Write the contexts in random order. They wait on disk; in memory each leaves an offset."""
    summary, offsets = Summary(), array("q")
    with writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        spool = tempfile.TemporaryFile(dir=output.parent)  # noqa: SIM115 - closed by the next statement
    with spool, replacing(output) as target:
        for built in _good(rows, builder, workers, rejects):
            for line in built.lines:
                offsets.append(spool.tell())
                spool.write(line)
            summary.add(built.counts)
            if progress is not None:
                progress.advance("contexts", summary.tasks, None, written=summary.contexts)
        if not summary.tasks:
            raise InputError(f"{rows.name} holds no rows that can be used")
        random.Random(builder.seed).shuffle(offsets)
        for offset in offsets:
            spool.seek(offset)
            target.write(spool.readline())
    return summary


def _good(rows: Rows, builder: Builder, workers: int, rejects: Rejects) -> Iterator[Built]:
    """What became of every good row, in order; ids that occur twice are bad."""
    seen: set[str | int] = set()
    for (where, raw), built in in_order(builder, rows.raw(), workers):
        error = built.error
        if error is None and built.task_id in seen:
            error = f"{where}: id {built.task_id!r} occurs twice"
        if error is not None:
            rejects.add(where, InputError(error), raw)
            continue
        assert built.task_id is not None
        seen.add(built.task_id)
        yield built


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser("Select trajectories and cut them into bandit contexts.")
    flags.add_argument("-i", "--input_file", required=True, help=f"evaluated trajectories: {INPUT_HELP}")
    flags.add_argument("-o", "--output_file", required=True, help="JSONL of contexts to write")
    flags.add_argument("--model_name", default=DEFAULT_MODEL, help="whose tokenizer measures prompts")
    flags.add_argument("--is_test", action="store_true", help="validation rule: one trajectory per task")
    flags.add_argument(
        "--policy", choices=POLICIES, help="stop rules: as published (faithful, default), or corrected"
    )
    flags.add_argument(
        "--selection", choices=SELECTIONS,
        help="trajectories of a task that are cut: as published (max_variance, default), or for ablations",
    )  # fmt: skip
    flags.add_argument(
        "--contexts", metavar="FILE.py:NAME", help="function that says which and where, in place of both"
    )
    flags.add_argument(
        "--max_prompt_tokens", type=positive_int, default=MAX_PROMPT_TOKENS, help="longest prompt of a slice"
    )
    flags.add_argument("--seed", type=int, default=DEFAULT_SEED, help="of the shuffle")
    flags.add_argument("--workers", type=positive_int, help="processes (default: one per core)")
    bad_row_flag(flags)
    args = flags.parse_args(argv)
    if args.contexts and (args.policy or args.selection):
        raise InputError("--contexts takes the place of --policy and --selection: leave them out")
    rule = open_rule(args.contexts, "--contexts")
    with make_progress() as progress:
        summary = build_contexts(
            open_rows(args.input_file), args.output_file, is_test=args.is_test, rule=rule,
            policy=args.policy or "faithful", selection=args.selection or "max_variance",
            max_prompt_tokens=args.max_prompt_tokens, seed=args.seed, model_name=args.model_name,
            workers=args.workers or len(os.sched_getaffinity(0)),
            on_bad_row=args.on_bad_row, progress=progress,
        )  # fmt: skip
    tell(summary.lines() + rejected(summary.bad_rows, args.output_file), summary.warnings)
    return 0
