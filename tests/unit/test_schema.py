"""Field types, kinds of files, `cobalt data check`, and the field table of the page on data."""

import json
import runpy
from pathlib import Path

import pytest
from data_rows import lcb, taco, task, write
from golden_contexts import expected, rows

from cobalt.contexts.parquet import build_parquet
from cobalt.data import BEGIN, END, Checker, main
from cobalt.errors import InputError
from cobalt.kinds import KINDS, field_table, kind_of, type_problem

ROOT = Path(__file__).parents[2]
TESTS = {"inputs": ["1"], "outputs": ["1"]}
PERTURBED = dict.fromkeys(("modified_test_cases", "perturbed_public_test_cases"), json.dumps(TESTS))
PROMPT = [{"role": "user", "content": "x"}]


def evaluated(**change):
    return json.loads(json.dumps(rows()[0])) | change


EXAMPLES = {
    "TACO problems": taco(),
    "LiveCodeBench problems": lcb(),
    "tasks": task(),
    "perturbed tasks": task() | PERTURBED,
    "single-turn completions": task(
        responses=["a"], exec_results=[{"passing": [True], "feedback": [""]}], **PERTURBED
    ),
    "trajectories": {name: value for name, value in evaluated().items() if name != "all_pass_rates"},
    "evaluated trajectories": evaluated(),
    "contexts": expected("train")[0],
    "training examples": {
        "data_source": "code_taco_verified",
        "prompt": PROMPT,
        "ability": "code",
        "reward_model": {"style": "rule", "ground_truth": json.dumps(TESTS)},
        "extra_info": {"split": "train", "index": 1},
    },
    "stored groups": {
        "prompt": PROMPT,
        "completions": [{"text": "a", "pass_rate": 1.0}, {"text": "b", "pass_rate": 0}],
        "extra_info": {"split": "train", "index": "1"},
    },
    "turn errors": dict.fromkeys(
        ("id", "question", "previous_code", "feedback", "current_code", "patch", "all_acc"), "x"
    )
    | {"all_acc": [0.5, None]},
    "judged turn errors": {"id": 1, "classification": ["(1) Hard Coding"], "responses": ["x"]},
    "evaluated completions": {
        "id": 1,
        "responses": ["x"],
        "all_pass_rates": [[1.0]],
        "exec_status": [["ok"]],
    },
    "samples": {"task_id": "a", "solution": "print(1)"},
    "reference verdicts": {"id": 1, "verified": None, "tried": 0},
    "overlaps": {"id": 1, "problem": "p", "shared": 2},
    "rejected rows": {"where": "x:1", "error": "bad", "text": "{"},
    "failed rows": {"id": 1, "error": "bad", "attempts": 3},
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_kinds_and_the_fields_they_need(kind, tmp_path, capsys):
    row = EXAMPLES[kind.name]
    assert kind_of(row) is kind and type_problem(row, kind) is None
    assert main(["check", str(write(tmp_path / "x.jsonl", [row]))]) == 0
    printed = capsys.readouterr().out
    assert f"1 rows, {kind.name}" in printed and kind.made_by in printed and "all rows are good" in printed
    for name in kind.required:
        without = {field: value for field, value in row.items() if field != name}
        assert type_problem(without, kind) == f"field '{name}' is missing"
        wrong = type_problem(row | {name: 1.5j}, kind)  # a type that no field has anywhere
        assert wrong is not None and wrong.startswith(f"field '{name}'")


def put(value, *path):
    row = spot = evaluated()
    for key in path[:-1]:
        spot = spot[key]
    spot[path[-1]] = value
    return row


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (evaluated(id=None), "field 'id' must be text or whole number, got None"),
        (put(3, "conversations", 0, 1, "content"), "field 'conversations'[0][1].content: "),
        (put({"role": "system"}, "conversations", 1, 0), "field 'conversations'[1][0].content: "),
        (put("assistant", "conversations", 0, 1, "role"), "conversations[0][1] must be a message of role"),
        (put(True, "all_pass_rates", 0, 2), "field 'all_pass_rates'[0][2]: "),
        (put([1], "all_pass_rates", 0), "all_pass_rates[0] has 1 rates for 3 programs"),
        (put(2, "public_pass_rates", 0, 0), "public_pass_rates[0][0] must be a rate in [0, 1], got 2"),
        (put(1, "exec_results", 0, "passing", 0), "field 'exec_results'[0].passing[0]: "),
        (evaluated(hidden_test_cases="{"), "field 'hidden_test_cases': not valid JSON"),
        (evaluated(test_cases=3), "field 'test_cases' must be text or object"),
        (evaluated(), "'id' 'gain' occurs twice"),
        ("[]", "not a JSON object"),
    ],
)
def test_bad_rows(row, message, tmp_path, capsys):
    source = write(tmp_path / "x.jsonl", [evaluated(), row, evaluated(id="last")])
    assert main(["check", str(source)]) == 2
    printed = capsys.readouterr().out
    assert f"{source}:2: " in printed and message in printed
    assert "1 of 3 rows are bad" in printed


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("contexts", {"prev_best_pass_rate": 2}, "must be a rate"),
        ("contexts", {"conversation": []}, "'conversation' must be a list of 2"),
        ("single-turn completions", {"responses": []}, "0 'responses' but 1 'exec_results'"),
        ("training examples", {"prompt": []}, "'prompt' must end with a user message"),
        ("training examples", {"reward_model": {"ground_truth": "{"}}, "ground_truth': not valid JSON"),
        ("training examples", {"extra_info": {"split": "dev"}}, "must be train or test, got 'dev'"),
        ("stored groups", {"completions": [{"text": "a"}]}, "'pass_rate' is missing"),
        ("TACO problems", {"input_output": "{"}, "field 'input_output': not valid JSON"),
        ("LiveCodeBench problems", {"private_test_cases": "?"}, "field 'private_test_cases': neither JSON"),
    ],
)
def test_bad_content(kind, change, message, tmp_path, capsys):
    assert main(["check", str(write(tmp_path / "x.jsonl", [EXAMPLES[kind] | change]))]) == 2
    assert message in capsys.readouterr().out


