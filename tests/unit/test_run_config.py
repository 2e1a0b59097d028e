"""Configuration files: what is accepted, and what every refusal says."""

from dataclasses import asdict
from pathlib import Path

import pytest

from cobalt.config.config import Config
from cobalt.config.load import load, parse
from cobalt.config.sections import Contexts
from cobalt.errors import InputError
from cobalt.manifest import flatten

ROOT = Path(__file__).parents[2]
TINY = ROOT / "configs" / "tiny.yaml"
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
MODEL = f"model: {{path: {ROOT / 'models' / 'tiny-reference'}}}\n"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def test_what_is_left_out_has_its_default_and_numbers_are_read_as_people_write_them(tmp_path):
    text = "name: 5\ntasks: {train: 10}\ntrain: {learning_rate: 4e-4}\nexecution: {workers: null}\n"
    config = parse(written(tmp_path, text))
    assert (config.name, config.tasks.train, config.tasks.heldout) == ("5", 10, 300)
    assert (config.evaluate.turns, config.perturb.limit, config.execution.workers) == (3, 40, None)
    assert config.train.learning_rate == 4e-4


FORMS = [
    ("name: x\ntasks:\n  trian: 3\n", ":3: 'tasks.trian' is unknown; did you mean 'train'?"),
    ("name: x\nwibble: 3\n", ":2: 'wibble' is unknown; known keys: name, schema, tasks"),
    ("name: x\ntrain: {steps: 0}\n", ":2: 'train.steps' must be greater than or equal to 1, got 0"),
    ("name: x\nsampling: {top_p: 1.5}\n", "'sampling.top_p' must be less than or equal to 1"),
    ("name: x\ntrain: {steps: 1.5}\n", "'train.steps' must be a valid integer, got 1.5"),
    ("name: x\ntrain: {learning_rate: fast}\n", "'train.learning_rate' must be a valid number, got 'fast'"),
    ("name: x\ncontrols: {blank_feedback: 1}\n", "'controls.blank_feedback' must be a valid boolean"),
    ("name: x\ntrain: {profile: cpus}\n", "'train.profile' must be 'cpu' or 'gpu', got 'cpus'"),
    ("name: x\ntrain: {overrides: a=1}\n", "'train.overrides' must be a valid list"),
    ("name: x\ntrain: {contexts: }\n", "'train.contexts' must be a valid integer"),
    ("name: x\ntasks: 5\n", ":2: 'tasks' must be a mapping of family, train, dev, heldout"),
    ("name: x\nname: y\n", ":2: 'name' is given twice"),
    ("tasks: {train: 5}\n", "'name' is missing"),
    ("name: x\n tasks: [\n", "not valid YAML"),
    ("- 1\n", "must be a mapping"),
    ("", "the file is empty"),
]
OFFLINE = "tasks: {family: stored, source: x}\ntrain: {recipe: offline_rl}"
RULES = [
    (
        "train:\n  steps: 3\n  contexts: 9\n  mini_batches: 2",
        ":4: 'train.contexts' (9) must be a multiple of",
    ),
    ("train: {recipe: cobolt}", "'train.recipe' must be one of cobalt,"),
    ("train: {steps: 3, epochs: 2}", "either 'train.steps' or 'train.epochs'"),
    ("train: {perturbed_share: 0.5}", "belongs to recipes that mix them in"),
    (
        "tasks: {version: 2, submissions: 8}\ntrain: {recipe: offline_rl}",
        "'tasks.version' 2 belongs to family tiny",
    ),
    ("train: {perturbed_kind: one_off}", "belongs to recipes that mix them in"),
    (
        "hack_analysis: {judge: {engine: openai, base_url: 'http://h/v1'}}",
        "judge.model' is missing, which engine",
    ),
    ("train: {reward_profile: ''}", "'train.reward_profile' must not be empty"),
    ("train: {recipe: offline_rl}\ncollect: {samples: 2}", "needs 'collect.samples' of at least 4"),
    ("train: {lora_rank: 8}", "'train.lora_rank' needs 'train.profile' gpu"),
    ("train: {gpus: 2}", "'train.gpus' does not go with 'train.profile' cpu"),
    ("train: {recipe: single_turn_grpo}", "switch the control off"),
    ("model: {engine: vllm}", "engine vllm reserves GPUs, but 'train.profile' is cpu"),
    ("model: {engine: openai, trained_engine: transformers}", "'model.base_url' is missing"),
    (
        "model: {engine: lama}",
        "'model.engine' must be one of vllm, openai, litellm, transformers, or FILE.py",
    ),
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
    (OFFLINE, "'controls.single_turn_training' needs tasks to train on"),
    (f"{OFFLINE}\ncontrols: {{single_turn_training: false}}", "there is no split heldout (tasks: none)"),
    ("tasks: {family: files}", "'tasks.train_file' is missing"),
    ("tasks: {family: files, train_file: a, dev_file: b, heldout: 5}", "without 'tasks.heldout_file'"),
    ("tasks: {train_file: x}", "belongs to family files, not to tiny"),
    ("tasks: {family: taco, source: a/b}", "there is no split heldout (tasks: train, dev)"),
    ("evaluate: {sets: []}", "'evaluate.sets' must name at least one set"),
    ("evaluate: {sets: [{name: a}, {name: a}]}", "two sets are named 'a'"),
    ("evaluate: {sets: [{name: ../a}]}", "'evaluate.sets.0.name' must be letters"),
    ("evaluate: {sets: [{name: a, kind: livecodebench}]}", "needs a release file or hub name"),
    ("contexts: {partial: false, selection: all}", "has no effect when 'contexts.partial' is false"),
]


