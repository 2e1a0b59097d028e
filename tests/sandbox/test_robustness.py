"""Odd sources, odd inputs, odd outputs: each gets a verdict."""

import pytest

from cobalt.sandbox.limits import Limits


@pytest.mark.parametrize(
    ("code", "stdout"),
    [
        (b"", b""),
        (b"# nothing\n", b""),
        (b"\xef\xbb\xbfprint(1)", b"1\n"),
        (b"print(1)\r\nprint(2)\r\n", b"1\n2\n"),
        (b"print(1)\rprint(2)", b"1\n2\n"),
        (b"# -*- coding: latin-1 -*-\nprint(len('\xe9'))", b"1\n"),
        (b"from __future__ import annotations\nprint(1)", b"1\n"),
        ("print('äß漢😀')".encode(), "äß漢😀\n".encode()),
        (b"print(__name__, __file__)", b"__main__ solution.py\n"),
        (b"import sys\nprint(sys.argv)", b"['solution.py']\n"),
        (b"x" * 1_000_000 + b" = 1\nprint(1)", b"1\n"),
        (b"x = [" + b"1," * 500_000 + b"]\nprint(len(x))", b"500000\n"),
        (b"import sys\nsys.stdout.buffer.write(bytes(range(256)))", bytes(range(256))),
    ],
)
def test_the_program_runs(box, code, stdout):
    facts = box.run(code, limits=Limits(cpu_s=10))
    assert (facts.stdout, facts.returncode, facts.limit) == (stdout, 0, "")


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (b"print(1", b"SyntaxError: '(' was never closed"),
        (b"print(1)\0print(2)", b"null bytes"),
        (b"print('\xff')", b"SyntaxError"),
        (b"# -*- coding: nonsense -*-", b"SyntaxError"),
        (b"\xed\xa0\x80", b"SyntaxError"),
        (b"(" * 1000 + b")" * 1000, b"SyntaxError: too many nested parentheses"),
        (b"  x = 1\n y = 2", b"IndentationError"),
    ],
)
def test_the_compiler_s_message_is_the_verdict(box, code, error):
    facts = box.run(code)
    assert facts.returncode == 1
    assert error in facts.stderr
    assert b"cobalt" not in facts.stderr


@pytest.mark.parametrize(
    "code", [b"-" * 200_000 + b"1", b"x" + b".a" * 200_000, b"f" + b"()" * 100_000, b"not " * 100_000 + b"1"]
)
def test_a_source_that_breaks_the_compiler_is_the_program_s_fault(box, code):
    facts = box.run(code)
    assert facts.returncode != 0 or facts.limit


def test_compiling_for_ever_meets_the_cpu_limit(box):
    code = b"x = 1\n" * 3_000_000
    facts = box.run(code, limits=Limits(cpu_s=0.3))
    assert facts.limit == "cpu"


def test_compiling_without_end_of_memory_is_bounded(box):
    code = b"x = (" + b"'a'," * 2_000_000 + b")\nprint(1)"
    facts = box.run(code, limits=Limits(cpu_s=20, memory_bytes=128 << 20))
    assert facts.returncode != 0 or facts.limit


def test_a_large_input_arrives_whole(box):
    facts = box.run("import sys\nprint(len(sys.stdin.read()))", b"x" * 30_000_000, limits=Limits())
    assert facts.stdout == b"30000000\n"


def test_many_tests_of_one_program(box):
    runs = box.runs("print(input())", [str(n) for n in range(300)])
    assert [facts.stdout for facts in runs] == [f"{n}\n".encode() for n in range(300)]


def test_hash_order_is_the_same_in_every_test(box):
    first, second = box.runs("print(list({str(n) for n in range(20)}))", ["", ""])
    assert first.stdout == second.stdout


def test_exit_and_quit_work_unless_the_published_guard_is_asked_for(box):
    for word in ("exit", "quit"):
        code = f"print(1)\n{word}()\nprint(2)"
        assert box.run(code).stdout == b"1\n"
        guarded = box.run(code, limits=Limits(exit_and_quit=False))
        assert guarded.returncode == 1
        assert b"TypeError: 'NoneType' object is not callable" in guarded.stderr
