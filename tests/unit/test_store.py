"""Files that survive a kill: every torn tail, every failed write; manifests that say how they were made."""

import asyncio
import errno
import json
import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import cobalt
from cobalt.errors import InfraError, InputError, SettingsChanged
from cobalt.files import atomic_write
from cobalt.manifest import check_resume, manifest_path, read_manifest, write_manifest
from cobalt.output import JsonlWriter, repair_tail, row_ids, write_jsonl
from cobalt.rows import encode_row, read_rows

ROWS = [
    {"id": 0, "text": "a\nb\u2028c"},
    {"id": "0", "text": "é\ud800"},
    {"id": 2, "deep": [{"unknown": None}]},
]

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def rows_of(path, **kw):
    return [row for _, row in read_rows(path, **kw)]


def done_ids(path):
    """What a run that goes on finds."""
    JsonlWriter(path).close()
    return set(row_ids(path))


@given(st.lists(st.dictionaries(st.text(max_size=8), json_values, max_size=4), max_size=4))
def test_any_row_comes_back_as_it_was(rows):
    data = b"".join(map(encode_row, rows))
    assert data.count(b"\n") == len(rows)
    assert [json.loads(line) for line in data.split(b"\n")[:-1]] == rows


def test_a_tail_torn_at_any_byte_costs_only_the_torn_row(tmp_path):
    whole = b"".join(map(encode_row, ROWS))
    ends = [len(b"".join(map(encode_row, ROWS[:n]))) for n in range(len(ROWS) + 1)]
    path = tmp_path / "x.jsonl"
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        # A row is whole once its closing brace is there; only the newline may be missing.
        left = sum(1 for end in ends[1:] if cut >= end - 1)
        assert rows_of(path, repair=True) == ROWS[:left]
        assert path.read_bytes() == whole[:cut]  # reading changes nothing
        assert done_ids(path) == {row["id"] for row in ROWS[:left]}
        assert path.read_bytes() == whole[: ends[left]]
        with JsonlWriter(path) as writer:
            writer.append({"id": "next"})
        assert rows_of(path) == [*ROWS[:left], {"id": "next"}]
    path.write_bytes(encode_row({"id": 1}) + b'{"id": 2, "text": "' + b"x" * 200_000)  # longer than a block
    with pytest.raises(InputError, match=r"x\.jsonl:2: .*looks cut off"):
        rows_of(path)
    assert repair_tail(path) and rows_of(path) == [{"id": 1}] and not repair_tail(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b'{"id": 1', "not a JSON object"),
        (b"[1]", "expected an object, got list"),
        (b'{"id": "\xff"}', "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, message):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": 0}\r\n  \r\n' + line + b'\n{"id": 3}\n')
    for repair in (False, True):
        with pytest.raises(InputError, match=rf"x\.jsonl:3: .*{message}"):
            rows_of(path, repair=repair)
    with pytest.raises(InputError, match=r"x\.jsonl:"):
        done_ids(path)
    for gone in (tmp_path / "gone.jsonl", tmp_path):  # at the call
        with pytest.raises(InputError, match="cannot read"):
            read_rows(gone)


# --- The writer


async def test_concurrent_writes_are_committed_in_groups(tmp_path, monkeypatch):
    syncs = []
    real = os.fsync

    def slow(descriptor):
        syncs.append(1)
        time.sleep(0.01)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", slow)
    writer = JsonlWriter(tmp_path / "x.jsonl")

    async def one(number):
        await asyncio.sleep(0.0005 * (number % 10))
        await writer.write({"id": number})
        # It is on disk by now.
        assert f'{{"id": {number}}}\n' in (tmp_path / "x.jsonl").read_text()

    tasks = [asyncio.ensure_future(one(number)) for number in range(200)]
    await asyncio.sleep(0.001)
    tasks[3].cancel()  # leaves the others alone
    await asyncio.gather(*tasks, return_exceptions=True)
    await writer.aclose()
    assert set(row_ids(tmp_path / "x.jsonl")) >= set(range(200)) - {3}
    assert len(syncs) < 60
    with pytest.raises(RuntimeError):  # and no hang
        await asyncio.wait_for(writer.write({"id": 1}), 5)


