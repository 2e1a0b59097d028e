"""Token counts: of prompts as the trainer will see them, and of texts for the shaped reward, whose published
values use the ``o200k_base`` encoding.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.schema import Message
from cobalt.text import encodable

_CACHED_AS = "fb374d419588a4632f3f557e76b4b70aebbca790"  # tiktoken's name for the file of o200k_base


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


def tokenizer_counter(tokenizer: Any) -> Callable[[str], int]:
    """Count with a Hugging Face tokenizer, without special tokens."""

    def count(text: str) -> int:
        return len(tokenizer(encodable(text), add_special_tokens=False)["input_ids"])

    return count


def o200k_path() -> Path:
    """Where tiktoken keeps the encoding's file once it has been fetched."""
    default = os.environ.get("DATA_GYM_CACHE_DIR", Path(tempfile.gettempdir()) / "data-gym-cache")
    return Path(os.environ.get("TIKTOKEN_CACHE_DIR", default)) / _CACHED_AS


def o200k_counter() -> Callable[[str], int]:
    """Count with ``o200k_base``; texts of special tokens are ordinary text.

    Raises InputError if tiktoken is not installed, or its cache lacks the encoding: nothing is fetched.
    """
    try:
        tiktoken: Any = importlib.import_module("tiktoken")
    except ImportError:
        raise InputError("counting tokens in o200k_base needs the package tiktoken: pip install it") from None
    if not o200k_path().is_file():
        raise InputError(
            f"the o200k_base encoding is not cached at {o200k_path()}: run "
            "`python -c \"import tiktoken; tiktoken.get_encoding('o200k_base')\"` once with network access "
            "and the same TIKTOKEN_CACHE_DIR, or count with the policy's tokenizer"
        )
    encoding = tiktoken.get_encoding("o200k_base")
    return lambda text: len(encoding.encode_ordinary(text))
