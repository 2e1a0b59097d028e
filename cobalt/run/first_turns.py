"""First turns of a model, sampled once in a run: `OUT/first_turns/MODEL.jsonl`.

The published work answers every task once and starts all dialogues of a model on it, on true and on perturbed
tests, from the same programs. So every stage that asks for the same completions of an opening gets these.
"""

from __future__ import annotations

from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from cobalt.engines.base import ChatEngine, Completion, Sampling
from cobalt.errors import InfraError
from cobalt.files import settings_hash
from cobalt.output import repair_tail
from cobalt.rows import encode_row, read_rows
from cobalt.schema import Message

# Where a request is sent and which of its completions are asked for does not make them others.
_NOT_KEY = ("n", "index", "session")
_FIELDS = tuple(each.name for each in fields(Completion) if each.name != "cost")


class FirstTurns:
    """Stands in front of an engine (which the caller closes) and keeps its answers to openings in a file.

    Kept are seeded completions, by messages, sampling and number; the seed is that of run and task. What was
    paid for one is told once: a kept completion has no cost.
    """

    def __init__(self, inner: ChatEngine, path: Path) -> None:
        self.inner, self.name, self.path = inner, inner.name, path
        self._kept: dict[tuple[str, int], Completion] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        repair_tail(path)
        for _, row in read_rows(path):
            self._kept[row["key"], row["index"]] = Completion(**{name: row[name] for name in _FIELDS})

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def chat(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """`sampling.n` completions; those of an opening that are known are not sampled again."""
        if sampling.seed is None or any(m["role"] == "assistant" for m in messages):
            return await self.inner.chat(messages, sampling)
        asked = {name: value for name, value in asdict(sampling).items() if name not in _NOT_KEY}
        key = settings_hash([messages, asked])
        numbers = range(sampling.index, sampling.index + sampling.n)
        made: dict[int, Completion] = {}
        missing = [number for number in numbers if (key, number) not in self._kept]
        if missing:
            span = range(missing[0], missing[-1] + 1)
            found = await self.inner.chat(messages, replace(sampling, n=len(span), index=span.start))
            if len(found) != len(span):
                raise InfraError(f"{self.name} answered {len(found)} of {len(span)} completions")
            made = {number: each for number, each in zip(span, found, strict=True) if number in missing}
            with self.path.open("ab") as file:
                for number, each in made.items():
                    told = {name: getattr(each, name) for name in _FIELDS}
                    file.write(encode_row({"key": key, "index": number, **told}))
                    self._kept[key, number] = Completion(**told)
        return [made.get(number) or self._kept[key, number] for number in numbers]

    async def aclose(self) -> None:
        await self.inner.aclose()
