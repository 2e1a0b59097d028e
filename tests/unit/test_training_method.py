"""The functions of a recipe: what they are given, what they may return, where they are looked for."""

from __future__ import annotations

import ast
import asyncio
import json
from pathlib import Path

import pytest
from test_training_scoring import ANSWER, NO_CODE, RIGHT, TESTS, Scripted, verdict

from cobalt.config import recipes
from cobalt.config.load import load as load_config
from cobalt.errors import InputError
from cobalt.own import load
from cobalt.prompts import load as load_prompts
from cobalt.rewards.cobalt import PLAIN, PUBLISHED, shaped_reward
from cobalt.run.functions import functions
from cobalt.text import load_tokenizer
from cobalt.training import method, reward
from cobalt.training.config import check_own, choices, compose
from cobalt.training.dialogue import Dialogue, Judge
from cobalt.training.scoring import Scorer, batch_metrics

ROOT = Path(__file__).parents[2]
ROW = {
    "raw_prompt": [{"role": "user", "content": "Do it."}], "prompt": [{"role": "user", "content": "Do it."}],
    "extra_info": {"split": "train", "index": 7, "prev_best_pass_rate": 0.5},
    "reward_model": {"ground_truth": json.dumps(TESTS)},
}  # fmt: skip


@pytest.fixture(autouse=True)
def nothing_said_before(monkeypatch):
    monkeypatch.setattr(reward, "first_refusal", [])


def own(folder, code, name="reward", **constants):
    (folder / "mine.py").write_text(code)
    return load(f"{folder}/mine.py:{name}", "cobalt.reward", reward.OFFERED, constants=constants)


def scored(made, *answers, text=ANSWER, row=ROW, **more):
    scorer = Scorer(Scripted(*answers), profile=PLAIN, count_tokens=len, retries=0, reward=made)
    return asyncio.run(scorer.score_row(text, row, **more))


@pytest.mark.parametrize(
    ("code", "total", "parts"),
    [
        ("def reward(completion, result, best): return 0.25 * len(result['passing']) + best", 1.5, {}),
        ("def reward(**all): return len(all) / 10", 1.0, {}),
        ("def reward(messages, info, tests, turn):\n"
         "    return len(messages) + info['index'] + len(tests) + turn", 12, {}),
        ("def reward(pass_rate, weight=2.0): return {'rate': weight * pass_rate, 'form': -0.5}", 1.5,
         {"rate": 2.0, "form": -0.5}),
        ("def reward(result, weight=2.0): result['passing'].clear(); return True", 1.0, {}),
        ("import numpy as np\ndef reward(best): return {'a': np.float32(best)}", 0.5, {"a": 0.5}),
    ],
)  # fmt: skip
def test_a_reward_takes_what_it_names_and_returns_a_number_or_parts(tmp_path, code, total, parts):
    got = scored(own(tmp_path, code), RIGHT)
    assert (got.reward, got.info["shaped"], got.masked) == (total, total, False)
    assert got.passing == (True,) * 4 and {name: got.info[name] for name in parts} == parts
    assert (got.info["has_code"], got.info["failed"], "tier" in got.info) == (1.0, 0.0, False)
    metrics = batch_metrics([got.info, got.info | {"more": 1.0}])  # a part that one of them lacks
    assert all(metrics[f"reward/{name}"] == value for name, value in parts.items())
    assert (metrics["reward/more"], metrics["reward/failed"], metrics["reward/no_code"]) == (0.5, 0.0, 0.0)


