"""What a run refuses before its first stage: every key of every configuration, files, data, the machine."""

import dataclasses
import json
import shutil
import typing
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from cobalt.config.config import Config
from cobalt.config.load import load, model_at
from cobalt.errors import InputError
from cobalt.model_files import check_weights
from cobalt.run import checks
from cobalt.run.cli import assembled
from cobalt.run.job import Job
from cobalt.run.trainings import Training
from cobalt.tasks import tiny
from cobalt.training.config import CONFIG_DIR, compose
from cobalt.training.own_recipe import refuse_other_types

ROOT = Path(__file__).parents[2]
TINY, MODEL = ROOT / "configs" / "tiny.yaml", ROOT / "models" / "tiny-reference"
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
GONE = "nowhere/at/all.jsonl"
FILES = {
    "tasks.source", "tasks.train_file", "tasks.dev_file", "tasks.heldout_file", "model.path", "model.prompts",
    "collect.trajectories", "collect.dev_trajectories", "evaluate.sets.0.source", "perturb.source",
}  # fmt: skip
# Keys whose type allows a value that is wrong all the same.
WRONG = {
    "schema": 2, "model.base_url": "localhost", "hack_analysis.judge.base_url": "localhost",
    "sampling.temperature": -1, "sampling.top_p": 0, "sampling.max_tokens": 10**6, "train.learning_rate": 1e9,
    "model.max_context": 1, "train.recipe": "cobolt", "train.reward_profile": "nosuch",
    "train.overrides": ["trainer.nosuch=1"], "train.contexts": 7, "execution.evaluator": "lokal",
    "execution.isolation": "foo", "execution.serving.command": ["serve"], "train.max_prompt_tokens": 10**6,
    "train.max_response_tokens": 10**6,
}  # fmt: skip
ANY = {
    "tasks.split_seed": "any whole number is a seed", "perturb.seed": "any whole number is a seed",
    "name": "any text is a name", "tasks.language": "any text may be a language of a tree",
    "model.served_name": "the service says which it has", "hack_analysis.judge.model": "the provider knows",
    "hack_analysis.judge.key_variable": "any text may be a variable, none too", "evaluate.sets.0.name": "",
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_is_started(monkeypatch):
    """The training is put together by a test of its own, and the machine has what it needs."""
    plan = SimpleNamespace(plan={"longest_prompt_tokens": 1})
    monkeypatch.setattr(Training, "try_out", lambda *_: plan)


def found(path, settings=(), out=None):
    """What a dry run finds; raises InputError as it does."""
    config = load(path, settings)
    with Job(
        config, model_at(config.model.path, path), out or Path("out"), seed=0, task_seed=0, file=path
    ) as job:
        with assembled(job) as runner:
            stages = [stage.name for stage in runner.stages]
        return checks.check(job, stages, 0.001, dry=True)


def keys(kind=Config, before=""):
    """Every key of a configuration with its type; lists of sections as their first item."""
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        inner = [each for each in _parts(hint) if isinstance(each, type) and dataclasses.is_dataclass(each)]
        listed = any(typing.get_origin(each) is list for each in _parts(hint))
        if inner:
            yield from keys(inner[0], f"{before}{name}.{'0.' * listed}")
        yield f"{before}{name}", hint


def _parts(hint):
    return [hint, *(part for each in typing.get_args(hint) for part in _parts(each))]


KEYS = dict(keys())


def wrong_values(key):
    """A value of a wrong type, and one of the right type that is wrong."""
    parts = _parts(KEYS[key])
    sections = any(isinstance(each, type) and dataclasses.is_dataclass(each) for each in parts)
    yield "5" if sections or list in map(typing.get_origin, parts) else "[1, {a: 1}]"
    if key in WRONG:
        yield json.dumps(WRONG[key])
    elif any(typing.get_origin(each) is typing.Literal for each in parts):
        yield "nosuch"
    elif bool in parts:
        yield "maybe"
    elif int in parts or float in parts:
        yield "many"
        if key not in ANY:
            yield "-1"
    elif str in parts:
        yield '""'  # key_variable may be empty


def test_every_key_has_a_wrong_value_or_a_reason():
    plain = {key for key, hint in KEYS.items() if {str, int, float, bool} & {*_parts(hint)}}
    lacking = [key for key in plain if len(list(wrong_values(key))) < 2 and key not in FILES | ANY.keys()]
    assert not lacking and not (WRONG.keys() | ANY.keys() | FILES) - KEYS.keys()


def given(tree, before=""):
    """The keys that a file has."""
    for name, value in tree.items():
        yield f"{before}{name}"
        below = {"0": value[0]} if isinstance(value, list) and value and isinstance(value[0], dict) else value
        if isinstance(below, dict):
            yield from (key for key in given(below, f"{before}{name}.") if not key.endswith(".0"))


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_key_of_a_configuration_is_refused_when_it_is_wrong(path):
    own = {*given(yaml.safe_load(path.read_text()))}
    asked = {key: None for key in (KEYS if path == TINY else own)}
    passed = []
    for key in asked:
        for value in wrong_values(key):
            if value == '""' and key in ("hack_analysis.judge.key_variable",):
                continue
            try:
                load(path, [f"{key}={value}"])
            except InputError as error:
                assert "--set" in str(error) or "'" in str(error), (key, value, error)
                continue
            passed.append((key, value))
    for key, value in passed:  # what only the files, verl or the model tell
        with pytest.raises(InputError) as error:
            found(path, [f"{key}={value}"])
        assert str(error.value), (key, value)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_file_that_is_not_there_is_told(path):
    own = {*given(yaml.safe_load(path.read_text()))} & FILES
    for key in own | {"model.prompts"}:
        try:
            said = " ".join(found(path, [f"{key}={GONE}"]).lacking)
        except InputError as error:
            said = str(error)
        assert "nowhere" in said, (key, said)
