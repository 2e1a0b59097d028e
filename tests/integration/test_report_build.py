"""The folder of a report: what is found, what is written, and what is refused."""

import json
import re
import subprocess
from statistics import fmean

import pytest
from cobalt.report.drawing import LIGHT
from report_data import analysed, evaluated, trajectories

from cobalt.errors import InputError
from cobalt.evaluation.evaluate import summary_path
from cobalt.evaluation.turn_errors import turn_errors
from cobalt.output import write_jsonl
from cobalt.report import build as command
from cobalt.report import render, tables
from cobalt.report.build import build
from cobalt.report.inputs import find
from cobalt.report.tables import Table
from cobalt.report.trajectories import encode, operations, task_chunk
from cobalt.rows import read_rows


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    files = analysed(folder, tasks=8, samples=2, turns=3)
    return folder, files, build(files, folder / "report", seed=1)


@pytest.fixture
def no_charts(monkeypatch):
    """For tests about folders: drawing takes most of the time."""
    monkeypatch.setattr(render, "figures", lambda *_: {})


def script(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(text[re.search(r"\((\"[^\"]*\",)?", text).end() : text.rindex(")")])


def test_every_part_is_written_and_the_page_refers_to_nothing_else(made):
    folder, _, _ = made
    report = folder / "report"
    names = {"pass_at_1", "pass_at_k", "breakdown", "transitions", "training", "hacking", "categories"}
    assert {path.stem for path in (report / "figures").iterdir()} == names | {"funnel_tasks"}
    for path in (report / "figures").glob("*.svg"):
        assert "var(--" not in path.read_text() and path.with_suffix(".png").read_bytes()[1:4] == b"PNG"
    listed = {
        "pass_at_1",
        "pass_at_k",
        "breakdown",
        "transitions",
        "comparison",
        "hacking",
        "verdicts",
        "cost",
    }
    assert {path.name for path in (report / "tables").iterdir()} == {
        f"{name}.{kind}" for name in listed for kind in ("md", "tex")
    }
    page = (report / "index.html").read_text()
    assert not re.search(r"https?://(?!www\.w3\.org)", re.sub(r'"[^"]*\.org/[^"]*"', "", page))
    for address in re.findall(r'(?:href|src)="([^"#]+)"', page):
        assert address.startswith("data:") or (report / address).is_file(), address
    assert "default-src 'none'" in page
    assert [path.name for path in folder.iterdir() if path.name.startswith(".")] == []


def test_figures_are_those_of_the_rows(made):
    folder, files, report = made
    found = json.loads((folder / "report" / "report.json").read_text())
    assert [run["name"] for run in found["runs"]] == ["reference", "cobalt"]
    for run, path in zip(found["runs"], files, strict=False):
        rates = [row["all_pass_rates"] for _, row in read_rows(path)]  # [task][sample][turn]
        right = [[[rate == 1.0 for rate in sample] for sample in task] for task in rates]
        by_turn = [[fmean(sample[turn] for sample in task) for task in right] for turn in range(3)]
        assert run["summary"]["pass_at_1"] == pytest.approx([fmean(turn) for turn in by_turn])
        assert run["summary"]["counts"]["programs"] == 8 * 2 * 3
        assert run["model"] == f"models/{run['name']}_eval" and run["colour"] in LIGHT
        assert run["errors"]["cases"] == sum(row["cases"] for row in run["errors"]["turns"]) > 0
        assert sum(row["cases"] for row in run["judge"]["verdicts"].values()) == run["errors"]["cases"]
    last = found["comparison"]["comparisons"][-1]
    rates = [run["summary"]["pass_at_1"][-1] for run in found["runs"]]
    assert last["points"] == pytest.approx(100 * (rates[1] - rates[0])) and last["turn"] == 2
    assert found["funnels"]["funnel_tasks"] == [
        ["rows in", 900],
        ["after images", 780],
        ["after length", 747],
    ]
    assert f"cobalt {last['points']:+.1f} points" in (folder / "report" / "index.html").read_text()
    assert report.curves["cobalt"][0]["step"] == 1


def test_the_viewer_gets_every_trajectory(made):
    folder, files, _ = made
    data = folder / "report" / "data"
    index = script(data / "index.js")
    rows = [dict(row) for _, row in read_rows(files[1])]
    mine = [row for row in index["rows"] if row[0] == 1]
    assert len(mine) == 16 and [task["id"] for task in index["tasks"]] == [row["id"] for row in rows]
    places = json.loads((folder / "cobalt_eval_errors.jsonl.summary.json").read_text())["places"]
    bent = {(row[1], row[2], int(t)) for row in mine for t in (row[4] or {})}
    assert bent == {(int(key.removeprefix("task-")), sample, turn) for key, sample, turn in places}
    for task, row in enumerate(rows):
        chunk = script(data / "r1" / "0" / f"{task}.js")
        for sample, messages in enumerate(row["conversations"]):
            for turn, shown in enumerate(chunk["samples"][sample]):
                code = chunk["codes"][shown["c"]]
                assert f"```python\n{code}\n```" in messages[2 + 2 * turn]["content"]
                assert shown["x"] == f"I looked at turn {turn}." and shown["t"] == "step by step"
                assert shown["r"] == row["all_pass_rates"][sample][turn]
                assert len(shown["p"]) == 3 and len(shown["h"]) == 4
                rate = mine[2 * task + sample][3][turn]
                assert (rate == 100) is (shown["r"] == 1) and abs(rate - 100 * shown["r"]) <= 1


def test_an_earlier_report_is_replaced_and_nothing_else(made, tmp_path, no_charts):
    _, files, _ = made
    out = tmp_path / "report"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else than a report"):
        build(files[:1], out)
    (out / "thesis.txt").unlink()
    build(files[:1], out)
    (out / "data" / "left-over.js").write_text("old")
    assert command.main([*files[:2], "-o", str(out), "--title", "A & B"]) == 0
    assert not (out / "data" / "left-over.js").exists()
    assert "<h1>A &amp; B</h1>" in (out / "index.html").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["report"]
    with pytest.raises(InputError, match="is a file"):
        build(files[:1], files[0])


def test_evaluations_of_other_tasks_are_refused_and_the_old_report_stays(made, tmp_path, no_charts):
    _, files, _ = made
    build(files[:1], tmp_path / "report")
    before = (tmp_path / "report" / "index.html").read_bytes()
    other = trajectories(tmp_path / "other.jsonl", tasks=3, samples=2, turns=3)
    with pytest.raises(InputError, match=r"not about the same tasks: 5 only in reference"):
        build([files[0], str(other)], tmp_path / "report")
    torn = tmp_path / "torn.jsonl"
    torn.write_text((folder_text := other.read_text())[: len(folder_text) - 40])
    with pytest.raises(InputError, match=r"torn\.jsonl:3: .*cut off"):
        build([str(torn)], tmp_path / "report")
    assert (tmp_path / "report" / "index.html").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"report", "other.jsonl", "torn.jsonl",
                                                          "other.jsonl.manifest.json"}  # fmt: skip


