"""Stages: skipped when nothing changed, done again when something did, continued after an interrupt."""

import json
import threading
import time
from pathlib import Path

import pytest

from cobalt.errors import InputError, SettingsChanged
from cobalt.run.folder import LOCK_FILE, Folder
from cobalt.run.meter import Meter
from cobalt.run.runner import Outcome, Runner, Stage, lines
from cobalt.run.view import View


class Plant:
    """Two stages, `double` then `add`, each a number in a file; counts how often each ran."""

    def __init__(self, out: Path, add: int = 1) -> None:
        self.out, self.ran, self.work_s = out, [], 0.0
        self.source, self.middle, self.final = out / "source", out / "middle", out / "final"
        self.fail: BaseException | None = None
        self.stages = [
            Stage("double", "double", self.double, {}, [self.source], [self.middle]),
            Stage("add", "add", lambda: self.add(add), {"add": add}, [self.middle], [self.final]),
        ]

    def double(self) -> Outcome:
        self.ran.append("double")
        end = time.process_time() + self.work_s
        while time.process_time() < end:
            pass
        self.middle.write_text(str(2 * int(self.source.read_text())))
        return Outcome(1, 2, {"note": "fine"})

    def add(self, number: int) -> Outcome:
        self.ran.append("add")
        if self.fail:
            raise self.fail
        self.final.write_text(str(int(self.middle.read_text()) + number))
        return Outcome(2, 3)

    def run(self, counters=dict) -> list[str]:
        self.ran.clear()
        with Meter() as meter:
            runner = Runner(self.out, self.stages, meter, counters)
            view = View(lines(self.stages))
            try:
                runner.run(view)
            finally:
                view.close()
            assert runner.finished()
        return list(self.ran)


@pytest.fixture
def plant(tmp_path):
    (tmp_path / "source").write_text("5")
    return Plant(tmp_path)


def test_a_second_run_does_nothing(plant):
    assert plant.run() == ["double", "add"]
    assert plant.final.read_text() == "11"
    assert plant.run() == []


def test_a_changed_input_runs_all_that_depends_on_it(plant):
    plant.run()
    plant.source.write_text("6")
    assert plant.run() == ["double", "add"]
    assert plant.final.read_text() == "13"


def test_an_input_changed_back_and_forth_is_no_change(plant):
    plant.run()
    plant.source.write_text("6")
    plant.source.write_text("5")
    assert plant.run() == []


def test_changed_settings_run_that_stage_only(plant):
    plant.run()
    again = Plant(plant.out, add=2)
    assert again.run() == ["add"]
    assert again.final.read_text() == "12"


@pytest.mark.parametrize("damage", ["delete", "alter", "record"])
def test_damaged_outputs_are_made_again(plant, damage):
    plant.run()
    if damage == "delete":
        plant.middle.unlink()
    elif damage == "alter":
        plant.middle.write_text("999")
    else:
        (plant.out / "stages" / "double.json").write_text("{")
    assert plant.run() == ["double"]
    assert plant.final.read_text() == "11"


def test_records_say_what_was_read_written_and_used(plant):
    plant.work_s = 0.2
    plant.run(lambda: {"tests": 100 + 7 * len(plant.ran)})
    record = json.loads((plant.out / "stages" / "double.json").read_text())
    assert (record["rows_in"], record["rows_out"], record["facts"]) == (1, 2, {"note": "fine"})
    assert set(record["inputs"]) == {"source"} and set(record["outputs"]) == {"middle"}
    assert record["wall_s"] >= 0.2 and record["cpu_s"] >= 0.19 and record["counters"] == {"tests": 7}


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("boom")])
def test_an_interrupted_stage_is_recorded_and_its_time_adds_up(plant, error):
    plant.fail = error
    with pytest.raises(type(error)):
        plant.run()
    record = plant.out / "stages" / "add.json"
    before = json.loads(record.read_text())
    assert not before["finished"] and "outputs" not in before
    before["wall_s"] = 100.0
    record.write_text(json.dumps(before))
    plant.fail = None
    assert plant.run() == ["add"]
    after = json.loads(record.read_text())
    assert after["finished"] and after["attempts"] == 2 and after["wall_s"] >= 100.0


def beside(out: Path, first, second, **more) -> list[Stage]:
    return [
        Stage("a", "a", first, {}, [], [out / "a"]),
        Stage("b", "b", second, {}, [], [out / "b"], beside="a", **more),
    ]


