"""The journal of unfinished trajectories: nothing twice or lost, never too large. And what a run shows."""

import asyncio
import io
from collections import Counter
from types import SimpleNamespace

import pytest

from cobalt.cli import LineProgress
from cobalt.engines.base import Completion
from cobalt.errors import InfraError, InputError
from cobalt.manifest import write_manifest
from cobalt.rollouts import journal as module
from cobalt.rollouts.journal import Journal
from cobalt.rollouts.progress import Meter
from cobalt.rows import read_rows


def opened(folder, done=()):
    failures = []
    journal = Journal(folder / "out", failures.append)
    journal.open(done)
    journal.failures = failures
    return journal


async def fill(journal, keys, text="x"):
    used = {"prompt_tokens": 10, "completion_tokens": 5}
    for key in keys:
        for sample in range(3):
            journal.add(key, sample, 0, raw=text, usage=used, cost=0.5)
            journal.add(key, sample, 0, result={"passing": [True]}, feedback="f")
        await asyncio.sleep(0)


async def test_what_was_added_is_there_again_and_ids_that_look_alike_are_two(tmp_path):
    journal = opened(tmp_path)
    await fill(journal, [0])
    await fill(journal, ["0"], text="\ud800")
    await journal.close(complete=False)
    again = opened(tmp_path)
    assert list(again.turns(0)) == [(0, 0), (1, 0), (2, 0)] and again.turns(1) == {}
    assert all(e["raw"] == "x" and e["result"] for e in again.turns(0).values())
    assert {e["raw"] for e in again.turns("0").values()} == {"\ud800"}
    assert again.spent == {"programs": 6, "prompt_tokens": 60, "completion_tokens": 30, "cost": 3.0}
    await again.close(complete=True)
    assert not journal.path.exists()


async def test_a_torn_tail_is_cut_and_a_damaged_line_refused(tmp_path):
    journal = opened(tmp_path)
    await fill(journal, [0])
    await journal.close(complete=False)
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole[:-9])
    torn = opened(tmp_path)
    assert ["result" in e for e in torn.turns(0).values()] == [True, True, False]
    torn.add(0, 2, 0, result={}, feedback="again")
    await torn.close(complete=False)
    assert [e.get("feedback") for _, e in read_rows(journal.path)][-1] == "again"
    journal.path.write_bytes(b'{"no": "id"}\n' + whole)
    with pytest.raises(InputError, match=r"out.journal:1: "):
        opened(tmp_path)


async def test_rows_that_are_done_leave_and_what_they_cost_stays(tmp_path):
    journal = opened(tmp_path)
    await fill(journal, range(4))
    await journal.close(complete=False)
    size = journal.path.stat().st_size
    again = opened(tmp_path, done=[0, 1, 2])
    assert journal.path.stat().st_size < size / 2 and again.turns(0) == {} and len(again.turns(3)) == 3
    await again.close(complete=False)
    assert opened(tmp_path, done=[3]).spent == journal.spent
    # Where there is no journal, the manifest of a finished output tells.
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "out").write_text("{}\n")
    tokens = {"programs": 7, "prompt": 1, "completion": 2, "cost_usd": 1.5}
    write_manifest(tmp_path / "more" / "out", settings={}, extra={"tokens": tokens})
    for done in ([1], []):
        more = opened(tmp_path / "more", done)
        assert (more.spent["programs"], more.spent["cost"]) == (7, 1.5)
        await more.close(complete=False)


async def test_it_is_compacted_while_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "COMPACT_BYTES", 20_000)
    journal, largest = opened(tmp_path), 0
    for key in range(200):
        await fill(journal, [key], text="y" * 300)
        await asyncio.sleep(0.002)
        if key >= 2:
            journal.forget(key - 2)
        largest = max(largest, journal.path.stat().st_size)
    await journal.close(complete=False)
    assert largest < 120_000 and not journal.failures
    again = opened(tmp_path, done=range(198))
    assert [len(again.turns(key)) for key in (197, 198, 199)] == [0, 3, 3]
    assert again.spent["programs"] == 600 and again.spent["cost"] == 300.0


async def test_a_full_disk_is_told_once(tmp_path, monkeypatch):
    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    journal = opened(tmp_path)
    monkeypatch.setattr(module, "_append", full)
    await fill(journal, range(3))
    await journal.close(complete=False)
    (failure,) = journal.failures
    assert isinstance(failure, InfraError) and "No space left" in str(failure)


def test_what_a_run_shows_between_its_rows(monkeypatch):
    stream, spent = io.StringIO(), Counter({"programs": 3, "cost": 0.125})
    engine = SimpleNamespace(retries=3)
    meter = Meter(LineProgress(stream, every_s=0.0), "multi turn", 40, spent, engine)
    for turn, count in ((0, 2), (1, 1)):
        meter.sampled(turn, [Completion("x", "stop", 10, 100)] * count)
    meter.tested(4)
    meter.advance("multi turn", 0, 5, failed=0)
    last = stream.getvalue().splitlines()[-1]
    for part in (
        "multi turn: 0/5",
        "programs 3/40",
        "turns 1:2 2:1",
        "tokens/s",
        "tests/s",
        "errors 3",
        "$0.125",
    ):
        assert part in last, last
