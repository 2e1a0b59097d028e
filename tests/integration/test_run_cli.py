"""`cobalt run`: dry runs of every configuration, parts of a run, changes, tasks from files, refusals."""

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import doors
import pytest
import torch
from data_rows import lcb, taco, write

from cobalt.config.load import load
from cobalt.errors import InputError, SettingsChanged
from cobalt.run.cli import main
from cobalt.run.trainings import Training
from cobalt.tasks import tiny
from cobalt.tasks.submissions import write_tree

ROOT = Path(__file__).parents[2]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
MODEL = f"model: {{path: {ROOT / 'models' / 'tiny-reference'}}}\n"
SMALL = (
    f"name: small\ntasks: {{train: 6, dev: 4, heldout: 4}}\n{MODEL}train: {{contexts: 4, mini_batches: 1}}\n"
)


@pytest.fixture
def not_in_verl(monkeypatch):
    """The process that puts a training together takes seconds; a test of its own is about it."""
    tried = SimpleNamespace(plan={"longest_prompt_tokens": 1})
    monkeypatch.setattr(Training, "try_out", lambda *_: tried)


def written(folder: Path, text: str = "") -> Path:
    path = folder / "small.yaml"
    path.write_text(SMALL + text)
    return path


def run(config: Path, *flags: str, out: str = "out") -> int:
    return main([str(config), "--out", str(config.parent / out), *flags])


@pytest.mark.parametrize(
    ("path", "flags"),
    [*((path, []) for path in CONFIGS), (ROOT / "configs" / "qwen3-8b.yaml", ["--smoke"])],
    ids=lambda value: value.stem if isinstance(value, Path) else "".join(value) or "whole",
)
def test_a_dry_run_of_every_configuration(path, flags, tmp_path, capsys, not_in_verl):
    words = [str(path), "--out", str(tmp_path / "out"), "--dry_run", *flags]
    assert main([*words, "--anyway"]) == 0
    said = capsys.readouterr().out
    lacking = said.partition("lacking here:")[2]
    assert main(words) == bool(lacking)
    assert (" is sound;" in said) is not bool(lacking) and "checked:\n  - every key of" in said
    if load(path, smoke=bool(flags)).train.profile == "gpu" and not torch.cuda.is_available():
        assert "GPUs for the training" in lacking
    stages = [line.split()[0] for line in said.splitlines() if " runs (" in line]
    if load(path).tasks.has_stored:  # nothing is sampled or run before the evaluation
        assert stages == ["data", "parquet", "train", "evaluate", "report"]
        assert ("unpack Project CodeNet" in said) is ("codenet" in path.stem)
    else:
        assert stages[:7] == ["data", "collect", "repair", "judge", "contexts", "parquet", "train"]
        assert stages[-1] == "report" and {"evaluate", "perturb", "hack_analysis"} <= set(stages)
    assert "cost plan" in said and "GPU hours" in said and "disk" in said and " train " in said
    assert list(tmp_path.iterdir()) == []  # nothing was written


def test_parts_changes_and_sharing(tmp_path, capsys, not_in_verl):
    config, share = written(tmp_path), ["--share", str(tmp_path / "shared")]
    train, dev = (tmp_path / "out" / "tasks" / f"{split}.jsonl" for split in ("train", "dev"))
    assert run(config, "--until", "data", *share) == 0
    assert "asked for is done." in capsys.readouterr().out and len(train.read_text().splitlines()) == 6
    assert run(config, "--until", "data", *share, out="other") == 0
    assert "data: tasks: unchanged, kept, 14 rows" in capsys.readouterr().out
    assert run(config, "--until", "data") == 0
    assert "nothing has changed" in capsys.readouterr().out
    train.write_text(train.read_text() + "\n")
    assert run(config, "--dry_run") == 0
    assert "runs (tasks/train.jsonl was changed)" in capsys.readouterr().out
    more = ["--set", "tasks.dev=5", "--until", "data"]
    with pytest.raises(SettingsChanged, match=r"config\.tasks\.dev: 4 -> 5(.|\n)*--changed"):
        run(config, *more)
    assert run(config, *more, "--changed") == 0 and len(dev.read_text().splitlines()) == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["{good}", "--until", "evalute"], "this run has no stage 'evalute'; did you mean evaluate?"),
        (["{good}", "--set", "train.stepz=1"], "'train.stepz' is unknown; did you mean 'steps'?"),
        (["{good}", "--dry_run", "--set", "train.overrides=[actor_rollout_ref.lrr=1]"], "lrr"),
        (["nowhere.yaml"], "cannot read nowhere.yaml"),
        (["{bad}"], "'trian' is unknown; did you mean 'train'?"),
        (["{good}", "--out", "{bad}"], "is a file; OUT must be a folder"),
        (["{good}", "--out", "{bad}/sub"], "cannot write"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, arguments, said):
    (bad := tmp_path / "bad.yaml").write_text("name: x\ntrian: 3\n")
    words = [each.format(good=written(tmp_path), bad=bad) for each in arguments]
    done = doors.run("-m", "cobalt", "run", "--out", "x", *words, cwd=tmp_path, code=2)
    assert said in done.stderr
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1
    assert {path.name for path in tmp_path.iterdir()} == {"bad.yaml", "small.yaml"}


