"""The door from evaluated trajectories to bandit contexts (``preproc/process_multi_turn_taco.py``)."""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from cobalt.contexts.select import candidate_indices, select
from cobalt.contexts.slice import MAX_PROGRAMS, MAX_PROMPT_TOKENS, POLICIES, STOPS, Policy, slices
from cobalt.contexts.tokens import PromptCounter, load_tokenizer
from cobalt.contexts.trajectories import ASSUMED_PUBLIC, Trajectories, read_trajectories
from cobalt.errors import InputError
from cobalt.files import StrPath, replacing, writing
from cobalt.flags import parser, positive_int
from cobalt.records import Row
from cobalt.store import encode_row, read_jsonl, write_manifest

DEFAULT_MODEL = "Qwen/Qwen3-8B"
DEFAULT_SEED = 42


@dataclass
class Summary:
    """What was built.

    Attributes:
        tasks: rows read.
        skipped: tasks that every single-turn sample solved.
        candidates: trajectories that could have been kept.
        kept: trajectories that were.
        tasks_with_trajectories: tasks of which at least one was kept.
        contexts: rows written.
        by_depth: contexts by the number of programs shown, 0 to 3.
        stops: kept trajectories by what ended their slices before the third (see `cobalt.contexts.slice`).
        unjudged: trajectories left out because a program has no verdict.
        longest_prompt: tokens of the longest sliced context.
        warnings: assumptions that were made about the input.
        wall_s: seconds.
    """

    tasks: int = 0
    skipped: int = 0
    candidates: int = 0
    kept: int = 0
    tasks_with_trajectories: int = 0
    contexts: int = 0
    by_depth: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(MAX_PROGRAMS + 1), 0))
    stops: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STOPS, 0))
    unjudged: int = 0
    longest_prompt: int = 0
    warnings: list[str] = field(default_factory=list)
    wall_s: float = 0.0

    def lines(self) -> list[str]:
        """The report for a terminal."""
        depths = ", ".join(f"{count} showing {programs}" for programs, count in self.by_depth.items())
        stops = ", ".join(f"{count} {name}" for name, count in self.stops.items())
        return [
            f"tasks: {self.tasks} read, {self.skipped} skipped (every single-turn sample solves them)",
            f"trajectories: {self.candidates} candidates, {self.kept} kept "
            f"of {self.tasks_with_trajectories} tasks",
            f"contexts: {self.contexts} (by programs shown: {depths})",
            f"slicing stopped early: {stops}",
        ]


def build_contexts(
    source: StrPath | Iterable[Row],
    output: StrPath,
    *,
    is_test: bool = False,
    policy: Policy = "faithful",
    max_prompt_tokens: int = MAX_PROMPT_TOKENS,
    seed: int = DEFAULT_SEED,
    model_name: str = DEFAULT_MODEL,
    tokenizer: Any = None,
) -> Summary:
    """Select, slice and shuffle; replaces ``output`` (JSONL of `cobalt.records.ContextRow`) atomically.

    Each task that is not skipped gives its opening as a context (of any length, as published), then the
    slices of its kept trajectories. Rows are held on disk; in memory each leaves an offset. The order is
    that of ``random.Random(seed).shuffle``.

    Args:
        source: path of a JSONL file of `cobalt.records.EvalRow`, or the rows.
        is_test: use the validation rule of selection.
        policy: ``faithful`` or ``fixed`` stop rules (see `cobalt.contexts.slice.slices`).
        max_prompt_tokens: longest prompt of a slice, generation header included.
        model_name: whose tokenizer counts, if ``tokenizer`` is None.
        tokenizer: object with ``apply_chat_template`` (as in transformers).

    Raises:
        InputError: an unreadable file, a malformed row (``file:line``, field), a doubled id, no rows, no
            tokenizer, or an output that cannot be written. Nothing has been changed then.
    """
    started = time.perf_counter()
    if policy not in POLICIES:
        raise InputError(f"--policy must be one of {', '.join(POLICIES)}, got {policy!r}")
    output = Path(output)
    if isinstance(source, str | os.PathLike) and output.exists() and output.samefile(source):
        raise InputError(f"{output} is the input: give another --output_file")
    rows = _rows(source)
    counter = PromptCounter(load_tokenizer(model_name) if tokenizer is None else tokenizer)
    summary = Summary()
    builder = _Builder(counter, summary, is_test, policy, max_prompt_tokens)

    with writing(output):
        output.parent.mkdir(parents=True, exist_ok=True)
        spool = tempfile.TemporaryFile(dir=output.parent)  # noqa: SIM115 - closed by the next statement
    with spool, replacing(output) as target:
        offsets: list[int] = []
        for where, row in rows:
            for context in builder.contexts(row, where):
                offsets.append(spool.tell())
                spool.write(encode_row(context))
        if not summary.tasks:
            raise InputError(f"{_name(source)} holds no rows")
        random.Random(seed).shuffle(offsets)
        for offset in offsets:
            spool.seek(offset)
            target.write(spool.readline())

    summary.warnings = builder.warnings()
    summary.wall_s = round(time.perf_counter() - started, 3)
    counts = asdict(summary)
    write_manifest(
        output,
        settings={
            "stage": "contexts",
            "is_test": is_test,
            "policy": policy,
            "max_prompt_tokens": max_prompt_tokens,
            "seed": seed,
            "model_name": model_name if tokenizer is None else str(getattr(tokenizer, "name_or_path", "")),
        },
        inputs=[source] if isinstance(source, str | os.PathLike) else [],
        counts={name: counts[name] for name in counts if name not in ("wall_s", "warnings")},
        extra={"warnings": summary.warnings, "wall_s": summary.wall_s},
    )
    return summary


