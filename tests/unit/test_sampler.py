"""The batched sampler on a small random Qwen3: rows are independent, log-probabilities are the model's."""

from __future__ import annotations

import copy
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from cobalt.engines.base import Sampling
from cobalt.engines.prefix_cache import supports
from cobalt.engines.sampler import BatchSampler, draw, row_seed, splitmix64, uniforms

EOS, PAD, VOCABULARY = 2, 0, 40
PROMPTS = [[5, 6, 7], [9], [11, 12, 13, 14, 15, 16, 17, 18], [5, 6, 7]]
SEEDS = [1, 2, 3, 4]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=VOCABULARY, hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=128,
        tie_word_embeddings=True, initializer_range=0.4, eos_token_id=EOS, pad_token_id=PAD,
        bos_token_id=None,
    )  # fmt: skip
    return Qwen3ForCausalLM(config).eval()


@pytest.fixture
def sampler(model):
    return BatchSampler(model, SimpleNamespace(pad_token_id=PAD, eos_token_id=EOS), 64)


def settings(**changes):
    return {"temperature": 1.0, "top_p": 1.0, "max_tokens": 12, "stop_ids": {EOS}, **changes}


def test_same_seed_same_tokens_whatever_the_batch(sampler):
    together = sampler.generate(PROMPTS, SEEDS, n=3, **settings())
    alone = [sampler.generate([p], [s], n=1, **settings())[0] for p, s in zip(PROMPTS, SEEDS, strict=True)]
    turned = sampler.generate(PROMPTS[::-1], SEEDS[::-1], n=5, **settings())
    for i in range(4):
        assert together[3 * i].token_ids == alone[i].token_ids
        assert [row.token_ids for row in together[3 * i : 3 * i + 3]] == [
            row.token_ids for row in turned[5 * (3 - i) : 5 * (3 - i) + 3]
        ]
    assert together[0].token_ids != together[9].token_ids  # same prompt, other seed
    assert len({tuple(row.token_ids) for row in together[:3]}) > 1  # completions of one prompt differ


def test_sharing_a_prompt_cache_changes_nothing(sampler):
    assert sampler.shares_prefix
    plain = copy.copy(sampler)
    plain.shares_prefix = False  # what a model of an unknown architecture gets
    one, other = (s.generate(PROMPTS, SEEDS, n=5, **settings()) for s in (plain, sampler))
    assert [row.token_ids for row in one] == [row.token_ids for row in other]
    for a, b in zip(one, other, strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5) and a.finish_reason == b.finish_reason


def test_sliding_windows_are_left_to_the_library(model):
    assert not supports(Qwen3Config(use_sliding_window=True, max_window_layers=0, num_hidden_layers=2))
    assert supports(model.config)


def test_every_row_is_reported_when_it_is_finished(model):
    small = BatchSampler(model, SimpleNamespace(pad_token_id=PAD, eos_token_id=EOS), 16)
    seen = {}
    prompts = [*PROMPTS, [7] * 20]
    rows = small.generate(
        prompts, [*SEEDS, 5], n=2, **settings(), on_row=lambda i, row: seen.update({i: row})
    )
    assert [seen[i] for i in range(10)] == rows and rows[8].finish_reason == "context_overflow"
    sizes = [len(row.token_ids) for row in seen.values()]
    assert sizes[2:] == sorted(sizes[2:])  # short ones did not wait for long ones