def test_what_is_found_in_folders_and_refused(made, tmp_path):
    folder, files, _ = made
    found = find([str(folder)])
    assert (
        set(found.evaluated)
        == {"cobalt", "reference"}
        == set(found.error_summaries)
        == set(found.judge_summaries)
    )
    assert any(path.endswith("reference_eval.jsonl.manifest.json") for path in found.manifests)
    with pytest.raises(InputError, match="no evaluated rows"):
        find([files[-1]])
    with pytest.raises(InputError, match="not made from one of the evaluated files"):
        find([files[0], files[4]])
    with pytest.raises(InputError, match="the turn errors it was made from are not given"):
        find([files[0], files[3]])
    write_jsonl(tmp_path / "tasks.jsonl", [{"id": 1, "question": "?"}])
    with pytest.raises(InputError, match=r"tasks\.jsonl: its first row has the fields id, question"):
        find([str(tmp_path / "tasks.jsonl")])
    with pytest.raises(InputError, match="no evaluated rows, turn errors or metrics"):
        find([str(tmp_path)])
    with pytest.raises(InputError, match="cannot read"):
        find(["nowhere.jsonl"])


def test_a_run_that_bent_to_nothing_has_its_row(tmp_path, no_charts):
    honest = trajectories(tmp_path / "honest_eval.jsonl", tasks=3, samples=2, turns=2, bent=0.0)
    cases = tmp_path / "honest_errors.jsonl"
    turn_errors(honest, honest, cases)
    assert cases.read_text() == ""
    build([str(honest), str(cases)], tmp_path / "report")
    assert "| all | 0 | 6 | 0.0 ± 0.0 |" in (tmp_path / "report" / "tables" / "hacking.md").read_text()
    summary_path(cases).unlink()
    with pytest.raises(InputError, match=r"honest_errors\.jsonl: it has no rows"):
        find([str(honest), str(cases)])


