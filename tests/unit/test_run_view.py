"""What a run shows."""

import io

import pytest

from cobalt.run import view as views
from cobalt.run.view import Line, View, duration


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min 00 s"),
     (185, "3 min 05 s"), (7260, "2 h 01 min")],
)  # fmt: skip
def test_durations(seconds, words):
    assert duration(seconds) == words


def plain(every_s: float = 0.0) -> tuple[View, io.StringIO]:
    stream = io.StringIO()
    return View([Line("a", "first", 10), Line("b", "second", 30)], stream, every_s), stream


def test_plain_lines_tell_stages_rows_and_time_left():
    view, stream = plain()
    view.end("a", wall_s=3, rows=240, kept=True)
    view.begin("b")
    view.advance("rows", 1, 4, failed=0, masked=2)
    view.end("b", wall_s=12.3, rows=None, kept=False)
    view.close()
    shown = stream.getvalue().splitlines()
    assert shown[0] == "[ 1/2] first: unchanged, kept, 240 rows"
    assert shown[1] == "[ 2/2] second ..."
    assert shown[2].strip().startswith("rows 1/4, masked 2, about ")
    assert shown[3] == "[ 2/2] second: done in 12 s"


def test_progress_is_not_repeated_too_often():
    view, stream = plain(every_s=1000)
    view.begin("a")
    for done in range(50):
        view.advance("rows", done, 50)
    assert "rows" not in stream.getvalue()


def test_the_time_left_follows_this_machine(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(views.time, "monotonic", lambda: now[0])
    view, _ = plain()
    assert view.left_s() == pytest.approx(40)
    view.begin("a")
    now[0] = 20.0
    view.end("a", wall_s=20, rows=1, kept=False)  # twice as long as expected
    assert view.left_s() == pytest.approx(30 * (20 + 20) / (20 + 10))
    view.begin("b")
    view.advance("rows", 3, 4)
    assert view.left_s() == pytest.approx(30 / 4 * 40 / (20 + 10 + 22.5))


def test_a_stage_beside_another_has_its_own_progress():
    view, stream = plain()
    view.begin("b")
    view.begin("a")
    view.progress("b").advance("training", 5, 10)
    view.advance("training", 1, 10)
    assert (view.lines["a"].done, view.lines["b"].done) == (1, 5)
    said = stream.getvalue()
    assert "b: training 5/10" in said and "a: training 1/10" in said  # of which stage a line is


def test_the_live_list_draws_every_state():
    view, _ = plain()
    view.end("a", wall_s=3, rows=1234, kept=True)
    view.begin("b")
    view.advance("rows", 1, 4)
    view.console.print(view.bars)
    shown = view.console.file.getvalue()
    assert "1,234 rows (kept)" in shown and "rows 1/4" in shown and "left" in shown
