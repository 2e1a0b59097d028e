"""One program, all its tests: runs them on a worker and turns bytes and resource facts into verdicts."""

import json
import time
from typing import Any, NamedTuple

from cobalt.evaluator import feedback
from cobalt.evaluator.base import infra_result
from cobalt.evaluator.checker import Rule, brief, decode, encode
from cobalt.evaluator.endings import FAULTS, PAUSE_S, check_end, out_of_memory, too_long
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.pool import Pool
from cobalt.sandbox.worker import Program, RunFacts
from cobalt.schema import SKIPPED, ExecutionResult, TestResult
from cobalt.testcases import TestCases

_RUNS_PER_TEST = 2  # a test that a fault of ours ended is run again once, on another worker


class Verdict(NamedTuple):
    """Outcome of one test, and what the model is told of it."""

    test: TestResult
    feedback: str


def judge_suite(pool: Pool, code: str, tests: TestCases, limits: Limits, rule: Rule) -> ExecutionResult:
    """Verdicts on all tests, in order. Raises InfraError only if the pool is closed.

    A run that a fault of ours ended is made again on another worker, once; then the suite is `infra_error`.
    A suite over its time has pass rate 0, as published: no test passes, whatever had finished; `per_test`
    says what had.
    """
    source = encode(code)
    if text := too_long(source, limits):
        return _result([_made("runtime_error", f"Exception: {text}")] * len(tests), "compile_error")
    suite = _Suite(tests, limits, rule)
    lost = 0
    while not suite.over:
        done = len(suite.verdicts)
        try:
            with (
                pool.lend() as worker,
                worker.program(
                    source, limits, fn_name=tests.fn_name, output_bytes=suite.output_bytes
                ) as program,
            ):
                suite.run(program)
        except FAULTS as error:
            lost = lost + 1 if len(suite.verdicts) == done else 1
            if lost >= _RUNS_PER_TEST:
                why = str(error) or type(error).__name__
                return infra_result(len(tests), f"the sandbox failed twice on test {done}: {why}")
            time.sleep(PAUSE_S)
    return suite.result()


class _Suite:
    """The tests of one program, as far as they have been judged, and the time that is left to the others.

    CPU time decides, as for a test. Wall time in which the host gave a program no CPU is not charged.
    """

    def __init__(self, tests: TestCases, limits: Limits, rule: Rule) -> None:
        self._tests = tests
        self._limits = limits
        self._rule = rule
        self._cpu_s, self._wall_s = limits.suite_s, limits.suite_wall_s
        self._cut = False  # the last test was ended for want of the suite's time
        self._status = ""  # until it is known
        self.verdicts: list[Verdict] = []
        self.output_bytes = limits.output_bytes
        expected = max((len(each) for each in tests.outputs if isinstance(each, str)), default=0)
        while self.output_bytes < 8 * expected:  # a character has at most four bytes
            self.output_bytes *= 2  # in steps, so that the limit tells next to nothing about what is expected

    @property
    def over(self) -> bool:
        """Whether there is nothing left to run."""
        return bool(self._status) and (len(self.verdicts) == len(self._tests) or self._spent)

    @property
    def _spent(self) -> bool:
        return self._cut or self._cpu_s <= 0 or self._wall_s <= 0

    def run(self, program: Program) -> None:
        """Run what has not been run, and judge it.

        While a test runs, the files of the next are made and the one before is judged. Raises WorkerLost;
        what has been judged by then stays.
        """
        if not len(self._tests):
            self._status = "ok" if program.compiles() else "compile_error"
            return
        self._prepare(program, len(self.verdicts))
        began = self._start(program)
        waits = self._rule.stop_on_first_failure
        while began:
            place = len(self.verdicts)
            more = place + 1 < len(self._tests)
            if more:
                self._prepare(program, place + 1)
            facts = program.finish()
            check_end(facts, began)
            if facts.compile_failed:
                self._status = "compile_error"
                self.verdicts = [_not_compiled(facts, each, self._limits) for each in self._tests.inputs]
                return
            self._status = "ok"
            self._charge(facts)
            began = 0.0
            try:
                if more and not waits and not self._spent:
                    began = self._start(program)
            finally:
                self.verdicts.append(
                    _verdict(facts, self._tests, place, self._limits, self.output_bytes, self._rule)
                )
            if more and waits and not self._stop() and not self._spent:
                began = self._start(program)

    def result(self) -> ExecutionResult:
        missing = len(self._tests) - len(self.verdicts)
        if not self._cut and not missing:
            return _result(self.verdicts, self._status)
        text = f"TimeoutError: Tests timed out after {self._limits.suite_s:g} seconds."
        result = _result(self.verdicts + [_made("time_limit", text)] * missing, self._status)
        count = len(self._tests)
        return {**result, "passing": [False] * count, "feedback": [text] * count, "suite_limit": True}

    def _prepare(self, program: Program, place: int) -> None:
        value = self._tests.inputs[place]
        program.prepare(encode(value if self._tests.fn_name is None else json.dumps(value)))

    def _start(self, program: Program) -> float:
        """Begin a test; returns when that was (`time.monotonic`)."""
        began = time.monotonic()
        program.start(min(self._limits.cpu_s, self._cpu_s), min(self._limits.wall_limit_s, self._wall_s))
        return began

    def _charge(self, facts: RunFacts) -> None:
        if facts.limit == "cpu":
            self._cut = self._cpu_s < self._limits.cpu_s
        elif facts.limit == "wall":
            self._cut = self._wall_s < self._limits.wall_limit_s
        self._cpu_s -= facts.cpu_s
        self._wall_s -= max(0.0, facts.wall_s - facts.queued_s)

    def _stop(self) -> bool:
        """Whether the last test failed: then the others are not run."""
        if self.verdicts[-1].test["status"] == "passed":
            return False
        skipped = _made(SKIPPED, "Not run: an earlier test failed.")
        self.verdicts += [skipped] * (len(self._tests) - len(self.verdicts))
        return True


