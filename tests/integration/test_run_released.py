"""Runs that start from released tasks, perturbed tasks and trajectories: layouts, skips, refusals."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import doors
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hub_server import hub

from cobalt.contexts.build import main as contexts
from cobalt.errors import InputError
from cobalt.run.cli import main
from cobalt.tasks.perturb import main as perturbation

ROOT = Path(__file__).parents[2]
MADE = ROOT / "examples" / "released"
CONFIG = f"""
name: released
tasks: {{family: files, train_file: tasks, dev_file: tasks}}
model: {{path: {ROOT / "models" / "tiny-reference"}}}
collect: {{samples: 4, trajectories: trajectories, dev_trajectories: trajectories}}
contexts: {{validation: trajectories, max_prompt_tokens: 320}}
evaluate: {{sets: [{{name: dev, source: dev}}, {{name: ptb, source: ptb, kind: perturbed}}]}}
perturb: {{source: ptb, samples: 2, limit: null}}
"""


def rows(path):
    return [json.loads(text) for text in path.open(encoding="utf-8")]


def put(path, found):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in found))


@pytest.fixture
def released(tmp_path):
    """The made files, and a configuration beside them."""
    shutil.copytree(MADE, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "released.yaml"
    path.write_text(CONFIG)
    return path


def cobalt(*words, folder, **variables):
    return subprocess.run(
        [sys.executable, "-m", "cobalt", *map(str, words)],
        cwd=folder, capture_output=True, text=True, timeout=600,
        env={name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"} | variables
        if variables else None,
    )  # fmt: skip


def test_a_run_from_released_files_to_training_data(released, capsys):
    """As typed: nothing is collected; both sets of contexts are the door's."""
    folder = released.parent
    assert main([str(released), "--out", str(folder / "out"), "--dry_run"]) == 0  # put together in verl, too
    dry = capsys.readouterr().out
    for given in ("trajectories", "dev_trajectories"):
        assert dry.count(f"skipped: collect.{given} is given") == 3
    doors.run("-m", "cobalt", "run", released.name, "--out", "out", "--until", "parquet", cwd=folder)
    out = folder / "out"
    assert sorted(path.stem for path in (out / "stages").glob("*.json")) == ["contexts", "data", "parquet"]
    model = ["--model_name", ROOT / "models" / "tiny-reference", "--max_prompt_tokens", "320"]
    for split, flags in (("train", []), ("validation", ["--is_test"])):
        source, made = MADE / "trajectories" / f"{split}.jsonl", folder / f"door_{split}.jsonl"
        assert contexts(["-i", str(source), "-o", str(made), *map(str, model), *flags]) in (0, None)
        assert rows(out / "contexts" / f"{split}.jsonl") == rows(made)
    kept = pq.read_table(out / "parquet" / "test.parquet").to_pylist()
    assert len(kept) == len(rows(out / "contexts" / "validation.jsonl"))
    # One trajectory of a task at most: its programs are the same wherever they are shown.
    shown = {}
    for row in kept:
        programs = [message["content"] for message in row["conversation"][2::2]]
        longest = shown.setdefault(row["example_id"], programs)
        shown[row["example_id"]] = max(longest, programs, key=len)
        assert programs[: len(longest)] == longest[: len(programs)]
    assert max(map(len, shown.values())) > 0


def test_released_trajectories_that_are_not_there_are_said(tmp_path):
    name, said = "configs/qwen3-8b-released.yaml", "data/released/qwen3-8b, which does not exist"
    words = ["-m", "cobalt", "run", name, "--out", tmp_path / "x"]
    assert f"{said}: download" in doors.run(*words, "--dry_run", cwd=ROOT, code=1).stdout
    real = doors.run(*words, cwd=ROOT, code=2)
    assert said in real.stderr and len(real.stderr.splitlines()) == 1 and not (tmp_path / "x").exists()


def test_layouts_of_task_files(released, tmp_path):
    """Shards in a folder as on the hub, with the split named; an array in a file."""
    train, dev = (rows(MADE / "tasks" / f"{split}.jsonl") for split in ("train", "validation"))
    (data := tmp_path / "parquet" / "data").mkdir(parents=True)
    for number, found in enumerate((train[:9], train[9:])):
        pq.write_table(pa.Table.from_pylist(found), data / f"train-0000{number}-of-00002.parquet")
    (tmp_path / "dev.json").write_text(json.dumps(dev, indent=1))
    flags = ["--set", "tasks.train_file=parquet:train", "--set", "tasks.dev_file=dev.json", "--until", "data"]
    assert main([str(released), "--out", str(out := tmp_path / "out"), *flags]) == 0
    assert (rows(out / "tasks" / "train.jsonl"), rows(out / "tasks" / "dev.jsonl")) == (train, dev)


