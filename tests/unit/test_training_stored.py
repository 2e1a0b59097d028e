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
from cobalt.testcases import TestCases
from cobalt.training import offline_data
from cobalt.training.offline import batches, collate, encode
from cobalt.training.offline_data import Group, check_groups, rewards_of, stored_groups
from cobalt.training.sharded import CHUNK, token_losses

RIGHT, WRONG = (
    {"text": "```python\na\n```", "pass_rate": 1.0},
    {"text": "```python\nbb\n```", "pass_rate": 0.5},
)
MODEL = Path(__file__).parents[2] / "models" / "tiny-reference"
PROMPT = [{"role": "user", "content": "p"}]


def settings(**changes):
    values = {
        "objective": "rloo", "group_size": 4, "temperature": 1.0, "clip": 5.0, "reward": "correctness",
        "keep": 1,
        "syntax_cost": 0.1, "time_cost": 0.2,
    }  # fmt: skip
    return OmegaConf.create({"cobalt": {"offline": values | changes}})


def write(path, *groups):
    pd.DataFrame(
        [{"prompt": PROMPT, "completions": list(group), "extra_info": {"split": "train"}} for group in groups]
    ).to_parquet(path)
    return path


def test_groups_carry_the_objectives_weights(tmp_path):
    path = write(tmp_path / "g.parquet", [RIGHT, WRONG, WRONG], [WRONG, WRONG], [RIGHT, RIGHT])
    (group,) = check_groups(path, settings())  # groups without a difference teach nothing
    assert group.rewards == [1.0, 0.0, 0.0] and group.weights == pytest.approx([1.0, -0.5, -0.5])
    (normed,) = check_groups(path, settings(objective="grpo"))
    assert normed.weights == pytest.approx([2 / math.sqrt(3), -1 / math.sqrt(3), -1 / math.sqrt(3)], abs=1e-5)
    (weighed,) = check_groups(path, settings(objective="exponential", temperature=0.5, clip=4.0))
    assert weighed.weights == pytest.approx([4.0, math.exp(-1), math.exp(-1)])
    best = check_groups(path, settings(objective="sft"))
    assert [(group.texts, group.weights) for group in best] == [([RIGHT["text"]], [1.0])]


def test_the_best_are_kept_per_prompt_whatever_rows_they_are_in(tmp_path):
    other = [{"role": "user", "content": "q"}]
    texts = ["```python\nlonger\n```", "```python\nlong\n```", RIGHT["text"]]
    rows = [
        (PROMPT, [{"text": texts[0], "pass_rate": 1.0}, WRONG]),
        (PROMPT, [{"text": texts[1], "pass_rate": 1.0}, RIGHT, RIGHT]),
        (other, [RIGHT]),
        ([{"role": "user", "content": "r"}], [WRONG]),
    ]
    path = tmp_path / "g.parquet"
    columns = [{"prompt": p, "completions": c, "extra_info": {"split": "train"}} for p, c in rows]
    pd.DataFrame(columns).to_parquet(path)
    for keep in (1, 2, 9):
        found = check_groups(path, settings(objective="sft", keep=keep))
        assert [(group.prompt, group.texts) for group in found] == [
            (PROMPT, texts[::-1][:keep]), (other, [RIGHT["text"]]),
        ]  # fmt: skip


def test_rewards_of_stored_completions():
    def rewards(kind, *items):
        return rewards_of([RIGHT | item for item in items], settings(reward=kind).cobalt.offline)

    rates = [{"pass_rate": rate} for rate in (1.0, 0.5, 0.25, 0.0)]
    assert rewards("correctness", *rates) == [1.0, 0.0, 0.0, 0.0]
    assert rewards("pass_rate", *rates) == [1.0, 0.5, 0.25, 0.0]
    assert rewards("shaped", *rates) == [1.0, 0.2, 0.0, -0.1]
    assert rewards("shaped", {"text": "no code", "pass_rate": 0.0}) == [-1.0]
    right = [{"cpu_time": 40}, {"cpu_time": 80}, {"cpu_time": -1}, {"cpu_time": 3}, {}]
    wrong = [
        {"status": "Compile Error", "cpu_time": 1}, {"status": "Wrong Answer", "parses": False},
        {"status": "Time Limit Exceeded", "cpu_time": 9000}, {"status": "Runtime Error"},
    ]  # fmt: skip
    found = rewards("graded", *right, *(item | {"pass_rate": 0.0} for item in wrong))
    # fastest: 3 ms, counted as the 10 that judges round to
    assert found == pytest.approx([0.85, 0.825, 1.0, 1.0, 1.0, -0.1, -0.1, 0.0, 0.0])


