"""The row pipeline: bounded, resumable, honest about failures; and how progress is shown."""

import asyncio
import io
import json
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from cobalt import pipeline
from cobalt.cli import LineProgress, TerminalProgress, make_progress
from cobalt.errors import InputError, SettingsChanged
from cobalt.manifest import read_manifest
from cobalt.output import JsonlWriter, failures_path, write_jsonl
from cobalt.pipeline import run_rows
from cobalt.rows import read_rows

ROWS = [{"id": n, "kept": [n]} for n in range(12)]


async def double(row):
    await asyncio.sleep(0.001 * (row["id"] % 4))
    return row | {"double": row["id"] * 2}


async def same(row):
    return row


def ids(path):
    return [row["id"] for _, row in read_rows(path)]


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.setattr(pipeline, "BACKOFF_S", 0.0)

    def start(rows, work, **kw):
        options = {"output": tmp_path / "out.jsonl", "concurrency": 3, "settings": {"n": 1}}
        return run_rows(rows, work, **(options | kw))

    start.output = tmp_path / "out.jsonl"
    return start


async def test_rows_go_through_in_order_with_unknown_keys(run):
    summary = await run(ROWS, double)
    assert [row for _, row in read_rows(run.output)] == [row | {"double": 2 * row["id"]} for row in ROWS]
    assert (summary.total, summary.written, summary.resumed, summary.failed) == (12, 12, 0, 0)
    assert summary.exit_code == 0 and not failures_path(run.output).exists()
    await run([ROWS[8], ROWS[2]], double)  # rows of a longer run stay behind those asked for
    assert ids(run.output) == [8, 2, *(n for n in range(12) if n not in (8, 2))]


async def test_concurrency_is_bounded_and_rows_are_read_as_they_are_needed(run):
    active, peak, started = 0, 0, []

    def rows():
        for row in ROWS:
            started.append(row["id"])
            yield row

    async def work(row):
        nonlocal active, peak
        active += 1
        peak = max(peak, active)
        assert len(started) - row["id"] <= 3
        await asyncio.sleep(0.005)
        active -= 1
        return row

    assert (await run(rows(), work)).written == 12
    assert peak == 3


async def test_a_row_that_keeps_failing_is_recorded_and_redone(run):
    tried = []

    async def work(row):
        tried.append(row["id"])
        if row["id"] in (0, 5) or tried.count(row["id"]) < 2:
            raise RuntimeError(f"bad {row['id']}")
        return row

    summary = await run(ROWS, work, retries=2)
    assert (summary.failed, summary.retried, summary.written, summary.exit_code) == (2, 14, 10, 1)
    failures = {row["id"]: row for _, row in read_rows(failures_path(run.output))}
    assert failures.keys() == {0, 5}
    assert failures[0]["error"] == "RuntimeError: bad 0" and failures[0]["attempts"] == 3
    assert "in work" in failures[0]["traceback"]
    assert read_manifest(run.output)["counts"]["failed"] == 2
    again = await run(ROWS, double)
    assert (again.resumed, again.written, again.failed) == (10, 2, 0)
    assert ids(run.output) == list(range(12))  # put back in order
    assert not failures_path(run.output).exists()


async def test_bad_input_stops_the_run_after_the_rows_in_flight(run):
    async def work(row):
        await asyncio.sleep(0.01 if row["id"] < 2 else 0)
        if row["id"] == 2:
            raise InputError("row 2 has no tests")
        return row

    with pytest.raises(InputError, match="row 2 has no tests"):
        await run(ROWS, work)
    assert sorted(ids(run.output)) == [0, 1]
    assert (await run(ROWS, double)).resumed == 2


@pytest.mark.parametrize(
    ("rows", "kw", "error"),
    [
        ([{"id": 0}, {"id": 0}], {}, "row 2: 'id' 0 occurs twice"),
        ([{"name": "x"}], {}, "row 1: 'id' must be"),
        (ROWS, {"settings": {"n": 2}}, "n: 1 -> 2"),
        (ROWS, {"concurrency": 0}, "concurrency"),
    ],
)
async def test_what_is_refused_changes_nothing(run, rows, kw, error):
    await run([{"id": "first"}], same)
    before = run.output.read_bytes()
    with pytest.raises(InputError, match=error) as refusal:
        await run(rows, same, **kw)
    assert isinstance(refusal.value, SettingsChanged) == ("settings" in kw)
    assert run.output.read_bytes().startswith(before)
    with JsonlWriter(run.output), pytest.raises(InputError, match="another run"):
        await run(ROWS, same)


