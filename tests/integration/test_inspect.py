"""`cobalt inspect`: the log by its format, by inspect_ai's own reader, and in its viewer."""

import json
import socket
import subprocess
import time
import urllib.request
import zipfile
from contextlib import contextmanager

import pytest
from chromium import IN_CHROMIUM
from foreign_env import python_of, run_in
from report_data import evaluated, trajectories

from cobalt.errors import InputError
from cobalt.evaluation.evaluated_rows import EvaluatedRun
from cobalt.evaluation.format import rate, shown
from cobalt.evaluation.summary import summarize
from cobalt.integrations.inspect import main
from cobalt.manifest import write_manifest
from cobalt.output import write_jsonl
from cobalt.rows import read_rows


def rows_of(path):
    return [row for _, row in read_rows(path)]


def members(log):
    with zipfile.ZipFile(log) as archive:
        return {name: json.loads(archive.read(name)) for name in archive.namelist()}


def test_the_log_says_what_the_rows_do(tmp_path, capsys):
    file = trajectories(tmp_path / "mine_eval.jsonl", tasks=12, samples=2, turns=3)
    write_manifest(file, settings={"model": "owner/mine"}, inputs={}, counts={})
    assert main([str(file)]) == 0
    found, rows = members(tmp_path / "mine_eval.eval"), rows_of(file)
    statistics = summarize(list(EvaluatedRun.read("mine", file).outcomes.values()))
    assert ", ".join(map(rate, statistics["pass_at_1"], shown(statistics))) in capsys.readouterr().out
    header = found["header.json"]
    assert (header["eval"]["model"], header["eval"]["config"]["epochs"]) == ("owner/mine", 2)
    for turn, score in enumerate(header["results"]["scores"]):
        values = {name: each["value"] for name, each in score["metrics"].items()}
        lo, hi = shown(statistics)[turn]
        wanted = {"pass_at_1": statistics["pass_at_1"][turn], "stderr": statistics["se"][turn]}
        assert values == wanted | {"ci95_low": lo, "ci95_high": hi} and score["name"] == f"turn_{turn + 1}"
    for row in rows:
        for s, dialogue in enumerate(row["conversations"]):
            sample = found[f"samples/{row['id']}_epoch_{s + 1}.json"]
            assert sample["messages"] == dialogue and sample["input"] == dialogue[:2]
            marks = [sample["scores"][f"turn_{t + 1}"] for t in range(3)]
            assert [each["value"] for each in marks] == ["IC"[r == 1] for r in row["all_pass_rates"][s]]
            assert [each["metadata"]["public_pass_rate"] for each in marks] == [
                turn[s] for turn in row["public_pass_rates"]
            ]
            assert sample["output"]["usage"]["output_tokens"] == 270
    assert [(each["id"], each["epoch"]) for each in found["summaries.json"][:2]] == [
        ("task-000", 1),
        ("task-000", 2),
    ]


@pytest.mark.parametrize(
    ("change", "marks"),
    [
        ({"all_pass_rates": [[None, 1.0]], "exec_status": [["infra_error", "ok"]]}, {"turn_2": "C"}),
        (
            {"all_pass_rates": [[1.0]], "exec_status": [["ok"]], "stopped_when_passed": [True]},
            {"turn_1": "C"},
        ),
    ],
)
def test_a_program_without_a_verdict_and_a_dialogue_that_ended(tmp_path, change, marks):
    file = evaluated(tmp_path / "a.jsonl", [0.5, 0.5], n=1, samples=1)
    (row,) = rows_of(file)
    turns = len(change["all_pass_rates"][0])
    row["conversations"] = [row["conversations"][0][: 2 + 2 * turns]]
    write_jsonl(file, [row | change])
    assert main([str(file), "--out", str(tmp_path / "b.eval")]) == 0
    (sample,) = [each for name, each in members(tmp_path / "b.eval").items() if name.startswith("samples/")]
    assert {name: score["value"] for name, score in sample["scores"].items()} == marks


def test_first_programs_alone(tmp_path):
    write_jsonl(tmp_path / "first.jsonl", [first("a/1", "\ud800")])  # half a pair, which UTF-8 cannot hold
    assert main([str(tmp_path / "first.jsonl")]) == 0
    found = members(tmp_path / "first.eval")
    sample = found["samples/a/1_epoch_2.json"]
    assert [each["role"] for each in sample["messages"]] == ["user", "assistant"]
    assert (
        sample["scores"]["turn_1"]["answer"] == "print(?)" and sample["output"]["usage"]["input_tokens"] == 7
    )
    assert set(found["header.json"]["results"]["scores"][0]["metrics"]) == {
        "pass_at_1"
    }  # of one task no interval


