"""Tasks from a file of words and programs: `python make_tasks.py till.yaml FOLDER`; till.yaml says how.

A task combines an alternative of every part. Combinations are dealt out: those of `heldout.jsonl` and
`dev.jsonl` occur neither in `train.jsonl` nor in `lessons.jsonl`. Rows of the last also have `programs`, a
right one first, for a model's maker.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import random
import re
import signal
import sys
from pathlib import Path
from typing import Any

import yaml

from cobalt.cli import parser, positive_int, run_main
from cobalt.errors import InputError
from cobalt.output import write_jsonl
from cobalt.prompts import Prompts, load, prompts_flag
from cobalt.rows import Row
from cobalt.tasks.own import make_task

PUBLIC, TESTS, TRIES = 3, 9, 200
ENOUGH = 100  # combinations, from which the small model puts together what it has not seen
SIZES = {"lessons": 1200, "train": 150, "dev": 40, "heldout": 300}
_HOLE = re.compile(r"\{(\w+)\}")


class Family:
    """A file of words: its combinations, and tasks drawn from them."""

    def __init__(self, path: Path) -> None:
        try:
            given = yaml.safe_load(path.read_text(encoding="utf-8"))
            self.statement, self.program, self.input = (
                str(given[key]) for key in ("statement", "program", "input")
            )
            self.values, self.parts = dict(given.get("values") or {}), given["parts"]
            for name, alternatives in self.parts.items():
                if f"{{{name}}}" not in self.statement or f"{{{name}}}" not in self.program:
                    raise InputError(f"{path}: {{{name}}}, a part, must stand in statement and program")
                for number, each in enumerate(alternatives, start=1):
                    missing = {"says", "code"} - {*each}
                    if missing:
                        raise InputError(f"{path}: part '{name}', alternative {number}: no '{missing.pop()}'")
        except (OSError, yaml.YAMLError) as error:
            raise InputError(f"{path}: {' '.join(str(error).split())}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path}: needs statement, program, input and parts ({error})") from None
        self.path = path

    def deal(self, seed: int) -> dict[str, list[tuple[int, ...]]]:
        """The combinations of each file: a quarter held out, a tenth for development."""
        every = list(itertools.product(*(range(len(each)) for each in self.parts.values())))
        random.Random(f"deal {seed}").shuffle(every)
        held, dev = len(every) // 4, len(every) // 10
        if not dev:
            raise InputError(
                f"{self.path}: {len(every)} combinations of parts are too few to hold some out (10)"
            )
        learnt = every[held + dev :]
        return {"lessons": learnt, "train": learnt, "dev": every[held : held + dev], "heldout": every[:held]}

    def draw(
        self, rng: random.Random, combination: tuple[int, ...], name: str, prompts: Prompts
    ) -> Row | None:
        """A random task; None if its program fails, or the first test does not show what is left open."""
        chosen = {part: each[i] for (part, each), i in zip(self.parts.items(), combination, strict=True)}
        phrases = {part: str(rng.choice(_several(each["says"]))) for part, each in chosen.items()}
        told = {hole for phrase in phrases.values() for hole in _HOLE.findall(phrase)}
        holes: dict[str, list[Any]] = dict(self.values)
        for each in chosen.values():
            holes |= {
                key: _several(value) for key, value in each.items() if key not in ("says", "code", "slips")
            }
        picked = {hole: rng.choice(values) for hole, values in holes.items()}
        phrases = {part: _filled(phrase, picked) for part, phrase in phrases.items()}
        code = {part: str(each["code"]) for part, each in chosen.items()}
        right = self._written(code, picked)
        used = {hole for each in code.values() for hole in _HOLE.findall(each)}
        left_open = sorted({*holes} & used - told)
        others = [
            self._written(code, picked | {hole: value})
            for hole in left_open
            for value in holes[hole] if value != picked[hole]
        ]  # fmt: skip
        slips = [
            self._written(code | {part: str(slip)}, picked)
            for part, each in chosen.items() for slip in _several(each.get("slips", []))
        ]  # fmt: skip
        tests = self._tests(rng, right)
        if tests is None or any(printed(other, i) == o for other in others for i, o in tests[:1]):
            return None
        return make_task(
            name, _filled(self.statement, phrases | picked).strip(), tests, public=PUBLIC, prompts=prompts,
            difficulty=f"{len(left_open)} left open", slots=left_open,
            group="/".join(f"{part} {i + 1}" for part, i in zip(self.parts, combination, strict=True)),
            programs=[right, *others, *slips],
        )  # fmt: skip

    def _written(self, code: dict[str, str], picked: dict[str, Any]) -> str:
        return _filled(self.program, {part: _filled(each, picked) for part, each in code.items()}).rstrip()

    def _tests(self, rng: random.Random, right: str) -> list[tuple[str, str]] | None:
        tests: dict[str, str] = {}
        for _ in range(4 * TESTS):
            random.seed(rng.random())
            stdin = printed(self.input, "")
            if stdin is None:
                raise InputError(f"{self.path}: the program 'input' fails or prints nothing")
            output = printed(right, stdin)
            if output is not None:
                tests[stdin] = output
            if len(tests) == TESTS:
                return list(tests.items())
        return None


def _several(value: Any) -> list[Any]:
    return value if isinstance(value, list) and value else [value]


def _filled(text: str, values: dict[str, Any]) -> str:
    """`{name}` replaced where there is such a value; of several lines each is indented as the hole is."""

    def fill(hole: re.Match[str]) -> str:
        if hole[2] not in values:
            return hole[0]
        return hole[1] + str(values[hole[2]]).rstrip("\n").replace("\n", "\n" + hole[1])

    return re.sub(r"(?m)((?:^[ \t]+)?)\{(\w+)\}", fill, text)


def printed(program: str, stdin: str) -> str | None:
    """What a program of one's own prints, run right here within two seconds; None if it fails.

    Raises InputError for what is not Python.
    """
    out, before = io.StringIO(), sys.stdin
    try:
        code = compile(program, "program", "exec")
    except SyntaxError as error:
        raise InputError(f"not Python ({error}):\n{program}") from None
    sys.stdin = io.StringIO(stdin)
    signal.signal(signal.SIGALRM, _stop)
    signal.setitimer(signal.ITIMER_REAL, 2.0)
    try:
        with contextlib.redirect_stdout(out):
            exec(code, {"__name__": "__main__"})
    except (Exception, SystemExit):
        return None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        sys.stdin = before
    return out.getvalue() if out.getvalue().strip() else None


def _stop(*_: object) -> None:
    raise TimeoutError


def tasks(family: Family, seed: int, sizes: dict[str, int], prompts: Prompts) -> dict[str, list[Row]]:
    """Rows by file, different ones, as many as asked for or there are; lessons repeat, with other tests."""
    found: dict[str, list[Row]] = {}
    for split, combinations in family.deal(seed).items():
        rng, rows, tries = random.Random(f"{split} {seed}"), dict[tuple[str, ...], Row](), 0
        most = 2 * TRIES if split == "lessons" else TRIES
        while len(rows) < sizes[split] and tries < most:  # since the last that was new
            row = family.draw(rng, rng.choice(combinations), f"{split}-{len(rows):04d}", prompts)
            tries += 1
            if row is None:
                continue
            repeats = tries > TRIES
            key = (row["question"], row["programs"][0], row["test_cases"] if repeats else "")
            if key not in rows:
                rows[key], tries = row, TRIES if repeats else 0
        if len(rows) < 2:
            raise InputError(
                f"{family.path}: {len(rows)} tasks were found for {split}: programs fail, values left open "
                "change nothing, or there are too few alternatives"
            )
        found[split] = list(rows.values())
        for row in found[split] if split != "lessons" else ():
            del row["programs"]
    return found


def main(argv: list[str] | None = None) -> int:
    flags = parser("Make tasks, and lessons for a small model, from a file of words and programs.")
    flags.add_argument("words", type=Path, help="YAML file, for instance till.yaml")
    flags.add_argument("folder", type=Path, help="folder for lessons, train, dev and heldout.jsonl")
    for name, size in SIZES.items():
        flags.add_argument(f"--{name}", type=positive_int, default=size, help="at most so many")
    flags.add_argument("--seed", type=int, default=0, help="of the deal and the draws")
    prompts_flag(flags)
    args = flags.parse_args(argv)
    sizes, family = {name: getattr(args, name) for name in SIZES}, Family(args.words)
    combinations = sum(map(len, list(family.deal(args.seed).values())[1:]))
    if combinations < ENOUGH:
        print(f"note: {combinations} combinations of sentences are few (under {ENOUGH}): write more of them")
    for split, rows in tasks(family, args.seed, sizes, load(args.prompts)).items():
        write_jsonl(args.folder / f"{split}.jsonl", rows)
        fewer = f" (there are no more than these of the {sizes[split]})" if len(rows) < sizes[split] else ""
        print(f"{args.folder / split}.jsonl: {len(rows)} tasks{fewer}")
    return 0


if __name__ == "__main__":
    run_main(main)
