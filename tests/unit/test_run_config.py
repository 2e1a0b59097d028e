"""Configuration files: what is accepted, and what every refusal says."""

from dataclasses import asdict
from pathlib import Path

import pytest

from cobalt.config.load import load, parse
from cobalt.config.sections import Contexts
from cobalt.errors import InputError
from cobalt.manifest import flatten

ROOT = Path(__file__).parents[2]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(InputError) as error:
        parse(written(tmp_path, text))
    return str(error.value)


def test_the_demo_is_valid_and_states_every_default():
    config = parse(ROOT / "configs" / "tiny.yaml")
    assert config.name == "tiny"
    assert (config.train.steps, config.train.contexts, config.train.completions) == (60, 16, 8)
    assert config.evaluate.turns == 3 and config.tasks.heldout >= 300
    assert isinstance(config.train.learning_rate, float)


def test_what_is_left_out_has_its_default(tmp_path):
    config = parse(written(tmp_path, "name: x\ntasks: {train: 10}\n"))
    assert config.tasks.train == 10 and config.tasks.heldout == 300
    assert (config.evaluate.turns, config.perturb.limit, config.execution.workers) == (3, 40, None)


def test_numbers_as_people_write_them(tmp_path):
    config = parse(written(tmp_path, "name: x\ntrain: {learning_rate: 4e-4}\n"))
    assert config.train.learning_rate == 4e-4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\ntasks:\n  trian: 3\n", ":3: 'tasks.trian' is unknown; did you mean 'train'?"),
        ("name: x\nwibble: 3\n", ":2: 'wibble' is unknown; known keys: name, schema, tasks"),
        ("name: x\ntrain: {steps: 0}\n", ":2: 'train.steps' must be at least 1, got 0"),
        ("name: x\nsampling: {top_p: 1.5}\n", "'sampling.top_p' must be at most 1"),
        ("name: x\ntrain: {steps: 1.5}\n", "'train.steps' must be a whole number, got '1.5'"),
        ("name: x\ntrain: {steps: '5'}\n", "'train.steps' must be a whole number"),
        ("name: x\ntrain: {learning_rate: fast}\n", "'train.learning_rate' must be a number, got 'fast'"),
        ("name: x\ncontrols: {blank_feedback: 1}\n", "'controls.blank_feedback' must be true or false"),
        ("name: x\ntrain: {profile: cpus}\n", "must be one of cpu, gpu, got 'cpus'; did you mean 'cpu'?"),
        ("name: x\ntrain: {overrides: a=1}\n", "'train.overrides' must be a list"),
        ("name: x\ntasks: 5\n", ":2: 'tasks' must be a mapping of family, train, dev, heldout"),
        ("name: x\nname: y\n", ":2: 'name' is given twice"),
        ("tasks: {train: 5}\n", "'name' is missing"),
        ("name: x\ntrain: {contexts: 9, mini_batches: 2}\n", "'train.contexts' (9) must be a multiple of"),
        ("name: x\ntrain: {contexts: }\n", "'train.contexts' must be a whole number"),
        ("name: x\n tasks: [\n", "not valid YAML"),
        ("- 1\n", "must be a mapping"),
        ("", "the file is empty"),
    ],
)
def test_refusals_name_the_place_and_what_would_do(tmp_path, text, said):
    message = refusal(tmp_path, text)
    assert said in message and message.startswith(str(tmp_path / "run.yaml"))


def test_an_optional_number_may_be_null(tmp_path):
    config = parse(written(tmp_path, "name: x\nexecution: {workers: null}\n"))
    assert config.execution.workers is None


