"""Samples of other benchmarks: read beside their tasks, judged, written from rollouts."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rollout_tools import ScriptedJudge, fence, task

from cobalt.errors import InputError
from cobalt.evaluation import evaluate, samples
from cobalt.evaluation.evaluate import hidden_tests
from cobalt.evaluation.samples import SampledTasks
from cobalt.evaluator.service import Settings
from cobalt.rows import open_rows, read_rows
from cobalt.schema import SUITE_STATUSES

ROOT = Path(__file__).parents[2]


def write(path, rows):
    as_list = path.suffix == ".json"
    path.write_text(
        json.dumps(rows, indent=1) if as_list else "".join(json.dumps(row) + "\n" for row in rows)
    )
    return path


def judging(source, tasks, output, workers):
    """Flags of the evaluation."""
    files = ["-i", str(source), "--tasks", str(tasks), "-o", str(output)]
    return [*files, "--evaluator", "local", "--workers", str(workers)]


def lines(key="task_id", field="solution", *pairs):
    return [{key: task, field: code} for task, code in pairs]


ODD = "# ```python\ns = '\ud800```'\n"  # a program that no fence could hold


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("s.jsonl", lines("task_id", "solution", ("b", "1"), ("7", ODD), ("b", "3"))),
        ("s.jsonl", [{"task_id": "b", "solution": "1", "completion": "x"}, {"task_id": 7, "solution": ODD},
                     {"task_id": "b", "completion": "3"}]),
        ("s.json", lines("question_id", "code_list", ("b", ["1", "3"]), (7, [ODD]))),
        ("s.jsonl", lines("question_id", "code_list", ("b", ["1"]), ("7", [ODD]), ("b", ["3"]))),
    ],
)  # fmt: skip
def test_samples_keep_their_order_beside_their_tasks(tmp_path, name, rows):
    tasks = write(tmp_path / "tasks.jsonl", [task(key) for key in (7, "a", "b")])
    found = SampledTasks(open_rows(write(tmp_path / name, rows)), str(tasks))
    assert [(row["id"], row["exact_programs"]) for _, row in found] == [(7, [ODD]), ("b", ["1", "3"])]
    assert found.missing == 1 and found.path is None and len(found.paths) == 2


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([], "s.jsonl: there are no samples"),
        ([{"solution": "x"}], "s.jsonl:2: 'task_id' must be a non-empty string or a whole number"),
        ([{"task_id": "a"}], "s.jsonl:2: field 'solution' is missing (expected a string)"),
        ([{"task_id": "a", "solution": ["x"]}], "s.jsonl:2: field 'solution' must be a string, got a list"),
        ([{"task_id": "a", "completion": None}], "s.jsonl:2: field 'completion' must be a string, got null"),
        ([{"code_list": ["x"]}], "s.jsonl:2: 'question_id' must be"),
        ([{"question_id": "a"}], "s.jsonl:2: field 'code_list' is missing"),
        ([{"question_id": "a", "code_list": "x"}], "s.jsonl:2: field 'code_list' must be a list, got a s"),
        ([{"question_id": "a", "code_list": ["x", 3]}], "field 'code_list'[1] must be a string, got a whole"),
        ([{"question_id": "a", "code_list": []}], "s.jsonl:2: field 'code_list' holds no programs"),
        ([{"id": "a", "responses": ["x"]}], "leave --tasks out"),
        (lines("task_id", "solution", ("a", "x"), ("y", "x"), ("z", "x")),
         "s.jsonl:3: field 'task_id': TASKS has no task 'y', 'z' (2 in all)"),
        (lines("question_id", "code_list", ("y", ["x"])), "s.jsonl:2: field 'question_id': TASKS has"),
    ],
)  # fmt: skip
def test_bad_samples_name_line_and_field(tmp_path, monkeypatch, rows, says):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "TASKS", [task("a")])
    source = write(tmp_path / "s.jsonl", rows and [{"task_id": "a", "solution": "x"}, *rows])
    with pytest.raises(InputError) as caught:
        evaluate.main(["-i", source.name, "--tasks", "TASKS", "-o", "out.jsonl"])
    assert says in str(caught.value) and not Path("out.jsonl").exists()


def test_ids_that_look_alike_no_tasks_and_no_such_file(tmp_path):
    source = write(tmp_path / "s.jsonl", lines("task_id", "solution", ("1", "x")))
    alike = write(tmp_path / "alike.jsonl", [task(1), task("1")])
    for more, says in (
        (["--tasks", str(alike)], "'id' '1' occurs twice"),
        (["--tasks", "nowhere.jsonl"], "cannot read nowhere.jsonl"),
        ([], "s.jsonl:1: these are samples; name the file of their tasks: --tasks FILE"),
    ):
        with pytest.raises(InputError, match=says):
            evaluate.main(["-i", str(source), "-o", str(tmp_path / "out.jsonl"), *more])


def dialogue(*texts):
    said = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    for text in texts:
        said += [{"role": "assistant", "content": text}, {"role": "user", "content": "f"}]
    return said


ROLLOUTS = [
    task(1, conversations=[dialogue(fence("pass 2"), fence("pass 2 3 4")), dialogue("none", "none")]),
    task(
        "b",
        conversations=[dialogue(fence("pass 0"), fence("pass 4"), fence("pass")), dialogue(fence("pass 3"))],
    ),
]
LAST = [("1", ["pass 2 3 4", ""]), ("b", ["pass", "pass 3"])]
ALL = [("1", ["pass 2", "pass 2 3 4", "", ""]), ("b", ["pass 0", "pass 4", "pass", "pass 3"])]


@pytest.mark.parametrize(("turns", "wanted"), [("last", LAST), ("all", ALL)])
@pytest.mark.parametrize("form", samples.FORMATS)
async def test_rollouts_become_samples_and_are_judged_alike(tmp_path, form, turns, wanted):
    source, output = (
        write(tmp_path / "r.jsonl", ROLLOUTS),
        tmp_path / f"s.json{'l' * (form != 'livecodebench')}",
    )
    assert samples.main([str(source), "-o", str(output), "--format", form, "--turns", turns]) == 0
    if form == "livecodebench":
        assert json.loads(output.read_text()) == lines("question_id", "code_list", *wanted)
    else:
        rows = [row for _, row in read_rows(output)]
        assert [(row["task_id"], row["solution"]) for row in rows] == [
            (k, c) for k, codes in wanted for c in codes
        ]
        assert turns == "last" or [(row["sample"], row["turn"]) for row in rows][4:] == [
            (0, 0),
            (0, 1),
            (0, 2),
            (1, 0),
        ]
        assert turns == "all" or set(rows[0]) == {"task_id", "solution"}
    ours, theirs = tmp_path / "ours.jsonl", tmp_path / "theirs.jsonl"
    await hidden_tests(source, ours, ScriptedJudge())
    await hidden_tests(SampledTasks(open_rows(output), str(source)), theirs, ScriptedJudge())
    for (_, mine), (_, read) in zip(read_rows(ours), read_rows(theirs), strict=True):
        rates = [
            rate for sample in mine["all_pass_rates"] for rate in (sample if turns == "all" else sample[-1:])
        ]
        assert [rate for (rate,) in read["all_pass_rates"]] == rates


def test_completions_become_samples_and_bad_rollouts_are_refused(tmp_path):
    source = write(tmp_path / "r.jsonl", [task("a", responses=[fence("x"), "no code", None])])
    samples.main([str(source), "-o", str(tmp_path / "s.jsonl")])
    assert [row["solution"] for _, row in read_rows(tmp_path / "s.jsonl")] == ["x", "", ""]
    for bad, says in (
        ([task("a")], "r.jsonl:1: field 'conversations' is missing"),
        ([], "there are no rows"),
    ):
        for form, name in (("livecodebench", "t.json"), ("evalplus", "t.jsonl")):
            write(source, bad)
            with pytest.raises(InputError, match=says):
                samples.main([str(source), "-o", str(tmp_path / name), "--format", form])
            assert not (tmp_path / name).exists()


CHECK = "def check(candidate):\n    assert candidate(2) == 3\n    assert candidate([1]) == [1]\n"
UNITTEST = """import unittest
class TestCases(unittest.TestCase):
    def test_it(self):
        self.assertEqual(f(2), 3)
