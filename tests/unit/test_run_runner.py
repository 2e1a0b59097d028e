"""Stages: skipped when nothing changed, done again when something did, shared, continued, told."""

import io
import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from rich.progress import Progress as Display
from rich.progress import TextColumn

from cobalt.cli import TerminalProgress
from cobalt.errors import InputError, SettingsChanged
from cobalt.run.cli import ask, check_earlier, stage_lines
from cobalt.run.folder import LOCK_FILE, Folder
from cobalt.run.runner import MemoryPeak, Runner
from cobalt.run.stage_cache import Outcome, Shared, Stage
from cobalt.run.view import View, duration


class Plant:
    """double -> add, each a number in a file, and a side branch; counts how often each ran."""

    def __init__(self, out: Path, add: int = 1) -> None:
        self.out, self.ran = out, []
        out.mkdir(exist_ok=True)
        self.source, self.middle, self.final, self.side = (
            out / name for name in ("source", "middle", "final", "side")
        )
        if not self.source.exists():
            self.source.write_text("5")
        self.fail: BaseException | None = None
        self.stages = [
            Stage("double", "double", self.double, {}, [self.source], [self.middle]),
            Stage("add", "add", lambda: self.add(add), {"add": add}, [self.middle], [self.final]),
            Stage("side", "side", self.aside, {}, [self.middle], [self.side]),
        ]

    def double(self) -> Outcome:
        self.ran.append("double")
        self.middle.write_text(str(2 * int(self.source.read_text())))
        for name in ("middle.manifest.json", "middle.journal"):
            (self.out / name).write_text("{}")
        return Outcome(1, 2, {"note": "fine"})

    def add(self, number: int) -> Outcome:
        self.ran.append("add")
        if self.fail:
            raise self.fail
        assert number == 1 or not self.final.exists()  # what other settings made is gone
        self.final.write_text(str(int(self.middle.read_text()) + number))
        return Outcome(2, 3)

    def aside(self) -> Outcome:
        self.ran.append("side")
        self.side.mkdir(exist_ok=True)
        (self.side / "weights").write_text(self.middle.read_text())
        return Outcome(1, 1)

    def run(self, counters=dict, shared: Shared | None = None) -> list[str]:
        self.ran.clear()
        with Runner(self.out, self.stages, counters, shared) as runner:
            runner.run(View(self.stages))
            assert runner.finished()
        return list(self.ran)

    def said(self, shared: Shared | None = None) -> list[str]:
        told = stage_lines(self.stages, Runner(self.out).kept, shared or Shared(None))
        return [line.split(None, 1)[1] for line in told]

    def record(self, name: str) -> Path:
        return self.out / "stages" / f"{name}.json"


@pytest.fixture
def plant(tmp_path):
    return Plant(tmp_path / "out")


def back_and_forth(plant):
    plant.source.write_text("6")
    plant.source.write_text("5")


@pytest.mark.parametrize(
    ("change", "again"),
    [
        (lambda plant: None, []),
        (lambda plant: plant.source.write_text("6"), ["double", "add", "side"]),
        (back_and_forth, []),
        (lambda plant: plant.middle.unlink(), ["double"]),
        (lambda plant: plant.middle.write_text("999"), ["double"]),
        (lambda plant: plant.final.unlink(), ["add"]),
        (lambda plant: plant.record("double").write_text("{"), ["double"]),
    ],
)
def test_what_changed_runs_again_with_what_depends_on_it(plant, change, again):
    assert plant.run() == ["double", "add", "side"] and plant.final.read_text() == "11"
    change(plant)
    assert plant.run() == again
    assert int(plant.final.read_text()) == 2 * int(plant.source.read_text()) + 1
    assert plant.run() == []


def test_changed_settings_run_that_stage_only_and_a_dry_run_says_so(plant):
    assert plant.said() == ["runs (has not run yet)", "runs (after double)", "runs (after double)"]
    plant.run()
    other = Plant(plant.out, add=2)
    assert other.said() == ["kept, nothing has changed", "runs (add: 1 -> 2)", "kept, nothing has changed"]
    assert other.run() == ["add"] and other.final.read_text() == "12"


