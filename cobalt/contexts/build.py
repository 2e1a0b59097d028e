"""Evaluated trajectories to bandit contexts (`preproc/process_multi_turn_taco.py`)."""

from __future__ import annotations

import os
import random
import tempfile
import time
from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cobalt.cli import Progress, make_progress, parser, positive_int, tell
from cobalt.contexts.select import SELECTIONS, Selection, candidate_indices, select
from cobalt.contexts.slice import MAX_PROMPT_TOKENS, POLICIES, PUBLISHED_TURNS, STOPS, Policy, slices
from cobalt.contexts.trajectories import Trajectories, read_trajectories
from cobalt.convert import Rejects, bad_row_flag, in_order, rejected
from cobalt.errors import InputError
from cobalt.files import StrPath, replacing, writing
from cobalt.manifest import write_manifest
from cobalt.output import refuse_overwriting
from cobalt.rows import INPUT_HELP, Raw, Row, Rows, as_rows, encode_row, open_rows, parsed
from cobalt.testcases import NUM_PUBLIC
from cobalt.text import PromptCounter, load_tokenizer

DEFAULT_MODEL = "Qwen/Qwen3-8B"
DEFAULT_SEED = 42

_ASSUMED = {
    "public": f"no 'public_test_cases': {NUM_PUBLIC} public tests assumed",
    "singles": "no 'exec_results': a task is skipped if every first program passes all tests",
}