def test_few_columns_are_enough(released, tmp_path):
    """The columns of the published filter alone, and dialogues without what only later scripts read."""
    columns = {
        "tasks": ("id", "question", "test_cases"),
        "trajectories": ("id", "public_test_cases", "hidden_test_cases", "conversations",
                         "public_pass_rates", "all_pass_rates"),
    }  # fmt: skip
    for folder, names in columns.items():
        for path in (tmp_path / folder).glob("*.jsonl"):
            put(path, [{name: row[name] for name in names} for row in rows(path)])
    assert main([str(released), "--out", str(tmp_path / "out"), "--until", "parquet"]) == 0
    first = rows(tmp_path / "out" / "tasks" / "train.jsonl")[0]
    assert len(json.loads(first["public_test_cases"])["inputs"]) == 4 and first["difficulty"] == "UNKNOWN"
    assert rows(tmp_path / "out" / "contexts" / "train.jsonl")[0]["difficulty"] == "UNKNOWN"


def changed(name, number, **fields):
    """Spoils a row of a file: other fields, ... for none."""

    def spoil(folder):
        found = rows(folder / name)
        found[number] = {key: value for key, value in (found[number] | fields).items() if value is not ...}
        put(folder / name, found)

    return spoil


def several(folder):
    shutil.copy(folder / "trajectories" / "train.jsonl", folder / "trajectories" / "r1.jsonl")
    (folder / "trajectories" / "train.jsonl").rename(folder / "trajectories" / "qwen.jsonl")
    (folder / "trajectories" / "validation.jsonl").unlink()


def held(kind, number=2):
    """Puts a development task among the training tasks."""

    def spoil(folder):
        train, dev = (folder / kind / f"{split}.jsonl" for split in ("train", "validation"))
        put(train, [*rows(train), rows(dev)[number] | {"id": 99}])

    return spoil


TASKS, DEV, DIALOGUES = "tasks/train.jsonl", "tasks/validation.jsonl", "trajectories/train.jsonl"
NONE = '{"inputs": [], "outputs": []}'
BAD = [
    (changed(TASKS, 3, instruction=..., question=...), r"train\.jsonl:4: field 'instruction' is missing"),
    (changed(TASKS, 0, hidden_test_cases=..., test_cases=NONE), r"jsonl:1: field 'public_test_cases' holds"),
    (lambda folder: put(folder / DEV, []), "validation|no tasks|no rows"),
    (changed(DEV, 1, id=0), r"validation\.jsonl:2: 'id' 0 occurs twice"),
    (changed(TASKS, 1, modified_test_cases="{}"), r"jsonl:2: field 'modified_test_cases': a perturbed task"),
    (
        changed("ptb/validation.jsonl", 4, modified_test_cases=...),
        r"ptb/validation.*:5: fields",
    ),
    (held("tasks"), r"train.*:17: field 'question': .*tasks/valid.*:3, .*tasks.overlap=drop"),
    (held("trajectories", 0), r"trajectories/train\.jsonl:17: field 'question': .*tasks/valid.*:1, "),
    (
        changed(DIALOGUES, 2, public_pass_rates=[[1.0] * 3] * 4),
        r"jsonl:3: public_pass_rates\[0\] has",
    ),
    (changed(DIALOGUES, 5, all_pass_rates=...), r"jsonl:6: field 'all_pass_rates' is missing: eval_multi"),
    (several, r"holds several files for 'dev': name one of them \(qwen\.jsonl, r1"),
    (
        lambda folder: shutil.rmtree(folder / "trajectories"),
        r"released\.yaml: .* trajectories .*, which",
    ),
]


@pytest.mark.parametrize(("spoil", "said"), BAD)
def test_bad_files_are_refused_before_anything_is_written(spoil, said, released, tmp_path):
    spoil(tmp_path)
    with pytest.raises(InputError, match=said) as error:
        main([str(released), "--out", str(tmp_path / "out"), "--until", "parquet"])
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