def test_bad_groups_are_named(tmp_path):
    with pytest.raises(InputError, match="row 1: 'completions' must hold 'text' and 'pass_rate'"):
        check_groups(write(tmp_path / "a.parquet", [RIGHT, WRONG], [RIGHT | {"pass_rate": 2.0}]), settings())
    with pytest.raises(InputError, match="no group has right and wrong completions"):
        check_groups(write(tmp_path / "b.parquet", [RIGHT, RIGHT]), settings())
    with pytest.raises(InputError, match="no right completion"):
        check_groups(write(tmp_path / "c.parquet", [WRONG]), settings(objective="sft"))
    with pytest.raises(InputError, match="objective must be one of rloo"):
        check_groups(tmp_path / "c.parquet", settings(objective="ppo"))
    for name, value in (("temperature", 0.0), ("clip", -1.0)):
        with pytest.raises(InputError, match=rf"cobalt\.offline\.{name} must be positive, got {value}"):
            check_groups(tmp_path / "c.parquet", settings(**{name: value}))
    with pytest.raises(InputError, match="cannot be read"):
        check_groups(tmp_path / "none.parquet", settings())
    pd.DataFrame([{"prompt": PROMPT}]).to_parquet(tmp_path / "d.parquet")
    with pytest.raises(InputError, match="column completions, extra_info missing"):
        check_groups(tmp_path / "d.parquet", settings())
    for number, (prompt, completions, says) in enumerate([
        (["p"], [RIGHT], "row 0: field 'prompt' must be messages that end with the user's"),
        ("p", [RIGHT], "row 0: field 'prompt' must be messages"),
        ([{"role": "system", "content": "s"}], [RIGHT], "row 0: field 'prompt' must be messages"),
        (PROMPT, [], "row 0: field 'completions' must be a list"),
        (PROMPT, [RIGHT | {"cpu_time": "1"}, WRONG], "row 0: 'cpu_time' of a completion must be a number"),
        (PROMPT, ["x"], "row 0: 'completions' must hold 'text' and 'pass_rate'"),
        (PROMPT, [{"text": "x", "pass_rate": "1"}], "row 0: 'completions' must hold 'text' and 'pass_rate'"),
    ]):  # fmt: skip
        path = tmp_path / f"{number}.parquet"
        pd.DataFrame(
            [{"prompt": prompt, "completions": completions, "extra_info": {"split": "train"}}]
        ).to_parquet(path)
        with pytest.raises(InputError, match=says):
            check_groups(path, settings())


def row(key, *passing):
    return {
        "id": key, "instruction": "i", "responses": [f"```python\n{i}\n```" for i in range(len(passing))],
        "exec_results": [{"passing": [good, True], "status": "ok"} for good in passing],
    }  # fmt: skip


def test_groups_from_a_single_turn_run_hold_right_and_wrong_ones():
    rows = [row(0, *[True] * 3, *[False] * 5), row("all", *[True] * 8), row("none", *[False] * 8)]
    made = list(stored_groups(((f"f:{i}", r) for i, r in enumerate(rows)), lambda i: PROMPT, size=4, seed=1))
    assert [group["extra_info"]["index"] for group in made] == ["0", "0", "all"]
    texts = [item["text"] for group in made[:2] for item in group["completions"]]
    assert len(set(texts)) == 8  # disjoint
    assert len(made[2]["completions"]) == 8  # a task that every sample solved, for rejection_sft
    for group in made[:2]:
        rates = {item["pass_rate"] for item in group["completions"]}
        assert len(group["completions"]) == 4 and rates == {1.0, 0.5}
    again = list(stored_groups(((f"f:{i}", r) for i, r in enumerate(rows)), lambda i: PROMPT, size=4, seed=1))
    assert again == made


def test_a_response_without_verdict_is_refused():
    bad = row(1, True, False)
    bad["exec_results"][1] = {"passing": [], "status": "infra_error"}
    with pytest.raises(InputError, match="f:3: a response has no verdict"):
        list(stored_groups(iter([("f:3", bad)]), lambda i: PROMPT, size=2, seed=0))
    with pytest.raises(InputError, match="2 'responses' but 1 'exec_results'"):
        list(stored_groups(iter([("f", bad | {"exec_results": [{}]})]), lambda i: PROMPT, size=2, seed=0))


