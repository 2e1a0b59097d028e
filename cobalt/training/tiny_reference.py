"""Make the tiny reference model from nothing: tokenizer, random weights, supervised training on noisy dialogues.

The reference is taught two things in turn. First *what a repair is*: after a failing test the next program is usually
the right one. Then *to do so rarely*: most failing programs are followed by the same program or by another guess.
Reinforcement learning can then amplify a behaviour that is present but rare; it does not have to invent one. The
model card states these shares.
"""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F

from cobalt.evaluator.feedback import wrong_answer_feedback
from cobalt.prompts import Prompts, load
from cobalt.tasks import tiny

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

CHAT_TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
END = "<|im_end|>"


@dataclass(frozen=True)
class Mixture:
    """What follows a failing program in a training dialogue; the shares sum to 1."""

    repeat: float
    guess: float
    repair: float


@dataclass(frozen=True)
class Recipe:
    """Settings of the reference: model size, optimiser, stages."""

    hidden: int = 96
    layers: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 24
    mlp: int = 256
    clean_steps: int = 2200
    noisy_steps: int = 300
    clean: Mixture = Mixture(0.05, 0.20, 0.75)
    noisy: Mixture = Mixture(0.60, 0.25, 0.15)
    change_after_pass: float = 0.15  # share of all-passed messages followed by another draw of the vague slots
    corrupt: float = 0.08  # share of guesses with one stated slot ignored
    first_weight: float = 0.3  # loss weight of the first program in the clean stage: it is a guess, little to learn
    batch: int = 32
    lr: float = 3e-3
    seed: int = 2


def merged_pieces(prompts: Prompts) -> list[str]:
    """Strings that are one token each: role headers, prompt frames, feedback labels, frequent code."""
    empty = wrong_answer_feedback("\0", "\0", "\0").split("\0")
    frame = prompts.feedback_message("\0" + empty[0]).split("\0")
    return [
        "<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n", END, prompts.system,
        frame[0] + empty[0], frame[0], *empty[1:3], "\nStderr:\n", prompts.feedback_message(None), prompts.no_code,
        "```python\n", "\n```", tiny.READ_LINE + "\n", "xs = [", " for x in xs", " for y in (x, x)", "xs = xs",
        "[::-1]", 'print(*xs, sep="', '")', 'print("', '", *xs)', '", sum(xs))', '", max(xs))', '", min(xs))',
        '", len(xs))', "Read a list of integers. First", ". Then", ". Finally print",
        "Traceback (most recent call last):\n  File \"", "\", line ",
    ]  # fmt: skip