@pytest.mark.parametrize(("text", "said"), [*FORMS, *((f"name: x\n{text}\n", said) for text, said in RULES)])
def test_refusals_name_the_place_and_what_would_do(tmp_path, text, said):
    with pytest.raises(InputError) as error:
        parse(written(tmp_path, text))
    message = str(error.value)
    assert said in message and message.startswith(str(tmp_path / "run.yaml"))


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        (["train.steps=3"], lambda c: c.train.steps == 3),
        (["train.learning_rate=1e-3", "name=b"], lambda c: (c.train.learning_rate, c.name) == (1e-3, "b")),
        (["perturb=null"], lambda c: c.perturb is None),
        (["evaluate.sets=[{name: a}, {name: b, source: dev}]", "evaluate.sets.1.samples=4"],
         lambda c: (c.evaluate.sets[1].source, c.evaluate.sets[1].samples) == ("dev", 4)),
        (["train.stepz=3"], "--set train.stepz=3: 'train.stepz' is unknown; did you mean 'steps'?"),
        (["train.steps=many"], "--set train.steps=many: 'train.steps' must be a valid integer, got 'many'"),
        (["train.steps"], "--set train.steps: must be section.key=value"),
        (["train.steps.x=1"], "'train.steps' is a value, not a section"),
        (["evaluate.sets.3.name=x"], "the list has 1 items"),
        (["train.steps=["], "not valid YAML"),
        (["train.contexts=9"], "--set train.contexts=9: 'train.contexts' (9) must be a multiple of"),
    ],
)  # fmt: skip
def test_settings_change_the_file_and_are_checked_as_it_is(settings, found):
    if callable(found):
        assert found(load(TINY, settings))
        return
    with pytest.raises(InputError) as error:
        load(TINY, settings)
    assert found in str(error.value)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_configuration_is_valid_also_made_small(path):
    whole, small = load(path), load(path, smoke=True)
    assert whole.name == small.name == path.stem
    family = "files" if whole.tasks.family == "files" else "tiny"
    assert (small.tasks.family, small.model.engine, small.train.profile) == (family, "transformers", "cpu")

    def kept(config: Config):
        names = [each.name for each in config.evaluate.sets]
        return (config.validates_on_trajectories, config.collected, config.train.recipe, names,
                config.contexts.policy, config.perturb is None)  # fmt: skip

    assert kept(whole) == kept(small)


@pytest.mark.parametrize("name", ["qwen3-8b", "r1-distill-llama-8b"])
def test_the_papers_settings_and_the_released_configurations(name):
    config, released = (load(ROOT / "configs" / f"{each}.yaml") for each in (name, f"{name}-released"))
    train, sampling = config.train, config.sampling
    assert (train.contexts, train.completions, train.contexts // train.mini_batches) == (128, 16, 64)
    sizes = (train.learning_rate, train.max_prompt_tokens, train.max_response_tokens)
    assert sizes == (1e-6, 10240, 6144)
    assert (sampling.temperature, sampling.top_p, sampling.max_tokens) == (0.6, 0.95, 6144)
    assert (config.collect.samples, config.collect.turns) == (16, 3)
    assert (config.evaluate.samples, config.evaluate.turns) == (16, 9)
    assert config.contexts == Contexts(max_prompt_tokens=10000)
    old, new = flatten(asdict(config)), flatten(asdict(released))
    differing = {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
    tasks = {f"tasks.{each}" for each in ("family", "source", "train_file", "dev_file", "dev")}
    assert differing == {"name", "collect.trajectories", "perturb.source", *tasks}
    assert (config.collected, released.collected) == (["train", "dev"], ["dev"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("model: {path: no_model}\n", r"holds no model .*train_tiny_reference\.sh"),
        ("model: {path: owner/name}\n", r"a name on the hub; 'train\.profile' cpu needs a folder"),
        (MODEL + "evaluate: {sets: [{name: a, source: gone.jsonl}]}\n",
         r"'evaluate\.sets\.0\.source' is .*gone\.jsonl, which does not exist"),
        (MODEL + "train: {recipe: gone.yaml}\n", r"'train\.recipe' is .*gone\.yaml, which does not exist"),
    ],
)  # fmt: skip
def test_what_is_named_must_be_there(tmp_path, text, said):
    with pytest.raises(InputError, match=said):
        load(written(tmp_path, f"name: x\n{text}"))
    (tmp_path / "gone.jsonl").write_text("")
    (tmp_path / "gone.yaml").write_text("cobalt: {}\n")
    if "gone" in text:
        load(written(tmp_path, f"name: x\n{text}"))
    with pytest.raises(InputError, match=r"cannot read .*nowhere\.yaml"):
        load(tmp_path / "nowhere.yaml")
