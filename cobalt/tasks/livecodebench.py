"""LiveCodeBench release files to tasks, as in arXiv 2602.03806: `preproc/preproc_lcb_test6.py`."""

from __future__ import annotations

import base64
import binascii
import datetime
import json
import os
import pickletools
import zlib
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from cobalt.cli import Progress, make_progress, parser, tell
from cobalt.convert import Converted, bad_row_flag, convert_rows, record, rejected
from cobalt.errors import InputError
from cobalt.files import StrPath
from cobalt.prompts import Prompts, function_statement, load, prompts_flag
from cobalt.rows import INPUT_HELP, Row, Rows, UniqueIds, as_rows, open_rows, require, row_id
from cobalt.testcases import TestCases

Functional = Literal["stdin", "call"]
FUNCTIONAL: tuple[Functional, ...] = get_args(Functional)

CUTS = ("\nExample 1:\n\n", "\nSample Input 1\n\n")
HUB_NAME = "livecodebench/code_generation_lite"
STAGE = "tasks from LiveCodeBench"  # in manifests
DEFAULT_INPUT = "test6.jsonl"
DEFAULT_OUTPUT = "data/lcb_v6.jsonl"
OUTSIDE = "outside the dates"
MAX_BYTES = 256 << 20  # of an unpacked list of tests
# All that a pickled text consists of; others build structures, or find, call and build objects.
_TEXT_CODES = (
    "PROTO FRAME UNICODE BINUNICODE SHORT_BINUNICODE BINUNICODE8 PUT BINPUT LONG_BINPUT MEMOIZE STOP"
)
_ALLOWED = frozenset(_TEXT_CODES.split())
_CONSUMED = ("question_id", "question_content", "public_test_cases", "private_test_cases", "difficulty")


@dataclass(frozen=True)
class LcbSettings:
    """Which problems, and how functional ones are put.

    `start` and `end` are the first and last day of the contest (None: open). `functional`: `stdin` has JSON
    arguments on the lines of the input, as published; `call` calls the function. Raises InputError for an
    empty window.
    """

    start: datetime.date | None = None
    end: datetime.date | None = None
    functional: Functional = "stdin"
    prompts: Prompts = field(default_factory=lambda: load("default"), repr=False)

    def __post_init__(self) -> None:
        if self.start is not None and self.end is not None and self.start > self.end:
            raise InputError(f"--start {self.start} is after --end {self.end}")

    def admits(self, day: datetime.date) -> bool:
        """Whether a day lies between `start` and `end`, both included."""
        return (self.start is None or self.start <= day) and (self.end is None or day <= self.end)


def convert(row: Row, where: str, settings: LcbSettings) -> Row | str:
    """The task of a problem, or OUTSIDE.

    Raises InputError, beginning with `where` and the field, for a row that cannot be used.
    """
    task_id = row_id(row, where, "question_id")
    content = require(row, "question_content", str, where)
    difficulty = require(row, "difficulty", str, where)
    if not settings.admits(_contest_date(row, where)):
        return OUTSIDE
    public, hidden = (_tests(row, f"{part}_test_cases", where) for part in ("public", "private"))
    if not public + hidden:
        raise InputError(f"{where}: the problem has no tests")
    name = func_name(row, where)
    kinds = {test["testtype"] for test in public + hidden}
    functional = "functional" in kinds
    if functional and len(kinds) > 1:
        raise InputError(f"{where}: 'testtype' is both functional and stdin")
    statement = cut(content)
    fn_name = None
    if functional and settings.functional == "call":
        if name is None:
            raise InputError(f"{where}: field 'metadata' has no 'func_name', which --functional call needs")
        fn_name = name
        starter = row.get("starter_code")
        statement = function_statement(statement, name, starter if isinstance(starter, str) else None)
    parts = [_test_cases(tests, fn_name, where) for tests in (public, hidden)]
    return {
        "id": task_id,
        "difficulty": difficulty,
        "instruction": settings.prompts.wrap(statement),
        "test_cases": (parts[0] + parts[1]).to_json(),
        "public_test_cases": parts[0].to_json(),
        "hidden_test_cases": parts[1].to_json(),
        **{name: value for name, value in row.items() if name not in _CONSUMED},
        "is_functional": functional,
    }


def cut(content: str) -> str:
    """The statement without its examples: up to the first of the two published headings."""
    for heading in CUTS:
        before, found, _ = content.partition(heading)
        if found:
            return before.strip()
    return content.strip()


def _contest_date(row: Row, where: str) -> datetime.date:
    text = require(row, "contest_date", str, where)
    try:
        return datetime.datetime.fromisoformat(text).date()
    except ValueError:
        raise InputError(f"{where}: field 'contest_date' must be an ISO date, got {text!r}") from None


