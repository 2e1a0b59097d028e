"""The reward function for TRL by its calling convention; with TRL's own trainer: integration/test_trl.py."""

from __future__ import annotations

import asyncio
import json
import pickle
from types import SimpleNamespace

import pytest

from cobalt.errors import BadRequest, InfraError, InputError
from cobalt.evaluator.base import infra_result
from cobalt.integrations import judging
from cobalt.integrations.trl import code_reward, overlapped, prompts

TESTS = {"inputs": ["1\n", "2\n", "3\n"], "outputs": ["2\n", "3\n", "4\n"]}
RIGHT, HALF, NONE = "print(int(input()) + 1)", "print(2)", "no program"


class Fake:
    """An evaluator whose verdicts are known by program; `fault` has none."""

    def __init__(self):
        self.asked = []

    async def aevaluate(self, code, tests):
        self.asked.append(code)
        if code == "fault":
            return infra_result(3, "gone")
        passing = {RIGHT: [True] * 3, HALF: [True, False, False]}.get(code, [False] * 3)
        each = [{"status": "passed" if good else "wrong_answer", "cpu_s": 0.0} for good in passing]
        return {"passing": passing, "feedback": [""] * 3, "per_test": each, "shared": False,
                "status": "no_code" if code is None else "ok"}  # fmt: skip


@pytest.fixture
def evaluator(monkeypatch):
    made = Fake()
    monkeypatch.setattr(judging, "connect", lambda *_, **__: made)
    return made


def fenced(code):
    return code if code == NONE else f"Here:\n```python\n{code}\n```"


def said(code, **more):
    return [{"role": "assistant", "content": fenced(code), **more}]


def asked(reward, completions, **columns):
    count = len(completions)
    columns = {name: value if isinstance(value, list) else [value] * count for name, value in columns.items()}
    given = {"prompts": ["p"] * count, "completion_ids": [[1]] * count, "trainer_state": None, **columns}
    return asyncio.run(reward(completions=completions, **given))


