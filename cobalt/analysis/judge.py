"""A model as judge of turn errors: votes on each case, asked again where unreadable (arXiv 2602.03806)."""

from __future__ import annotations

import asyncio
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cobalt.analysis.verdicts import (
    LABELS,
    TIE,
    UNKNOWN,
    agreement,
    check_case,
    classify,
    content_hash,
    majority,
)
from cobalt.cli import Progress
from cobalt.engines.base import CONTEXT_OVERFLOW, ChatEngine, Sampling, derived_seed, identity
from cobalt.errors import InputError
from cobalt.files import atomic_write, file_sha256
from cobalt.manifest import check_resume
from cobalt.output import write_jsonl
from cobalt.pipeline import Summary, run_rows
from cobalt.prompts import DEFAULT, Prompts
from cobalt.rollouts.source import Rows
from cobalt.rows import Row, read_rows
from cobalt.stats import clustered_mean

STAGE = "judge"
KEY = "case_sha256"


@dataclass(frozen=True)
class JudgeSettings:
    """`votes` per case, `ask_again`: further tries for a vote that cannot be read. The defaults are those of
    the published script, which asks once.
    """

    votes: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 32_000
    reasoning_effort: str | None = "low"
    ask_again: int = 0
    seed: int = 0
    prompts: Prompts = field(default=DEFAULT, repr=False)

    def __post_init__(self) -> None:
        if self.votes < 1:
            raise InputError(f"--num_completions must be at least 1, got {self.votes}")
        if self.ask_again < 0:
            raise InputError(f"--ask_again must be at least 0, got {self.ask_again}")
        try:
            self.sampling(0)
        except ValueError as error:
            raise InputError(str(error)) from None

    def sampling(self, seed: int) -> Sampling:
        return Sampling(
            self.temperature, self.top_p, self.max_tokens, 1, seed, reasoning_effort=self.reasoning_effort
        )

    def record(self) -> dict[str, Any]:
        return {
            "votes": self.votes, "temperature": self.temperature, "top_p": self.top_p,
            "max_tokens": self.max_tokens, "reasoning_effort": self.reasoning_effort,
            "ask_again": self.ask_again, "seed": self.seed, "prompts_sha256": self.prompts.judge_sha256,
        }  # fmt: skip


@dataclass
class Judge:
    """Asks `engine` about cases; cases of the same content are asked once. `asked_again` counts extra tries,
    `shared` cases that took the verdict of another.
    """

    engine: ChatEngine
    settings: JudgeSettings = field(default_factory=JudgeSettings)
    asked_again: int = 0
    shared: int = 0
    _known: dict[str, asyncio.Future[Row]] = field(default_factory=dict)

    async def __call__(self, case: Row) -> Row:
        """The case with `responses`, `usage`, `classification` [votes], `asked` [votes] (tries), `verdict`
        (majority) and `judge_model` added. A fault of the engine raises InfraError.
        """
        key = content_hash(case)
        if key in self._known:
            made = await asyncio.shield(self._known[key])
            self.shared += 1
        else:
            future: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
            self._known[key] = future
            try:
                made = await self._votes(case, key)
            except BaseException as error:
                del self._known[key]
                future.set_exception(error if isinstance(error, Exception) else InterruptedError())
                future.exception()  # nobody may be waiting
                raise
            future.set_result(made)
        return case | made

    def remember(self, row: Row) -> None:
        """Take the verdict of a row judged before, for cases of the same content."""
        made = {name: row[name] for name in _COLUMNS}
        future: asyncio.Future[Row] = asyncio.get_running_loop().create_future()
        future.set_result(made)
        self._known[content_hash(row)] = future

    async def _votes(self, case: Row, key: str) -> Row:
        asked = await asyncio.gather(*(self._vote(case, key, vote) for vote in range(self.settings.votes)))
        labels = [label for _, _, label, _ in asked]
        return {
            "responses": [text for text, _, _, _ in asked],
            "usage": [usage for _, usage, _, _ in asked],
            "classification": labels,
            "asked": [tries for _, _, _, tries in asked],
            "verdict": majority(labels),
            "judge_model": self.engine.name,
        }

    async def _vote(self, case: Row, key: str, vote: int) -> tuple[str, dict[str, int], str, int]:
        """Text, tokens (of all tries), label and number of tries of one vote."""
        used = {"prompt_tokens": 0, "completion_tokens": 0}
        for attempt in range(self.settings.ask_again + 1):
            seed = derived_seed(self.settings.seed, key, vote, attempt)
            (said,) = await self.engine.chat(
                self.settings.prompts.judge_messages(case), self.settings.sampling(seed)
            )
            used["prompt_tokens"] += said.prompt_tokens
            used["completion_tokens"] += said.completion_tokens
            label = classify(said.text)
            if label != UNKNOWN or said.finish_reason == CONTEXT_OVERFLOW:
                break
            self.asked_again += attempt < self.settings.ask_again
        return said.text, used, label, attempt + 1


_COLUMNS = ("responses", "usage", "classification", "asked", "verdict", "judge_model")


@dataclass
class Judged:
    """What a run of the judge did and found."""

    run: Summary
    summary: dict[str, Any]


