"""What the stages of a run read, write and keep: recipes, verdicts, the reference's dialogues, slices."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from cobalt.config import recipes
from cobalt.config.load import parse
from cobalt.plan.cli import main as plan
from cobalt.report.inputs import find
from cobalt.run import dialogues
from cobalt.run.cli import assembled
from cobalt.run.cli import main as run
from cobalt.run.eval_stages import evaluated
from cobalt.run.job import Job
from cobalt.run.memory import MemoryPeak
from cobalt.run.reward_hacking import verdicts
from cobalt.run.stage_cache import Shared
from cobalt.run.trainings import overrides
from cobalt.training.config import choices, compose

ROOT = Path(__file__).parents[2]
TINY, MODEL = ROOT / "configs" / "tiny.yaml", ROOT / "models" / "tiny-reference"
KEY = "COBALT_TEST_JUDGE_KEY"
OWN = "defaults: [cobalt]\ndata: {max_response_length: 48}\nactor_rollout_ref: {rollout: {n: 4}}\n"


def job(out: Path, *settings: str, file: Path = TINY, **more) -> Job:
    return Job(parse(file, settings), MODEL, out, seed=0, task_seed=0, file=file, **more)


def written(folder: Path, text: str) -> Path:
    file = folder / "run.yaml"
    file.write_text(f"name: x\nmodel: {{path: {MODEL}}}\n{text}")
    return file


@pytest.mark.parametrize("recipe", choices("recipe"))
@pytest.mark.parametrize("profile", ["cpu", "gpu"])
def test_a_configuration_that_says_nothing_trains_what_the_recipe_says(tmp_path, recipe, profile):
    controls = "controls: {single_turn_training: false}\n"
    file = written(tmp_path, f"train: {{recipe: {recipe}, profile: {profile}}}\n{controls}")
    given = parse(file).train
    plain, ours = (compose(recipe, profile, given.scale, {}, each) for each in ((), overrides(given)))
    assert plain == ours
    assert (given.steps, given.epochs) == (None, plain.trainer.total_epochs)
    assert given.reward_profile == plain.cobalt.reward_profile


def test_a_recipe_of_ones_own_is_planned_checked_and_decides(tmp_path, capsys):
    (tmp_path / "mine.yaml").write_text(OWN)
    file = written(tmp_path, "train: {recipe: mine.yaml, steps: 2}\n")
    given = parse(file).train
    assert (given.max_response_tokens, given.completions, given.contexts) == (64, 8, 16)  # the tiny scale's
    assert (
        recipes.read(str(tmp_path / "mine.yaml"), "gpu", "published").number("data.max_response_length", 0)
        == 48
    )
    assert plan([str(file), "--summary"]) == 0
    assert run([str(file), "--out", str(tmp_path / "out"), "--dry_run"]) == 0
    assert "train          runs (after parquet)" in capsys.readouterr().out
    assert plan([str(file), "--smoke", "--summary"]) == 0


def test_a_verdict_of_the_judge_is_an_output_and_an_input_of_the_report(tmp_path, monkeypatch):
    judge = f"hack_analysis.judge={{model: m, engine: openai, base_url: 'http://x', key_variable: {KEY}}}"

    def stages(found):
        with MemoryPeak() as memory:
            by_name = {stage.name: stage for stage in assembled(found, memory).stages}
        return by_name["hack_analysis"], by_name["report"]

    with job(tmp_path, judge) as found:
        made = {verdicts(found, name) for name in ("reference", "cobalt")}
        monkeypatch.delenv(KEY, raising=False)
        analysis, report = stages(found)
        assert not made & {*analysis.outputs, *report.inputs}
        monkeypatch.setenv(KEY, "later")
        later, report = stages(found)
        assert made <= {*later.outputs} and made <= {*report.inputs}
        assert later.settings != analysis.settings  # so it runs again


def test_another_training_keeps_the_references_dialogues(tmp_path, monkeypatch):
    asked = []

    def made(_, model, rows, target, settings):
        asked.append((str(model), target.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"by {model}")

    def judged(_, rows, target):
        target.write_text(rows.read_text())
        Path(f"{target}.summary.json").write_text(json.dumps({"pass_at_1": [0.5], "tasks": 4}))

    monkeypatch.setattr(dialogues, "multi_turn", made)
    monkeypatch.setattr(dialogues, "judged", judged)
    with job(tmp_path / "out", "controls.single_turn_training=false") as found, MemoryPeak() as memory:
        runner = assembled(found, memory)
        stage = next(stage for stage in runner.stages if stage.name == "evaluate")
        view = SimpleNamespace(begin=lambda *_: None, end=lambda *_, **__: None)
        found.path("tasks").mkdir(parents=True)
        found.path("tasks", "heldout.jsonl").write_text("tasks")
        for weights in ("first", "second"):
            found.path("train", "model").mkdir(parents=True, exist_ok=True)
            found.path("train", "model", "model.safetensors").write_text(weights)
            runner.run(view, ("evaluate",))
            assert runner.kept.why(stage) is None
        reference = evaluated(found, "reference")
    assert [name for _, name in asked] == ["reference.jsonl", "cobalt.jsonl", "cobalt.jsonl"]
    assert reference.read_text() == f"by {MODEL}"


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer.model", "pytorch_model.bin"])
def test_every_file_that_decides_answers_is_in_the_models_fingerprint(tmp_path, name):
    model = tmp_path / "model"
    shutil.copytree(MODEL, model)
    hashes = []
    for text in ("one", "two"):
        (model / name).write_text(text)
        with Job(parse(TINY), model, tmp_path, seed=0, task_seed=0, file=TINY) as found:
            hashes.append(found.model_sha256)
    assert hashes[0] != hashes[1]


def test_the_report_of_a_run_calls_the_trained_model_by_its_recipe(tmp_path):
    row = {"id": 1, "all_pass_rates": [[1.0]]}
    (tmp_path / "evaluate").mkdir()
    for name in ("reference", "cobalt"):
        (tmp_path / "evaluate" / f"{name}_eval.jsonl").write_text(json.dumps(row) + "\n")
    with job(tmp_path, "train.recipe=mt_grpo", shared=Shared(None)) as found:
        (tmp_path / "run.json").write_text(json.dumps({"identity": found.identity()}))
    assert list(find([str(tmp_path)]).evaluated) == ["reference", "mt_grpo"]
