"""The row pipeline: bounded, resumable, honest about failures."""

import asyncio
import io
import json
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from cobalt.cli import LineProgress, TerminalProgress, make_progress
from cobalt.errors import InfraError, InputError, SettingsChanged
from cobalt.manifest import read_manifest
from cobalt.output import JsonlWriter, write_jsonl
from cobalt.pipeline import run_rows
from cobalt.rejects import failures_path
from cobalt.rows import read_rows

ROWS = [{"id": n, "kept": [n]} for n in range(12)]


async def double(row):
    await asyncio.sleep(0.001 * (row["id"] % 4))
    return row | {"double": row["id"] * 2}


def ids(path):
    return [row["id"] for _, row in read_rows(path)]


@pytest.fixture
def run(tmp_path):
    def start(rows, work, **kw):
        options = {"output": tmp_path / "out.jsonl", "concurrency": 3, "settings": {"n": 1}, "backoff_s": 0.0}
        return run_rows(rows, work, **(options | kw))

    start.output = tmp_path / "out.jsonl"
    return start


async def test_rows_go_through_in_order_with_unknown_keys(run):
    summary = await run(ROWS, double)
    assert [row for _, row in read_rows(run.output)] == [row | {"double": 2 * row["id"]} for row in ROWS]
    assert (summary.total, summary.written, summary.resumed, summary.failed) == (12, 12, 0, 0)
    assert summary.exit_code == 0 and not failures_path(run.output).exists()


async def test_concurrency_is_bounded_and_used(run):
    active = peak = 0

    async def work(row):
        nonlocal active, peak
        active += 1
        peak = max(peak, active)
        await asyncio.sleep(0.005)
        active -= 1
        return row

    await run(ROWS, work, concurrency=4)
    assert peak == 4


async def test_rows_are_read_as_they_are_needed(run):
    started = []

    def rows():
        for row in ROWS:
            started.append(row["id"])
            yield row

    async def work(row):
        assert len(started) - row["id"] <= 3
        await asyncio.sleep(0.001)
        return row

    assert (await run(rows(), work)).written == 12


async def test_a_row_that_keeps_failing_is_recorded_and_redone(run):
    async def work(row):
        if row["id"] in (0, 5):
            raise RuntimeError(f"bad {row['id']}")
        return row

    summary = await run(ROWS, work, retries=2)
    assert (summary.failed, summary.retried, summary.written, summary.exit_code) == (2, 4, 10, 1)
    failures = {row["id"]: row for _, row in read_rows(failures_path(run.output))}
    assert failures.keys() == {0, 5}
    assert failures[0]["error"] == "RuntimeError: bad 0" and failures[0]["attempts"] == 3
    assert "in work" in failures[0]["traceback"]
    assert read_manifest(run.output)["counts"]["failed"] == 2

    again = await run(ROWS, double)
    assert (again.resumed, again.written, again.failed) == (10, 2, 0)
    assert ids(run.output) == list(range(12))  # put back in order
    assert not failures_path(run.output).exists()


async def test_a_passing_fault_costs_a_retry_only(run):
    tried = set()

    async def work(row):
        if row["id"] not in tried:
            tried.add(row["id"])
            raise TimeoutError("busy")
        return row

    summary = await run(ROWS, work)
    assert (summary.written, summary.retried, summary.failed) == (12, 12, 0)


async def test_no_retry_without_retries(run):
    calls = []

    async def work(row):
        calls.append(row["id"])
        raise InfraError("down")

    assert (await run(ROWS[:2], work, retries=0)).failed == 2
    assert calls == [0, 1]


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


async def test_ids_must_be_there_and_differ(run):
    with pytest.raises(InputError, match="row 2: 'id' 0 occurs twice"):
        await run([{"id": 0}, {"id": 0}], double)
    with pytest.raises(InputError, match="row 1: 'id' must be"):
        await run([{"name": "x"}], double)


async def test_zero_and_its_text_are_two_rows(run):
    async def work(row):
        return row

    await run([{"id": 0}], work)
    summary = await run([{"id": 0}, {"id": "0"}], work)
    assert (summary.resumed, summary.written) == (1, 1)
    assert ids(run.output) == [0, "0"]


async def test_another_key_than_id(run):
    async def work(row):
        return row | {"id": "free"}

    await run([{"judge_seq_id": "b"}, {"judge_seq_id": "a"}], work, key="judge_seq_id")
    assert [row["judge_seq_id"] for _, row in read_rows(run.output)] == ["b", "a"]


