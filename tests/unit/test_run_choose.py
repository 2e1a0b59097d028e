"""Parts of a run: what is asked for, what must be there before, what a dry run says, what runs share."""

import dataclasses
import json
from pathlib import Path

import pytest

from cobalt.errors import InputError
from cobalt.run.memory import MemoryPeak
from cobalt.run.runner import Runner
from cobalt.run.select_stages import check_earlier, select_stages, stage_lines
from cobalt.run.stage_cache import Outcome, Records, Shared, Stage
from cobalt.run.view import View, lines


class Line:
    """data -> train -> evaluate, and a side branch: other reads data alone."""

    def __init__(self, out: Path, size: int = 1) -> None:
        self.out, self.ran = out, []
        out.mkdir(exist_ok=True)

        def stage(name: str, before: list[str], **settings: int) -> Stage:
            def run() -> Outcome:
                self.ran.append(name)
                text = name + "".join((out / each).read_text() for each in before) + json.dumps(settings)
                (out / name).write_text(text)
                return Outcome(1, 1, {"size": size})

            return Stage(name, name, run, settings, [out / each for each in before], [out / name])

        self.stages = [
            stage("data", []),
            stage("train", ["data"], size=size),
            stage("evaluate", ["data", "train"]),
            stage("other", ["data"]),
        ]
        self.records = Records(out)

    def run(self, only: tuple[str, ...] | None = None, shared: Shared | None = None) -> list[str]:
        self.ran.clear()
        with MemoryPeak() as memory:
            Runner(self.out, self.stages, memory, dict, shared).run(View(lines(self.stages, only)), only)
        return list(self.ran)


@pytest.fixture
def line(tmp_path):
    return Line(tmp_path / "out")


@pytest.mark.parametrize(
    ("begin", "end", "only", "names"),
    [
        (None, None, None, None),
        ("train", None, None, ("train", "evaluate", "other")),
        (None, "train", None, ("data", "train")),
        (None, None, "evaluate", ("evaluate",)),
        ("tasks", "data", None, ("data",)),
    ],
)
def test_what_is_asked_for(line, begin, end, only, names):
    assert select_stages(line.stages, begin, end, only) == names


@pytest.mark.parametrize(
    ("begin", "end", "only", "said"),
    [
        ("trian", None, None, "there is no stage 'trian'; did you mean train?"),
        ("evaluate", "train", None, "evaluate comes after train"),
        (None, "train", "data", "--only goes with neither"),
        ("hack-analysis", None, None, "hack_analysis is not part of this configuration"),
    ],
)
def test_what_cannot_be_asked_for_is_said(line, begin, end, only, said):
    with pytest.raises(InputError, match=said):
        select_stages(line.stages, begin, end, only)


def test_hyphens_are_accepted(tmp_path):
    stage = Stage("hack_analysis", "", lambda: Outcome(0, 0), {}, [], [])
    assert select_stages([stage], None, None, "hack-analysis") == ("hack_analysis",)


def test_a_part_needs_what_it_builds_on_and_nothing_else(line):
    with pytest.raises(
        InputError, match=r"evaluate builds on stage data, which must run first \(has not run"
    ):
        check_earlier(line.stages, ("evaluate",), line.records)
    assert line.run(("data",)) == ["data"]
    check_earlier(line.stages, ("other",), line.records)
    with pytest.raises(InputError, match="builds on stage train"):
        check_earlier(line.stages, ("evaluate", "other"), line.records)
    assert line.run(("train",)) == ["train"]
    check_earlier(line.stages, ("evaluate",), line.records)


def test_stale_earlier_outputs_are_refused(line):
    line.run()
    (line.out / "data").write_text("changed by hand")
    with pytest.raises(InputError, match=r"stage data, which must run first \(data was changed\)"):
        check_earlier(line.stages, ("other",), line.records)
    bigger = Line(line.out, size=2)
    bigger.run(("data",))
    with pytest.raises(InputError, match=r"stage train, which must run first \(size: 1 -> 2\)"):
        check_earlier(bigger.stages, ("evaluate",), bigger.records)


