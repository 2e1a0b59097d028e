"""The texts that the viewer searches: programs and feedback of all trajectories, a megabyte per file.

Dialogues repeat themselves, so a file holds every line once; a text is a list of runs of lines, a trajectory
a list of texts. The page looks at each line once, however many programs share it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SIZE = 1_000_000  # characters of programs in a file


def encode(value: Any) -> str:
    """JSON that a script may hold whatever its texts contain."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return text.encode("utf-8", "backslashreplace").decode()  # lone surrogates as escapes


@dataclass
class SearchFiles:
    """Writes `folder`/0.js, 1.js and so on while trajectories go by; `finish` writes the last."""

    folder: Path
    rows: list[list[str | None]] = field(default_factory=list)  # program and feedback of each turn
    size: int = 0
    written: int = 0

    def add(self, chunk: dict[str, Any], samples: int) -> None:
        """Take the `samples` trajectories of a task, as `trajectories.task_chunk` makes them."""
        codes, turns = [*chunk["codes"], None], [*chunk["samples"], *[[]] * samples][:samples]
        pairs = [[(-1 if turn["c"] is None else turn["c"], turn.get("f")) for turn in each] for each in turns]
        self.rows += [[text for code, said in each for text in (codes[code], said)] for each in pairs]
        self.size += sum(map(len, chunk["codes"]))
        if self.size > _SIZE:
            self.finish()

    def finish(self) -> int:
        """Write what is left; returns how many files there are."""
        texts = dict.fromkeys(text for row in self.rows for text in row if text)
        split = [text.split("\n") for text in texts]
        lines = {line: at for at, line in enumerate(dict.fromkeys(line for text in split for line in text))}
        places = {text: at for at, text in enumerate(texts)}
        held = {
            "lines": "\n".join(lines),
            "texts": [_runs(lines[line] for line in text) for text in split],
            "rows": [[places.get(text, -1) if text else -1 for text in row] for row in self.rows],
        }
        if self.rows:
            self.folder.mkdir(exist_ok=True)
            path = self.folder / f"{self.written}.js"
            path.write_text(f"cobaltTexts({self.written},{encode(held)});\n", encoding="utf-8")
            self.written, self.size = self.written + 1, 0
            self.rows.clear()
        return self.written


def _runs(numbers: Iterable[int]) -> list[int]:
    """Numbers as runs that count up: first and length of each, in turn."""
    made: list[int] = []
    for number in numbers:
        if made and number == made[-2] + made[-1]:
            made[-1] += 1
        else:
            made += [number, 1]
    return made