def _verdict(
    facts: RunFacts, tests: TestCases, place: int, limits: Limits, output_bytes: int, rule: Rule
) -> Verdict:
    """What a finished run of the test at `place` means."""
    value, expected = tests.inputs[place], tests.outputs[place]

    def found(status: str, text: str) -> Verdict:
        return _made(status, text, facts, None if facts.limit else facts.returncode, facts.peak_bytes)

    def failed(status: str, text: str) -> Verdict:
        return found(status, feedback.exception_feedback(value, text))

    if max(facts.stdout_size, facts.stderr_size) >= output_bytes:
        return failed("output_limit", f"Program wrote more than {output_bytes >> 20} MiB of output.")
    if facts.limit in ("cpu", "wall"):
        seconds = limits.cpu_s if facts.limit == "cpu" else limits.wall_limit_s
        return found("time_limit", feedback.timeout_feedback(value, seconds))
    stderr = decode(facts.stderr)
    over_memory = out_of_memory(facts, stderr)
    if over_memory and (facts.limit == "memory" or not stderr.strip()):
        return failed("memory_limit", f"Program used more than {limits.memory_bytes >> 20} MiB of memory.")
    if facts.limit == "processes" and not over_memory:
        return failed("runtime_error", f"Program started more than {limits.processes} processes.")
    stdout = brief(facts.stdout)
    if facts.returncode != 0:
        status = "memory_limit" if over_memory else "runtime_error"
        if stderr.strip():
            return found(status, feedback.stderr_feedback(value, stdout, stderr))
        return found(status, feedback.wrong_answer_feedback(value, stdout, expected))
    accepts = rule.accepts if tests.fn_name is None else rule.accepts_value
    right = accepts(facts.stdout, expected)
    text = feedback.wrong_answer_feedback(value, stdout, expected)
    return found("passed" if right else "wrong_answer", text)


def _not_compiled(facts: RunFacts, value: Any, limits: Limits) -> Verdict:
    if facts.limit in ("cpu", "wall"):
        return _made("time_limit", feedback.timeout_feedback(value, limits.cpu_s), facts)
    stderr = decode(facts.stderr)
    status = "memory_limit" if out_of_memory(facts, stderr) else "runtime_error"
    text = feedback.stderr_feedback(value, "", stderr.strip() or "The compiler crashed.")
    return _made(status, text, facts, facts.returncode)


def _made(
    status: str, text: str, facts: RunFacts | None = None, returncode: int | None = None, peak_bytes: int = 0
) -> Verdict:
    """Without `facts` it was not run."""
    test: TestResult = {
        "status": status,
        "cpu_s": facts.cpu_s if facts else 0.0,
        "wall_s": facts.wall_s if facts else 0.0,
        "returncode": returncode,
        "peak_bytes": peak_bytes,
    }
    return Verdict(test, text)


def _result(verdicts: list[Verdict], status: str) -> ExecutionResult:
    return {
        "passing": [each.test["status"] == "passed" for each in verdicts],
        "feedback": [each.feedback for each in verdicts],
        "status": status,
        "per_test": [each.test.copy() for each in verdicts],
        "suite_limit": False,
        "shared": False,
    }
