"""Hidden tests for every program of every trajectory (arXiv 2602.03806, evaluation script)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.analysis.outcomes import INFRA_ERROR, Outcomes
from cobalt.analysis.summary import report_lines, summarize
from cobalt.cli import Progress, make_progress, parser
from cobalt.errors import InfraError, InputError
from cobalt.evaluator.door import evaluator_flags
from cobalt.files import atomic_write
from cobalt.manifest import check_resume
from cobalt.output import write_jsonl
from cobalt.pipeline import Summary, run_rows
from cobalt.rollouts.cli import closing_line, file_flags
from cobalt.rollouts.source import Rows, Source, refuse_overwriting
from cobalt.rollouts.verdicts import pass_rate, tests_of, verdict
from cobalt.rows import Row, read_rows, require
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
    """Where the statistics of an evaluated file are: `<output>.summary.json`."""
    return Path(os.fspath(output) + ".summary.json")


def programs_of(row: Row, where: str, code_from: str = "message") -> list[list[str | None]]:
    """The code of every program, [samples][turns]; None where there is no code block.

    `code_from`: `message` reads the dialogue as the model saw it, `raw` the uncut `raw_responses`. Raises
    InputError, naming sample and message, where `conversations` is not system, user, assistant, user, ...
    """
    conversations = require(row, "conversations", list, where)
    if not conversations:
        raise InputError(f"{where}: field 'conversations' holds no samples")
    samples: list[list[str | None]] = []
    for s, messages in enumerate(conversations):
        place = f"{where}: conversations[{s}]"
        if not isinstance(messages, list) or len(messages) < 3:
            raise InputError(f"{place} must be a list of at least three messages")
        for m, message in enumerate(messages):
            role = ("system" if m == 0 else "user") if m < 2 or m % 2 else "assistant"
            if not isinstance(message, Mapping) or message.get("role") != role:
                raise InputError(f"{place}[{m}] must be a message of role '{role}'")
            if not isinstance(message.get("content"), str | None):
                raise InputError(f"{place}[{m}]: 'content' must be a text")
        samples.append([extract_code(message["content"]) for message in messages[2::2]])
    if code_from == "raw":
        raw = require(row, "raw_responses", list, where)
        for s, programs in enumerate(samples):
            for t in range(len(programs)):
                try:
                    programs[t] = extract_code(raw[t][s])
                except (IndexError, TypeError):
                    raise InputError(f"{where}: raw_responses[{t}][{s}] is missing") from None
    return samples


def open_source(rows: Rows, code_from: str = "message", limit: int | None = None) -> Source:
    """The input of an evaluation, checked in full: `conversations` and `hidden_test_cases` as published."""

    def check(row: Row, where: str) -> None:
        tests_of(row, "hidden_test_cases", where)
        programs_of(row, where, code_from)

    return Source(rows, check, limit)


async def hidden_tests(
    rows: Rows | Source,
    output: str | os.PathLike[str],
    evaluator: Evaluator,
    *,
    code_from: str = "message",
    per_test: bool = False,
    shared_verdicts: bool = True,
    seed: int = 0,
    limit: int | None = None,
    concurrency: int = _CONCURRENCY,
    progress: Progress | None = None,
) -> HiddenTests:
    """Run every program of `conversations` on `hidden_test_cases`, any number of samples (S) and turns (T).

    Writes each row with `all_pass_rates` [S][T] (share of hidden tests passed) and `exec_status` [S][T]
    (one of `cobalt.schema.SUITE_STATUSES`) added, with `per_test` also `hidden_test_status` [S][T] (one of
    TEST_STATUSES for each hidden test), and the statistics to `summary_path(output)` (see
    `cobalt.analysis.summary.summarize`). Identical programs of a task are run once (`shared_verdicts`);
    `counts.distinct_programs` says how many there were. A program without a verdict after all retries has a
    null rate and status `infra_error`: it is masked in all statistics, counted, and tried again by the next
    run on the same output. `seed` is that of the bootstrap. Raises InputError for rows or paths that cannot
    be used, SettingsChanged for an output of other settings.
    """
    if code_from not in CODE_FROM:
        raise InputError(f"--code_from must be one of {', '.join(CODE_FROM)}, got {code_from!r}")
    source = rows if isinstance(rows, Source) else open_source(rows, code_from, limit)
    refuse_overwriting(source, output)
    settings: dict[str, Any] = {"stage": STAGE, "input_sha256": source.sha256, "code_from": code_from}
    if per_test:
        settings["per_test"] = True
    check_resume(output, settings)
    _drop_unfinished(Path(output))
    work = _Work(evaluator, code_from, per_test, shared_verdicts)
    run = await run_rows(
        source, work, output=output, concurrency=concurrency, settings=settings, label=STAGE,
        progress=progress, inputs=source.inputs(),
    )  # fmt: skip
    return await asyncio.to_thread(_finish, run, set(source.ids), code_from, seed)


def _finish(run: Summary, wanted: set[str | int], code_from: str, seed: int) -> HiddenTests:
    outcomes: list[Outcomes] = []
    differing = distinct = 0
    for where, row in read_rows(run.output):
        if row["id"] in wanted:
            outcomes.append(Outcomes.of(row, where))
            differing += _differing(row)
            programs = programs_of(row, where, code_from)
            distinct += len({code for sample in programs for code in sample} - {None})
    summary: dict[str, Any] = {"schema": 1} | summarize(outcomes, seed=seed)
    summary["counts"] |= {
        "failed_rows": run.failed, "code_differs": differing, "distinct_programs": distinct,
    }  # fmt: skip
    atomic_write(summary_path(run.output), _json(summary))
    notes = []
    if differing:
        notes.append(
            f"{differing} messages hold another program than the raw response whose public verdict was shown "
            "(--code_from raw evaluates the latter)"
        )
    if summary["infra_errors"]:
        notes.append(
            f"{summary['infra_errors']} programs have no verdict (masked); run again to try them again"
        )
    if summary["counts"]["missing_programs"]:
        notes.append(
            f"ragged: {summary['counts']['missing_programs']} programs are missing and left out; programs by "
            "turn: " + " ".join(str(turn["programs"]) for turn in summary["by_turn"])
        )
    if summary["counts"]["missing_samples"]:
        notes.append(
            f"{summary['counts']['missing_samples']} samples are missing: some tasks have fewer than others; "
            "Pass@k is left out where a task has fewer than k"
        )
    return HiddenTests(run, summary, notes)


@dataclass
class _Work:
    evaluator: Evaluator
    code_from: str
    per_test: bool
    shared_verdicts: bool

    async def __call__(self, row: Row) -> Row:
        where = f"task {row['id']!r}"
        tests = tests_of(row, "hidden_test_cases", where)
        programs = programs_of(row, where, self.code_from)
        every = [code for sample in programs for code in sample]
        if self.shared_verdicts:
            distinct = list(dict.fromkeys(every))
            known = await asyncio.gather(*(self._judge(code, tests) for code in distinct))
            verdicts = dict(zip(distinct, known, strict=True))
            judged = [[verdicts[code] for code in sample] for sample in programs]
        else:
            each = iter(await asyncio.gather(*(self._judge(code, tests) for code in every)))
            judged = [[next(each) for _ in sample] for sample in programs]
        made = row | {
            "all_pass_rates": [[rate for rate, _, _ in sample] for sample in judged],
            "exec_status": [[status for _, status, _ in sample] for sample in judged],
        }
        if self.per_test:
            made["hidden_test_status"] = [[tested for _, _, tested in sample] for sample in judged]
        return made

    async def _judge(self, code: str | None, tests: TestCases) -> tuple[float | None, str, list[str] | None]:
        try:
            result = await verdict(self.evaluator, code, tests)
        except InfraError:
            return None, INFRA_ERROR, None
        return pass_rate(result), result["status"], [each["status"] for each in result.get("per_test") or []]


def _drop_unfinished(output: Path) -> None:
    """Take rows with a missing verdict out of an output, so that they are done again."""
    if not output.exists():
        return
    if any(_unfinished(row) for _, row in read_rows(output, repair=True)):
        kept = (row for _, row in read_rows(output, repair=True) if not _unfinished(row))
        write_jsonl(output, kept)


def _unfinished(row: Row) -> bool:
    return any("infra_error" in sample for sample in row.get("exec_status", []))


def _differing(row: Row) -> int:
    """Programs whose public verdict was on other code than their message holds."""
    flags = row.get("turn_flags") or []
    return sum("code_differs" in (entry or []) for turn in flags for entry in turn)


def _json(summary: dict[str, Any]) -> str:
    import json

    return json.dumps(summary, indent=1, allow_nan=False) + "\n"


def main(argv: list[str] | None = None) -> int:
    """The command line of `eval_multi_turn.py`; returns the exit code."""
    flags = parser("Run every program of every turn on the hidden tests and summarise.")
    file_flags(flags)
    evaluator_flags(flags)
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
    flags.add_argument("--seed", type=int, default=0, help="of the bootstrap")
    args = flags.parse_args(argv)
    outcome = asyncio.run(_main(args))
    for line in report_lines(outcome.summary):
        print(line)
    for note in outcome.notes:
        print("note: " + note)
    print(closing_line(outcome.run))
    return outcome.exit_code


async def _main(args: Any) -> HiddenTests:
    from cobalt.evaluator import connect

    # Everything is checked before the evaluator, which may take a while to start.
    source = open_source(args.input_file, args.code_from)
    refuse_overwriting(source, args.output_file)
    with connect(args.evaluator, workers=args.workers) as evaluator, make_progress() as progress:
        return await hidden_tests(
            source,
            args.output_file,
            evaluator,
            code_from=args.code_from,
            per_test=args.per_test,
            shared_verdicts=not args.no_shared_verdicts,
            seed=args.seed,
            progress=progress,
        )