def test_the_door_writes_parquet(tmp_path, capsys):
    source, target = tmp_path / "single.jsonl", tmp_path / "groups.parquet"
    source.write_text(json.dumps(row(7, True, False, False, True)) + "\n")
    assert offline_data.main(["-i", str(source), "-o", str(target), "--prompts", "tiny"]) == 0
    assert "1 groups of 4" in capsys.readouterr().out
    (group,) = check_groups(target, settings())
    assert group.prompt[0]["role"] == "system" and sum(group.rewards) == 2.0
    source.write_text(json.dumps(row(7, True, True)) + "\n")
    assert offline_data.main(["-i", str(source), "-o", str(target), "--prompts", "tiny"]) == 0
    assert "0 groups of 4" in capsys.readouterr().out
    assert len(check_groups(target, settings(objective="sft"))) == 1
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
    rows = torch.randn(2 * CHUNK + 5, 3)
    targets, weights = torch.randint(0, 7, (len(rows),)), torch.randn(len(rows))
    head = torch.nn.Linear(3, 7)
    whole = torch.nn.functional.cross_entropy(head(rows), targets, reduction="none").mul(weights).sum()
    chunked = token_losses(head, rows, targets, weights)
    assert chunked.item() == pytest.approx(whole.item(), rel=1e-4)


def test_prompts_and_padding_are_not_in_the_loss():
    from transformers import AutoModelForCausalLM

    from cobalt.training.sharded import Weighted

    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
    rows = [([5, 6, 7], [8], 1.0), ([5], [9, 10, 11, 12], -0.5)]
    with torch.no_grad():
        loss = Weighted(model)(**collate(rows, pad=0))
        alone = 0.0
        for prompt, answer, weight in rows:
            ids = torch.tensor([prompt + answer])
            logs = model(ids).logits[0].log_softmax(-1)
            alone -= weight * sum(float(logs[len(prompt) - 1 + i, t]) for i, t in enumerate(answer))
    assert float(loss) == pytest.approx(alone, rel=1e-4)


class Letters:
    eos_token_id = 9

    def apply_chat_template(self, messages, *, add_generation_prompt, tokenize):
        return messages[0]["content"]

    def __call__(self, text, *, add_special_tokens):
        return {"input_ids": [ord(letter) - ord("a") for letter in text]}


def test_encoding_cuts_and_leaves_out_like_sampling():
    group = Group([{"role": "user", "content": "ab"}], ["c", "cdef"], [1.0, -1.0], [1.0, 0.0])
    assert encode(group, Letters(), 2, 3) == [([0, 1], [2, 9], 1.0), ([0, 1], [2, 3, 4], -1.0)]
    assert encode(group, Letters(), 1, 3) is None


def test_batches_are_an_order_per_epoch_and_go_on_anywhere():
    stream = batches(10, 3, seed=5, start=0)
    first = [next(stream) for _ in range(9)]
    for epoch in range(3):
        seen = [number for batch in first[3 * epoch : 3 * epoch + 3] for number in batch]
        assert len(set(seen)) == 9
    later = batches(10, 3, seed=5, start=4)
    assert [next(later) for _ in range(5)] == first[4:]


def test_mixing_takes_a_share_and_keeps_the_true_tests():
    import pyarrow as pa

    from cobalt.training.data import mix

    def table(kind, count, tests):
        return pa.Table.from_pylist(
            [
                {"kind": kind, "prompt": f"{kind}{i}", "reward_model": {"ground_truth": tests},
                 "extra_info": {"index": i % 5, "split": "train"}}
                for i in range(count)
            ]
        )  # fmt: skip

    tests = TestCases(["1"], ["2"]).to_json()
    honest, perturbed = table("h", 20, tests), table("p", 8, tests)
    for share, kinds in ((0.25, {"h": 15, "p": 5}), (0.5, {"h": 8, "p": 8}), (1.0, {"p": 8})):
        mixed = mix(honest, perturbed, share, 3, "f").to_pylist()
        found = [row["kind"] for row in mixed]
        assert {kind: found.count(kind) for kind in set(found)} == kinds
        assert len({row["prompt"] for row in mixed}) == len(mixed)
    assert mix(honest, perturbed, 0.5, 3, "f").equals(mix(honest, perturbed, 0.5, 3, "f"))
    assert not mix(honest, perturbed, 0.5, 4, "f").equals(mix(honest, perturbed, 0.5, 3, "f"))
    swapped = table("p", 8, TestCases(["1"], ["3"]).to_json())
    with pytest.raises(InputError, match=r"row 0: .*rewards must come from the true tests"):
        mix(honest, swapped, 0.5, 3, "f")
    for share in (0.0, 1.5):
        with pytest.raises(InputError, match="share must be in"):
            mix(honest, perturbed, share, 3, "f")
    with pytest.raises(InputError, match="too few"):
        mix(honest, perturbed.slice(0, 1), 0.001, 3, "f")
