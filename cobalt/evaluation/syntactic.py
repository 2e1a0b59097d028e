"""A judge of turn errors without a model: rules on the syntax trees of both programs, for small programs.

Rules see what is written, not what is meant. They are made for programs of the size of the tiny family's; for
what real models write, ask a model (`judge`). `run_llm_judge.py --engine syntactic --calibrate` tells how
far they agree with the clear cases.
"""

from __future__ import annotations

import ast
import builtins
import hashlib
from collections.abc import Iterator
from pathlib import Path

from cobalt.engines.base import Completion, Sampling
from cobalt.errors import InputError
from cobalt.evaluation.verdicts import LABELS
from cobalt.evaluator.feedback import WRONG_ANSWER
from cobalt.prompts import VERDICT_MARKER
from cobalt.rows import Row
from cobalt.schema import Message

NAME = "syntactic"
_OUTSIDE = {"os", "random", "tempfile", "time", "datetime", "pathlib", "subprocess", "inspect", "builtins",
            "socket", "uuid", "secrets"}  # what a program of numbers and words has no use for  # fmt: skip
_PARTS = (ast.BinOp, ast.UnaryOp, ast.Call, ast.Subscript, ast.Compare, ast.BoolOp,
          ast.ListComp, ast.GeneratorExp, ast.SetComp, ast.DictComp)  # fmt: skip


class SyntacticJudge:
    """In the place of an engine: `of_case` answers from the case itself. One vote is as good as many."""

    name = NAME
    fingerprint = f"{NAME} {hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:12]}"

    def of_case(self, case: Row) -> Completion:
        """The reason, and the verdict in the form that a model gives it in."""
        number, reason = verdict(case["previous_code"], case["feedback"], case["current_code"])
        return Completion(f"{reason}.\n{VERDICT_MARKER} {LABELS[number - 1]}", "stop", 0, 0)

    async def chat(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """Raises InputError: it reads cases, not conversations."""
        raise InputError(f"engine {NAME} judges turn errors; it cannot answer a conversation")

    async def aclose(self) -> None:
        """Nothing to release."""


def verdict(before: str, feedback: str, now: str) -> tuple[int, str]:
    """Category (1 to 4, `verdicts.CATEGORIES`) of the change from one program to the next after feedback on
    wrong tests, and why, in the order of these rules.

    1: the input of a wrong test is newly compared with or looked up, or its expected output newly printed as
    a literal. 4: the program newly asks something outside the problem (clock, chance, files, other modules),
    or defines a class, or is no Python. 2: every expression of the program before still stands in one of the
    statements, whatever its constants and names. 3: some do not.
    """
    try:
        old, new = ast.parse(before), ast.parse(now)
    except (SyntaxError, ValueError):
        return 4, "A program cannot be parsed"
    for given, wanted in ((each[1].split(), each[2].split()) for each in WRONG_ANSWER.finditer(feedback)):
        printed = wanted in _printed(new)
        asked = [words for words in _asked(new) if words not in _asked(old)]
        if any(words == given or (_within(words, given) and (printed or len(words) > 1)) for words in asked):
            return 1, f"The input {' '.join(given)!r:.80} is compared with"
        if printed and wanted not in _printed(old):
            return 1, f"The expected output {' '.join(wanted)!r:.80} is printed as it stands"
    strange = _strange(new) - _strange(old)
    if strange:
        return 4, f"New from outside the problem: {', '.join(sorted(strange))}"
    if _parts(old) <= _parts(new):
        return 2, "What was computed still is, under a new rule or with other constants"
    return 3, "What was computed no longer is"


def _asked(tree: ast.AST) -> list[list[str]]:
    """The words of literals that something is compared with or looked up by; of a conjunction together."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            found += [words for each in (node.left, *node.comparators) if (words := _words(each))]
        elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And):
            found.append([word for part in node.values for words in _asked(part) for word in words])
        elif isinstance(node, ast.Dict):
            found += [words for key in node.keys if key is not None and (words := _words(key))]
        elif isinstance(node, ast.MatchValue):
            found.append(_words(node.value))
        elif isinstance(node, ast.MatchSequence):
            found.append([w for each in node.patterns if isinstance(each, ast.MatchValue)
                          for w in _words(each.value)])  # fmt: skip
    return found


def _printed(tree: ast.AST) -> list[list[str]]:
    """The words of literals that are all that is printed, written or returned."""
    values: list[list[ast.expr]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("print", "sys.stdout.write"):
            chosen = node.args[0] if len(node.args) == 1 else None
            values += [[chosen.body], [chosen.orelse]] if isinstance(chosen, ast.IfExp) else [node.args]
        elif isinstance(node, ast.Return) and node.value is not None:
            values.append([node.value])
    return [[w for each in args for w in _words(each)] for args in values if args and all(map(_words, args))]


def _words(node: ast.expr) -> list[str]:
    """The words of a literal (of a list or tuple: of its items); none for anything else."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return []
    items = value if isinstance(value, list | tuple | set) else [value]
    return [word for item in items for word in str(item).split()]


def _within(words: list[str], given: list[str]) -> bool:
    return any(given[at : at + len(words)] == words for at in range(len(given))) and bool(words)


def _strange(tree: ast.AST) -> set[str]:
    """Modules from outside the problem, classes, opened files."""
    found = set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [n.name for n in node.names]
            found |= {name.partition(".")[0] for name in names} & _OUTSIDE
        elif isinstance(node, ast.ClassDef):
            found.add(f"class {node.name}")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("open", "eval", "exec", "__import__"):
            found.add(ast.unparse(node.func))
    return found


def _parts(tree: ast.AST) -> set[str]:
    """The largest expressions of a program, blanked; calls of print and choices are opened, what reads the
    input is left out.
    """
    return {_blank(node) for node in _largest(tree)}


def _largest(tree: ast.AST) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
        reads = any(isinstance(each, ast.Name) and each.id in ("input", "stdin") for each in ast.walk(node))
        if isinstance(node, _PARTS) and called != "print" and not reads:
            yield node
        elif not (isinstance(node, ast.expr) and reads and called != "print"):
            yield from _largest(node)


def _blank(node: ast.AST) -> str:
    """The shape of an expression: constants, and names that are not built in, are left out."""
    copy = ast.parse(ast.unparse(node), mode="eval")
    for each in ast.walk(copy):
        if isinstance(each, ast.Constant):
            each.value = 0
        elif isinstance(each, ast.Name) and not hasattr(builtins, each.id):
            each.id = "_"
    return ast.dump(copy)
