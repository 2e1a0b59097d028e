"""Supervised training of the tiny reference."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from dialogues import Draw, Encoded, Recipe, TinyLesson, dialogue, drill, encode, encode_drill
from second import SecondDialogues, SecondRecipe
from tokenizer import build_tokenizer

from cobalt.files import file_sha256
from cobalt.prompts import Prompts, load
from cobalt.tasks import tiny

if TYPE_CHECKING:
    from transformers import Qwen3ForCausalLM


def build_model(recipe: Recipe, vocabulary: int) -> Qwen3ForCausalLM:
    """A Qwen3 model with random weights, seeded."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(recipe.seed)
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=vocabulary, hidden_size=recipe.hidden, num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads, num_key_value_heads=recipe.kv_heads, head_dim=recipe.head_dim,
        intermediate_size=recipe.mlp, max_position_embeddings=recipe.positions, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        pad_token_id=0, bos_token_id=None, eos_token_id=1,
        initializer_range=0.05, attn_implementation="sdpa",
    ))  # fmt: skip


def train_reference(recipe: Recipe, folder: Path, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Train the reference and write a Hugging Face folder; returns the figures of the model card."""
    prompts = load("tiny")
    if isinstance(recipe, SecondRecipe):
        tokenizer = build_tokenizer(prompts, tiny.SECOND)
        facts = fit(recipe, tokenizer, SecondDialogues(recipe, tokenizer, prompts).batch, folder, say)
        return _written(facts, tiny.SECOND, folder)
    facts = teach(
        recipe,
        build_tokenizer(prompts),
        prompts,
        lambda rng: TinyLesson.draw(rng, recipe.corrupt),
        folder,
        say,
    )
    return _written(facts, tiny.FIRST, folder)


def _written(facts: dict[str, Any], family: tiny.Family, folder: Path) -> dict[str, Any]:
    facts["family_hash"] = family.family_hash()
    facts["weights_sha256"] = file_sha256(folder / "model.safetensors")
    kept = {key: value for key, value in facts.items() if key != "wall_s"}  # made again it is the same file
    (folder / "training.json").write_text(json.dumps(kept, indent=2) + "\n")
    return facts


def teach(
    recipe: Recipe, tokenizer: Any, prompts: Prompts, draw: Draw, folder: Path, say: Callable[[str], None],
) -> dict[str, Any]:  # fmt: skip
    """Train a model from random weights on lessons and write a Hugging Face folder; returns figures of it."""
    batches = partial(batch, recipe=recipe, tokenizer=tokenizer, prompts=prompts, draw=draw)
    return fit(recipe, tokenizer, batches, folder, say)


def fit(
    recipe: Recipe, tokenizer: Any, batches: Callable[[random.Random, int], list[Encoded]], folder: Path,
    say: Callable[[str], None],
) -> dict[str, Any]:  # fmt: skip
    """The same on batches, each drawn for its step."""
    model = build_model(recipe, len(tokenizer))
    parameters = sum(p.numel() for p in model.parameters())
    say(f"{parameters:,} parameters, {len(tokenizer)} tokens in the vocabulary")
    fits = recipe.fits()
    total = recipe.drill_steps + recipe.clean_steps + recipe.noisy_steps
    started, losses = time.monotonic(), list[float]()
    model.train()
    for step in range(total):
        if step in fits:
            rng, optimizer = random.Random(fits[step]), _optimizer(model, recipe.lr)
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * recipe.scale(step)
        loss = _loss(model, batches(rng, step))
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if (step + 1) % 100 == 0:
            mean = sum(losses[-100:]) / 100
            say(f"step {step + 1}/{total}  loss {mean:.4f}  {time.monotonic() - started:.0f} s")
    model.eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {
        "parameters": parameters,
        "vocabulary": len(tokenizer),
        "recipe": asdict(recipe),
        "wall_s": round(time.monotonic() - started, 1),
    }


def _optimizer(model: Any, lr: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.98), weight_decay=0.01)


def batch(
    rng: random.Random, step: int, recipe: Recipe, tokenizer: Any, prompts: Prompts, draw: Draw
) -> list[Encoded]:
    """About ``batch_tokens`` tokens of dialogues with equally many programs, of the stage ``step`` is in."""
    rows: list[Encoded] = []
    if step < recipe.drill_steps:
        attempts = rng.choices([1, 2, 3, 4], [0.4, 0.3, 0.2, 0.1])[0]
        while sum(len(ids) for ids, _, _ in rows) < recipe.batch_tokens:
            rows.append(encode_drill(tokenizer, *drill(rng, attempts, prompts, draw)))
        return rows
    mixture = recipe.clean if step < recipe.drill_steps + recipe.clean_steps else recipe.noisy
    turns = rng.choices([1, 2, 3, 4], [0.05, 0.5, 0.3, 0.15])[0]
    while sum(len(ids) for ids, _, _ in rows) < recipe.batch_tokens:
        spoken = dialogue(rng, turns, mixture, recipe.change_after_pass, prompts, draw)
        rows.append(encode(tokenizer, spoken))
    return rows


def _loss(model: Any, rows: list[Encoded]) -> torch.Tensor:
    """Weighted mean negative log-likelihood of the targets."""
    width = max(len(ids) for ids, _, _ in rows)
    ids, targets = torch.zeros(2, len(rows), width, dtype=torch.long)
    weights = torch.zeros(len(rows), width)
    for i, (row, target, weight) in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        targets[i, : len(row)] = torch.tensor(target)
        weights[i, : len(row)] = torch.tensor(weight)
    mine = weights[:, 1:] > 0
    logits = model.lm_head(model.model(input_ids=ids[:, :-1]).last_hidden_state[mine])
    losses = F.cross_entropy(logits.float(), targets[:, 1:][mine], reduction="none")
    chosen = weights[:, 1:][mine]
    return (losses * chosen).sum() / chosen.sum()
