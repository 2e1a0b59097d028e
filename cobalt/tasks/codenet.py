"""Groups of stored programs from Project CodeNet, for training without sampling (arXiv 2605.28409):
`preproc/preproc_codenet.py`.

Read are ``metadata/pNNNNN.csv`` (one line per submission), ``data/pNNNNN/LANGUAGE/sNNNNNNNNN.EXT`` and
``problem_descriptions/pNNNNN.html``.
"""

from __future__ import annotations

import ast
import csv
import html
import random
import re
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from cobalt.cli import Progress, make_progress, parser, positive_int, tell
from cobalt.errors import InputError
from cobalt.files import StrPath, replacing
from cobalt.manifest import write_manifest
from cobalt.prompts import Prompts, load, prompts_flag
from cobalt.rows import Row

ACCEPTED = "Accepted"
# Verdicts on the program itself. Others (waiting, internal error, judge not available) say nothing about it.
WRONG = (
    *("Wrong Answer", "Runtime Error", "Compile Error", "Time Limit Exceeded", "Memory Limit Exceeded"),
    *("Output Limit Exceeded", "WA: Presentation Error"),
)
COLUMNS = ("submission_id", "problem_id", "language", "filename_ext", "status", "cpu_time")
MAX_LETTERS = 20_000  # of a program
_BATCH = 256

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
    problems_left_out: Counter[str] = field(default_factory=Counter)
    programs: int = 0
    programs_left_out: Counter[str] = field(default_factory=Counter)
    groups: int = 0


@dataclass(frozen=True)
class CodenetSettings:
    """Which programs: ``language`` as its folder is named, groups of ``size``, ``max_groups`` a problem;
    ``problems``: the first so many. Raises InputError for groups of one.
    """

    prompts: Prompts
    language: str = "Python"
    size: int = 4
    max_groups: int = 4
    seed: int = 42
    problems: int | None = None

    def __post_init__(self) -> None:
        if self.size < 2:
            raise InputError(f"--group_size must be at least 2, got {self.size}: a right and a wrong program")


def problem_ids(root: Path) -> list[str]:
    """Problems of a CodeNet tree, by their metadata files. Raises InputError for another folder."""
    found = sorted(path.stem for path in root.glob("metadata/p*.csv") if _PROBLEM.fullmatch(path.stem))
    if not found or not (root / "data").is_dir():
        raise InputError(f"{root} is no CodeNet tree: it needs the folders data and metadata (pNNNNN.csv)")
    return found


def statement_of(root: Path, problem: str) -> str | None:
    """The problem's description as text, a new line for every block; None without one."""
    try:
        page = (root / "problem_descriptions" / f"{problem}.html").read_text("utf-8", "replace")
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
                    self._counts.programs_left_out[f"status {row['status'] or 'missing'}"] += 1

    def _next(self, pool: list[Row]) -> Row | None:
        """The next program of a pool that can be used, as a completion; None when the pool is empty."""
        language = self._settings.language
        while pool:
            row = pool.pop()
            name = f"{row['submission_id']}.{row['filename_ext']}"
            try:
                code = (self._root / "data" / self._name / language / name).read_bytes().decode().strip()
            except (OSError, UnicodeDecodeError) as error:
                self._counts.programs_left_out["no file" if isinstance(error, OSError) else "not UTF-8"] += 1
                continue
            parses = language != "Python" or _parses(code)
            reason = self._unusable(code, parses or row["status"] != ACCEPTED)
            if reason is not None:
                self._counts.programs_left_out[reason] += 1
                continue
            self._used.add(code)
            return {
                "text": f"```{language.lower()}\n{code}\n```",
                "pass_rate": 1.0 if row["status"] == ACCEPTED else 0.0,
                "submission_id": row["submission_id"],
                "status": row["status"],
                "parses": parses,
                "cpu_time": int(row["cpu_time"]) if row["cpu_time"].isdigit() else -1,
            }
        return None

    def _unusable(self, code: str, runs: bool) -> str | None:
        if not code:
            return "empty"
        if len(code) > MAX_LETTERS:
            return "too long"
        if "```" in code:
            return "holds a fence"
        if code in self._used:
            return "a copy"
        return None if runs else "not Python 3"


