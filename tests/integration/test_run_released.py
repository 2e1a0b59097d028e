"""Runs that start from released tasks, perturbed tasks and trajectories: layouts, skips, refusals."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hub_server import hub

from cobalt.errors import InputError
from cobalt.run.cli import main

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


def test_a_run_from_released_files_to_training_data(released):
    """In its own process, as typed: nothing is collected; both sets of contexts are the door's."""
    folder = released.parent
    done = cobalt("run", released.name, "--out", "out", "--until", "parquet", folder=folder)
    assert done.returncode == 0, done.stderr
    out = folder / "out"
    assert sorted(path.stem for path in (out / "stages").glob("*.json")) == ["contexts", "data", "parquet"]
    for split, theirs, flags in (("train", "train", []), ("validation", "validation", ["--is_test"])):
        door = [
            ROOT / "preproc" / "process_multi_turn_taco.py",
            "-i",
            MADE / "trajectories" / f"{theirs}.jsonl",
        ]
        model = ["--model_name", ROOT / "models" / "tiny-reference", "--max_prompt_tokens", "320"]
        made = folder / f"door_{split}.jsonl"
        words = [sys.executable, *map(str, [*door, "-o", made, *model, *flags])]
        assert subprocess.run(words, capture_output=True, cwd=folder).returncode == 0
        assert rows(out / "contexts" / f"{split}.jsonl") == rows(made)
    kept = pq.read_table(out / "parquet" / "test.parquet").to_pylist()
    assert len(kept) == len(rows(out / "contexts" / "validation.jsonl"))
    assert max(len(row["conversation"]) for row in kept) > 2
    # One trajectory of a task at most: its programs are the same wherever they are shown.
    shown = {}
    for row in kept:
        programs = [message["content"] for message in row["conversation"][2::2]]
        longest = shown.setdefault(row["example_id"], programs)
        shown[row["example_id"]] = max(longest, programs, key=len)
        assert programs[: len(longest)] == longest[: len(programs)]

    again = cobalt("run", released.name, "--out", "out", "--until", "parquet", folder=folder)
    assert again.returncode == 0 and "nothing has changed" in again.stdout


def test_what_is_given_is_said_to_be_skipped(released):
    folder = released.parent
    both = cobalt("run", released.name, "--out", "out", "--dry_run", folder=folder)
    assert both.returncode == 0, both.stderr
    assert both.stdout.count("skipped: collect.trajectories is given") == 3
    assert both.stdout.count("skipped: collect.dev_trajectories is given") == 3
    assert not [line for line in both.stdout.splitlines() if line.split()[:2] == ["collect", "runs"]]
    name = "configs/qwen3-8b-released.yaml"
    plan = cobalt("plan", name, folder=ROOT)
    assert (
        plan.returncode == 0
        and "collect (training tasks): skipped (collect.trajectories is given)" in plan.stdout
    )
    dry = cobalt("run", name, "--out", folder / "x", "--dry_run", folder=ROOT)
    assert dry.returncode == 0 and "data/released/qwen3-8b, which does not exist: download" in dry.stdout
    real = cobalt("run", name, "--out", folder / "x", folder=ROOT)
    assert real.returncode == 2 and "data/released/qwen3-8b, which does not exist" in real.stderr
    assert len(real.stderr.splitlines()) == 1 and not (folder / "x").exists()


def parquet(path, found):
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(found), path)


