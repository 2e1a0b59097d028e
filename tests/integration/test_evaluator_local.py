"""The local evaluator on real workers: statuses, limits, counters, sharing, function tasks."""

import asyncio
import time

import pytest

from cobalt.evaluator import LocalEvaluator, connect
from cobalt.evaluator.feedback import first_failure
from cobalt.evaluator.requests import canary
from cobalt.sandbox.limits import Limits

SUM = "print(sum(map(int, input().split())))"
TESTS = {"inputs": ["1 2\n", "3 4\n", "5 6\n"], "outputs": ["3", "8", "11\n"]}


@pytest.fixture(scope="module")
def evaluator():
    with LocalEvaluator(2) as local:
        yield local


@pytest.fixture(scope="module")
def tight():
    """Small limits, so that tests of them are quick."""
    limits = Limits(cpu_s=0.3, wall_s=1.0, suite_s=1.0, memory_bytes=128 << 20, output_bytes=1 << 20)
    with LocalEvaluator(2, limits=limits) as local:
        yield local


def statuses(result):
    return [test["status"] for test in result["per_test"]]


def one(evaluator, code, value="", expected=""):
    result = evaluator.evaluate(code, {"inputs": [value], "outputs": [expected]})
    assert len(result["passing"]) == len(result["feedback"]) == len(result["per_test"]) == 1
    assert result["passing"] == [statuses(result) == ["passed"]]
    return result


def test_one_entry_per_test_and_no_early_stop(evaluator):
    result = evaluator.evaluate(SUM, TESTS)
    assert result["passing"] == [True, False, True]
    assert statuses(result) == ["passed", "wrong_answer", "passed"]
    assert result["status"] == "ok" and result["suite_limit"] is False
    assert all(
        test["returncode"] == 0 and 0 < test["cpu_s"] <= test["wall_s"] + 0.1 for test in result["per_test"]
    )
    assert first_failure(result) == "Input:\n3 4\nProgram's Output:\n7\nExpected Output:\n8"
    assert result["feedback"][0] == "Input:\n1 2\nProgram's Output:\n3\nExpected Output:\n3"


def test_a_runtime_error_shows_the_traceback(evaluator):
    result = one(evaluator, "print('before')\nx = int(input())", "abc\n", "1")
    assert statuses(result) == ["runtime_error"]
    assert result["feedback"][0] == (
        "Input:\nabc\nProgram's Output:\nbefore\nStderr:\nTraceback (most recent call last):\n"
        '  File "solution.py", line 2, in <module>\n    x = int(input())\n        ^^^^^^^^^^^^\n'
        "ValueError: invalid literal for int() with base 10: 'abc'"
    )


@pytest.mark.parametrize(
    ("code", "status", "tests"),
    [(None, "no_code", ["runtime_error"] * 3), ("", "ok", ["wrong_answer"] * 3),
     ("def f(:\n", "compile_error", ["runtime_error"] * 3)],
)  # fmt: skip
def test_programs_that_are_none(evaluator, code, status, tests):
    result = evaluator.evaluate(code, TESTS)
    assert (result["status"], statuses(result), result["passing"]) == (status, tests, [False] * 3)
    assert first_failure(result) is not None
    result = evaluator.evaluate(SUM, {"inputs": [], "outputs": []})
    assert (result["passing"], result["feedback"], result["status"]) == ([], [], "ok")


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [
        ("while True: pass", "time_limit", "TimeoutError: Program timed out after 0.3 seconds."),
        ("import time\ntime.sleep(20)", "time_limit", "after 1 seconds"),
        ("x = bytearray(1 << 30)", "memory_limit", "MemoryError"),
        (
            "import sys\nwhile True: sys.stdout.write('x' * 10000)",
            "output_limit",
            "more than 1 MiB of output",
        ),
        (
            "import sys\nwhile True: sys.stderr.write('x' * 10000)",
            "output_limit",
            "more than 1 MiB of output",
        ),
        ("import sys\nsys.stdout.buffer.write(b'\\xff')", "wrong_answer", "\ufffd"),
    ],
)
def test_limits_and_odd_outputs_are_verdicts(tight, code, status, told):
    result = one(tight, code, "7", "x")
    assert statuses(result) == [status] and told in result["feedback"][0]
    assert (result["per_test"][0]["returncode"] is None) is (status == "time_limit")


def test_an_expected_output_beyond_the_limit_is_allowed_for(tight):
    assert one(tight, "print('x' * 3_000_000)", "", "x" * 3_000_000)["passing"] == [True]


@pytest.mark.parametrize("code", ["print(1)\0", "\ud800", "x = '\ud800'", "x" * 20_000_000], ids=range(4))
def test_odd_sources_are_verdicts(evaluator, code):
    result = one(evaluator, code)
    assert statuses(result) == ["runtime_error"] and result["status"] == "compile_error"


