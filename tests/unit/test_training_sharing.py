"""Completions that share their prompt's computation: same log-probabilities, same gradients."""

from __future__ import annotations

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from cobalt.training.cpu.engine import pack, pays

PROMPTS = [[3, 4, 5, 6], [3, 4, 5, 6], [7], [3, 4, 5, 6], [8, 9, 10, 11, 12, 13], [7]]
RESPONSES = [[20, 21, 2], [22, 2], [23, 24, 25, 26, 2], [2], [27, 28, 2], [29, 30]]


def make_model():
    torch.manual_seed(1)
    config = Qwen3Config(
        vocab_size=40, hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=64, tie_word_embeddings=True,
        initializer_range=0.4, attn_implementation="sdpa",
    )  # fmt: skip
    return Qwen3ForCausalLM(config).train()


def separate(model):
    """Log-probabilities of all response tokens, one sequence after another."""
    values = []
    for prompt, response in zip(PROMPTS, RESPONSES, strict=True):
        logits = model(torch.tensor([prompt + response])).logits[0, len(prompt) - 1 : -1]
        values.append(torch.log_softmax(logits, -1)[range(len(response)), response])
    return torch.cat(values)


def shared(model, share=True):
    rows = [torch.tensor(p) for p in PROMPTS], [torch.tensor(r) for r in RESPONSES]
    packed = pack(*rows, pad_id=0, share=share)
    logits = model(packed.ids, attention_mask=packed.mask, position_ids=packed.positions).logits
    return torch.log_softmax(logits.flatten(0, 1)[packed.source], -1).gather(1, packed.target[:, None])[:, 0]


def test_log_probabilities_and_gradients_are_those_of_separate_sequences():
    model, results = make_model(), []
    weights = torch.linspace(-1, 2, sum(map(len, RESPONSES)))
    for run in (separate, shared, lambda model: shared(model, share=False)):
        model.zero_grad()
        values = run(model)
        (values * weights).sum().backward()
        results.append((values.detach(), [p.grad.clone() for p in model.parameters()]))
    values, gradients = results[0]
    for other_values, other_gradients in results[1:]:
        assert torch.allclose(values, other_values, atol=1e-5)
        for one, other in zip(gradients, other_gradients, strict=True):
            assert torch.isfinite(other).all() and torch.allclose(one, other, atol=1e-4)


def test_the_layout_has_every_prompt_once_unless_responses_are_long():
    short, long = [torch.arange(10)] * 4, [torch.arange(31)] * 4
    assert pays(short, short) and pays(long, short) and not pays(short, long)
    packed = pack([torch.tensor(p) for p in PROMPTS], [torch.tensor(r) for r in RESPONSES], pad_id=0)
    assert packed.ids.tolist()[0] == [3, 4, 5, 6, 20, 21, 2, 22, 2, 2]
    assert packed.row.tolist() == [i for i, response in enumerate(RESPONSES) for _ in response]
    flat = [token for rows in zip(PROMPTS, RESPONSES, strict=True) for row in rows for token in row]
    assert [flat[place + 1] for place in packed.place.tolist()] == packed.target.tolist()
