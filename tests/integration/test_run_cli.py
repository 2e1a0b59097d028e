"""`cobalt run`: dry runs of every configuration, parts of a run, changes, tasks from files."""

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "unit"))
from data_rows import lcb, taco, write

from cobalt.errors import InputError, SettingsChanged
from cobalt.run.cli import main
from cobalt.run.config import load
from cobalt.tasks import tiny
from cobalt.tasks.submissions import write_tree

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
MODEL = f"model: {{path: {ROOT / 'models' / 'tiny-reference'}}}\n"


def written(folder: Path, text: str = "") -> Path:
    path = folder / "small.yaml"
    path.write_text("name: small\ntasks: {train: 6, dev: 4, heldout: 4}\n" + MODEL + text)
    return path


def run(config: Path, *flags: str) -> int:
    return main([str(config), "--out", str(config.parent / "out"), *flags])


@pytest.mark.parametrize(
    ("path", "flags"),
    [*((path, []) for path in CONFIGS), (ROOT / "configs" / "qwen3-8b.yaml", ["--smoke"])],
    ids=lambda value: value.stem if isinstance(value, Path) else "".join(value) or "whole",
)
def test_a_dry_run_of_every_configuration(path, flags, tmp_path, capsys):
    assert main([str(path), "--out", str(tmp_path / "out"), "--dry_run", *flags]) == 0
    said = capsys.readouterr().out
    stages = [line.split()[0] for line in said.splitlines() if " runs (" in line]
    if load(path).tasks.has_stored:  # nothing is sampled or run before the evaluation
        assert stages == ["data", "parquet", "train", "evaluate", "report"]
        assert ("not yet: " in said and "unpack Project CodeNet" in said) is ("codenet" in path.stem)
    else:
        assert stages[:7] == ["data", "collect", "repair", "judge", "contexts", "parquet", "train"]
        assert stages[-1] == "report" and {"evaluate", "perturb", "hack_analysis"} <= set(stages)
    assert "cost plan" in said and "GPU hours" in said and "disk" in said
    assert list(tmp_path.iterdir()) == []  # nothing was written


def test_a_dry_run_finds_a_wrong_override_of_verl(tmp_path):
    config = written(tmp_path, "train: {overrides: [actor_rollout_ref.actor.optim.lrr=1]}\n")
    with pytest.raises(InputError, match="lrr"):
        run(config, "--dry_run")


def test_parts_stale_inputs_and_changes(tmp_path, capsys):
    config = written(tmp_path)
    out = tmp_path / "out"
    with pytest.raises(
        InputError, match=r"collect builds on stage data, which must run first \(has not run yet"
    ):
        run(config, "--only", "collect")
    assert run(config, "--until", "tasks") == 0
    assert "Done: data." in capsys.readouterr().out
    train = out / "tasks" / "train.jsonl"
    assert len(train.read_text().splitlines()) == 6

    assert run(config, "--only", "data") == 0
    assert "What was asked for" in capsys.readouterr().out  # nothing to do
    train.write_text(train.read_text() + "\n")
    with pytest.raises(InputError, match=r"tasks/train\.jsonl was changed"):
        run(config, "--from", "collect", "--until", "judge")

    assert run(config, "--until", "data") == 0  # made again
    with pytest.raises(SettingsChanged, match=r"config\.tasks\.dev: 4 -> 5(.|\n)*--changed"):
        run(config, "--set", "tasks.dev=5", "--until", "data")
    assert run(config, "--set", "tasks.dev=5", "--dry_run", "--changed") == 0
    assert "runs (dev: 4 -> 5)" in capsys.readouterr().out
    assert run(config, "--set", "tasks.dev=5", "--until", "data", "--changed") == 0
    assert len((out / "tasks" / "dev.jsonl").read_text().splitlines()) == 5
    assert json.loads((out / "run.json").read_text())["identity"]["config"]["tasks"]["dev"] == 5


def test_runs_in_other_folders_take_over_what_is_equal(tmp_path, capsys):
    config, share = written(tmp_path), ["--share", str(tmp_path / "shared")]
    assert main([str(config), "--out", str(tmp_path / "a"), "--until", "data", *share]) == 0
    assert main([str(config), "--out", str(tmp_path / "b"), "--until", "data", *share]) == 0
    assert "data: tasks: unchanged, kept, 14 rows" in capsys.readouterr().out
    first, second = ((tmp_path / name / "tasks" / "train.jsonl").read_text() for name in "ab")
    assert first == second


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--only", "evalute"], "there is no stage 'evalute'; did you mean evaluate?"),
        (["--from", "train", "--until", "data"], "train comes after data"),
        (["--only", "ptb-contexts"], "ptb_contexts is not part of this configuration"),
        (["--set", "train.stepz=1"], "'train.stepz' is unknown; did you mean 'steps'?"),
    ],
)
def test_bad_flags_are_said_and_nothing_is_made(tmp_path, flags, said):
    with pytest.raises(InputError) as error:
        run(written(tmp_path), *flags)
    assert said in str(error.value) and not (tmp_path / "out").exists()


