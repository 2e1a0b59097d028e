"""One program, all its tests: runs them on a worker and turns bytes and resource facts into verdicts."""

import json
import signal
import time
from dataclasses import dataclass
from typing import Any

from cobalt.evaluator import compare, feedback
from cobalt.evaluator.base import infra_result
from cobalt.evaluator.kills import MemoryKills
from cobalt.evaluator.output import Output, decode, encode
from cobalt.evaluator.rule import Rule
from cobalt.sandbox.policy import Limits
from cobalt.sandbox.pool import Pool
from cobalt.sandbox.run_files import RunFiles
from cobalt.sandbox.worker import Program, RunFacts, WorkerLost
from cobalt.schema import SKIPPED, ExecutionResult, TestResult
from cobalt.testcases import TestCases

_RUNS_PER_TEST = 2  # a test that a fault of ours ended is run again once, on another worker
_FAULTS = (WorkerLost, OSError, MemoryError)  # the latter two: descriptors or memory of this process

_memory_kills = MemoryKills()


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
    """Time that is left to the tests of one suite: CPU time decides, as for a test.

    Wall time in which the host gave a program no CPU is not charged. `cut`: it ended the last test.
    """

    def __init__(self, limits: Limits) -> None:
        self.test_cpu_s, self.test_wall_s = limits.cpu_s, limits.wall_limit_s
        self.cpu_s = limits.suite_s
        self.wall_s = limits.suite_wall_s
        self.cut = False

    def take(self, facts: RunFacts) -> None:
        if facts.limit == "cpu":
            self.cut = self.cpu_s < self.test_cpu_s
        elif facts.limit == "wall":
            self.cut = self.wall_s < self.test_wall_s
        self.cpu_s -= facts.cpu_s
        self.wall_s -= max(0.0, facts.wall_s - facts.queued_s)

    @property
    def spent(self) -> bool:
        return self.cut or self.cpu_s <= 0 or self.wall_s <= 0


_NOT_RUN = Verdict(SKIPPED, "Not run: an earlier test failed.")


def judge_suite(pool: Pool, code: str, tests: TestCases, limits: Limits, rule: Rule) -> ExecutionResult:
    """Verdicts on all tests, in order. Raises InfraError only if the pool cannot give a worker at all.

    A run that a fault of ours ended is made again on another worker, once; then the suite is `infra_error`.
    A suite over its time has pass rate 0, as published: no test passes, whatever had finished; `per_test`
    says what had.
    """
    source = encode(code)
    if len(source) > limits.source_bytes:
        text = f"Program is longer than {limits.source_bytes} bytes."
        return _result([Verdict("runtime_error", f"Exception: {text}")] * len(tests), "compile_error")
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
        except _FAULTS as error:
            lost = lost + 1 if len(suite.verdicts) == done else 1
            if lost >= _RUNS_PER_TEST:
                why = str(error) or type(error).__name__
                return infra_result(len(tests), f"the sandbox failed twice on test {done}: {why}")
    return suite.result()


class _Suite:
    """The tests of one program, as far as they have been judged."""

    def __init__(self, tests: TestCases, limits: Limits, rule: Rule) -> None:
        self._tests = tests
        self._limits = limits
        self._rule = rule
        self._budget = _Budget(limits)
        self._status = ""  # until it is known
        self.verdicts: list[Verdict] = []
        self.output_bytes = limits.output_bytes
        expected = max((len(each) for each in tests.outputs if isinstance(each, str)), default=0)
        while self.output_bytes < 8 * expected:  # a character has at most four bytes
            self.output_bytes *= 2  # in steps, so that the limit tells next to nothing about what is expected

    @property
    def over(self) -> bool:
        """Whether there is nothing left to run."""
        return bool(self._status) and (len(self.verdicts) == len(self._tests) or self._budget.spent)

    def run(self, program: Program) -> None:
        """Run what has not been run, and judge it.

        While a test runs, the files of the next are made and the one before is judged. Raises WorkerLost;
        what has been judged by then stays.
        """
        if not len(self._tests):
            self._status = "compile_error" if program.compile_error else "ok"
            return
        began = self._start(program, self._prepare(program, len(self.verdicts)))
        while began:
            place = len(self.verdicts)
            following = self._prepare(program, place + 1) if place + 1 < len(self._tests) else None
            try:
                facts = program.finish()
                _check_end(facts, began)
                if facts.compile_failed:
                    self._not_compiled(facts)
                    return
                self._status = "ok"
                self._budget.take(facts)
                began, waits = 0.0, self._rule.stop_on_first_failure
                try:
                    if following and not waits and not self._budget.spent:
                        began, following = self._start(program, following), None
                finally:
                    self.verdicts.append(self._judge(facts, place))
                if following and waits and not self._stop() and not self._budget.spent:
                    began, following = self._start(program, following), None
            finally:
                if following:
                    following.close()

    def result(self) -> ExecutionResult:
        missing = len(self._tests) - len(self.verdicts)
        if self._budget.cut or missing:
            text = f"TimeoutError: Tests timed out after {self._limits.suite_s:g} seconds."
            verdicts = self.verdicts + [Verdict("time_limit", text)] * missing
            return _over_time(_result(verdicts, self._status), text)
        return _result(self.verdicts, self._status)

    def _prepare(self, program: Program, place: int) -> RunFiles:
        value = self._tests.inputs[place]
        return program.prepare(encode(value if self._tests.fn_name is None else json.dumps(value)))

    def _start(self, program: Program, files: RunFiles) -> float:
        """Begin a test; returns when that was (`time.monotonic`)."""
        began = time.monotonic()
        program.start(
            files,
            cpu_s=min(self._limits.cpu_s, self._budget.cpu_s),
            wall_s=min(self._limits.wall_limit_s, self._budget.wall_s),
        )
        return began

    def _judge(self, facts: RunFacts, place: int) -> Verdict:
        test = _Test(self._tests.inputs[place], self._tests.outputs[place], self._tests.fn_name)
        status, text = _verdict(facts, test, self._limits, self.output_bytes, self._rule)
        returncode = None if facts.limit else facts.returncode
        return Verdict(status, text, facts.cpu_s, facts.wall_s, returncode, facts.peak_bytes)

    def _stop(self) -> bool:
        """Whether the last test failed: then the others are not run."""
        if self.verdicts[-1].status == "passed":
            return False
        self.verdicts += [_NOT_RUN] * (len(self._tests) - len(self.verdicts))
        return True

    def _not_compiled(self, facts: RunFacts) -> None:
        self._status = "compile_error"
        self.verdicts = [_not_compiled(facts, each, self._limits) for each in self._tests.inputs]


