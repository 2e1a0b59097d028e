"""What a version of the tiny task family is made of: its tables, and what is drawn from them.

A task reads a list of integers and has three steps: an *operation* with a constant, a *rearrangement*, and
an *output* with a format. Each of the three slots (constant, rearrangement, format) is either stated or left
vague ("raise each number by some amount"); a vague slot can only be learnt from the expected output of a
failing test. That makes one turn a guess and a second turn, with execution feedback, an inference.

Splits are disjoint by *structure*, the triple (operation, rearrangement as stated, output): no statement of a
held-out structure occurs in any earlier stage, the making of the reference model included. The value of a
vague slot is never part of a structure, so each is equally likely in every split.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.output import write_jsonl
from cobalt.prompts import TINY
from cobalt.rows import Row
from cobalt.tasks.own import make_task

N_PUBLIC, N_HIDDEN = 3, 6
SPLITS = tuple(TASKS := {"train": 150, "dev": 100, "heldout": 300})  # and how many there are by default
SLOTS = ("constant", "rearrangement", "format")
_NO_MORE = 5000  # draws one after another that were there before: a split has some ten thousand tasks
NOTHING_VAGUE = 0.05  # share of tasks whose statement says everything
REARRANGEMENT_VAGUE = "rearrange them"
READ_LINE = "xs = list(map(int, input().split()))"
SEPARATORS = {" ": "spaces", ",": "commas", "-": "dashes", "/": "slashes", ":": "colons"}
LABELS = ("Total", "Answer", "Result", "Value", "Output")
Structure = tuple[str, str | None, str]  # operation, rearrangement (None: vague), output
Test = tuple[str, str]  # stdin, stdout


@dataclass(frozen=True)
class Operation:
    """One first step: its phrase with and without the constant, its program line, the constants."""

    stated: str
    vague: str
    line: str
    constants: tuple[int, ...]
    apply: Callable[[list[int], int], list[int]]


@dataclass(frozen=True)
class Output:
    """One last step: its noun, the expression after the label (None: a plain list), what is printed, and how
    often it is drawn.
    """

    noun: str
    shown: str | None
    apply: Callable[[list[int]], list[int]]
    weight: int


@dataclass(frozen=True)
class Spec:
    """The program a task asks for: one value for every slot."""

    operation: str
    constant: int
    rearrangement: str
    output: str
    format: str


def formats(output: str) -> list[str]:
    """Values of the format slot: separators for a plain list, labels otherwise."""
    return list(SEPARATORS) if output == "list" else list(LABELS)


def structure(spec: Spec, vague: frozenset[str]) -> Structure:
    """The structure a task belongs to."""
    return spec.operation, None if "rearrangement" in vague else spec.rearrangement, spec.output


@dataclass(frozen=True, eq=False)
class Family:
    """One version of the family. `lengths` are those of its lists; no structure has a vague rearrangement and
    an output in `no_order`.

    `legible`: each public test tells every value of a vague slot from every other, and not all of them expect
    the same; without it some value has to fail some public test. `special_cases`: a program may answer an
    input by itself (`special`), known by its first number, and no two tests of a task begin alike. `spread`
    is the rule of `structures`: a modulus, and the steps of operation, rearrangement and output.
    """

    name: str
    operations: dict[str, Operation]
    rearrangements: dict[str, tuple[str, str, Callable[[list[int]], list[int]]]]
    outputs: dict[str, Output]
    no_order: tuple[str, ...]
    lengths: tuple[int, int]
    vague_probability: dict[str, float]
    special_cases: bool
    legible: bool
    label_last: bool
    spread: tuple[int, int, int, int]

    def values(self, spec: Spec, slot: str) -> list[Any]:
        """The values a vague ``slot`` may take for a task of this structure."""
        if slot == "constant":
            return list(self.operations[spec.operation].constants)
        return list(self.rearrangements) if slot == "rearrangement" else formats(spec.output)

    @cached_property
    def _structures(self) -> dict[str, list[Structure]]:
        chosen: dict[str, list[Structure]] = {split: [] for split in SPLITS}
        for i, operation in enumerate(self.operations):
            for j, rearrangement in enumerate([*self.rearrangements, None]):
                for k, output in enumerate(self.outputs):
                    if rearrangement is None and output in self.no_order:
                        continue
                    modulus, a, b, c = self.spread
                    place = (a * i + b * j + c * k) % modulus
                    home = "heldout" if place < 2 else "dev" if place == 2 else "train"
                    chosen[home].append((operation, rearrangement, output))
        return chosen

    def structures(self, split: str) -> list[Structure]:
        """The structures of a split; the three splits partition all of them.

        An arithmetic rule spreads them: every operation meets every output in training, each time with some
        of the rearrangements only. A vague rearrangement of a single number has no effect and does not occur.
        """
        return self._structures[split]

    def _weights(self, split: str) -> list[float]:
        vague = self.vague_probability["rearrangement"]
        stated = (1 - vague) / len(self.rearrangements)
        return [
            self.outputs[output].weight * (stated if name else vague)
            for _, name, output in self.structures(split)
        ]

    def statement(self, spec: Spec, vague: frozenset[str]) -> str:
        """The sentence the model reads; ``vague`` names the slots it leaves open."""
        operation, noun = self.operations[spec.operation], self.outputs[spec.output].noun
        first = operation.vague if "constant" in vague else operation.stated.format(k=spec.constant)
        stated = self.rearrangements[spec.rearrangement][0]
        then = REARRANGEMENT_VAGUE if "rearrangement" in vague else stated
        if spec.output == "list":
            how = f"{noun} with " + ("some separator" if "format" in vague else SEPARATORS[spec.format])
        else:
            side = "before" if self.label_last else "after"
            how = f"{noun} {side} " + ("some label" if "format" in vague else f"the label {spec.format}")
        return f"Read a list of integers. First {first}. Then {then}. Finally print {how}."

    def program(self, spec: Spec, special: Sequence[Test] = ()) -> str:
        """The Python program of a spec, a line for each step; tests in ``special`` are answered by a line of
        their own.
        """
        first = self.operations[spec.operation].line.format(k=spec.constant)
        shown = self.outputs[spec.output].shown
        parts = self._labelled([f'"{spec.format}"'], [shown or ""])
        last = f"print({', '.join(parts)})" if shown else f'print(*xs, sep="{spec.format}")'
        lines = [self.special(*test) for test in special]
        rest = [first, self.rearrangements[spec.rearrangement][1], last]
        return "\n".join([READ_LINE, *lines, *rest])

    def special(self, stdin: str, stdout: str) -> str:
        """The line that answers one input by itself: the one that begins so."""
        return f'if xs[0] == {stdin.split()[0]}: print("{stdout}"); raise SystemExit'

    def output_of(self, spec: Spec, numbers: list[int]) -> str | None:
        """What ``program(spec)`` prints for ``numbers``, stripped; None if it raises (largest of nothing)."""
        xs = self.operations[spec.operation].apply(numbers, spec.constant)
        xs = self.rearrangements[spec.rearrangement][2](xs)
        try:
            ys = self.outputs[spec.output].apply(xs)
        except (ValueError, IndexError):
            return None
        if spec.output == "list":
            return spec.format.join(map(str, ys)).strip()
        return " ".join(self._labelled([spec.format], [str(y) for y in ys]))

    def _labelled(self, label: list[str], shown: list[str]) -> list[str]:
        return shown + label if self.label_last else label + shown

    def draw_tests(self, rng: random.Random, spec: Spec, n: int) -> list[Test] | None:
        """``n`` (stdin, stdout) pairs on distinct random inputs; None if too few leave anything to print."""
        tests: dict[str, Test] = {}
        for _ in range(40 * n):
            numbers = rng.sample(range(4, 20), rng.randint(*self.lengths))
            output = self.output_of(spec, numbers)
            if output and self.operations[spec.operation].apply(numbers, spec.constant):
                stdin = " ".join(map(str, numbers))
                tests.setdefault(str(numbers[0]) if self.special_cases else stdin, (stdin, output))
            if len(tests) == n:
                return list(tests.values())
        return None

    def draw_spec(self, rng: random.Random, split: str) -> tuple[Spec, frozenset[str]]:
        """A random task of a split: its spec and its vague slots."""
        chosen = rng.choices(self.structures(split), self._weights(split))[0]
        operation, rearrangement, output = chosen
        spec = Spec(
            operation, rng.choice(self.operations[operation].constants),
            rearrangement or rng.choice(list(self.rearrangements)), output, rng.choice(formats(output)),
        )  # fmt: skip
        fixed = frozenset() if rearrangement else frozenset(["rearrangement"])
        vague = fixed
        while vague == fixed:
            open_slots = (s for s in ("constant", "format") if rng.random() < self.vague_probability[s])
            vague = fixed | set(open_slots)
            if fixed or rng.random() < NOTHING_VAGUE:
                break
        return spec, vague

    def draw(self, rng: random.Random, split: str, n_tests: int) -> tuple[Spec, frozenset[str], list[Test]]:
        """A random task whose vague slots all matter, see `legible`."""
        while True:
            spec, vague = self.draw_spec(rng, split)
            tests = self.draw_tests(rng, spec, n_tests)
            shown = (tests or [])[:N_PUBLIC]
            some = len({output for _, output in shown}) > 1 if self.legible else bool(shown)
            if tests and some and all(self._matters(spec, slot, shown) for slot in vague):
                return spec, vague, tests

    def _matters(self, spec: Spec, slot: str, tests: list[Test]) -> bool:
        others = [replace(spec, **{slot: value}) for value in self.values(spec, slot)]
        if self.legible:
            told = ({self.output_of(other, list(map(int, i.split()))) for other in others} for i, _ in tests)
            return all(len(each) == len(others) for each in told)
        return any(
            self.output_of(other, list(map(int, i.split()))) != o for other in others for i, o in tests
        )

    def redraw(self, rng: random.Random, spec: Spec, slots: frozenset[str]) -> Spec:
        """``spec`` with fresh random values in ``slots``."""
        return replace(spec, **{slot: rng.choice(self.values(spec, slot)) for slot in sorted(slots)})

    def draw_specs(self, split: str, n: int, seed: int) -> Iterator[tuple[Spec, frozenset[str], list[Test]]]:
        """Program, vague slots and tests of ``n`` distinct tasks of a split, the same for the same seed.
        Raises InputError if the split has not so many.
        """
        rng = random.Random(f"{self.name} {split} {seed}")
        seen, again = set[tuple[Spec, frozenset[str]]](), 0
        while len(seen) < n:
            spec, vague, tests = self.draw(rng, split, N_PUBLIC + N_HIDDEN)
            again = again + 1 if (spec, vague) in seen else 0
            if again > _NO_MORE:
                raise InputError(f"family {self.name} has no {n} {split} tasks: {len(seen)} were found")
            if not again:
                seen.add((spec, vague))
                yield spec, vague, tests

    def draw_tasks(self, split: str, n: int, seed: int) -> Iterator[Row]:
        """``n`` distinct task rows of a split, the same for the same seed."""
        for number, drawn in enumerate(self.draw_specs(split, n, seed)):
            yield self.task_row(f"{self.name}-{split}-{number:04d}", *drawn)

    def task_row(self, task_id: str, spec: Spec, vague: frozenset[str], tests: list[Test]) -> Row:
        """A task row with the published fields plus ``group`` (structure) and ``slots`` (what is vague)."""
        return make_task(
            task_id,
            self.statement(spec, vague),
            tests,
            public=N_PUBLIC,
            difficulty=f"{len(vague)} vague",
            prompts=TINY,
            group="/".join(part or "any" for part in structure(spec, vague)),
            slots=[slot for slot in SLOTS if slot in vague],
        )

    def write_splits(
        self, folder: str | Path, *, seed: int, train: int = 240, dev: int = 100, heldout: int = 300
    ) -> dict[str, Path]:
        """Write ``train.jsonl``, ``dev.jsonl``, ``heldout.jsonl`` into ``folder``; returns paths by split."""
        paths = {split: Path(folder) / f"{split}.jsonl" for split in SPLITS}
        for split, n in zip(SPLITS, (train, dev, heldout), strict=True):
            write_jsonl(paths[split], self.draw_tasks(split, n, seed))
        return paths

    def family_hash(self) -> str:
        """Identity of the family: a hash over its tables and over tasks drawn from every split."""
        tables: list[Any] = [
            {name: [o.stated, o.vague, o.line, o.constants] for name, o in self.operations.items()},
            {name: r[:2] for name, r in self.rearrangements.items()},
            {name: (o.noun, o.shown) for name, o in self.outputs.items()},
            *(REARRANGEMENT_VAGUE, SEPARATORS, LABELS),
            {name: o.weight for name, o in self.outputs.items()},
            self.vague_probability,
            {split: self.structures(split) for split in SPLITS},
            {split: list(self.draw_tasks(split, 50, 0)) for split in SPLITS},
        ]
        tables += [self.special("1 2", "3")] if self.special_cases else []
        return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()