async def test_the_loop_runs_on_while_the_disk_is_slow(tmp_path, monkeypatch):
    ready, answered = threading.Event(), []
    monkeypatch.setattr(os, "fsync", lambda descriptor: answered.append(ready.wait(10)))
    writer = JsonlWriter(tmp_path / "x.jsonl")
    pending = asyncio.ensure_future(writer.write({"id": 1}))
    for _ in range(10):
        await asyncio.sleep(0.001)
    assert not pending.done() and answered == []
    ready.set()
    await pending
    assert answered[0]
    await writer.aclose()


async def test_a_full_disk_tears_nothing_and_is_reported(tmp_path, monkeypatch):
    path = tmp_path / "x.jsonl"
    writer = JsonlWriter(path)
    await writer.write({"id": 1})

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        outcomes = await asyncio.gather(*(writer.write({"id": n}) for n in (2, 3)), return_exceptions=True)
    assert all(isinstance(each, InfraError) and "No space left" in str(each) for each in outcomes)
    await writer.write({"id": 4})
    await writer.aclose()
    assert rows_of(path) == [{"id": 1}, {"id": 4}]


def test_two_runs_cannot_write_one_file(tmp_path):
    path = tmp_path / "x.jsonl"
    with JsonlWriter(path) as writer:
        writer.append({"id": 1})
        for attempt in (JsonlWriter, repair_tail):
            with pytest.raises(InputError, match="being written by another run"):
                attempt(path)
        writer.append({"id": 2})
    assert done_ids(path) == {1, 2}


def test_a_forked_child_does_not_keep_the_file_locked(tmp_path):
    """The child outlives a parent that had no chance to unlock."""
    code = """
import os, sys
from cobalt.output import JsonlWriter
writer = JsonlWriter(sys.argv[1])
reader, ready = os.pipe()
if os.fork() == 0:
    os.write(ready, b"x")
    sys.stdin.read()
    os._exit(0)
os.read(reader, 1)
os._exit(0)
"""
    path = tmp_path / "x.jsonl"
    process = subprocess.Popen([sys.executable, "-c", code, str(path)], stdin=subprocess.PIPE)
    try:
        assert process.wait(timeout=30) == 0
        JsonlWriter(path).close()
    finally:
        process.stdin.close()  # ends the child


# --- Replacing a file


