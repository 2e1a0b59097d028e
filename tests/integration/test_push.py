"""`cobalt push`: the folder and its card, and the upload to a stand-in of the hub's HTTP interface."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from data_rows import lcb, task
from hub_server import hub, writable_hub
from report_data import evaluated, trajectories

from cobalt.errors import InputError
from cobalt.evaluation.evaluated_rows import EvaluatedRun
from cobalt.evaluation.format import rate, shown
from cobalt.evaluation.summary import summarize
from cobalt.integrations.push import main
from cobalt.manifest import read_manifest, write_manifest
from cobalt.output import write_jsonl
from cobalt.rows import open_rows
from cobalt.run.folder import RUN_FILE

ROOT = Path(__file__).parents[2]
TOKEN, WRONG = "hf_" + "a" * 34, "hf_" + "b" * 34
MODEL = ROOT / "models" / "tiny-reference"


def push(folder, *arguments, hub=None, token=TOKEN):
    """(exit code, stdout, stderr) of the command in a process of its own (HF_ENDPOINT is read once)."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    env |= {"HF_HOME": str(folder / "hf"), "PYTHONPATH": str(ROOT), "HF_HUB_DISABLE_XET": "1"}
    env |= {"HF_ENDPOINT": hub.address} if hub else {}
    env |= {"HF_TOKEN": token} if token else {}
    command = [sys.executable, "-m", "cobalt", "push", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, timeout=120)
    return done.returncode, done.stdout, done.stderr


def head(card):
    return yaml.safe_load(card.split("---\n")[1])


def no_token_in(folder):
    files = [each for each in folder.rglob("*") if each.is_file() and "hf" not in each.parts]
    return not [each for each in files if TOKEN.encode() in each.read_bytes()]


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))


@pytest.mark.slow
def test_rows_are_uploaded_and_read_back(tmp_path, capsys):
    write_jsonl("tasks.jsonl", [task(i) for i in range(30)])
    write_jsonl("dev.jsonl", [task(i) for i in range(30, 40)])
    command = ("train=tasks.jsonl", "dev.jsonl", "--repo", "ann/sums", "--license", "mit")
    with writable_hub({TOKEN: "ann"}) as there:
        assert main(list(command)) == 0 and "nothing was sent" in capsys.readouterr().out
        folder = tmp_path / "outputs" / "push" / "ann" / "sums"
        before = {each.name: each.read_bytes() for each in folder.iterdir()}
        there.breaks.append("/commit/")
        code, _, error = push(tmp_path, *command, "--really", hub=there)
        assert code == 1 and "broken off" in error and there.files == {("dataset", "ann/sums"): {}}
        sent = list(there.sent)
        code, said, error = push(tmp_path, *command, "--really", hub=there)
        assert code == 0 and "uploaded: " in said and "(private)" in said, error
        assert there.sent == sent and sent  # what had arrived is not sent again
        assert there.files["dataset", "ann/sums"] == before  # as the dry run had written it

        # The repository is there, with a file of somebody's: a commit is added, nothing is sent twice.
        there.files["dataset", "ann/sums"]["notes.txt"] = b"mine"
        code, said, error = push(tmp_path, *command, "--really", "--public", hub=there)
        assert code == 0 and "stay: notes.txt" in said and "(private)" in said and there.sent == sent, error
    assert no_token_in(tmp_path) and TOKEN not in said + error
    with hub({"ann/sums": folder}) as (address, _):
        env = os.environ | {
            "HF_ENDPOINT": address,
            "HF_HOME": str(tmp_path / "other"),
            "PYTHONPATH": str(ROOT),
        }
        probe = "from cobalt.rows import open_rows; print([r['id'] for _, r in open_rows('ann/sums:dev')])"
        env = {name: value for name, value in env.items() if name != "HF_HUB_OFFLINE"}
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, env=env)
    assert done.stdout.strip() == str([row["id"] for _, row in open_rows("dev.jsonl")]), done.stderr


