"""Hidden tests for every program of every trajectory (arXiv 2602.03806, evaluation script)."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.cli import Progress, make_progress, parser
from cobalt.errors import InfraError, InputError
from cobalt.evaluation.evaluated_rows import INFRA_ERROR, Outcomes
from cobalt.evaluation.summary import report_lines, summarize
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
from cobalt.rows import Row, read_rows, require
from cobalt.stats import SEED
from cobalt.testcases import TestCases
from cobalt.text import extract_code

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator

STAGE = "hidden tests"
CODE_FROM = ("message", "raw")
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


def programs_of(row: Row, where: str, code_from: str = "message") -> list[list[str | None]]:
    """The code of every program, [samples][turns]; None where there is no code block.

    `code_from`: `message` reads the dialogue as the model saw it, `raw` the uncut `raw_responses`. Rows of a
    single-turn run have one turn, their `responses`. Raises InputError, naming sample and message, where
    `conversations` is not system, user, assistant, user, ..., or saying what comes first where there is none.
    """
    if "conversations" not in row:
        return [[extract_code(text)] for text in _responses(row, where)]
    conversations = require(row, "conversations", list, where)
    if not conversations:
        raise InputError(f"{where}: field 'conversations' holds no samples")
    samples = []
    for s, messages in enumerate(conversations):
        _check_dialogue(messages, f"{where}: conversations[{s}]")
        texts = [message["content"] for message in messages[2::2]]
        if code_from == "raw":
            raw = require(row, "raw_responses", list, where)
            for t in range(len(texts)):
                try:
                    texts[t] = raw[t][s]
                except (IndexError, TypeError):
                    raise InputError(f"{where}: raw_responses[{t}][{s}] is missing") from None
        samples.append([extract_code(text) for text in texts])
    return samples


def _responses(row: Row, where: str) -> list[str | None]:
    """The completions of a single-turn row."""
    if "responses" not in row:
        kind = kind_of(row)
        raise InputError(
            f"{where}: field 'conversations' is missing: "
            + (f"these are {kind.name}" if kind else "these rows are of no known kind")
            + ", not programs; run_single_turn_vllm.py, or run_multi_turn_vllm.py --first_turn, comes first"
        )
    responses = require(row, "responses", list, where)
    if not responses or not all(isinstance(text, str | None) for text in responses):
        raise InputError(f"{where}: field 'responses' must be a list of at least one text")
    return responses


def _check_dialogue(messages: Any, place: str) -> None:
    if not isinstance(messages, list) or len(messages) < 3:
        raise InputError(f"{place} must be a list of at least three messages")
    for m, message in enumerate(messages):
        role = ("system" if m == 0 else "user") if m < 2 or m % 2 else "assistant"
        if not isinstance(message, Mapping) or message.get("role") != role:
            raise InputError(f"{place}[{m}] must be a message of role '{role}'")
        if not isinstance(message.get("content"), str | None):
            raise InputError(f"{place}[{m}]: 'content' must be a text")


def open_source(rows: Rows, code_from: str = "message") -> Source:
    """The input of an evaluation, checked in full: `conversations` (or, of a single-turn run, `responses`)
    and `hidden_test_cases` as published.
    """

    def check(row: Row, where: str) -> None:
        programs_of(row, where, code_from)
        tests_of(row, "hidden_test_cases", where)

    return Source(rows, check)


async def hidden_tests(
    rows: Rows | Source,
    output: str | os.PathLike[str],
    evaluator: Evaluator,
    *,
    code_from: str = "message",
    per_test: bool = False,
    shared_verdicts: bool = True,
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
    run on the same output. `seed` is that of the bootstrap. Raises InputError for rows or paths that cannot
    be used, SettingsChanged for an output of other settings.
    """
    if code_from not in CODE_FROM:
        raise InputError(f"--code_from must be one of {', '.join(CODE_FROM)}, got {code_from!r}")
    source = rows if isinstance(rows, Source) else open_source(rows, code_from)
    check_output(source.paths, output)
    settings: dict[str, Any] = {"stage": STAGE, "input_sha256": source.sha256, "code_from": code_from,
                                **judged_by(evaluator)}  # fmt: skip
    if per_test:
        settings["per_test"] = True
    check_resume(output, settings)
    _drop_unfinished(Path(output))

    async def work(row: Row) -> Row:
        return await _evaluated(row, evaluator, code_from, per_test, shared_verdicts)

    run = await run_rows(
        source, work, output=output, concurrency=_CONCURRENCY, settings=settings, label=STAGE,
        progress=progress, inputs=source.inputs(),
    )  # fmt: skip
    return await asyncio.to_thread(_finish, run, set(source.ids), code_from, seed)


async def _evaluated(row: Row, evaluator: Evaluator, code_from: str, per_test: bool, shared: bool) -> Row:
    """The row with verdicts on its programs."""
    where = f"task {row['id']!r}"
    tests = tests_of(row, "hidden_test_cases", where)
    programs = programs_of(row, where, code_from)
    every = [code for sample in programs for code in sample]
    asked = list(dict.fromkeys(every)) if shared else every
    found = await asyncio.gather(*(_judge(evaluator, code, tests) for code in asked))
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


async def _judge(
    evaluator: Evaluator, code: str | None, tests: TestCases
) -> tuple[float | None, str, list[str] | None]:
    """Share of tests passed, status of the suite, status of each test."""
    try:
        result = await verdict(evaluator, code, tests)
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
    evaluator_flags(flags)
    environment_flag(flags)
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
    source = open_source(args.input_file, args.code_from)
    check_output(source.paths, args.output_file)
    environment = open_environment(args.environment, "--environment")
    with (
        connect(args.evaluator, workers=args.workers, environment=environment) as evaluator,
        make_progress() as progress,
    ):
        evaluator.trial(next(iter(source)))
        return await hidden_tests(
            source, args.output_file, evaluator, code_from=args.code_from, per_test=args.per_test,
            shared_verdicts=not args.no_shared_verdicts, seed=args.seed, progress=progress,
        )  # fmt: skip
