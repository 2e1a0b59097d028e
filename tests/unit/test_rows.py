"""Rows by name: JSON lines, compressed or not, Parquet, folders; checks on rows; test suites."""

import datetime
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from data_rows import read, write
from hypothesis import given
from hypothesis import strategies as st

from cobalt.convert import Rejects, checked
from cobalt.errors import BadRequest, InputError
from cobalt.output import row_ids
from cobalt.rollouts.inputs import Source
from cobalt.rows import UniqueIds, open_rows, require, row_id
from cobalt.testcases import TestCases

ROWS = [{"id": i, "text": f"row {i} é"} for i in range(5)]


def test_json_lines(tmp_path):
    path = write(tmp_path / "a:b.jsonl", [ROWS[0], "", ROWS[1]])
    source = open_rows(path)
    assert list(source) == [(f"{path}:1", ROWS[0]), (f"{path}:3", ROWS[1])]
    assert list(source) == list(open_rows(f"{path}:train"))  # again, and with the only split there is
    assert source.path == path and len(source.sha256) == 64
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert [row for _, row in open_rows(packed)] == ROWS[:2]
    array = tmp_path / "x.json"
    array.write_text(json.dumps(ROWS, indent=1))
    assert list(open_rows(array))[1] == (f"{array}: row 2", ROWS[1])
    for text, message in (("[{", "not valid JSON"), ('[{"id": 1}, 2]', "row 2: not a JSON object")):
        array.write_text(text)
        with pytest.raises(InputError, match=rf"x\.json: {message}"):
            list(open_rows(array))
    packed.write_bytes(packed.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"cannot read .*x\.jsonl\.gz"):
        list(open_rows(packed))


def test_parquet_also_for_the_inference_doors(tmp_path):
    day, path = datetime.datetime(2025, 1, 18, 18, 30), tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_pylist([row | {"day": day, "none": None} for row in ROWS]), path)
    found = list(open_rows(path))
    assert found == [
        (f"{path}: row {i + 1}", row | {"day": "2025-01-18T18:30:00"}) for i, row in enumerate(ROWS)
    ]
    source = Source(str(path), lambda row, where: None)
    assert source.ids == list(range(5)) and list(source.located()) == found
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="not a Parquet file that can be read"):
        list(open_rows(path))


def test_folders_and_saved_data_sets(tmp_path):
    from datasets import Dataset, DatasetDict

    folder = tmp_path / "set"
    write(folder / "train.jsonl", ROWS)
    write(folder / "validation.jsonl", ROWS[:1])
    assert [row for _, row in open_rows(folder)] == ROWS
    assert [where for where, _ in open_rows(f"{folder}:validation")] == [f"{folder}/validation.jsonl:1"]
    with pytest.raises(InputError, match=r"has no split 'test': .*\(train, validation\)"):
        open_rows(f"{folder}:test")
    (tmp_path / "empty").mkdir()
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "train.csv").write_text("a,b\n1,2\n")
    for name, message in (("empty", "no data set found"), ("csv", r"train\.csv: JSON lines")):
        with pytest.raises(InputError, match=message):
            open_rows(tmp_path / name)
    saved = Dataset.from_list([*ROWS, {"id": 9}])
    saved.save_to_disk(tmp_path / "one")
    source = open_rows(tmp_path / "one")
    assert [row for _, row in source] == [*ROWS, {"id": 9}]
    assert source.path is None and source.sha256 == open_rows(tmp_path / "one").sha256
    DatasetDict(train=saved, dev=saved.select([0])).save_to_disk(tmp_path / "two")
    assert [row for _, row in open_rows(f"{tmp_path}/two:dev")] == ROWS[:1]