def test_an_engine_of_ones_own_collects(tmp_path, capsys):
    """As the doors take it: loaded by a dry run, named in the manifest, its file a part of the run."""
    text = (ROOT / "examples" / "engine" / "template_engine.py").read_text()
    (engine := tmp_path / "mine.py").write_text(text)
    tiny.write_splits(tmp_path, seed=0, train=3, dev=2, heldout=2)
    (config := tmp_path / "own.yaml").write_text(
        "name: own\ntasks: {family: files, train_file: train.jsonl, dev_file: dev.jsonl, "
        "heldout_file: heldout.jsonl}\ncontrols: {single_turn_training: false}\n"
        + MODEL.replace("}", ", engine: 'mine.py:TemplateEngine'}")
    )
    assert run(config, "--dry_run") == 0
    with pytest.raises(InputError, match=r"own\.yaml: 'model\.engine': engine .*mine\.py has no Other"):
        run(config, "--dry_run", "--set", "model.engine=mine.py:Other")
    assert run(config, "--until", "repair") == 0
    single = tmp_path / "out" / "collect" / "single.jsonl"
    made = json.loads((tmp_path / "out" / "collect" / "single.jsonl.manifest.json").read_text())
    assert (
        made["settings"]["model"].startswith("template:") and "print(max(n) - min(n))" in single.read_text()
    )
    capsys.readouterr()
    engine.write_text(text + "\n# changed\n")
    assert run(config, "--until", "repair", "--dry_run") == 0
    assert re.search(r"collect +runs \(.*engine_sha256", capsys.readouterr().out)


def test_tasks_from_taco_and_livecodebench_files(tmp_path, capsys, not_in_verl):
    """The paper's sources, as files, in every way that an evaluation set may name its tasks."""
    write(tmp_path / "taco.jsonl", [taco(f"t{number}") for number in range(8)])
    write(tmp_path / "test6.jsonl", [lcb(f"q{number}") for number in range(3)])
    (config := tmp_path / "taco.yaml").write_text(
        "name: taco\ntasks: {family: taco, source: taco.jsonl, dev: 2, max_solutions: 2, train: 5}\n"
        f"{MODEL}"
        "evaluate:\n  sets:\n"
        "    - {name: livecodebench, source: test6.jsonl, kind: livecodebench, limit: 2}\n"
        "    - {name: taco_dev, source: dev}\n"
        "    - {name: taco_dev_ptb, source: dev, kind: perturbed}\n"
    )
    assert run(config, "--until", "data") == 0
    tasks = tmp_path / "out" / "tasks"
    found = {path.stem: [json.loads(text) for text in path.open()] for path in tasks.glob("*.jsonl")}
    sizes = {"train": 5, "dev": 2, "livecodebench": 2, "taco_dev_ptb": 2}
    assert {name: len(rows) for name, rows in found.items()} == sizes
    assert all(row["verified"] is True for row in found["train"])
    assert all("perturbed_public_test_cases" in row for row in found["taco_dev_ptb"])
    assert {row["id"] for row in found["taco_dev_ptb"]} == {row["id"] for row in found["dev"]}
    (tmp_path / "taco.jsonl").write_text(json.dumps(taco("t1")) + "\n")
    assert run(config, "--dry_run", "--until", "data") == 0
    assert "runs (taco.jsonl has other content)" in capsys.readouterr().out
    for text, said in (("", "there are no rows"), ('{"question": 5}\n', r"taco\.jsonl:1: 'id'")):
        (tmp_path / "taco.jsonl").write_text(text)
        with pytest.raises(InputError, match=said):
            run(config, "--dry_run")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ([], "the training put together in verl (reward, plug-ins, sizes) on the openings of 6 tasks"),
        (["train.recipe=rejection_sft", "tasks.train=20"], "the training put together in verl"),
        (["train.recipe=mt_grpo"], "the training put together in verl"),
        (["train.overrides=[algorithm.adv_estimator=nosuch]"], "verl refuses the configuration"),
        (["train.overrides=['cobalt.reward=nosuch:reward']"], "there is no module nosuch"),
        (["train.max_prompt_tokens=5"], "prompt"),
    ],
)
def test_a_dry_run_puts_the_training_together_in_verl(settings, said, tmp_path, capsys):
    """What only verl and the tokenizer know is refused before the first stage, too."""
    words = [part for each in settings for part in ("--set", each)]
    try:
        assert run(written(tmp_path), "--dry_run", *words) == 0
        told = capsys.readouterr().out
    except InputError as error:
        told = str(error)
    assert said in told and not (tmp_path / "out").exists()


