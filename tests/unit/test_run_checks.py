"""What a run refuses before its first stage: every key of every configuration, files, data, the machine."""

import dataclasses
import json
import re
import typing
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from cobalt import data
from cobalt.config import recipes
from cobalt.config.config import Config
from cobalt.config.load import load, model_at
from cobalt.contexts.build import Summary
from cobalt.errors import InputError
from cobalt.rollouts.inputs import Source
from cobalt.run import checks
from cobalt.run.cli import assembled
from cobalt.run.job import Job
from cobalt.run.trainings import Training
from cobalt.tasks import tiny
from cobalt.training.config import CONFIG_DIR
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
    "train.overrides": ["trainer.nosuch=1"], "train.contexts": 10**9, "execution.evaluator": "lokal",
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
    monkeypatch.setattr(recipes, "_file", cache(recipes._file))  # the same few files, hundreds of times


def found(path, settings=(), out=None):
    """What a dry run finds; raises InputError as it does."""
    config = load(path, settings)
    with Job(
        config, model_at(config.model.path, path), out or Path("out"), seed=0, task_seed=0, file=path
    ) as job:
        with assembled(job) as runner:
            stages = [stage.name for stage in runner.stages]
        return checks.check(job, stages, dry=True)


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
        try:
            lacking = found(path, [f"{key}={value}"]).lacking
        except InputError as error:
            lacking = [str(error)]
        absent = key == "train.contexts" and "does not exist" in " ".join(lacking)  # how many, data tell
        assert absent or any(word in " ".join(lacking) for word in (key, value.strip('"[]'))), (key, lacking)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_file_that_is_not_there_is_told(path):
    own = {*given(yaml.safe_load(path.read_text()))} & FILES
    for key in own | {"model.prompts"}:
        try:
            said = " ".join(found(path, [f"{key}={GONE}"]).lacking)
        except InputError as error:
            said = str(error)
        assert "nowhere" in said, (key, said)


LEAVES = {
    key: value
    for path in sorted(CONFIG_DIR.rglob("*.yaml"))
    if path.parent != CONFIG_DIR or path.stem == "published"
    for key, value in recipes._file(path).items()
}


def test_every_setting_of_verls_files_has_a_type():
    """Refused is a value of another type; null and interpolations have none, texts take every scalar."""
    wrong = {bool: "many", int: "many", float: "fast", str: [1], list: 5, dict: 5}
    typed = {k: v for k, v in LEAVES.items() if v is not None and "${" not in str(v)}
    assert len(typed) > 100 and len(LEAVES) - len(typed) < 40
    for key, value in typed.items():
        tree = value
        for part in reversed(key.split(".")):
            tree = {part: tree}
        refuse_other_types([(key, value), (key, None)], tree)
        with pytest.raises(InputError, match=rf"^{key}: must be "):
            refuse_other_types([(key, wrong[type(value)])], tree)


@pytest.mark.parametrize(
    "override",
    [
        "data.train_batch_size=many", "actor_rollout_ref.rollout.n=true", "cobalt.plugins=mine",
        "actor_rollout_ref.actor.optim.lr=fast", "cobalt.abort=5",
    ],
)  # fmt: skip
def test_a_wrong_type_in_the_overrides_is_found_in_a_dry_run(override):
    with pytest.raises(InputError, match=override.partition("=")[0] + ": must be"):
        found(TINY, [f"train.overrides=['{override}']"])


def tasks_in(folder, text="", **files):
    """A configuration on files of tiny tasks: each named by the numbers of its tasks."""
    drawn = list({row["instruction"]: row for row in tiny.draw_tasks("train", 150, 0)}.values())
    for name, numbers in files.items():
        rows = "".join(json.dumps(drawn[number]) + "\n" for number in numbers)
        (folder / f"{name}.jsonl").write_text(rows)
    (path := folder / "own.yaml").write_text(
        "name: own\ntasks: {family: files, train_file: train.jsonl, dev_file: dev.jsonl}\n"
        f"model: {{path: {MODEL}}}\nevaluate: {{sets: [{{name: mine, source: eval.jsonl}}]}}\n"
        f"perturb: {{source: dev}}\n{text}"
    )
    return path


