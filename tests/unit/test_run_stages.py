"""What the stages of a run read, write and keep: recipes, prompts, trainings, verdicts, dialogues."""

import json
import shutil
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from cobalt.config.load import load, parse
from cobalt.config.recipes import CONTROL
from cobalt.errors import InputError
from cobalt.plan.cli import main as plan
from cobalt.prompts import DEFAULT, TINY
from cobalt.report.inputs import find
from cobalt.run import dialogues
from cobalt.run.cli import assembled
from cobalt.run.cli import main as run
from cobalt.run.data_stages import data_stages
from cobalt.run.eval_stages import evaluated, verdicts
from cobalt.run.job import Job
from cobalt.run.runner import Runner
from cobalt.run.trainings import check_composed, overrides, training_stages
from cobalt.run.view import View
from cobalt.training import launch
from cobalt.training.config import choices, compose
from cobalt.training.dialogue import DialogueSettings
from cobalt.training.result import TrainResult

ROOT = Path(__file__).parents[2]
DEMO, MODEL = ROOT / "configs" / "tiny.yaml", ROOT / "models" / "tiny-reference"
KEY = "COBALT_TEST_JUDGE_KEY"
MINE = replace(TINY, no_code="Where is it?")
START_S = 0.3


def job(out: Path, *settings: str, file: Path = DEMO, model: Path = MODEL) -> Job:
    return Job(parse(file, settings), model, out, seed=0, task_seed=0, file=file)


def written(folder: Path, text: str, **files: str) -> Path:
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content)
    (folder / "run.yaml").write_text(f"name: x\nmodel: {{path: {MODEL}}}\n{text}")
    return folder / "run.yaml"


@pytest.mark.parametrize(
    ("recipe", "profile"), [("cobalt", "cpu"), *((each, "gpu") for each in choices("recipe"))]
)
def test_a_configuration_that_says_nothing_trains_what_the_recipe_says(tmp_path, recipe, profile):
    controls = "controls: {single_turn_training: false}\n"
    given = parse(written(tmp_path, f"train: {{recipe: {recipe}, profile: {profile}}}\n{controls}")).train
    plain, ours = (compose(recipe, profile, given.scale, {}, each) for each in ((), overrides(given)))
    assert plain == ours
    assert (given.steps, given.epochs) == (None, plain.trainer.total_epochs)
    assert given.reward_profile == plain.cobalt.reward_profile


def test_adapters_reach_verl():
    given = parse(ROOT / "configs" / "qwen3-0.6b-lora-24gb.yaml").train
    config = compose(given.recipe, given.profile, "published", {}, overrides(given))
    model, rollout = config.actor_rollout_ref.model, config.actor_rollout_ref.rollout
    assert (model.lora_rank, model.lora_alpha, model.target_modules) == (32, 64, "all-linear")
    assert (config.trainer.n_gpus_per_node, config.trainer.total_epochs) == (1, given.epochs)
    assert (config.data.train_batch_size, rollout.n) == (given.contexts, given.completions)


def test_a_recipe_of_ones_own_is_planned_checked_and_decides(tmp_path, capsys, monkeypatch):
    tried = TrainResult(tmp_path, {"longest_prompt_tokens": 1})
    monkeypatch.setattr("cobalt.run.trainings.Training.try_out", lambda *_: tried)
    own = "defaults: [cobalt]\ndata: {max_response_length: 48}\ncobalt: {reward: 'mine:reward'}\n"
    code = "def reward(*_, **__):\n    return 1.0\n"
    file = written(tmp_path, "train: {recipe: mine.yaml, steps: 2}\n", mine_yaml=own, mine_py=code)
    assert parse(file).train.max_response_tokens == 64  # the tiny scale's
    assert plan([str(file), "--summary"]) == plan([str(file), "--smoke", "--summary"]) == 0
    assert run([str(file), "--out", str(tmp_path / "out"), "--dry_run"]) == 0
    assert "train          runs (after parquet)" in capsys.readouterr().out
    seen = []
    sizes = "data: {max_response_length: 32}\n"
    for name, text in (("mine.py", code), ("mine.py", code + "# other\n"), ("tiny_mine.yaml", sizes)):
        (tmp_path / name).write_text(text)
        with job(tmp_path / "out", file=file) as found:
            seen.append([stage.settings for stage in training_stages(found)])
    (first, control), (second, same), (third, _) = seen
    assert first["modules"] != second["modules"]  # another reward, another training
    assert first["modules"].keys() == {"mine"} and control == same
    assert (second["verl"]["data.max_response_length"], third["verl"]["data.max_response_length"]) == (64, 32)


