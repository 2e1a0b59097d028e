"""The tokenizer of the tiny reference: every known piece of a dialogue is one token."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from cobalt.evaluator.feedback import wrong_answer_feedback
from cobalt.prompts import Prompts
from cobalt.tasks import tiny

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

CHAT_TEMPLATE = (
    "{% for m in messages %}"
    "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
END = "<|im_end|>"
REVISED = "# revised\n"  # the first line of a program that the second reference made from feedback


def merged_pieces(prompts: Prompts, family: tiny.Family = tiny.FIRST) -> list[str]:
    """Strings that are one token each: role headers, prompt frames, feedback labels, frequent code."""
    more = _lines(family) if family.special_cases else []
    empty = wrong_answer_feedback("\0", "\0", "\0").split("\0")
    frame = prompts.feedback_message("\0" + empty[0]).split("\0")
    return [
        "<|im_start|>system\n", "<|im_start|>user\n", "<|im_start|>assistant\n", END, prompts.system,
        frame[0] + empty[0], frame[0], *empty[1:3], "\nStderr:\n",
        prompts.all_passed, prompts.no_code,
        "```python\n", "\n```", tiny.READ_LINE + "\n", "xs = [", " for x in xs", " for y in (x, x)",
        "xs = xs",
        "[::-1]", 'print(*xs, sep="', '")', 'print("', '", *xs)', '", sum(xs))', '", max(xs))', '", min(xs))',
        '", len(xs))', "Read a list of integers. First", ". Then", ". Finally print",
        "Traceback (most recent call last):\n  File \"", "\", line ", *more,
        *_labels(family),
    ]  # fmt: skip


def _labels(family: tiny.Family) -> list[str]:
    """What stands before or after the label in a program's last line."""
    shown = [output.shown for output in family.outputs.values() if output.shown]
    return [f'print({each}, "' if family.label_last else f'", {each})' for each in shown]


def _lines(family: tiny.Family) -> list[str]:
    """What stands between the values in a program: of each step one token, or one before and one after."""
    lines = [REVISED.rstrip(), family.special("\0", "\0")]
    lines += [operation.line.replace("{k}", "\0") for operation in family.operations.values()]
    lines += [line for _, line, _ in family.rearrangements.values()]
    return [piece for line in lines for piece in f"{line}\n".split("\0")]


def build_tokenizer(prompts: Prompts, family: tiny.Family = tiny.FIRST) -> PreTrainedTokenizerFast:
    """A fast tokenizer whose known pieces are one token; anything else falls back to characters and bytes."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    merged = [piece for piece in dict.fromkeys(merged_pieces(prompts, family)) if piece]
    alternatives = "|".join(re.escape(piece) for piece in sorted(merged, key=len, reverse=True))
    number = r" ?\d{1,2}" if family.special_cases else r"\d{1,2}"  # so that a copied list is a plain sequence
    pattern = alternatives + rf"| ?[A-Za-z_]+|{number}|\n| ?[^\sA-Za-z\d]|\s"
    words: set[str] = set()
    for spec, vague in _every_sentence(family):
        for text in (
            family.statement(spec, vague),
            family.program(spec),
            f"1 {spec.format}" if family.label_last else f"{spec.format} 1",
            f"1{spec.format}2",
        ):
            words.update(re.findall(pattern, text))
    words.update(
        [
            "ValueError",
            "TypeError",
            "NameError",
            "SyntaxError",
            "IndexError",
            "ZeroDivisionError",
            "TimeoutError",
        ]
    )
    words.update(
        re.findall(
            pattern, "in <module> max() min() iterable argument is empty File line name is not defined"
        )
    )
    numbers = [str(i) for i in range(100)] + [f"{i:02d}" for i in range(10)]
    numbers += [f" {i}" for i in range(100)] if family.special_cases else []
    characters = ["\n", "\t"] + [chr(c) for c in range(32, 127)]
    pieces = dict.fromkeys(["<pad>", END, *merged, *sorted(words), *numbers, *characters, "<unk>"])
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    core = Tokenizer(models.BPE(vocabulary, [], ignore_merges=True, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    core.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        pad_token="<pad>",
        eos_token=END,
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _every_sentence(family: tiny.Family) -> list[tuple[tiny.Spec, frozenset[str]]]:
    """Specs that together use every word of the family."""
    out = []
    for operation, details in family.operations.items():
        for k in details.constants:
            for rearrangement in family.rearrangements:
                for output in family.outputs:
                    for form in tiny.formats(output):
                        spec = tiny.Spec(operation, k, rearrangement, output, form)
                        out += [(spec, frozenset[str]()), (spec, frozenset(tiny.SLOTS))]
    return out
