"""Prompt lengths as the trainer will see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cobalt.errors import InputError
from cobalt.schema import Message


def encodable(text: str) -> str:
    """The text with lone surrogates, which neither tokenizers nor Parquet can hold, replaced by ``?``."""
    return text.encode("utf-8", "replace").decode()


def load_tokenizer(model_name: str) -> Any:
    """The tokenizer of a model folder or hub name. Raises InputError without one or its chat template."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(model_name)
    except Exception as error:  # the hub, the file system and many parsers each raise their own
        reason = str(error).strip().splitlines()
        raise InputError(
            f"cannot load the tokenizer of --model_name {model_name!r} "
            f"({reason[0] if reason else type(error).__name__}); "
            "give a folder with a Hugging Face tokenizer, or a model that is cached or can be reached"
        ) from None
    if not getattr(tokenizer, "chat_template", None):
        raise InputError(f"the tokenizer of --model_name {model_name!r} has no chat template")
    return tokenizer


class PromptCounter:
    """Counts the tokens of a dialogue rendered by a chat template, generation header included."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer

    def __call__(self, messages: Sequence[Message], where: str = "conversation") -> int:
        """Raises InputError, beginning with ``where``, if the template refuses the dialogue."""
        dialogue = [{"role": m["role"], "content": encodable(m["content"])} for m in messages]
        try:
            # Without return_dict=False the length is that of a mapping: the number of its keys.
            ids = self._tokenizer.apply_chat_template(dialogue, add_generation_prompt=True, return_dict=False)
        except Exception as error:  # templates raise whatever they like
            raise InputError(f"{where}: the chat template refuses this dialogue: {error}") from error
        return len(ids)
