"""The texts that the viewer searches: programs and feedback of all trajectories, a megabyte per file.

Dialogues repeat themselves, so a file holds every line once; a text is a list of runs of lines, a trajectory
a list of texts. The page looks at each line once, however many programs share it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SIZE = 1_000_000  # characters of different lines in a file


def encode(value: Any) -> str:
    """JSON that a script may hold whatever its texts contain."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    text = text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return text.encode("utf-8", "backslashreplace").decode()  # lone surrogates as escapes


def runs(numbers: Sequence[int]) -> list[int]:
    """Numbers as runs that count up: first and length of each, in turn."""
    made: list[int] = []
    for number in numbers:
        if made and number == made[-2] + made[-1]:
            made[-1] += 1
        else:
            made += [number, 1]
    return made


@dataclass
class SearchFiles:
    """Writes `folder`/0.js, 1.js and so on while trajectories go by; `finish` writes the last."""

    folder: Path
    written: int = 0
    _lines: dict[str, int] = field(default_factory=dict)
    _texts: dict[str, int] = field(default_factory=dict)
    _of_texts: list[list[int]] = field(default_factory=list)
    _rows: list[list[int]] = field(default_factory=list)
    _first: int = 0
    _size: int = 0

    def add(self, chunk: dict[str, Any], samples: int) -> None:
        """Take the `samples` trajectories of a task, as `trajectories.task_chunk` makes them."""
        codes: Sequence[str] = chunk["codes"]
        for sample in range(samples):
            turns = chunk["samples"][sample] if sample < len(chunk["samples"]) else ()
            row: list[int] = []  # program and feedback of each turn, -1 for none
            for turn in turns:
                row.append(-1 if turn["c"] is None else self._text(codes[turn["c"]]))
                row.append(self._text(turn["f"]) if turn.get("f") else -1)
            self._rows.append(row)
        if self._size > _SIZE:
            self._write()

    def finish(self) -> int:
        """Write what is left; returns how many files there are."""
        if self._rows:
            self._write()
        return self.written

    def _text(self, text: str) -> int:
        if text not in self._texts:
            self._texts[text] = len(self._texts)
            self._of_texts.append(runs([self._line(line) for line in text.split("\n")]))
        return self._texts[text]

    def _line(self, line: str) -> int:
        if line not in self._lines:
            self._lines[line] = len(self._lines)
            self._size += len(line) + 1
        return self._lines[line]

    def _write(self) -> None:
        held = {
            "first": self._first,
            "lines": "\n".join(self._lines),
            "texts": self._of_texts,
            "rows": self._rows,
        }
        self.folder.mkdir(exist_ok=True)
        path = self.folder / f"{self.written}.js"
        path.write_text(f"cobaltTexts({self.written},{encode(held)});\n", encoding="utf-8")
        self._first += len(self._rows)
        self.written, self._size = self.written + 1, 0
        for each in (self._lines, self._texts, self._of_texts, self._rows):
            each.clear()