def test_a_reward_is_not_asked_in_validation(tmp_path):
    made = own(tmp_path, "def reward(): raise ValueError")
    row = ROW | {"extra_info": {"split": "test"}}
    assert [scored(made, each, row=row).reward for each in (RIGHT, NO_CODE)] == [1.0, 0.0]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("1 / 0", "mine.py:2: cobalt.reward=SPEC: ZeroDivisionError: division by zero"),
        ("exit(3)", "mine.py:2: cobalt.reward=SPEC: SystemExit: 3"),
        ("None", "mine.py:1: cobalt.reward=SPEC: TypeError: returned None, which is no number"),
        ("'1.0'", "mine.py:1: cobalt.reward=SPEC: TypeError: returned '1.0', which is no number"),
        ("float('nan')", "mine.py:1: cobalt.reward=SPEC: returned nan"),
        ("{'a': 1.0, 'b': float('inf')}", "mine.py:1: cobalt.reward=SPEC: returned {'a': 1.0, 'b': inf}"),
        ("{}", "returned {}, which is no number"),
        ("{'acc': 1.0}", "mine.py:1: cobalt.reward=SPEC: returned a part named 'acc', which"),
    ],
)  # fmt: skip
def test_a_sample_without_a_reward_is_masked_and_said_once(tmp_path, capsys, body, said):
    made = own(tmp_path, f"def reward(completion):\n    return {body}\n")
    got = [scored(made, each) for each in (RIGHT, NO_CODE)]
    assert all((each.reward, each.masked, each.info["failed"]) == (0.0, True, 1.0) for each in got)
    assert batch_metrics([each.info for each in got])["reward/failed"] == 2.0
    out = capsys.readouterr().out
    assert out.count("a sample is masked") == 1 and said.replace("SPEC", made.spec) in out
    with pytest.raises(InputError) as error:  # it always occurs
        reward.try_out(made, ROW)
    assert said.replace("SPEC", made.spec) in str(error.value)


def test_a_reward_that_fails_on_some_programs_is_a_warning(tmp_path):
    made = own(tmp_path, "def reward(result, info):\n    return max(result['passing'].index(True), 1)\n")
    notes = reward.try_out(made, ROW)
    assert len(notes) == 2 and all(f"{tmp_path}/mine.py:2: " in each for each in notes)
    assert reward.try_out(reward.built_in(), ROW) == []


def test_the_shaped_reward_stands_on_the_same_door(tmp_path):
    code = (
        "from cobalt.recipes.cobalt import reward as shaped\n"
        "def reward(completion, pass_rate, best, count_tokens, profile):\n"
        "    return shaped(completion, pass_rate, best, count_tokens, profile)"
    )
    for profile in (PLAIN, PUBLISHED):
        for answer in (RIGHT, verdict(True, True, True, False), verdict(False, False, False, False)):
            scorer = Scorer(Scripted(answer, answer), profile=profile, count_tokens=len)
            rate = sum(answer["passing"]) / 4
            direct = shaped_reward(ANSWER, rate, prev_best_pass_rate=0.5, count_tokens=len, profile=profile)
            for scorer.reward in (reward.built_in(), own(tmp_path, code)):
                got = asyncio.run(scorer.score_row(ANSWER, ROW))
                assert got.reward == direct.total and direct.metrics().items() <= got.info.items()
        assert "failed" not in scored(None, RIGHT).info


def test_a_dialogue_says_which_turn_it_is_and_what_was_shown(tmp_path):
    code = "seen = []\ndef reward(turn, messages):\n    return seen.append((turn, len(messages))) or 0.0"
    made = own(tmp_path, code)
    dialogue = Dialogue([1])
    scorer = Scorer(Scripted(RIGHT, RIGHT), profile=PLAIN, count_tokens=len, reward=made)
    judge = Judge(scorer, load_tokenizer(str(ROOT / "models/tiny-reference")), None)
    judge.settings = type("Settings", (), {"turns": 2, "every_turn": True})
    judge._show = lambda *_: _shown(dialogue)
    for _ in range(2):
        dialogue.texts.append(ANSWER)
        asyncio.run(judge.after_turn(dialogue, ROW))
    seen = made.function.__globals__["seen"]
    assert seen == [(0, 1), (1, 3)]


async def _shown(dialogue):
    dialogue.since += [{"role": role, "content": ""} for role in ("assistant", "user")]


