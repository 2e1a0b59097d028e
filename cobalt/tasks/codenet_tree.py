"""Groups of stored programs out of a tree of Project CodeNet.

Layout: ``metadata/problem_list.csv``, ``metadata/pNNNNN.csv`` (one line per submission),
``data/pNNNNN/LANGUAGE/sNNNNNNNNN.EXT`` and ``problem_descriptions/pNNNNN.html``.
"""

from __future__ import annotations

import ast
import csv
import html
import random
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.prompts import Prompts
from cobalt.rows import Row

ACCEPTED = "Accepted"
# Verdicts on the program itself. Others (waiting, internal error, judge not available) say nothing about it.
WRONG = (
    *("Wrong Answer", "Runtime Error", "Compile Error", "Time Limit Exceeded", "Memory Limit Exceeded"),
    *("Output Limit Exceeded", "WA: Presentation Error"),
)
_NUMBERS = ("cpu_time", "memory", "code_size")
COLUMNS = ("submission_id", "problem_id", "language", "filename_ext", "status", *_NUMBERS)
DATA_SOURCE = "code_net"

_PROBLEM = re.compile(r"p\d{5}")
_SUBMISSION = re.compile(r"s\d{9}")
_SILENT = re.compile(r"<!--.*?-->|<(script|style|head|title)\b.*?</\1\s*>", re.DOTALL | re.IGNORECASE)
_BLOCK = re.compile(
    r"</?(?:p|div|br|li|ul|ol|h[1-6]|pre|table|tr|hr|section|blockquote|dt|dd)\b[^>]*>", re.IGNORECASE
)
_TAG = re.compile(r"</?[a-zA-Z!?][^>]*>")


@dataclass
class CodenetCounts:
    """Problems and programs read, left out by reason, groups and programs written."""

    problems: int = 0
    problems_left_out: dict[str, int] = field(default_factory=dict)
    programs: int = 0
    programs_left_out: dict[str, int] = field(default_factory=dict)
    groups: int = 0
    right: int = 0

    def leave_out(self, what: str, reason: str) -> None:
        """Count a problem or a program (``problems``, ``programs``) that is not used."""
        counts: dict[str, int] = getattr(self, f"{what}_left_out")
        counts[reason] = counts.get(reason, 0) + 1


@dataclass(frozen=True)
class CodenetSettings:
    """Which programs: ``language`` as its folder is named, groups of ``size``, ``max_groups`` a problem.

    ``max_letters``: longer programs are left out; ``problems``: the first so many. Raises InputError for
    values that cannot be used.
    """

    prompts: Prompts
    language: str = "Python"
    size: int = 4
    max_groups: int = 4
    max_letters: int = 20_000
    seed: int = 42
    problems: int | None = None

    def __post_init__(self) -> None:
        if self.size < 2:
            raise InputError(
                f"--group_size must be at least 2, got {self.size}: one right and one wrong program"
            )


def problem_ids(root: Path) -> list[str]:
    """Problems of a CodeNet tree, by their metadata files. Raises InputError for another folder."""
    folder = root / "metadata"
    if not folder.is_dir() or not (root / "data").is_dir():
        raise InputError(f"{root} is no CodeNet tree: it needs the folders metadata and data")
    found = sorted(path.stem for path in folder.glob("p*.csv") if _PROBLEM.fullmatch(path.stem))
    if not found:
        raise InputError(f"{folder} holds no pNNNNN.csv")
    return found


