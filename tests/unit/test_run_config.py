"""Configuration files: what is accepted, and what every refusal says."""

from dataclasses import asdict
from pathlib import Path

import pytest

from cobalt.errors import InputError
from cobalt.run import config as configs
from cobalt.run import schema

ROOT = Path(__file__).parents[2]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "run.yaml"
    path.write_text(text)
    return path


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(InputError) as error:
        schema.load(written(tmp_path, text), configs.Config)
    return str(error.value)


def test_the_demo_is_valid_and_states_every_default():
    config = schema.load(ROOT / "configs" / "tiny.yaml", configs.Config)
    assert config.name == "tiny"
    assert (config.train.steps, config.train.contexts, config.train.completions) == (60, 16, 8)
    assert config.evaluate.turns == 3 and config.tasks.heldout >= 300
    assert isinstance(config.train.learning_rate, float)


def test_what_is_left_out_has_its_default(tmp_path):
    config = schema.load(written(tmp_path, "name: x\ntasks: {train: 10}\n"), configs.Config)
    assert config.tasks.train == 10 and config.tasks.heldout == 300
    assert asdict(config) == asdict(configs.Config(name="x", tasks=configs.Tasks(train=10)))


def test_numbers_as_people_write_them(tmp_path):
    config = schema.load(written(tmp_path, "name: x\ntrain: {learning_rate: 4e-4}\n"), configs.Config)
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
    config = schema.load(written(tmp_path, "name: x\nexecution: {workers: null}\n"), configs.Config)
    assert config.execution.workers is None


def test_a_missing_file_or_model_is_said(tmp_path):
    with pytest.raises(InputError, match=r"cannot read .*nowhere\.yaml"):
        configs.load(tmp_path / "nowhere.yaml")
    path = written(tmp_path, "name: x\nmodel: {path: no_model}\n")
    with pytest.raises(InputError, match=r"holds no model .*train_tiny_reference\.sh"):
        configs.load(path)