def test_surrogates_in_tests_are_judged(evaluator):
    assert one(evaluator, "print(input())", "\ud800\n", "\ud800")["passing"] == [True]
    assert one(evaluator, "print(len(input()))", "\ud800\n", "x")["passing"] == [False]


def test_shared_verdicts_and_counters():
    for shared_verdicts, ran in ((True, 1), (False, 4)):
        with LocalEvaluator(2, shared_verdicts=shared_verdicts) as local:
            results = list(local.evaluate_many([(SUM, TESTS)] * 4))
            assert [result["shared"] for result in results].count(False) == ran
            assert {tuple(result["passing"]) for result in results} == {(True, False, True)}
            counters = local.counters
            assert (counters["tests"], counters["shared"], counters["infra_errors"]) == (3 * ran, 4 - ran, 0)
            assert counters["cpu_s"] > 0


def test_many_programs_in_order_read_only_a_little_ahead(evaluator):
    read = []

    def programs():
        for n in range(60):
            read.append(n)
            yield f"print({n})", {"inputs": [""], "outputs": [str(n % 10)]}

    results = evaluator.evaluate_many(programs())
    next(results)
    assert len(read) <= 20
    assert [result["passing"][0] for result in results] == [n < 10 for n in range(1, 60)]


async def test_the_event_loop_is_never_blocked_and_calls_may_be_cancelled(evaluator):
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticker = asyncio.create_task(tick())
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(evaluator.aevaluate("import time\ntime.sleep(1)  # slow", TESTS), 0.1)
    code = "import time\ntime.sleep(0.5)\nprint({})"
    results = await asyncio.gather(*(evaluator.aevaluate(code.format(n), TESTS) for n in (3, 8)))
    ticker.cancel()
    assert [result["passing"] for result in results] == [[True, False, False], [False, True, False]]
    assert ticks > 20


FUNCTIONS = {
    "plain": "def add(a, b): return a + b",
    "solution": "class Solution:\n    def add(self, a: int, b: int) -> int: return a + b",
    "preloaded names": "def add(a: List[int], b) -> Optional[int]: return reduce(lambda x, y: x + y, [a, b])",
    "noisy": "print('noise')\ndef add(a, b):\n    print('more', end='')\n    return a + b",
    "guarded": "def add(a, b): return a + b\nif __name__ == '__main__': print(int(input()))",
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_tasks(evaluator, name):
    tests = {"fn_name": "add", "inputs": [[1, 2], [3, 4], [5, 6]], "outputs": [3, [7], 12]}
    result = evaluator.evaluate(FUNCTIONS[name], tests)
    assert result["passing"] == [True, True, False]
    assert result["feedback"][2] == "Input:\n[5, 6]\nProgram's Output:\n11\nExpected Output:\n12"


@pytest.mark.parametrize(
    ("body", "expected", "status"),
    [
        ("return (x, (x,))", [[1, 2], [[1, 2]]], "passed"),
        ("return {1: x}", {"1": [1, 2]}, "passed"),
        ("return 'x'", "x", "passed"),
        ("return None", None, "passed"),
        ("pass", [None], "passed"),
        ("return float('nan')", 1.0, "wrong_answer"),
        ("return set(x)", [1, 2], "runtime_error"),
        ("raise KeyError(x)", 1, "runtime_error"),
    ],
)
def test_function_values_are_plain_data(evaluator, body, expected, status):
    tests = {"fn_name": "f", "inputs": [[[1, 2]]], "outputs": [expected]}
    assert statuses(evaluator.evaluate(f"def f(x):\n    {body}", tests)) == [status]


def test_a_missing_function_is_named(evaluator):
    result = evaluator.evaluate("x = 1", {"fn_name": "solve", "inputs": [[1]], "outputs": [1]})
    assert "NameError: name 'solve' is not defined" in result["feedback"][0]
    assert "cobalt" not in result["feedback"][0]


def test_connect_says_what_it_uses_and_without_ray_auto_is_local_and_quick(monkeypatch, capsys):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setenv("RAY_TMPDIR", "/nonexistent")
    start = time.monotonic()
    with connect("auto", workers=1) as local:
        assert local.evaluate(SUM, TESTS)["passing"] == [True, False, True]
    assert time.monotonic() - start < 10
    assert capsys.readouterr().err.startswith("evaluator: in process, 1 workers, isolation ")


def test_the_canary_is_a_new_program_every_time(evaluator):
    requests = [canary() for _ in range(3)]
    results = [evaluator.evaluate(each["code"], each["test_cases"]) for each in requests]
    assert [(result["passing"], result["shared"]) for result in results] == [([True], False)] * 3