@pytest.mark.parametrize(
    ("base", "rows", "stages"),
    [
        ("mt_grpo", "statements", []),
        ("verpo", "statements", []),
        ("single_turn_grpo", "statements", []),
        ("offline_rl", "stored", ["collect"]),
        ("rejection_sft", "stored", ["collect"]),
        ("rltf_sd", "revisions", ["collect", "repair", "judge"]),
        ("cobalt_ptb", "contexts", ["collect", "repair", "judge", "contexts", "ptb_contexts"]),
    ],
)
def test_a_recipe_of_ones_own_trains_on_what_its_base_does(tmp_path, capsys, base, rows, stages):
    file = written(tmp_path, "train: {recipe: mine.yaml, steps: 2}\n", mine_yaml=f"defaults: [{base}]\n")
    for smoke in (False, True):
        given = load(file, smoke=smoke)
        assert given.train.trains_on == rows and given.train.perturbed == (base == "cobalt_ptb")
    with job(tmp_path / "out", file=file) as found:
        made = {stage.name: stage for stage in (*data_stages(found), *training_stages(found))}
        assert list(made) == ["data", *stages, "parquet", "train", "train_single"]
        kind = {"contexts": "parquet/train", "statements": "parquet_single/train"}
        assert found.path(f"{kind.get(rows, 'parquet/groups')}.parquet") in made["train"].inputs
        assert found.path("parquet_single/train.parquet") in made["train_single"].inputs
        assert "cobalt.trains_on=statements" in made["train_single"].settings["overrides"]
        assert check_composed(found).cobalt.recipe == "mine"
    assert plan([str(file), "--summary"]) == 0


@pytest.fixture
def trained(monkeypatch):
    """Where a training would run, notes what it shows in dialogues."""
    seen = []

    def run(config, launch, *_):
        seen.append(DialogueSettings.read(config).prompts)
        return TrainResult(launch, {"contexts": 1})

    monkeypatch.setattr(launch, "check_inputs", lambda config: None)
    monkeypatch.setattr(launch, "_run", run)
    monkeypatch.setattr(launch, "_collect", lambda config, result, started: result)
    return seen


@pytest.mark.parametrize(
    ("recipe", "name", "prompts"),
    [
        ("mt_grpo", "mine.json", MINE),
        ("own.yaml", "mine.json", MINE),
        ("mt_grpo", "default", DEFAULT),
        ("cobalt", "tiny", TINY),
    ],
)
def test_a_run_trains_on_the_feedback_it_evaluates_with(
    tmp_path, trained, monkeypatch, recipe, name, prompts
):
    monkeypatch.chdir(tmp_path)
    (folder := tmp_path / "a configuration's folder").mkdir()
    own = "defaults: [mt_grpo]\ncobalt:\n  dialogue: {turns: 2, max_turn_tokens: 32}\n"
    texts = {"own_yaml": own, "mine_json": json.dumps(asdict(MINE))}
    file = written(folder, f"train: {{recipe: {recipe}}}\n", **texts)
    with job(folder / "out", f"model.prompts={name}", file=file) as found:
        stage = training_stages(found)[0]
        stage.run()
    assert trained == [prompts] and stage.settings["prompts"] == prompts.sha256


