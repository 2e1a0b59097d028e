"""First turns of a model, sampled once in a run: `OUT/first_turns/MODEL.jsonl`.

The published work answers every task once and starts all dialogues of a model on it, on true and on perturbed
tests, from the same programs. So every stage that asks for the same completions of an opening gets these.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from cobalt.engines.base import ChatEngine, Completion, Sampling
from cobalt.errors import InfraError
from cobalt.files import settings_hash
from cobalt.output import repair_tail
from cobalt.rows import encode_row
from cobalt.schema import Message

# Where a request is sent and which of its completions are asked for does not make them others.
_NOT_KEY = ("n", "index", "session")
_KEPT = tuple(each.name for each in fields(Completion) if each.name != "cost")


class FirstTurns:
    """Stands in front of an engine (which the caller closes) and keeps its answers to openings in a file.

    Kept are seeded completions, by messages, sampling and number; the seed is that of run and task. What was
    paid for one is told once: a kept completion has no cost.
    """

    def __init__(self, inner: ChatEngine, path: Path) -> None:
        self.inner, self.name, self.path = inner, inner.name, path
        self._places: dict[tuple[str, int], tuple[int, int]] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        repair_tail(path)
        place = 0
        with path.open("rb") as lines:
            for line in lines:
                row = json.loads(line)
                self._places[row["key"], row["index"]] = place, len(line)
                place += len(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    async def chat(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """`sampling.n` completions; those of an opening that are known are not sampled again."""
        if sampling.seed is None or any(m["role"] == "assistant" for m in messages):
            return await self.inner.chat(messages, sampling)
        asked = {name: value for name, value in asdict(sampling).items() if name not in _NOT_KEY}
        key = settings_hash([messages, asked])
        numbers = range(sampling.index, sampling.index + sampling.n)
        missing = [number for number in numbers if (key, number) not in self._places]
        made: dict[int, Completion] = {}
        if missing:
            span = range(missing[0], missing[-1] + 1)
            found = await self.inner.chat(messages, replace(sampling, n=len(span), index=span.start))
            if len(found) != len(span):
                raise InfraError(f"{self.name} answered {len(found)} of {len(span)} completions")
            made = {number: each for number, each in zip(span, found, strict=True) if number in missing}
            self._keep(key, made)
        return [made.get(number) or self._kept(key, number) for number in numbers]

    async def aclose(self) -> None:
        await self.inner.aclose()

    def _keep(self, key: str, made: dict[int, Completion]) -> None:
        with self.path.open("ab") as file:
            for number, each in made.items():
                row = {"key": key, "index": number, **{name: getattr(each, name) for name in _KEPT}}
                place, line = file.tell(), encode_row(row)
                file.write(line)
                self._places[key, number] = place, len(line)

    def _kept(self, key: str, number: int) -> Completion:
        place, size = self._places[key, number]
        with self.path.open("rb") as file:
            file.seek(place)
            row = json.loads(file.read(size))
        return Completion(**{name: row[name] for name in _KEPT})
