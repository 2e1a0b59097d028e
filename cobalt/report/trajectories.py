"""The data of the trajectory viewer: a small index that is read at once, and a file per task read on demand.

Pages opened from disk cannot fetch, so both are scripts that hand their data to a function of the page.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from cobalt.evaluation.evaluated_rows import Outcomes, parsed
from cobalt.prompts import PROBLEM_MARKER, feedback_of, is_all_passed
from cobalt.report.search import SearchFiles, encode
from cobalt.rows import Row
from cobalt.text import THINK_END, extract_code, middle_truncate

_LONGEST = 20_000  # characters of a message and of its thinking kept, from both ends
_PER_FOLDER = 1000  # files in a folder
LETTERS = {
    "passed": "P", "wrong_answer": "W", "runtime_error": "R", "time_limit": "T", "memory_limit": "M",
    "output_limit": "O",
}  # fmt: skip

Place = tuple[str | int, int, int]


@dataclass
class Writer:
    """Writes the viewer's files into `folder` while rows go by; `finish` writes the index."""

    folder: Path
    tasks: dict[str | int, int] = field(default_factory=dict)
    labels: list[dict[str, Any]] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    texts: SearchFiles = field(init=False)

    def __post_init__(self) -> None:
        self.texts = SearchFiles(self.folder / "search")

    def add(self, run: int, row: Row, outcome: Outcomes, hacked: Mapping[Place, str | None]) -> None:
        """Take an evaluated row of a run. `hacked`: places of turn errors with the judge's verdict."""
        key = outcome.id
        if key not in self.tasks:
            self.tasks[key] = len(self.tasks)
            self.labels.append(
                {"id": key, "difficulty": outcome.difficulty, "subset": outcome.subset,
                 "group": None if outcome.group is None else str(outcome.group),
                 "slots": sorted(map(str, outcome.slots)) if "slots" in row else None,
                 "platform": str(row.get("platform") or "")}
            )  # fmt: skip
        task = self.tasks[key]
        for sample, rates in enumerate(row["all_pass_rates"]):
            bent = {
                str(turn): hacked[key, sample, turn]
                for turn in range(len(rates)) if (key, sample, turn) in hacked
            }  # fmt: skip
            self.rows.append([run, task, sample, [_percent(rate) for rate in rates], bent or 0])
        chunk = task_chunk(row, hacked)
        self.texts.add(chunk, len(row["all_pass_rates"]))
        name = chunk_name(run, task)
        path = self.folder / f"{name}.js"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f'cobaltChunk("{name}",{encode(chunk)});\n', encoding="utf-8")

    def finish(self, runs: list[dict[str, Any]]) -> None:
        """Write the index: runs, labels of tasks, a line per trajectory, the number of files of texts."""
        texts = self.texts.finish()
        index = {"runs": runs, "tasks": self.labels, "rows": self.rows, "texts": texts}
        (self.folder / "index.js").write_text(f"cobaltIndex({encode(index)});\n", encoding="utf-8")


def chunk_name(run: int, task: int) -> str:
    """The chunk of a task in a run, as the page asks for it."""
    return f"r{run}/{task // _PER_FOLDER}/{task}"


def task_chunk(row: Row, hacked: Mapping[Place, str | None]) -> dict[str, Any]:
    """All trajectories of a row. Programs are pooled, so that equal ones are stored once, and so is what
    public tests said; `diffs` holds the line operations between pairs of programs that follow each other,
    `split` how many characters of a turn's words stand before its program if some follow it. `frame` is what
    stands before the feedback in a message, `passed` the message after a solved turn.
    """
    pool: dict[str, int] = {}
    said: dict[str, int] = {}
    frame: dict[str, str] = {}
    split: dict[str, int] = {}
    diffs: dict[str, list[list[Any]]] = {}
    samples = []
    public = _tests(row.get("perturbed_public_test_cases") or row.get("public_test_cases"))
    posed = row.get("instruction") or row.get("question")
    single = [[{}, {"content": posed}, {"content": text}] for text in row.get("responses") or []]
    conversations = row.get("conversations") or single
    for sample, messages in enumerate(conversations):
        turns, before = [], None
        for turn in range(len(row["all_pass_rates"][sample])):
            at = 2 * turn + 2
            if at >= len(messages):
                break
            text = str(messages[at].get("content") or "")
            reply = str(messages[at + 1].get("content") or "") if at + 1 < len(messages) else None
            code = extract_code(text)
            number = None if code is None else pool.setdefault(code, len(pool))
            if number is not None and before is not None and before != number:
                diffs.setdefault(f"{before}-{number}", operations(list(pool)[before], code or ""))
            place = (row["id"], sample, turn)
            bent = (hacked[place] or "not judged") if place in hacked else None
            made = {"c": number} | _turn(row, sample, turn, text, reply, bent)
            printed = _printed(_at(row.get("public_exec_results"), turn, sample), public)
            if any(printed):
                made["o"] = [said.setdefault(each, len(said)) if each else -1 for each in printed]
            if reply is not None:
                kind = "passed" if made["f"] is None else "frame"
                frame.setdefault(kind, reply.removesuffix(made["f"] or ""))
            head, tail = _around(text)
            if tail and len(head) + len(tail) < _LONGEST:
                split[f"{sample} {turn}"] = len(head)
            turns.append(made)
            before = number
        samples.append(turns)
    opening = conversations[0] if conversations else []
    system, user = (str(opening[i].get("content") or "") if len(opening) > i else "" for i in (0, 1))
    return frame | {
        "id": row["id"],
        "system": system,
        "user": user,
        "statement": user.rpartition(PROBLEM_MARKER)[2].strip(),
        "public": public,
        "hidden": _tests(row.get("hidden_test_cases")),
        "codes": list(pool),
        "said": list(said),
        "diffs": diffs,
        "split": split,
        "samples": samples,
    }


