"""Tests that are not stdin and stdout: a class of the user's own says what is run and what is right.

It is trusted and runs in the process that asks for verdicts, its methods one at a time; the program runs in
the sandbox. Of its methods only `accepts` is needed. Each names in its signature what it wants:

    program(code, input, output) -> (source, stdin)    what is run; without it `code`, with `input` as stdin
    accepts(input, output, run, code) -> bool          whether that (`cobalt.evaluator.runs.Run`) passes
    feedback(input, output, run, code) -> str          what the model is told of a test that failed

With `tasks(split) -> rows` the class is a source of tasks, too (`cobalt.rows.open_rows`).
"""

import json
import os
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.evaluator import feedback
from cobalt.evaluator.base import Evaluator, infra_result
from cobalt.evaluator.checker import Rule
from cobalt.evaluator.runs import FINISHED, Run, RunRequest, text_of
from cobalt.evaluator.verdict_cache import VerdictCache
from cobalt.own import Own, absolute, bind, fault_in, find, place_of, sha256_of
from cobalt.sandbox.limits import Limits
from cobalt.schema import SKIPPED, ExecutionResult, TestResult
from cobalt.testcases import FIELDS, TestCases

_AFTER = ("input", "output", "run", "code")
_METHODS = {"program": ("code", "input", "output"), "accepts": _AFTER, "feedback": _AFTER}
_MOST_SAID = 10
_TRIED = 3


class NoVerdict(InfraError):
    """A fault of ours on one program: its result is `infra_error`."""


class ClassFault(NoVerdict):
    """A method of the user's class raised, or gave another type than it must."""


@dataclass(frozen=True)
class Environment:
    """The user's class, made: its ``methods`` by name, and where it is."""

    spec: str
    where: str
    sha256: str
    methods: Mapping[str, Own]

    @property
    def about(self) -> dict[str, str]:
        """For a manifest."""
        return {"spec": self.spec, "where": self.where, "sha256": self.sha256}

    @property
    def identity(self) -> dict[str, str]:
        """For settings that a continued run must share."""
        return {"environment": self.spec.rpartition(":")[2], "environment_sha256": self.sha256}

    def ask(self, method: str, **offered: Any) -> Any:
        """Call a method. Raises ClassFault, with ``file:line``, if it raises or gives another type."""
        own = self.methods[method]
        try:
            found = own(**offered)
            if method == "program":
                source, stdin = found
                found = text_of(source), text_of(stdin)
        except Exception as error:
            raise ClassFault(f"{fault_in(own, error)} (in {method})") from error
        wanted = {"accepts": (bool, "True or False"), "feedback": (str, "text")}.get(method)
        if wanted and not isinstance(found, wanted[0]):
            raise ClassFault(
                f"{own.where}: {own.setting}={own.spec}: {method} must return {wanted[1]}, got {found!r:.80}"
            )
        return found


def open_environment(spec: str | None, setting: str) -> Environment | None:
    """The environment that a ``setting`` names; None where ``spec`` is None.

    Raises InputError, with ``file:line``, if it cannot be found or made, or lacks `accepts`.
    """
    if spec is None:
        return None
    spec = absolute(spec, Path.cwd())
    found = find(spec, setting)
    where = place_of(found if isinstance(found, type) else type(found))
    try:
        made = found() if callable(found) else found
    except Exception as error:
        said = f"{setting}={spec}: {type(error).__name__}: {error}"
        raise InputError(f"{where}: {said} (it is made without arguments)") from error
    methods = {
        name: bind(getattr(made, name), spec, setting, offered)
        for name, offered in _METHODS.items()
        if hasattr(made, name)
    }
    if "accepts" not in methods:
        raise InputError(f"{where}: {setting}={spec}: lacks accepts(input, output, run) -> bool")
    return Environment(spec, where, sha256_of(type(made)), methods)


def judged_by(evaluator: Any) -> dict[str, str]:
    """What else decides an evaluator's verdicts, for settings that a continued run must share."""
    found: dict[str, str] = getattr(evaluator, "identity", {})
    return found