def test_small_chunks_change_nothing(model, sampler):
    small = BatchSampler(model, SimpleNamespace(pad_token_id=None, eos_token_id=EOS), 64, max_rows=2)
    one, other = (s.generate(PROMPTS, SEEDS, n=2, **settings()) for s in (small, sampler))
    assert [row.token_ids for row in one] == [row.token_ids for row in other]


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_logprobs_are_those_of_the_model(model, sampler, temperature):
    rows = sampler.generate(PROMPTS, SEEDS, n=2, **settings(temperature=temperature, top_p=0.9))
    for i, row in enumerate(rows):
        prompt = PROMPTS[i // 2]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + row.token_ids])).logits[0, len(prompt) - 1 : -1]
        expected = torch.log_softmax(logits / temperature, -1)[range(len(row.token_ids)), row.token_ids]
        assert row.logprobs == pytest.approx(expected.tolist(), abs=1e-5)


def test_temperature_zero_is_greedy(model, sampler):
    row = sampler.generate([PROMPTS[2]], [9], **settings(temperature=0.0, max_tokens=6, stop_ids=()))[0]
    ids = list(PROMPTS[2])
    for _ in range(6):
        with torch.no_grad():
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    assert row.token_ids == ids[8:] and row.finish_reason == "length"


def test_stop_ids_end_a_row_and_are_its_last_token(sampler):
    free = sampler.generate(PROMPTS, SEEDS, n=4, **settings(stop_ids=()))
    assert all(row.finish_reason == "length" and len(row.token_ids) == 12 for row in free)
    stop = free[0].token_ids[4]
    stopped = sampler.generate(PROMPTS, SEEDS, n=4, **settings(stop_ids={stop}))
    for before, row in zip(free, stopped, strict=True):
        cut = before.token_ids.index(stop) + 1 if stop in before.token_ids else 12
        assert row.token_ids == before.token_ids[:cut]  # and dropping finished rows leaves the others alone
        assert row.finish_reason == ("stop" if stop in before.token_ids else "length")
        assert len(row.logprobs) == cut


def test_context_overflow_is_a_result_and_a_full_context_cuts(model):
    small = BatchSampler(model, SimpleNamespace(pad_token_id=PAD, eos_token_id=EOS), 8)
    long, short, _, _ = small.generate([PROMPTS[2], PROMPTS[0], [9], [9]], SEEDS, **settings(stop_ids=()))
    assert (long.token_ids, long.logprobs, long.finish_reason) == ([], [], "context_overflow")
    assert len(short.token_ids) == 5 and short.finish_reason == "length"
    assert small.generate([], [], **settings()) == []


def test_wrong_calls_are_named(sampler):
    with pytest.raises(ValueError, match="2 prompts but 1 seeds"):
        sampler.generate([[1], [2]], [1], **settings())
    with pytest.raises(ValueError, match="no tokens"):
        sampler.generate([[]], [1], **settings())
    with pytest.raises(ValueError, match="top_p"):
        Sampling(top_p=0)


def test_uniforms_are_splitmix64_of_seed_and_step():
    golden = 0x9E3779B97F4A7C15
    seeds = np.array([0, 1, row_seed(-7, 3)], dtype=np.uint64)
    for step in (0, 5):
        expected = [splitmix64((int(s) + golden * step) % 2**64) >> 11 for s in seeds]
        assert (uniforms(seeds, step) * 2**53).astype(np.uint64).tolist() == expected
    assert splitmix64(0) == 0xE220A8397B1DCDAF  # first output of the reference implementation, seed 0
    many = uniforms(np.arange(20_000, dtype=np.uint64), 3)
    assert many.min() >= 0 and many.max() < 1 and abs(many.mean() - 0.5) < 0.01


def test_draw_follows_the_distribution_and_the_nucleus():
    chances = torch.tensor([0.1, 0.0, 0.6, 0.25, 0.05, 0.0]).double()
    uniform = (torch.arange(10_000).double() + 0.5) / 10_000
    logprobs = chances.log().expand(10_000, -1)
    share = torch.bincount(draw(logprobs, uniform, 1.0), minlength=6) / 10_000
    assert share.tolist() == pytest.approx(chances.tolist(), abs=1e-3)
    nucleus = torch.bincount(draw(logprobs, uniform, 0.8), minlength=6) / 10_000
    assert nucleus.tolist() == pytest.approx([0, 0, 0.6 / 0.85, 0.25 / 0.85, 0, 0], abs=1e-3)
    edge = torch.tensor([math.nextafter(1.0, 0.0)]).double()
    assert draw(chances.log()[None], edge, 1.0).tolist() == [4]  # never a token without mass
