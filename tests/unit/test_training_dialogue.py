"""Online dialogues: masks cover the policy's tokens and nothing else; feedback, ends, rewards, faults."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from omegaconf import OmegaConf

from cobalt.engines.turn_end import next_turn_ids, turn_end
from cobalt.errors import InfraError, InputError
from cobalt.own import load
from cobalt.prompts import TINY, is_all_passed
from cobalt.rewards.cobalt import PLAIN
from cobalt.rewards.records import Rollout, Turn
from cobalt.training.config import check_own, compose
from cobalt.training.dialogue import Dialogue, DialogueSettings, Judge
from cobalt.training.scoring import Scorer

ROW = {
    "public_test_cases": json.dumps({"inputs": ["1"], "outputs": ["a"]}),
    "reward_model": {"ground_truth": json.dumps({"inputs": ["1", "2"], "outputs": ["a", "b"]})},
    "extra_info": {"split": "train"},
}
SETTINGS = DialogueSettings(
    turns=3, max_turn_tokens=20, response_length=400, reward="last", stop_when_passed=False, prompts=TINY
)


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(Path(__file__).parents[2] / "models" / "tiny-reference")


def program(name):
    return f"```python\nprint({name})\n```"


class Known:
    """An evaluator that knows programs by what they print: ``right`` passes all tests, ``half`` the first,
    others none; ``lost`` has no verdict.
    """

    async def aevaluate(self, code, tests):
        n = len(tests["inputs"]) if isinstance(tests, dict) else len(json.loads(tests)["inputs"])
        if code is None:
            return {"passing": [False] * n, "feedback": ["none"] * n, "status": "no_code", "per_test": []}
        if "lost" in code:
            return {"passing": [], "feedback": [], "status": "infra_error", "per_test": []}
        passing = [("right" in code) or ("half" in code and i == 0) for i in range(n)]
        feedback = ["" if good else "Input:\n1" for good in passing]
        return {"passing": passing, "feedback": feedback, "status": "ok", "per_test": []}


def play(tokenizer, *texts, settings=SETTINGS, ended=True, row=ROW):
    """A dialogue in which the policy writes ``texts``; returns it and its total score."""

    async def run():
        scorer = Scorer(Known(), profile=PLAIN, count_tokens=len, retries=0)
        judge = Judge(scorer, tokenizer, settings)
        dialogue = Dialogue([1, 2, 3])
        for text in texts:
            if dialogue.complete:
                break
            ids = ([7, 8, tokenizer.eos_token_id] if ended else [7, 8])[: dialogue.room(settings)]
            dialogue.add_response(ids, [-0.5] * len(ids), text)
            await judge.after_turn(dialogue, row)
        return dialogue, judge.total(dialogue, validation=row["extra_info"]["split"] == "test")

    return asyncio.run(run())


def test_masks_cover_exactly_the_policys_tokens(tokenizer):
    dialogue, score = play(tokenizer, program("wrong"), program("half"), program("right"))
    assert dialogue.complete and score.reward == 1.0 and score.info["turns"] == 3.0
    policy = [i for end in dialogue.ends for i in range(end - 3, end)]
    assert [i for i, flag in enumerate(dialogue.mask) if flag] == policy
    assert dialogue.logprobs == [-0.5 if i in policy else 0.0 for i in range(len(dialogue.response_ids))]
    assert dialogue.mask[-1] == 1  # nothing follows the last program
    first, second = (
        tokenizer.decode(dialogue.response_ids[begin : end - 3])
        for begin, end in zip(dialogue.ends, dialogue.ends[1:], strict=False)
    )
    assert "Input:" in first and first.rstrip().endswith("assistant") and is_all_passed(second)


@given(st.lists(st.sampled_from(["wrong", "half", "right", None]), min_size=1, max_size=5),
       st.integers(30, 400), st.booleans(), st.booleans())  # fmt: skip
def test_any_dialogue_keeps_its_books(tokenizer, names, room, ended, stop):
    settings = replace(SETTINGS, turns=len(names), response_length=room, stop_when_passed=stop)
    texts = [program(name) if name else "no code" for name in names]
    dialogue, score = play(tokenizer, *texts, settings=settings, ended=ended)
    size = 3 if ended else 2
    assert dialogue.complete and not score.masked
    assert len(dialogue.mask) == len(dialogue.response_ids) == len(dialogue.logprobs) <= room
    written = [min(size, room)] + [size] * (len(dialogue.texts) - 1)
    assert sum(written) - size < sum(dialogue.mask) <= sum(written)  # the last one may have been cut
    assert dialogue.ends[-1] == len(dialogue.response_ids)
    last = names[len(dialogue.texts) - 1]
    assert score.reward == {"wrong": -0.1, "half": 0.2, "right": 1.0, None: -1.0}[last]


def test_ids_are_those_of_the_rendered_conversation(tokenizer):
    def ids(chat, header):
        text = tokenizer.apply_chat_template(chat, add_generation_prompt=header, tokenize=False)
        return tokenizer(text, add_special_tokens=False)["input_ids"]

    answer, message = program(1), TINY.feedback_message("Input:\n1\nExpected Output:\n2")
    opening = [{"role": "system", "content": TINY.system}, {"role": "user", "content": "Read integers."}]
    response = [*tokenizer(answer, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    rest = [{"role": "assistant", "content": answer}, {"role": "user", "content": message}]
    whole = ids([*opening, *rest], True)
    end, last = turn_end(tokenizer), tokenizer.eos_token_id
    assert ids(opening, True) + response + next_turn_ids(tokenizer, message, end, last) == whole
    assert ids(opening, True) + response[:-1] + next_turn_ids(tokenizer, message, end, None) == whole


def test_a_dialogue_may_end_with_a_passed_program(tokenizer):
    settings = replace(SETTINGS, stop_when_passed=True)
    stopped, score = play(tokenizer, program("wrong"), program("half"), settings=settings)
    assert len(stopped.texts) == 2 and score.reward == 0.2  # judged on all tests, not on the public ones


@pytest.mark.parametrize(
    ("kind", "expected"), [("last", -0.1), ("max", 1.0), ("mean", (0.2 + 1.0 - 0.1) / 3)]
)
def test_the_reward_is_of_the_last_program_or_over_turns(tokenizer, kind, expected):
    settings = replace(SETTINGS, reward=kind, every_turn=kind != "last")
    texts = program("half"), program("right"), program("wrong")
    _, score = play(tokenizer, *texts, settings=settings)
    assert score.reward == pytest.approx(expected)
    row = ROW | {"extra_info": {"split": "test"}}
    _, validation = play(tokenizer, *texts, settings=settings, row=row)
    assert validation.reward == 0.0  # of the last program only


def test_every_turn_is_judged_where_dense_rewards_need_it(tokenizer):
    every = replace(SETTINGS, every_turn=True)
    dialogue, score = play(tokenizer, program("half"), "nothing", program("right"), settings=every)
    passing = (True, False), (False, False), (True, True)
    places = zip(dialogue.begins, dialogue.ends, passing, (0.2, -1.0, 1.0), strict=True)
    assert dialogue.record(score, {"prev_best_pass_rate": 0.5, "index": "a"}, 3) == Rollout(
        1.0,
        tuple(Turn(reward, each, begin, end, i) for i, (begin, end, each, reward) in enumerate(places)),
        best=0.5,
        index="a",
    )
    last_only, score = play(tokenizer, program("half"), "nothing", program("right"))
    turns = last_only.record(score, {}, 3).turns
    assert [(turn.reward, turn.passing) for turn in turns] == [(None, ()), (None, ()), (1.0, (True, True))]


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_turn_without_verdict_masks_the_dialogue(tokenizer, place):
    texts = [program("half")] * 3
    texts[place] = program("lost")
    dialogue, score = play(tokenizer, *texts)
    assert dialogue.complete and score.masked and len(dialogue.texts) == place + 1
    with pytest.raises(InfraError, match="validation sample"):
        play(tokenizer, *texts, row=ROW | {"extra_info": {"split": "test"}})


def test_feedback_without_room_for_an_answer_completes(tokenizer):
    little = replace(SETTINGS, response_length=9)
    dialogue, score = play(tokenizer, program("wrong"), program("right"), settings=little)
    assert dialogue.texts == [program("wrong")] and dialogue.mask == [1, 1, 1] and score.reward == -0.1


def test_feedback_of_ones_own_is_shown_and_masks_where_it_fails(tokenizer, tmp_path, capsys):
    file = tmp_path / "own.py"
    file.write_text("def f(code, turn):\n    return f'{turn}!' if 'half' not in str(code) else 5\n")
    own = replace(SETTINGS, feedback=load(f"{file}:f", "cobalt.feedback", ("code", "turn")))
    dialogue, score = play(tokenizer, program("wrong"), program("wrong"), program("right"), settings=own)
    shown = [
        tokenizer.decode(dialogue.response_ids[begin:end]) for begin, end in pairwise((0, *dialogue.ends))
    ]
    assert "0!" in shown[1] and "1!" in shown[2] and not score.masked
    _, score = play(tokenizer, program("half"), program("right"), settings=own)
    assert (
        score.masked
        and f"{file}:1: cobalt.feedback={file}:f: must return text, got 5" in capsys.readouterr().out
    )
    with pytest.raises(InfraError, match="must return text"):
        play(tokenizer, program("half"), settings=own, row=ROW | {"extra_info": {"split": "test"}})


def test_files_of_a_recipe_are_beside_it_and_those_of_overrides_here(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(
        "defaults: [verpo]\ncobalt: {feedback: 'own.py:f', contexts: 'm.n:c'}\n"
    )
    monkeypatch.chdir(tmp_path.parent)
    config = compose(str(tmp_path / "mine.yaml"), "cpu", "tiny", {}, ["cobalt.environment='x.py:E'"])
    assert config.cobalt.feedback == f"{tmp_path}/own.py:f" and config.cobalt.contexts == "m.n:c"
    assert config.cobalt.environment == f"{tmp_path.parent}/x.py:E"
    with pytest.raises(InputError, match=r"cobalt.feedback=.*there is no file"):
        check_own(config)


def test_settings_are_checked():
    config = compose("verpo", "cpu", "tiny", {})
    read = DialogueSettings.read(config)
    assert (read.turns, read.max_turn_tokens, read.response_length, read.every_turn) == (3, 64, 320, True)
    for key, value in (("turns", 0), ("max_turn_tokens", 999), ("reward", "x")):
        wrong = OmegaConf.merge(config, {"cobalt": {"dialogue": {key: value}}})
        with pytest.raises(InputError, match=key):
            DialogueSettings.read(wrong)
