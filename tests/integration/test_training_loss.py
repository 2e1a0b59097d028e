"""What the actor learns from which token: updates by verl's own engine on two ranks against the formula."""

from __future__ import annotations

import ast
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from omegaconf import OmegaConf
from training_assets import make_model

from cobalt.training.config import CONFIG_DIR, compose

pytestmark = pytest.mark.slow
RANKS, ROWS = 2, 6
EMPTY = {(0, 5), (1, 4), (1, 5)}  # places of masked samples: half a pair, and a whole one
BEGIN, END = 3, 5  # feedback between two turns
KL = 0.3
ECHO = 0.5
OWN = """
import torch


def clipped(log_prob, old_log_prob, advantages, mask, turns, group, aggregate, config, echo: float = 0.0):
    assert [len(each.turns) for each in group] == [int(row.max()) for row in turns]
    assert bool(((turns > 0) == (mask > 0)).all())
    ratio = (log_prob - old_log_prob).clamp(-20, 20).exp()
    clipped = ratio.clamp(1 - config.clip_ratio_low, 1 + config.clip_ratio_high)
    loss = torch.maximum(-advantages * ratio, -advantages * clipped)
    loss = torch.where(advantages < 0, torch.minimum(-advantages * config.clip_ratio_c, loss), loss)
    return aggregate(loss, mask) + echo * aggregate(-log_prob, turns < 0), {"rows": len(group)}
"""


def make_rows(rank):
    """Prompts, responses of 1 to 9 tokens, and what an update needs of them."""
    torch.manual_seed(rank)
    rows = {}
    for place in range(ROWS):
        size = 1 if (rank, place) in EMPTY else 1 + 8 * (place % 2)
        prompt = rows["prompts"][-1] if place % 2 else torch.randint(3, 20, (4,))  # groups of two
        response = torch.randint(3, 20, (size,))
        made = {
            "prompts": prompt, "responses": response, "input_ids": torch.cat([prompt, response]),
            "position_ids": torch.arange(4 + size),
            "response_mask": torch.full((size,), int((rank, place) not in EMPTY)),
            "feedback": torch.zeros(size, dtype=torch.int64),
            "old_log_probs": -3 + 0.5 * torch.randn(size), "ref_log_prob": -3 + torch.randn(size),
            "advantages": torch.full((size,), float(torch.randn(()))),
        }  # fmt: skip
        made["response_mask"][BEGIN:END], made["feedback"][BEGIN:END] = 0, 1  # of the long responses
        made["loss_mask"] = made["response_mask"]
        for name, value in made.items():
            rows.setdefault(name, []).append(value)
    return rows


