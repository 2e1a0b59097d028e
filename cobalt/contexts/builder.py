"""Rows of evaluated trajectories to contexts, chunk by chunk, in any process."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from cobalt.contexts.select import Selection, candidate_indices, select
from cobalt.contexts.slice import Policy, slices
from cobalt.contexts.summary import Summary
from cobalt.contexts.tokens import PromptCounter
from cobalt.contexts.trajectories import Trajectories, read_trajectories
from cobalt.errors import InputError
from cobalt.rows import Raw, Row, encode_row, parsed

CHUNK_BYTES = 1 << 20
CHUNK_ROWS = 64

Chunk = list[tuple[str, Raw]]


@dataclass
class Built:
    """What became of one row: its id, its contexts as lines and their counts, or why it cannot be used."""

    task_id: str | int | None = None
    lines: list[bytes] = field(default_factory=list)
    counts: Summary = field(default_factory=Summary)
    error: str | None = None


@dataclass
class Builder:
    """Selects and slices; ``builder(chunk)`` gives one `Built` per row."""

    count: PromptCounter
    is_test: bool
    policy: Policy
    max_prompt_tokens: int
    selection: Selection = "max_variance"
    seed: int = 0

    def __call__(self, chunk: Chunk) -> list[Built]:
        return [self._row(where, raw) for where, raw in chunk]

    def _row(self, where: str, raw: Raw) -> Built:
        built = Built()
        try:
            task = read_trajectories(parsed(raw, where), where)
            built.task_id = task.task_id
            built.lines = [encode_row(row) for row in self._contexts(task, where, built.counts)]
        except InputError as error:
            return Built(error=str(error))
        return built

    def _contexts(self, task: Trajectories, where: str, counts: Summary) -> Iterator[Row]:
        counts.tasks += 1
        counts.assumed["public"] += not task.counted_public
        counts.assumed["singles"] += not task.judged_singles
        counts.assumed["parts"] += not task.complementary
        if task.solved:
            counts.skipped += 1
            return
        opening = task.conversations[0][:2]
        counts.measured(0, self.count(opening, f"{where}: conversations[0]"))
        yield _context(task, 0, 2, 0.0)

        counts.unjudged += sum(rates is None for rates in task.rates)
        counts.candidates += len(candidate_indices(task.rates, validation=self.is_test))
        draw = random.Random(f"selection {self.seed} {task.task_id!r}")
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
            )
            if stop is not None:
                counts.stops[stop] += 1
            for cut in cuts:
                counts.measured(cut.programs, cut.prompt_tokens)
                yield _context(task, s, cut.messages, cut.prev_best_pass_rate)


def _context(task: Trajectories, sample: int, messages: int, prev_best: float) -> Row:
    return {
        "example_id": task.task_id,
        "conversation": task.conversations[sample][:messages],
        "test_cases": task.test_cases,
        "difficulty": task.difficulty,
        "prev_best_pass_rate": prev_best,
    }


def chunks(rows: Iterable[tuple[str, Raw]]) -> Iterator[Chunk]:
    """Rows in lists of about a megabyte, so that handing them over costs little beside the work on them."""
    chunk: Chunk = []
    size = 0
    for where, raw in rows:
        chunk.append((where, raw))
        size += len(raw) if isinstance(raw, bytes) else CHUNK_BYTES // 16
        if size >= CHUNK_BYTES or len(chunk) >= CHUNK_ROWS:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