@pytest.mark.slow
def test_a_model_whose_upload_breaks_is_continued(tmp_path):
    command = (MODEL, "--repo", "ann/tiny", "--really")
    with writable_hub({TOKEN: "ann"}) as there:
        large = sorted(each for each in MODEL.iterdir() if each.stat().st_size > there.LARGE)
        assert len(large) > 2
        there.breaks.append("/store/")
        code, _, error = push(tmp_path, *command, hub=there)
        assert code == 1 and "broken off" in error and "run the same command again" in error
        assert there.files["model", "ann/tiny"] == {}
        code, _, error = push(tmp_path, *command, hub=there)
        assert code == 0, error
        found = there.files["model", "ann/tiny"]
        assert len(there.sent) == len(set(there.sent))
    assert found["model.safetensors"] == (MODEL / "model.safetensors").read_bytes()
    assert set(found) == {each.name for each in MODEL.iterdir()} and b"## Limits" in found["README.md"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "token", "said"),
    [
        (["--repo", "ann/sums"], WRONG, "does not take the token"),
        (["--repo", "bob/sums"], TOKEN, "the token may not write there"),
        (["--repo", "ann/sums", "--license", "none at all"], TOKEN, '"license" must be one of a list'),
    ],
)
def test_what_the_hub_refuses(tmp_path, arguments, token, said):
    write_jsonl("tasks.jsonl", [task(0)])
    with writable_hub({TOKEN: "ann"}) as there:
        found, _, error = push(tmp_path, "tasks.jsonl", *arguments, "--really", hub=there, token=token)
    assert (found, len(error.splitlines())) == (2, 1) and said in error, error
    assert TOKEN not in error and WRONG not in error and no_token_in(tmp_path)
    assert all(not files for files in there.files.values())


def test_an_absent_hub_is_no_refusal(tmp_path):
    write_jsonl("tasks.jsonl", [task(0)])

    class Gone:
        address = "http://127.0.0.1:9"

    code, _, error = push(tmp_path, "tasks.jsonl", "--repo", "ann/sums", "--really", hub=Gone)
    assert code == 1 and "broken off" in error and "run the same command again" in error


def test_the_card_of_evaluated_rows(tmp_path):
    file = trajectories(tmp_path / "mine_eval.jsonl", tasks=12, samples=2, turns=3)
    secret = {"stage": "rollouts", "model": "/home/ann/models/mine", "api_key": "sk-1"}
    write_manifest(file, settings=secret, inputs={}, counts={"rows": 12})
    assert main([str(file), "--repo", "ann/mine"]) == 0
    card = Path("outputs/push/ann/mine/README.md").read_text()
    assert head(card)["configs"][0]["data_files"] == [{"split": "train", "path": "train.jsonl"}]
    assert head(card)["pretty_name"] == "mine" and "license" not in head(card)
    assert "model `mine`" in card and "/home/ann" not in card and "sk-1" not in card and "rows `12`" in card
    assert "| `all_pass_rates` | list of list of number or null, [S][T] |" in card
    found = summarize(list(EvaluatedRun.read("mine", file).outcomes.values()))
    assert f"| 12 x 2 | {' | '.join(map(rate, found['pass_at_1'], shown(found)))} |" in card
    assert "wrong on purpose" in card and "No licence was named" in card
    assert (read_manifest("outputs/push/ann/mine") or {})["settings"]["kind"] == "dataset"


