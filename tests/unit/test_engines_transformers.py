"""The transformers engine and its sampler on random weights of the tiny reference's shape."""

import asyncio
import copy
import math

import numpy as np
import pytest
import torch
from rollout_tools import random_model
from transformers import AutoModelForCausalLM, AutoTokenizer, Qwen3Config

from cobalt.engines import connect
from cobalt.engines.base import Sampling
from cobalt.engines.prefix_cache import supports
from cobalt.engines.sampler import BatchSampler, draw, row_seed, splitmix64, uniforms
from cobalt.engines.transformers_engine import TransformersEngine, fingerprint
from cobalt.errors import InfraError, InputError

CONTEXT = 64


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return random_model(tmp_path_factory.mktemp("model"), initializer_range=0.4)


@pytest.fixture(scope="module")
def engine(folder):
    engine = connect("transformers", str(folder), max_context=CONTEXT)
    yield engine
    asyncio.run(engine.aclose())


def say(text):
    return [{"role": "system", "content": "s"}, {"role": "user", "content": text}]


SETTINGS = Sampling(temperature=1.0, top_p=1.0, max_tokens=12, n=1, seed=3)


async def test_a_completion_has_text_tokens_and_reason(engine):
    (one,) = await engine.chat(say("ab"), SETTINGS)
    prompt = engine.tokenizer.apply_chat_template(say("ab"), add_generation_prompt=True, return_dict=False)
    assert one.prompt_tokens == len(prompt) and engine.encode([say("ab")]) == [prompt]
    assert one.finish_reason in ("stop", "length") and 1 <= one.completion_tokens <= 12
    assert engine.tokenizer.eos_token not in one.text
    assert engine.encode([say("a\ud800b")]) == engine.encode([say("a\ufffdb")])
    free = [await engine.chat(say("a"), Sampling(1.0, 1.0, 12)) for _ in range(4)]
    assert len({c.text for (c,) in free}) > 1  # without a seed


async def test_concurrent_requests_change_nothing_and_are_answered_when_they_are_done(engine):
    asked = [(text, Sampling(1.0, 1.0, 12, n, 7)) for text in ("a", "b" * 20, "x" * 90) for n in (1, 3)]
    alone = [await engine.chat(say(text), settings) for text, settings in asked]
    assert alone == await asyncio.gather(*(engine.chat(say(text), settings) for text, settings in asked))
    assert alone[0][0] == alone[1][0]  # the first completion does not depend on n
    assert {c.finish_reason for c in alone[4] + alone[5]} == {"context_overflow"}
    (cut,) = await engine.chat(say("x" * 20), Sampling(0.0, 1.0, 1000, 1, 1))
    assert cut.finish_reason == "stop" or cut.prompt_tokens + cut.completion_tokens == CONTEXT
    order = []

    async def ask(text, seed):
        (made,) = await engine.chat(say(text), Sampling(1.0, 1.0, 50, 1, seed))
        order.append(made.completion_tokens)

    await asyncio.gather(*(ask(f"{seed}", seed) for seed in range(16)))
    assert order == sorted(order) and order[0] < order[-1]


async def test_a_failing_batch_is_an_error_and_the_engine_lives_on_until_it_is_closed(folder, monkeypatch):
    def broken(*args, **kw):
        raise RuntimeError("out of memory")

    engine = TransformersEngine(str(folder), threads=1)
    with monkeypatch.context() as patch:
        patch.setattr(engine._sampler, "generate", broken)
        with pytest.raises(InfraError, match="out of memory"):
            await engine.chat(say("a"), SETTINGS)
    assert await engine.chat(say("a"), SETTINGS)
    await engine.aclose()
    await engine.aclose()
    with pytest.raises(InfraError, match="closed"):
        await engine.chat(say("a"), SETTINGS)


