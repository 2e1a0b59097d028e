"""Samples in the formats of other benchmarks: read beside their tasks to be judged, written from rollouts.

EvalPlus and BigCodeBench: a line per sample, `{task_id, solution}`, or `{task_id, completion}` of which the
task's prompt is the beginning. LiveCodeBench (`custom_evaluator`): a list of `{question_id, code_list}`.
Programs are taken as they are: nothing is looked for between fences.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from cobalt.cli import parser, tell
from cobalt.convert import record
from cobalt.errors import InputError
from cobalt.evaluation.programs import CODE_TESTS, programs_of
from cobalt.files import StrPath, atomic_write
from cobalt.kinds import fields_of
from cobalt.output import refuse_overwriting, write_jsonl
from cobalt.prompts import DEFAULT
from cobalt.rows import INPUT_HELP, Raw, Row, Rows, UniqueIds, open_rows, parsed, require, row_id, type_name
from cobalt.schema import EvalRow, TaskRow
from cobalt.tasks.own import NO_LABEL
from cobalt.tasks.sets import TaskSet, task_source

FORMATS = ("evalplus", "bigcodebench", "livecodebench")
TURNS = ("last", "all")
_KEYS = ("id", "question_id", "task_id")  # of a task: ours, LiveCodeBench's, the others'
_PROMPTS = ("complete_prompt", "prompt")  # BigCodeBench's, HumanEval's


class Sample(NamedTuple):
    """A program, and where it stands by which key; where it is not `whole`, it follows its task's prompt."""

    where: str
    key: str
    code: str
    whole: bool


def read_samples(rows: Rows) -> dict[str, list[Sample]]:
    """The samples of each task, by its id as text, in the order of the file.

    Raises InputError that names file, line and field.
    """
    found: dict[str, list[Sample]] = {}
    for where, row in rows:
        if "responses" in row or "conversations" in row:
            raise InputError(f"{where}: rollouts, not samples: they have their tests; leave --tasks out")
        key, field = ("question_id" if "question_id" in row or "code_list" in row else "task_id"), "code_list"
        task = str(row_id(row, where, key))
        if key == "question_id":
            codes = require(row, field, list, where)
            if not codes:
                raise InputError(f"{where}: field '{field}' holds no programs")
        else:
            field = "completion" if "solution" not in row and "completion" in row else "solution"
            codes = [require(row, field, str, where)]
        for index, code in enumerate(codes):
            if not isinstance(code, str):
                raise InputError(f"{where}: field '{field}'[{index}] must be a string, got {type_name(code)}")
        found.setdefault(task, []).extend(Sample(where, key, code, field != "completion") for code in codes)
    if not found:
        raise InputError(f"{rows.name}: there are no samples")
    return found


class SampledTasks(TaskSet):
    """Tasks that have samples, in their order, as rows of a single turn: `responses` for readers and
    `exact_programs`, which are judged. `missing`: how many tasks of the last pass had none.

    Tasks are those of `task_set`, or of HumanEval's or BigCodeBench's layout, whose tests are code (`test`
    and `entry_point`; see `with_tests`). Raises InputError for samples of tasks that are not there.
    """

    def __init__(self, samples: Rows, tasks: str) -> None:
        self._tasks = task_source(tasks)
        super().__init__(self._tasks, DEFAULT, "call")  # as LiveCodeBench judges its functional problems
        self._samples = read_samples(samples)
        self.paths = [*samples.paths, *self.paths]
        self.missing = 0

    def raw(self) -> Iterator[tuple[str, Raw]]:
        left, unique, self.missing = dict(self._samples), UniqueIds(), 0
        for where, raw in self._tasks.raw():
            row = parsed(raw, where)
            key = str(_key(row, where))
            unique({"id": key}, where)
            if key in left:
                yield where, self._sampled(row, where, left.pop(key))
            else:
                self.missing += 1
        if left:
            first = next(iter(left.values()))[0]
            some = ", ".join(map(repr, list(left)[:5])) + (", ..." if len(left) > 5 else "")
            where = f"{first.where}: field '{first.key}'"
            raise InputError(f"{where}: {self.name} has no task {some} ({len(left)} in all)")

    def _sampled(self, row: Row, where: str, samples: list[Sample]) -> Row:
        prompt = next((row[name] for name in _PROMPTS if isinstance(row.get(name), str)), "")
        codes = [each.code if each.whole else prompt + each.code for each in samples]
        if "test" in row and "test_cases" not in row:
            task: Row = dict.fromkeys(("test_cases", "hidden_test_cases"), CODE_TESTS.to_json())
            task |= {"difficulty": NO_LABEL, "question": prompt, **row, "id": _key(row, where)}
        else:
            task = self._task(row, where)
        texts = [f"```python\n{code}\n```" for code in codes]
        made = fields_of(EvalRow).keys() - fields_of(TaskRow).keys()  # where tasks are read from rollouts
        return {name: value for name, value in task.items() if name not in made} | {
            "responses": texts,
            "exact_programs": codes,
        }