def build_tokenizer(prompts: Prompts) -> PreTrainedTokenizerFast:
    """A fast tokenizer whose known pieces are one token; anything else falls back to characters and bytes."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    merged = [piece for piece in dict.fromkeys(merged_pieces(prompts)) if piece]
    alternatives = "|".join(re.escape(piece) for piece in sorted(merged, key=len, reverse=True))
    pattern = alternatives + r"| ?[A-Za-z_]+|\d{1,2}|\n| ?[^\sA-Za-z\d]|\s"
    words: set[str] = set()
    for spec, vague in _every_sentence():
        for text in (tiny.statement(spec, vague), tiny.program(spec), f"{spec.format} 1", f"1{spec.format}2"):
            words.update(re.findall(pattern, text))
    words.update(["ValueError", "TypeError", "NameError", "SyntaxError", "IndexError", "ZeroDivisionError", "TimeoutError"])
    words.update(re.findall(pattern, "in <module> max() min() iterable argument is empty File line name is not defined"))
    numbers = [str(i) for i in range(100)] + [f"{i:02d}" for i in range(10)]
    characters = ["\n", "\t"] + [chr(c) for c in range(32, 127)]
    pieces = dict.fromkeys(["<pad>", END, *merged, *sorted(words), *numbers, *characters, "<unk>"])
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    core = Tokenizer(models.BPE(vocabulary, [], ignore_merges=True, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token=END, unk_token="<unk>", clean_up_tokenization_spaces=False
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _every_sentence() -> list[tuple[tiny.Spec, frozenset[str]]]:
    """Specs that together use every word of the family."""
    out = []
    for operation, details in tiny.OPERATIONS.items():
        for k in details.constants:
            for rearrangement in tiny.REARRANGEMENTS:
                for output in tiny.OUTPUTS:
                    for form in tiny.formats(output):
                        spec = tiny.Spec(operation, k, rearrangement, output, form)
                        out += [(spec, frozenset[str]()), (spec, frozenset(tiny.SLOTS))]
    return out


def build_model(recipe: Recipe, vocabulary: int) -> Qwen3ForCausalLM:
    """A Qwen3 model with random weights, seeded."""
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(recipe.seed)
    return Qwen3ForCausalLM(Qwen3Config(
        vocab_size=vocabulary, hidden_size=recipe.hidden, num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads, num_key_value_heads=recipe.kv_heads, head_dim=recipe.head_dim,
        intermediate_size=recipe.mlp, max_position_embeddings=1024, tie_word_embeddings=True,
        rope_parameters={"rope_type": "default", "rope_theta": 10000.0}, pad_token_id=0, bos_token_id=None, eos_token_id=1,
        initializer_range=0.05, attn_implementation="sdpa",
    ))  # fmt: skip


def fence(code: str) -> str:
    """A completion: the program as a fenced block."""
    return f"```python\n{code}\n```"


def feedback(spec: tiny.Spec, tests: list[tuple[str, str]]) -> str | None:
    """What the evaluator would say of ``program(spec)``: None if all pass. Raises ValueError if the program raises."""
    for stdin, expected in tests:
        output = tiny.output_of(spec, list(map(int, stdin.split())))
        if output is None:
            raise ValueError("the program raises")
        if output != expected.strip():
            return wrong_answer_feedback(stdin, output, expected)
    return None


def _guess(rng: random.Random, spec: tiny.Spec, vague: frozenset[str], corrupt: float) -> tiny.Spec:
    guess = tiny.redraw(rng, spec, vague)
    if rng.random() < corrupt:
        guess = tiny.redraw(rng, guess, frozenset([rng.choice(tiny.SLOTS)]))
    return guess


def dialogue(
    rng: random.Random, turns: int, mixture: Mixture, recipe: Recipe, prompts: Prompts
) -> list[dict[str, str]]:
    """One training dialogue of ``turns`` programs on a task of the training structures."""
    while True:
        spec, vague, tests = tiny.draw(rng, "train", tiny.N_PUBLIC)
        messages: list[dict[str, str]] = [dict(m) for m in prompts.messages(tiny.statement(spec, vague))]
        guess = _guess(rng, spec, vague, recipe.corrupt)
        try:
            for turn in range(turns):
                messages.append({"role": "assistant", "content": fence(tiny.program(guess))})
                said = feedback(guess, tests)
                if turn == turns - 1:
                    return messages
                messages.append({"role": "user", "content": prompts.feedback_message(said)})
                luck = rng.random()
                if said is None:
                    if luck < recipe.change_after_pass:
                        guess = _guess(rng, spec, vague, recipe.corrupt)
                elif luck >= mixture.repeat + mixture.guess:
                    guess = spec
                elif luck >= mixture.repeat:
                    guess = _guess(rng, spec, vague, recipe.corrupt)
        except ValueError:
            continue  # a guess that raises: such dialogues are left out of the training text


def encode(tokenizer: Any, messages: list[dict[str, str]]) -> tuple[list[int], list[int]]:
    """Token ids of a dialogue and 1 for each token the model has to produce (the end marker included)."""
    ids: list[int] = []
    labels: list[int] = []
    for message in messages:
        head = tokenizer(f"<|im_start|>{message['role']}\n", add_special_tokens=False)["input_ids"]
        body = tokenizer(message["content"], add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
        tail = tokenizer("\n", add_special_tokens=False)["input_ids"]
        mine = int(message["role"] == "assistant")
        ids += head + body + tail
        labels += [0] * len(head) + [mine] * len(body) + [0] * len(tail)
    return ids, labels


def train_reference(recipe: Recipe, folder: Path, say: Callable[[str], None] = print) -> dict[str, Any]:
    """Train the reference and write a Hugging Face folder; returns the figures of the model card."""
    prompts = load("tiny")
    tokenizer = build_tokenizer(prompts)
    model = build_model(recipe, len(tokenizer))
    parameters = sum(p.numel() for p in model.parameters())
    say(f"{parameters:,} parameters, {len(tokenizer)} tokens in the vocabulary")
    rng = random.Random(f"reference {recipe.seed}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=recipe.lr, betas=(0.9, 0.98), weight_decay=0.01)
    total = recipe.clean_steps + recipe.noisy_steps
    started, losses = time.monotonic(), list[float]()
    model.train()
    for step in range(total):
        scale = min(1.0, (step + 1) / 50) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * step / total)))
        for group in optimizer.param_groups:
            group["lr"] = recipe.lr * scale
        mixture = recipe.clean if step < recipe.clean_steps else recipe.noisy
        turns = rng.choices([1, 2, 3, 4], [0.05, 0.5, 0.3, 0.15])[0]
        rows = [
            encode(tokenizer, dialogue(rng, turns, mixture, recipe, prompts))
            for _ in range(max(8, recipe.batch * 2 // (turns + 1)))
        ]
        loss = _loss(model, rows, recipe.first_weight if step < recipe.clean_steps else 1.0)
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
    facts = {"parameters": parameters, "vocabulary": len(tokenizer), "recipe": asdict(recipe),
             "family_hash": tiny.family_hash(), "wall_s": round(time.monotonic() - started, 1)}
    (folder / "training.json").write_text(json.dumps(facts, indent=2) + "\n")
    return facts


def _loss(model: Any, rows: list[tuple[list[int], list[int]]], first_weight: float = 1.0) -> torch.Tensor:
    """Weighted mean negative log-likelihood of the model's own tokens; ``first_weight`` is that of turn 1."""
    width = max(len(ids) for ids, _ in rows)
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    weight = torch.zeros(len(rows), width)
    for i, (row, labels) in enumerate(rows):
        ids[i, : len(row)] = torch.tensor(row)
        weight[i, : len(row)] = torch.tensor(labels, dtype=torch.float32)
        start = labels.index(1)
        end = start + labels[start:].index(0)
        weight[i, start:end] = first_weight
    mine = weight[:, 1:] > 0
    hidden = model.model(input_ids=ids[:, :-1]).last_hidden_state
    logits = model.lm_head(hidden[mine])
    losses = F.cross_entropy(logits.float(), ids[:, 1:][mine], reduction="none")
    weights = weight[:, 1:][mine]
    return (losses * weights).sum() / weights.sum()