class EnvironmentEvaluator(Evaluator):
    """Judges by an environment, on raw runs of another evaluator, which is closed with this one.

    A fault of the class is the status `infra_error`: never a score. Tests of a program run one after another,
    for as long as a suite may take; a test whose run a limit ended fails unasked.
    """

    def __init__(self, inner: Evaluator, environment: Environment) -> None:
        self.name, self.isolation, self.environment = inner.name, inner.isolation, environment
        limits = getattr(inner, "limits", Limits())
        super().__init__(ahead=64, cache=VerdictCache(limits=limits))
        self._inner, self._limits = inner, limits
        self._asking, self._said = threading.Lock(), set[str]()
        threads = getattr(inner, "workers", None) or 4 * len(os.sched_getaffinity(0))
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix="environment")

    @property
    def plain(self) -> Evaluator:
        return self._inner.plain

    @property
    def identity(self) -> dict[str, str]:
        return self.environment.identity

    def close(self) -> None:
        self._closed.set()
        self._inner.close()
        self._threads.shutdown(wait=True, cancel_futures=True)

    def trial(self, row: Mapping[str, Any]) -> None:
        """Judge an empty program on a task's first tests. Raises InputError for a fault of the class; says if
        the program passes one.
        """
        given = next((row[name] for name in FIELDS if row.get(name)), None)
        tests = TestCases.parse(given or row["reward_model"]["ground_truth"])
        what, some = f"task {row.get('id', row.get('extra_info'))!r:.80}", slice(_TRIED)
        try:
            result = self._suite("", TestCases(tests.inputs[some], tests.outputs[some]), Rule())
        except ClassFault as error:
            raise InputError(f"{error}; tried with an empty program on {what}") from error
        if any(result["passing"]):
            print(f"warning: {self.environment.where}: an empty program passes {what}", file=sys.stderr)

    def _start(self, code: str, tests: TestCases, rule: Rule | None) -> Future[ExecutionResult]:
        return self._threads.submit(self._judge, code, tests, rule or Rule())

    def _start_run(self, request: RunRequest) -> Future[Run]:
        return self._inner._start_run(request)

    def _judge(self, code: str, tests: TestCases, rule: Rule) -> ExecutionResult:
        try:
            result = self._suite(code, tests, rule)
        except NoVerdict as error:
            said = str(error)
            if said not in self._said and len(self._said) < _MOST_SAID:
                self._said.add(said)
                print(f"environment: no verdict: {said}", file=sys.stderr, flush=True)
            result = infra_result(len(tests), said)
        self._count(result)
        return result

    def _suite(self, code: str, tests: TestCases, rule: Rule) -> ExecutionResult:
        cpu_s, wall_s = self._limits.suite_s, self._limits.suite_wall_s
        late = f"TimeoutError: Tests timed out after {cpu_s:g} seconds."
        cut, failed, compiled = False, False, not len(tests)
        told: list[str] = []
        per_test: list[TestResult] = []
        for value, expected in tests.pairs():
            cut = cpu_s <= 0 or wall_s <= 0
            if cut or (failed and rule.stop_on_first_failure):
                run = Run("time_limit" if cut else SKIPPED)
                status, text = run.status, late if cut else "Not run: an earlier test failed."
            else:
                run = self._run(code, value, expected)
                cpu_s, wall_s, compiled = cpu_s - run.cpu_s, wall_s - run.wall_s, compiled or run.compiled
                status, text = self._verdict(code, value, expected, run)
            failed |= status != "passed"
            told.append(text)
            per_test.append(
                {"status": status, "cpu_s": run.cpu_s, "wall_s": run.wall_s, "returncode": run.returncode,
                 "peak_bytes": run.peak_bytes}
            )  # fmt: skip
        return {
            "passing": [each["status"] == "passed" and not cut for each in per_test],
            "feedback": [late] * len(told) if cut else told,
            "status": "ok" if compiled else "compile_error",
            "per_test": per_test,
            "suite_limit": cut,
            "shared": False,
        }

    def _run(self, code: str, value: Any, expected: Any) -> Run:
        source, stdin = code, value if isinstance(value, str) else json.dumps(value)
        if "program" in self.environment.methods:
            with self._asking:
                source, stdin = self.environment.ask("program", code=code, input=value, output=expected)
        run = self._inner.run(source, stdin)
        if run.status == "infra_error":
            raise NoVerdict(run.stderr)
        return run

    def _verdict(self, code: str, value: Any, expected: Any, run: Run) -> tuple[str, str]:
        """Status of a test, and what the model is told of it."""
        offered = {"input": value, "output": expected, "run": run, "code": code}
        with self._asking:
            limited = run.status not in (FINISHED, "runtime_error")
            if not limited and self.environment.ask("accepts", **offered):
                return "passed", feedback.wrong_answer_feedback(value, run.stdout, expected)
            status = "wrong_answer" if run.status == FINISHED else run.status
            if "feedback" in self.environment.methods:
                return status, self.environment.ask("feedback", **offered)
        if run.status == "time_limit":
            return status, feedback.timeout_feedback(value, self._limits.cpu_s)
        if limited:
            return status, feedback.exception_feedback(
                value, f"Program went over its {run.status.partition('_')[0]} limit."
            )
        if run.status == FINISHED:
            return status, feedback.wrong_answer_feedback(value, run.stdout, expected)
        return status, feedback.stderr_feedback(value, run.stdout, run.stderr)