def statement_of(root: Path, problem: str) -> str | None:
    """The problem's description as text, a new line for every block; None without one."""
    try:
        page = (root / "problem_descriptions" / f"{problem}.html").read_text(
            encoding="utf-8", errors="replace"
        )
    except OSError:
        return None
    text = html.unescape(_TAG.sub("", _BLOCK.sub("\n", _SILENT.sub("", page))))
    lines = (re.sub(r"[ \t\r\f\v\xa0]+", " ", line).strip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() or None


class Problem:
    """The submissions of one problem: right and wrong ones in the order of the draw, and what was used.

    Raises InputError, naming file and line, for metadata that cannot be read.
    """

    def __init__(self, root: Path, name: str, settings: CodenetSettings, counts: CodenetCounts) -> None:
        self._root, self._name, self._settings, self._counts = root, name, settings, counts
        self._used: set[str] = set()
        self._rng = random.Random(f"codenet {settings.seed} {name}")
        self._pools: tuple[list[Row], list[Row]] = [], []  # right, wrong
        for row in self._submissions():
            self._pools[row["status"] != ACCEPTED].append(row)
        for pool in self._pools:
            self._rng.shuffle(pool)

    def group(self) -> list[Row] | None:
        """One right and one wrong program, then more from the larger pool; None if they do not suffice."""
        right, wrong = self._pools
        chosen = []
        for number in range(self._settings.size):
            larger = (right, wrong) if len(right) > len(wrong) else (wrong, right)
            pools = (self._pools[number],) if number < 2 else larger
            item = next(filter(None, map(self._next, pools)), None)
            if item is None:
                return None
            chosen.append(item)
        self._rng.shuffle(chosen)
        return chosen

    def _submissions(self) -> Iterator[Row]:
        """Those in the language that got a verdict, from the metadata alone."""
        path = self._root / "metadata" / f"{self._name}.csv"
        with open(path, encoding="utf-8", errors="replace", newline="") as handle:
            lines = csv.DictReader(handle)
            missing = [name for name in COLUMNS if name not in (lines.fieldnames or ())]
            if missing:
                raise InputError(f"{path}:1: column '{missing[0]}' is missing")
            for row in lines:
                where = f"{path}:{lines.line_num}"
                if any(row[name] is None for name in COLUMNS):
                    raise InputError(f"{where}: has {sum(v is not None for v in row.values())} columns")
                if row["language"] != self._settings.language:
                    continue
                self._counts.programs += 1
                if not _SUBMISSION.fullmatch(row["submission_id"]) or row["problem_id"] != self._name:
                    raise InputError(f"{where}: submission_id or problem_id is not of this problem")
                if row["status"] in (ACCEPTED, *WRONG):
                    yield row
                else:
                    self._counts.leave_out("programs", f"status {row['status'] or 'missing'}")

    def _next(self, pool: list[Row]) -> Row | None:
        """The next program of a pool that can be used, as a completion; None when the pool is empty."""
        language = self._settings.language
        while pool:
            row = pool.pop()
            name = f"{row['submission_id']}.{row['filename_ext']}"
            try:
                code = (
                    (self._root / "data" / self._name / language / name).read_bytes().decode("utf-8").strip()
                )
            except OSError:
                self._counts.leave_out("programs", "no file")
                continue
            except UnicodeDecodeError:
                self._counts.leave_out("programs", "not UTF-8")
                continue
            parses = language != "Python" or _parses(code)
            reason = self._unusable(code)
            if reason is None and not parses and row["status"] == ACCEPTED:
                reason = "not Python 3"
            if reason is not None:
                self._counts.leave_out("programs", reason)
                continue
            self._used.add(code)
            return {
                "text": f"```{language.lower()}\n{code}\n```",
                "pass_rate": 1.0 if row["status"] == ACCEPTED else 0.0,
                "submission_id": row["submission_id"],
                "status": row["status"],
                "parses": parses,
                **{key: _number(row[key]) for key in _NUMBERS},
            }
        return None

    def _unusable(self, code: str) -> str | None:
        if not code:
            return "empty"
        if len(code) > self._settings.max_letters:
            return "too long"
        if "```" in code:
            return "holds a fence"
        return "a copy" if code in self._used else None


def groups_of(root: Path, problem: str, settings: CodenetSettings, counts: CodenetCounts) -> Iterator[Row]:
    """Groups of one problem (`cobalt.schema.GroupRow`): disjoint, each with a right and a wrong program.

    Programs are drawn by the seed and the problem; copies of a program count once.
    """
    counts.problems += 1
    statement = statement_of(root, problem)
    if statement is None:
        counts.leave_out("problems", "no description")
        return
    programs, made = Problem(root, problem, settings, counts), 0
    while made < settings.max_groups and (group := programs.group()):
        yield {
            "data_source": DATA_SOURCE,
            "prompt": settings.prompts.messages(settings.prompts.wrap(statement)),
            "completions": group,
            "extra_info": {"split": "train", "index": f"{problem}-{made}"},
        }
        made += 1
        counts.groups += 1
        counts.right += sum(item["pass_rate"] == 1.0 for item in group)
    if not made:
        counts.leave_out("problems", "too few right or wrong programs")


def _parses(code: str) -> bool:
    """Whether it is Python 3 (older submissions are Python 2); nothing is run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _number(text: str) -> Any:
    """A whole number of the metadata (ms, KB, bytes); -1 where there is none."""
    try:
        return int(text)
    except ValueError:
        return -1
