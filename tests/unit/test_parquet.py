"""Contexts and tasks to Parquet."""

import json
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cobalt.contexts.parquet import build_parquet
from cobalt.errors import InputError
from cobalt.prompts import DEFAULT, TINY

TESTS = json.dumps({"inputs": ["1\n", "2\n"], "outputs": ["1\n", "4\n"]})
VERL = ["data_source", "prompt", "ability", "reward_model", "extra_info"]


def conversation(*texts):
    roles = ["system", "user", *["assistant", "user"] * 3]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


def context(example_id=1, **change):
    return {
        "example_id": example_id,
        "conversation": conversation("s", "square it", "print(1)", "wrong"),
        "test_cases": TESTS,
        "difficulty": "EASY",
        "prev_best_pass_rate": 0.5,
    } | change


def task(task_id=1, **change):
    return {"id": task_id, "instruction": "Solve: square it", "test_cases": TESTS} | change


def stored(path):
    return pq.read_table(path).to_pylist()


class WordTokenizer:
    def apply_chat_template(self, messages, **kw):
        assert kw == {"add_generation_prompt": True, "return_dict": False}
        return [0] * sum(len(message["content"].split()) for message in messages)


def test_rows_of_contexts_and_tasks(tmp_path):
    made = {
        "data_source": "code_taco_verified",
        "ability": "code",
        "reward_model": {"style": "rule", "ground_truth": TESTS},
    }
    build_parquet([context(7)], [context(8)], tmp_path)
    row, info = context(7), {"split": "train", "index": 7, "prev_best_pass_rate": 0.5}
    messages = row["conversation"]
    (found,) = stored(tmp_path / "train.parquet")
    assert found == row | made | {"prompt": messages, "extra_info": info | {"conversation": messages}}
    (test,) = stored(tmp_path / "test.parquet")
    assert (test["extra_info"]["split"], test["extra_info"]["index"]) == ("test", 8)

    for prompts in (DEFAULT, TINY):
        build_parquet([task(7)], [task(8)], tmp_path, kind="single_turn", prompts=prompts)
        info = {"split": "train", "index": 7, "instruction": "Solve: square it"}
        prompt = conversation(prompts.system, "Solve: square it")
        (found,) = stored(tmp_path / "train.parquet")
        assert found == task(7) | made | {"prompt": prompt, "extra_info": info}


def test_columns_of_the_input_are_kept_as_texts_or_dropped(tmp_path):
    rich = context(1, slots=["constant"], note=None, score=3, old="{", prompt="ours")
    build_parquet([rich], [rich], tmp_path / "kept")
    build_parquet([rich], [rich], tmp_path / "dropped", drop_extra_columns=True)
    (kept,), (dropped,) = stored(tmp_path / "kept/train.parquet"), stored(tmp_path / "dropped/train.parquet")
    as_text = {"slots": '["constant"]', "score": "3", "prompt": rich["conversation"]}
    assert {name: kept[name] for name in rich} == rich | as_text
    assert list(dropped) == VERL and dropped["prompt"] == kept["prompt"]
    assert dropped["extra_info"] == {"split": "train", "index": 1, "prev_best_pass_rate": 0.5}


@pytest.mark.parametrize(
    ("train", "val", "expected", "kind"),
    [
        ([0, 1], [2], [0, 1], pa.int64()),
        ([0, "a"], ["c"], ["0", "a"], pa.string()),
        ([0, 1], ["c"], ["0", "1"], pa.string()),
        ([2**70], [1], [str(2**70)], pa.string()),
    ],
)
def test_ids_have_one_type_in_both_files(train, val, expected, kind, tmp_path):
    summary = build_parquet([context(i) for i in train], [context(i) for i in val], tmp_path)
    rows = stored(tmp_path / "train.parquet")
    assert [row["extra_info"]["index"] for row in rows] == [row["example_id"] for row in rows] == expected
    for name in ("train.parquet", "test.parquet"):
        schema = pq.read_schema(tmp_path / name)
        assert schema.field("extra_info").type.field("index").type == kind
        assert schema.field("example_id").type == kind
    assert bool(summary.warnings) == (len({type(i) for i in train + val}) > 1 or 2**70 in train)


def test_no_nulls_where_the_trainer_reads(tmp_path):
    flagged, bare = context(2), {"conversation": conversation("s", "u"), "test_cases": json.loads(TESTS)}
    flagged["conversation"][2]["truncated"] = True
    build_parquet([context(0), flagged, context(3, prev_best_pass_rate=0), bare], [bare], tmp_path)

    def check(value):
        assert value is not None
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(item)

    rows = stored(tmp_path / "train.parquet")
    for row in rows:
        check([row[name] for name in VERL])
        assert all(message.keys() == {"role", "content"} for message in row["prompt"])
    assert rows[3]["extra_info"]["index"] == -1 and rows[3]["extra_info"]["prev_best_pass_rate"] == 0.0
    assert rows[3]["test_cases"] == rows[3]["reward_model"]["ground_truth"] == TESTS
    schema = pq.read_schema(tmp_path / "train.parquet")
    assert schema.field("extra_info").type.field("prev_best_pass_rate").type == pa.float64()


