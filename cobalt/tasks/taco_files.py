"""Settings, counts and files of the door from TACO-verified to tasks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.files import StrPath
from cobalt.manifest import write_manifest
from cobalt.prompts import Prompts, load
from cobalt.rows import Rows
from cobalt.tasks.splits import DEV_RULE, PUBLIC_RULE
from cobalt.tasks.taco import FUNCTIONAL, MIN_TESTS, RULES, Functional

SPLITS = ("train", "dev")


@dataclass(frozen=True)
class TacoSettings:
    """What determines the tasks, beside the input. Raises InputError for values that cannot be used.

    `max_solutions`: reference programs tried per task, 0 for none. `require_verified`: drop tasks of which
    none passes. `num_public`, `dev_size`, `seed`: see `cobalt.tasks.splits`. `functional`: see
    `filter_row`.
    """

    seed: int = 42
    max_solutions: int = 16
    require_verified: bool = False
    num_public: int = 4
    dev_size: int = 250
    functional: Functional = "stdin"
    prompts: Prompts = field(default_factory=lambda: load("default"), repr=False)

    def __post_init__(self) -> None:
        if not 0 < self.num_public < MIN_TESTS:
            raise InputError(
                f"--num_public must be from 1 to {MIN_TESTS - 1}, got {self.num_public}: every task has at "
                f"least {MIN_TESTS} tests, some of which must stay hidden"
            )
        if self.dev_size < 0 or self.max_solutions < 0:
            raise InputError("--dev_size and --max_solutions must not be negative")
        if self.require_verified and not self.max_solutions:
            raise InputError("--require_verified needs --max_solutions of at least 1")
        if self.functional not in FUNCTIONAL:
            raise InputError(f"--functional must be one of {', '.join(FUNCTIONAL)}, got {self.functional!r}")


@dataclass
class TacoSummary:
    """What came out: rows read and dropped by rule, tasks by verdict and split, overlaps, notes."""

    rows_in: int = 0
    dropped: dict[str, int] = field(default_factory=lambda: dict.fromkeys(RULES, 0))
    rows_out: int = 0
    verified: dict[str, int] = field(default_factory=lambda: {"true": 0, "false": 0, "null": 0})
    functional: int = 0
    splits: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SPLITS, 0))
    duplicates: int = 0
    bad_rows: int = 0
    overlapping: int | None = None
    warnings: list[str] = field(default_factory=list)

    def funnel(self) -> list[str]:
        """The report for a terminal: rows in, dropped by each rule, out."""
        lines = [f"{'rows in':<12}{self.rows_in:>9}"]
        if self.bad_rows:
            lines.append(f"{'  bad':<12}{-self.bad_rows:>9}  see the list of rejects")
        lines += [f"{'  ' + rule:<12}{-self.dropped[rule]:>9}  {why}" for rule, why in RULES.items()]
        lines.append(f"{'rows out':<12}{self.rows_out:>9}  ({self.functional} ask for a function)")
        verdicts = ", ".join(f"{count} {name}" for name, count in self.verified.items())
        lines.append(f"verified: {verdicts}")
        sizes = ", ".join(f"{count} {name}" for name, count in self.splits.items())
        lines.append(f"splits: {sizes} ({self.duplicates} statements occur more than once)")
        if self.overlapping is not None:
            lines.append(f"overlap: {self.overlapping} tasks share word sequences with the problems given")
        return lines


def split_path(output: StrPath, split: str) -> Path:
    """``data/x.jsonl`` -> ``data/x_train.jsonl``."""
    path = Path(output)
    return path.with_name(f"{path.stem}_{split}{path.suffix}")


def verdicts_path(output: StrPath) -> Path:
    """Where the verdicts on reference programs are kept: a killed run continues there."""
    return Path(os.fspath(output) + ".verdicts.jsonl")


def overlap_path(output: StrPath) -> Path:
    """Where the shared word sequences are listed."""
    return Path(os.fspath(output) + ".overlap.jsonl")


def write_manifests(
    targets: dict[str, Path],
    source: Rows,
    settings: TacoSettings,
    summary: TacoSummary,
    problems: Rows | None,
    on_bad_row: str,
) -> None:
    """The manifest beside each of the three files."""
    recorded: dict[str, Any] = {
        "stage": "tasks from TACO",
        "input_sha256": source.sha256,
        "seed": settings.seed,
        "max_solutions": settings.max_solutions,
        "require_verified": settings.require_verified,
        "num_public": settings.num_public,
        "public_rule": PUBLIC_RULE,
        "dev_size": settings.dev_size,
        "dev_rule": DEV_RULE,
        "functional": settings.functional,
        "prompts": settings.prompts.sha256,
        "decontaminate": None if problems is None else problems.sha256,
        "on_bad_row": on_bad_row,
    }
    counts = {
        "funnel": {
            "rows_in": summary.rows_in,
            "bad": summary.bad_rows,
            **summary.dropped,
            "rows_out": summary.rows_out,
        },
        "verified": summary.verified,
        "functional": summary.functional,
        "splits": summary.splits,
        "duplicates": summary.duplicates,
        "overlapping": summary.overlapping,
    }
    for name, path in targets.items():
        write_manifest(
            path,
            settings=recorded | {"split": name},
            inputs={"input_file": source.path} if source.path is not None else {},
            counts=counts,
            extra={"input": source.facts(), "warnings": summary.warnings},
        )