def test_what_is_in_both_splits_can_be_left_out(released, tmp_path):
    held("tasks")(tmp_path)
    held("trajectories", 0)(tmp_path)
    flags = ["--set", "tasks.overlap=drop", "--until", "parquet"]
    assert main([str(released), "--out", str(tmp_path / "out"), *flags]) == 0
    assert len(rows(tmp_path / "out" / "tasks" / "train.jsonl")) == 16
    assert json.loads((tmp_path / "out" / "stages" / "data.json").read_text())["facts"]["left_out"] == 1
    assert 99 not in {row["example_id"] for row in rows(tmp_path / "out" / "contexts" / "train.jsonl")}


def test_perturbed_tasks_are_not_perturbed_again(released, tmp_path):
    words = ["-i", str(tmp_path / "ptb" / "validation.jsonl"), "-o", str(tmp_path / "x.jsonl")]
    with pytest.raises(
        InputError, match=r"validation\.jsonl:1: field 'modified_test_cases': this task is pertur"
    ):
        perturbation(words)
    assert not (tmp_path / "x.jsonl").exists() and perturbation([*words, "--again"]) in (0, None)
    assert main([str(released), "--out", str(tmp_path / "out"), "--until", "data"]) == 0
    given, taken = rows(MADE / "ptb" / "validation.jsonl"), rows(tmp_path / "out" / "tasks" / "ptb.jsonl")
    assert shown(taken, "perturbed_public_test_cases") == shown(given, "public_test_cases")
    assert shown(taken, "modified_test_cases") == shown(given, "modified_test_cases")


def shown(found, name):
    return [row[name] for row in found]


@pytest.mark.full
def test_released_tasks_by_their_names_on_the_hub(tmp_path):
    """As `configs/*-released.yaml` name them: which split is which; what is cached needs no hub."""
    config = tmp_path / "hub.yaml"
    named = CONFIG.replace("_file: tasks", "_file: osunlp/TACO-Cobalt")
    named = named.replace("source: ptb", "source: osunlp/TACO-Cobalt-PTB")
    config.write_text(named.replace("trajectories: trajectories", "trajectories: null"))

    def run(out):
        words = ["run", config, "--out", out, "--until", "data"]
        return cobalt(*words, folder=tmp_path, HF_ENDPOINT=address, HF_HOME=str(tmp_path / "hf"))

    with hub({"osunlp/TACO-Cobalt": MADE / "tasks", "osunlp/TACO-Cobalt-PTB": MADE / "ptb"}) as (address, _):
        done = {"a": run("a")}
    done["b"] = run("b")
    for name, each in done.items():
        assert each.returncode == 0, each.stderr
        for split, theirs in (("train", "train"), ("dev", "validation")):
            given = rows(MADE / "tasks" / f"{theirs}.jsonl")
            assert rows(tmp_path / name / "tasks" / f"{split}.jsonl") == given


@pytest.mark.slow
@pytest.mark.full
def test_the_released_configuration_end_to_end_at_smoke_size(tmp_path):
    """It reads files of the released shape, trains, and the first turns of a model are sampled once."""
    name, out = "configs/r1-distill-llama-8b-released.yaml", tmp_path / "out"
    done = cobalt("run", name, "--smoke", "--out", out, folder=ROOT)
    assert done.returncode == 0, done.stderr
    made = rows(out / "perturb" / "tasks.jsonl")
    given = rows(MADE / "ptb" / "validation.jsonl")[:8]
    assert shown(made, "perturbed_public_test_cases") == shown(given, "public_test_cases")
    collected = {row["id"]: row["responses"] for row in rows(out / "collect" / "dev_single.jsonl")}
    for model in ("reference", "cobalt"):
        clean = {row["id"]: row["responses"] for row in rows(out / "evaluate" / f"{model}_eval.jsonl")}
        swapped = {row["id"]: row["responses"] for row in rows(out / "perturb" / f"{model}_eval.jsonl")}
        assert swapped == {key: clean[key] for key in swapped}
        if model == "reference":
            assert clean == {key: texts[:2] for key, texts in collected.items()}
    lines = sorted(len(rows(path)) for path in (out / "first_turns").glob("*.jsonl"))
    assert lines == [12 * 2, 12 * 4]  # the trained model's, and the reference's of the collection
