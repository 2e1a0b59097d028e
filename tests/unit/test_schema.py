"""Field types, kinds of files, `cobalt data check`, and the field table of the page on data."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cobalt.data import BEGIN, END, main
from cobalt.errors import InputError
from cobalt.kinds import KINDS, ORDER, field_table, fields_of, kind_of, type_problem

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1] / "golden"))
from data_rows import lcb, taco, task, write
from golden_contexts import expected, rows

ROOT = Path(__file__).parents[2]
PERTURBED = {"modified_test_cases": "{}", "perturbed_public_test_cases": "{}"}
TESTS = {"inputs": ["1"], "outputs": ["1"]}


def evaluated(**change: Any) -> dict[str, Any]:
    return json.loads(json.dumps(rows()[0])) | change


def single(**change: Any) -> dict[str, Any]:
    verdict = {"passing": [True], "feedback": [""]}
    return task() | {"responses": ["a"], "exec_results": [verdict]} | change


EXAMPLES: dict[str, dict[str, Any]] = {
    "TACO problems": taco(),
    "LiveCodeBench problems": lcb(),
    "tasks": task(),
    "perturbed tasks": task() | {name: json.dumps(TESTS) for name in PERTURBED},
    "single-turn completions": single(),
    "trajectories": {name: value for name, value in evaluated().items() if name != "all_pass_rates"},
    "evaluated trajectories": evaluated(),
    "contexts": expected("train")[0],
    "training examples": {
        "data_source": "code_taco_verified",
        "prompt": [{"role": "user", "content": "x"}],
        "ability": "code",
        "reward_model": {"style": "rule", "ground_truth": json.dumps(TESTS)},
        "extra_info": {"split": "train", "index": 1},
    },
    "stored groups": {
        "data_source": "x",
        "prompt": [{"role": "user", "content": "x"}],
        "completions": [{"text": "a", "pass_rate": 1.0}, {"text": "b", "pass_rate": 0}],
        "extra_info": {"split": "train", "index": "1"},
    },
    "turn errors": dict.fromkeys(
        ("id", "question", "previous_code", "feedback", "current_code", "patch"), "x"
    ),
    "judged turn errors": {"id": 1, "classification": ["(1) Hard Coding"], "responses": ["x"]},
    "reference verdicts": {"id": 1, "verified": None, "tried": 0},
    "overlaps": {"id": 1, "problem": "p", "shared": 2},
    "rejected rows": {"where": "x:1", "error": "bad", "text": "{"},
    "failed rows": {"id": 1, "error": "bad", "attempts": 3},
}


def test_every_kind_has_an_example_and_a_place_in_the_table() -> None:
    assert {stage.name for stage in KINDS} == set(EXAMPLES) == set(ORDER)


@pytest.mark.parametrize("kind", EXAMPLES)
def test_kinds(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    row = EXAMPLES[kind]
    stage = kind_of(row)
    assert stage is not None and stage.name == kind
    assert type_problem(row, stage) is None
    assert main(["check", str(write(tmp_path / "x.jsonl", [row]))]) == 0
    printed = capsys.readouterr().out
    assert f"1 rows, {kind}" in printed and stage.made_by in printed and "all rows are good" in printed


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_needed_field_is_missed(kind: str) -> None:
    stage = next(stage for stage in KINDS if stage.name == kind)
    for name in stage.required:
        row = {field: value for field, value in EXAMPLES[kind].items() if field != name}
        assert type_problem(row, stage) == f"field '{name}' is missing"
        # A type that no field has anywhere.
        wrong = EXAMPLES[kind] | {name: 1.5j}
        hint, _ = fields_of(stage.row)[name]
        assert (type_problem(wrong, stage) or "").startswith(f"field '{name}' must be"), hint


def put(value: Any, *path: Any) -> dict[str, Any]:
    row: Any = evaluated()
    spot = row
    for key in path[:-1]:
        spot = spot[key]
    spot[path[-1]] = value
    return row  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (evaluated(id=None), "field 'id' must be text or whole number, got None"),
        (put(3, "conversations", 0, 1, "content"), "field 'conversations'[0][1].content must be text, got 3"),
        (put("x", "conversations", 1, 0), "field 'conversations'[1][0] must be an object, got 'x'"),
        (put({"role": "system"}, "conversations", 1, 0), "field 'conversations'[1][0]: 'content' is missing"),
        (
            put("assistant", "conversations", 0, 1, "role"),
            "conversations[0][1] must be a message of role 'user'",
        ),
        (put("1", "all_pass_rates", 0, 2), "field 'all_pass_rates'[0][2] must be number or null, got '1'"),
        (put([1], "all_pass_rates", 0), "all_pass_rates[0] has 1 rates, conversations[0] 3 programs"),
        (put(2, "public_pass_rates", 0, 0), "public_pass_rates[0][0] must be a rate in [0, 1], got 2"),
        (put(1, "exec_results", 0, "passing", 0), "field 'exec_results'[0].passing[0] must be true or false"),
        (evaluated(hidden_test_cases="{"), "field 'hidden_test_cases': not valid JSON"),
        (evaluated(test_cases=3), "field 'test_cases' must be text or object"),
        (evaluated(), "'id' 'gain' occurs twice"),
        ("[]", "not a JSON object"),
        ('{"id": 1', "not a JSON object"),
    ],
)
def test_bad_rows(row: Any, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
def test_bad_content(
    kind: str, change: dict[str, Any], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = write(tmp_path / "x.jsonl", [EXAMPLES[kind] | change])
    assert main(["check", str(source)]) == 2
    assert message in capsys.readouterr().out


def test_parquet_is_checked_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from cobalt.contexts.parquet import build_parquet

    build_parquet(expected("train"), expected("train")[:1], tmp_path)
    assert main(["check", str(tmp_path / "train.parquet")]) == 0
    printed = capsys.readouterr().out
    assert "training examples" in printed and "other fields, which pass through: example_id" in printed


def test_many_bad_rows_and_unknown_fields(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = write(tmp_path / "x.jsonl", [task("good", note=1), *[{"id": i} for i in range(30)]])
    assert main(["check", str(source), "--show", "2"]) == 2
    printed = capsys.readouterr().out
    assert "x.jsonl:3: field 'instruction' is missing" in printed and "... and 28 more" in printed
    assert "other fields, which pass through: note" in printed
    assert main(["check", str(write(tmp_path / "y.jsonl", [{"a": 1}]))]) == 2
    assert "of no known kind" in capsys.readouterr().out
    with pytest.raises(InputError, match="holds no rows"):
        main(["check", str(write(tmp_path / "z.jsonl", []))])
    with pytest.raises(InputError, match="neither check nor fields"):
        main(["chekc"])


def test_the_page_on_data_has_the_table_of_the_types(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "data.md").read_text()
    table = page.partition(BEGIN)[2].partition(END)[0]
    assert table.strip() == field_table().strip(), "run: cobalt data fields --write docs/data.md"
    copy = tmp_path / "copy.md"
    copy.write_text(page.replace("| `id` |", "| `di` |"))
    assert main(["fields", "--write", str(copy)]) == 0
    assert copy.read_text() == page
    copy.write_text("no marks")
    with pytest.raises(InputError, match="has no lines"):
        main(["fields", "--write", str(copy)])