@dataclass
class Summary:
    """What was built: `tasks` read, those `skipped` because every single-turn sample solved them,
    trajectories that could have been kept (`candidates`), that were (`kept`, of `tasks_with_trajectories`) or
    had a program without a verdict (`unjudged`); `contexts` written and their number `by_depth` (programs
    shown), `stops` of the slicing (see `cobalt.contexts.slice`), tokens of the longest sliced prompt.
    `assumed` counts tasks by what had to be assumed about them.
    """

    tasks: int = 0
    skipped: int = 0
    candidates: int = 0
    kept: int = 0
    tasks_with_trajectories: int = 0
    contexts: int = 0
    unjudged: int = 0
    bad_rows: int = 0
    by_depth: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PUBLISHED_TURNS + 1), 0))
    stops: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STOPS, 0))
    assumed: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_ASSUMED, 0))
    longest_prompt: int = 0

    def add(self, other: Summary) -> None:
        """Take the counts of another part of the input into account."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            if isinstance(mine, dict):
                mine.update({key: mine.get(key, 0) + count for key, count in value.items()})
            elif name == "longest_prompt":
                self.longest_prompt = max(mine, value)
            else:
                setattr(self, name, mine + value)

    def counts(self) -> dict[str, Any]:
        """For the manifest."""
        return {name: value for name, value in vars(self).items() if name != "assumed"}

    @property
    def warnings(self) -> list[str]:
        """What was assumed and what is missing, one sentence each."""
        found = [f"{n} tasks: {_ASSUMED[name]}" for name, n in self.assumed.items() if n]
        if self.tasks and self.skipped == self.tasks:
            found.append("every task was skipped, being solved in one turn; harder tasks teach more")
        elif self.tasks and not self.candidates:
            found.append(
                "no trajectory was kept (pass rates must differ, and for training one program pass all), so "
                "no context shows feedback; more samples, more turns or easier tasks give some"
            )
        again = "left out: a program has no verdict (run the hidden-test stage again to retry)"
        return found + ([f"{self.unjudged} trajectories {again}"] if self.unjudged else [])

    def lines(self) -> list[str]:
        """The report for a terminal."""
        kept = f"{self.kept} kept of {self.tasks_with_trajectories} tasks"
        depths = ", ".join(f"{count} showing {programs}" for programs, count in self.by_depth.items())
        stops = ", ".join(f"{count} {name}" for name, count in self.stops.items())
        return [
            f"tasks: {self.tasks} read, {self.skipped} skipped (every single-turn sample solves them)",
            f"trajectories: {self.candidates} candidates, {kept}",
            f"contexts: {self.contexts} (by programs shown: {depths})",
            f"slicing stopped early: {stops}",
            f"longest sliced prompt: {self.longest_prompt} tokens",
        ]


@dataclass
class Built:
    """What became of one row: its id, its contexts as lines and their counts, or why it cannot be used."""

    task_id: str | int | None = None
    lines: list[bytes] = field(default_factory=list)
    counts: Summary = field(default_factory=Summary)
    error: str | None = None


@dataclass
class Builder:
    """Selects and slices; ``builder((where, raw))`` says what became of a row."""

    count: PromptCounter
    is_test: bool
    policy: Policy
    max_prompt_tokens: int
    selection: Selection = "max_variance"
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
        if task.solved:
            counts.skipped += 1
            return
        counts.by_depth[0] += 1
        yield _context(task, 0, 2, 0.0)

        counts.unjudged += sum(rates is None for rates in task.rates)
        counts.candidates += len(candidate_indices(task.rates, validation=self.is_test))
        draw = random.Random(f"selection {self.seed} {task.task_id!r}")
        turns = max(PUBLISHED_TURNS, *(len(rates or ()) for rates in task.rates))
        kept = select(task.rates, validation=self.is_test, selection=self.selection, draw=draw)
        counts.kept += len(kept)
        counts.tasks_with_trajectories += bool(kept)
        for s in kept:
            cuts, stop = slices(
                task.conversations[s],
                task.rates[s] or (),
                count_prompt_tokens=partial(self.count, where=f"{where}: conversations[{s}]"),
                policy=self.policy,
                max_prompt_tokens=self.max_prompt_tokens,
                turns=turns,
            )
            if stop is not None:
                counts.stops[stop] += 1
            for cut in cuts:
                counts.by_depth[cut.programs] = counts.by_depth.get(cut.programs, 0) + 1
                counts.longest_prompt = max(counts.longest_prompt, cut.prompt_tokens)
                yield _context(task, s, cut.messages, cut.prev_best_pass_rate)


def _context(task: Trajectories, sample: int, messages: int, prev_best: float) -> Row:
    return {
        "example_id": task.task_id,
        "conversation": task.conversations[sample][:messages],
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
    ``selection``, ``max_prompt_tokens``: see `select` and `slices`). Lengths are those of ``tokenizer``, or
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
    builder = Builder(counter, is_test, policy, max_prompt_tokens, selection, seed)
    rejects = Rejects(output, on_bad_row)
    summary = _write(rows, output, builder, workers, rejects, progress)
    rejects.close()
    summary.bad_rows = len(rejects)
    write_manifest(
        output,
        settings={
            "stage": "contexts", "is_test": is_test, "policy": policy, "selection": selection,
            "max_prompt_tokens": max_prompt_tokens, "seed": seed, "on_bad_row": on_bad_row,
            "model_name": model_name if tokenizer is None else str(getattr(tokenizer, "name_or_path", "")),
        },
        inputs=rows.paths if len(rows.paths) == 1 else [],
        counts=summary.counts(),
        extra={"warnings": summary.warnings, "workers": workers}
        | {"wall_s": round(time.perf_counter() - started, 3)}
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
        "--policy", choices=POLICIES, default="faithful", help="stop rules: as published, or corrected"
    )
    flags.add_argument(
        "--selection", choices=SELECTIONS, default="max_variance",
        help="trajectories of a task that are cut: as published, or for ablations",
    )  # fmt: skip
    flags.add_argument(
        "--max_prompt_tokens", type=positive_int, default=MAX_PROMPT_TOKENS, help="longest prompt of a slice"
    )
    flags.add_argument("--seed", type=int, default=DEFAULT_SEED, help="of the shuffle")
    flags.add_argument("--workers", type=positive_int, help="processes (default: one per core)")
    bad_row_flag(flags)
    args = flags.parse_args(argv)
    with make_progress() as progress:
        summary = build_contexts(
            open_rows(args.input_file), args.output_file, is_test=args.is_test, policy=args.policy,
            selection=args.selection, max_prompt_tokens=args.max_prompt_tokens, seed=args.seed,
            model_name=args.model_name, workers=args.workers or len(os.sched_getaffinity(0)),
            on_bad_row=args.on_bad_row, progress=progress,
        )  # fmt: skip
    tell(summary.lines() + rejected(summary.bad_rows, args.output_file), summary.warnings)
    return 0