def test_fingerprint_follows_the_files_and_bad_models_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match="no config"):
        TransformersEngine(str(tmp_path))
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    assert fingerprint(tmp_path) == fingerprint(folder)
    weights = bytearray((tmp_path / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(weights)
    assert fingerprint(tmp_path) != fingerprint(folder)
    (tmp_path / "chat_template.jinja").unlink()
    with pytest.raises(InputError, match="no chat template"):
        TransformersEngine(str(tmp_path))


PROMPTS = [[5, 6, 7], [9], [11, 12, 13, 14, 15, 16, 17, 18], [5, 6, 7]]
SEEDS = [1, 2, 3, 4]


@pytest.fixture(scope="module")
def model(folder):
    return AutoModelForCausalLM.from_pretrained(folder).eval()


@pytest.fixture
def sampler(model, folder):
    return BatchSampler(model, AutoTokenizer.from_pretrained(folder), CONTEXT)


def sample(sampler, prompts=PROMPTS, seeds=SEEDS, **changes):
    how = {"temperature": 1.0, "top_p": 1.0, "max_tokens": 12, "stop_ids": {1}} | changes
    return sampler.generate(prompts, seeds[: len(prompts)], **how)


def ids(rows):
    return [row.token_ids for row in rows]


def test_same_seed_same_tokens_whatever_the_batch_and_the_cache(model, sampler):
    together, small = sample(sampler, n=3), copy.copy(sampler)
    small.max_rows = 2
    alone = [sample(sampler, [p], [s])[0] for p, s in zip(PROMPTS, SEEDS, strict=True)]
    turned = ids(sample(sampler, PROMPTS[::-1], SEEDS[::-1], n=5))
    for i in range(4):
        assert together[3 * i].token_ids == alone[i].token_ids
        assert ids(together)[3 * i : 3 * i + 3] == turned[5 * (3 - i) : 5 * (3 - i) + 3]
    assert together[0].token_ids != together[9].token_ids  # same prompt, other seed
    assert len({tuple(row) for row in ids(together)[:3]}) > 1  # completions of one prompt differ
    assert ids(sample(small, n=3)) == ids(together)
    plain = copy.copy(sampler)
    assert plain.shares_prefix and supports(model.config)
    assert not supports(Qwen3Config(use_sliding_window=True, max_window_layers=0, num_hidden_layers=2))
    plain.shares_prefix = False  # what a model of an unknown architecture gets
    for a, b in zip(sample(plain, n=3), together, strict=True):
        assert (a.token_ids, a.finish_reason) == (b.token_ids, b.finish_reason)
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-4)


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_logprobs_are_those_of_the_model_and_zero_is_greedy(model, sampler, temperature):
    for i, row in enumerate(sample(sampler, n=2, temperature=temperature, top_p=0.9, stop_ids=())):
        prompt = PROMPTS[i // 2]
        with torch.no_grad():
            logits = model(torch.tensor([prompt + row.token_ids])).logits[0, len(prompt) - 1 : -1]
        table = torch.log_softmax(logits / (temperature or 1.0), -1)
        if temperature:  # of the nucleus that was sampled from
            ordered = table.exp().sort(descending=True).values
            table = table - (ordered * (ordered.cumsum(-1) - ordered < 0.9)).sum(-1, keepdim=True).log()
        assert row.logprobs == pytest.approx(table[range(12), row.token_ids].tolist(), abs=1e-4)
        assert temperature or row.token_ids == logits.argmax(-1).tolist()


def test_stop_ids_end_a_row_and_are_its_last_token(sampler):
    free = sample(sampler, n=4, stop_ids=())
    assert all(row.finish_reason == "length" and len(row.token_ids) == 12 for row in free)
    stop = free[0].token_ids[4]
    for before, row in zip(free, sample(sampler, n=4, stop_ids={stop}), strict=True):
        cut = before.token_ids.index(stop) + 1 if stop in before.token_ids else 12
        assert row.token_ids == before.token_ids[:cut]  # and dropping finished rows leaves the others alone
        assert row.finish_reason == ("stop" if stop in before.token_ids else "length")
        assert len(row.logprobs) == cut
    small, seen = copy.copy(sampler), {}
    small.max_context = 16
    rows = sample(small, [*PROMPTS, [7] * 20], [*SEEDS, 5], n=2, on_row=lambda i, row: seen.update({i: row}))
    assert [seen[i] for i in range(10)] == rows  # each was told of when it was finished
    assert (rows[8].token_ids, rows[8].logprobs, rows[8].finish_reason) == ([], [], "context_overflow")
    for prompts, seeds, says in (([[1], [2]], [1], "2 prompts but 1 seeds"), ([[]], [1], "no tokens")):
        with pytest.raises(ValueError, match=says):
            sample(sampler, prompts, seeds)


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
    share = torch.bincount(draw(logprobs, uniform, 1.0)[0], minlength=6) / 10_000
    assert share.tolist() == pytest.approx(chances.tolist(), abs=1e-3)
    drawn, mass = draw(logprobs, uniform, 0.8)
    assert mass.exp().tolist() == pytest.approx([0.85] * 10_000)
    nucleus = torch.bincount(drawn, minlength=6) / 10_000
    assert nucleus.tolist() == pytest.approx([0, 0, 0.6 / 0.85, 0.25 / 0.85, 0, 0], abs=1e-3)
    edge = torch.tensor([math.nextafter(1.0, 0.0)]).double()
    assert draw(chances.log()[None], edge, 1.0)[0].tolist() == [4]  # never a token without mass