def test_other_settings_run_what_they_touch(line):
    line.run()
    bigger = Line(line.out, size=2)
    assert bigger.run() == ["train", "evaluate"]
    assert bigger.run() == []


def test_leftovers_of_other_settings_are_deleted_first(line):
    line.run()
    (line.out / "train.journal").write_text("half")
    scratch = line.out / "scratch"
    scratch.mkdir()
    (scratch / "rows").write_text("half")
    again = Line(line.out, size=2)
    again.stages[1] = dataclasses.replace(again.stages[1], owns=[scratch])
    again.run()
    assert not (line.out / "train.journal").exists() and not scratch.exists()


def test_a_killed_attempt_says_under_what_it_was_made(line):
    line.run(("data",))

    def killed() -> Outcome:
        record = line.records.read("train")
        assert record is not None and not record["finished"] and record["hash"] and record["attempts"] == 1
        raise KeyboardInterrupt

    line.stages[1] = dataclasses.replace(line.stages[1], run=killed)
    with pytest.raises(KeyboardInterrupt):
        line.run(("train",))
    assert line.records.why(line.stages[1]) == "was interrupted"


def test_a_dry_run_says_what_would_run_and_why(line, tmp_path):
    said = stage_lines(line.stages, line.records, None, Shared(None))
    assert [each.split(None, 1)[1] for each in said] == [
        "runs (has not run yet)", "runs (after data)", "runs (after data)", "runs (after data)",
    ]  # fmt: skip
    line.run()
    (line.out / "train").unlink()
    said = stage_lines(line.stages, line.records, ("train", "evaluate"), Shared(None))
    assert [each.split(None, 1)[1] for each in said] == [
        "not asked for",
        "runs (train is gone)",
        "runs (after train)",
        "not asked for",
    ]


def test_runs_share_what_has_the_same_settings_and_inputs(line, tmp_path):
    shared = Shared(tmp_path / "shared")
    assert line.run(shared=shared) == ["data", "train", "evaluate", "other"]
    same, other = Line(tmp_path / "same"), Line(tmp_path / "other", size=2)
    assert "taken over" in stage_lines(same.stages, same.records, None, shared)[0]
    assert same.run(shared=shared) == []
    record = same.records.read("train")
    assert record["shared"] and record["facts"] == {"size": 1} and record["rows_out"] == 1
    assert other.run(shared=shared) == ["train", "evaluate"]
    assert (tmp_path / "other" / "data").read_text() == (line.out / "data").read_text()


def test_shared_outputs_that_were_changed_are_not_taken(line, tmp_path):
    shared = Shared(tmp_path / "shared")
    line.run(shared=shared)
    (kept,) = (tmp_path / "shared" / "data").glob("*/files/data")
    kept.write_text("changed")
    assert Line(tmp_path / "same").run(shared=shared)[0] == "data"


def test_folders_and_files_beside_are_shared_too(tmp_path):
    out, shared = tmp_path / "a", Shared(tmp_path / "shared")
    (out / "model").mkdir(parents=True)
    (out / "model" / "weights").write_text("w")
    (out / "rows").write_text("r")
    (out / "rows.manifest.json").write_text("{}")
    (out / "rows.journal").write_text("half")
    shared.give("kind", "key", out, [out / "model", out / "rows"], {"n": 1})
    assert shared.take("kind", "other", tmp_path / "b") is None
    assert shared.take("kind", "key", tmp_path / "b") == {"n": 1}
    files = [path for path in (tmp_path / "b").rglob("*") if path.is_file()]
    found = {path.relative_to(tmp_path / "b").as_posix() for path in files}
    assert found == {"model/weights", "rows", "rows.manifest.json"}
    assert Shared(None).take("kind", "key", tmp_path / "c") is None