def groups_of(root: Path, problem: str, settings: CodenetSettings, counts: CodenetCounts) -> Iterator[Row]:
    """Groups of one problem (`cobalt.schema.GroupRow`): disjoint, each with a right and a wrong program.

    Programs are drawn by the seed and the problem; copies of a program count once.
    """
    counts.problems += 1
    statement = statement_of(root, problem)
    if statement is None:
        counts.problems_left_out["no description"] += 1
        return
    programs, made = Problem(root, problem, settings, counts), 0
    while made < settings.max_groups and (group := programs.group()):
        yield {
            "data_source": "code_net",
            "prompt": settings.prompts.messages(settings.prompts.wrap(statement)),
            "completions": group,
            "extra_info": {"split": "train", "index": f"{problem}-{made}"},
        }
        made += 1
        counts.groups += 1
    if not made:
        counts.problems_left_out["too few right or wrong programs"] += 1


def _parses(code: str) -> bool:
    """Whether it is Python 3 (older submissions are Python 2); nothing is run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(code)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def build_codenet(
    root: StrPath, output: StrPath, settings: CodenetSettings, progress: Progress | None = None
) -> CodenetCounts:
    """Replace the Parquet file ``output``, atomically, by the groups of a tree.

    Raises InputError for a folder that is no such tree, metadata that cannot be read, or no group at all.
    """
    root, output = Path(root), Path(output)
    problems, counts = problem_ids(root)[: settings.problems], CodenetCounts()

    def groups() -> Iterator[Row]:
        for number, problem in enumerate(problems, start=1):
            yield from groups_of(root, problem, settings, counts)
            if progress is not None:
                progress.advance("problems", number, len(problems), groups=counts.groups)
        if not counts.groups:
            raise InputError(
                f"{root}: no problem has {settings.size} {settings.language} programs, right and wrong"
            )

    _write_parquet(output, groups())
    names = ("language", "max_groups", "problems", "seed")
    write_manifest(
        output,
        settings={name: getattr(settings, name) for name in names}
        | {"stage": "groups from CodeNet", "group_size": settings.size, "prompts": settings.prompts.sha256},
        counts=vars(counts),
        extra={"input": {"name": str(root), "problems": len(problems)}},
    )
    return counts


def _write_parquet(output: Path, groups: Iterator[Row]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    text = pa.string()
    message = pa.struct([("role", text), ("content", text)])
    completion = [
        *((name, text) for name in ("text", "submission_id", "status")),
        *(("pass_rate", pa.float64()), ("parses", pa.bool_()), ("cpu_time", pa.int64())),
    ]
    schema = pa.schema(
        [
            ("data_source", text),
            ("prompt", pa.list_(message)),
            ("completions", pa.list_(pa.struct(completion))),
            ("extra_info", pa.struct([("split", text), ("index", text)])),
        ]
    )
    with replacing(output) as handle, pq.ParquetWriter(handle, schema) as writer:
        while batch := list(islice(groups, _BATCH)):
            writer.write_table(pa.Table.from_pylist(batch, schema=schema))


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser("Build groups of stored programs from Project CodeNet, for offline training.")
    flags.add_argument("-i", "--input_dir", required=True, help="holds metadata, data, problem_descriptions")
    flags.add_argument(
        "-o", "--output_file", default="data/codenet_groups.parquet", help="Parquet file to write"
    )
    flags.add_argument("--language", default="Python", help="as its folders are named")
    flags.add_argument("--group_size", type=positive_int, default=4, help="programs, right and wrong ones")
    flags.add_argument("--max_groups", type=positive_int, default=4, help="groups of a problem, at most")
    flags.add_argument("--problems", type=positive_int, help="the first so many (default: all)")
    flags.add_argument("--seed", type=int, default=42, help="of the choice of programs")
    prompts_flag(flags)
    args = flags.parse_args(argv)
    settings = CodenetSettings(
        load(args.prompts), args.language, args.group_size, args.max_groups, args.seed, args.problems
    )
    with make_progress() as progress:
        counts = build_codenet(args.input_dir, args.output_file, settings, progress)
    lines = [f"{args.output_file}: {counts.groups} groups of {settings.size} from {counts.problems} problems"]
    for what, reasons in (("problems", counts.problems_left_out), ("programs", counts.programs_left_out)):
        lines += [f"{count} {what} left out: {reason}" for reason, count in sorted(reasons.items())]
    tell(lines)
    return 0