def _rows(source: StrPath | Iterable[Row]) -> Iterator[tuple[str, Row]]:
    if isinstance(source, str | os.PathLike):
        return ((f"{source}:{number}", row) for number, row in read_jsonl(source))
    return ((f"row {number}", row) for number, row in enumerate(source, start=1))


def _name(source: StrPath | Iterable[Row]) -> str:
    return str(source) if isinstance(source, str | os.PathLike) else "the input"


@dataclass
class _Builder:
    count: PromptCounter
    summary: Summary
    is_test: bool
    policy: Policy
    max_prompt_tokens: int
    seen: set[str | int] = field(default_factory=set)
    assumptions: Counter[str] = field(default_factory=Counter)

    def contexts(self, row: Row, where: str) -> Iterator[Row]:
        task = read_trajectories(row, where)
        if task.task_id in self.seen:
            raise InputError(f"{where}: id {task.task_id!r} occurs twice")
        self.seen.add(task.task_id)
        self.summary.tasks += 1
        self.assumptions["public"] += not task.counted_public
        self.assumptions["singles"] += not task.judged_singles
        self.assumptions["parts"] += not task.complementary
        if task.solved:
            self.summary.skipped += 1
            return
        yield self._context(task, 0, 2, 0.0)

        self.summary.unjudged += sum(rates is None for rates in task.rates)
        self.summary.candidates += len(candidate_indices(task.rates, validation=self.is_test))
        kept = select(task.rates, validation=self.is_test)
        self.summary.kept += len(kept)
        self.summary.tasks_with_trajectories += bool(kept)
        for s in kept:
            cuts, stop = slices(
                task.conversations[s],
                task.rates[s] or (),
                count_prompt_tokens=partial(self.count, where=f"{where}: conversations[{s}]"),
                policy=self.policy,
                max_prompt_tokens=self.max_prompt_tokens,
            )
            if stop is not None:
                self.summary.stops[stop] += 1
            for cut in cuts:
                self.summary.longest_prompt = max(self.summary.longest_prompt, cut.prompt_tokens)
                yield self._context(task, s, cut.messages, cut.prev_best_pass_rate)

    def _context(self, task: Trajectories, sample: int, messages: int, prev_best: float) -> Row:
        self.summary.contexts += 1
        self.summary.by_depth[messages // 2 - 1] += 1
        return {
            "example_id": task.task_id,
            "conversation": task.conversations[sample][:messages],
            "test_cases": task.test_cases,
            "difficulty": task.difficulty,
            "prev_best_pass_rate": prev_best,
        }

    def warnings(self) -> list[str]:
        texts = {
            "public": f"no 'public_test_cases': {ASSUMED_PUBLIC} public tests assumed",
            "singles": "no 'exec_results': a task is skipped if every first program passes all tests",
            "parts": "public and hidden tests do not add up to 'test_cases', so combined rates may be off",
        }
        found = [
            f"{self.assumptions[name]} tasks: {text}"
            for name, text in texts.items()
            if self.assumptions[name]
        ]
        if self.summary.unjudged:
            found.append(
                f"{self.summary.unjudged} trajectories left out: a program has no verdict "
                "(run the hidden-test stage again to retry)"
            )
        return found


def main(argv: list[str] | None = None) -> int:
    """The command line of ``preproc/process_multi_turn_taco.py``; returns the exit code."""
    flags = parser("Select trajectories and cut them into bandit contexts.")
    flags.add_argument("-i", "--input_file", required=True, help="JSONL of evaluated trajectories")
    flags.add_argument("-o", "--output_file", required=True, help="JSONL of contexts to write")
    flags.add_argument("--model_name", default=DEFAULT_MODEL, help="whose tokenizer measures prompts")
    flags.add_argument("--is_test", action="store_true", help="validation rule: one trajectory per task")
    flags.add_argument(
        "--policy", choices=POLICIES, default="faithful", help="stop rules: as published, or corrected"
    )
    flags.add_argument(
        "--max_prompt_tokens", type=positive_int, default=MAX_PROMPT_TOKENS, help="longest prompt of a slice"
    )
    flags.add_argument("--seed", type=int, default=DEFAULT_SEED, help="of the shuffle")
    args = flags.parse_args(argv)
    summary = build_contexts(
        args.input_file,
        args.output_file,
        is_test=args.is_test,
        policy=args.policy,
        max_prompt_tokens=args.max_prompt_tokens,
        seed=args.seed,
        model_name=args.model_name,
    )
    for warning in summary.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    print("\n".join(summary.lines()))
    print(json.dumps({"output": args.output_file, "contexts": summary.contexts, "wall_s": summary.wall_s}))
    return 0