def test_what_a_file_is_good_for_and_what_else_is_in_it(tmp_path, capsys):
    build_parquet(expected("train"), expected("train")[:1], tmp_path)
    assert main(["check", str(tmp_path / "train.parquet")]) == 0
    printed = capsys.readouterr().out
    assert "training examples" in printed and "other fields, which pass through: example_id" in printed
    source = write(tmp_path / "x.jsonl", [task("good", note=1), *[{"id": i} for i in range(30)]])
    assert main(["check", str(source), "--show", "2"]) == 2
    printed = capsys.readouterr().out
    assert "x.jsonl:3: field 'instruction' is missing" in printed and "... and 28 more" in printed
    assert "other fields, which pass through: note" in printed
    assert "not for run_single_turn_*.py: " in printed and "'instruction', 'test_cases' missing" in printed
    assert main(["check", str(write(tmp_path / "y.jsonl", [{"a": 1}]))]) == 2
    assert "of no known kind" in capsys.readouterr().out
    with pytest.raises(InputError, match="holds no rows"):
        main(["check", str(write(tmp_path / "z.jsonl", []))])


def test_the_page_on_data_has_the_table_of_the_types(tmp_path):
    page = (ROOT / "docs" / "data.md").read_text()
    table = page.partition(BEGIN)[2].partition(END)[0]
    assert table.strip() == field_table().strip(), "run: cobalt data fields --write docs/data.md"
    copy = tmp_path / "copy.md"
    copy.write_text(page.replace("| `id` |", "| `di` |"))
    assert main(["fields", "--write", str(copy)]) == 0 and copy.read_text() == page
    copy.write_text("no marks")
    with pytest.raises(InputError, match="has no lines"):
        main(["fields", "--write", str(copy)])


def test_the_files_of_the_measurements_are_good_ones():
    made = runpy.run_path(str(ROOT / "benchmarks" / "data.py"))
    for found in (made["taco_rows"](3, 8), made["trajectory_rows"](2, samples=3, letters=100)):
        check = Checker()
        for number, row in enumerate(found, start=1):
            check(row, f"row {number}")
        assert check.kind is not None