def test_layouts_of_task_files(released, tmp_path):
    """A folder or a file, by whatever name of the splits, as JSON lines, an array, packed or Parquet."""
    train, dev = (rows(MADE / "tasks" / f"{split}.jsonl") for split in ("train", "validation"))
    places = {}
    for name, splits in (("array", ("train", "dev")), ("packed", ("train", "test")), ("parquet", ("", ""))):
        places[name] = tmp_path / name
        places[name].mkdir()
        for split, found in zip(splits, (train, dev), strict=True):
            if name == "array":
                (tmp_path / name / f"{split}.json").write_text(json.dumps(found, indent=1))
            elif name == "packed":
                text = "".join(json.dumps(row) + "\n" for row in found)
                (tmp_path / name / f"taco_{split}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    parquet(tmp_path / "parquet" / "data" / "train-00000-of-00002.parquet", train[:9])
    parquet(tmp_path / "parquet" / "data" / "train-00001-of-00002.parquet", train[9:])
    parquet(tmp_path / "parquet" / "data" / "validation-00000-of-00001.parquet", dev)
    places["split"] = None
    for name in places:
        files = {"train": name, "dev": name}
        if name == "split":
            files = {"train": "parquet:train", "dev": "array/dev.json"}
        settings = [f"tasks.{split}_file={file}" for split, file in files.items()]
        flags = [word for setting in settings for word in ("--set", setting)]
        assert main([str(released), "--out", str(tmp_path / f"out_{name}"), "--until", "data", *flags]) == 0
        assert rows(tmp_path / f"out_{name}" / "tasks" / "train.jsonl") == train
        assert rows(tmp_path / f"out_{name}" / "tasks" / "dev.jsonl") == dev


def test_few_columns_are_enough(released, tmp_path):
    """The columns of the published filter alone, and dialogues without what only later scripts read."""
    for split in ("train", "validation"):
        tasks, dialogues = tmp_path / "tasks" / f"{split}.jsonl", tmp_path / "trajectories" / f"{split}.jsonl"
        put(tasks, [{name: row[name] for name in ("id", "question", "test_cases")} for row in rows(tasks)])
        names = ("id", "public_test_cases", "hidden_test_cases", "conversations", "public_pass_rates",
                 "all_pass_rates")  # fmt: skip
        put(dialogues, [{name: row[name] for name in names} for row in rows(dialogues)])
    assert main([str(released), "--out", str(tmp_path / "out"), "--until", "parquet"]) == 0
    first = rows(tmp_path / "out" / "tasks" / "train.jsonl")[0]
    assert len(json.loads(first["public_test_cases"])["inputs"]) == 4 and first["difficulty"] == "UNKNOWN"
    assert rows(tmp_path / "out" / "contexts" / "train.jsonl")[0]["difficulty"] == "UNKNOWN"


def change(path, number, **fields):
    found = rows(path)
    found[number] = {name: value for name, value in (found[number] | fields).items() if value is not ...}
    put(path, found)


def several(folder):
    for name in ("qwen", "r1"):
        shutil.copy(folder / "trajectories" / "train.jsonl", folder / "trajectories" / f"{name}.jsonl")
    (folder / "trajectories" / "train.jsonl").unlink()
    (folder / "trajectories" / "validation.jsonl").unlink()


def inside(folder):
    found = rows(folder / "tasks" / "train.jsonl")
    put(
        folder / "tasks" / "train.jsonl",
        [*found, rows(folder / "tasks" / "validation.jsonl")[2] | {"id": 99}],
    )


def held_in_trajectories(folder):
    found, other = (rows(folder / "trajectories" / f"{name}.jsonl") for name in ("train", "validation"))
    put(folder / "trajectories" / "train.jsonl", [*found, other[0] | {"id": 99}])


NO_TESTS = '{"inputs": [], "outputs": []}'
BAD = {
    "a missing column": (
        lambda f: change(f / "tasks" / "train.jsonl", 3, instruction=..., question=...),
        r"tasks/train\.jsonl:4: field 'instruction' is missing",
    ),
    "tests that do not fit": (
        lambda f: change(f / "tasks" / "train.jsonl", 0, hidden_test_cases=..., test_cases=NO_TESTS),
        r"tasks/train\.jsonl:1: field 'public_test_cases' holds a test that 'test_cases' does not",
    ),
    "an empty split": (lambda f: put(f / "tasks" / "validation.jsonl", []), "validation|no tasks|no rows"),
    "a doubled id": (
        lambda f: change(f / "tasks" / "validation.jsonl", 1, id=0),
        r"validation\.jsonl:2: 'id' 0 occurs twice",
    ),
    "a perturbed task to train on": (
        lambda f: change(f / "tasks" / "train.jsonl", 1, modified_test_cases="{}"),
        r"train\.jsonl:2: field 'modified_test_cases': a perturbed task",
    ),
    "a plain task among perturbed ones": (
        lambda f: change(f / "ptb" / "validation.jsonl", 4, modified_test_cases=...),
        r"ptb/validation.*:5: fields 'modified_test_cases' and 'perturbed_public_test_cases' are missing",
    ),
    "development tasks inside training": (inside, r"train.*:17: field 'question': .*tasks/valid.*:3, "),
    "development tasks in trajectories": (
        held_in_trajectories, r"trajectories/train\.jsonl:17: field 'question': .*tasks/valid.*:1, ",
    ),
    "axes that do not fit": (
        lambda f: change(f / "trajectories" / "train.jsonl", 2, public_pass_rates=[[1.0] * 3] * 4),
        r"trajectories/train\.jsonl:3: public_pass_rates\[0\] has 3 rates for 4 samples",
    ),
    "trajectories without hidden tests": (
        lambda f: change(f / "trajectories" / "train.jsonl", 5, all_pass_rates=...),
        r"trajectories/train\.jsonl:6: field 'all_pass_rates' is missing: eval_multi_turn\.py",
    ),
    "trajectories of several models": (
        several, r"holds several files for 'dev': name one of them \(qwen\.jsonl, r1",
    ),
    "no such trajectories": (
        lambda f: shutil.rmtree(f / "trajectories"), r"released\.yaml: .* trajectories .*, which does not",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_bad_files_are_refused_before_anything_is_written(what, released, tmp_path):
    spoil, said = BAD[what]
    spoil(tmp_path)
    with pytest.raises(InputError, match=said) as error:
        main([str(released), "--out", str(tmp_path / "out"), "--until", "parquet"])
    assert "\n" not in str(error.value) and not (tmp_path / "out").exists()


def test_a_refusal_is_one_line_and_exit_code_2(released, tmp_path):
    inside(tmp_path)
    done = cobalt("run", "released.yaml", "--out", "out", folder=tmp_path)
    assert done.returncode == 2 and not (tmp_path / "out").exists()
    (line,) = done.stderr.splitlines()
    assert "train.jsonl:17: field 'question'" in line and "tasks.overlap=drop" in line
    flags = ["--set", "tasks.overlap=drop", "--until", "parquet"]
    held_in_trajectories(tmp_path)
    assert main([str(released), "--out", str(tmp_path / "out"), *flags]) == 0
    assert len(rows(tmp_path / "out" / "tasks" / "train.jsonl")) == 16
    assert json.loads((tmp_path / "out" / "stages" / "data.json").read_text())["facts"]["left_out"] == 1
    assert 99 not in {row["example_id"] for row in rows(tmp_path / "out" / "contexts" / "train.jsonl")}


def test_perturbed_tasks_are_not_perturbed_again(released, tmp_path):
    door = [
        "preproc/run_perturbation.py",
        "-i",
        tmp_path / "ptb" / "validation.jsonl",
        "-o",
        tmp_path / "x.jsonl",
    ]
    done = subprocess.run([sys.executable, *map(str, door)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2 and not (tmp_path / "x.jsonl").exists()
    assert "validation.jsonl:1: field 'modified_test_cases': this task is perturbed already" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert main([str(released), "--out", str(tmp_path / "out"), "--until", "data"]) == 0
    given, taken = rows(MADE / "ptb" / "validation.jsonl"), rows(tmp_path / "out" / "tasks" / "ptb.jsonl")
    assert [row["public_test_cases"] for row in given] == [
        row["perturbed_public_test_cases"] for row in taken
    ]
    assert [row["modified_test_cases"] for row in given] == [row["modified_test_cases"] for row in taken]
    done = subprocess.run([sys.executable, *map(str, [*door, "--again"])], cwd=ROOT, capture_output=True)
    assert done.returncode == 0


KINDS = {
    "tasks": ("tasks/train.jsonl", []),
    "perturbed tasks": ("ptb/validation.jsonl", []),
    "single-turn completions": ("trajectories/train.jsonl", [
        "raw_responses", "conversations", "public_pass_rates", "public_exec_results", "all_pass_rates",
    ]),
    "trajectories": ("trajectories/train.jsonl", ["all_pass_rates"]),
    "evaluated trajectories": ("trajectories/train.jsonl", []),
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_the_check_knows_files_of_published_columns(kind, tmp_path, capsys):
    from cobalt.data import main as data

    name, without = KINDS[kind]
    path = tmp_path / "x.jsonl"
    put(path, [{k: v for k, v in row.items() if k not in without} for row in rows(MADE / name)])
    assert data(["check", str(path)]) == 0
    said = capsys.readouterr().out
    assert f"rows, {kind}\n" in said and "not for" not in said and "other fields" not in said
    put(path, [{k: v for k, v in row.items() if k != "hidden_test_cases"} for row in rows(path)])
    assert data(["check", str(path)]) == 0
    said = capsys.readouterr().out
    unfit = [line for line in said.splitlines() if line.startswith("  not for ")]
    if kind == "evaluated trajectories":
        assert unfit == []
    else:
        assert unfit and all(line.endswith(f"{path}:1: 'hidden_test_cases' missing") for line in unfit)
        assert any("eval_multi_turn.py" in line for line in unfit)


@pytest.mark.slow
def test_released_tasks_by_their_names_on_the_hub(tmp_path):
    """As `configs/*-released.yaml` name them: which split is which; what is cached needs no hub."""
    sets = {"osunlp/TACO-Cobalt": MADE / "tasks", "osunlp/TACO-Cobalt-PTB": MADE / "ptb"}
    config = tmp_path / "hub.yaml"
    named = CONFIG.replace("_file: tasks", "_file: osunlp/TACO-Cobalt").replace(
        "source: ptb", "source: osunlp/TACO-Cobalt-PTB"
    )
    config.write_text(named.replace("trajectories: trajectories", "trajectories: null"))
    home = str(tmp_path / "hf")
    with hub(sets) as (address, _):
        first = cobalt(
            "run", config, "--out", "a", "--until", "data", folder=tmp_path, HF_ENDPOINT=address, HF_HOME=home
        )
    again = cobalt(
        "run", config, "--out", "b", "--until", "data", folder=tmp_path, HF_ENDPOINT=address, HF_HOME=home
    )
    for done, name in ((first, "a"), (again, "b")):
        assert done.returncode == 0, done.stderr
        made = tmp_path / name / "tasks"
        assert rows(made / "train.jsonl") == rows(MADE / "tasks" / "train.jsonl")
        assert rows(made / "dev.jsonl") == rows(MADE / "tasks" / "validation.jsonl")
        assert len(rows(made / "ptb.jsonl")) == len(rows(MADE / "ptb" / "validation.jsonl"))
    nothing = cobalt(
        "run", config, "--out", "c", folder=tmp_path, HF_ENDPOINT=address, HF_HOME=str(tmp_path / "no")
    )
    assert nothing.returncode == 2 and len(nothing.stderr.splitlines()) == 1 and not (tmp_path / "c").exists()
    assert f"cannot reach {address} for the data set osunlp/TACO-Cobalt" in nothing.stderr


@pytest.mark.slow
@pytest.mark.full
def test_the_released_configuration_end_to_end_at_smoke_size(tmp_path):
    """It reads files of the released shape, trains, and the first turns of a model are sampled once."""
    done = cobalt(
        "run", "configs/r1-distill-llama-8b-released.yaml", "--smoke", "--out", tmp_path / "out", folder=ROOT
    )
    assert done.returncode == 0, done.stderr
    out = tmp_path / "out"
    given, made = rows(MADE / "ptb" / "validation.jsonl"), rows(out / "perturb" / "tasks.jsonl")
    assert [row["public_test_cases"] for row in given[:8]] == [
        row["perturbed_public_test_cases"] for row in made
    ]
    collected = {row["id"]: row["responses"] for row in rows(out / "collect" / "dev_single.jsonl")}
    for model in ("reference", "cobalt"):
        clean = {row["id"]: row["responses"] for row in rows(out / "evaluate" / f"{model}_eval.jsonl")}
        swapped = {row["id"]: row["responses"] for row in rows(out / "perturb" / f"{model}_eval.jsonl")}
        assert swapped == {key: clean[key] for key in swapped}
        if model == "reference":
            assert clean == {key: texts[:2] for key, texts in collected.items()}
    lines = sorted(len(rows(path)) for path in (out / "first_turns").glob("*.jsonl"))
    assert lines == [12 * 2, 12 * 4]  # the trained model's, and the reference's of the collection