def test_runs_share_what_has_the_same_settings_and_inputs(plant, tmp_path):
    """With the files of a folder, and what stands beside a file, but not what is half done."""
    shared = Shared(tmp_path / "shared")
    assert plant.run(shared=shared) == ["double", "add", "side"]
    same, other = Plant(tmp_path / "same"), Plant(tmp_path / "other", add=2)
    assert same.said(shared)[0] == "taken over from another run"
    assert same.run(shared=shared) == [] and other.run(shared=shared) == ["add"]
    files = {path.relative_to(same.out).as_posix() for path in same.out.rglob("*") if path.is_file()}
    assert {"side/weights", "middle.manifest.json"} <= files and "middle.journal" not in files
    record = json.loads(same.record("double").read_text())
    assert record["shared"] and record["facts"] == {"note": "fine"} and record["rows_out"] == 2
    (kept,) = (tmp_path / "shared" / "double").glob("*/files/middle")
    kept.write_text("changed")
    assert Plant(tmp_path / "third").run(shared=shared) == ["double"]


def asked(plant, **how):
    runner = Runner(plant.out, plant.stages)
    runner.only = ask(runner, *(how.get(name) for name in ("begin", "end", "only")))
    return runner


@pytest.mark.parametrize(
    ("how", "names"),
    [
        ({}, ["double", "add", "side"]),
        ({"begin": "add"}, ["add", "side"]),
        ({"end": "add"}, ["double", "add"]),
        ({"only": "add"}, ["add"]),
        ({"only": "ad"}, r"no stage 'ad'; did you mean add\?"),
        ({"begin": "side", "end": "add"}, "side comes after add"),
        ({"only": "add", "end": "side"}, "--only goes with neither"),
    ],
)
def test_a_part_of_a_run(plant, how, names):
    if isinstance(names, str):
        with pytest.raises(InputError, match=names):
            asked(plant, **how)
    else:
        assert [stage.name for stage in asked(plant, **how).chosen] == names


def test_a_part_needs_what_it_builds_on_and_nothing_else(plant):
    with pytest.raises(InputError, match=r"side builds on stage double, .* first \(has not run"):
        check_earlier(asked(plant, only="side"))
    first = asked(plant, end="double")
    check_earlier(first)
    first.run(View(plant.stages))
    assert plant.ran == ["double"] and first.finished()
    check_earlier(asked(plant, only="side"))  # `add` has not run
    plant.middle.write_text("999")
    with pytest.raises(InputError, match=r"stage double, which must run first \(middle was changed\)"):
        check_earlier(asked(plant, only="side"))


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("boom")])
def test_an_interrupted_stage_is_recorded_and_its_time_adds_up(plant, error):
    plant.fail, counters = error, lambda: {"tests": 100 + 7 * len(plant.ran)}
    with pytest.raises(type(error)):
        plant.run(counters)
    record = json.loads(plant.record("double").read_text())
    assert (record["rows_in"], record["rows_out"], record["facts"]) == (1, 2, {"note": "fine"})
    assert set(record["inputs"]) == {"source"} and record["counters"] == {"tests": 7}
    before = json.loads(plant.record("add").read_text())
    assert not before["finished"] and "outputs" not in before
    plant.record("add").write_text(json.dumps(before | {"wall_s": 100.0}))
    plant.fail = None
    assert plant.run() == ["add", "side"]
    after = json.loads(plant.record("add").read_text())
    assert after["finished"] and after["attempts"] == 2 and after["wall_s"] >= 100.0


def beside(out: Path, first, second, **more) -> list[Stage]:
    return [
        Stage("a", "a", first, {}, [], [out / "a"]),
        Stage("b", "b", second, {}, [], [out / "b"], beside="a", **more),
    ]


def test_a_stage_beside_another_runs_at_the_same_time(tmp_path):
    meet, started = threading.Barrier(2, timeout=10), time.monotonic()

    def work(name):
        def run():
            meet.wait()
            (tmp_path / name).write_text(name)
            return Outcome(0, 1)

        return run

    runner = Runner(tmp_path, beside(tmp_path, work("a"), work("b")))
    runner.run(View(runner.stages))
    assert [record["name"] for record in runner.records()] == ["a", "b"]
    assert sum(record["wall_s"] for record in runner.records()) <= time.monotonic() - started + 0.1