@pytest.mark.parametrize(
    ("columns", "named", "wanted"),
    [
        ({"test_cases": json.dumps(TESTS)}, {"reward": "passed"}, [1.0, 0.0, 0.0]),
        ({"test_cases": TESTS | {"fn_name": None}}, {"profile": "plain"}, [1.0, 0.0, -1.0]),
        ({"public_test_cases": TESTS, "hidden_test_cases": TESTS, "test_cases": None}, {"reward": "passed"},
         [1.0, 0.0, 0.0]),
        ({"test_cases": TESTS, "prev_best_pass_rate": 0.5}, {"profile": "plain"},
         [1.0, pytest.approx(-0.1 - 0.1 / 3), -1.0]),
        ({"reward_model": {"ground_truth": json.dumps(TESTS)},
          "extra_info": {"split": "train", "prev_best_pass_rate": 0.5}}, {"profile": "plain"},
         [1.0, pytest.approx(-0.1 - 0.1 / 3), -1.0]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", [fenced, said], ids=["text", "messages"])
def test_columns_and_rewards(evaluator, columns, named, wanted, form):
    reward = code_reward(**named)
    assert asked(reward, [form(code) for code in (RIGHT, HALF, NONE)], **columns) == wanted
    assert evaluator.asked == [RIGHT, HALF, None]


def test_ids_find_the_tests_of_a_file(evaluator, tmp_path):
    file = tmp_path / "tasks.jsonl"
    task = {"id": 0, "question": "add one", "test_cases": TESTS | {"inputs": ["1", "2", "3"]}}
    file.write_text(json.dumps(task | {"public_test_cases": {"inputs": ["1"], "outputs": ["2\n"]}}) + "\n")
    (row,) = prompts(str(file), "tiny")
    assert row["id"] == 0 and row["prompt"][1] == {"role": "user", "content": "add one"}
    reward = code_reward(str(file), reward="passed")
    other = {"ground_truth": TESTS | {"outputs": ["", "", ""]}}  # the file counts
    assert asked(pickle.loads(pickle.dumps(reward)), [said(RIGHT)], id=0, reward_model=other) == [1.0]
    for columns, message in (
        ({"id": "0"}, r"task '0': .*tasks.jsonl has no task of this id"),
        ({"test_cases": TESTS}, "column of the dataset: 'id' must be"),
    ):
        with pytest.raises(InputError, match=message):
            asked(reward, [said(RIGHT)], **columns)


def test_own_rewards_thinking_and_parts(evaluator, tmp_path):
    (tmp_path / "mine.py").write_text(
        "def reward(completion, messages, info, price=0.5):\n"
        "    return {'length': price * len(completion), 'shown': len(messages), 'x': info['x']}\n"
    )
    parts = [{"type": "text", "text": "ab"}, {"type": "image"}]
    thought = {"role": "assistant", "content": "b", "reasoning_content": "a"}
    given = [[thought], [{"role": "assistant", "content": parts}], [{"role": "assistant", "content": None}]]
    reward = code_reward(reward=f"{tmp_path}/mine.py:reward")
    length = len("a</think>\nb")
    assert asked(reward, given, test_cases=TESTS, x=2) == [length / 2 + 3, 4.0, 3.0]


@pytest.mark.parametrize(
    ("columns", "error", "message"),
    [
        ({"id": 7}, InputError, "task 7: field 'test_cases' is missing"),
        ({"public_test_cases": TESTS}, InputError, "completion 0: field 'test_cases' is missing"),
        ({"test_cases": '{"inputs": []}'}, BadRequest, "field 'test_cases': 'outputs' is missing"),
        ({"test_cases": {"inputs": [], "outputs": []}}, InputError, "field 'test_cases' holds no tests"),
        ({"test_cases": TESTS, "prev_best_pass_rate": 2}, InputError, r"must be in \[0, 1\], got 2"),
        ({"test_cases": TESTS, "extra_info": "text"}, InputError, "'extra_info' must be an object"),
        ({"reward_model": {"style": "rule"}}, InputError, "'test_cases' is missing"),
    ],
)
def test_wrong_columns_are_named(evaluator, columns, error, message):
    with pytest.raises(error, match=message):
        asked(code_reward(reward="passed"), [fenced(RIGHT)], **columns)


@pytest.mark.parametrize(
    ("named", "message"),
    [
        ({"reward": "best"}, "reward=best: must be FILE.py:NAME"),
        ({"profile": "best"}, "reward profile 'best' is unknown"),
        ({"max_masked_share": 2}, r"max_masked_share must be in \[0, 1\]"),
        ({"tasks": "absent.jsonl"}, "cannot read absent.jsonl"),
        ({"evaluator": "nowhere", "reward": "passed"}, "must be auto, local"),
    ],
)
def test_wrong_arguments_are_refused(named, message):
    with pytest.raises(InputError, match=message):
        code_reward(**named)
    with pytest.raises(InputError, match="needs a GRPOTrainer whose reward_funcs have a code_reward"):
        overlapped(SimpleNamespace(reward_funcs=[len]))


@pytest.mark.parametrize(("share", "others", "lost"), [(0.5, 0, 2), (0.1, 0, 1), (0.5, 1, 1)])
def test_a_fault_is_none_or_ends_the_training(evaluator, share, others, lost):
    reward, logged = code_reward(reward="passed", max_masked_share=share), {}

    class Trainer:
        reward_funcs = [reward] + [len] * others

        def log_metric(self, name, value):
            logged[name] = value

    completions = [fenced("fault")] * lost + [fenced(RIGHT), fenced(HALF)]
    count = len(completions)
    given = {"prompts": ["p"] * count, "completions": completions, "test_cases": [TESTS] * count}
    call = reward(**given, log_metric=Trainer().log_metric)
    if share == 0.5 and not others:
        assert asyncio.run(call) == [None, None, 1.0, 0.0]
        assert logged["reward/pass_rate"] == pytest.approx(2 / 3) and logged["reward/infra_errors"] == 4
    else:
        with pytest.raises(InfraError, match=f"{lost} of {count} completions have no verdict"):
            asyncio.run(call)
