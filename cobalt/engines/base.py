"""What every chat engine looks like: sampling settings in, completions with token counts out."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from cobalt.schema import Message

STOP, LENGTH, CONTEXT_OVERFLOW, CONTENT_FILTER = "stop", "length", "context_overflow", "content_filter"


@dataclass(frozen=True)
class Sampling:
    """How to sample one request; the defaults are the published ones (arXiv 2602.03806).

    ``temperature`` >= 0 (0 is greedy), ``top_p`` in (0, 1], ``max_tokens`` >= 1 new tokens, ``n`` >= 1
    completions of the same conversation, ``seed`` of the request (None: the engine draws one; completion j
    of a seeded request does not depend on ``n``). ``index``: number of the first completion; one with
    ``index`` j is completion j of the request that has them all. ``session``: requests of one trajectory
    name the same, so that a service can send them where their prefix is cached. ``reasoning_effort`` is for
    services that know it.
    """

    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 8192
    n: int = 1
    seed: int | None = None
    index: int = 0
    session: str | None = None
    reasoning_effort: str | None = None

    def __post_init__(self) -> None:
        for name, sound, allowed in (
            ("temperature", self.temperature >= 0, "at least 0"),
            ("top_p", 0 < self.top_p <= 1, "above 0 and at most 1"),
            ("max_tokens", self.max_tokens >= 1, "at least 1"),
            ("n", self.n >= 1, "at least 1"),
        ):
            if not sound:
                raise ValueError(f"sampling: {name} must be {allowed}, got {getattr(self, name)!r}")

    def seed_of(self, sample: int) -> int | None:
        """Seed of the request's completion `sample` (from 0), in the widest range that every server takes."""
        if self.seed is None:
            return None
        number = self.index + sample
        return (derived_seed(self.seed, number) if number else self.seed) % 2**31


@dataclass(frozen=True)
class Completion:
    """One completion.

    ``finish_reason`` is ``stop``, ``length`` (``max_tokens`` or the context's end reached),
    ``context_overflow`` (the conversation itself does not fit, ``text`` is empty), or what the service says;
    ``content_filter`` is a refusal. ``reasoning_tokens`` (part of ``completion_tokens``) and ``cost`` (US
    dollars) are None where an engine does not tell.
    """

    text: str
    finish_reason: str
    prompt_tokens: int
    completion_tokens: int
    reasoning_tokens: int | None = None
    cost: float | None = None


class ChatEngine(Protocol):
    """A model behind a chat interface; several requests may be in flight at once.

    Optional: ``separate`` (true: n completions are n requests anyway, so callers better ask for each on its
    own), ``fingerprint`` (what identifies the model better than the name), ``price()``, ``check()``,
    ``retries`` (how many there were, to be shown).
    """

    name: str

    async def chat(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """``sampling.n`` completions of the conversation. A fault of the engine raises InfraError."""
        ...

    async def aclose(self) -> None:
        """Release what the engine holds. Calling it twice is harmless."""
        ...


def identity(engine: ChatEngine) -> str:
    """What a resumed run must find again: the hash of a local model's files, else the engine's name."""
    return str(getattr(engine, "fingerprint", None) or engine.name)


def derived_seed(seed: int, *parts: str | int) -> int:
    """A 63-bit seed from a run's seed and the names of one completion (task id, sample, turn, ...).

    So a seed depends on what is sampled, not on when. A hash of the JSON text of all arguments, so 1 and "1"
    differ and no two splits of a name coincide.
    """
    text = json.dumps([seed, *parts]).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


def without_surrogates(text: str) -> str:
    """`text` with U+FFFD for lone surrogates, which neither UTF-8 nor any tokenizer takes."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


async def together(requests: Iterable[Coroutine[Any, Any, Completion]]) -> list[Completion]:
    """All at once, in order. The first error is raised, and the others are then no longer waited for."""
    tasks = [asyncio.create_task(request) for request in requests]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()