def test_tasks_from_taco_and_livecodebench_files(tmp_path, capsys):
    """The paper's sources, as files, in every way that an evaluation set may name its tasks."""
    write(tmp_path / "taco.jsonl", [taco(f"t{number}") for number in range(8)])
    write(tmp_path / "test6.jsonl", [lcb(f"q{number}") for number in range(3)])
    text = (
        "name: taco\ntasks: {family: taco, source: taco.jsonl, dev: 2, max_solutions: 2, train: 5}\n"
        f"{MODEL}"
        "evaluate:\n  sets:\n"
        "    - {name: livecodebench, source: test6.jsonl, kind: livecodebench, limit: 2}\n"
        "    - {name: taco_dev, source: dev}\n"
        "    - {name: taco_dev_ptb, source: dev, kind: perturbed}\n"
    )
    config = tmp_path / "taco.yaml"
    config.write_text(text)
    assert main([str(config), "--out", str(tmp_path / "out"), "--until", "data"]) == 0
    tasks = tmp_path / "out" / "tasks"
    found = {path.stem: [json.loads(text) for text in path.open()] for path in tasks.glob("*.jsonl")}
    assert {name: len(rows) for name, rows in found.items()} == {
        "train": 5, "dev": 2, "livecodebench": 2, "taco_dev_ptb": 2,
    }  # fmt: skip
    assert all(row["verified"] is True for row in found["train"])
    assert all("perturbed_public_test_cases" in row for row in found["taco_dev_ptb"])
    assert {row["id"] for row in found["taco_dev_ptb"]} == {row["id"] for row in found["dev"]}
    (tmp_path / "taco.jsonl").write_text("")
    capsys.readouterr()
    assert main([str(config), "--out", str(tmp_path / "out"), "--dry_run"]) == 0
    assert "runs (taco.jsonl has other content)" in capsys.readouterr().out


def test_the_adapters_of_the_small_configuration_reach_verl():
    from cobalt.run.config import load
    from cobalt.run.trainings import overrides
    from cobalt.training.config import compose

    given = load(next(path for path in CONFIGS if "24gb" in path.stem)).train
    config = compose(given.recipe, given.profile, "published", {}, overrides(given))
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    assert (model.lora_rank, model.lora_alpha) == (given.lora_rank, given.lora_alpha) and given.lora_rank > 0
    assert model.target_modules == "all-linear" and rollout.load_format == "safetensors"
    assert (config.trainer.n_gpus_per_node, config.trainer.total_epochs) == (1, given.epochs)
    assert (config.data.train_batch_size, rollout.n) == (given.contexts, given.completions)
    assert "hf_model" in config.actor_rollout_ref.actor.checkpoint.save_contents


@pytest.mark.slow
def test_stored_submissions_are_trained_on_without_sampling_or_running_any(tmp_path):
    """A folder of CodeNet's layout, and the groups made from it as a file, train the same model."""
    write_tree(tmp_path / "net", tasks=12, submissions=10, seed=0)
    settings = [
        "tasks={family: stored, source: net, max_groups: 2}", "train.steps=2", "train.epochs=null",
        "train.lora_rank=2", "evaluate.sets=[{name: own, source: own.jsonl}]",
    ]  # fmt: skip
    rows = list(tiny.draw_tasks("dev", 2, 0))
    write(tmp_path / "own.jsonl", rows)
    text = (ROOT / "configs" / "offline-tiny.yaml").read_text()
    text = text.replace("../models", str(ROOT / "models"))
    config = tmp_path / "mine.yaml"
    config.write_text(text)

    def go(out: str, *more: str) -> Path:
        flags = [part for each in (*settings, *more) for part in ("--set", each)]
        assert main([str(config), "--out", str(tmp_path / out), *flags, "--until", "train"]) == 0
        return tmp_path / out

    first = go("first")
    assert {path.name for path in first.iterdir()} >= {"parquet", "train"}
    assert not any((first / name).exists() for name in ("collect", "contexts"))
    facts = json.loads((first / "stages" / "train.json").read_text())["facts"]
    assert facts["evaluator"] == {} and facts["steps"] == 2  # no evaluator was asked
    notes = json.loads((first / "train" / "result.json").read_text())["notes"]
    assert any("(adapters of rank 2)" in note for note in notes)
    (tmp_path / "groups.parquet").write_bytes((first / "parquet" / "groups.parquet").read_bytes())
    other = go("other", "tasks.source=groups.parquet")
    models = [folder / "train" / "model" / "model.safetensors" for folder in (first, other)]
    assert models[0].read_bytes() == models[1].read_bytes()
    for source, said in (
        ("nowhere", "which does not exist: unpack Project CodeNet there"),
        ("own.jsonl", r"no stored groups \(no prompt, completions, extra_info"),
        ("mine.yaml", "a file of stored groups is .parquet or .jsonl"),
        (".", "is no CodeNet tree: it needs the folders metadata and data"),
    ):
        with pytest.raises(InputError, match=said):
            go("wrong", f"tasks.source={source}")
        assert not (tmp_path / "wrong").exists()
