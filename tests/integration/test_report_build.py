"""The folder of a report: what is found, what is written, and what is refused."""

import asyncio
import json
import re
from statistics import fmean

import pytest
from report_data import LabelJudge, analysed, evaluated, trajectories

from cobalt.errors import InputError
from cobalt.evaluation.evaluate import summary_path
from cobalt.evaluation.judge import JudgeSettings, judge_file
from cobalt.evaluation.turn_errors import turn_errors
from cobalt.output import write_jsonl
from cobalt.report import build as command
from cobalt.report import render, search
from cobalt.report.build import build
from cobalt.report.inputs import find
from cobalt.report.tables import Table
from cobalt.report.trajectories import encode, operations, task_chunk
from cobalt.rows import read_rows


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    files = analysed(folder, tasks=8, samples=2, turns=3)
    build(files, folder / "report", seed=1)
    return folder, files


@pytest.fixture
def no_charts(monkeypatch):
    """For tests about folders: drawing takes most of the time."""
    monkeypatch.setattr(render, "figures", lambda *_: {})


def script(path):
    text = path.read_text(encoding="utf-8")
    return json.loads(text[re.search(r"\(((\"[^\"]*\"|\d+),)?", text).end() : text.rindex(")")])


def test_every_part_is_written_and_the_page_refers_to_nothing_else(made):
    report = made[0] / "report"
    figures = {path.name: path.read_text() for path in (report / "figures").iterdir()}
    assert set(figures) == {"pass_at_1.svg", "transitions.svg", "training.svg"}
    assert not any("var(--" in text for text in figures.values())
    listed = {
        "overview",
        "pass_at_1",
        "pass_at_k",
        "breakdown",
        "transitions",
        "comparison",
        "hacking",
        "verdicts",
    }
    assert {path.name for path in (report / "tables").iterdir()} == {f"{name}.md" for name in listed}
    page = (report / "index.html").read_text()
    assert not re.search(r"https?://(?!www\.w3\.org)", re.sub(r'"[^"]*\.org/[^"]*"', "", page))
    for address in re.findall(r'(?:href|src)="([^"#]+)"', page):
        assert address.startswith("data:") or (report / address).is_file(), address
    assert "default-src 'none'" in page
    assert not list(made[0].glob(".*"))


def test_figures_are_those_of_the_rows(made):
    folder, files = made
    found = json.loads((folder / "report" / "report.json").read_text())
    assert [run["name"] for run in found["runs"]] == ["reference", "cobalt"]
    for run, path in zip(found["runs"], files, strict=False):
        rates = [row["all_pass_rates"] for _, row in read_rows(path)]  # [task][sample][turn]
        by_turn = [fmean(sample[turn] == 1 for task in rates for sample in task) for turn in range(3)]
        assert run["summary"]["pass_at_1"] == pytest.approx(by_turn)
        assert list(run["summary"]["by_difficulty"]) == ["easy", "medium", "hard"]
        assert run["model"] == f"models/{run['name']}_eval"
        assert run["errors"]["cases"] == sum(row["cases"] for row in run["errors"]["turns"]) > 0
        assert sum(row["cases"] for row in run["judge"]["verdicts"].values()) == run["errors"]["cases"]
    last = found["comparison"]["comparisons"][-1]
    rates = [run["summary"]["pass_at_1"][-1] for run in found["runs"]]
    assert last["points"] == pytest.approx(100 * (rates[1] - rates[0])) and last["turn"] == 2
    assert f"cobalt {last['points']:+.1f} points" in (folder / "report" / "index.html").read_text()
    assert found["curves"]["cobalt"][0]["step"] == 1


def test_the_viewer_gets_every_trajectory(made):
    folder, files = made
    data = folder / "report" / "data"
    index, rows = script(data / "index.js"), [row for _, row in read_rows(files[1])]
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
                assert (len(shown["p"]), len(shown["h"])) == (3, 4)
                rate = mine[2 * task + sample][3][turn]
                assert (rate == 100) is (shown["r"] == 1) and abs(rate - 100 * shown["r"]) <= 1


@pytest.mark.parametrize("size", [1, 300, 10**6])
def test_the_texts_to_search_are_those_of_the_rows(made, tmp_path, monkeypatch, no_charts, size):
    monkeypatch.setattr(search, "_SIZE", size)
    build(made[1][:2], tmp_path / "report")
    folder, found = tmp_path / "report" / "data", []
    index, names = script(folder / "index.js"), {path.name for path in (folder / "search").iterdir()}
    assert names == {f"{number}.js" for number in range(index["texts"])}
    assert index["texts"] == 1 if size > 300 else index["texts"] > 1
    for number in range(index["texts"]):
        part = script(folder / "search" / f"{number}.js")
        lines = part["lines"].split("\n")
        assert len(set(lines)) == len(lines)
        texts = [
            {line for at, n in zip(each[::2], each[1::2], strict=True) for line in lines[at : at + n]}
            for each in part["texts"]
        ] + [set()]  # -1: none
        found += [[texts[n] for n in row] for row in part["rows"]]
    assert len(found) == len(index["rows"])
    for (run, task, sample, *_), texts in zip(index["rows"], found, strict=True):
        chunk = script(folder / f"r{run}" / "0" / f"{task}.js")
        turns = chunk["samples"][sample]
        told = [text for turn in turns for text in (chunk["codes"][turn["c"]], turn["f"] or None)]
        assert texts == [set(text.split("\n")) if text else set() for text in told]