def first(key, text="1"):
    return {
        "id": key, "instruction": "Print.", "responses": [f"```python\nprint({text})\n```"] * 2,
        "all_pass_rates": [[1.0], [0.5]], "exec_status": [["ok"], ["ok"]],
        "usage": [{"prompt_tokens": 7, "completion_tokens": 3}] * 2,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "arguments", "said"),
    [
        ([{"id": 1, "responses": ["x"]}], [], "a.jsonl:1: field 'all_pass_rates' is missing"),
        ([first(1), first(1)], [], "a.jsonl:2: id 1 occurs twice"),
        ([first(1), first("1")], [], "a.jsonl:2: 'id' '1' occurs twice"),
        (
            [first(1) | {"all_pass_rates": [[1.0]], "exec_status": [["ok"]]}],
            [],
            "a.jsonl:1: field 'all_pass_rates'",
        ),
        ([first(1) | {"all_pass_rates": [[2.0], [1.0]]}], [], "a.jsonl:1: all_pass_rates must hold shares"),
        ([], [], "there are no evaluated rows"),
        ([first(1)], ["--out", "log.txt"], "--out log.txt: the name of a log must end in .eval"),
    ],
)
def test_what_cannot_be_logged(tmp_path, monkeypatch, rows, arguments, said):
    monkeypatch.chdir(tmp_path)
    write_jsonl("a.jsonl", rows)
    with pytest.raises(InputError) as error:
        main(["a.jsonl", *arguments])
    assert said in str(error.value) and not list(tmp_path.glob("*.eval"))


READ = """
import json, sys
from inspect_ai.log import read_eval_log, read_eval_log_sample, read_eval_log_sample_summaries

for path in sys.argv[1:]:
    log = read_eval_log(path)
    last = log.results.scores[-1]
    one = read_eval_log_sample(path, log.samples[0].id, 1)
    print(json.dumps([
        log.status, log.eval.model, len(log.samples), len(read_eval_log_sample_summaries(path)),
        {name: each.value for name, each in last.metrics.items()}, [each.role for each in one.messages],
        {name: score.value for name, score in one.scores.items()},
    ]))
"""


@pytest.mark.full
@pytest.mark.slow
def test_its_own_reader_and_writer_take_the_log(tmp_path):
    file = trajectories(tmp_path / "mine.jsonl", tasks=12, samples=2, turns=3)
    write_jsonl(tmp_path / "first.jsonl", [first(f"a/{i}", "\ud800") for i in range(12)])
    assert main([str(file)]) == main([str(tmp_path / "first.jsonl")]) == 0
    said = run_in("inspect", "python", "-c", READ, "mine.eval", "first.eval", cwd=tmp_path)
    mine, single = map(json.loads, said.splitlines())
    assert mine[:4] == ["success", "models/mine", 24, 24] and single[:4] == ["success", "unknown", 24, 24]
    roles = ["system", "user", *["assistant", "user"] * 3]
    assert mine[5] == roles and set(mine[6]) == {"turn_1", "turn_2", "turn_3"}
    assert set(mine[4]) == {"pass_at_1", "stderr", "ci95_low", "ci95_high"} and single[4]["pass_at_1"] == 0.5
    run_in(
        "inspect",
        "inspect",
        "log",
        "convert",
        "mine.eval",
        "--to",
        "json",
        "--output-dir",
        "json",
        cwd=tmp_path,
    )
    assert len(json.loads((tmp_path / "json" / "mine.json").read_text())["samples"]) == 24


@contextmanager
def viewer(folder):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        python_of("inspect").parent / "inspect",
        "view",
        "start",
        "--log-dir",
        folder,
        "--port",
        str(port),
    ]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            for _ in range(120):
                try:
                    urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2).close()
                    break
                except OSError:
                    time.sleep(0.5)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()


@pytest.mark.full
class TestViewer:
    pytestmark = IN_CHROMIUM

    def test_it_shows_samples_scores_and_the_dialogue(self, tmp_path, browser):
        file = trajectories(tmp_path / "mine.jsonl", tasks=12, samples=2, turns=3)
        assert main([str(file)]) == 0
        (tmp_path / "mine.jsonl").rename(tmp_path / "rows")
        faults, page = [], browser.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        with viewer(tmp_path) as address:
            page.goto(f"{address}/#/logs/mine.eval")
            page.get_by_text("12 x 2 samples").wait_for()
            assert "ci95_low" in page.inner_text("body")
            page.goto(f"{address}/#/logs/mine.eval/samples/sample/task-001/2/messages")
            page.get_by_text("Here is the execution feedback", exact=False).first.wait_for()
        page.close()
        assert faults == []
