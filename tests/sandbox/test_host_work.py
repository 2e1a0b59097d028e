# ruff: noqa: E501 (programs in one line)
"""Sources and outputs that are made to cost the sandbox, or the judge, far more than they cost the program."""

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterator

import psutil
import pytest

from cobalt.sandbox.limits import Limits
from cobalt.sandbox.worker import Worker

MIB = 1 << 20

# Sources.

SLOW_SOURCES = {
    "blank lines, then an import": b"\n" * 200_000 + b"import os\nprint('ran')",
    "2 MB of blank lines and imports": b"\n" * 2_000_000 + b"import numpy\nprint('ran')",
    "spaces before an import": b"if 1:\n" + b" " * 200_000 + b"import os\nprint('ran')",
    "an import of many names": b"import os" + b", os" * 50_000 + b"\nprint('ran')",
    "comment of the package's name": b"#" + b" import numpy" * 50_000 + b"\nprint('ran')",
}


@contextlib.contextmanager
def fresh(level: str, seconds: float) -> Iterator[Worker]:
    """A worker that is ended after a while, however it hangs; WorkerLost is then raised in the block."""
    worker = Worker(level)
    guard = threading.Timer(seconds, worker.kill)
    guard.start()
    try:
        yield worker
    finally:
        guard.cancel()
        worker.close()


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
@pytest.mark.parametrize("name", SLOW_SOURCES)
def test_a_source_takes_no_longer_than_its_size_does(usable, level, name):
    """Measured from outside: work of the sandbox's own is in no fact of a run."""
    with fresh(usable(level), 8.0) as worker:
        start = time.monotonic()
        with worker.program(SLOW_SOURCES[name], Limits(cpu_s=10)) as program:
            facts = program.run(b"")
        seconds = time.monotonic() - start
    assert facts.stdout == b"ran\n", facts.stderr[-500:]
    assert seconds < 5.0


LARGE_SOURCES = {
    "newlines": b"\n" * (12 * MIB),
    "statements": b"x=1\n" * (3 * MIB),
    "wide characters in lines": b"'''" + "😀\n".encode() * (2 * MIB) + b"'''",
    "invalid bytes": b"#" + b"\xff" * (12 * MIB - 1),
    "an error at run time after many lines": b"\n" * (12 * MIB - 8) + b"1 / 0",
    # Small to write, large once it is made: what compiles within the limits may not be loaded above them.
    "many functions": b"def f(): pass\n" * 60_000,
    "folded tuples": b"x = ((1,) * 256,) * 256\n" * 5000,
}
ORDINARY = ("newlines", "wide characters in lines", "statements")


def tree(pid: int) -> list[psutil.Process]:
    outer = psutil.Process(pid)
    return [outer, *outer.children(recursive=True)]


def largest(pid: int) -> int:
    """Highest resident size so far of the processes of a worker that stand above all tests."""
    sizes = [0]
    for each in tree(pid):
        try:
            with open(f"/proc/{each.pid}/status") as file:
                sizes += [int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:")]
        except OSError:
            continue
    return max(sizes)


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in ORDINARY else pytest.mark.full) for each in LARGE_SOURCES]
)
def test_a_large_source_costs_the_processes_above_the_test_little(usable, level, name):
    limits = Limits(cpu_s=3.0, memory_bytes=512 * MIB)
    with fresh(usable(level), 15.0) as worker:
        with worker.program(LARGE_SOURCES[name], limits) as program:
            # Nothing of a test is alive now: what is there is zygote, supervisor and those that watch them.
            assert largest(worker.pid) < 150 * MIB
            program.run(b"")
            assert largest(worker.pid) < 150 * MIB
        with worker.program(b"print(1)", limits) as program:
            assert program.run(b"").stdout == b"1\n"


@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_memory_of_a_large_source_is_given_back(usable, level):
    with fresh(usable(level), 15.0) as worker:
        before = sum(each.memory_full_info().uss for each in tree(worker.pid))
        with worker.program(LARGE_SOURCES["wide characters in lines"], Limits(cpu_s=3.0)):
            pass
        after = sum(each.memory_full_info().uss for each in tree(worker.pid))
    assert after < before + 16 * MIB


def test_the_host_keeps_no_copy_of_what_a_program_wrote(box):
    """Sixteen runs of sixteen MiB of output: the host's memory does not add up."""
    peak, done = 0, threading.Event()
    own = psutil.Process()
    before = own.memory_info().rss

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.01):
            peak = max(peak, own.memory_info().rss)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        code = "import os\nfor _ in range(17): os.write(1, b'a ' * (1 << 19))"
        with box.worker.program(code.encode(), Limits()) as program:
            for _ in range(16):
                program.run(b"")
    finally:
        done.set()
        watcher.join()
    assert peak - before < 100 * MIB


# Judging.