def _turn(row: Row, sample: int, turn: int, text: str, reply: str | None, bent: Any) -> dict[str, Any]:
    """One turn, but for its program `c` and what failed public tests said, `o`: `r` hidden rate, `f` feedback
    after it (null: all passed), and what there is of `x` words around the program, `t` thinking, `p` letters
    of public tests, `h` of hidden ones, `s` status, `k` tokens, `e` bent, `g` flags.
    """
    made: dict[str, Any] = {"r": row["all_pass_rates"][sample][turn]}
    if reply is not None:
        made["f"] = None if is_all_passed(reply) else feedback_of(reply) or reply
    public = _at(row.get("public_exec_results"), turn, sample)
    status = _at(row.get("exec_status"), sample, turn)
    used = _at(row.get("usage"), turn, sample)
    hidden = _at(row.get("hidden_test_status"), sample, turn) or ()
    more = {
        "x": middle_truncate("\n".join(_around(text)), _LONGEST),
        "t": middle_truncate(_thinking(_at(row.get("raw_responses"), turn, sample)), _LONGEST),
        "p": letters(public) if isinstance(public, Mapping) else None,
        "s": None if status == "ok" else status,
        "h": "".join(LETTERS.get(each, "?") for each in hidden),
        "k": [used.get(f"{name}_tokens") for name in ("prompt", "completion")]
        if isinstance(used, Mapping)
        else None,
        "e": bent,
        "g": list(_at(row.get("turn_flags"), turn, sample) or ()),
    }
    return made | {name: value for name, value in more.items() if value}


@lru_cache(maxsize=4096)
def operations(before: str, now: str) -> list[list[Any]]:
    """Line operations [tag, i1, i2, j1, j2] that turn one program into another (difflib)."""
    matcher = difflib.SequenceMatcher(None, before.split("\n"), now.split("\n"))
    return [[tag[0], i1, i2, j1, j2] for tag, i1, i2, j1, j2 in matcher.get_opcodes()]


def letters(result: Mapping[str, Any]) -> str:
    """One letter per test (LETTERS); F for failed where only that is known."""
    per_test = result.get("per_test")
    if isinstance(per_test, list) and len(per_test) == len(result.get("passing", [])):
        return "".join(LETTERS.get(each.get("status"), "?") for each in per_test)
    return "".join("P" if ok else "F" for ok in result.get("passing", []))


def _percent(rate: float | None) -> int:
    """Whole percent, 100 for nothing less than 1; -1 where there is no verdict."""
    return -1 if rate is None else 100 if rate == 1 else min(99, int(100 * rate))


def _around(text: str) -> tuple[str, str]:
    """The words of a message before and after its program."""
    code = extract_code(text)
    if not code:
        return text.strip(), ""
    start = text.rfind(code)
    head, tail = text[:start].rstrip(), text[start + len(code) :].lstrip()
    head = head[: head.rfind("```")] if "```" in head else head
    return head.strip(), tail.removeprefix("```").strip()


def _printed(result: Any, pairs: list[list[str]]) -> list[str]:
    """What a program did on each public test it failed, as feedback tells it, without the test itself; ""
    for a test that passed and where nothing is known.
    """
    told, passing = (_at([result], 0, name) or [] for name in ("feedback", "passing"))
    if not len(told) == len(passing) == len(pairs):
        return []
    found = []
    for text, ok, (given, wanted) in zip(told, passing, pairs, strict=True):
        rest = str(text).removeprefix(f"Input:\n{given}\n").removesuffix(f"\nExpected Output:\n{wanted}")
        found.append("" if ok else rest.removeprefix("Program's Output:\n"))
    return found


def _thinking(raw: Any) -> str:
    return raw.rpartition(THINK_END)[0].strip() if isinstance(raw, str) and THINK_END in raw else ""


def _at(table: Any, first: int, second: int | str) -> Any:
    try:
        return table[first][second]
    except (IndexError, KeyError, TypeError):
        return None


def _tests(value: Any) -> list[list[str]]:
    """[input, output] of each test, shortened as feedback is, as far as they can be read."""
    tests = parsed(value)
    columns = [tests.get(name) for name in ("inputs", "outputs")] if isinstance(tests, dict) else [None]
    if not all(isinstance(column, list) for column in columns):
        return []
    pairs = zip(*columns, strict=False)
    return [[middle_truncate(x if isinstance(x, str) else json.dumps(x)) for x in pair] for pair in pairs]
