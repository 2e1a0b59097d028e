"""Reading model output: code blocks, thinking, shortening, the repetition test. Counting tokens: of prompts
as the trainer will see them, and of texts for the shaped reward (published with ``o200k_base``).
"""

import importlib
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cobalt.errors import InputError
from cobalt.models import check_model
from cobalt.schema import Message

THINK_END = "</think>"
TRUNCATION_MARK = "...(truncated) ..."

_CACHED_AS = "fb374d419588a4632f3f557e76b4b70aebbca790"  # tiktoken's name for the file of o200k_base
_CODE_BLOCK = re.compile(r"```(?:\w+)?\n(.*?)```", re.DOTALL)


def extract_code(text: str | None) -> str | None:
    """The last fenced code block of any language, stripped; None if there is none.

    An empty block is code (the empty program), a fence that is never closed is not. None as `text`
    (an API that returned no content) holds no code.
    """
    blocks = _CODE_BLOCK.findall(text or "")
    return str(blocks[-1]).strip() if blocks else None


def encodable(text: str) -> str:
    """The text with lone surrogates, which neither tokenizers nor Parquet can hold, replaced by ``?``."""
    return text.encode("utf-8", "replace").decode()


def after_thinking(text: str) -> str:
    """The text after the last `</think>`, stripped; the whole text, stripped, if it holds none."""
    return text.rpartition(THINK_END)[2].strip()


def shorten(text: str, limit: int = 6000) -> tuple[str, bool]:
    """The first `limit` characters and whether anything was cut (the cut may fall inside a program)."""
    return text[:limit], len(text) > limit


def middle_truncate(value: str, limit: int = 400) -> str:
    """`value` stripped; if longer than `limit` characters, its first and last `limit // 2` around a mark."""
    value = value.strip()
    if len(value) <= limit:
        return value
    half = limit // 2
    return value[:half] + TRUNCATION_MARK + value[len(value) - half :]


def has_repetition(text: str, block: int = 32, times: int = 8) -> bool:
    """Whether some block of at least `block` characters occurs at least `times` times in a row.

    Near-linear. If a block of length p is repeated, then text[i] == text[i + p] for (times - 1) * p
    consecutive i, and that stretch holds at least `times - 2` whole blocks [kp, (k+1)p). So among any
    `times - 2` consecutive k one must show equal windows at kp and (k+1)p; only those anchors are compared
    (by a rolling hash), about n / (times - 2) * ln(n) of them in all, and the few hits are checked exactly.
    ``block`` is at least 1, ``times`` at least 3.
    """
    n = len(text)
    if n < block * times:
        return False
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    hashes = _window_hashes(codes, block)
    longest = n // times
    stride = times - 2
    for k in range(stride - 1, n // block, stride):
        # hashes[p * k] against hashes[p * (k + 1)] for p = block, block + 1, ... as two strided views
        later = hashes[block * (k + 1) :: k + 1][: longest - block + 1]
        if later.size == 0:
            break
        earlier = hashes[block * k :: k][: later.size] if k else np.full(later.size, hashes[0])
        for offset in np.flatnonzero(earlier == later):
            period = block + int(offset)
            if _run_length(codes, k * period, period, (times - 1) * period) >= (times - 1) * period:
                return True
    return False


@cache
def _powers(count: int) -> Any:
    with np.errstate(over="ignore"):
        return np.cumprod(np.full(count, 0x9E3779B97F4A7C15, dtype=np.uint64))


def _window_hashes(codes: Any, width: int) -> Any:
    """A 64-bit hash of codes[i : i + width] for every i; equal windows have equal hashes."""
    mixed = (codes.astype(np.uint64) + np.uint64(1)) * np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(31)
    total = np.zeros(len(codes) - width + 1, dtype=np.uint64)
    for shift, power in enumerate(_powers(width)):
        total += mixed[shift : shift + len(total)] * power
    return total


def _run_length(codes: Any, start: int, period: int, enough: int) -> int:
    """How many consecutive i around `start` satisfy codes[i] == codes[i + period], counted up to `enough`."""
    stop = min(len(codes) - period, start + enough)
    right = _leading(codes[start:stop] == codes[start + period : stop + period])
    first = max(0, start - enough)
    left = _leading((codes[first:start] == codes[first + period : start + period])[::-1])
    return left + right


def _leading(flags: Any) -> int:
    """How many entries are true before the first false one."""
    return int(np.argmin(flags)) if flags.size and not flags.all() else int(flags.size)


def load_tokenizer(model_name: str) -> Any:
    """The tokenizer of a model folder or hub name. Raises InputError without one or its chat template."""
    from transformers import AutoTokenizer

    check_model(model_name, weights=False)
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