def _check_end(facts: RunFacts, began: float) -> None:
    """Raise WorkerLost if a run since `began` was killed and the host may have done it for want of memory.

    A program may kill itself. Where the kernel has counted no such kill, or a limit of ours struck, the end
    is the program's own; where it cannot be asked, no verdict is made of a kill that nobody can explain.
    """
    if facts.returncode != -signal.SIGKILL or facts.limit:
        return
    killed = _memory_kills.since(began)
    if killed is None:
        raise WorkerLost("a test was killed, and whether the host lacked memory cannot be read here")
    if killed:
        raise WorkerLost("a test was killed while the host ran out of memory")


def _verdict(facts: RunFacts, test: _Test, limits: Limits, output_bytes: int, rule: Rule) -> tuple[str, str]:
    value = test.value
    if max(facts.stdout_size, facts.stderr_size) >= output_bytes:
        text = f"Program wrote more than {output_bytes >> 20} MiB of output."
        return "output_limit", feedback.exception_feedback(value, text)
    if facts.limit in ("cpu", "wall"):
        seconds = limits.cpu_s if facts.limit == "cpu" else limits.wall_limit_s
        return "time_limit", feedback.timeout_feedback(value, seconds)
    stderr = decode(facts.stderr)
    stdout = Output(facts.stdout)
    if _out_of_memory(facts, stderr):
        if stderr.strip() and facts.limit != "memory":
            return "memory_limit", feedback.stderr_feedback(value, stdout.brief(), stderr)
        text = f"Program used more than {limits.memory_bytes >> 20} MiB of memory."
        return "memory_limit", feedback.exception_feedback(value, text)
    if facts.limit == "processes":
        text = f"Program started more than {limits.processes} processes."
        return "runtime_error", feedback.exception_feedback(value, text)
    if facts.returncode != 0:
        if stderr.strip():
            return "runtime_error", feedback.stderr_feedback(value, stdout.brief(), stderr)
        return "runtime_error", feedback.wrong_answer_feedback(value, stdout.brief(), test.expected)
    if test.fn_name is None:
        passed = rule.accepts(stdout, test.expected)
    else:
        passed = compare.value_equal(stdout, test.expected)
    text = feedback.wrong_answer_feedback(value, stdout.brief(), test.expected)
    return ("passed" if passed else "wrong_answer"), text


def _out_of_memory(facts: RunFacts, stderr: str) -> bool:
    if facts.limit == "memory":
        return True
    last = stderr.rstrip().rpartition("\n")[2]
    return facts.returncode != 0 and last.startswith("MemoryError")


def _not_compiled(facts: RunFacts, value: Any, limits: Limits) -> Verdict:
    if facts.limit in ("cpu", "wall"):
        text = feedback.timeout_feedback(value, limits.cpu_s)
        return Verdict("time_limit", text, facts.cpu_s, facts.wall_s)
    stderr = decode(facts.stderr)
    status = "memory_limit" if _out_of_memory(facts, stderr) else "runtime_error"
    text = feedback.stderr_feedback(value, "", stderr.strip() or "The compiler crashed.")
    return Verdict(status, text, facts.cpu_s, facts.wall_s, facts.returncode)


def _result(verdicts: list[Verdict], status: str) -> ExecutionResult:
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
        "suite_limit": False,
        "shared": False,
    }


def _over_time(result: ExecutionResult, text: str) -> ExecutionResult:
    """The result of a suite that ran out of its time: nothing passes; `per_test` stays as it is."""
    count = len(result["passing"])
    return {**result, "passing": [False] * count, "feedback": [text] * count, "suite_limit": True}
