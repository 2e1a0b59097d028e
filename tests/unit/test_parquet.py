"""Contexts and tasks to Parquet."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobalt.contexts.parquet import build_parquet, main_multi_turn, main_single_turn
from cobalt.errors import InputError
from cobalt.prompts import DEFAULT, TINY

TESTS = json.dumps({"inputs": ["1\n", "2\n"], "outputs": ["1\n", "4\n"]})


def conversation(*texts: str) -> list[dict[str, str]]:
    roles = ["system", "user", *["assistant", "user"] * 3]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


def context(example_id: Any = 1, **change: Any) -> dict[str, Any]:
    return {
        "example_id": example_id,
        "conversation": conversation("s", "square it", "print(1)", "wrong"),
        "test_cases": TESTS,
        "difficulty": "EASY",
        "prev_best_pass_rate": 0.5,
    } | change


def task(task_id: Any = 1, **change: Any) -> dict[str, Any]:
    return {
        "id": task_id,
        "instruction": "Solve: square it",
        "test_cases": TESTS,
        "difficulty": "EASY",
    } | change


def stored(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows


class WordTokenizer:
    def apply_chat_template(self, messages: list[dict[str, str]], **kw: Any) -> list[int]:
        assert kw == {"add_generation_prompt": True, "return_dict": False}
        return [0] * sum(len(message["content"].split()) for message in messages)


def test_multi_turn_rows(tmp_path: Path) -> None:
    build_parquet([context(7)], [context(8)], tmp_path)
    row = context(7)
    assert stored(tmp_path / "train.parquet") == [
        row
        | {
            "data_source": "code_taco_verified",
            "prompt": row["conversation"],
            "ability": "code",
            "reward_model": {"style": "rule", "ground_truth": TESTS},
            "extra_info": {
                "split": "train",
                "index": 7,
                "prev_best_pass_rate": 0.5,
                "conversation": row["conversation"],
            },
        }
    ]
    (test,) = stored(tmp_path / "test.parquet")
    assert (test["extra_info"]["split"], test["extra_info"]["index"]) == ("test", 8)


def test_single_turn_rows(tmp_path: Path) -> None:
    build_parquet([task(7)], [task(8)], tmp_path, kind="single_turn")
    assert stored(tmp_path / "train.parquet") == [
        task(7)
        | {
            "data_source": "code_taco_verified",
            "prompt": [
                {"role": "system", "content": DEFAULT.system},
                {"role": "user", "content": "Solve: square it"},
            ],
            "ability": "code",
            "reward_model": {"style": "rule", "ground_truth": TESTS},
            "extra_info": {"split": "train", "index": 7, "instruction": "Solve: square it"},
        }
    ]
    build_parquet([task()], [task()], tmp_path, kind="single_turn", prompts=TINY)
    assert stored(tmp_path / "test.parquet")[0]["prompt"][0]["content"] == TINY.system


def test_defaults_of_absent_fields(tmp_path: Path) -> None:
    bare = {"conversation": conversation("s", "u"), "test_cases": TESTS}
    build_parquet([bare], [bare], tmp_path)
    (row,) = stored(tmp_path / "train.parquet")
    assert (row["extra_info"]["index"], row["extra_info"]["prev_best_pass_rate"]) == (-1, 0.0)
    assert "example_id" not in row


def test_extra_columns_are_kept_or_dropped(tmp_path: Path) -> None:
    rich = context(1, slots=["constant"], note=None, score=3)
    build_parquet([rich], [rich], tmp_path / "kept")
    build_parquet([rich], [rich], tmp_path / "dropped", drop_extra_columns=True)
    (kept,), (dropped,) = stored(tmp_path / "kept/train.parquet"), stored(tmp_path / "dropped/train.parquet")
    assert {name: kept[name] for name in rich} == rich
    assert list(dropped) == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
    assert dropped["extra_info"] == {"split": "train", "index": 1, "prev_best_pass_rate": 0.5}
    assert dropped["prompt"] == kept["prompt"]


@pytest.mark.parametrize(
    ("train", "val", "expected", "kind"),
    [
        ([0, 1], [2], [0, 1], pa.int64()),
        (["a", "b"], ["c"], ["a", "b"], pa.string()),
        ([0, "a"], ["c"], ["0", "a"], pa.string()),
        ([0, 1], ["c"], ["0", "1"], pa.string()),
        ([2**70], [1], [str(2**70)], pa.string()),
    ],
)
def test_ids_have_one_type_in_both_files(
    train: list[Any], val: list[Any], expected: list[Any], kind: Any, tmp_path: Path
) -> None:
    summary = build_parquet([context(i) for i in train], [context(i) for i in val], tmp_path)
    rows = stored(tmp_path / "train.parquet")
    assert [row["extra_info"]["index"] for row in rows] == [row["example_id"] for row in rows] == expected
    for name in ("train.parquet", "test.parquet"):
        schema = pq.read_schema(tmp_path / name)
        assert schema.field("extra_info").type.field("index").type == kind
        assert schema.field("example_id").type == kind
    assert bool(summary.warnings) == (len({type(i) for i in train + val}) > 1 or 2**70 in train)


def test_no_nulls_where_the_trainer_reads(tmp_path: Path) -> None:
    flagged = context(2)
    flagged["conversation"][2]["truncated"] = True
    rows = [
        context(0),
        flagged,
        context(3, prev_best_pass_rate=0),
        context(4, conversation=conversation("s", "u")),
    ]
    build_parquet(rows, rows[:1], tmp_path)

    def check(value: Any) -> None:
        assert value is not None
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(item)

    for row in stored(tmp_path / "train.parquet"):
        for name in ("data_source", "prompt", "ability", "reward_model", "extra_info"):
            check(row[name])
        assert all(message.keys() == {"role", "content"} for message in row["prompt"])
    schema = pq.read_schema(tmp_path / "train.parquet")
    assert schema.field("extra_info").type.field("prev_best_pass_rate").type == pa.float64()


def test_overlong_prompts_are_left_out_and_counted(tmp_path: Path) -> None:
    long = context(2, conversation=conversation("s", "word " * 10))
    summary = build_parquet(
        [context(1), long, context(3)], [long, context(4)], tmp_path, max_prompt_length=10,
        tokenizer=WordTokenizer(),
    )  # fmt: skip
    assert [row["example_id"] for row in stored(tmp_path / "train.parquet")] == [1, 3]
    train, test = summary.splits["train"], summary.splits["test"]
    assert (train.read, train.overlong, train.written, train.longest_prompt) == (3, 1, 2, 11)
    assert (test.read, test.overlong, test.written) == (2, 1, 1)
    manifest = json.loads((tmp_path / "train.parquet.manifest.json").read_text())
    assert manifest["counts"] == {"read": 3, "bad": 0, "overlong": 1, "written": 2, "longest_prompt": 11}
    exactly = build_parquet([long], [long], tmp_path, max_prompt_length=11, tokenizer=WordTokenizer())
    assert exactly.splits["train"].written == 1
    with pytest.raises(InputError, match="train split: every prompt has more than 10 tokens"):
        build_parquet([long], [long], tmp_path, max_prompt_length=10, tokenizer=WordTokenizer())


def test_text_that_utf8_cannot_hold(tmp_path: Path) -> None:
    odd = context(1, conversation=conversation("s", "a\ud800b"), note="\udfff")
    odd["test_cases"] = '{"inputs": ["\ud800"], "outputs": ["1"]}'
    summary = build_parquet([odd], [context(2)], tmp_path)
    (row,) = stored(tmp_path / "train.parquet")
    assert row["prompt"][1]["content"] == "a?b"
    assert json.loads(row["reward_model"]["ground_truth"]) == {"inputs": ["\ud800"], "outputs": ["1"]}
    assert summary.json_columns == ["note"]
    assert json.loads(row["note"]) == "\udfff"


def test_tests_given_as_an_object_are_stored_as_text(tmp_path: Path) -> None:
    build_parquet([context(1, test_cases=json.loads(TESTS)), context(2)], [context(3)], tmp_path)
    for row in stored(tmp_path / "train.parquet"):
        assert row["test_cases"] == row["reward_model"]["ground_truth"] == TESTS


def test_same_input_same_bytes(tmp_path: Path) -> None:
    rows = [context(i, note={"a": i}) for i in range(600)]
    for name in ("a", "b"):
        build_parquet(rows, rows[:3], tmp_path / name)
    for file in ("train.parquet", "test.parquet"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
    assert pq.ParquetFile(tmp_path / "a/train.parquet").num_row_groups == 3


# --- Columns of any shape

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("xyz"), VALUES), min_size=1, max_size=6))
def test_any_rows_can_be_written(rows: list[dict[str, Any]]) -> None:
    rows = [context(number) | row for number, row in enumerate(rows)]
    with tempfile.TemporaryDirectory() as name:
        summary = build_parquet(rows, rows[:1], name)
        found = stored(Path(name) / "train.parquet")
    for row, back in zip(rows, found, strict=True):
        for column in "xyz":
            value = back.get(column)
            read = json.loads(value) if column in summary.json_columns and value is not None else value
            assert read == row.get(column)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([1, "a"], True),
        ([{}], True),
        (["a", None], False),
        ([1, 2.5], False),
        ([True, 1], True),
        ([["x"], []], False),
        ([["x"], [1]], True),
        ([{"a": 1}], True),
        ([2**80], True),
        (["\ud800"], True),
    ],
)
def test_columns_without_a_common_type_become_json(values: list[Any], expected: bool, tmp_path: Path) -> None:
    rows = [context(number, x=value) for number, value in enumerate(values)]
    summary = build_parquet(rows, [context()], tmp_path)
    assert summary.json_columns == (["x"] if expected else [])
    marked = pq.read_schema(tmp_path / "train.parquet").metadata[b"cobalt.json_columns"]
    assert json.loads(marked) == summary.json_columns


# --- Bad input


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"test_cases": TESTS}, "'conversation' is missing"),
        (task(), "'conversation' is missing; tasks go through verl_preproc_single_turn.py"),
        (context(conversation=[]), "field 'conversation' must be a list of 2"),
        (context(conversation=conversation("s", "u", "a")), "field 'conversation' must be a list of 2"),
        (
            context(conversation=[{"role": "user", "content": "u"}] * 2),
            r"'conversation'\[0\] must be .*'system'",
        ),
        (context(test_cases="[]"), "field 'test_cases'"),
        (context(test_cases='{"inputs": [], "outputs": []}'), "field 'test_cases' holds no tests"),
        (context(prev_best_pass_rate=2), r"'prev_best_pass_rate' must be a rate in \[0, 1\], got 2"),
        (context(prev_best_pass_rate=None), "'prev_best_pass_rate'"),
        (context(example_id=None), "'example_id' must be"),
        (context(example_id=1.5), "'example_id' must be"),
    ],
)
def test_malformed_rows_change_nothing(row: dict[str, Any], message: str, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps(context()) + "\n" + json.dumps(row) + "\n")
    out = tmp_path / "out"
    build_parquet([context()], [context()], out)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{message}"):
        build_parquet([context(9)], source, out)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before


def test_contexts_do_not_go_through_the_single_turn_door(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contexts go through verl_preproc_multi_turn"):
        build_parquet([context()], [context()], tmp_path, kind="single_turn")


def test_flags_that_need_each_other(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs --model_name"):
        build_parquet([context()], [context()], tmp_path, max_prompt_length=5)
    with pytest.raises(InputError, match="give both or neither"):
        build_parquet([context()], [context()], tmp_path, model_name="x")
    with pytest.raises(InputError, match="train split holds no rows"):
        build_parquet([], [context()], tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_bad_rows_can_be_left_out(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text(json.dumps(context(1)) + "\n{\n" + json.dumps(context(2)) + "\n")
    summary = build_parquet(source, [context(3)], tmp_path, on_bad_row="skip")
    assert [row["example_id"] for row in stored(tmp_path / "train.parquet")] == [1, 2]
    assert (summary.splits["train"].bad, summary.splits["test"].bad) == (1, 0)
    (reject,) = (tmp_path / "train.parquet.rejects.jsonl").read_text().splitlines()
    assert json.loads(reject)["where"] == f"{source}:2"
    assert not (tmp_path / "test.parquet.rejects.jsonl").exists()


@pytest.mark.parametrize("main", [main_multi_turn, main_single_turn])
def test_doors_need_a_folder(main: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main([])
    assert stop.value.code == 2
    assert "--local_dir" in capsys.readouterr().err