def test_the_card_of_a_model_has_the_figures_of_its_run(tmp_path):
    run = tmp_path / "run"
    (run / "train").mkdir(parents=True)
    (run / "train" / "model").symlink_to(MODEL)
    (run / RUN_FILE).write_text("{}")
    for name, rates in (("reference", [0.2, 0.3]), ("cobalt", [0.3, 0.8])):
        evaluated(run / "evaluate" / f"{name}_eval.jsonl", rates, n=6)
    assert main([str(run / "train"), "--repo", "ann/mine", "--out", "folder"]) == 0
    card = Path("folder/README.md").read_text()
    (index,) = head(card)["model-index"]
    metrics = [metric for each in index["results"] for metric in each["metrics"]]
    assert index["name"] == "mine" and len(metrics) == 2  # of the trained model alone
    assert "A Qwen3 of 436,608 parameters" in card and head(card)["license"] == "mit"
    assert "| reference | reference_eval.jsonl | 6 x 2 |" in card and "[cannot tell]" in card
    assert "trained: 6 tasks: too few to tell" in card
    assert Path("folder/model.safetensors").stat().st_size == (MODEL / "model.safetensors").stat().st_size


def lcb_task():
    return task(0) | {"contest_id": "1", "contest_date": "2025-01-01T00:00:00"}


@pytest.mark.parametrize(
    ("rows", "arguments", "said"),
    [
        ([task(0)], ["--really", "--out", "kept"], "no token; set HF_TOKEN"),
        ([task(0)], ["--repo", "sums"], "--repo sums: must be OWNER/NAME"),
        ([task(0)], ["--eval", "mine_eval.jsonl"], "--eval: only the card of a model"),
        ([task(0), task(0)], [], "occurs twice"),
        ([task(0) | {"difficulty": 3}], [], "rows.jsonl:1: field 'difficulty'"),
        ([], [], "rows.jsonl holds no rows"),
        ([{"what": 1}], [], "rows.jsonl:1: no kind of row"),
        (
            [task(0), task(1) | {"question": f"my key is {TOKEN}"}],
            [],
            "rows.jsonl:2: this holds what looks like",
        ),
        ([lcb_task()], ["--public"], "--public: rows of LiveCodeBench"),
        ([lcb("a")], ["--public"], "--public: rows of LiveCodeBench"),
        ([task(0)], ["--out", "taken"], "--out taken: there is something else"),
        ([task(0)], ["more.jsonl"], "more.jsonl: training examples"),
        ([task(0)], ["again=rows.jsonl", "again=rows.jsonl"], "given twice"),
        ([task(0)], ["absent.jsonl"], "absent.jsonl"),
    ],
)
def test_what_cannot_be_pushed(rows, arguments, said, capsys):
    write_jsonl("rows.jsonl", rows)
    example = {"data_source": "x", "prompt": [{"role": "user", "content": "x"}], "ability": "code",
               "reward_model": {"style": "rule", "ground_truth": '{"inputs": ["1"], "outputs": ["1"]}'},
               "extra_info": {"split": "train", "index": 0}}  # fmt: skip
    write_jsonl("more.jsonl", [example])
    Path("taken").mkdir()
    Path("taken/mine.txt").write_text("not to be lost")
    with pytest.raises(InputError) as error:
        main(["rows.jsonl", *arguments, *([] if "--repo" in arguments else ["--repo", "ann/sums"])])
    assert said in str(error.value) and TOKEN not in str(error.value)
    assert not Path("outputs").exists() and Path("taken/mine.txt").exists()


def test_what_was_pushed_is_not_its_own_source(tmp_path):
    write_jsonl("rows.jsonl", [task(0)])
    assert main(["rows.jsonl", "--repo", "ann/sums", "--out", "made"]) == 0
    assert main(["rows.jsonl", "--repo", "ann/sums", "--out", "made"]) == 0  # again
    with pytest.raises(InputError, match="--out made: there is something else"):
        main(["made", "--repo", "ann/sums", "--out", "made"])
    assert Path("made/train.jsonl").exists()


@pytest.mark.parametrize("what", [".", "run"])
def test_a_folder_of_something_else(what, tmp_path):
    (tmp_path / "run").mkdir()
    write_jsonl(tmp_path / "run" / "results.json", [{}])
    (tmp_path / "run" / RUN_FILE).write_text(json.dumps({}))
    with pytest.raises(InputError, match="neither a model nor a folder of rows"):
        main([what, "--repo", "ann/sums"])