async def test_a_result_for_another_row_is_a_failure(run):
    async def work(row):
        return row | {"id": row["id"] + 1}

    assert (await run(ROWS[:2], work, retries=0)).failed == 2
    assert ids(run.output) == []


async def test_other_settings_are_refused_and_nothing_changes(run):
    await run(ROWS[:3], double)
    before = run.output.read_bytes()
    with pytest.raises(SettingsChanged, match="n: 1 -> 2"):
        await run(ROWS, double, settings={"n": 2})
    with pytest.raises(InputError, match="exists"):
        await run(ROWS, double, resume=False)
    with pytest.raises(InputError, match="concurrency"):
        await run(ROWS, double, concurrency=0)
    assert run.output.read_bytes() == before


async def test_a_file_in_use_is_refused(run):
    with JsonlWriter(run.output), pytest.raises(InputError, match="another run"):
        await run(ROWS, double)


async def test_a_torn_tail_is_redone_once(run):
    await run(ROWS, double)
    run.output.write_bytes(run.output.read_bytes()[:-5])
    summary = await run(ROWS, double)
    assert (summary.resumed, summary.written) == (11, 1)
    assert ids(run.output) == list(range(12))


async def test_rows_of_an_earlier_longer_run_are_kept_behind(run):
    await run(ROWS[:6], double)
    await run([ROWS[8], ROWS[2]], double)
    assert ids(run.output) == [8, 2, 0, 1, 3, 4, 5]


async def test_the_order_of_completion_can_be_kept(run):
    async def work(row):
        await asyncio.sleep(0.05 if row["id"] == 0 else 0)
        return row

    await run(ROWS[:3], work, ordered=False)
    assert ids(run.output) == [1, 2, 0]


async def test_no_rows(run):
    assert (await run([], double)).total == 0
    assert run.output.read_bytes() == b""


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


async def test_a_full_disk_ends_the_run(run, monkeypatch):
    async def broken(self, row):
        raise InfraError("No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(JsonlWriter, "write", broken)
        with pytest.raises(InfraError, match="No space left"):
            await run(ROWS, double)
    assert (await run(ROWS, double)).written == 12


def test_progress_lines():
    stream = io.StringIO()
    progress = LineProgress(stream, every_s=0)
    for done in (0, 3, 3, 10):
        progress.advance("collect", done, 10, failed=done // 10, retried=0)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "collect: 0/10" and lines[-1] == "collect: 10/10, failed 1"
    assert len(lines) == 4  # also while no row is done
    assert all(line.startswith("collect: 3/10, ") and line.endswith(" s left") for line in lines[1:3])
    quiet = io.StringIO()
    for done in range(11):
        LineProgress.advance(progress := progress if done else LineProgress(quiet), "x", done, 10)
    assert quiet.getvalue().splitlines() == ["x: 0/10", "x: 10/10"]
    assert isinstance(make_progress(quiet), LineProgress)


def test_progress_bars_release_the_terminal():
    stream = io.StringIO()
    with TerminalProgress(stream) as progress:
        progress.advance("collect", 2, 10, failed=1)
        progress.advance("train", 0, None)
    assert "collect" in stream.getvalue() and "2/10" in stream.getvalue() and "failed 1" in stream.getvalue()


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


def _interrupted(output, work_s, signals):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(output), str(work_s)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "0\n"  # work has begun
    for number in signals:
        process.send_signal(number)
        time.sleep(0.3)
    _, errors = process.communicate(timeout=30)
    return process.returncode, errors


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_finishes_the_rows_in_flight(tmp_path, number):
    output = tmp_path / "out.jsonl"
    code, errors = _interrupted(output, 0.5, [number])
    assert code == 130
    assert "finishing the rows in flight" in errors
    assert f"interrupted: collect: 2 of 50 rows are in {output}" in errors
    assert "Traceback" not in errors
    assert sorted(ids(output)) == [0, 1]
    assert json.loads((tmp_path / "out.jsonl.manifest.json").read_text())["counts"]["written"] == 2


def test_a_second_interrupt_stops_at_once(tmp_path):
    started = time.monotonic()
    code, errors = _interrupted(tmp_path / "out.jsonl", 60, [signal.SIGINT, signal.SIGINT])
    assert code == 130 and "0 of 50 rows" in errors and "Traceback" not in errors
    assert time.monotonic() - started < 30
