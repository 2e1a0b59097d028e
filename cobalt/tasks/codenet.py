"""Groups of stored programs from Project CodeNet, for training without sampling (arXiv 2605.28409).

Layout of the source: ``metadata/problem_list.csv``, ``metadata/pNNNNN.csv`` (one line per submission),
``data/pNNNNN/LANGUAGE/sNNNNNNNNN.EXT`` and ``problem_descriptions/pNNNNN.html``.
"""

from __future__ import annotations

import ast
import csv
import random
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
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
COLUMNS = (
    "submission_id",
    "problem_id",
    "language",
    "filename_ext",
    "status",
    "cpu_time",
    "memory",
    "code_size",
)
DATA_SOURCE = "code_net"

_PROBLEM = re.compile(r"p\d{5}")
_SUBMISSION = re.compile(r"s\d{9}")


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
    """The problem's description as text; None without one."""
    path = root / "problem_descriptions" / f"{problem}.html"
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    reader = _Text()
    reader.feed(text)
    reader.close()
    lines = (re.sub(r"[ \t\r\f\v\xa0]+", " ", line).strip() for line in "".join(reader.parts).split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() or None


class _Text(HTMLParser):
    """The text of a page, a new line for every block."""

    _BLOCKS = frozenset(
        ["p", "div", "br", "li", "ul", "ol", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "table", "tr", "hr",
         "section", "blockquote", "dt", "dd"]
    )  # fmt: skip
    _SILENT = frozenset(("script", "style", "head", "title"))

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []
        self._silent = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._silent += tag in self._SILENT
        if tag in self._BLOCKS:
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in self._SILENT and self._silent > 0
        if tag in self._BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.parts.append(data)


def groups_of(root: Path, problem: str, settings: CodenetSettings, counts: CodenetCounts) -> Iterator[Row]:
    """Groups of one problem (`cobalt.schema.GroupRow`): disjoint, each with a right and a wrong program.

    Programs are drawn by the seed and the problem; copies of a program count once. Raises InputError,
    naming file and line, for metadata that cannot be read.
    """
    counts.problems += 1
    statement = statement_of(root, problem)
    if statement is None:
        counts.leave_out("problems", "no description")
        return
    right, wrong = _candidates(root, problem, settings, counts)
    rng = random.Random(f"codenet {settings.seed} {problem}")
    rng.shuffle(right)
    rng.shuffle(wrong)
    made = 0
    seen: set[str] = set()
    while made < settings.max_groups:
        group = _draw(root, problem, settings, counts, (right, wrong), seen, rng)
        if group is None:
            break
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


def _draw(
    root: Path,
    problem: str,
    settings: CodenetSettings,
    counts: CodenetCounts,
    pools: tuple[list[Row], list[Row]],
    seen: set[str],
    rng: random.Random,
) -> list[Row] | None:
    """One right and one wrong program, then more from the larger pool; None if the pools do not suffice."""
    chosen = []
    for pool in pools:
        item = _next(root, problem, settings, counts, pool, seen)
        if item is None:
            return None
        chosen.append(item)
    while len(chosen) < settings.size:
        first, second = pools if len(pools[0]) > len(pools[1]) else (pools[1], pools[0])
        item = _next(root, problem, settings, counts, first, seen) or _next(
            root, problem, settings, counts, second, seen
        )
        if item is None:
            return None
        chosen.append(item)
    rng.shuffle(chosen)
    return chosen


def _candidates(
    root: Path, problem: str, settings: CodenetSettings, counts: CodenetCounts
) -> tuple[list[Row], list[Row]]:
    """(right, wrong) submissions of the language, from the metadata alone."""
    path = root / "metadata" / f"{problem}.csv"
    right: list[Row] = []
    wrong: list[Row] = []
    with open(path, encoding="utf-8", errors="replace", newline="") as handle:
        lines = csv.DictReader(handle)
        missing = [name for name in COLUMNS if name not in (lines.fieldnames or ())]
        if missing:
            raise InputError(f"{path}:1: column '{missing[0]}' is missing")
        for row in lines:
            where = f"{path}:{lines.line_num}"
            if any(row[name] is None for name in COLUMNS):
                raise InputError(f"{where}: has {sum(v is not None for v in row.values())} columns")
            if row["language"] != settings.language:
                continue
            counts.programs += 1
            if not _SUBMISSION.fullmatch(row["submission_id"]) or row["problem_id"] != problem:
                raise InputError(f"{where}: submission_id or problem_id is not of this problem")
            if row["status"] == ACCEPTED:
                right.append(row)
            elif row["status"] in WRONG:
                wrong.append(row)
            else:
                counts.leave_out("programs", f"status {row['status'] or 'missing'}")
    return right, wrong


def _next(
    root: Path,
    problem: str,
    settings: CodenetSettings,
    counts: CodenetCounts,
    pool: list[Row],
    seen: set[str],
) -> Row | None:
    """The next program of a pool that can be used, as a completion; None when the pool is empty."""
    while pool:
        row = pool.pop()
        name = f"{row['submission_id']}.{row['filename_ext']}"
        path = root / "data" / problem / settings.language / name
        try:
            code = path.read_bytes().decode("utf-8").strip()
        except OSError:
            counts.leave_out("programs", "no file")
            continue
        except UnicodeDecodeError:
            counts.leave_out("programs", "not UTF-8")
            continue
        parses = settings.language != "Python" or _parses(code)
        reason = _unusable(code, settings, seen)
        if reason is None and not parses and row["status"] == ACCEPTED:
            reason = "not Python 3"
        if reason is not None:
            counts.leave_out("programs", reason)
            continue
        seen.add(code)
        return {
            "text": f"```{settings.language.lower()}\n{code}\n```",
            "pass_rate": 1.0 if row["status"] == ACCEPTED else 0.0,
            "submission_id": row["submission_id"],
            "status": row["status"],
            "parses": parses,
            **{key: _number(row[key]) for key in ("cpu_time", "memory", "code_size")},
        }
    return None


def _unusable(code: str, settings: CodenetSettings, seen: set[str]) -> str | None:
    if not code:
        return "empty"
    if len(code) > settings.max_letters:
        return "too long"
    if "```" in code:
        return "holds a fence"
    return "a copy" if code in seen else None


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
