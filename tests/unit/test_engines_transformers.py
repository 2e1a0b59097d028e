"""The transformers engine on a random tiny Qwen3 with a character tokenizer."""

import asyncio
import string

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from cobalt.engines import connect
from cobalt.engines.base import Sampling
from cobalt.engines.transformers_engine import TransformersEngine, fingerprint
from cobalt.errors import InfraError, InputError

TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
END = "<|im_end|>"


def make_tokenizer(template=TEMPLATE):
    pieces = ["<pad>", END, "<|im_start|>", *string.printable, "<unk>"]
    core = Tokenizer(
        models.BPE({p: i for i, p in enumerate(pieces)}, [], ignore_merges=True, unk_token="<unk>")
    )
    core.pre_tokenizer = pre_tokenizers.Split(pattern="", behavior="isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core, pad_token="<pad>", eos_token=END, unk_token="<unk>",
        additional_special_tokens=["<|im_start|>"], clean_up_tokenization_spaces=False,
    )  # fmt: skip
    tokenizer.chat_template = template
    return tokenizer


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch.manual_seed(0)
    tokenizer = make_tokenizer()
    config = Qwen3Config(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=48, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, head_dim=8, max_position_embeddings=160,
        tie_word_embeddings=True,
        initializer_range=0.4, eos_token_id=1, pad_token_id=0, bos_token_id=None,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("model")
    Qwen3ForCausalLM(config).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def engine(folder):
    engine = connect("transformers", str(folder))
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
    assert END not in one.text and len(one.text) <= one.completion_tokens


async def test_concurrent_requests_share_batches_and_change_nothing(engine):
    texts = ["a", "longer text", "b" * 40, "", "z"]
    settings = [Sampling(1.0, 1.0, 12, n, seed) for n in (1, 3) for seed in (7, 8)]
    alone = [await engine.chat(say(t), s) for t in texts for s in settings]
    before = engine.batches
    together = await asyncio.gather(*(engine.chat(say(t), s) for t in texts for s in settings))
    assert [[c.text for c in answer] for answer in together] == [[c.text for c in answer] for answer in alone]
    assert engine.batches - before <= 4  # two groups (n = 1 and 3), perhaps cut once by the window
    assert together[0][0].text != together[1][0].text  # another seed, another sample
    one, three = alone[0], alone[2]
    assert one[0].text == three[0].text  # the first completion does not depend on n


async def test_over_long_prompts_overflow_and_the_rest_goes_on(engine):
    long, short = await asyncio.gather(engine.chat(say("x" * 200), SETTINGS), engine.chat(say("x"), SETTINGS))
    assert (
        long[0].finish_reason == "context_overflow" and long[0].text == "" and long[0].completion_tokens == 0
    )
    assert short[0].finish_reason != "context_overflow"


async def test_the_context_ends_a_completion(engine):
    prompt = say("x" * 100)
    room = 160 - len(engine.encode([prompt])[0])
    made = await engine.chat(prompt, Sampling(1.0, 1.0, 1000, 8, 1))
    assert max(c.completion_tokens for c in made) <= room
    cut = [c.completion_tokens for c in made if c.finish_reason == "length"]
    assert cut == [room] * len(cut) != []


async def test_requests_are_answered_when_their_own_rows_are_done(engine):
    """A completion that stops at once is there before one of the same batch that goes on."""
    order = []

    async def ask(text, seed):
        (made,) = await engine.chat(say(text), Sampling(1.0, 1.0, 60, 1, seed))
        order.append(made.completion_tokens)

    await asyncio.gather(*(ask(f"{seed}", seed) for seed in range(16)))
    assert order == sorted(order) and order[0] < order[-1]


async def test_lone_surrogates_are_data(engine):
    assert engine.encode([say("a\ud800b")]) == engine.encode([say("a\ufffdb")])
    assert await engine.chat(say("a\ud800b"), SETTINGS)


async def test_a_failing_batch_is_an_error_and_the_engine_lives_on(engine, monkeypatch):
    def broken(*args, **kw):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(engine._sampler, "generate", broken)
        with pytest.raises(InfraError, match="out of memory"):
            await engine.chat(say("a"), SETTINGS)
    assert await engine.chat(say("a"), SETTINGS)


async def test_a_closed_engine_refuses(folder):
    engine = TransformersEngine(str(folder), threads=1)
    await engine.aclose()
    await engine.aclose()
    with pytest.raises(InfraError, match="closed"):
        await engine.chat(say("a"), SETTINGS)


async def test_unseeded_requests_differ(engine):
    made = [await engine.chat(say("a"), Sampling(1.0, 1.0, 12)) for _ in range(4)]
    assert len({c.text for (c,) in made}) > 1


def test_fingerprint_follows_the_files(folder, tmp_path):
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    assert fingerprint(copy) == fingerprint(folder)
    weights = bytearray((copy / "model.safetensors").read_bytes())
    weights[-1] ^= 1
    (copy / "model.safetensors").write_bytes(weights)
    assert fingerprint(copy) != fingerprint(folder)


def test_bad_models_are_refused(folder, tmp_path):
    with pytest.raises(InputError, match="no model could be loaded"):
        TransformersEngine(str(tmp_path))
    make_tokenizer(None).save_pretrained(tmp_path)
    for path in folder.iterdir():
        if path.name in ("model.safetensors", "config.json"):
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with pytest.raises(InputError, match="no chat template"):
        TransformersEngine(str(tmp_path))


@pytest.mark.parametrize(
    "name, model, url, says",
    [
        ("vllm", "m", "localhost:8000", "http://"),
        ("litellm", None, None, "--model_name"),
        ("nope", "m", None, "choose one of"),
        ("transformers", None, None, "--model_name"),
        ("openai", "m", None, "--base_url"),
        ("openai", "m", "localhost:8000", "http://"),
        ("transformers", "m", "http://localhost/v1", "--base_url does not go with it"),
    ],
)
def test_engines_that_cannot_be_opened(name, model, url, says):
    with pytest.raises(InputError, match=says):
        connect(name, model, url)
