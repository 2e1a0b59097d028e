"""Random small programs: what a run prints and how it ends equal those of a plain process."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from cobalt.sandbox.limits import Limits

INPUT = "7 -3 12\nabc déf\n\n5\n"
_NUMBERS = ("a", "b", "len(words)", "3", "-2", "0", "10 ** 20", "xs[0]", "xs[-1]", "sum(xs)", "i")
_TEXTS = ("words[0]", "line", "'x' * b", "str(a)", "repr(xs)", "line[::-1]", "'ü'", "f'{a:>5}|{b!r}'")


class Writer:
    """Writes programs that terminate, of statements which often work and sometimes raise."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def number(self, depth: int = 0) -> str:
        if depth > 2 or self.rng.random() < 0.4:
            return self.rng.choice(_NUMBERS)
        operator = self.rng.choice(["+", "-", "*", "//", "%", "/", "&", "<<", "**"])
        right = str(self.rng.randrange(4)) if operator in ("<<", "**") else self.number(depth + 1)
        return f"({self.number(depth + 1)} {operator} {right})"

    def statement(self, depth: int = 0) -> list[str]:
        pick = self.rng.randrange(16 if depth < 2 else 10)
        number, text = self.number(), self.rng.choice(_TEXTS)
        simple = [
            f"print({number})", f"print({text}, {number}, sep='/')", f"a = {number}", f"xs.append({number})",
            f"print(sorted(xs, key=str)[:{number}])", f"words += [{text}]", f"b = int({text})",
            f"d[{text}] = {number}", "print(sorted(d.items()))",
            f"print({text}, file=sys.stderr)",
        ]  # fmt: skip
        if pick < len(simple):
            return [simple[pick]]
        body = ["    " + line for _ in range(self.rng.randint(1, 3)) for line in self.statement(depth + 1)]
        if pick == 10:
            return [f"for i in range({self.rng.randint(0, 4)}):", *body]
        if pick == 11:
            return [f"if {number} > {self.number()}:", *body, "else:", *(["    pass"] if pick % 2 else body)]
        if pick == 12:
            kind = self.rng.choice(["Exception", "ValueError", "ZeroDivisionError"])
            return ["try:", *body, f"except {kind} as e:", "    print(type(e).__name__, e)"]
        if pick == 13:
            return ["try:", *body, "finally:", "    print('finally')"]
        if pick == 14:
            return [f"if {number} % 3 == 1:", f"    {self.ending()}"]
        return [f"def f{depth}(a, b):", *body, f"    return {number}", f"print(f{depth}(a, b))"]

    def ending(self) -> str:
        return self.rng.choice(
            ["sys.exit()", "sys.exit(3)", "sys.exit('no')", "raise KeyError(line)", "import os; os._exit(5)",
             "1 / 0", "exit(2)", "raise SystemExit(a)", "input(); input(); input(); input()"]
        )  # fmt: skip

    def program(self) -> str:
        head = ["import sys", "line = input()", "a, b, i = map(int, line.split())", "words = input().split()",
                "xs, d = [a, b], {}"]  # fmt: skip
        body = [line for _ in range(self.rng.randint(3, 9)) for line in self.statement()]
        return "\n".join([*head, *body]) + "\n"


def shown(stderr: bytes) -> list[bytes]:
    """Without the marks under a line: the interpreter and `traceback` set them a little differently."""
    return [line for line in stderr.splitlines() if line.strip(b" ~^")]


def plain(code: str, folder: Path) -> tuple[bytes, int, bytes]:
    (folder / "solution.py").write_text(code)
    ran = subprocess.run(
        [sys.executable, "-I", "solution.py"],
        input=INPUT.encode(),
        capture_output=True,
        cwd=folder,
        timeout=60,
        env={"PYTHONUTF8": "1", "LANG": "C.UTF-8"},
    )
    return ran.stdout, ran.returncode, ran.stderr.replace(f"{folder}/".encode(), b"")


def check(box, folder: Path, seeds: range) -> None:
    endings = set()
    for seed in seeds:
        code = Writer(seed).program()
        facts = box.run(code, INPUT, limits=Limits())
        stdout, returncode, stderr = plain(code, folder)
        assert (facts.stdout, facts.returncode) == (stdout, returncode), code
        assert shown(facts.stderr) == shown(stderr), code
        endings.add(returncode)
    assert {0, 1} < endings, "the programs end in too few ways to show anything"


def test_random_programs_run_as_in_a_plain_process(box, tmp_path):
    check(box, tmp_path, range(60))


@pytest.mark.full
def test_a_thousand_random_programs_run_as_in_a_plain_process(box, tmp_path):
    check(box, tmp_path, range(1000, 2000))