def test_what_is_lacking_is_refused_unless_asked_for_anyway(tmp_path, monkeypatch, capsys):
    usage = shutil.disk_usage("/")._replace(free=10)
    monkeypatch.setattr("cobalt.run.checks.shutil.disk_usage", lambda _: usage)
    with pytest.raises(InputError, match=r"cannot end here \(--anyway .*disk: the plan writes"):
        run(written(tmp_path), "--until", "data")
    assert not (tmp_path / "out").exists()
    assert run(written(tmp_path), "--until", "data", "--anyway") == 0
    assert "warning: disk: the plan writes" in capsys.readouterr().err


@pytest.mark.slow
def test_stored_submissions_are_trained_on_without_sampling_or_running_any(tmp_path):
    """A folder of CodeNet's layout, and the groups made from it as a file, are one training: it is shared."""
    write_tree(tmp_path / "net", tasks=12, submissions=10, seed=0)
    write(tmp_path / "own.jsonl", list(tiny.draw_tasks("dev", 2, 0)))
    settings = [
        "tasks={family: stored, source: net, max_groups: 2}", "train.steps=2", "train.epochs=null",
        "train.lora_rank=2", "evaluate.sets=[{name: own, source: own.jsonl}]",
    ]  # fmt: skip
    config = tmp_path / "mine.yaml"
    text = (ROOT / "configs" / "offline-tiny.yaml").read_text()
    config.write_text(text.replace("../models", str(ROOT / "models")))

    def go(out: str, *more: str) -> dict:
        flags = [part for each in (*settings, *more) for part in ("--set", each)]
        assert run(config, *flags, "--until", "train", "--share", str(tmp_path / "shared"), out=out) == 0
        return json.loads((tmp_path / out / "stages" / "train.json").read_text())

    first = go("first")
    assert not any((tmp_path / "first" / name).exists() for name in ("collect", "contexts"))
    assert first["facts"]["evaluator"] == {} and first["facts"]["steps"] == 2  # no evaluator was asked
    notes = json.loads((tmp_path / "first" / "train" / "result.json").read_text())["notes"]
    assert any("(adapters of rank 2)" in note for note in notes)
    groups = (tmp_path / "first" / "parquet" / "groups.parquet").read_bytes()
    (tmp_path / "groups.parquet").write_bytes(groups)
    assert not first.get("shared") and go("other", "tasks.source=groups.parquet")["shared"]
    assert (tmp_path / "other" / "train" / "model" / "model.safetensors").exists()
    for source, said in (
        ("nowhere", "which does not exist: unpack Project CodeNet there"),
        ("mine.yaml", "a file of stored groups is .parquet"),
        (".", "is no CodeNet tree: it needs the folders data and metadata"),
    ):
        with pytest.raises(InputError, match=said):
            go("wrong", f"tasks.source={source}")
        assert not (tmp_path / "wrong").exists()