def test_prompts_of_a_training_are_checked_before_it_starts(tmp_path, trained, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = written(tmp_path, "train: {recipe: mt_grpo}\n", mine_json=json.dumps(asdict(MINE)), bad_json="{}")
    with job(tmp_path / "x", "train.overrides=[cobalt.dialogue.prompts=mine.json]", file=file) as found:
        training_stages(found)[0].run()
    assert trained == [MINE]  # an override of the training wins
    given = {"train_file": "a", "model": MODEL, "output": tmp_path / "out", "recipe": "mt_grpo"}
    with pytest.raises(InputError, match=r"prompts 'gone.json': not one of default, tiny"):
        launch.train(**given, prompts="gone.json")
    with pytest.raises(InputError, match=r"bad\.json: must be a JSON object"):
        launch.train(**given, overrides=["cobalt.dialogue.prompts=bad.json"])
    assert len(trained) == 1 and not (tmp_path / "out").exists()


@pytest.mark.parametrize("interrupt", [False, True])
def test_trainings_start_one_after_the_other_and_an_interrupt_ends_both(tmp_path, monkeypatch, interrupt):
    """A stand-in for `train` composes, has a process after a while, trains until stopped or done."""
    events = []

    def train(*, output, label, stop, **_):
        events.append(("composes", label))
        time.sleep(START_S)
        events.append(("has a process", label))
        for _ in range(100 if interrupt else 3):
            stop()
            time.sleep(0.02)
            if interrupt and label == "training":
                raise KeyboardInterrupt
        (output / "model").mkdir(parents=True)
        (output / "metrics.jsonl").write_text("")
        return SimpleNamespace(plan={"contexts": 1}, samples=1, steps=1, masked=0, evaluator={})

    monkeypatch.setattr(launch, "train", train)
    started = time.monotonic()
    with job(tmp_path) as found:
        for name in ("parquet", "parquet_single"):
            found.path(name).mkdir()
            for split in ("train", "test"):
                found.path(name, f"{split}.parquet").write_text("")
        runner = Runner(tmp_path, training_stages(found))
        if not interrupt:
            runner.run(View(runner.stages))
            assert [what for what, _ in events] == ["composes", "has a process"] * 2
            assert {label for _, label in events} == {"training", "control training"}
            return
        with pytest.raises(KeyboardInterrupt):
            runner.run(View(runner.stages))
    assert time.monotonic() - started < 10 * START_S  # the control is stopped at its first look
    assert threading.active_count() < 10 and not (tmp_path / "train_single" / "model").exists()


def test_a_verdict_of_the_judge_is_an_output_and_an_input_of_the_report(tmp_path, monkeypatch):
    judge = f"hack_analysis.judge={{model: m, engine: openai, base_url: 'http://x', key_variable: {KEY}}}"

    def stages(found):
        by_name = {stage.name: stage for stage in assembled(found).stages}
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
        asked.append(target.name)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(f"by {model}")

    def judged(_, rows, target):
        target.write_text(rows.read_text())
        Path(f"{target}.summary.json").write_text(json.dumps({"pass_at_1": [0.5], "tasks": 4}))

    monkeypatch.setattr(dialogues, "multi_turn", made)
    monkeypatch.setattr(dialogues, "judged", judged)
    with job(tmp_path / "out", "controls.single_turn_training=false") as found:
        runner = assembled(found)
        runner.stages = [stage for stage in runner.stages if stage.name == "evaluate"]
        found.path("tasks").mkdir(parents=True)
        found.path("tasks", "heldout.jsonl").write_text("tasks")
        for weights in ("first", "second"):
            found.path("train", "model").mkdir(parents=True, exist_ok=True)
            found.path("train", "model", "model.safetensors").write_text(weights)
            runner.run(View(runner.stages))
            assert runner.finished()
        reference = evaluated(found, "reference")
    assert asked == ["reference.jsonl", "cobalt.jsonl", "cobalt.jsonl"]
    assert reference.read_text() == f"by {MODEL}"


@pytest.mark.parametrize("name", ["chat_template.jinja", "tokenizer.model", "pytorch_model.bin"])
def test_every_file_that_decides_answers_is_in_the_models_fingerprint(tmp_path, name):
    model, hashes = tmp_path / "model", set()
    shutil.copytree(MODEL, model)
    for text in ("one", "two"):
        (model / name).write_text(text)
        with job(tmp_path, model=model) as found:
            hashes.add(found.model_sha256)
    assert len(hashes) == 2


def test_a_function_that_an_override_names_is_beside_the_configuration(tmp_path, monkeypatch):
    reward = "train: {overrides: ['cobalt.reward=mine.py:reward', cobalt.constants.a=2]}\n"
    file, hashes = written(tmp_path, reward, mine_py="def reward(best, a=1):\n    return a\n"), []
    for more in ("", "# other\n"):
        (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text() + more)
        with job(tmp_path / "out", file=file) as found:
            train, control = (stage.settings["modules"] for stage in training_stages(found))
            hashes.append(train["mine.py"])
            assert train == control
            for recipe in (None, CONTROL):
                config = check_composed(found, recipe).cobalt
                assert config.functions.reward.constants == {"a": 2}
                assert config.reward == f"{tmp_path}/mine.py:reward"
        assert load(file, smoke=True).train.overrides[1:] == found.config.train.overrides
    assert hashes[0] != hashes[1]


def test_an_objective_of_ones_own_decides_too(tmp_path):
    own = "train: {recipe: offline_rl, overrides: ['cobalt.offline.objective=mine.py:weights']}\n"
    file, seen = written(tmp_path, own, mine_py="def weights(rewards):\n    return rewards\n"), []
    for more in ("", "# other\n"):
        (tmp_path / "mine.py").write_text((tmp_path / "mine.py").read_text() + more)
        with job(tmp_path / "out", file=file) as found:
            seen.append(training_stages(found)[0].settings["modules"])
            assert check_composed(found).cobalt.offline.objective == f"{tmp_path}/mine.py:weights"
    assert [each.keys() for each in seen] == [{"mine.py"}] * 2 and seen[0] != seen[1]


def test_the_report_of_a_run_calls_the_trained_model_by_its_recipe(tmp_path):
    (tmp_path / "evaluate").mkdir()
    for name in ("reference", "cobalt"):
        (tmp_path / "evaluate" / f"{name}_eval.jsonl").write_text('{"id": 1, "all_pass_rates": [[1.0]]}\n')
    with job(tmp_path, "train.recipe=mt_grpo") as found:
        (tmp_path / "run.json").write_text(json.dumps({"identity": found.identity()}))
    assert list(find([str(tmp_path)]).evaluated) == ["reference", "mt_grpo"]
