"""Rows by name: JSON lines, compressed or not, Parquet, folders, and what is none of these."""

from __future__ import annotations

import asyncio
import datetime
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cobalt.errors import InputError
from cobalt.output import row_ids
from cobalt.pipeline import run_rows
from cobalt.rejects import Rejects, checked
from cobalt.rollouts.inputs import Source
from cobalt.rows import Rows, UniqueIds, open_rows

sys.path.append(str(Path(__file__).parent))
from data_rows import read, write

ROWS = [{"id": i, "text": f"row {i} é"} for i in range(5)]


def test_json_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "x.jsonl", [ROWS[0], "", ROWS[1]])
    source = open_rows(path)
    assert list(source) == [(f"{path}:1", ROWS[0]), (f"{path}:3", ROWS[1])]
    assert list(source) == list(open_rows(f"{path}:train"))  # again, and with the only split there is
    assert source.path == path and len(source.sha256) == 64
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert len(list(open_rows(path))) == 2
    packed = tmp_path / "x.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert [row for _, row in open_rows(packed)] == ROWS[:2]
    packed.write_bytes(packed.read_bytes()[:-10])
    with pytest.raises(InputError, match=r"cannot read .*x\.jsonl\.gz"):
        list(open_rows(packed))


def test_names_with_colons(tmp_path: Path) -> None:
    path = write(tmp_path / "a:b.jsonl", ROWS)
    assert len(list(open_rows(path))) == 5


def test_parquet(tmp_path: Path) -> None:
    day = datetime.datetime(2025, 1, 18, 18, 30)
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_pylist([row | {"day": day, "none": None} for row in ROWS]), path)
    assert list(open_rows(path)) == [
        (f"{path}: row {i + 1}", row | {"day": "2025-01-18T18:30:00"}) for i, row in enumerate(ROWS)
    ]
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match="not a Parquet file that can be read"):
        list(open_rows(path))


def test_folders(tmp_path: Path) -> None:
    write(tmp_path / "set" / "train.jsonl", ROWS)
    write(tmp_path / "set" / "validation.jsonl", ROWS[:2])
    folder = tmp_path / "set"
    assert [row for _, row in open_rows(folder)] == ROWS
    validation = open_rows(f"{folder}:validation")
    assert [where for where, _ in validation] == [
        f"{folder}/validation.jsonl:1",
        f"{folder}/validation.jsonl:2",
    ]
    with pytest.raises(InputError, match=r"has no split 'test': .*\(train, validation\)"):
        open_rows(f"{folder}:test")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no data set found"):
        open_rows(tmp_path / "empty")
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "train.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"train\.csv: JSON lines"):
        open_rows(tmp_path / "csv")


def test_saved_data_sets(tmp_path: Path) -> None:
    from datasets import Dataset, DatasetDict

    saved = Dataset.from_list([*ROWS, {"id": 9}])
    saved.save_to_disk(tmp_path / "one")
    source = open_rows(tmp_path / "one")
    assert [row for _, row in source] == [*ROWS, {"id": 9}]
    assert source.path is None and source.sha256 == open_rows(tmp_path / "one").sha256
    DatasetDict(train=saved, dev=saved.select([0])).save_to_disk(tmp_path / "two")
    assert [row for _, row in open_rows(f"{tmp_path}/two:dev")] == ROWS[:1]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.jsonl", "there is no such file or folder"),
        ("none.jsonl:train", "there is no such file or folder"),
        ("folder/none.jsonl", "there is no such file or folder"),
        ("a b/c", "there is no such file or folder"),
    ],
)
def test_names_of_nothing(name: str, message: str) -> None:
    with pytest.raises(InputError, match=f"cannot read .*{message}"):
        open_rows(name)


def test_files_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('[\n {"id": 1},\n 2\n]')
    with pytest.raises(InputError, match=r"x\.json: row 2: must be an object"):
        list(open_rows(path))
    path.write_text("[{")
    with pytest.raises(InputError, match=r"x\.json: not valid JSON"):
        list(open_rows(path))
    path.write_text(json.dumps(ROWS, indent=1))
    assert [row for _, row in open_rows(path)] == ROWS
    with pytest.raises(InputError, match="is a file and has no split 'dev'"):
        open_rows(f"{path}:dev")


def test_rejects(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    long = '{"id": 7, "text": "' + "x" * 5000
    path = write(tmp_path / "x.jsonl", [ROWS[0], long, ROWS[1], ROWS[0], {"id": True}])

    def convert(ids: UniqueIds) -> Any:
        return lambda row, where: ids(row, where)

    rejects = Rejects(out, "skip")
    for _ in range(2):  # a second pass gives the same rows
        good = [key for _, key in checked(open_rows(path), rejects, convert(UniqueIds()))]
        assert good == [0, 1]
    rejects.close()
    rows = read(rejects.path)
    assert [row["where"].rpartition(":")[2] for row in rows] == ["2", "4", "5"]
    assert [row.get("id") for row in rows] == [None, 0, None]
    assert len(rows[0]["text"]) == 2000 and "'id' 0 occurs twice" in rows[1]["error"]
    with pytest.raises(InputError, match=r"x\.jsonl:2: not a JSON object.*--on_bad_row skip"):
        list(checked(open_rows(path), Rejects(out), convert(UniqueIds())))
    Rejects(out).close()
    assert not rejects.path.exists()
    with pytest.raises(InputError, match="--on_bad_row must be one of"):
        Rejects(out, "ignore")


def test_one_as_a_number_and_as_a_text_are_two_ids_everywhere(tmp_path: Path) -> None:
    rows = [{"id": 1}, {"id": "1"}]
    path = write(tmp_path / "x.jsonl", rows)
    ids = UniqueIds()
    assert [ids(row, where) for where, row in open_rows(path)] == [1, "1"]
    assert Source(str(path), lambda row, where: None).ids == [1, "1"]
    assert list(row_ids(path)) == [1, "1"]

    async def work(row: dict[str, Any]) -> dict[str, Any]:
        return row

    for _ in range(2):
        done = asyncio.run(run_rows(rows, work, output=tmp_path / "o.jsonl", concurrency=1, settings={}))
    assert (done.total, done.resumed) == (2, 2)
    for again in rows:
        with pytest.raises(InputError, match="occurs twice"):
            ids(again, "x:3")


def test_the_inference_doors_read_them_too(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    source = Source(str(path), lambda row, where: None)
    assert source.ids == list(range(5)) and source.path == path
    assert [where for where, _ in source.located()][1] == f"{path}: row 2"
    assert json.loads(json.dumps(list(source))) == ROWS
    assert [row for _, row in Rows("x", table=ROWS)] == ROWS