def test_a_stage_beside_another_runs_at_the_same_time(tmp_path):
    meet = threading.Barrier(2, timeout=10)

    def work(name):
        def run():
            meet.wait()
            (tmp_path / name).write_text(name)
            return Outcome(0, 1)

        return run

    stages = beside(tmp_path, work("a"), work("b"))
    with Meter() as meter:
        Runner(tmp_path, stages, meter, dict).run(View(lines(stages)))
        records = Runner(tmp_path, stages, meter, dict).records()
        assert [record["name"] for record in records] == ["a", "b"]
        assert sum(record["wall_s"] for record in records) <= meter.usage().wall_s + 0.1


@pytest.mark.parametrize("culprit", ["a", "b"])
def test_a_fault_in_either_stops_both(tmp_path, culprit):
    stopped = threading.Event()

    def first():
        if culprit == "a":
            raise RuntimeError("a is broken")
        (tmp_path / "a").write_text("a")
        return Outcome(0, 1)

    def second():
        if culprit == "b":
            raise RuntimeError("b is broken")
        assert stopped.wait(10)
        raise RuntimeError("was stopped")

    stages = beside(tmp_path, first, second, stop=stopped.set)
    with Meter() as meter:
        runner = Runner(tmp_path, stages, meter, dict)
        with pytest.raises(RuntimeError, match=f"{culprit} is broken"):
            runner.run(View(lines(stages)))
        assert [record["name"] for record in runner.records()] == ([] if culprit == "a" else ["a"])


def test_an_interrupt_before_the_other_has_begun_stops_it_when_it_does(tmp_path):
    begun, stops = threading.Event(), []

    def first():
        raise KeyboardInterrupt

    def second():
        time.sleep(0.3)  # composing, before there is a process that could be stopped
        begun.set()
        while not stops or stops[-1] is False:
            time.sleep(0.01)
        raise RuntimeError("was stopped")

    stages = beside(
        tmp_path, first, second, stop=lambda: stops.append(begun.is_set()), under_way=lambda: True
    )
    with Meter() as meter, pytest.raises(KeyboardInterrupt):
        Runner(tmp_path, stages, meter, dict).run(View(lines(stages)))
    assert stops[0] is False and stops[-1] is True


def identity(**changes):
    return {"seed": 0, "config": {"train": {"steps": 60}}} | changes


def test_another_run_in_the_folder_is_refused_and_nothing_changes(tmp_path):
    out = tmp_path / "out"
    with Folder(out, identity()).opened(fresh=False):
        (out / "rows").write_text("kept")
    before = {path: path.read_bytes() for path in out.iterdir()}
    with (
        pytest.raises(SettingsChanged, match=r"seed: 0 -> 1(.|\n)*FRESH=1"),
        Folder(out, identity(seed=1)).opened(fresh=False),
    ):
        pass
    assert {path: path.read_bytes() for path in out.iterdir()} == before
    with Folder(out, identity()).opened(fresh=False):
        assert (out / "rows").read_text() == "kept"


def test_fresh_deletes_the_run_and_only_a_run(tmp_path):
    out = tmp_path / "out"
    with Folder(out, identity()).opened(fresh=False):
        (out / "deep").mkdir()
        (out / "deep" / "rows").write_text("old")
    with Folder(out, identity(seed=1)).opened(fresh=True):
        assert {path.name for path in out.iterdir()} == {LOCK_FILE, "run.json"}
    other = tmp_path / "home"
    other.mkdir()
    (other / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="no run of ours"), Folder(other, identity()).opened(fresh=True):
        pass
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]


def test_two_runs_in_one_folder_are_refused(tmp_path):
    with (
        Folder(tmp_path / "out", identity()).opened(fresh=False),
        pytest.raises(InputError, match="another run is at work"),
        Folder(tmp_path / "out", identity()).opened(fresh=True),
    ):
        pass


def test_a_file_in_the_way_and_a_damaged_record_are_said(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="is a file"), Folder(file, identity()).opened(fresh=False):
        pass
    out = tmp_path / "out"
    out.mkdir()
    (out / "run.json").write_text("{")
    with pytest.raises(InputError, match="not readable"), Folder(out, identity()).opened(fresh=False):
        pass