def test_a_missing_file_or_model_is_said(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*nowhere\.yaml"):
        load(tmp_path / "nowhere.yaml")
    path = written(tmp_path, "name: x\nmodel: {path: no_model}\n")
    with pytest.raises(InputError, match=r"holds no model .*train_tiny_reference\.sh"):
        load(path)


CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


def test_there_are_the_configurations_of_the_paper_and_smaller_ones():
    names = {path.stem for path in CONFIGS}
    assert {"tiny", "qwen3-8b", "r1-distill-llama-8b"} <= names and any("24gb" in name for name in names)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
@pytest.mark.parametrize("smoke", [False, True])
def test_every_configuration_of_the_repository_is_valid(path, smoke):
    config = load(path, smoke=smoke)
    assert config.name == path.stem
    if smoke:
        whole = load(path)
        family = "files" if whole.tasks.family == "files" else "tiny"
        assert (config.tasks.family, config.model.engine, config.train.profile) == (
            family,
            "transformers",
            "cpu",
        )
        assert config.validates_on_trajectories == whole.validates_on_trajectories
        assert config.collected == whole.collected
        assert config.train.recipe == whole.train.recipe and config.contexts.policy == whole.contexts.policy
        assert [each.name for each in config.evaluate.sets] == [each.name for each in whole.evaluate.sets]
        assert (config.perturb is None) == (whole.perturb is None)


def test_the_papers_settings():
    for name in ("qwen3-8b", "r1-distill-llama-8b"):
        config = load(ROOT / "configs" / f"{name}.yaml")
        train, sampling = config.train, config.sampling
        assert (train.contexts, train.completions, train.contexts // train.mini_batches) == (128, 16, 64)
        assert (train.learning_rate, train.max_prompt_tokens, train.max_response_tokens) == (
            1e-6,
            10240,
            6144,
        )
        assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.6, 0.95, 6144)
        assert (config.collect.samples, config.collect.turns) == (16, 3)
        assert (config.evaluate.samples, config.evaluate.turns) == (16, 9)
        assert config.contexts == Contexts(max_prompt_tokens=10000)


@pytest.mark.parametrize("name", ["qwen3-8b", "r1-distill-llama-8b"])
def test_the_released_configurations_differ_in_their_data_only(name):
    whole, released = (load(ROOT / "configs" / f"{each}.yaml") for each in (name, f"{name}-released"))
    old, new = flatten(asdict(whole)), flatten(asdict(released))
    differing = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    tasks = {"family", "source", "train_file", "dev_file", "dev"}
    assert differing == {
        "name",
        "collect.trajectories",
        "perturb.source",
        *(f"tasks.{each}" for each in tasks),
    }
    assert (whole.collected, released.collected) == (["train", "dev"], ["dev"])


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (["train.steps=3"], lambda c: c.train.steps == 3),
        (["train.learning_rate=1e-3", "name=b"], lambda c: (c.train.learning_rate, c.name) == (1e-3, "b")),
        (["perturb=null"], lambda c: c.perturb is None),
        (["contexts.selection=random"], lambda c: c.contexts.selection == "random"),
        (["evaluate.sets=[{name: a}, {name: b, source: dev}]", "evaluate.sets.1.samples=4"],
         lambda c: (c.evaluate.sets[1].source, c.evaluate.sets[1].samples) == ("dev", 4)),
    ],
)  # fmt: skip
def test_settings_change_the_file(settings, found):
    assert found(load(ROOT / "configs" / "tiny.yaml", settings))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("train.stepz=3", "--set train.stepz=3: 'train.stepz' is unknown; did you mean 'steps'?"),
        ("train.steps=many", "--set train.steps=many: 'train.steps' must be a whole number, got 'many'"),
        ("train.steps", "--set train.steps: must be section.key=value"),
        ("train.steps.x=1", "'train.steps' is a value, not a section"),
        ("train.steps=[", "not valid YAML"),
        ("evaluate.sets=[]", "'evaluate.sets' must name at least one set"),
        ("train.contexts=9", "--set train.contexts=9: 'train.contexts' (9) must be a multiple of"),
    ],
)
def test_settings_are_checked_as_the_file_is(setting, said):
    with pytest.raises(InputError) as error:
        load(ROOT / "configs" / "tiny.yaml", [setting])
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("train: {recipe: cobolt}", "'train.recipe' must be one of cobalt,"),
        ("train: {steps: 3, epochs: 2}", "either 'train.steps' or 'train.epochs'"),
        ("train: {perturbed_share: 0.5}", "belongs to recipe cobalt_ptb"),
        ("train: {recipe: offline_rl}\ncollect: {samples: 2}", "needs 'collect.samples' of at least 4"),
        ("train: {lora_rank: 8}", "'train.lora_rank' needs 'train.profile' gpu"),
        ("train: {gpus: 2}", "'train.gpus' does not go with 'train.profile' cpu"),
        ("train: {recipe: single_turn_grpo}", "switch the control off"),
        ("model: {engine: vllm}", "engine vllm reserves GPUs, but 'train.profile' is cpu"),
        ("model: {engine: openai, trained_engine: transformers}", "'model.base_url' is missing"),
        ("model: {engine: litellm}", "'model.trained_engine' is missing"),
        ("model: {engine: vllm, base_url: 'http://x'}", "'model.trained_engine' is missing"),
        ("model: {base_url: 'http://x'}", "does not go with engine transformers"),
        ("model: {served_name: x}", "is the model's name at 'model.base_url', which is missing"),
        ("model: {engine: vllm}\nexecution: {serving: {command: [a, '{prot}']}}", "cannot fill in 'prot'"),
        ("model: {engine: vllm}\nexecution: {serving: {command: [a]}}", "must name {port}"),
        ("tasks: {family: taco}", "'tasks.source' is missing"),
        ("tasks: {family: taco, source: a/b, heldout: 5}", "family taco has no held-out split"),
        ("tasks: {source: a/b}", "'tasks.source' belongs to family taco"),
        ("tasks: {family: stored}\ntrain: {recipe: offline_rl}", "'tasks.source' is missing"),
        ("tasks: {family: stored, source: x}", "need 'train.recipe' offline_rl or rejection_sft"),
        ("tasks: {submissions: 8}", "need 'train.recipe' offline_rl or rejection_sft"),
        ("tasks: {family: files, submissions: 8}", "made up for family tiny, not for files"),
        (
            "tasks: {family: stored, source: x}\ntrain: {recipe: offline_rl}",
            "'controls.single_turn_training' needs tasks to train on",
        ),
        (
            "tasks: {family: stored, source: x}\ntrain: {recipe: offline_rl}\n"
            "controls: {single_turn_training: false}",
            "there is no split heldout (tasks: none)",
        ),
        (
            "tasks: {family: stored, source: x, train_file: y}\ntrain: {recipe: offline_rl}\n"
            "controls: {single_turn_training: false}",
            "belongs to family files, not to stored",
        ),
        ("tasks: {family: files}", "'tasks.train_file' is missing"),
        ("tasks: {train_file: x}", "belongs to family files, not to tiny"),
        ("tasks: {family: taco, source: a/b}", "there is no split heldout (tasks: train, dev)"),
        ("evaluate: {sets: [{name: a}, {name: a}]}", "two sets are named 'a'"),
        ("evaluate: {sets: [{name: ../a}]}", "'evaluate.sets.0.name' must be letters"),
        ("evaluate: {sets: [{name: a, kind: livecodebench}]}", "needs a release file or hub name"),
        ("contexts: {partial: false, selection: all}", "has no effect when 'contexts.partial' is false"),
    ],
)
def test_rules_across_fields(tmp_path, text, said):
    assert said in refusal(tmp_path, f"name: x\n{text}\n")