SIZE = 16 * MIB
OUTPUTS = {
    "words": "b'a ' * (SIZE // 2)",
    "one word": "b'a' * SIZE",
    "pairs of brackets": "b'[' + b'[],' * (SIZE // 3 - 2) + b'[]]'",
    "nested brackets": "b'[' * (SIZE // 4) + b']' * (SIZE // 4)",
    "ones": "b'[' + b'1,' * (SIZE // 2 - 2) + b'1]'",
    "keys": "b'{' + b','.join(b'\"%d\":0' % n for n in range(SIZE // 12)) + b'}'",
    "keys that come again": "b'{' + b'\"a\":1,' * (SIZE // 6 - 2) + b'\"a\":1}'",
    "one text of escapes": "b'\"' + b'\\\\u0041' * (SIZE // 6 - 1) + b'\"'",
    "digits and an exponent": "b'1' * 4000 + b'e' + b'9' * (SIZE - 4001)",
    "digits": "b'1' * SIZE",
    "invalid bytes": "b'\\xff' * SIZE",
    "invalid bytes at the end": "b'a' * (SIZE - 2) + b'\\xff'",
    "cut sequences": "b'\\xf0\\x9f' * (SIZE // 2)",
    "carriage returns": "b'\\r' * SIZE",
    "spaces": "b' ' * SIZE",
    "a word between spaces": "b' ' * (SIZE // 2) + b'x' + b' ' * (SIZE // 2 - 1)",
    "lines of a space": "b' \\n' * (SIZE // 2)",
    "wide spaces": "'\\u2003'.encode() * (SIZE // 3)",
    "wide spaces around a wide character": "('\\u2003' * (SIZE // 6) + '\\U0001f600' + '\\u2003' * (SIZE // 6)).encode()",
    "narrow ones and a wide one": "b'a' * (SIZE - 4) + '\\U0001f600'.encode()",
    "words and a wide character": "b'a ' * (SIZE // 2 - 2) + '\\U0001f600'.encode()",
    "surrogates": "b'\\xed\\xa0\\x80' * (SIZE // 3)",
    # Where LiveCodeBench's rule has as many lines as it wants:
    "a long number in its line": "b'42 1.5\\n' + b'1' * SIZE",
    "many words in a line": "b'42 ' * (SIZE // 3 - 1) + b'\\n7'",
    "a number and a wide character": "b'42 1.5\\n' + b'1' * (SIZE - 12) + '\\U0001f600'.encode()",
    "a wide character far off": "b'42 1.5\\n7' + b' ' * (SIZE // 2) + '\\U0001f600 8'.encode()",
    "wide digits": "b'42 1.5\\n' + '\\U0001d7ce'.encode() * (SIZE // 4 - 2)",
}
QUICK = ("words", "pairs of brackets", "keys", "invalid bytes", "lines of a space", "wide spaces", "narrow ones and a wide one", "digits", "a long number in its line")  # fmt: skip


RULES = ("strip", "lines", "tokens", "float", "livecodebench")

# A process of its own: its peak is that of this one judgement. What is measured is what the evaluator does
# with the facts of a run, from the bytes to the verdict and its text.
JUDGE = """
import json, resource, sys, time
from cobalt.evaluator.checker import Rule
from cobalt.evaluator.judge import _verdict
from cobalt.testcases import TestCases
from cobalt.evaluator import local
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.worker import RunFacts
SIZE = {size}
def clear():
    with open('/proc/self/clear_refs', 'w') as file: file.write('5')
def peak():
    with open('/proc/self/status') as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith('VmHWM:'))
limits = Limits()
one = TestCases(['1'], ['1'])
_verdict(RunFacts(0, '', 0.0, 0.0, 0, b'1', b'', 1, 0), one, 0, limits, 1 << 24, Rule())
data = ({output})[:SIZE - 1]
facts = RunFacts(0, '', 0.0, 0.0, 0, data, b'', len(data), 0)
found = {{}}
for name, rule, test in (
    *((each, Rule(each), TestCases(['1'], ['42 1.5\\n7'])) for each in {rules!r}),
    ('values', Rule(), TestCases([[1]], [[1, 2, 3]], 'f')),
    ('number', Rule(), TestCases([[1]], [7], 'f')),
    ('text', Rule(), TestCases([[1]], ['a'], 'f')),
):
    clear()
    before, start = peak(), time.process_time()
    verdict = _verdict(facts, test, 0, limits, 1 << 24, rule)
    status, text = verdict.test['status'], verdict.feedback
    found[name] = status, (peak() - before) >> 20, time.process_time() - start, len(text)
print(json.dumps(found))
"""


def measured(output: str) -> dict[str, tuple[str, int, float, int]]:
    code = JUDGE.format(size=SIZE, output=output, rules=RULES)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=() if each in QUICK else pytest.mark.full) for each in OUTPUTS]
)
def test_judging_a_hostile_output_costs_little(name):
    found = measured(OUTPUTS[name])
    assert {rule: status for rule, (status, *_) in found.items() if status != "wrong_answer"} == {}
    assert {rule: mib for rule, (_, mib, *_) in found.items() if mib >= 100} == {}
    assert {rule: seconds for rule, (_, _, seconds, _) in found.items() if seconds >= 1.0} == {}
    assert {rule: size for rule, (*_, size) in found.items() if size > MIB} == {}