@pytest.mark.parametrize("name", ["none.jsonl", "none.jsonl:train", "folder/none.jsonl", "a b/c"])
def test_names_of_nothing(name, tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*there is no such file"):
        open_rows(name)
    with pytest.raises(InputError, match="is a file and has no split 'dev'"):
        open_rows(f"{write(tmp_path / 'x.jsonl', ROWS)}:dev")


def test_rejects(tmp_path):
    out, long = tmp_path / "out.jsonl", '{"id": 7, "text": "' + "x" * 5000
    path = write(tmp_path / "x.jsonl", [ROWS[0], long, ROWS[1], ROWS[0], {"id": True}])
    rejects = Rejects(out, "skip")
    for _ in range(2):  # a second pass gives the same rows
        assert [key for _, key in checked(open_rows(path), rejects, UniqueIds())] == [0, 1]
    rejects.close()
    rows = read(rejects.path)
    assert [row["where"].rpartition(":")[2] for row in rows] == ["2", "4", "5"]
    assert [row.get("id") for row in rows] == [None, 0, None]
    assert len(rows[0]["text"]) == 2000 and "'id' 0 occurs twice" in rows[1]["error"]
    with pytest.raises(InputError, match=r"x\.jsonl:2: not a JSON object.*--on_bad_row skip"):
        list(checked(open_rows(path), Rejects(out), UniqueIds()))
    Rejects(out).close()
    assert not rejects.path.exists()


def test_one_as_a_number_and_as_a_text_are_two_ids_everywhere(tmp_path):
    rows = [{"id": 1}, {"id": "1"}]
    path, ids = write(tmp_path / "x.jsonl", rows), UniqueIds()
    assert [ids(row, where) for where, row in open_rows(path)] == [1, "1"]
    assert Source(str(path), lambda row, where: None).ids == list(row_ids(path)) == [1, "1"]
    for again in rows:
        with pytest.raises(InputError, match="occurs twice"):
            ids(again, "x:3")


def test_fields_are_checked_and_named():
    row = {"n": 3, "flag": True, "s": "x", "rate": 1.5, "none": None}
    assert require(row, "n", int, "f:1") == 3 and require(row, "flag", bool, "f:1") is True
    assert require(row, "rate", (int, float), "f:1") == 1.5
    assert require(row, "none", (str, type(None)), "f:1") is None
    for field, kind, message in (
        ("gone", str, "'gone' is missing"),
        ("s", list, "'s' must be a list, got a string"),
        ("flag", int, "'flag' must be a whole number, got true or false"),
    ):
        with pytest.raises(InputError, match=f"^f:1: field {message}"):
            require(row, field, kind, "f:1")
    for key in (0, -3, 10**30, "0", "a b"):
        assert row_id({"id": key}, "f:1") == key and type(row_id({"id": key}, "f:1")) is type(key)
    for bad in ({}, *({"id": bad} for bad in (None, "", True, 1.0, ["a"]))):
        with pytest.raises(InputError, match="f:1: 'id' must be"):
            row_id(bad, "f:1")


# --- Test suites in the published shape

text = st.text(st.characters(codec=None), max_size=20)  # lone surrogates and null bytes included
values = st.recursive(
    st.none() | st.booleans() | st.integers() | text, lambda v: st.lists(v, max_size=3), max_leaves=5
)


@given(st.lists(st.tuples(text, text), max_size=5), st.lists(st.tuples(st.lists(values, max_size=3), values)))
def test_tests_survive_a_round_trip(texts, calls):
    for tests in (TestCases.of(texts), TestCases.of(calls, "solve")):
        assert TestCases.parse(tests.to_json()) == tests == TestCases.parse(tests.to_mapping())
        assert ("fn_name" in json.loads(tests.to_json())) == (tests.fn_name is not None)
        public, hidden = tests.divided(2)
        assert public + hidden == tests and len(public) == min(2, len(tests))
    with pytest.raises(ValueError, match="solve"):
        TestCases.of(texts) + TestCases.of(calls, "solve")


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", "not valid JSON"),
        (None, "expected an object.*null"),
        ({"inputs": []}, "'outputs' is missing"),
        ({"inputs": "ab", "outputs": "ab"}, "'inputs' must be a list, got a string"),
        ({"inputs": ["1"], "outputs": []}, "1 inputs but 0 outputs"),
        ({"inputs": [1], "outputs": ["1"]}, r"inputs\[0\] must be a string, got a whole number"),
        ({"inputs": [], "outputs": [], "fn_name": 3}, "'fn_name' must be a string"),
    ],
)
def test_wrong_shapes_name_place_and_field(value, message):
    with pytest.raises(BadRequest, match=f"^tasks.jsonl:7: test_cases: .*{message}"):
        TestCases.parse(value, where="tasks.jsonl:7: test_cases")
    given_lists = {"inputs": ["1"], "outputs": ["2"], "fn_name": ""}
    parsed = TestCases.parse(given_lists)  # leaves its argument alone
    parsed.inputs.append("x")
    assert given_lists["inputs"] == ["1"] and parsed.fn_name is None