def test_what_failed_public_tests_printed_and_whole_messages_are_kept(made):
    folder, files = made
    for task, (_, row) in enumerate(read_rows(files[1])):
        chunk = script(folder / "report" / "data" / "r1" / "0" / f"{task}.js")
        opening = row["conversations"][0][:2]
        assert [chunk["system"], chunk["user"]] == [message["content"] for message in opening]
        for sample, messages in enumerate(row["conversations"]):
            for turn, shown in enumerate(chunk["samples"][sample]):
                passing = row["public_exec_results"][turn][sample]["passing"]
                printed = [chunk["said"][n] if n >= 0 else None for n in shown.get("o", [])]
                assert printed == ([] if all(passing) else [None if ok else "<b>1</b>" for ok in passing])
                message = chunk["passed"] if shown["f"] is None else chunk["frame"] + shown["f"]
                assert message == messages[3 + 2 * turn]["content"]


def test_an_earlier_report_is_replaced_as_a_whole_and_nothing_else(made, tmp_path, no_charts):
    files, out = made[1], tmp_path / "report"
    out.mkdir()
    (out / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else than a report"):
        build(files[:1], out)
    (out / "thesis.txt").unlink()
    build(files[:1], out)
    (out / "data" / "left-over.js").write_text("old")
    assert command.main([*files[:2], "-o", str(out), "--title", "A & B"]) == 0
    page = (out / "index.html").read_text()
    assert not (out / "data" / "left-over.js").exists() and "<h1>A &amp; B</h1>" in page
    with pytest.raises(InputError, match="is a file"):
        build(files[:1], files[0])
    other = trajectories(tmp_path / "other.jsonl", tasks=3, samples=2, turns=3)
    torn = tmp_path / "torn.jsonl"
    torn.write_text(other.read_text()[:-40])
    for arguments, says in (
        ([files[0], str(other)], r"not about the same tasks: 5 only in reference"),
        ([str(torn)], r"torn\.jsonl:3: .*cut off"),
    ):
        with pytest.raises(InputError, match=says):
            build(arguments, out)
    assert (out / "index.html").read_text() == page and not list(tmp_path.glob(".*"))


def test_what_is_found_and_refused(made, tmp_path):
    folder, files = made
    found = find(files)
    names = {"cobalt", "reference"}
    assert set(found.evaluated) == set(found.error_summaries) == set(found.judge_summaries) == names
    assert any(path.endswith("reference_eval.jsonl.manifest.json") for path in found.manifests)
    write_jsonl(tmp_path / "tasks.jsonl", [{"id": 1, "question": "?"}])
    for arguments, says in (
        ([files[-1]], "no evaluated rows"),
        ([files[0], files[4]], "not made from one of the evaluated files"),
        ([files[0], files[3]], "the turn errors it was made from are not given"),
        ([str(tmp_path / "tasks.jsonl")], r"tasks\.jsonl: its first row has the fields id, question"),
        ([str(folder)], r"no folder of a run \(it has no run.json\)"),
        (["nowhere.jsonl"], "cannot read"),
    ):
        with pytest.raises(InputError, match=says):
            find(arguments)


def test_models_that_bent_to_the_same_have_their_own_verdicts(tmp_path):
    """Files of turn errors, and of verdicts on them, that are equal byte for byte."""
    first = trajectories(tmp_path / "first_eval.jsonl", tasks=4, samples=2, turns=3)
    rows = [row | {"note": "another file"} for _, row in read_rows(first)]
    write_jsonl(tmp_path / "second_eval.jsonl", rows)
    files = [str(first), str(tmp_path / "second_eval.jsonl")]
    for name in ("first", "second"):
        errors, judged = (tmp_path / f"{name}_{kind}.jsonl" for kind in ("errors", "judged"))
        assert turn_errors(first, tmp_path / f"{name}_eval.jsonl", errors, seed=1)["cases"]
        asyncio.run(judge_file(errors, judged, LabelJudge(), JudgeSettings(votes=1)))
        files += [str(errors), str(judged)]
    found = find(files)
    assert set(found.error_summaries) == set(found.judge_summaries) == {"first", "second"}
    assert found.places["first"] == found.places["second"]
    judged = tmp_path / "third_judged.jsonl"
    asyncio.run(judge_file(tmp_path / "first_errors.jsonl", judged, LabelJudge(), JudgeSettings(votes=3)))
    with pytest.raises(InputError, match="or have others"):
        find([*files, str(judged)])


def test_a_run_that_bent_to_nothing_has_its_row(tmp_path, no_charts):
    honest = trajectories(tmp_path / "honest_eval.jsonl", tasks=3, samples=2, turns=2, bent=0.0)
    cases = tmp_path / "honest_errors.jsonl"
    turn_errors(honest, honest, cases)
    build([str(honest), str(cases)], tmp_path / "report")
    assert (
        "| all | 0 | 6 | 0.0 [cannot tell] |" in (tmp_path / "report" / "tables" / "hacking.md").read_text()
    )
    summary_path(cases).unlink()
    with pytest.raises(InputError, match=r"honest_errors\.jsonl: it has no rows"):
        find([str(honest), str(cases)])


def test_the_folder_of_a_whole_run(tmp_path, no_charts):
    for folder in ("evaluate", "train"):
        (tmp_path / folder).mkdir()
    for name in ("reference", "cobalt"):
        evaluated(tmp_path / "evaluate" / f"{name}_eval.jsonl", [0.2, 0.5], n=6)
    (tmp_path / "run.json").write_text('{"schema": 1}')
    write_jsonl(tmp_path / "train" / "metrics.jsonl", [{"step": 1, "reward/acc": 0.5}])
    report = build([str(tmp_path)], tmp_path / "report")
    assert [run["name"] for run in report["runs"]] == ["reference", "cobalt"]
    assert str(tmp_path / "run.json") in (tmp_path / "report" / "index.html").read_text()
    named = {"identity": {"config": {"train": {"recipe": "../recipes/mine.yaml"}}}}
    (tmp_path / "run.json").write_text(json.dumps(named))
    found = find([str(tmp_path)])
    assert list(found.evaluated) == ["reference", "mine"] and list(found.metrics) == ["mine"]


def test_one_program_ragged_rows_with_faults_and_bare_rows_make_a_report(tmp_path):
    one = trajectories(tmp_path / "one_eval.jsonl", tasks=1, samples=1, turns=1)
    assert build([str(one)], tmp_path / "one")["comparison"] is None
    ragged = trajectories(tmp_path / "ragged_eval.jsonl", tasks=4, samples=2, turns=3)
    rows = [row for _, row in read_rows(ragged)]
    rows[0]["all_pass_rates"][0][1], rows[0]["exec_status"][0] = None, ["ok", "infra_error", "ok"]
    for name in ("all_pass_rates", "exec_status", "hidden_test_status"):
        rows[1][name] = [rows[1][name][0], rows[1][name][1][:1]]
    write_jsonl(ragged, rows)
    report = build([str(ragged)], tmp_path / "ragged")
    few, faults = report["notes"]
    assert few.startswith("4 tasks: ") and faults.endswith("without a verdict, masked everywhere: ragged 1.")
    assert report["runs"][0]["summary"]["pass_at_k_ci95"]["2"][1] == [None, None]
    row = {"id": 0, "all_pass_rates": [[None, 1.0]], "conversations": [[
        {"role": "system", "content": "s"}, {"role": "user", "content": "u"},
        {"role": "assistant", "content": None}, {"role": "user", "content": "f"},
        {"role": "assistant", "content": "x\n```\n1\n```\ny"},
    ]]}  # fmt: skip
    first, second = task_chunk(row, {})["samples"][0]
    assert first == {"c": None, "r": None, "f": "f"} and second == {"c": 0, "r": 1.0, "x": "x\ny"}
    single = {"id": 0, "all_pass_rates": [[1.0]], "instruction": "u", "responses": ["x\n```\n1\n```"]}
    chunk = task_chunk(single, {})
    assert chunk["samples"] == [[{"c": 0, "r": 1.0, "x": "x"}]] and (chunk["codes"], chunk["user"]) == (
        ["1"],
        "u",
    )
    write_jsonl(tmp_path / "bare_eval.jsonl", [{k: v for k, v in row.items() if k != "conversations"}])
    report = build([str(tmp_path / "bare_eval.jsonl")], tmp_path / "report")
    assert report["runs"][0]["summary"]["pass_at_1"] == [None, 1.0]


def test_texts_cannot_leave_their_script_or_table_and_operations_rebuild_a_program():
    value = {"x": "</script><b>\u2028\ud800 ä"}
    assert "<" not in encode(value) and "\u2028" not in encode(value)
    assert json.loads(encode(value).encode("utf-8")) == value
    table = Table("t_x", "Rates, 50 %", ["run", "a|b"], [["x_1", "<0.5 ± 1"]], "Note.")
    assert (
        table.markdown()
        == "**Rates, 50 %**\n\n| run | a\\|b |\n| --- | ---: |\n| x_1 | <0.5 ± 1 |\n\nNote.\n"
    )
    old, new, built = "a\nb\nc\nd", "a\nx\ny\nd\ne", []
    for tag, i1, i2, j1, j2 in operations(old, new):
        built += old.split("\n")[i1:i2] if tag == "e" else new.split("\n")[j1:j2]
    assert "\n".join(built) == new
