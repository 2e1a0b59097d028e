"""Ends of turns in twelve families of chat templates, of the real structure; tokenizers made by hand."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from cobalt.engines.turn_end import next_turn_ids, turn_end
from cobalt.errors import InputError
from cobalt.prompts import TINY
from cobalt.rewards.cobalt import PLAIN
from cobalt.training.dialogue import Dialogue, DialogueSettings, Judge
from cobalt.training.scoring import Scorer

THOUGHTLESS = "{{ m.content.split('</think>')[-1].lstrip('\\n') }}"
LOOP = "{% for m in messages %}"
CHATML = (
    LOOP + "<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
NAMED = "{% if m.role == 'user' %}U{% elif m.role == 'system' %}S{% else %}A{% endif %}{% endfor %}"


def named(user, system, assistant, header, before=""):
    body = NAMED.replace("U", "\0").replace("S", "\1").replace("A", "\2")
    body = body.replace("\0", user).replace("\1", system).replace("\2", assistant)
    return before + LOOP + body + "{% if add_generation_prompt %}" + header + "{% endif %}"


C = "{{ m.content }}"
# name: template, special tokens, eos of the tokenizer, ids in generation_config, end token, does it open
FAMILIES = {
    "qwen2.5": (
        "{% if messages[0].role != 'system' %}<|im_start|>system\nYou are helpful.<|im_end|>\n{% endif %}"
        + CHATML, ["<|im_start|>", "<|im_end|>", "<|endoftext|>"], "<|im_end|>",
        ["<|im_end|>", "<|endoftext|>"], "<|im_end|>", False),
    "qwen3": (
        CHATML.replace("{{ m.content }}", "{% if m.role == 'assistant' %}" + THOUGHTLESS + "{% else %}"
                       "{{ m.content }}{% endif %}"),
        ["<|im_start|>", "<|im_end|>", "<|endoftext|>"], "<|im_end|>", ["<|im_end|>", "<|endoftext|>"],
        "<|im_end|>", False),
    "llama3": (
        LOOP + "{% if loop.first %}<|begin_of_text|>{% endif %}<|start_header_id|>{{ m.role }}"
        "<|end_header_id|>\n\n{{ m.content | trim }}<|eot_id|>{% endfor %}{% if add_generation_prompt %}"
        "<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}",
        ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"],
        "<|end_of_text|>", ["<|end_of_text|>", "<|eot_id|>"], "<|eot_id|>", False),
    "gemma2": (
        "<bos>{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}"
        "{% endif %}" + LOOP + "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception("
        "'Conversation roles must alternate') }}{% endif %}<start_of_turn>"
        "{{ 'model' if m.role == 'assistant' else m.role }}\n"
        "{{ m.content | trim }}<end_of_turn>\n{% endfor %}{% if add_generation_prompt %}"
        "<start_of_turn>model\n{% endif %}",
        ["<bos>", "<eos>", "<start_of_turn>", "<end_of_turn>"], "<eos>", None, "<end_of_turn>", False),
    "mistral": (
        named("[INST] " + C + "[/INST]", C, " " + C + "</s>", "", "<s>"),
        ["<s>", "</s>", "[INST]", "[/INST]"], "</s>", None, "</s>", False),
    "llama2": (
        named("<s>[INST] " + C + " [/INST]", C, " {{ m.content | trim }} </s>", ""), ["<s>", "</s>"], "</s>",
        None, "</s>", False),
    "phi3": (
        named("<|user|>\n" + C + "<|end|>\n", "<|system|>\n" + C + "<|end|>\n",
              "<|assistant|>\n" + C + "<|end|>\n", "<|assistant|>\n")
        + "{% if not add_generation_prompt %}<|endoftext|>{% endif %}",
        ["<|user|>", "<|system|>", "<|assistant|>", "<|end|>", "<|endoftext|>"], "<|endoftext|>",
        ["<|endoftext|>", "<|assistant|>", "<|end|>"], "<|end|>", False),
    "deepseek-r1": (
        named("<|User|>" + C, C, "<|Assistant|>" + THOUGHTLESS + "<|end_of_sentence|>",
              "<|Assistant|>", "<|begin_of_sentence|>"),
        ["<|begin_of_sentence|>", "<|end_of_sentence|>", "<|User|>", "<|Assistant|>"], "<|end_of_sentence|>",
        None, "<|end_of_sentence|>", False),
    "granite": (
        CHATML.replace("<|im_start|>", "<|start_of_role|>")
        .replace("{{ m.role }}\n", "{{ m.role }}<|end_of_role|>")
        .replace("assistant\n", "assistant<|end_of_role|>").replace("<|im_end|>", "<|end_of_text|>"),
        ["<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>"], "<|end_of_text|>", None,
        "<|end_of_text|>", False),
    "command-r": (
        named("<|START|><|USER|>" + C + "<|END|>", "<|START|><|SYSTEM|>" + C + "<|END|>",
              "<|START|><|BOT|>" + C + "<|END|>", "<|START|><|BOT|>", "<BOS>"),
        ["<BOS>", "<|START|>", "<|END|>", "<|USER|>", "<|SYSTEM|>", "<|BOT|>"], "<|END|>", None, "<|END|>",
        False),
    "glm4": (
        named("<|user|>\n" + C, "<|system|>\n" + C, "<|assistant|>" + C, "<|assistant|>", "[gMASK]<sop>"),
        ["[gMASK]", "<sop>", "<|user|>", "<|system|>", "<|assistant|>", "<|endoftext|>"], "<|endoftext|>",
        ["<|endoftext|>", "<|user|>"], "<|user|>", True),
    "gpt-oss": (
        "<|start|>system<|message|>Be brief.<|end|>" + LOOP + "<|start|>{{ m.role }}<|message|>"
        "{{ m.content }}"
        "{{ '<|return|>' if loop.last and m.role == 'assistant' else '<|end|>' }}{% endfor %}"
        "{% if add_generation_prompt %}<|start|>assistant<|message|>{% endif %}",
        ["<|start|>", "<|message|>", "<|end|>", "<|return|>", "<|endoftext|>"], "<|return|>",
        ["<|return|>", "<|endoftext|>"], "<|end|>", False),
}  # fmt: skip


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, tmp_path_factory):
    """Name, tokenizer (bytes as tokens, its specials apart) and what is expected of it."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    template, specials, eos, stops, end, opens = FAMILIES[request.param]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    base = Tokenizer(models.BPE({letter: i for i, letter in enumerate(alphabet)}, []))
    base.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    base.decoder = decoders.ByteLevel()
    made = PreTrainedTokenizerFast(tokenizer_object=base, eos_token=eos, chat_template=template)
    made.add_special_tokens({"additional_special_tokens": specials})
    folder = tmp_path_factory.mktemp("family")
    made.save_pretrained(folder)
    if stops:
        ids = made.convert_tokens_to_ids(stops)
        (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": ids}))
    return request.param, AutoTokenizer.from_pretrained(folder), (end, opens, {eos, end, *(stops or [])})


def rendered(tokenizer, messages):
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    return tokenizer(text, add_special_tokens=False)["input_ids"]


OPENING = [{"role": "user", "content": "Read two integers."}]
ANSWER, MESSAGE = "```python\nprint(1)\n```", "It printed 1.\n\nExpected 2."


def test_the_template_says_what_ends_a_turn(family):
    _, tokenizer, (end, opens, stops) = family
    found = turn_end(tokenizer)
    assert tokenizer.convert_ids_to_tokens(found.token) == end and found.opens is opens
    assert {tokenizer.convert_ids_to_tokens(i) for i in found.stop_ids} == stops


def test_ids_go_on_as_the_whole_conversation_is_rendered(family):
    """Whatever the response ended with: the template's token, another stop token, or nothing (it was cut)."""
    name, tokenizer, _ = family
    end = turn_end(tokenizer)
    whole = rendered(
        tokenizer,
        [*OPENING, {"role": "assistant", "content": ANSWER}, {"role": "user", "content": MESSAGE}],
    )
    before = {"mistral": " ", "llama2": " "}.get(name, "")  # the policy's own first token there
    response = tokenizer(before + ANSWER, add_special_tokens=False)["input_ids"]
    start = rendered(tokenizer, OPENING) + response
    assert start + next_turn_ids(tokenizer, MESSAGE, end, None) == whole
    # the end token is left out, and in Llama 2's template the space before it
    left_out = {"glm4": 0, "llama2": 2}.get(name, 1)
    for token in end.stop_ids:
        made = [*start, token, *next_turn_ids(tokenizer, MESSAGE, end, token)]
        rest = whole[len(start) + (1 if token == end.token and name != "llama2" else left_out) :]
        assert made == [*start, token, *rest]
        assert made == whole or token != end.token or name == "llama2"
        assert end.written([*response, token]) == response and end.of([*response, token]) == token
    assert end.written(response) == response and end.of(response) is None and end.of([]) is None


def test_a_dialogue_of_two_turns_has_every_end_once(family):
    """Through `Judge`, as the batch path and the agent loop go."""
    _, tokenizer, _ = family

    class Wrong:
        async def aevaluate(self, code, tests):
            return {"passing": [False], "feedback": ["Input:\n1"], "status": "ok", "per_test": []}

    settings = DialogueSettings(2, 99, 900, "last", False, TINY)
    judge = Judge(Scorer(Wrong(), profile=PLAIN, count_tokens=len), tokenizer, settings)
    tests = json.dumps({"inputs": ["1"], "outputs": ["a"]})
    row = {
        "public_test_cases": tests,
        "reward_model": {"ground_truth": tests},
        "extra_info": {"split": "train"},
    }
    dialogue = Dialogue(rendered(tokenizer, OPENING))
    response = [*tokenizer(ANSWER, add_special_tokens=False)["input_ids"], judge.end.token]
    for _ in range(2):
        dialogue.add_response(response, [0.0] * len(response), judge.text(response))
        asyncio.run(judge.after_turn(dialogue, row))
    assert dialogue.texts == [ANSWER, ANSWER] and dialogue.complete
    first = dialogue.ends[0]
    assert dialogue.response_ids[first - 1] == judge.end.token
    after = dialogue.response_ids[first : first + 2]
    assert judge.end.token not in after and dialogue.response_ids[-1] == judge.end.token


def test_a_prompt_that_the_template_refuses_is_named(family):
    import pyarrow

    from cobalt.training.data import lengths

    name, tokenizer, _ = family
    system = [{"role": "system", "content": "Write Python."}, *OPENING]
    table = pyarrow.Table.from_pylist([{"prompt": OPENING}, {"prompt": system}])
    if name == "gemma2":
        said = (
            r"here: row 1: .*template refuses this prompt \(roles system, user\): System role not supported"
        )
        with pytest.raises(InputError, match=said):
            lengths(table, tokenizer, "here")
    else:
        assert len(lengths(table, tokenizer)) == 2


def test_stored_completions_end_as_the_template_does(family):
    from cobalt.training.offline import encode

    _, tokenizer, (end, *_) = family
    group = SimpleNamespace(prompt=OPENING, texts=[ANSWER], weights=[1.0])
    ((_, ids, _),) = encode(group, tokenizer, 999, 999)
    assert tokenizer.convert_ids_to_tokens(ids[-1]) == end


def test_a_template_without_an_end_leaves_the_tokenizers(tmp_path):
    """Plain text between messages, and a template that refuses every dialogue."""
    for template in (
        "{% for m in messages %}### {{ m.role }}: {{ m.content }}\n{% endfor %}",
        "{{ nothing() }}",
    ):
        stub = SimpleNamespace(
            all_special_ids=[7], added_tokens_decoder={}, eos_token_id=7, name_or_path=str(tmp_path),
            apply_chat_template=_renderer(template), decode=lambda ids: "".join(map(chr, ids)),
        )  # fmt: skip

        class Tokens:
            __call__ = staticmethod(lambda text, **_: {"input_ids": list(map(ord, text))})

            def __getattr__(self, name, stub=stub):
                return getattr(stub, name)

        found = turn_end(Tokens())
        assert found.token is None and found.stop_ids == {7}


def _renderer(template):
    from jinja2 import Template

    return lambda messages, **_: Template(template).render(messages=messages)