def test_atomic_replacement(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "x.txt"
    atomic_write(path, "old é")
    assert path.read_text(encoding="utf-8") == "old é"
    atomic_write(path, b"new")

    def rows():
        yield {"id": 1}
        raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        write_jsonl(path, rows())
    monkeypatch.setattr(os, "replace", lambda a, b: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
    with pytest.raises(InfraError, match="full"):
        atomic_write(path, "newer")
    assert path.read_bytes() == b"new" and os.listdir(path.parent) == ["x.txt"]
    (tmp_path / "b").write_text("x")
    assert path.stat().st_mode == (tmp_path / "b").stat().st_mode


def test_what_a_killed_writer_left_is_cleared_away(tmp_path):
    code = """
import os, sys
from cobalt.files import replacing
with replacing(sys.argv[1]) as handle:
    handle.write(b"half")
    os._exit(9)
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "x")], check=False)
    (orphan,) = os.listdir(tmp_path)
    running = orphan.replace(orphan.rpartition("-")[0], f".x.{os.uname().nodename}-{os.getpid()}")
    (tmp_path / running).touch()
    atomic_write(tmp_path / "y", "z")
    assert orphan in os.listdir(tmp_path)
    atomic_write(tmp_path / "x", "whole")
    assert sorted(os.listdir(tmp_path)) == sorted([running, "x", "y"])


@pytest.mark.parametrize("write", [lambda p: atomic_write(p, ""), lambda p: write_jsonl(p, []), JsonlWriter])
def test_folders_that_cannot_be_written(tmp_path, write):
    (tmp_path / "file").write_text("kept")
    for path in (tmp_path / "file" / "x.jsonl", tmp_path):
        with pytest.raises(InputError, match="cannot write"):
            write(path)
    assert (tmp_path / "file").read_text() == "kept"


# --- Manifests


@dataclass(frozen=True)
class Sampling:
    temperature: float = 0.6
    stop: tuple[str, ...] = ("a",)


@pytest.fixture
def out(tmp_path):
    path = tmp_path / "rows.jsonl"
    write_jsonl(path, [{"id": 1}])
    return path


def test_a_manifest_says_how_a_file_was_made(out, tmp_path, monkeypatch):
    (tmp_path / "tasks.jsonl").write_bytes(b"abc")
    monkeypatch.setattr(sys, "argv", ["door.py", "-i", "tasks.jsonl"])
    settings = {"sampling": Sampling(), "path": Path("x"), "model": "m"}
    kw = {"inputs": [tmp_path / "tasks.jsonl"], "counts": {"rows": 1}, "extra": {"wall_s": 1.5}}
    written = write_manifest(out, settings=settings, **kw)
    assert read_manifest(out) == written == json.loads(manifest_path(out).read_text())
    assert written["argv"] == ["door.py", "-i", "tasks.jsonl"]
    assert written["settings"]["sampling"] == {"temperature": 0.6, "stop": ["a"]}
    assert written["inputs"]["tasks.jsonl"]["bytes"] == 3
    assert written["inputs"]["tasks.jsonl"]["sha256"].startswith("ba7816bf")
    assert (written["counts"], written["wall_s"]) == ({"rows": 1}, 1.5)
    assert written["versions"]["cobalt"] == cobalt.__version__
    assert {"python", "numpy", "cobalt_sources"} <= written["versions"].keys()
    manifest_path(out).write_text(json.dumps(written | {"created": "2020-01-01T00:00:00Z"}))
    assert write_manifest(out, settings=settings)["created"].startswith("2020")  # the first time is kept
    assert not write_manifest(out, settings={"n": 2})["created"].startswith("2020")


def test_a_refusal_shows_every_difference(out):
    with pytest.raises(SettingsChanged, match=r"rows\.jsonl\.manifest\.json"):  # rows of unknown origin
        check_resume(out, {})
    write_manifest(out, settings={"sampling": Sampling(), "n": 16, "old": None})
    check_resume(out, {"n": 16, "old": None, "sampling": Sampling()})
    before = manifest_path(out).read_bytes()
    with pytest.raises(SettingsChanged) as refusal:
        check_resume(out, {"sampling": Sampling(temperature=1.0), "n": 16, "new": "x"})
    lines = str(refusal.value).splitlines()
    assert str(out) in lines[0] and "delete this one" in lines[0]
    assert lines[1:] == [
        '  new: (absent) -> "x"', "  old: null -> (absent)", "  sampling.temperature: 0.6 -> 1.0"
    ]  # fmt: skip
    assert manifest_path(out).read_bytes() == before
    check_resume(out.with_name("gone.jsonl"), {"n": 1})
    out.write_text("")  # nothing to resume
    check_resume(out, {"n": 1})


@pytest.mark.parametrize("text", ["{", "[]"])
def test_a_damaged_manifest(out, text):
    manifest_path(out).write_text(text)
    with pytest.raises(InputError, match=r"manifest\.json"):
        check_resume(out, {})


def test_secrets_are_not_written(out, monkeypatch):
    secret = ["--openai_api_key", "S3CR", "--aws-secret-access-key=S3CR", "--hf_token", "S3CR"]
    plain = ["-n", "2", "--max_tokens", "64", "--openai_api_key", "--next", "x"]
    monkeypatch.setattr(sys, "argv", ["door.py", *secret, *plain])
    settings = {"api_key": "S3CR", "nested": [{"password": "S3CR"}], "max_tokens": 64, "access_key": ""}
    manifest = write_manifest(out, settings=settings)
    assert "S3CR" not in manifest_path(out).read_text()
    assert manifest["argv"][-7:] == plain
    assert manifest["settings"]["max_tokens"] == 64 and manifest["settings"]["access_key"] == ""
    check_resume(out, settings | {"api_key": "another"})  # a new key does not change the rows