"""
PROMPT = "def f(x):\n"
RIGHT = "    return x + 1 if isinstance(x, int) else x\n"
CODE_TASKS = [
    {"task_id": "HumanEval/0", "prompt": PROMPT, "entry_point": "f", "test": CHECK},
    {"task_id": "BigCodeBench/0", "complete_prompt": PROMPT, "entry_point": "f", "test": UNITTEST},
]
# what a sample is, and whether it passes
CODES = [
    ({"completion": RIGHT}, True),
    ({"solution": PROMPT + RIGHT + "print(f(1))\nif __name__ == '__main__':\n    exit(1)\n"}, True),
    ({"solution": f"from __future__ import annotations\n{PROMPT}{RIGHT}"}, True),
    ({"solution": PROMPT + "    return 0\n"}, False),
    ({"solution": PROMPT + RIGHT + "raise SystemExit(0)\n"}, False),  # before any assertion
    ({"solution": PROMPT + "    import os\n    os._exit(0)\n"}, False),
    ({"solution": f"y = math.pi\n{PROMPT}{RIGHT}"}, False),  # what it does not import is not there
    ({"solution": "def g(x):\n" + RIGHT}, False),
    ({"solution": "def f(x)\n"}, False),
    ({"solution": ""}, False),
]


def test_tests_that_are_code_and_the_flags_of_judging(tmp_path, capsys):
    tasks = write(tmp_path / "tasks.jsonl", [*CODE_TASKS, CODE_TASKS[0] | {"task_id": "none"}])
    given = [{"task_id": row["task_id"], **sample} for sample, _ in CODES for row in CODE_TASKS]
    source, output = write(tmp_path / "s.jsonl", given), tmp_path / "out.jsonl"
    args = judging(source, tasks, output, workers=2)
    assert evaluate.main(args) == 0
    for _, row in read_rows(output):
        assert [rate == [1.0] for rate in row["all_pass_rates"]] == [passes for _, passes in CODES], row[
            "task_id"
        ]
        assert {status for (status,) in row["exec_status"]} <= set(SUITE_STATUSES)
    assert "1 tasks of" in capsys.readouterr().out
    tests = {"inputs": ["1", "2"], "outputs": ["1.0", "2"]}
    own = task(0) | {"test_cases": json.dumps(tests)}
    own |= {
        f"{part}_test_cases": json.dumps({k: [v[i]] for k, v in tests.items()})
        for i, part in enumerate(("public", "hidden"))
    }
    write(tasks, [own])
    write(source, [{"task_id": "0", "solution": "print(input())\n"}])
    for name, more, wanted in (
        ("hidden", [], 1.0), ("all", ["--suite", "all"], 0.5),
        ("lcb", ["--suite", "all", "--compare", "livecodebench"], 1.0),
    ):  # fmt: skip
        args[5] = str(tmp_path / f"{name}.jsonl")
        assert evaluate.main([*args, *more]) == 0
        assert [row["all_pass_rates"] for _, row in read_rows(args[5])] == [[[wanted]]]
    with pytest.raises(InputError, match="'compare' must be strip"):
        evaluate.main([*args, "--compare", "lcb"])
    with pytest.raises(InputError, match="settings"):  # another rule is another experiment
        evaluate.main([*args, "--suite", "all"])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"test": "assert f(2) == 3"}, "field 'test' must define"),
        ({"entry_point": 3}, "field 'entry_point' must be"),
    ],
)
def test_code_that_no_harness_runs_is_refused(tmp_path, change, says):
    tasks = write(tmp_path / "tasks.jsonl", [CODE_TASKS[0] | change])
    source = write(tmp_path / "s.jsonl", lines("task_id", "solution", ("HumanEval/0", "x")))
    with pytest.raises(InputError, match=f"tasks.jsonl:1: {says}"):
        evaluate.main(["-i", str(source), "--tasks", str(tasks), "-o", str(tmp_path / "out.jsonl")])


def test_functional_problems_of_livecodebench_are_called(tmp_path):
    given = json.dumps([{"input": "[1, 2]\n3", "output": "[6]", "testtype": "functional"}])
    problem = {"question_id": "q", "question_content": "Sum.", "contest_date": "2025-01-05"}
    problem |= {"difficulty": "easy", "metadata": '{"func_name": "f"}'}
    problem |= {f"{part}_test_cases": given for part in ("public", "private")}
    bodies = ("[sum(xs) + y]", "sum(xs) + y", "[0]")  # the second only where a list of one is its value
    codes = [f"class Solution:\n    def f(self, xs, y):\n        return {body}\n" for body in bodies]
    tasks = write(tmp_path / "test6.jsonl", [problem])
    source = write(tmp_path / "s.json", lines("question_id", "code_list", ("q", codes)))
    for more, wanted in (([], [1, 1, 0]), (["--compare", "livecodebench", "--suite", "all"], [1, 0, 0])):
        output = str(tmp_path / f"{len(more)}.jsonl")
        assert evaluate.main([*judging(source, tasks, output, workers=1), *more]) == 0
        assert [[rate for (rate,) in row["all_pass_rates"]] for _, row in read_rows(output)] == [wanted]


def test_the_service_takes_the_limits_of_its_rule():
    found = [Settings(compare="livecodebench", **more).limits() for more in ({}, {"cpu_s": 2})]
    assert [(limits.cpu_s, limits.wall_limit_s, limits.suite_s) for limits in found] == [
        (6, 6, 3600),
        (2, 2, 3600),
    ]
    assert Settings().limits().wall_limit_s == 14


EVALPLUS = Path(os.environ.get("COBALT_EVALPLUS", ROOT / ".cache/evalplus/bin/python"))
DATA = Path(os.environ.get("COBALT_REAL_DATA", "")) / "HumanEval.jsonl.gz"


@pytest.mark.full
@pytest.mark.skipif(
    not EVALPLUS.is_file() or not DATA.is_file(),
    reason="python -m venv .cache/evalplus && .cache/evalplus/bin/pip install evalplus==0.3.1; and set "
    "COBALT_REAL_DATA to a folder that holds HumanEval.jsonl.gz",
)
def test_evalplus_passes_and_fails_the_same_samples():
    command = [sys.executable, "benchmarks/humaneval.py", str(DATA), "--evalplus", str(EVALPLUS)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    rows = [line.split(" | ")[1:3] for line in done.stdout.splitlines()[2:4]]
    assert rows in ([["164", "0"], ["0", "164"]], [["163", "0"], ["0", "164"]])  # HumanEval/32, see there