def test_overlong_prompts_are_left_out_and_counted(tmp_path):
    long = context(2, conversation=conversation("s", "word " * 10))
    kw = {"max_prompt_length": 10, "tokenizer": WordTokenizer()}
    summary = build_parquet([context(1), long, context(3)], [long, context(4)], tmp_path, **kw)
    assert [row["example_id"] for row in stored(tmp_path / "train.parquet")] == [1, 3]
    test = summary.splits["test"]
    assert (test.read, test.overlong, test.written) == (2, 1, 1)
    manifest = json.loads((tmp_path / "train.parquet.manifest.json").read_text())
    assert manifest["counts"] == {"read": 3, "bad": 0, "overlong": 1, "written": 2, "longest_prompt": 11}
    exactly = build_parquet([long], [long], tmp_path, **kw | {"max_prompt_length": 11})
    assert exactly.splits["train"].written == 1
    with pytest.raises(InputError, match="train split: every prompt has more than 10 tokens"):
        build_parquet([long], [long], tmp_path, **kw)


def test_text_that_utf8_cannot_hold(tmp_path):
    odd = context(1, conversation=conversation("s", "a\ud800b"), note="\udfff")
    odd["test_cases"] = '{"inputs": ["\ud800"], "outputs": ["1"]}'
    build_parquet([odd], [context(2)], tmp_path)
    (row,) = stored(tmp_path / "train.parquet")
    assert row["prompt"][1]["content"] == "a?b"
    assert json.loads(row["reward_model"]["ground_truth"]) == {"inputs": ["\ud800"], "outputs": ["1"]}
    assert json.loads(row["note"]) == "\udfff"


SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=2),
    max_leaves=6,
)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("xyz"), VALUES), min_size=1, max_size=6))
def test_any_rows_can_be_written(rows):
    rows = [context(number) | row for number, row in enumerate(rows)]
    with tempfile.TemporaryDirectory() as name:
        build_parquet(rows, rows[:1], name)
        found = stored(Path(name) / "train.parquet")
    for row, back in zip(rows, found, strict=True):
        for column in "xyz":
            value = back.get(column)
            assert value == row.get(column) or json.loads(value) == row[column]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"test_cases": TESTS}, "'conversation' is missing"),
        (task(), "'conversation' is missing; these rows go through verl_preproc_single_turn.py"),
        (context(conversation=conversation("s", "u", "a")), "field 'conversation' must be a list of 2"),
        (context(conversation=conversation("s", "u")[1:] * 2), r"'conversation'\[0\] must be .*'system'"),
        (context(test_cases="[]"), "field 'test_cases'"),
        (context(test_cases='{"inputs": [], "outputs": []}'), "field 'test_cases' holds no tests"),
        (context(prev_best_pass_rate=2), r"'prev_best_pass_rate' must be a rate in \[0, 1\], got 2"),
        (context(example_id=None), "'example_id' must be"),
        ("{", "not a JSON object"),
    ],
)
def test_malformed_rows_change_nothing_or_are_left_out(row, message, tmp_path):
    source, out = tmp_path / "in.jsonl", tmp_path / "out"
    source.write_text(f"{json.dumps(context())}\n{row if row == '{' else json.dumps(row)}\n")
    build_parquet([context()], [context()], out)
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    with pytest.raises(InputError, match=rf"in\.jsonl:2: .*{message}"):
        build_parquet([context(9)], source, out)
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
    summary = build_parquet([context(9)], source, out, on_bad_row="skip")
    assert (summary.splits["test"].bad, len(stored(out / "test.parquet"))) == (1, 1)
    (reject,) = (out / "test.parquet.rejects.jsonl").read_text().splitlines()
    assert json.loads(reject)["where"] == f"{source}:2"
    assert not (out / "train.parquet.rejects.jsonl").exists()


def test_what_does_not_go_together(tmp_path):
    with pytest.raises(InputError, match="these rows go through verl_preproc_multi_turn"):
        build_parquet([context()], [context()], tmp_path, kind="single_turn")
    for kw in ({"max_prompt_length": 5}, {"model_name": "x"}):
        with pytest.raises(InputError, match="go together"):
            build_parquet([context()], [context()], tmp_path, **kw)
    with pytest.raises(InputError, match="train split holds no rows"):
        build_parquet([], [context()], tmp_path)
    assert list(tmp_path.iterdir()) == []
