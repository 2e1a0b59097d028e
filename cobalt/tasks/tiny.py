"""The CPU-scale task family: short list programs whose statements leave something for the tests to tell.

`tiny_family` says what a task is. There are two versions (`FAMILIES`, configuration key `tasks.version`): the
functions of this module are those of the first; of the second, programs may answer a single input by
themselves, and every test that a task shows tells each of its vague slots.
"""

from __future__ import annotations

from cobalt.tasks.tiny_family import (
    LABELS,
    N_HIDDEN,
    N_PUBLIC,
    READ_LINE,
    SEPARATORS,
    SLOTS,
    SPLITS,
    TASKS,
    Family,
    Operation,
    Output,
    Spec,
    formats,
    structure,
)

__all__ = ["FAMILIES", "LABELS", "N_HIDDEN", "N_PUBLIC", "READ_LINE", "SEPARATORS", "SLOTS", "SPLITS",
           "TASKS",
           "Family", "Operation", "Output", "Spec", "formats", "structure"]  # fmt: skip

ADD = Operation(
    "raise each number by {k}", "raise each number by some amount",
    "xs = [x + {k} for x in xs]", (1, 5, 10, 20), lambda xs, k: [x + k for x in xs],
)  # fmt: skip
HEAD = Operation(
    "keep the first {k}", "keep the first few", "xs = xs[:{k}]", (1, 2, 3, 4), lambda xs, k: xs[:k]
)
LESS = Operation(
    "lower each number by {k}", "lower each number by some amount",
    "xs = [x - {k} for x in xs]", (1, 2, 3, 4), lambda xs, k: [x - k for x in xs],
)  # fmt: skip
FLOOR = Operation(
    "lift each number to {k}", "lift each number to some minimum",
    "xs = [max(x, {k}) for x in xs]", (7, 10, 13, 16), lambda xs, k: [max(x, k) for x in xs],
)  # fmt: skip
CAP = Operation(
    "cap each number at {k}", "cap each number at some ceiling",
    "xs = [min(x, {k}) for x in xs]", (7, 10, 13, 16), lambda xs, k: [min(x, k) for x in xs],
)  # fmt: skip
TIMES = Operation(
    "multiply each number by {k}", "multiply each number by some factor",
    "xs = [x * {k} for x in xs]", (2, 3, 4, 5), lambda xs, k: [x * k for x in xs],
)  # fmt: skip
OPERATIONS: dict[str, Operation] = {
    "add": ADD,
    "head": HEAD,
    "less": LESS,
    "skip": Operation(
        "remove the first {k}", "remove the first few", "xs = xs[{k}:]", (1, 2, 3), lambda xs, k: xs[k:]
    ),
    "tail": Operation(
        "keep the last {k}", "keep the last few", "xs = xs[-{k}:]", (1, 2, 3, 4), lambda xs, k: xs[-k:]
    ),
    "floor": FLOOR,
    "cap": CAP,
    "times": TIMES,
}

REARRANGEMENTS = {
    "reverse": ("reverse them", "xs = xs[::-1]", lambda xs: xs[::-1]),
    "double": ("repeat the list", "xs = xs + xs", lambda xs: xs + xs),
    "mirror": ("add the mirror image", "xs = xs + xs[::-1]", lambda xs: xs + xs[::-1]),
    "stretch": (
        "repeat each number", "xs = [y for x in xs for y in (x, x)]",
        lambda xs: [y for x in xs for y in (x, x)],
    ),
}  # fmt: skip

OUTPUTS = {
    "list": Output("the numbers", None, lambda xs: xs, 4),
    "labelled": Output("the numbers", "*xs", lambda xs: xs, 4),
    "largest": Output("the largest", "max(xs)", lambda xs: [max(xs)], 1),
    "smallest": Output("the smallest", "min(xs)", lambda xs: [min(xs)], 1),
    "sum": Output("the sum", "sum(xs)", lambda xs: [sum(xs)], 1),
    "count": Output("the count", "len(xs)", lambda xs: [len(xs)], 1),
}

FIRST = Family(
    "tiny", OPERATIONS, REARRANGEMENTS, OUTPUTS,
    no_order=("largest", "smallest"), lengths=(4, 5),
    vague_probability={"constant": 0.4, "rearrangement": 0.4, "format": 0.55},
    special_cases=False, legible=False, label_last=False, spread=(8, 3, 5, 1),
)  # fmt: skip

SECOND = Family(
    "tiny2",
    {
        "add": ADD,
        "after": Operation(
            "put {k} after them", "put some number after them",
            "xs = xs + [{k}]", (0, 1, 2, 3), lambda xs, k: [*xs, k],
        ),
        "last": Operation(
            "replace the last by {k}", "replace the last by some number",
            "xs = xs[:-1] + [{k}]", (0, 1, 2, 3), lambda xs, k: [*xs[:-1], k],
        ),
        "before": Operation(
            "put {k} before them", "put some number before them",
            "xs = [{k}] + xs", (0, 1, 2, 3), lambda xs, k: [k, *xs],
        ),
        "head": Operation(HEAD.stated, HEAD.vague, HEAD.line, (1, 2, 3), HEAD.apply),
        "floor": FLOOR,
        "cap": CAP,
        "times": TIMES,
    },
    {  # each gives a list of another length
        "reverse": REARRANGEMENTS["reverse"],
        "mirror": ("add the mirror image", "xs = xs + xs[-2::-1]", lambda xs: xs + xs[-2::-1]),
        "double": REARRANGEMENTS["double"],
        "triple": ("repeat the list twice", "xs = xs + xs + xs", lambda xs: xs * 3),
    },
    {
        "list": Output("the numbers", None, lambda xs: xs, 2),
        "labelled": Output("the numbers", "*xs", lambda xs: xs, 2),
        "count": Output("the count", "len(xs)", lambda xs: [len(xs)], 6),
        "largest": Output("the largest", "max(xs)", lambda xs: [max(xs)], 7),
        "smallest": Output("the smallest", "min(xs)", lambda xs: [min(xs)], 7),
        "last": Output("the last", "xs[-1]", lambda xs: xs[-1:], 7),
        "first": Output("the first", "xs[0]", lambda xs: xs[:1], 7),
    },
    no_order=("largest", "smallest", "last", "first"), lengths=(3, 4),
    vague_probability={"constant": 0.65, "rearrangement": 0.5, "format": 0.12},
    special_cases=True, legible=True, label_last=True, spread=(7, 5, 2, 5),
)  # fmt: skip

FAMILIES = {1: FIRST, 2: SECOND}
values, structures, statement, program = FIRST.values, FIRST.structures, FIRST.statement, FIRST.program
output_of, draw_tests, draw_spec, draw = FIRST.output_of, FIRST.draw_tests, FIRST.draw_spec, FIRST.draw
redraw, draw_specs, draw_tasks, task_row = FIRST.redraw, FIRST.draw_specs, FIRST.draw_tasks, FIRST.task_row
write_splits, family_hash = FIRST.write_splits, FIRST.family_hash