def _key(row: Row, where: str) -> str | int:
    return row_id(row, where, next((name for name in _KEYS if name in row), "id"))


def write_samples(source: Rows, output: StrPath, form: str, turns: str = "last") -> Counter[str]:
    """Replace `output` by the programs of rollouts, single- or multi-turn, in one of FORMATS; returns how
    many `tasks`, `programs` and `empty` ones (answers without code, which keep their places) there are.

    `turns` `last` takes the last program of every sample; `all` takes all, by sample, then by turn, and lines
    say which (`sample`, `turn`, from 0). Ids are written as text. Raises InputError that names file, line and
    field; nothing has been changed then.
    """
    refuse_overwriting(source.paths, output)
    unique, counts = UniqueIds(), Counter[str](tasks=0, programs=0, empty=0)

    def rows() -> Iterator[Row]:
        for where, row in source:
            key = unique({"id": str(row_id(row, where))}, where)
            places = [
                (code or "", {"sample": s, "turn": t} if turns == "all" else {})
                for s, sample in enumerate(programs_of(row, where))
                for t, code in enumerate(sample)
                if turns == "all" or t == len(sample) - 1
            ]
            counts.update(tasks=1, programs=len(places), empty=sum(not code for code, _ in places))
            if form == "livecodebench":
                yield {"question_id": key, "code_list": [code for code, _ in places]}
            else:
                yield from ({"task_id": key, "solution": code, **place} for code, place in places)
        if not counts["tasks"]:
            raise InputError(f"{source.name}: there are no rows")

    if form == "livecodebench":
        atomic_write(output, json.dumps(list(rows()), indent=1) + "\n")
    else:
        write_jsonl(output, rows())
    record(output, source, {"stage": "samples", "format": form, "turns": turns}, counts)
    return counts


def main(argv: list[str] | None = None) -> int:
    """The command line of `cobalt samples`; returns the exit code."""
    flags = parser("Write the programs of rollouts as other benchmarks read them.", prog="cobalt samples")
    flags.add_argument("input_file", metavar="ROLLOUTS", help=f"of the inference doors: {INPUT_HELP}")
    flags.add_argument("-o", "--output_file", required=True, help="file to write")
    said = "lines of {task_id, solution} (the first two), or a list of {question_id, code_list}"
    flags.add_argument("--format", choices=FORMATS, default=FORMATS[0], help=said)
    flags.add_argument("--turns", choices=TURNS, default=TURNS[0], help="which programs of a dialogue")
    args = flags.parse_args(argv)
    made = write_samples(open_rows(args.input_file), args.output_file, args.format, args.turns)
    lines = [f"{args.output_file}: {made['programs']} programs of {made['tasks']} tasks"]
    tell(lines + [f"{made['empty']} of them empty: no code in the answer"] * (made["empty"] > 0))
    return 0
