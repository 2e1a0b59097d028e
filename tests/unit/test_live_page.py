"""The page of a run under way: what is done, what is running, what is to come, and how it ended."""

import re
import time
from pathlib import Path

import pytest

from cobalt.errors import InfraError
from cobalt.run import live_page
from cobalt.run.live_page import LivePage
from cobalt.run.stage_cache import Outcome, Stage
from cobalt.run.view import View

NAMES = ("data", "train", "report")


def stages():
    return [Stage(name, f"{name}: a stage", lambda: Outcome(0, 0), {}, [], []) for name in NAMES]


def states(path: Path) -> list[str]:
    return re.findall(r'<li class="(\w+)">', path.read_text())


def opened(path: Path, **how) -> LivePage:
    return LivePage(path, {"configuration": "mine", "folder": path.parent}, stages(), **how)


def test_it_is_rewritten_after_each_stage_and_left_to_the_report(tmp_path):
    path, wall = tmp_path / "report.html", {"wall_s": 61.0, "kept": False}
    with opened(path, known=["data"]):
        assert states(path) == ["done", "to_come", "to_come"]
    with (tmp_path / "log").open("w") as log, opened(path, smoke=True) as page:
        assert states(path) == ["to_come"] * 3 and "[smoke run] mine: under way" in path.read_text()
        assert re.search(r"Written \d{4}-\d\d-\d\d .*, again every 10 s", path.read_text())
        view = View(stages(), log, page=page)
        view.begin("data")
        assert states(path) == ["running", "to_come", "to_come"]
        view.end("data", rows=3, **wall)
        assert states(path) == ["done", "to_come", "to_come"]
        assert "done in 1 min 01 s, 3 rows" in path.read_text()
        view.begin("train")
        view.end("train", rows=None, **wall)
        view.begin("report")
        assert states(path) == ["done", "done", "running"]
        view.leave_page()
        path.write_text("the report")  # by the stage
        view.end("report", rows=1, **wall)
    assert path.read_text() == "the report"


def test_it_is_written_while_a_stage_works_and_tells_how_far_it_is(tmp_path):
    path, deadline = tmp_path / "report.html", time.monotonic() + 20
    with (tmp_path / "log").open("w") as log, opened(path, every_s=0.05) as page:
        view = View(stages(), log, page=page)
        view.begin("train")
        view.advance("steps", 2, 5, reward="<0.5")
        while "steps: 2/5, reward &lt;0.5" not in path.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert "steps: 2/5, reward &lt;0.5 (for 0 s)" in path.read_text()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (None, "As far as was asked for."),
        (KeyboardInterrupt("after 3 s"), "Interrupted."),
        (ValueError("a & b"), "Stopped.</b> ValueError: a &amp; b."),
        (InfraError("cannot write x: disk full"), "Stopped.</b> cannot write x: disk full."),
    ],
)
def test_it_says_how_a_run_ended(tmp_path, error, said):
    def work():
        with opened(tmp_path / "report.html") as page:
            page.begin("data")
            page.end("data", "done")
            page.begin("train")
            if error is not None:
                raise error
            page.end("train", "done")

    if error is None:
        work()
    else:
        with pytest.raises(type(error)):
            work()
    text = (tmp_path / "report.html").read_text()
    assert said in text and "What is done is kept; the same command" in text
    assert states(tmp_path / "report.html") == ["done", "stopped" if error else "done", "to_come"]


def test_a_full_disk_is_told_by_the_stage_and_not_hidden_by_the_page(tmp_path, monkeypatch):
    def full(*_):
        raise InfraError("cannot write report.html: no space left")

    with pytest.raises(InfraError, match="stage"), opened(tmp_path / "report.html", every_s=0.02) as page:
        page.begin("data")
        monkeypatch.setattr(live_page, "atomic_write", full)
        time.sleep(0.2)
        assert page._thread.is_alive()  # a late page ends nothing
        with pytest.raises(InfraError, match="no space left"):
            page.begin("train")
        raise InfraError("the stage's own")
