"""`cobalt picture`: a file from a run's results, and one message where there is none."""

import json

import pytest
from report_data import results

from cobalt.errors import InputError
from cobalt.report import picture
from cobalt.report.page import arms_of


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    (folder / "results.json").write_text(json.dumps(results(folder)))
    return folder


def test_a_picture_shows_the_figures_of_the_run(run, tmp_path, capsys):
    assert picture.main([str(run), "-o", str(tmp_path / "demo.svg")]) == 0
    svg = (tmp_path / "demo.svg").read_text()
    found = json.loads((run / "results.json").read_text())
    assert f"{found['tasks']} held-out tasks" in svg
    for name, arm in arms_of(found).items():
        assert f"{picture.LABELS[name]} {100 * arm['pass_at_1'][-1]:.0f}" in svg
        assert picture.COLOURS[name] in svg
    assert "demo.svg" in capsys.readouterr().out
    picture.main([str(run / "results.json"), "-o", str(tmp_path / "again.svg")])
    assert (tmp_path / "again.svg").read_text() == svg  # no date, no random names


def test_png(run, tmp_path):
    picture.main([str(run), "-o", str(tmp_path / "demo.png")])
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("content", "name", "says"),
    [
        (None, "a.png", "no results there"),
        ("{}", "a.png", "not the results.json of a run"),
        ("nonsense", "a.png", "not the results.json of a run"),
        ("sound", "a.txt", "ends in .png, .svg, .pdf"),
        ("sound", "no/such/folder/a.png", "cannot write"),
    ],
)
def test_mistakes(run, tmp_path, content, name, says):
    if content == "sound":
        content = (run / "results.json").read_text()
    if content is not None:
        (tmp_path / "results.json").write_text(content)
    with pytest.raises(InputError, match=says):
        picture.main([str(tmp_path), "-o", str(tmp_path / name)])
