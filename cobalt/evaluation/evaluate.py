"""Hidden tests for every program of every trajectory (arXiv 2602.03806, evaluation script)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.cli import Progress, make_progress, parser
from cobalt.errors import InfraError, InputError
from cobalt.evaluation.evaluated_rows import INFRA_ERROR, Outcomes
from cobalt.evaluation.programs import CODE_FROM, programs_of, with_tests
from cobalt.evaluation.samples import SampledTasks
from cobalt.evaluation.summary import report_lines, summarize
from cobalt.evaluator.checker import PUBLISHED, Rule
from cobalt.evaluator.client import environment_flag, evaluator_flags
from cobalt.evaluator.environment import judged_by, open_environment
from cobalt.files import atomic_write
from cobalt.kinds import kind_of
from cobalt.manifest import check_resume
from cobalt.output import write_jsonl
from cobalt.pipeline import Summary, run_rows
from cobalt.rollouts.cli import closing_line, file_flags
from cobalt.rollouts.inputs import Rows, Source, check_output, tests_of
from cobalt.rollouts.trajectory import pass_rate, verdict
from cobalt.rows import Row, as_rows, open_rows, read_rows
from cobalt.stats import SEED
from cobalt.tasks.sets import SET_HELP
from cobalt.testcases import TestCases

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator

STAGE = "hidden tests"
Judged = tuple[float | None, str, list[str] | None]
SUITES = {"hidden": "hidden_test_cases", "all": "test_cases"}
_CONCURRENCY = 16  # rows at once; each brings all programs of its samples and turns


@dataclass
class HiddenTests:
    """What an evaluation did (`run`), measured (`summary`, as written beside the output) and has to say
    (`notes`).
    """

    run: Summary
    summary: dict[str, Any]
    notes: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """1 if a row failed or a program has no verdict."""
        return 1 if self.run.failed or self.summary["infra_errors"] else 0


def summary_path(output: str | os.PathLike[str]) -> Path:
    """Where the statistics of a file of evaluated rows, turn errors or verdicts are."""
    return Path(f"{os.fspath(output)}.summary.json")


def open_source(rows: Rows, code_from: str = "message", suite: str = "hidden") -> Source:
    """The input of an evaluation, checked in full: `conversations` (or, of a single-turn run, `responses`)
    and `hidden_test_cases` as published, or of `suite` `all` the `test_cases`.
    """

    def check(row: Row, where: str) -> None:
        with_tests(programs_of(row, where, code_from)[0][0], row, where)
        tests_of(row, SUITES[suite], where)

    for where, row in islice(as_rows(rows, "the list of rows"), 1):
        if (kind := kind_of(row)) and "--tasks" in kind.read_by:
            raise InputError(f"{where}: these are {kind.name}; name the file of their tasks: --tasks FILE")
    return Source(rows, check)


async def hidden_tests(
    rows: Rows | Source,
    output: str | os.PathLike[str],
    evaluator: Evaluator,
    *,
    code_from: str = "message",
    per_test: bool = False,
    shared_verdicts: bool = True,
    suite: str = "hidden",
    rule: Rule | None = None,
    seed: int = SEED,
    progress: Progress | None = None,
) -> HiddenTests:
    """Run every program of `conversations` on `hidden_test_cases`, any number of samples (S) and turns (T);
    of a single-turn run its `responses`, T being 1.

    Writes each row with `all_pass_rates` [S][T] (share of hidden tests passed) and `exec_status` [S][T]
    (one of `cobalt.schema.SUITE_STATUSES`) added, with `per_test` also `hidden_test_status` [S][T] (one of
    TEST_STATUSES for each hidden test), and the statistics to `summary_path(output)` (see
    `cobalt.evaluation.summary.summarize`). Identical programs of a task are run once (`shared_verdicts`);
    `counts.distinct_programs` says how many there were. A program without a verdict after all retries has a
    null rate and status `infra_error`: it is masked in all statistics, counted, and tried again by the next
    run on the same output. `suite` `all` runs `test_cases`, the tests that were shown included; `rule` is
    how outputs are compared, in place of the evaluator's own. `seed` is that of the bootstrap. Raises
    InputError for rows or paths that cannot be used, SettingsChanged for an output of other settings.
    """
    if code_from not in CODE_FROM:
        raise InputError(f"--code_from must be one of {', '.join(CODE_FROM)}, got {code_from!r}")
    source = rows if isinstance(rows, Source) else open_source(rows, code_from, suite)
    check_output(source.paths, output)
    settings: dict[str, Any] = {"stage": STAGE, "input_sha256": source.sha256, "code_from": code_from,
                                **judged_by(evaluator)}  # fmt: skip
    if per_test:
        settings["per_test"] = True
    if suite != "hidden":
        settings["suite"] = suite
    if rule not in (None, PUBLISHED):
        settings["compare"] = rule.compare
    check_resume(output, settings)
    _drop_unfinished(Path(output))

    async def work(row: Row) -> Row:
        tests = tests_of(row, SUITES[suite], f"task {row['id']!r}")
        judge = partial(_judge, evaluator, tests=tests, rule=rule)
        return await _evaluated(row, judge, code_from, per_test, shared_verdicts)

    run = await run_rows(
        source, work, output=output, concurrency=_CONCURRENCY, settings=settings, label=STAGE,
        progress=progress, inputs=source.inputs(),
    )  # fmt: skip
    return await asyncio.to_thread(_finish, run, set(source.ids), code_from, seed)


async def _evaluated(
    row: Row, judge: Callable[[str | None], Awaitable[Judged]], code_from: str, per_test: bool, shared: bool
) -> Row:
    """The row with verdicts on its programs."""
    where = f"task {row['id']!r}"
    programs = programs_of(row, where, code_from)
    every = [code for sample in programs for code in sample]
    asked = list(dict.fromkeys(every)) if shared else every
    found = await asyncio.gather(*(judge(with_tests(code, row, where)) for code in asked))
    if shared:
        known = dict(zip(asked, found, strict=True))
        found = [known[code] for code in every]
    each = iter(found)
    judged = [[next(each) for _ in sample] for sample in programs]
    made = {
        name: [[verdict[place] for verdict in sample] for sample in judged]
        for place, name in enumerate(("all_pass_rates", "exec_status", "hidden_test_status"))
    }
    if not per_test:
        del made["hidden_test_status"]
    return row | made


async def _judge(evaluator: Evaluator, code: str | None, *, tests: TestCases, rule: Rule | None) -> Judged:
    """Share of tests passed, status of the suite, status of each test."""
    try:
        result = await verdict(evaluator, code, tests, rule)
    except InfraError:
        return None, INFRA_ERROR, None
    return pass_rate(result), result["status"], [each["status"] for each in result.get("per_test") or []]


def _drop_unfinished(output: Path) -> None:
    """Take rows with a missing verdict out of an output, so that they are done again."""

    def finished(row: Row) -> bool:
        return not any(INFRA_ERROR in sample for sample in row.get("exec_status", []))

    if output.exists() and not all(finished(row) for _, row in read_rows(output, repair=True)):
        write_jsonl(output, (row for _, row in read_rows(output, repair=True) if finished(row)))


def _finish(run: Summary, wanted: set[str | int], code_from: str, seed: int) -> HiddenTests:
    outcomes: list[Outcomes] = []
    differing = distinct = 0
    for where, row in read_rows(run.output):
        if row["id"] in wanted:
            outcomes.append(Outcomes.of(row, where))
            flags = [entry or [] for turn in row.get("turn_flags") or [] for entry in turn]
            differing += sum("code_differs" in entry for entry in flags)
            programs = programs_of(row, where, code_from)
            distinct += len({code for sample in programs for code in sample} - {None})
    summary: dict[str, Any] = {"schema": 1} | summarize(outcomes, seed=seed)
    summary["counts"] |= {
        "failed_rows": run.failed, "code_differs": differing, "distinct_programs": distinct,
    }  # fmt: skip
    atomic_write(summary_path(run.output), json.dumps(summary, indent=1, allow_nan=False) + "\n")
    return HiddenTests(run, summary, _notes(summary))


def _notes(summary: dict[str, Any]) -> list[str]:
    """What to know of the figures."""
    counts, notes = summary["counts"], []
    if counts["code_differs"]:
        notes.append(
            f"{counts['code_differs']} messages hold another program than the raw response whose public "
            "verdict was shown (--code_from raw evaluates the latter)"
        )
    if summary["infra_errors"]:
        notes.append(
            f"{summary['infra_errors']} programs have no verdict (masked); run again to try them again"
        )
    if counts["missing_programs"]:
        notes.append(f"ragged: {counts['missing_programs']} programs are missing and left out")
    if counts["missing_samples"]:
        notes.append(f"{counts['missing_samples']} samples are missing: Pass@k is left out where k is more")
    return notes


def main(argv: list[str] | None = None) -> int:
    """The command line of `eval_multi_turn.py`; returns the exit code."""
    flags = parser("Run every program of every turn on the hidden tests and summarise.")
    file_flags(flags)
    flags.add_argument(
        "--tasks", metavar="SET",
        help="where the input holds samples ({task_id, solution} of EvalPlus and BigCodeBench, {question_id, "
        f"code_list}} of LiveCodeBench): their tasks, HumanEval's too; {SET_HELP}",
    )  # fmt: skip
    evaluator_flags(flags)
    environment_flag(flags)
    flags.add_argument(
        "--suite", choices=SUITES, default="hidden",
        help="tests to run: the hidden ones, or all, as LiveCodeBench does",
    )  # fmt: skip
    flags.add_argument(
        "--compare", type=Rule, default="strip", metavar="RULE",
        help="how outputs are compared: strip (published), lines, tokens, float(REL, ABS), livecodebench; "
        "the latter with its limits, where programs run on this machine",
    )  # fmt: skip
    flags.add_argument(
        "--code_from",
        choices=CODE_FROM,
        default="message",
        help="evaluate the program of the message, or of the uncut response",
    )
    flags.add_argument(
        "--per_test", action="store_true", help="also keep the status of every hidden test of every program"
    )
    flags.add_argument(
        "--no_shared_verdicts", action="store_true", help="run identical programs of a task again and again"
    )
    flags.add_argument("--seed", type=int, default=SEED, help="of the bootstrap")
    args = flags.parse_args(argv)
    outcome = asyncio.run(_main(args))
    lines = [*report_lines(outcome.summary), *(f"note: {note}" for note in outcome.notes)]
    print("\n".join([*lines, closing_line(outcome.run)]))
    return outcome.exit_code


async def _main(args: Any) -> HiddenTests:
    from cobalt.evaluator import connect

    # Everything is checked before the evaluator, which may take a while to start.
    sampled = SampledTasks(open_rows(args.input_file), args.tasks) if args.tasks else None
    source = open_source(sampled or args.input_file, args.code_from, args.suite)
    check_output(source.paths, args.output_file)
    rule, environment = args.compare, open_environment(args.environment, "--environment")
    if environment is not None and rule != PUBLISHED:
        raise InputError("--compare: what is right is said by the --environment; leave one of them out")
    with (
        connect(args.evaluator, workers=args.workers, environment=environment, rule=rule) as evaluator,
        make_progress() as progress,
    ):
        evaluator.trial(next(iter(source)))
        outcome = await hidden_tests(
            source, args.output_file, evaluator, code_from=args.code_from, per_test=args.per_test,
            shared_verdicts=not args.no_shared_verdicts, suite=args.suite,
            rule=None if rule == PUBLISHED else rule, seed=args.seed, progress=progress,
        )  # fmt: skip
    if sampled and sampled.missing:
        outcome.notes.append(
            f"{sampled.missing} tasks of {args.tasks} have no samples: no figure counts them"
        )
    return outcome