PARTS = """
def reward(best, weight=2.0, way="mean", on=True, many=3):
    return best
"""


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"cobalt.reward": "gone.py:reward"}, "reward: there is no file FOLDER/gone.py"),
        ({"cobalt.reward": "parts.py:gone"}, "parts.py has no gone"),
        ({"cobalt.reward": "parts:gone"}, "parts.py has no gone"),
        ({"cobalt.reward": "no_such_module:reward"}, "there is no module no_such_module"),
        ({"cobalt.reward": "parts"}, "cobalt.reward=parts: must be FILE.py:NAME or MODULE:NAME"),
        ({"cobalt.reward": "5"}, "cobalt.reward=5: must be FILE.py:NAME or MODULE:NAME"),
        ({"cobalt.reward": "broken.py:reward"}, "FOLDER/broken.py:2: cannot be imported: NameError"),
        ({"cobalt.reward": "syntax.py:reward"}, "FOLDER/syntax.py:1: cannot be imported: SyntaxError"),
        ({"cobalt.reward": "parts.py:__doc__"}, "is no function"),
        ({"cobalt.reward": "wants.py:reward"}, "FOLDER/wants.py:1: cobalt.reward=FOLDER/wants.py:reward: "
         "there is no 'passed' to give it; it may take completion, result, best, messages, info, tests"),
        ({"cobalt.constants.weigth": "3"}, "constants.weigth: no function of the recipe has it; did you mean "
         "'weight'?"),
        ({"cobalt.constants": "{nothing: 1}"}, "there are: weight, way, on, many"),
        ({"cobalt.constants.weight": "much"}, "constants.weight: must be a number (it is 2.0 otherwise)"),
        ({"cobalt.constants.way": "true"}, "cobalt.constants.way: must be text"),
        ({"cobalt.constants.on": "1"}, "cobalt.constants.on: must be true or false"),
        ({"cobalt.constants.many": "2.5"}, "cobalt.constants.many: must be a whole number"),
        ({"cobalt.trains_on": "context"}, "trains_on=context: must be one of contexts, statements, stored"),
        ({"cobalt.trains_on": "stored"}, "and one of stored, revisions where cobalt.method is offline"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_before_anything_starts(tmp_path, settings, said):
    for name, text in (("parts", PARTS), ("broken", "\nnothing"), ("syntax", "def"),
                       ("wants", "def reward(passed): return 1.0")):  # fmt: skip
        (tmp_path / f"{name}.py").write_text(text)
    recipe = {"cobalt.reward": "parts.py:reward"} | settings
    given = recipe["cobalt.reward"]
    (tmp_path / "mine.yaml").write_text(f"defaults: [cobalt]\ncobalt: {{reward: {given}}}\n")
    overrides = [f"{key}={value}" for key, value in settings.items() if key != "cobalt.reward"]
    with pytest.raises(InputError) as error:
        method.check(compose(str(tmp_path / "mine.yaml"), "cpu", "tiny", {}, overrides))
    assert said.replace("FOLDER", str(tmp_path)) in str(error.value)


def test_files_are_meant_from_the_recipe_and_on_the_command_line_from_here(tmp_path, monkeypatch):
    for folder in ("recipe", "here"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "parts.py").write_text(PARTS + f"# {folder}")
    text = "defaults: [mt_grpo]\ncobalt: {reward: 'parts.py:reward', constants: {weight: 3, way: sum}}\n"
    (tmp_path / "recipe" / "mine.yaml").write_text(text)
    monkeypatch.chdir(tmp_path / "here")

    def found(*overrides):
        config = compose("../recipe/mine.yaml", "cpu", "tiny", {}, overrides)
        return config, method.check(config)["reward"]

    config, made = found()
    assert made.spec == config.cobalt.reward == f"{tmp_path}/recipe/parts.py:reward"
    assert made.constants == {"weight": 3, "way": "sum"} and config.cobalt.trains_on == "statements"
    recorded = config.cobalt.functions.reward
    assert recorded.where == f"{tmp_path}/recipe/parts.py:2" and recorded.sha256 == made.sha256
    config, made = found("cobalt.reward=parts.py:reward", "cobalt.constants.weight=4")
    assert made.spec == f"{tmp_path}/here/parts.py:reward" and made.constants == {"weight": 4, "way": "sum"}
    config, made = found("cobalt.reward=parts:reward")
    assert made.where == f"{tmp_path}/recipe/parts.py:2"
    assert config.cobalt.functions.reward.function == "parts:reward"


def test_what_fits_the_base_to_a_scale_fits_the_recipe(tmp_path):
    (tmp_path / "mine.yaml").write_text("defaults: [mt_grpo]\ncobalt: {dialogue: {turns: 2}}\n")
    (tmp_path / "short.yaml").write_text("defaults: [mt_grpo]\ncobalt: {dialogue: {max_turn_tokens: 9}}\n")
    for name, sizes in (("mine", (2, 64, 320)), ("short", (3, 9, 320))):
        path = str(tmp_path / f"{name}.yaml")
        config, plain = compose(path, "cpu", "tiny", {}), recipes.read(path, "cpu", "tiny")
        dialogue = config.cobalt.dialogue
        assert (dialogue.turns, dialogue.max_turn_tokens, config.data.max_response_length) == sizes
        assert (recipes.program_tokens(plain), plain.number("data.max_response_length", 0)) == sizes[1:]


def test_the_built_in_recipes_say_what_they_train_on():
    said = {name: recipes.read(name, "cpu", "tiny").text("cobalt.trains_on") for name in choices("recipe")}
    assert said == {
        "cobalt": "contexts", "cobalt_ptb": "contexts", "mt_grpo": "statements", "verpo": "statements",
        "single_turn_grpo": "statements", "offline_rl": "stored", "rejection_sft": "stored",
        "cocos": "statements", "dr_grpo": "contexts", "dynamic_sampling": "contexts", "echo": "statements",
        "maxrl": "contexts", "murphy": "statements", "noise_corrected": "contexts", "prefix_rl": "contexts",
        "rloo": "contexts", "rltf_sd": "revisions",
    }  # fmt: skip


def test_no_recipe_is_known_by_its_name():
    """A string that is a recipe's name stands in one place: the words of the published scripts."""
    names, found = {*choices("recipe")} - {"cobalt"}, []
    for path in (ROOT / "cobalt").rglob("*.py"):
        if path.parent.name != "recipes":
            texts = (each for each in ast.walk(ast.parse(path.read_text())) if isinstance(each, ast.Constant))
            found += [(path.name, each.value) for each in texts if each.value in names]
    assert found == [("config.py", "single_turn_grpo")]


ALL = """
def feedback(result): return "Again."
def contexts(task): return [(0, 0)]
class Environment:
    def accepts(self, input, output, run): return True
"""


def test_modules_beside_the_recipe_are_found_for_every_key(tmp_path):
    """In a process that has not the recipe's folder in its path."""
    (tmp_path / "all_of_them.py").write_text(ALL)
    text = "defaults: [cobalt]\ncobalt:\n" + "".join(
        f"  {key}: all_of_them:{name}\n"
        for key, name in (("feedback", "feedback"), ("contexts", "contexts"), ("environment", "Environment"))
    )
    (tmp_path / "mine.yaml").write_text(text)
    config = compose(str(tmp_path / "mine.yaml"), "cpu", "tiny", {})
    method.check(config)
    notes = check_own(method.with_files(config))
    places = [f"({tmp_path}/all_of_them.py:{line}, " for line in (2, 3, 4)]
    assert all(place in note for place, note in zip(places, notes, strict=True))
    assert config.cobalt.feedback == "all_of_them:feedback"  # for the trainer, which has one module of it
    run = load_config(ROOT / "configs/tiny.yaml", [f"train.recipe={tmp_path}/mine.yaml"])
    found = functions(run, ROOT / "configs/tiny.yaml", load_prompts("tiny"))
    assert [each.where for each in (found.feedback, found.rule)] == [
        f"{tmp_path}/all_of_them.py:{line}" for line in (2, 3)
    ]
    assert found.environment.where == f"{tmp_path}/all_of_them.py:4"