def open_cases(path: Rows) -> list[Row]:
    """Rows of `extract_turn_level_errors.py` with `judge_seq_id` (place, as text) and KEY (hash of their
    content, `-1`, `-2`, ... behind it for repeated ones). Raises InputError, with file:line, for other rows.
    """
    rows: list[Row] = []
    seen: Counter[str] = Counter()
    located = (
        ((f"row {n}", row) for n, row in enumerate(path, start=1))
        if isinstance(path, Sequence) and not isinstance(path, str)
        else read_rows(path)
    )
    for where, row in located:
        check_case(row, where)
        key = content_hash(row)
        again = f"-{seen[key]}" if seen[key] else ""
        seen[key] += 1
        rows.append(row | {"judge_seq_id": str(len(rows)), KEY: key + again})
    if not rows:
        raise InputError(f"{path}: there are no cases to judge")
    return rows


async def judge_file(
    path: str | os.PathLike[str],
    output: str | os.PathLike[str],
    engine: ChatEngine,
    settings: JudgeSettings | None = None,
    *,
    concurrency: int = 4,
    progress: Progress | None = None,
) -> Judged:
    """Judge every case of a file; rows already judged are known by their content, wherever they stand now.

    Writes the rows in the order of the input, with their present `judge_seq_id`, and counts with intervals to
    `<output>.summary.json`. Raises InputError for rows that are no cases, SettingsChanged for an output of
    another model, prompt or number of votes.
    """
    settings = settings or JudgeSettings()
    cases = open_cases(path)
    output = Path(output)
    if output.exists() and output.samefile(path):
        raise InputError(f"{output} is the input file; give another output file")
    if output.is_dir():
        raise InputError(f"{output} is a folder; give a file")
    recorded = {"stage": STAGE, "model": identity(engine), **settings.record()}
    check_resume(output, recorded)
    judge = Judge(engine, settings)
    if output.exists():
        for _, row in read_rows(output, repair=True):
            judge.remember(row)
    run = await run_rows(
        cases, judge, output=output, concurrency=concurrency, settings=recorded, label=STAGE, key=KEY,
        progress=progress, inputs={"input_file": Path(path)},
        extra=lambda: {"asked_again": judge.asked_again, "shared": judge.shared},
    )  # fmt: skip
    return await asyncio.to_thread(_finish, run, cases, file_sha256(path), engine.name)


def _finish(run: Summary, cases: list[Row], input_sha256: str, model: str) -> Judged:
    """Number the rows as the input does now, leave out cases that are gone, and count."""
    places = {case[KEY]: case["judge_seq_id"] for case in cases}
    rows = [row for _, row in read_rows(run.output)]
    kept = [row | {"judge_seq_id": places[row[KEY]]} for row in rows if row[KEY] in places]
    kept.sort(key=lambda row: int(row["judge_seq_id"]))
    if kept != rows:
        write_jsonl(run.output, kept)
    summary = summarize(kept) | {"judge_model": model, "input_sha256": input_sha256}
    summary |= {"gone": len(rows) - len(kept), "failed": run.failed}
    atomic_write(Path(f"{run.output}.summary.json"), json.dumps(summary, indent=1, allow_nan=False) + "\n")
    return Judged(replace(run), summary)


def summarize(rows: Sequence[Row]) -> dict[str, Any]:
    """Counts of first votes (as published) and of majorities, with the share of cases and its 95 % interval
    clustered by task, agreement of votes, and what could not be read.
    """
    labels = [*LABELS, TIE, UNKNOWN]
    tasks: dict[Any, list[str]] = {}
    for row in rows:
        tasks.setdefault(row.get("id"), []).append(row["verdict"])
    shares = {}
    for label in labels:
        count = sum(row["verdict"] == label for row in rows)
        if not count and label in (TIE, UNKNOWN):
            continue
        shares[label] = {"cases": count, **_share(list(tasks.values()), label)}
    return {
        "schema": 1,
        "cases": len(rows),
        "votes": len(rows[0]["classification"]) if rows else 0,
        "first_votes": dict(Counter(row["classification"][0] for row in rows)),
        "verdicts": shares,
        "agreement": agreement([row["classification"] for row in rows]),
        "unreadable_votes": sum(vote == UNKNOWN for row in rows for vote in row["classification"]),
        "asked_again": sum(tries - 1 for row in rows for tries in row["asked"]),
        "tokens": {
            name: sum(used[f"{name}_tokens"] for row in rows for used in row["usage"])
            for name in ("prompt", "completion")
        },
    }


def _share(tasks: list[list[str]], label: str) -> dict[str, Any]:
    """Share of all cases (each weighs the same) with the interval of a ratio over tasks."""
    total = sum(map(len, tasks))
    share = sum(verdict == label for task in tasks for verdict in task) / total
    if len(tasks) < 2:
        return {"share": share, "ci95": [None, None]}
    # Linearised: a task's weighted deviation, so that tasks with many cases count as many.
    scale = len(tasks) / total
    deviations = [[sum((verdict == label) - share for verdict in task) * scale] for task in tasks]
    found = clustered_mean(deviations)
    return {"share": share, "ci95": [max(0.0, share + found.lo), min(1.0, share + found.hi)]}