def func_name(row: Row, where: str) -> str | None:
    """`metadata.func_name` (J or an object), None without one."""
    metadata = row.get("metadata")
    if isinstance(metadata, str):
        try:
            metadata = json.loads(metadata) if metadata.strip() else None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: field 'metadata': not valid JSON ({error})") from None
    name = metadata.get("func_name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) and name else None


def _tests(row: Row, name: str, where: str) -> list[dict[str, Any]]:
    value = require(row, name, (str, list), where)
    place = f"{where}: field '{name}'"
    tests = decode_tests(value, place) if isinstance(value, str) else value
    for index, test in enumerate(tests):
        if not isinstance(test, dict):
            raise InputError(f"{place}[{index}] must be an object with input, output and testtype")
        for key in ("input", "output"):
            if not isinstance(test.get(key), str):
                raise InputError(f"{place}[{index}]: '{key}' must be a string")
        if test.setdefault("testtype", "stdin") not in ("stdin", "functional"):
            raise InputError(f"{place}[{index}]: 'testtype' must be stdin or functional")
    return list(tests)


def decode_tests(text: str, where: str) -> list[Any]:
    """The list of tests in a field: JSON text as it is, or base64(zlib(pickle(JSON text))).

    Raises InputError, beginning with `where`, for anything else: a pickle of more than a text, data that
    unpack to more than `MAX_BYTES`, or no list.
    """
    stripped = text.strip()
    if not stripped.startswith(("[", "{", '"')):
        text = _pickled_text(_inflate(stripped, where), where)
    try:
        tests = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not valid JSON ({error})") from None
    if not isinstance(tests, list):
        raise InputError(f"{where}: must hold a list of tests, got {type(tests).__name__}")
    return tests


def _inflate(text: str, where: str) -> bytes:
    try:
        packed = base64.b64decode(text, validate=True)
        stream = zlib.decompressobj()
        data = stream.decompress(packed, MAX_BYTES)
        if stream.unconsumed_tail or (not stream.eof and stream.decompress(b"", 1)):
            raise InputError(f"{where}: unpacks to more than {MAX_BYTES >> 20} MiB")
        if not stream.eof:
            raise InputError(f"{where}: the compressed data end too early")
    except (binascii.Error, ValueError, zlib.error) as error:
        raise InputError(
            f"{where}: neither JSON nor base64 of zlib of a pickle ({error}); is the file complete?"
        ) from None
    return data


def _pickled_text(data: bytes, where: str) -> str:
    """The text of a pickle, read out of its opcodes: nothing is unpickled."""
    text: object = None
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name not in _ALLOWED:
                raise InputError(f"{where}: a pickle of more than a text ({opcode.name}) is not opened")
            text = argument if "UNICODE" in opcode.name else text
    except InputError:
        raise
    except Exception as error:  # broken pickles raise nearly anything
        raise InputError(f"{where}: a broken pickle ({type(error).__name__}: {error})") from None
    if not isinstance(text, str):
        raise InputError(f"{where}: the pickle holds no text")
    return text


def _test_cases(tests: list[dict[str, Any]], fn_name: str | None, where: str) -> TestCases:
    if fn_name is None:
        return TestCases.of((test["input"], test["output"]) for test in tests)
    try:
        inputs = [[json.loads(line) for line in test["input"].split("\n") if line.strip()] for test in tests]
        outputs = [json.loads(test["output"]) for test in tests]
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: arguments and value of {fn_name} must be JSON ({error})") from None
    return TestCases(inputs, outputs, fn_name)


@dataclass
class LcbSummary(Converted):
    """Also how many of the problems written are functional."""

    functional: int = 0


def build_lcb(
    source: Rows | StrPath,
    output: StrPath,
    settings: LcbSettings | None = None,
    *,
    on_bad_row: str = "fail",
    progress: Progress | None = None,
) -> LcbSummary:
    """Replace `output` by the tasks of a release file, atomically. One problem is in memory at a time.

    Raises InputError for an input that cannot be used (`file:line`, field); nothing has been changed then.
    """
    source = as_rows(source)
    settings = settings or LcbSettings()
    ids, summary = UniqueIds("question_id"), LcbSummary()

    def made(row: Row, where: str) -> Row | str:
        task = convert(row, where, settings)
        ids(row, where)
        summary.functional += not isinstance(task, str) and task["is_functional"]
        return task

    rows = convert_rows(source, output, made, unit="problems", on_bad_row=on_bad_row, progress=progress)
    vars(summary).update(vars(rows))
    recorded = {
        "stage": STAGE,
        "start": settings.start and settings.start.isoformat(),
        "end": settings.end and settings.end.isoformat(),
        "functional": settings.functional,
        "prompts": settings.prompts.sha256,
        "on_bad_row": on_bad_row,
    }
    record(output, source, recorded, asdict(summary))
    return summary


def locate(spec: str) -> str:
    """The file that a name means: for the data set itself, its newest release file."""
    return f"{HUB_NAME}:{DEFAULT_INPUT}" if spec == HUB_NAME and not os.path.exists(spec) else spec


def main(argv: list[str] | None = None) -> int:
    """The command line; returns the exit code."""
    flags = parser("Turn a LiveCodeBench release file into tasks.")
    flags.add_argument(
        "-i", "--input_file", default=DEFAULT_INPUT,
        help=f"release file, or {HUB_NAME}[:FILE]; any {INPUT_HELP}",
    )  # fmt: skip
    flags.add_argument("-o", "--output_file", default=DEFAULT_OUTPUT, help="JSONL of tasks to write")
    for flag, which in (("--start", "first"), ("--end", "last")):
        flags.add_argument(
            flag, type=datetime.date.fromisoformat, metavar="YYYY-MM-DD", help=f"{which} day of the contest"
        )
    flags.add_argument(
        "--functional", choices=FUNCTIONAL, default="stdin",
        help="problems that ask for a function: as programs that read JSON arguments (published), or called",
    )  # fmt: skip
    prompts_flag(flags)
    bad_row_flag(flags)
    args = flags.parse_args(argv)
    settings = LcbSettings(args.start, args.end, args.functional, load(args.prompts))
    with make_progress() as progress:
        made = build_lcb(
            open_rows(locate(args.input_file)), args.output_file, settings,
            on_bad_row=args.on_bad_row, progress=progress,
        )  # fmt: skip
    lines = [f"{args.output_file}: {made.written} problems, {made.functional} of them functional"]
    lines += [f"{count} problems {reason} left out" for reason, count in made.dropped.items()]
    tell(lines + rejected(made.bad_rows, args.output_file))
    return 0