async def test_keys_of_rows(run):
    await run([{"id": 0}], same)
    summary = await run([{"id": 0}, {"id": "0"}], same)
    assert (summary.resumed, summary.written) == (1, 1) and ids(run.output) == [0, "0"]

    async def other(row):
        return row | {"id": 5}

    assert (await run([{"id": 3}], other, retries=0)).failed == 1  # a result for another row
    cases = run.output.with_name("cases.jsonl")
    await run([{"case": "b"}, {"case": "a"}], other, key="case", output=cases)
    assert [row["case"] for _, row in read_rows(cases)] == ["b", "a"]
    assert (await run([], other, key="case", output=cases)).total == 0


async def test_the_manifest_adds_up_over_runs(run, tmp_path):
    write_jsonl(tmp_path / "tasks.jsonl", ROWS)
    kw = {"inputs": {"tasks": tmp_path / "tasks.jsonl"}, "extra": lambda: {"tokens": 7}}

    async def slow(row):
        await asyncio.sleep(0.05)
        return row

    await run(ROWS[:6], slow, **kw)
    first = read_manifest(run.output)
    await run(ROWS, slow, **kw)
    second = read_manifest(run.output)
    assert first["wall_s"] >= 0.1 and second["wall_s"] >= first["wall_s"] + 0.1
    assert second["counts"] == {"total": 12, "resumed": 6, "written": 6, "failed": 0, "retried": 0}
    assert second["tokens"] == 7 and "tasks" in second["inputs"]


async def test_cancelling_the_caller_cancels_the_work(run):
    cancelled = []

    async def work(row):
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(row["id"])
            raise
        return row

    task = asyncio.ensure_future(run(ROWS, work))
    await asyncio.sleep(0.05)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert cancelled == [0, 1, 2]
    assert (await run(ROWS, double)).written == 12


def test_progress_is_lines_or_bars():
    stream, quiet = io.StringIO(), io.StringIO()
    progress = LineProgress(stream, every_s=0)
    for done in (0, 3, 3, 10):
        progress.advance("collect", done, 10, failed=done // 10, retried=0)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "collect: 0/10" and lines[-1] == "collect: 10/10, failed 1"
    assert len(lines) == 4  # also while no row is done
    assert all(line.startswith("collect: 3/10, ") and line.endswith(" s left") for line in lines[1:3])
    with make_progress(quiet) as progress:
        for done in range(11):
            progress.advance("x", done, 10)
    assert quiet.getvalue().splitlines() == ["x: 0/10", "x: 10/10"]
    stream.isatty = lambda: True
    with make_progress(stream) as progress:
        assert isinstance(progress, TerminalProgress)
        progress.advance("train", 2, 10, failed=1)
        progress.advance("train", 3, None)
    assert "train" in stream.getvalue() and "failed 1" in stream.getvalue()


SCRIPT = textwrap.dedent("""
    import asyncio, sys
    from cobalt.cli import run_main
    from cobalt.pipeline import run_rows

    async def work(row):
        print(row["id"], flush=True)
        await asyncio.sleep(float(sys.argv[2]))
        return row

    def main(argv):
        rows = [{"id": n} for n in range(50)]
        asyncio.run(run_rows(rows, work, output=sys.argv[1], concurrency=2, settings={}, label="collect"))

    run_main(main)
""")


@pytest.mark.parametrize(
    ("signals", "seconds", "kept"),
    [([signal.SIGINT], 0.5, 2), ([signal.SIGTERM], 0.5, 2), ([signal.SIGINT] * 2, 60, 0)],
)
def test_an_interrupt_finishes_the_rows_in_flight_and_a_second_one_stops(tmp_path, signals, seconds, kept):
    output = tmp_path / "out.jsonl"
    command = [sys.executable, "-c", SCRIPT, str(output), str(seconds)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "0\n"  # work has begun
    for number in signals:
        process.send_signal(number)
        time.sleep(0.3)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in errors
    assert f"{kept} of 50 rows are in {output}" in errors
    assert sorted(ids(output)) == list(range(kept))
    assert json.loads((tmp_path / "out.jsonl.manifest.json").read_text())["counts"]["written"] == kept