def published(name):
    """A function of the published trainer, run as it stands there."""
    root = Path(os.environ["COBALT_PUBLISHED_REPO"], "verl", "verl")
    space: dict = {"torch": torch}
    for path in (root / "utils/torch_functional.py", root / "trainer/ppo/core_algos.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name in ("masked_sum", "masked_mean", name):
                exec(compile(ast.Module([node], []), str(path), "exec"), space)
        space.setdefault(
            "verl_F", SimpleNamespace(**{key: space[key] for key in list(space) if "masked" in key})
        )
    return space[name]


def token_mean(values, mask):
    """Mean over the tokens of ``values`` [rows, tokens] where ``mask`` is 1, and 0 without any."""
    return (values * mask).sum() / (mask.sum() + 1e-8)


def gradient(folder, data, weighting, echo=0.0):
    """The gradient of the objective, written out: the mean over ranks of ``weighting(values, mask)``.

    ``values`` [rows, tokens]: clipped surrogate plus KL term of every token of a rank where the mask is, and
    ``echo`` times the cross-entropy of feedback.
    """
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
    terms = []
    for rows in data:
        values, masks = torch.zeros(ROWS, 9), torch.zeros(ROWS, 9)
        for place in range(ROWS):
            row = {name: column[place] for name, column in rows.items()}
            logits = model(row["input_ids"][None]).logits[0, 3:-1]
            chosen = torch.log_softmax(logits, -1).gather(1, row["responses"][:, None])[:, 0]
            ratio, gain = (chosen - row["old_log_probs"]).exp(), row["advantages"]
            loss = torch.maximum(-gain * ratio, -gain * ratio.clamp(0.8, 1.4))
            loss = torch.where(gain < 0, torch.minimum(-gain * 3.0, loss), loss)
            loss = (loss + KL * 0.5 * (chosen - row["ref_log_prob"]) ** 2) * row["response_mask"]
            values[place, : len(loss)] = loss - echo * chosen * row["feedback"]
            masks[place, : len(loss)] = row["response_mask"]
        terms.append(weighting(values, masks))
    torch.stack(terms).mean().backward()
    return {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


ACTOR, MODEL = "actor_rollout_ref.actor", "actor_rollout_ref.model"
CASES = {
    "single": [2, f"{ACTOR}.ppo_micro_batch_size_per_gpu=1"],
    "pairs": [2, f"{ACTOR}.ppo_micro_batch_size_per_gpu=2"],
    "whole": [2, f"{ACTOR}.ppo_micro_batch_size_per_gpu=6"],
    # 26 tokens are two long rows, or a long one and two short ones, wherever their partners are
    "packed": [2, f"{ACTOR}.use_dynamic_bsz=true", f"{ACTOR}.ppo_max_token_len_per_gpu=26"],
    # last by its name: verl replaces the forward function of the class
    "with_chunks": [2, f"{ACTOR}.ppo_micro_batch_size_per_gpu=1", f"{MODEL}.use_fused_kernels=true",
                    f"{MODEL}.use_remove_padding=true"],
    "sequences": [2, f"{ACTOR}.loss_agg_mode=seq-mean-token-mean", f"{ACTOR}.ppo_micro_batch_size_per_gpu=2"],
    "verl": ["null", f"{ACTOR}.ppo_micro_batch_size_per_gpu=2"],
    "own": ["null", f"{ACTOR}.ppo_micro_batch_size_per_gpu=2", 0.0],
    "own_echo": [2, f"{ACTOR}.ppo_micro_batch_size_per_gpu=6", ECHO],
    "own_pairs": [2, f"{ACTOR}.ppo_micro_batch_size_per_gpu=2", 0.0],
    # verl's own layout of packed rows, which the engine without CUDA has too
    "own_packed": [2, f"{ACTOR}.use_dynamic_bsz=true", f"{ACTOR}.ppo_max_token_len_per_gpu=26",
                   f"{MODEL}.use_remove_padding=true", ECHO],
}  # fmt: skip


@pytest.fixture(scope="module")
def updates(tmp_path_factory):
    """Folder, rows per rank, and how far the weights went: by the name of the case."""
    folder = tmp_path_factory.mktemp("loss")
    make_model(folder / "model")
    data = [make_rows(rank) for rank in range(RANKS)]
    for rank, rows in enumerate(data):
        torch.save(rows, folder / f"rank_{rank}.pt")
    (folder / "own.py").write_text(OWN)
    for name, (rows, *how) in CASES.items():
        if name.startswith("own"):
            how[-1:] = [
                f"cobalt.policy_loss={folder / 'own.py'}:clipped",
                f"++cobalt.constants={{echo: {how[-1]}}}",
            ]
        config = compose("cobalt", "cpu", "tiny", {"cobalt.config_dir": str(CONFIG_DIR)}, [
            f"{MODEL}.path={folder / 'model'}", f"cobalt.token_mean_over={rows}", f"{ACTOR}.use_kl_loss=true",
            f"{ACTOR}.kl_loss_coef={KL}", f"{ACTOR}.grad_clip=1e6", f"{ACTOR}.optim.optimizer=SGD",
            f"{ACTOR}.optim.lr=1.0", f"{ACTOR}.optim.lr_warmup_steps=0",
            f"~{ACTOR}.optim.override_optimizer_config.fused", *how,
        ])  # fmt: skip
        case = folder / name
        case.mkdir()
        OmegaConf.save(config, case / "config.yaml")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    env = {
        **os.environ, "VERL_PLATFORM": "cpu", "VERL_USE_EXTERNAL_MODULES": "cobalt.training.cpu.platform",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(RANKS),
        "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(__file__).parents[2]),
    }  # fmt: skip
    command = [sys.executable, Path(__file__).with_name("loss_worker.py"), folder]
    ranks = [
        subprocess.Popen(
            command, env={**env, "RANK": str(rank)}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        for rank in range(RANKS)
    ]
    said = [rank.communicate(timeout=300)[0].decode() for rank in ranks]
    assert [rank.returncode for rank in ranks] == [0, 0], said[0][-3000:]
    moved = {case: torch.load(folder / case / "moved.pt") for case in CASES}
    return folder, data, moved


def same(found, wanted):
    assert wanted and all(float(value.abs().max()) > 1e-4 for value in wanted.values())
    return all(torch.allclose(found[name], value, rtol=1e-3, atol=2e-6) for name, value in wanted.items())


def in_blocks(rows, mean):
    """The mean over the blocks of all ranks that have tokens: as if padding were not there at all."""
    filled = {(rank, place // rows) for rank in range(RANKS) for place in range(ROWS)} - {
        (rank, block)
        for rank in range(RANKS)
        for block in range(ROWS // rows)
        if all((rank, block * rows + place) in EMPTY for place in range(rows))
    }

    def weigh(values, masks):
        blocks = zip(values.split(rows), masks.split(rows), strict=True)
        return torch.stack([mean(block, mask) for block, mask in blocks]).sum() * RANKS / len(filled)

    return weigh


def test_sequences_that_left_do_not_count_in_the_mean_over_sequences(updates):
    folder, data, moved = updates
    assert same(moved["sequences"], gradient(folder, data, in_blocks(1, token_mean)))


@pytest.mark.parametrize("case", ["single", "pairs", "whole", "packed", "with_chunks"])
def test_every_pair_weighs_the_same(updates, case):
    folder, data, moved = updates
    assert same(moved[case], gradient(folder, data, in_blocks(2, token_mean)))


def test_without_blocks_the_loss_is_verls(updates):
    folder, data, moved = updates
    tokens = sum(float(sum(mask.sum() for mask in rows["response_mask"])) for rows in data)
    whole = gradient(folder, data, lambda values, masks: (values * masks).sum() * RANKS / tokens)
    assert same(moved["verl"], whole)
    assert not same(moved["pairs"], whole)


@pytest.mark.parametrize(("own", "built_in"), [("own", "verl"), ("own_pairs", "pairs")])
def test_the_built_in_loss_written_as_ones_own_has_its_gradient(updates, own, built_in):
    _, _, moved = updates
    for name, value in moved[built_in].items():
        assert torch.allclose(moved[own][name], value, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("case", ["own_echo", "own_packed"])
def test_a_loss_of_ones_own_learns_from_feedback(updates, case):
    """Sharing prompts or packed by verl, log-probabilities of feedback are those of a plain forward pass."""
    folder, data, moved = updates
    mean = in_blocks(2, lambda values, mask: values.sum() / (mask.sum() + 1e-8))
    assert same(moved[case], gradient(folder, data, mean, ECHO))
    assert not same(moved[case], gradient(folder, data, mean, 0.9 * ECHO))


@pytest.mark.skipif("COBALT_PUBLISHED_REPO" not in os.environ, reason="COBALT_PUBLISHED_REPO names no folder")
def test_pairs_weigh_as_in_the_published_trainer(updates):
    folder, data, moved = updates
    agg_loss = published("agg_loss")
    mean = in_blocks(2, lambda values, masks: agg_loss(values, masks, "token-mean"))
    assert same(moved["pairs"], gradient(folder, data, mean))
