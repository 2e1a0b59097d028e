"""Programs made at random: what they print, how they end and what they say is as in a plain interpreter.

Mixes (idioms/mixes.py) are put together from ways to read, write, prepare for the end and end, in any order;
statements are everyday lines which often work and sometimes raise.
"""

import functools
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from idioms import mixes
from idioms.outcome import Outcome, boxed, difference, plain

_NUMBERS = ("a", "b", "len(words)", "3", "-2", "0", "10 ** 20", "xs[0]", "xs[-1]", "sum(xs)", "i")
_TEXTS = ("words[0]", "line", "'x' * b", "str(a)", "repr(xs)", "line[::-1]", "'ü'", "f'{a:>5}|{b!r}'")
_ENDS = (
    "sys.exit()", "sys.exit(3)", "sys.exit('no')", "raise KeyError(line)", "import os; os._exit(5)",
    "1 / 0", "raise SystemExit(a)", "input(); input(); input(); input()",
)  # fmt: skip
_HEAD = """import sys
line = input()
a, b, i = map(int, line.split())
words = input().split()
xs, d = [a, b], {}
"""
STDIN = "7 -3 12\nabc déf\n\n5\n".encode()


class Statements:
    """Writes a program that terminates."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng

    def number(self, depth: int = 0) -> str:
        if depth > 2 or self.rng.random() < 0.4:
            return self.rng.choice(_NUMBERS)
        operator = self.rng.choice(["+", "-", "*", "//", "%", "/", "&", "<<", "**"])
        right = str(self.rng.randrange(4)) if operator in ("<<", "**") else self.number(depth + 1)
        return f"({self.number(depth + 1)} {operator} {right})"

    def statement(self, depth: int = 0) -> list[str]:
        number, text = self.number(), self.rng.choice(_TEXTS)
        simple = [
            f"print({number})", f"print({text}, {number}, sep='/')", f"a = {number}", f"xs.append({number})",
            f"print(sorted(xs, key=str)[:{number}])", f"words += [{text}]", f"b = int({text})",
            f"d[{text}] = {number}", "print(sorted(d.items()))", f"print({text}, file=sys.stderr)",
        ]  # fmt: skip
        pick = self.rng.randrange(16 if depth < 2 else 10)
        if pick < len(simple):
            return [simple[pick]]
        body = ["    " + line for _ in range(self.rng.randint(1, 3)) for line in self.statement(depth + 1)]
        kind = self.rng.choice(["Exception", "ValueError", "ZeroDivisionError"])
        return [
            [f"for i in range({self.rng.randint(0, 4)}):", *body],
            [f"if {number} > {self.number()}:", *body, "else:", "    pass"],
            ["try:", *body, f"except {kind} as e:", "    print(type(e).__name__, e)"],
            ["try:", *body, "finally:", "    print('finally')"],
            [f"if {number} % 3 == 1:", f"    {self.rng.choice(_ENDS)}"],
            [f"def f{depth}(a, b):", *body, f"    return {number}", f"print(f{depth}(a, b))"],
        ][pick - len(simple)]

    def program(self) -> str:
        return (
            _HEAD + "\n".join(line for _ in range(self.rng.randint(3, 9)) for line in self.statement()) + "\n"
        )


KINDS: dict[str, tuple[Callable[[random.Random], mixes.Writer | Statements], bytes]] = {
    "mixes": (mixes.Writer, mixes.STDIN),
    "statements": (Statements, STDIN),
}


@functools.cache
def _programs(kind: str, seeds: range) -> list[tuple[str, Outcome]]:
    """Programs with what a plain interpreter makes of them, two at a time; once for all levels."""
    writer, stdin = KINDS[kind]
    programs = [writer(random.Random(seed)).program() for seed in seeds]
    with ThreadPoolExecutor(2) as pool:
        return list(zip(programs, pool.map(lambda code: plain(code, stdin), programs), strict=True))


def _check(box, kind: str, seeds: range) -> None:
    ends, unsteady, reordered, wrong, stdin = set(), 0, 0, [], KINDS[kind][1]
    for seed, (code, expected) in zip(seeds, _programs(kind, seeds), strict=True):
        ends.add(expected.end.split()[0])
        got = boxed(box, code, stdin)
        differs = difference(expected, got, said=kind == "statements")
        if expected.end == "signal SIGINT" and differs.startswith("ends with exit 120,"):
            continue  # wanted: Ctrl-C ends by the signal, but not where output cannot be flushed as well
        if differs and plain(code, stdin) != expected:
            unsteady += 1  # it does not even end twice in the same way in a plain interpreter
        elif differs and (expected.end, _lines(expected)) == (got.end, _lines(got)):
            # Meant: finalizers of cyclic garbage run in the order of the collector's list, which depends on
            # all that was ever made. It is the interpreter's own nearly always.
            reordered += 1
        elif differs:
            wrong.append((f"seed {seed}: {differs}", code))
    assert not wrong, "\n".join([*(line for line, _ in wrong), "", "the first of them:", wrong[0][1]])
    assert unsteady <= len(seeds) // 200, "the programs depend on the time"
    assert reordered <= len(seeds) // 100 * (kind == "mixes")
    assert {"success", "exit", "raised", *(["signal"] if kind == "mixes" else [])} <= ends, (
        "the programs end in too few ways to show anything"
    )


def _lines(outcome: Outcome) -> list[bytes]:
    return sorted(outcome.stdout.split(b"\n"))


@pytest.mark.parametrize(("kind", "count"), [("mixes", 120), ("statements", 60)])
def test_generated_programs_end_as_in_a_plain_interpreter(box, kind, count):
    _check(box, kind, range(count))


@pytest.mark.full
@pytest.mark.parametrize("start", range(10_000, 15_000, 500))
@pytest.mark.parametrize("kind", KINDS)
def test_thousands_of_generated_programs_end_as_in_a_plain_interpreter(box, kind, start):
    _check(box, kind, range(start, start + (500 if kind == "mixes" else 100)))
