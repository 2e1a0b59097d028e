"""Stored groups and the loss on them, against hand-computed values."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf

from cobalt.errors import InputError
from cobalt.recipes.offline_rl import rewards_of
from cobalt.training import offline_data
from cobalt.training.offline import batches, collate, encode
from cobalt.training.offline_data import Group, check_groups, stored_groups
from cobalt.training.sharded import CHUNK, Weighted, token_losses

RIGHT = {"text": "```python\na\n```", "pass_rate": 1.0}
WRONG = {"text": "```python\nbb\n```", "pass_rate": 0.5}
MODEL = Path(__file__).parents[2] / "models" / "tiny-reference"


def asks(text):
    return [{"role": "user", "content": text}]


PROMPT = asks("p")


def settings(**changes):
    values = {
        "objective": "rloo", "group_size": 4, "temperature": 1.0, "clip": 5.0, "reward": "correctness",
        "keep": 1, "syntax_cost": 0.1, "time_cost": 0.2,
    }  # fmt: skip
    return OmegaConf.create({"cobalt": {"offline": values | changes}})


def write(path, *rows):
    """A file with (prompt, completions) in its rows."""
    columns = [{"prompt": prompt, "completions": c, "extra_info": {"split": "train"}} for prompt, c in rows]
    pd.DataFrame(columns).to_parquet(path)
    return path


def test_groups_carry_the_objectives_weights(tmp_path):
    groups = [RIGHT, WRONG, WRONG], [WRONG, WRONG], [RIGHT, RIGHT]
    path = write(tmp_path / "g.parquet", *((PROMPT, group) for group in groups))
    (group,) = check_groups(path, settings())  # groups without a difference teach nothing
    assert group.rewards == [1.0, 0.0, 0.0]
    for changes, weights in (
        ({}, [1.0, -0.5, -0.5]),
        ({"objective": "grpo"}, [2 / math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3)]),
        ({"objective": "exponential", "temperature": 0.5, "clip": 4.0}, [4.0, math.exp(-1), math.exp(-1)]),
    ):
        (group,) = check_groups(path, settings(**changes))
        assert group.weights == pytest.approx(weights, abs=1e-5)


def test_the_best_are_kept_per_prompt_whatever_rows_they_are_in(tmp_path):
    long, longer = RIGHT | {"text": "```python\nlong\n```"}, RIGHT | {"text": "```python\nlonger\n```"}
    rows = (
        (PROMPT, [longer, WRONG]),
        (PROMPT, [long, RIGHT, RIGHT]),
        (asks("q"), [RIGHT]),
        (asks("r"), [WRONG]),
    )
    path, texts = write(tmp_path / "g.parquet", *rows), [each["text"] for each in (RIGHT, long, longer)]
    for keep in (1, 2, 9):
        found = check_groups(path, settings(objective="sft", keep=keep))
        kept = [(group.prompt, group.texts) for group in found]
        assert kept == [(PROMPT, texts[:keep]), (asks("q"), texts[:1])]


def rewards(kind, *items):
    return rewards_of([RIGHT | item for item in items], settings(reward=kind).cobalt.offline)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("correctness", [1.0, 0.0, 0.0, 0.0]), ("pass_rate", [1.0, 0.5, 0.25, 0.0]),
        ("shaped", [1.0, 0.2, 0.0, -0.1]),
    ],
)  # fmt: skip
def test_rewards_of_stored_completions(kind, expected):
    assert rewards(kind, *({"pass_rate": rate} for rate in (1.0, 0.5, 0.25, 0.0))) == expected
    assert rewards("shaped", {"text": "no code", "pass_rate": 0.0}) == [-1.0]


def test_graded_rewards_of_stored_completions():
    right = [{"cpu_time": 40}, {"cpu_time": 80}, {"cpu_time": -1}, {"cpu_time": 3}, {}]
    wrong = [
        {"status": "Compile Error", "cpu_time": 1}, {"status": "Wrong Answer", "parses": False},
        {"status": "Time Limit Exceeded", "cpu_time": 9000}, {"status": "Runtime Error"},
    ]  # fmt: skip
    found = rewards("graded", *right, *(item | {"pass_rate": 0.0} for item in wrong))
    # fastest: 3 ms, counted as the 10 that judges round to
    assert found == pytest.approx([0.85, 0.825, 1.0, 1.0, 1.0, -0.1, -0.1, 0.0, 0.0])


@pytest.mark.parametrize(
    ("prompt", "completions", "changes", "said"),
    [
        (PROMPT, [RIGHT | {"pass_rate": 2.0}], {}, "row 0: 'completions' must hold 'text' and 'pass_rate'"),
        (PROMPT, ["x"], {}, "row 0: 'completions' must hold 'text' and 'pass_rate'"),
        (
            PROMPT,
            [RIGHT | {"cpu_time": "1"}, WRONG],
            {},
            "row 0: 'cpu_time' of a completion must be a number",
        ),
        (PROMPT, [], {}, "row 0: field 'completions' must be a list"),
        ("p", [RIGHT], {}, "row 0: field 'prompt' must be a list of messages"),
        (PROMPT, [RIGHT, RIGHT], {}, "no group has right and wrong completions"),
        (PROMPT, [WRONG], {"objective": "sft"}, "no right completion"),
        (PROMPT, [RIGHT], {"objective": "ppo"}, "objective must be one of rloo"),
        (PROMPT, [RIGHT], {"temperature": 0.0}, r"cobalt\.offline\.temperature must be positive"),
        (PROMPT, [RIGHT], {"clip": -1.0}, r"cobalt\.offline\.clip must be positive"),
    ],
)
def test_bad_groups_are_named(tmp_path, prompt, completions, changes, said):
    with pytest.raises(InputError, match=said):
        check_groups(write(tmp_path / "a.parquet", (prompt, completions)), settings(**changes))


def test_a_file_without_the_columns_is_named(tmp_path):
    pd.DataFrame([{"prompt": PROMPT}]).to_parquet(tmp_path / "d.parquet")
    with pytest.raises(InputError, match="column completions, extra_info missing"):
        check_groups(tmp_path / "d.parquet", settings())


def row(key, *passing):
    return {
        "id": key, "instruction": "i", "responses": [f"```python\n{i}\n```" for i in range(len(passing))],
        "exec_results": [{"passing": [good, True], "status": "ok"} for good in passing],
    }  # fmt: skip


def made(*rows, size=4):
    places = ((f"f:{i}", row) for i, row in enumerate(rows))
    return list(stored_groups(places, lambda _: PROMPT, size=size, seed=1))


def test_groups_from_a_single_turn_run_hold_right_and_wrong_ones():
    rows = row(0, *[True] * 3, *[False] * 5), row("all", *[True] * 8), row("none", *[False] * 8)
    first, second, rest = made(*rows)
    assert [group["extra_info"]["index"] for group in (first, second, rest)] == ["0", "0", "all"]
    assert len({item["text"] for group in (first, second) for item in group["completions"]}) == 8  # disjoint
    assert len(rest["completions"]) == 8  # a task that every sample solved, for rejection_sft
    for group in (first, second):
        rates = {item["pass_rate"] for item in group["completions"]}
        assert len(group["completions"]) == 4 and rates == {1.0, 0.5}
    assert made(*rows) == [first, second, rest]
    bad = row(1, True, False)
    bad["exec_results"][1] = {"passing": [], "status": "infra_error"}
    with pytest.raises(InputError, match="f:0: a response has no verdict"):
        made(bad)
    with pytest.raises(InputError, match="2 'responses' but 1 'exec_results'"):
        made(bad | {"exec_results": [{}]})


def test_the_command_writes_parquet(tmp_path, capsys):
    source, target = tmp_path / "single.jsonl", tmp_path / "groups.parquet"
    for passing, said, objective in (
        ([True, False, False, True], "1 groups of 4", "rloo"), ([True, True], "0 groups of 4", "sft"),
    ):  # fmt: skip
        source.write_text(json.dumps(row(7, *passing)) + "\n")
        assert offline_data.main(["-i", str(source), "-o", str(target), "--prompts", "tiny"]) == 0
        assert said in capsys.readouterr().out
        (group,) = check_groups(target, settings(objective=objective))
        assert group.prompt[0]["role"] == "system"
    source.write_text(json.dumps(row(7, False, False)) + "\n")
    with pytest.raises(InputError, match="no task has a right completion"):
        offline_data.main(["-i", str(source), "-o", str(tmp_path / "x")])
    assert not (tmp_path / "x").exists()


def test_the_loss_by_hand_in_chunks_as_at_once():
    batch = collate([([0], [1, 1], 2.0), ([0, 0], [1], -1.0)], pad=0)
    assert batch["mask"].tolist() == [[0, 1, 1], [0, 0, 1]] and batch["weights"].tolist() == [2.0, -1.0]
    # vocabulary 2, uniform logits but for one token of three: p = 3/4
    hidden = torch.tensor([[0.0, math.log(3)], [0.0, 0.0], [0.0, 0.0]], requires_grad=True)
    given = torch.tensor([1, 1, 1]), torch.tensor([2.0, 2.0, -1.0])
    loss = token_losses(torch.nn.Identity(), hidden, *given)
    assert loss.item() == pytest.approx(2 * (-math.log(0.75) - math.log(0.5)) + math.log(0.5), abs=1e-6)
    loss.backward()
    assert hidden.grad[0].tolist() == pytest.approx([2 * 0.25, -2 * 0.25])
    torch.manual_seed(0)
    rows, head = torch.randn(2 * CHUNK + 5, 3), torch.nn.Linear(3, 7)
    targets, weights = torch.randint(0, 7, (len(rows),)), torch.randn(len(rows))
    whole = torch.nn.functional.cross_entropy(head(rows), targets, reduction="none").mul(weights).sum()
    assert token_losses(head, rows, targets, weights).item() == pytest.approx(whole.item(), rel=1e-4)


def test_prompts_and_padding_are_not_in_the_loss():
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    rows = [([5, 6, 7], [8], 1.0), ([5], [9, 10, 11, 12], -0.5)]
    with torch.no_grad():
        loss = Weighted(model)(**collate(rows, pad=0))
        alone = 0.0
        for prompt, answer, weight in rows:
            logs = model(torch.tensor([prompt + answer])).logits[0].log_softmax(-1)
            alone -= weight * sum(float(logs[len(prompt) - 1 + i, t]) for i, t in enumerate(answer))
    assert float(loss) == pytest.approx(alone, rel=1e-4)


class Letters:
    eos_token_id, all_special_ids, added_tokens_decoder, name_or_path = 9, [9], {}, ""

    def apply_chat_template(self, messages, *, add_generation_prompt, tokenize):
        return messages[0]["content"]

    def __call__(self, text, *, add_special_tokens):
        return {"input_ids": [ord(letter) - ord("a") for letter in text]}


def test_encoding_cuts_and_leaves_out_like_sampling():
    group = Group(asks("ab"), ["c", "cdef"], [1.0, -1.0], [1.0, 0.0])
    assert encode(group, Letters(), 2, 3) == [([0, 1], [2, 9], 1.0), ([0, 1], [2, 3, 4], -1.0)]
    assert encode(group, Letters(), 1, 3) is None


def test_batches_are_an_order_per_epoch_and_go_on_anywhere():
    stream, later = batches(10, 3, seed=5, start=0), batches(10, 3, seed=5, start=4)
    first = [next(stream) for _ in range(9)]
    for epoch in range(3):
        assert len({number for batch in first[3 * epoch : 3 * epoch + 3] for number in batch}) == 9
    assert [next(later) for _ in range(5)] == first[4:]


OBJECTIVES = {
    "double": ([2.0, 0.0], None),
    "nothing": ([0.0, 0.0], "every weight is 0"),
    "short": ([1.0], "must return a finite weight for each of 2 completions"),
    "nan": ([1.0, math.nan], "must return a finite weight"),
    "text": (["a", 1.0], "ValueError"),
}


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_of_ones_own(name, tmp_path):
    made, said = OBJECTIVES[name]
    code = f"from math import nan\ndef f(rewards, completions):\n    return {made}\n"
    (tmp_path / "mine.py").write_text(code)
    asked = settings(objective="mine.py:f")
    asked.cobalt.recipe_file = str(tmp_path / "recipe.yaml")
    path = write(tmp_path / "a.parquet", (PROMPT, [RIGHT, WRONG]))
    if said is None:
        assert [group.weights for group in check_groups(path, asked)] == [made]
        return
    with pytest.raises(InputError, match=said) as error:
        check_groups(path, asked)
    assert name == "nothing" or f"{tmp_path / 'mine.py'}:2" in str(error.value)


def test_second_programs_of_evaluated_trajectories(tmp_path):
    def dialogue(*texts):
        opening = [{"role": "system", "content": "s"}, {"role": "user", "content": "q"}]
        said = [[{"role": "assistant", "content": text}, {"role": "user", "content": "no"}] for text in texts]
        return [*opening, *(message for pair in said for message in pair)]

    tests = json.dumps({"inputs": ["1", "2"], "outputs": ["a", "b"]})
    row = {
        "id": "t", "difficulty": "EASY", "test_cases": tests, "public_test_cases": tests,
        "conversations": [dialogue("a", "b"), dialogue("c", "d")], "all_pass_rates": [[0.5, 1.0], [0.0, 0.0]],
        "public_pass_rates": [[0.5, 0.0], [1.0, 0.0]],
    }  # fmt: skip
    source, target = tmp_path / "judged.jsonl", tmp_path / "g.parquet"
    source.write_text(json.dumps(row) + "\n")
    assert offline_data.main(["-i", str(source), "-o", str(target), "--revisions"]) == 0
    asked = settings(objective="cobalt.recipes.rltf_sd:weights", reward="pass_rate")
    asked.cobalt.recipe_file = None
    (group,) = check_groups(target, asked)
    assert group.texts == ["b", "d"] and group.weights == [0.75, -0.25]
    assert [message["content"] for message in group.prompt] == ["s", "q"]
    row["conversations"], row["all_pass_rates"] = [dialogue("a")], [[0.5]]
    source.write_text(json.dumps(row | {"public_pass_rates": [[0.5]]}) + "\n")
    with pytest.raises(InputError, match="no dialogue has a second program"):
        offline_data.main(["-i", str(source), "-o", str(target), "--revisions"])
