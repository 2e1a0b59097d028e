"""The study's table: rates pooled over seeds, paired differences, what contradictory tests spoil."""

from __future__ import annotations

import json

import pytest

from cobalt.commands.study import ARMS, main
from cobalt.commands.study_report import difference, pass_at_1, rates, report, spoiled
from cobalt.errors import InputError
from cobalt.training.config import choices


def write(path, *tasks):
    path.write_text(
        "".join(json.dumps({"id": i, "all_pass_rates": task}) + "\n" for i, task in enumerate(tasks))
    )
    return str(path)


def test_every_arm_is_a_recipe():
    assert {recipe for recipe, _ in ARMS.values()} == set(choices("recipe"))


def test_seeds_are_pooled_by_task(tmp_path):
    one = write(tmp_path / "a", [[0.5, 1.0]], [[1.0, 1.0]])
    two = write(tmp_path / "b", [[1.0, 0.0]], [[0.0, None]])  # a program without a verdict is left out
    found = rates([one, two])
    assert found == {0: [[0.0, 1.0], [1.0, 0.0]], 1: [[1.0, 1.0]]}
    assert pass_at_1(found, 0).mean == pytest.approx(0.75) and pass_at_1(found, -1).mean == pytest.approx(
        0.75
    )
    assert spoiled(found).mean == pytest.approx(0.5)  # of task 0's one, all; of task 1's one, none
    assert spoiled({0: [[0.0, 1.0]]}) is None
    better = rates([write(tmp_path / "c", [[0.0, 1.0]], [[0.0, 1.0]])])
    assert difference(better, found).mean == pytest.approx(0.25)


def test_the_report_has_a_row_per_arm_and_a_plot(tmp_path):
    def arm(name, last, runs, reads="tasks"):
        file = write(tmp_path / name, *[[[0.0, float(i < last)]] for i in range(10)])
        files = {"heldout": [file], "heldout_ptb": [file]}
        return {"rate": 1e-4, "reads": reads, "runs": runs, "files": files}

    run = {"steps": 30, "step_s": [2.0] * 30}
    results = {
        "timing": {"contexts": 60.0, "groups": 20.0, "cobalt": 3.0},
        "arms": {
            "reference": arm("r", 2, []),
            "cobalt": arm("c", 7, [run], "contexts"),
            "mt_grpo": arm("m", 2, [run]),
            "offline_rl": arm("o", 4, [run], "groups"),
        },
    }
    table = report(results, tmp_path)
    rows = {
        line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
        for line in table.splitlines()
    }
    assert rows["cobalt"][2:4] == ["0.0 [0.0, 0.0]", rows["cobalt"][3]] and rows["cobalt"][3].startswith(
        "70.0 ["
    )
    assert rows["cobalt"][4].startswith("+50.0 [") and rows["cobalt"][7:] == ["150", "3.0"]
    assert rows["mt_grpo"][5].startswith("+50.0 [") and rows["mt_grpo"][8] == ""  # no points gained, no price
    assert rows["mt_grpo"][7] == "60" and rows["offline_rl"][7:] == ["80", "4.0"]  # data are not for nothing
    assert rows["reference"][0] == "" and (tmp_path / "study.png").stat().st_size > 1000
    assert table in (tmp_path / "study.md").read_text()


def test_mistakes_are_one_message(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        main(["--config", str(tmp_path / "none.yaml"), "--out", str(tmp_path / "out")])
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "settings.json").write_text('{"steps": 5, "seeds": 1}')
    with pytest.raises(InputError, match="another number of steps"):
        main(["--out", str(tmp_path / "out"), "--steps", "6"])