def test_a_broken_rule_names_the_line_of_its_field(tmp_path):
    assert ":4: 'train.contexts' (9)" in refusal(tmp_path, "name: x\ntrain:\n  steps: 3\n  contexts: 9\n")


def test_files_that_are_named_must_be_there(tmp_path):
    model = f"model: {{path: {ROOT / 'models' / 'tiny-reference'}}}\n"
    path = written(tmp_path, f"name: x\n{model}evaluate: {{sets: [{{name: a, source: gone.jsonl}}]}}\n")
    with pytest.raises(
        InputError, match=r"'evaluate\.sets\.0\.source' is .*gone\.jsonl, which does not exist"
    ):
        load(path)
    (tmp_path / "gone.jsonl").write_text("")
    assert load(path).evaluate.sets[0].source == "gone.jsonl"
    path = written(tmp_path, "name: x\nmodel: {path: owner/name}\n")
    with pytest.raises(InputError, match=r"a name on the hub; 'train\.profile' cpu needs a folder"):
        load(path)


def test_a_recipe_may_be_a_file(tmp_path):
    model = f"model: {{path: {ROOT / 'models' / 'tiny-reference'}}}\n"
    path = written(tmp_path, f"name: x\n{model}train: {{recipe: mine.yaml}}\n")
    with pytest.raises(InputError, match=r"'train\.recipe' is .*mine\.yaml, which does not exist"):
        load(path)
    (tmp_path / "mine.yaml").write_text("cobalt: {}\n")
    assert load(path).train.recipe == "mine.yaml"