@pytest.mark.parametrize(
    ("train", "dev", "evaluated", "said"),
    [
        (range(20), range(20), range(30, 34), r"also in .*dev\.jsonl:1,.* 20 of 20 training tasks"),
        (range(20), range(20, 24), range(15, 30), r"also in .*eval\.jsonl:1,.* 5 of 20 training tasks"),
        (range(10), range(20, 24), range(30, 34), r"10 training tasks give 10 statements to 'controls"),
        (range(20), range(20, 24), range(22, 30), r"2 tasks of evaluation set mine are development tasks"),
        (range(20), range(20, 24), range(30, 34), ""),
    ],
)
def test_tasks_that_are_shared_or_too_few_are_told(tmp_path, train, dev, evaluated, said):
    path = tasks_in(tmp_path, train=train, dev=dev, eval=evaluated)
    try:
        told = " ".join(found(path).doubts)
        assert bool(told) == bool(said)
    except InputError as error:
        told = str(error)
    assert re.search(said, told), told


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["tasks.train=3", "controls.single_turn_training=false", "collect.turns=2", "train.contexts=64",
          "train.mini_batches=1"], "give 27 contexts at most"),
        (["tasks.train=12", "controls.single_turn_training=false"], "12 training tasks must give the"),
        (["train.profile=gpu"], "trainer.n_gpus_per_node=4"),
        (["execution.evaluator=http://127.0.0.1:9"], "the evaluator"),
        (["model.engine=openai", "model.base_url=http://127.0.0.1:9/v1", "model.trained_engine=transformers"],
         "the reference's engine (openai)"),
        (["model.engine=vllm", "execution.serving.command=[no-such-program, '{port}']"],
         "no-such-program is no program here"),
        (["model.max_context=2000"], "was made for is 1024 tokens"),
    ],
)  # fmt: skip
def test_what_cannot_end_here_is_told(settings, said, monkeypatch):
    monkeypatch.setattr("cobalt.evaluator.client._READY_S", 0.2)
    try:
        all_ = found(TINY, settings)
        told = " ".join([*all_.lacking, *all_.doubts])
    except InputError as error:
        told = str(error)
    assert said in told


def suite(*pairs):
    return {"inputs": [pair[0] for pair in pairs], "outputs": [pair[1] for pair in pairs]}


ONE, TWO = ("1\n", "1\n"), ("2\n", "4\n")
UNEQUAL = {"inputs": ["1", "2", "3", "4"], "outputs": ["1", "2", "3"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"hidden_test_cases": json.dumps(UNEQUAL)}, "field 'hidden_test_cases': 4 inputs but 3 outputs"),
        ({"test_cases": UNEQUAL}, "field 'test_cases': 4 inputs but 3 outputs"),
        (
            {"public_test_cases": suite(("1\n", "7"))},
            "'public_test_cases' contradicts 'test_cases': for '1\\n'",
        ),
        ({"public_test_cases": suite(("1\n", " 1"))}, None),  # spaces are no contradiction
        ({"public_test_cases": suite(("1\n", "7")), "modified_test_cases": suite(("1\n", "7"))}, None),
    ],
)
def test_tests_that_make_no_sense_are_told(tmp_path, capsys, change, said):
    """By `cobalt data check`, and what no runner can use, by the runners' reader."""
    row = {"id": 1, "difficulty": "x", "instruction": "do", "test_cases": suite(ONE, TWO),
           "public_test_cases": suite(ONE), "hidden_test_cases": suite(TWO)} | change  # fmt: skip
    (path := tmp_path / "t.jsonl").write_text(json.dumps(row) + "\n")
    assert data.check(str(path), 5) == (2 if said else 0)
    out = capsys.readouterr().out
    assert said is None or (f"{path}:1: field" in out and said in out)
    if said and "inputs but" in said:
        with pytest.raises(InputError, match=f"{path}:1: {said}"):
            Source(path, lambda row, where: None)


def test_contexts_without_a_trajectory_say_why():
    assert "no trajectory was kept" in Summary(tasks=5).warnings[0]
    assert "every task was skipped" in Summary(tasks=5, skipped=5).warnings[0]
    assert Summary(tasks=5, candidates=2, kept=2).warnings == []


def test_the_tiny_family_ends(monkeypatch):
    monkeypatch.setattr("cobalt.tasks.tiny_family._NO_MORE", 9)
    with pytest.raises(InputError, match=r"family tiny has no 1000000 dev tasks: \d+ were found"):
        list(tiny.draw_tasks("dev", 10**6, 0))