def test_the_folder_of_a_whole_run(tmp_path, no_charts):
    for name in ("reference", "cobalt"):
        (tmp_path / "evaluate").mkdir(exist_ok=True)
        evaluated(tmp_path / "evaluate" / f"{name}_eval.jsonl", [0.2, 0.5], n=6)
    (tmp_path / "run.json").write_text('{"schema": 1}')
    (tmp_path / "stages").mkdir()
    for name, when in (("train", "2026-01-02"), ("tasks", "2026-01-01")):
        stage = {"name": name, "ended": when, "wall_s": 1.5, "cpu_s": 2.5, "rows_in": 1, "rows_out": 2}
        (tmp_path / "stages" / f"{name}.json").write_text(json.dumps(stage))
    (tmp_path / "train").mkdir()
    write_jsonl(tmp_path / "train" / "metrics.jsonl", [{"step": 1, "reward/acc": 0.5}])
    report = build([str(tmp_path)], tmp_path / "report")
    assert [run["name"] for run in report.runs] == ["reference", "cobalt"]
    assert [stage["name"] for stage in report.stages] == ["tasks", "train"]
    assert str(tmp_path / "run.json") in report.manifests
    assert report.runs[0]["summary"]["groups"] > 1
    cost = (tmp_path / "report" / "tables" / "cost.md").read_text()
    assert "| train | 1.5 | 2.5 |" in cost
    named = {"identity": {"config": {"train": {"recipe": "../recipes/mine.yaml"}}}}
    (tmp_path / "run.json").write_text(json.dumps(named))
    found = find([str(tmp_path)])
    assert list(found.evaluated) == ["reference", "mine"] and list(found.metrics) == ["mine"]


def test_one_program_and_ragged_rows_with_faults_make_a_report(tmp_path):
    one = trajectories(tmp_path / "one_eval.jsonl", tasks=1, samples=1, turns=1)
    assert build([str(one)], tmp_path / "one").comparison is None
    ragged = trajectories(tmp_path / "ragged_eval.jsonl", tasks=4, samples=2, turns=3)
    rows = [row for _, row in read_rows(ragged)]
    rows[0]["all_pass_rates"][0][1], rows[0]["exec_status"][0] = None, ["ok", "infra_error", "ok"]
    for name in ("all_pass_rates", "exec_status", "hidden_test_status"):
        rows[1][name] = [rows[1][name][0], rows[1][name][1][:1]]
    write_jsonl(ragged, rows)
    report = build([str(ragged)], tmp_path / "ragged")
    assert report.notes == ["Programs without a verdict, masked everywhere: ragged 1."]
    assert report.runs[0]["summary"]["pass_at_k_ci95"]["2"][1] == [None, None]


def test_tables_in_both_languages(tmp_path):
    table = Table("t_x", "Rates, 50 % & more", ["run", "a|b"], [["x_1", "<0.5 ± 1"]], "Note.")
    assert table.markdown() == (
        "**Rates, 50 % & more**\n\n| run | a\\|b |\n| --- | ---: |\n| x_1 | <0.5 ± 1 |\n\nNote.\n"
    )
    latex = table.latex()
    assert r"x\_1 & $<$0.5 $\pm$ 1 \\" in latex and r"\caption{Rates, 50 \% \& more. Note.}" in latex
    assert r"\label{tab:t-x}" in latex and latex.count(r"\begin") == latex.count(r"\end") == 2


def test_difficulties_go_from_easy_to_hard(made):
    _, _, report = made
    assert list(report.runs[0]["summary"]["by_difficulty"]) == ["easy", "medium", "hard"]
    assert [row[1] for row in tables.parts(report.runs[:1]).rows] == [
        "easy",
        "medium",
        "hard",
        "functional",
        "stdin",
    ]


def test_texts_cannot_leave_their_script():
    value = {"x": "</script><b>\u2028\ud800 ä"}
    assert "<" not in encode(value) and "\u2028" not in encode(value)
    encode(value).encode("utf-8")
    assert json.loads(encode(value)) == value


def test_line_operations_rebuild_the_program():
    old, new = "a\nb\nc\nd", "a\nx\ny\nd\ne"
    built = []
    for tag, i1, i2, j1, j2 in operations(old, new):
        built += old.split("\n")[i1:i2] if tag == "e" else new.split("\n")[j1:j2]
    assert "\n".join(built) == new


def test_rows_with_only_what_is_required_can_be_looked_at(tmp_path):
    row = {"id": 0, "all_pass_rates": [[None, 1.0]], "conversations": [[
        {"role": "system", "content": "s"}, {"role": "user", "content": "u"},
        {"role": "assistant", "content": None}, {"role": "user", "content": "f"},
        {"role": "assistant", "content": "x\n```\n1\n```\ny"},
    ]]}  # fmt: skip
    first, second = task_chunk(row, {})["samples"][0]
    assert first == {"c": None, "r": None, "f": "f"}
    assert second == {"c": 0, "r": 1.0, "x": "x\ny"}
    write_jsonl(tmp_path / "bare_eval.jsonl", [{k: v for k, v in row.items() if k != "conversations"}])
    report = build([str(tmp_path / "bare_eval.jsonl")], tmp_path / "report")
    assert report.runs[0]["summary"]["pass_at_1"] == [None, 1.0]
    assert subprocess.run(["test", "-s", str(tmp_path / "report" / "index.html")]).returncode == 0
