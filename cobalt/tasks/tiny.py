"""The CPU-scale task family: short list programs whose statements leave something for the tests to tell.

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
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
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
VAGUE_PROBABILITY = {"constant": 0.4, "rearrangement": 0.4, "format": 0.55}
_NO_MORE = 5000  # draws one after another that were there before: a split has some ten thousand tasks
NOTHING_VAGUE = 0.05  # share of tasks whose statement says everything


@dataclass(frozen=True)
class Operation:
    """One first step: its phrase with and without the constant, its program line, the constants."""

    stated: str
    vague: str
    line: str
    constants: tuple[int, ...]
    apply: Callable[[list[int], int], list[int]]


OPERATIONS: dict[str, Operation] = {
    "add": Operation(
        "raise each number by {k}", "raise each number by some amount",
        "xs = [x + {k} for x in xs]", (1, 5, 10, 20), lambda xs, k: [x + k for x in xs],
    ),
    "head": Operation(
        "keep the first {k}", "keep the first few", "xs = xs[:{k}]", (1, 2, 3, 4), lambda xs, k: xs[:k]
    ),
    "less": Operation(
        "lower each number by {k}", "lower each number by some amount",
        "xs = [x - {k} for x in xs]", (1, 2, 3, 4), lambda xs, k: [x - k for x in xs],
    ),
    "skip": Operation(
        "remove the first {k}", "remove the first few", "xs = xs[{k}:]", (1, 2, 3), lambda xs, k: xs[k:]
    ),
    "tail": Operation(
        "keep the last {k}", "keep the last few", "xs = xs[-{k}:]", (1, 2, 3, 4), lambda xs, k: xs[-k:]
    ),
    "floor": Operation(
        "lift each number to {k}", "lift each number to some minimum",
        "xs = [max(x, {k}) for x in xs]", (7, 10, 13, 16), lambda xs, k: [max(x, k) for x in xs],
    ),
    "cap": Operation(
        "cap each number at {k}", "cap each number at some ceiling",
        "xs = [min(x, {k}) for x in xs]", (7, 10, 13, 16), lambda xs, k: [min(x, k) for x in xs],
    ),
    "times": Operation(
        "multiply each number by {k}", "multiply each number by some factor",
        "xs = [x * {k} for x in xs]", (2, 3, 4, 5), lambda xs, k: [x * k for x in xs],
    ),
}  # fmt: skip

REARRANGEMENTS: dict[str, tuple[str, str, Callable[[list[int]], list[int]]]] = {
    "reverse": ("reverse them", "xs = xs[::-1]", lambda xs: xs[::-1]),
    "double": ("repeat the list", "xs = xs + xs", lambda xs: xs + xs),
    "mirror": ("add the mirror image", "xs = xs + xs[::-1]", lambda xs: xs + xs[::-1]),
    "stretch": (
        "repeat each number", "xs = [y for x in xs for y in (x, x)]",
        lambda xs: [y for x in xs for y in (x, x)],
    ),
}  # fmt: skip
REARRANGEMENT_VAGUE = "rearrange them"

SEPARATORS = {" ": "spaces", ",": "commas", "-": "dashes", "/": "slashes", ":": "colons"}
LABELS = ("Total", "Answer", "Result", "Value", "Output")

# output: (statement, program expression after the label or None for a plain list, summary of the list)
OUTPUTS: dict[str, tuple[str, str | None, Callable[[list[int]], list[int]]]] = {
    "list": ("the numbers", None, lambda xs: xs),
    "labelled": ("the numbers", "*xs", lambda xs: xs),
    "largest": ("the largest", "max(xs)", lambda xs: [max(xs)]),
    "smallest": ("the smallest", "min(xs)", lambda xs: [min(xs)]),
    "sum": ("the sum", "sum(xs)", lambda xs: [sum(xs)]),
    "count": ("the count", "len(xs)", lambda xs: [len(xs)]),
}
OUTPUT_WEIGHTS = {"list": 4, "labelled": 4, "largest": 1, "smallest": 1, "sum": 1, "count": 1}
READ_LINE = "xs = list(map(int, input().split()))"
Structure = tuple[str, str | None, str]  # operation, rearrangement (None: vague), output


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


def values(spec: Spec, slot: str) -> list[Any]:
    """The values a vague ``slot`` may take for a task of this structure."""
    if slot == "constant":
        return list(OPERATIONS[spec.operation].constants)
    return list(REARRANGEMENTS) if slot == "rearrangement" else formats(spec.output)


@cache
def structures(split: str) -> list[Structure]:
    """The structures of a split; the three splits partition all of them.

    An arithmetic rule spreads them: every operation meets every output in training, each time with some of
    the rearrangements only. A vague rearrangement of a single number has no effect and does not occur.
    """
    chosen: list[Structure] = []
    for i, operation in enumerate(OPERATIONS):
        for j, rearrangement in enumerate([*REARRANGEMENTS, None]):
            for k, output in enumerate(OUTPUTS):
                if rearrangement is None and output in ("largest", "smallest"):
                    continue
                place = (3 * i + 5 * j + k) % 8
                home = "heldout" if place < 2 else "dev" if place == 2 else "train"
                if home == split:
                    chosen.append((operation, rearrangement, output))
    return chosen


@cache
def _weights(split: str) -> list[float]:
    vague = VAGUE_PROBABILITY["rearrangement"]
    stated = (1 - vague) / len(REARRANGEMENTS)
    return [OUTPUT_WEIGHTS[output] * (stated if name else vague) for _, name, output in structures(split)]


def statement(spec: Spec, vague: frozenset[str]) -> str:
    """The sentence the model reads; ``vague`` names the slots it leaves open."""
    operation = OPERATIONS[spec.operation]
    first = operation.vague if "constant" in vague else operation.stated.format(k=spec.constant)
    then = REARRANGEMENT_VAGUE if "rearrangement" in vague else REARRANGEMENTS[spec.rearrangement][0]
    noun = OUTPUTS[spec.output][0]
    if spec.output == "list":
        how = f"{noun} with " + ("some separator" if "format" in vague else SEPARATORS[spec.format])
    else:
        how = f"{noun} after " + ("some label" if "format" in vague else f"the label {spec.format}")
    return f"Read a list of integers. First {first}. Then {then}. Finally print {how}."


def program(spec: Spec) -> str:
    """The four-line Python program of a spec."""
    first = OPERATIONS[spec.operation].line.format(k=spec.constant)
    shown = OUTPUTS[spec.output][1]
    last = f'print(*xs, sep="{spec.format}")' if shown is None else f'print("{spec.format}", {shown})'
    return "\n".join([READ_LINE, first, REARRANGEMENTS[spec.rearrangement][1], last])


def output_of(spec: Spec, numbers: list[int]) -> str | None:
    """What ``program(spec)`` prints for ``numbers``, stripped; None if it raises (largest of nothing)."""
    xs = REARRANGEMENTS[spec.rearrangement][2](OPERATIONS[spec.operation].apply(numbers, spec.constant))
    if not xs and spec.output in ("largest", "smallest"):
        return None
    ys = OUTPUTS[spec.output][2](xs)
    if spec.output == "list":
        return spec.format.join(map(str, ys)).strip()
    return " ".join([spec.format, *map(str, ys)])


def draw_tests(rng: random.Random, spec: Spec, n: int) -> list[tuple[str, str]] | None:
    """``n`` (stdin, stdout) pairs on distinct random inputs; None if too few leave anything to print."""
    tests: dict[str, str] = {}
    for _ in range(40 * n):
        numbers = rng.sample(range(4, 20), rng.randint(4, 5))
        output = output_of(spec, numbers)
        if output and OPERATIONS[spec.operation].apply(numbers, spec.constant):
            tests.setdefault(" ".join(map(str, numbers)), output)
        if len(tests) == n:
            return list(tests.items())
    return None


def draw_spec(rng: random.Random, split: str) -> tuple[Spec, frozenset[str]]:
    """A random task of a split: its spec and its vague slots."""
    operation, rearrangement, output = rng.choices(structures(split), _weights(split))[0]
    spec = Spec(
        operation, rng.choice(OPERATIONS[operation].constants),
        rearrangement or rng.choice(list(REARRANGEMENTS)), output, rng.choice(formats(output)),
    )  # fmt: skip
    fixed = frozenset() if rearrangement else frozenset(["rearrangement"])
    vague = fixed
    while vague == fixed:
        vague = fixed | {slot for slot in ("constant", "format") if rng.random() < VAGUE_PROBABILITY[slot]}
        if fixed or rng.random() < NOTHING_VAGUE:
            break
    return spec, vague


def structure(spec: Spec, vague: frozenset[str]) -> Structure:
    """The structure a task belongs to."""
    return spec.operation, None if "rearrangement" in vague else spec.rearrangement, spec.output


def draw(rng: random.Random, split: str, n_tests: int) -> tuple[Spec, frozenset[str], list[tuple[str, str]]]:
    """A random task whose vague slots all matter: some other value fails a public test."""
    while True:
        spec, vague = draw_spec(rng, split)
        tests = draw_tests(rng, spec, n_tests)
        if tests and all(_matters(spec, slot, tests[:N_PUBLIC]) for slot in vague):
            return spec, vague, tests


def _matters(spec: Spec, slot: str, tests: list[tuple[str, str]]) -> bool:
    others = (replace(spec, **{slot: value}) for value in values(spec, slot))
    return any(output_of(other, list(map(int, i.split()))) != o for other in others for i, o in tests)


def redraw(rng: random.Random, spec: Spec, slots: frozenset[str]) -> Spec:
    """``spec`` with fresh random values in ``slots``."""
    return replace(spec, **{slot: rng.choice(values(spec, slot)) for slot in sorted(slots)})


def draw_specs(split: str, n: int, seed: int) -> Iterator[tuple[Spec, frozenset[str], list[tuple[str, str]]]]:
    """Program, vague slots and tests of ``n`` distinct tasks of a split, the same for the same seed. Raises
    InputError if the split has not so many.
    """
    rng = random.Random(f"tiny {split} {seed}")
    seen, again = set[tuple[Spec, frozenset[str]]](), 0
    while len(seen) < n:
        spec, vague, tests = draw(rng, split, N_PUBLIC + N_HIDDEN)
        again = again + 1 if (spec, vague) in seen else 0
        if again > _NO_MORE:
            raise InputError(f"family tiny has no {n} {split} tasks: {len(seen)} were found")
        if not again:
            seen.add((spec, vague))
            yield spec, vague, tests


def draw_tasks(split: str, n: int, seed: int) -> Iterator[Row]:
    """``n`` distinct task rows of a split, the same for the same seed."""
    for number, drawn in enumerate(draw_specs(split, n, seed)):
        yield task_row(f"tiny-{split}-{number:04d}", *drawn)


def task_row(task_id: str, spec: Spec, vague: frozenset[str], tests: list[tuple[str, str]]) -> Row:
    """A task row with the published fields plus ``group`` (structure) and ``slots`` (what is vague)."""
    return make_task(
        task_id,
        statement(spec, vague),
        tests,
        public=N_PUBLIC,
        difficulty=f"{len(vague)} vague",
        prompts=TINY,
        group="/".join(part or "any" for part in structure(spec, vague)),
        slots=[slot for slot in SLOTS if slot in vague],
    )


def write_splits(
    folder: str | Path, *, seed: int, train: int = 240, dev: int = 100, heldout: int = 300
) -> dict[str, Path]:
    """Write ``train.jsonl``, ``dev.jsonl``, ``heldout.jsonl`` into ``folder``; returns paths by split."""
    paths = {split: Path(folder) / f"{split}.jsonl" for split in SPLITS}
    for split, n in zip(SPLITS, (train, dev, heldout), strict=True):
        write_jsonl(paths[split], draw_tasks(split, n, seed))
    return paths


def family_hash() -> str:
    """Identity of the family: a hash over its tables and over tasks drawn from every split."""
    tables = [
        {name: [o.stated, o.vague, o.line, o.constants] for name, o in OPERATIONS.items()},
        {name: r[:2] for name, r in REARRANGEMENTS.items()},
        {name: o[:2] for name, o in OUTPUTS.items()},
        *(REARRANGEMENT_VAGUE, SEPARATORS, LABELS, OUTPUT_WEIGHTS, VAGUE_PROBABILITY),
        {split: structures(split) for split in SPLITS},
        {split: list(draw_tasks(split, 50, 0)) for split in SPLITS},
    ]
    return hashlib.sha256(json.dumps(tables, sort_keys=True).encode()).hexdigest()
