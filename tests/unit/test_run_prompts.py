"""The prompts of a run are those of every stage, trainings with online dialogues among them."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from cobalt.errors import InputError
from cobalt.prompts import DEFAULT, TINY
from cobalt.run.config import Config
from cobalt.run.job import Job
from cobalt.run.trainings import training_stages
from cobalt.training import launch
from cobalt.training.dialogue import DialogueSettings
from cobalt.training.result import TrainResult

MODEL = Path(__file__).parents[2] / "models/tiny-reference"
OWN = "defaults: [mt_grpo]\ncobalt:\n  dialogue: {turns: 2, max_turn_tokens: 32}\n"
MINE = replace(TINY, no_code="Where is it?")


@pytest.fixture
def trained(tmp_path, monkeypatch):
    """Where a training would run, notes what it shows in dialogues."""
    seen = []

    def run(config, launch, *_):
        seen.append(DialogueSettings.read(config))
        return TrainResult(launch, {"contexts": 1})

    monkeypatch.setattr(launch, "check_inputs", lambda config: None)
    monkeypatch.setattr(launch, "_run", run)
    monkeypatch.setattr(launch, "_collect", lambda config, result, started: result)
    monkeypatch.chdir(tmp_path)
    return seen


def stages(folder, recipe, prompts, **more):
    (folder / "own.yaml").write_text(OWN)
    (folder / "mine.json").write_text(json.dumps(asdict(MINE)))
    base = Config(name="x")
    config = replace(
        base, model=replace(base.model, prompts=prompts), train=replace(base.train, recipe=recipe, **more)
    )
    with Job(config, MODEL, folder / "out", seed=0, task_seed=0, file=folder / "run.yaml") as job:
        return training_stages(job)


@pytest.mark.parametrize("recipe", ["mt_grpo", "verpo", "own.yaml", "cobalt"])
@pytest.mark.parametrize(("name", "prompts"), [("mine.json", MINE), ("default", DEFAULT), ("tiny", TINY)])
def test_a_run_trains_on_the_feedback_that_it_evaluates_with(tmp_path, trained, recipe, name, prompts):
    folder = tmp_path / "a configuration's folder"
    folder.mkdir()
    stage = stages(folder, recipe, name)[0]
    stage.run()
    assert [each.prompts for each in trained] == [prompts]
    assert stage.settings["prompts"] == prompts.sha256


def test_an_override_of_the_training_wins(tmp_path, trained):
    stages(tmp_path, "mt_grpo", "tiny", overrides=["cobalt.dialogue.prompts=mine.json"])[0].run()
    assert trained[0].prompts == MINE


def test_prompts_of_a_training_are_checked_before_it_starts(tmp_path, trained):
    given = {"train_file": "a", "model": MODEL, "output": tmp_path / "out", "recipe": "mt_grpo"}
    with pytest.raises(InputError, match=r"prompts 'gone.json': not one of default, tiny"):
        launch.train(**given, prompts="gone.json")
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(InputError, match=r"bad\.json: must be a JSON object"):
        launch.train(**given, overrides=["cobalt.dialogue.prompts=bad.json"])
    assert not trained and not (tmp_path / "out").exists()
