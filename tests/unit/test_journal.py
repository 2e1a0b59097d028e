"""The journal of unfinished trajectories: nothing twice, nothing lost, never larger than it must be."""

import asyncio
import json

import pytest

from cobalt.errors import InfraError, InputError
from cobalt.rollouts import journal as module
from cobalt.rollouts.journal import Journal
from cobalt.rows import read_rows


def usage(tokens):
    return {"prompt_tokens": 2 * tokens, "completion_tokens": tokens}


def opened(path, done=(), before=None):
    failures = []
    journal = Journal(path, failures.append)
    journal.open(done, before)
    journal.failures = failures
    return journal


async def fill(journal, keys, samples=3, text="x"):
    for key in keys:
        for sample in range(samples):
            journal.add(key, sample, 0, raw=text, usage=usage(5), cost=0.5)
            journal.add(key, sample, 0, result={"passing": [True]}, feedback="f")
        await asyncio.sleep(0)


async def test_what_was_added_is_there_again(tmp_path):
    path = tmp_path / "out.journal"
    journal = opened(path)
    await fill(journal, [0, "0"])
    await journal.close(complete=False)
    again = opened(path)
    assert list(again.turns(0)) == [(0, 0), (1, 0), (2, 0)]
    assert all(e["raw"] == "x" and e["result"] for e in again.turns(0).values())
    assert {e["id"] for e in again.turns("0").values()} == {"0"} and again.turns(1) == {}
    assert again.spent == {"programs": 6, "prompt_tokens": 60, "completion_tokens": 30, "cost": 3.0}
    await again.close(complete=True)
    assert not path.exists()


async def test_a_torn_tail_is_cut_and_a_damaged_line_refused(tmp_path):
    path = tmp_path / "out.journal"
    journal = opened(path)
    await fill(journal, [0])
    await journal.close(complete=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    torn = opened(path)
    assert ["result" in e for e in torn.turns(0).values()] == [True, True, False]
    torn.add(0, 2, 0, result={}, feedback="again")
    await torn.close(complete=False)
    assert [e.get("feedback") for _, e in read_rows(path)][-1] == "again"
    path.write_bytes(b'{"no": "id"}\n' + whole)
    with pytest.raises(InputError, match=r"out.journal:1: "):
        opened(path)


async def test_rows_that_are_done_leave_and_what_they_cost_stays(tmp_path):
    path = tmp_path / "out.journal"
    journal = opened(path)
    await fill(journal, range(4))
    await journal.close(complete=False)
    size = path.stat().st_size
    again = opened(path, done=[0, 1, 2])
    assert path.stat().st_size < size / 2 and again.turns(0) == {} and len(again.turns(3)) == 3
    assert again.spent["programs"] == 12
    await again.close(complete=False)
    assert opened(path, done=[3]).spent["cost"] == 6.0
    fresh = opened(tmp_path / "b.journal", before={"programs": 7, "cost": 1.5})
    await fresh.close(complete=False)
    assert opened(tmp_path / "b.journal").spent["programs"] == 7


async def test_it_is_compacted_while_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "COMPACT_BYTES", 20_000)
    journal = opened(tmp_path / "out.journal")
    largest = 0
    for key in range(200):
        await fill(journal, [key], text="y" * 300)
        await asyncio.sleep(0.002)
        if key >= 2:
            journal.forget(key - 2)
        largest = max(largest, journal.path.stat().st_size)
    await journal.close(complete=False)
    assert largest < 120_000 and not journal.failures
    again = opened(journal.path, done=range(198))
    assert [len(again.turns(key)) for key in (197, 198, 199)] == [0, 3, 3]
    assert again.spent["programs"] == 600 and again.spent["cost"] == 300.0


async def test_a_full_disk_is_told_once(tmp_path, monkeypatch):
    def full(descriptor, data):
        raise OSError(28, "No space left on device")

    journal = opened(tmp_path / "out.journal")
    monkeypatch.setattr(module, "_append", full)
    await fill(journal, range(3))
    await journal.close(complete=False)
    assert len(journal.failures) == 1 and isinstance(journal.failures[0], InfraError)
    assert "No space left" in str(journal.failures[0])


async def test_ids_that_only_look_alike(tmp_path):
    journal = opened(tmp_path / "out.journal")
    journal.add("1", 0, 0, raw="text")
    journal.add(1, 0, 0, raw="\ud800 number")
    await journal.close(complete=False)
    again = opened(journal.path)
    assert [again.turns(key)[0, 0]["raw"] for key in ("1", 1)] == ["text", "\ud800 number"]
    assert json.loads(journal.path.read_text().splitlines()[0])["id"] == "1"
