"""`cobalt data check`: does a file keep to its format, which stage made it, and which can read it?"""

from __future__ import annotations

from pathlib import Path

from cobalt.cli import parser, positive_int
from cobalt.contexts.trajectories import check_conversation, rate, read_trajectories
from cobalt.errors import InputError
from cobalt.files import atomic_write
from cobalt.kinds import USES, Kind, field_table, fields_of, kind_of, lacking, type_problem
from cobalt.manifest import read_manifest
from cobalt.rows import INPUT_HELP, Row, UniqueIds, open_rows, parsed, require
from cobalt.tasks.livecodebench import LcbSettings, convert
from cobalt.tasks.own import refuse_contradictions
from cobalt.tasks.taco_rows import filter_row
from cobalt.testcases import TestCases

BEGIN, END = "<!-- fields: begin (cobalt data fields --write docs/data.md) -->", "<!-- fields: end -->"
_ANY_TESTS = '{"inputs": [""], "outputs": [""]}'


class Checker:
    """Judges the rows of one file; its kind is that of the first row that has one."""

    def __init__(self) -> None:
        self.kind: Kind | None = None
        self.unknown: dict[str, None] = {}
        self.not_for: dict[str, str] = {}  # what the file cannot be used for, and why
        self._ids = UniqueIds()

    def __call__(self, row: Row, where: str) -> None:
        """Raise InputError, with place and field, for a row that breaks the format."""
        if self.kind is None:
            self.kind = kind_of(row)
            if self.kind is None:
                raise InputError(
                    f"{where}: no kind of row of the pipeline has these fields: {', '.join(row)}"
                )
            self._ids = UniqueIds(self.kind.unique or "id")
        missing = {use: lacking(row, names) for use, names in USES.get(self.kind.name, {}).items()}
        for use, fields in missing.items():
            if fields and use not in self.not_for:
                said = ", ".join(" or ".join(f"'{each}'" for each in name.split("|")) for name in fields)
                self.not_for[use] = f"{where}: {said} missing"
        if missing and all(missing.values()):
            first = next(iter(missing.values()))[0].split("|")[0]
            raise InputError(f"{where}: field '{first}' is missing")
        problem = type_problem(row, self.kind)
        if problem is not None:
            raise InputError(f"{where}: {problem}")
        _check_content(row, where, self.kind.name)
        if self.kind.unique:
            self._ids(row, where)
        self.unknown.update(dict.fromkeys(name for name in row if name not in fields_of(self.kind.row)))


def _check_content(row: Row, where: str, kind: str) -> None:
    """What types cannot say: tests that parse, axes that agree, dialogues in turn."""
    if kind == "TACO problems":
        filter_row(row, where)
        return
    if kind == "LiveCodeBench problems":
        convert(row, where, LcbSettings())
        return
    refuse_contradictions(row, where)
    if kind in ("training examples", "stored groups"):
        _check_example(row, where, kind)
    elif kind == "contexts":
        check_conversation(row["conversation"], f"{where}: field 'conversation'")
        rate(row["prev_best_pass_rate"], f"{where}: field 'prev_best_pass_rate'")
    elif kind == "single-turn completions":
        if row.get("exec_results") is not None and len(row["responses"]) != len(row["exec_results"]):
            raise InputError(
                f"{where}: {len(row['responses'])} 'responses' but {len(row['exec_results'])} 'exec_results'"
            )
    elif kind == "trajectories":
        for s, conversation in enumerate(row["conversations"]):
            check_conversation(conversation, f"{where}: conversations[{s}]")
    elif kind == "evaluated trajectories":
        full = {"difficulty": "", **{name: value for name, value in row.items() if value is not None}}
        if row.get("test_cases") is None:  # another stage's business: here only the axes count
            full |= {"test_cases": _ANY_TESTS, "public_test_cases": _ANY_TESTS}
        read_trajectories(full, where)


def _check_example(row: Row, where: str, kind: str) -> None:
    prompt = row["prompt"]
    if not prompt or prompt[-1].get("role") != "user":
        raise InputError(f"{where}: field 'prompt' must end with a user message")
    split = require(row["extra_info"], "split", str, f"{where}: field 'extra_info'")
    if kind == "training examples":
        tests = require(row["reward_model"], "ground_truth", str, f"{where}: field 'reward_model'")
        TestCases.parse(tests, where=f"{where}: field 'reward_model.ground_truth'")
        if split not in ("train", "test"):
            raise InputError(f"{where}: field 'extra_info.split' must be train or test, got {split!r}")
        return
    for index, item in enumerate(row["completions"]):
        place = f"{where}: field 'completions'[{index}]"
        require(item, "text", str, place)
        rate(require(item, "pass_rate", (int, float), place), f"{place}.pass_rate")


def main(argv: list[str] | None = None) -> int:
    """`cobalt data check FILE` and `cobalt data fields`; returns the exit code."""
    flags = parser("Check a file of the pipeline, or write the table of all fields.", prog="cobalt data")
    words = flags.add_subparsers(dest="word", required=True)
    checks = words.add_parser("check", help="a file against its format")
    checks.add_argument("file", help=INPUT_HELP)
    checks.add_argument("--show", type=positive_int, default=10, help="bad rows to print")
    table = words.add_parser("fields", help="the table of all fields of all files")
    table.add_argument("--write", metavar="PAGE", help="put it between the marks in this Markdown page")
    args = flags.parse_args(argv)
    return check(args.file, args.show) if args.word == "check" else fields(args.write)


def check(file: str, show: int) -> int:
    """Print what a file is and is good for, and its first bad rows; 0 if every row is good, else 2."""
    source, checker = open_rows(file), Checker()
    rows, bad = 0, 0
    shown: list[str] = []
    for where, raw in source.raw():
        rows += 1
        try:
            checker(parsed(raw, where), where)
        except InputError as error:
            bad += 1
            shown += [str(error)] if len(shown) < show else []
    if not rows:
        raise InputError(f"{file} holds no rows")
    kind = checker.kind
    print(f"{file}: {rows} rows, {kind.name if kind else 'of no known kind'}")
    if kind is not None:
        print(f"  made by {kind.made_by}")
        uses = USES.get(kind.name, {kind.read_by: ()})
        fit = [use for use in uses if use not in checker.not_for]
        if fit:
            print(f"  can be used for {'; '.join(fit)}")
        for use, why in checker.not_for.items():
            print(f"  not for {use}: {why}")
    if checker.unknown:
        print(f"  other fields, which pass through: {', '.join(checker.unknown)}")
    manifest = read_manifest(source.path) if source.path is not None else None
    if manifest is not None:
        print(f"  its manifest: {manifest.get('created')}, {' '.join(manifest.get('argv', []))}")
    for problem in shown:
        print(problem)
    if bad > len(shown):
        print(f"... and {bad - len(shown)} more")
    print(f"{bad} of {rows} rows are bad" if bad else "all rows are good")
    return 2 if bad else 0


def fields(page: str | None) -> int:
    """The table of all fields, printed or put between the marks in a page."""
    if page is None:
        print(field_table(), end="")
        return 0
    text = Path(page).read_text("utf-8")
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise InputError(f"{page} has no lines {BEGIN} and {END}")
    atomic_write(page, f"{before}{BEGIN}\n\n{field_table()}\n{END}{after}")
    return 0
