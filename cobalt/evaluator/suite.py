"""One program, all its tests: runs them on a worker and turns bytes and resource facts into verdicts."""

import json
from dataclasses import dataclass
from typing import Any

from cobalt.evaluator import compare, feedback
from cobalt.evaluator.base import infra_result
from cobalt.evaluator.rule import Rule
from cobalt.records import SKIPPED, ExecutionResult, TestCases, TestResult
from cobalt.sandbox.policy import Limits
from cobalt.sandbox.pool import Pool
from cobalt.sandbox.worker import Program, RunFacts, WorkerLost

_RUNS_PER_TEST = 2  # a test whose worker was lost is run again once


@dataclass(frozen=True)
class Verdict:
    """Outcome of one test."""

    status: str
    feedback: str
    cpu_s: float = 0.0
    wall_s: float = 0.0
    returncode: int | None = None
    peak_bytes: int = 0


@dataclass(frozen=True)
class _Test:
    """One test: its input, what it expects, and the function that it calls (None: a program)."""

    value: Any
    expected: Any
    fn_name: str | None


class _Budget:
    """Time that the tests of one suite have used: CPU time decides, as for a test."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.cpu_s = limits.suite_s
        self.wall_s = limits.suite_wall_s

    def take(self, facts: RunFacts) -> None:
        self.cpu_s -= facts.cpu_s
        self.wall_s -= facts.wall_s

    @property
    def spent(self) -> bool:
        return self.cpu_s <= 0 or self.wall_s <= 0


_NOT_RUN = Verdict(SKIPPED, "Not run: an earlier test failed.")


def judge_suite(pool: Pool, code: str, tests: TestCases, limits: Limits, rule: Rule) -> ExecutionResult:
    """Verdicts on all tests, in order. Raises InfraError only if the pool cannot give a worker at all."""
    source = compare.encode(code)
    if len(source) > limits.source_bytes:
        text = f"Program is longer than {limits.source_bytes} bytes."
        return _result([Verdict("runtime_error", f"Exception: {text}")] * len(tests), "compile_error", False)
    verdicts: list[Verdict] = []
    budget = _Budget(limits)
    status, lost = "ok", 0
    while len(verdicts) < len(tests):
        done = len(verdicts)
        try:
            with pool.lend() as worker, worker.program(source, limits, fn_name=tests.fn_name) as program:
                if program.compile_error is not None:
                    status = "compile_error"
                    verdicts = [_not_compiled(program.compile_error, each, limits) for each in tests.inputs]
                while len(verdicts) < len(tests) and not budget.spent:
                    verdicts.append(_judge_test(program, tests, len(verdicts), limits, budget, rule))
                    if rule.stop_on_first_failure and verdicts[-1].status != "passed":
                        verdicts += [_NOT_RUN] * (len(tests) - len(verdicts))
        except WorkerLost as error:
            lost = lost + 1 if len(verdicts) == done else 1
            if lost >= _RUNS_PER_TEST:
                return infra_result(len(tests), f"the sandbox failed twice on test {done}: {error}")
            continue
        if budget.spent:
            break
    limited = len(verdicts) < len(tests) or (budget.spent and verdicts[-1].status == "time_limit")
    text = f"TimeoutError: Tests timed out after {limits.suite_s:g} seconds."
    verdicts += [Verdict("time_limit", text)] * (len(tests) - len(verdicts))
    return _result(verdicts, status, limited)


def _judge_test(
    program: Program, tests: TestCases, index: int, limits: Limits, budget: _Budget, rule: Rule
) -> Verdict:
    test = _Test(tests.inputs[index], tests.outputs[index], tests.fn_name)
    expected_size = len(test.expected) * 4 if isinstance(test.expected, str) else 0
    output_bytes = limits.output_bytes
    while output_bytes < 2 * expected_size:
        output_bytes *= 2  # in steps, so that the limit tells next to nothing about what is expected
    stdin = compare.encode(test.value if test.fn_name is None else json.dumps(test.value))
    facts = program.run(
        stdin,
        cpu_s=min(limits.cpu_s, budget.cpu_s),
        wall_s=min(limits.wall_limit_s, budget.wall_s),
        output_bytes=output_bytes,
    )
    budget.take(facts)
    status, text = _verdict(facts, test, limits, output_bytes, rule)
    returncode = None if facts.limit else facts.returncode
    return Verdict(status, text, facts.cpu_s, facts.wall_s, returncode, facts.peak_bytes)


def _verdict(facts: RunFacts, test: _Test, limits: Limits, output_bytes: int, rule: Rule) -> tuple[str, str]:
    value = test.value
    if max(facts.stdout_size, facts.stderr_size) >= output_bytes:
        text = f"Program wrote more than {output_bytes >> 20} MiB of output."
        return "output_limit", feedback.exception_feedback(value, text)
    if facts.limit in ("cpu", "wall"):
        seconds = limits.cpu_s if facts.limit == "cpu" else limits.wall_limit_s
        return "time_limit", feedback.timeout_feedback(value, seconds)
    stderr = compare.decode(facts.stderr)
    if _out_of_memory(facts, stderr, limits):
        if stderr.strip() and facts.limit != "memory":
            return "memory_limit", feedback.stderr_feedback(value, compare.decode(facts.stdout), stderr)
        text = f"Program used more than {limits.memory_bytes >> 20} MiB of memory."
        return "memory_limit", feedback.exception_feedback(value, text)
    if facts.limit == "processes":
        text = f"Program started more than {limits.processes} processes."
        return "runtime_error", feedback.exception_feedback(value, text)
    stdout = compare.decode(facts.stdout)
    if facts.returncode != 0:
        if stderr.strip():
            return "runtime_error", feedback.stderr_feedback(value, stdout, stderr)
        return "runtime_error", feedback.wrong_answer_feedback(value, stdout, test.expected)
    if test.fn_name is None:
        passed = rule.accepts(stdout, test.expected)
    else:
        stdout = compare.value_text(stdout)
        passed = compare.value_equal(stdout, test.expected)
    text = feedback.wrong_answer_feedback(value, stdout, test.expected)
    return ("passed" if passed else "wrong_answer"), text


def _out_of_memory(facts: RunFacts, stderr: str, limits: Limits) -> bool:
    if facts.limit == "memory":
        return True
    if facts.returncode == -9:  # not ours: the kernel's
        return facts.peak_bytes > limits.memory_bytes // 2
    last = stderr.rstrip().rpartition("\n")[2]
    return facts.returncode != 0 and last.startswith("MemoryError")


def _not_compiled(facts: RunFacts, value: Any, limits: Limits) -> Verdict:
    if facts.limit in ("cpu", "wall"):
        text = feedback.timeout_feedback(value, limits.cpu_s)
        return Verdict("time_limit", text, facts.cpu_s, facts.wall_s)
    stderr = compare.decode(facts.stderr)
    status = "memory_limit" if _out_of_memory(facts, stderr, limits) else "runtime_error"
    text = feedback.stderr_feedback(value, "", stderr.strip() or "The compiler crashed.")
    return Verdict(status, text, facts.cpu_s, facts.wall_s, facts.returncode)


def _result(verdicts: list[Verdict], status: str, limited: bool) -> ExecutionResult:
    tests: list[TestResult] = [
        {
            "status": each.status,
            "cpu_s": each.cpu_s,
            "wall_s": each.wall_s,
            "returncode": each.returncode,
            "peak_bytes": each.peak_bytes,
        }
        for each in verdicts
    ]
    return {
        "passing": [each.status == "passed" for each in verdicts],
        "feedback": [each.feedback for each in verdicts],
        "status": status,
        "per_test": tests,
        "suite_limit": limited,
        "shared": False,
    }
