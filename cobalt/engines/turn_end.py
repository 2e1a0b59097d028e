"""How a chat template ends a response, and which tokens stop sampling.

``tokenizer.eos_token`` does not tell: Gemma ends turns by ``<end_of_turn>``, Llama 3 by ``<|eot_id|>``, Phi
by ``<|end|>``, and GLM by the token that opens the next message. The template itself is asked.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

_ANSWER, _MESSAGE = "cobalt-sentinel", "cobalt-message"
_FILES = ("generation_config.json", "config.json")


@dataclass(frozen=True)
class TurnEnd:
    """``token`` stands after a response in the template (None: nothing does); ``opens``: it belongs to the
    next message's header, so that a response which ended otherwise is followed by it too. ``stop_ids`` end
    sampling: that token, the tokenizer's end token, and those of the model's generation settings.
    """

    token: int | None
    opens: bool
    stop_ids: frozenset[int]

    def of(self, ids: Sequence[int]) -> int | None:
        """The stop token that a response ends with; None for one that was cut."""
        return ids[-1] if len(ids) and ids[-1] in self.stop_ids else None

    def written(self, ids: Sequence[int]) -> Sequence[int]:
        """What was written: a response without its stop token."""
        return ids if self.of(ids) is None else ids[:-1]


@lru_cache(maxsize=8)
def turn_end(tokenizer: Any) -> TurnEnd:
    """As the tokenizer's template and the files beside it say; one that refuses the dialogue says nothing."""
    specials = {*tokenizer.all_special_ids, *tokenizer.added_tokens_decoder}
    between, closed = [], []
    with contextlib.suppress(Exception):  # templates raise whatever they like
        between = _ids(tokenizer, after_response(tokenizer, _MESSAGE).partition(_MESSAGE)[0])
        closed = _ids(tokenizer, after_response(tokenizer, None))
    place = next((i for i, token in enumerate(between) if token in specials), None)
    if place is not None and tokenizer.decode(between[:place]).strip():
        place = None
    token = None if place is None else between[place]
    first = next((each for each in closed if each in specials), None)
    opens = token is not None and first != token and not specials & {*between[(place or 0) + 1 :]}
    stops = {token, tokenizer.eos_token_id, *_configured(str(tokenizer.name_or_path or ""))}
    return TurnEnd(token, opens, frozenset(int(each) for each in stops if each is not None))


def after_response(tokenizer: Any, message: str | None) -> str:
    """The text from the end of a response to the start of the next, by the chat template: ``message`` as the
    user's, and the header. None: the text after the last response.
    """
    turns = [("user", "?"), ("assistant", _ANSWER), *([] if message is None else [("user", message)])]
    text: str = tokenizer.apply_chat_template(
        [{"role": role, "content": content} for role, content in turns],
        add_generation_prompt=message is not None,
        tokenize=False,
    )
    return text.partition(_ANSWER)[2]


def next_turn_ids(tokenizer: Any, message: str, end: TurnEnd, ended: int | None) -> list[int]:
    """Token ids of `after_response`; ``ended`` is the stop token that the response has (None: it was cut),
    and then the template's own end token is not repeated.
    """
    ids = _ids(tokenizer, after_response(tokenizer, message))
    if ended is None or end.token is None or (end.opens and ended != end.token):
        return ids
    return ids[ids.index(end.token) + 1 :]


def _ids(tokenizer: Any, text: str) -> list[int]:
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _configured(name: str) -> list[int]:
    """``eos_token_id`` of the model's generation settings, or else of its configuration."""
    from transformers.utils.hub import cached_file

    for file in _FILES if name else ():
        with contextlib.suppress(OSError, ValueError):
            path = cached_file(name, file, local_files_only=True)
            given = json.loads(Path(path).read_text(encoding="utf-8")).get("eos_token_id") if path else None
            if given is not None:
                return list(given) if isinstance(given, list) else [given]
    return []