@pytest.mark.parametrize("culprit", ["a", "b", "interrupt"])
def test_a_fault_in_either_stops_both(tmp_path, culprit):
    stopped, looked = threading.Event(), []

    def first():
        if culprit == "interrupt":
            raise KeyboardInterrupt
        if culprit == "a":
            raise RuntimeError("a is broken")
        (tmp_path / "a").write_text("a")
        return Outcome(0, 1)

    def second():
        if culprit == "b":
            raise RuntimeError("b is broken")
        time.sleep(0.3)  # composing, before there is a process that could be stopped
        looked.append(stopped.wait(10))
        raise RuntimeError("was stopped")

    runner = Runner(tmp_path, beside(tmp_path, first, second, stop=stopped.set))
    with pytest.raises(
        KeyboardInterrupt if culprit == "interrupt" else RuntimeError, match=f"{culprit} is|^$"
    ):
        runner.run(View(runner.stages))
    assert [record["name"] for record in runner.records()] == (["a"] if culprit == "b" else [])
    assert looked == ([] if culprit == "b" else [True])


def identity(**changes):
    return {"seed": 0, "config": {"train": {"steps": 60}}} | changes


def test_a_folder_holds_one_run_that_only_fresh_deletes(tmp_path):
    out = tmp_path / "out"
    with Folder(out, identity()).opened(fresh=False):
        (out / "rows").write_text("kept")
        with (
            pytest.raises(InputError, match="another run is at work"),
            Folder(out, identity()).opened(fresh=True),
        ):
            pass
    before = {path: path.read_bytes() for path in out.iterdir()}
    other = Folder(out, identity(seed=1))
    with pytest.raises(SettingsChanged, match=r"seed: 0 -> 1(.|\n)*FRESH=1"), other.opened(fresh=False):
        pass
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    with other.opened(fresh=False, changed=True):
        assert (out / "rows").read_text() == "kept"
    with Folder(out, identity()).opened(fresh=True):
        assert {path.name for path in out.iterdir()} == {LOCK_FILE, "run.json"}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("", "", "is a file"),
        ("run.json", "{", "not readable"),
        ("thesis.tex", "years", "no run of ours"),
    ],
)
def test_what_is_no_run_is_left_alone(tmp_path, name, text, said):
    out = tmp_path / "out"
    if name:
        out.mkdir()
    (out / name).write_text(text)
    with pytest.raises(InputError, match=said), Folder(out, identity()).opened(fresh=True):
        pass
    assert (out / name).read_text() == text


def test_lines_tell_stages_rows_and_whose_progress_it_is():
    stream = io.StringIO()
    view = View([Stage(name, f"stage {name}", Outcome, {}, [], []) for name in "ab"], stream, every_s=0)
    view.end("a", wall_s=3, rows=1240, kept=True)
    view.begin("b")
    view.advance("rows", 1, 4, failed=0, masked=2)
    view.progress("a").advance("steps", 5, 10)
    view.end("b", wall_s=12.3, rows=None, kept=False)
    assert [line.strip() for line in stream.getvalue().splitlines()] == [
        "[ 1/2] stage a: unchanged, kept, 1,240 rows", "[ 2/2] stage b ...", "b: rows: 1/4, masked 2",
        "a: steps: 5/10", "[ 2/2] stage b: done in 12 s",
    ]  # fmt: skip
    bars = Display(TextColumn("{task.description}"), console=Console(file=stream, force_terminal=True))
    with bars:
        view = View([Stage("a", "stage a", Outcome, {}, [], [])], bars=TerminalProgress(bars))
        view.begin("a")
        view.advance("rows", 1, 4)
        assert [task.description for task in bars.tasks] == ["a: rows"]
        view.end("a", wall_s=3, rows=2, kept=False)
        assert bars.tasks == [] and "stage a: done in 3.0 s" in stream.getvalue()
    spoken = {0.04: "0.0 s", 9.96: "10 s", 59.6: "1 min 00 s", 185: "3 min 05 s", 7260: "2 h 01 min"}
    assert {seconds: duration(seconds) for seconds in spoken} == spoken


def test_memory_peaks_with_a_large_child():
    hold = "import time\nheld = bytearray(b'x') * 150_000_000\ntime.sleep(1)"
    own = psutil.Process().memory_info().rss / 2**20
    with MemoryPeak(0.1) as memory:
        subprocess.run([sys.executable, "-S", "-c", hold], check=True)
    assert 143 <= memory.mib <= own + 300
