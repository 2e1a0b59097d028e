"""Token counters for the shaped reward. The published values use the ``o200k_base`` encoding."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cobalt.errors import InputError

_CACHED_AS = "fb374d419588a4632f3f557e76b4b70aebbca790"  # tiktoken's name for the file of o200k_base


def tokenizer_counter(tokenizer: Any) -> Callable[[str], int]:
    """Count with a Hugging Face tokenizer, without special tokens."""

    def count(text: str) -> int:
        return len(tokenizer(text.encode("utf-8", "replace").decode(), add_special_tokens=False)["input_ids"])

    return count


def o200k_path() -> Path:
    """Where tiktoken keeps the encoding's file once it has been fetched."""
    for variable in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        if variable in os.environ:
            return Path(os.environ[variable]) / _CACHED_AS
    return Path(tempfile.gettempdir()) / "data-gym-cache" / _CACHED_AS


def o200k_counter(*, allow_download: bool = False) -> Callable[[str], int]:
    """Count with ``o200k_base``; texts of special tokens are ordinary text.

    Raises InputError if tiktoken is not installed, or if the encoding is not in its cache and must not be
    fetched.
    """
    try:
        tiktoken: Any = importlib.import_module("tiktoken")
    except ImportError:
        raise InputError(
            "the o200k_base token counter needs the package tiktoken: install it, or count with the policy's "
            "tokenizer"
        ) from None
    if not allow_download and not o200k_path().is_file():
        raise InputError(
            f"the o200k_base encoding is not cached at {o200k_path()}: run "
            "`python -c \"import tiktoken; tiktoken.get_encoding('o200k_base')\"` once with network access "
            "and the same TIKTOKEN_CACHE_DIR, or count with the policy's tokenizer"
        )
    encoding = tiktoken.get_encoding("o200k_base")
    return lambda text: len(encoding.encode_ordinary(text))
