"""A model as judge of turn errors: votes on each case, asked again where unreadable (arXiv 2602.03806).

In the place of a model may stand the rules of `syntactic`.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.cli import Parser, Progress, make_progress, parser, positive_int
from cobalt.engines import check, connect, engine_flags, engine_options, key_flags
from cobalt.engines.base import CONTEXT_OVERFLOW, ChatEngine, Sampling, derived_seed, identity
from cobalt.errors import InputError
from cobalt.evaluation.evaluate import summary_path
from cobalt.evaluation.syntactic import NAME, SyntacticJudge
from cobalt.evaluation.verdicts import (
    UNKNOWN,
    calibration,
    calibration_lines,
    canaries,
    classify,
    content_hash,
    majority,
    report_lines,
    summarize,
)
from cobalt.files import StrPath, atomic_write
from cobalt.manifest import check_resume
from cobalt.output import write_jsonl
from cobalt.pipeline import Summary, run_rows
from cobalt.prompts import DEFAULT, JUDGE_FIELDS, Prompts, load
from cobalt.rollouts.cli import closing_line, sampling_flags
from cobalt.rollouts.inputs import check_output
from cobalt.rows import INPUT_HELP, Row, Rows, open_rows, read_rows, require

STAGE = "judge"
KEY = "case_sha256"
MODEL = "gpt-4.1-2025-04-14"  # of the published script; its README names gpt-5-2025-08-07


@dataclass(frozen=True)
class JudgeSettings:
    """`votes` per case, `ask_again`: further tries for a vote that cannot be read. The defaults are those of
    the published script, which asks once.
    """

    votes: int = 1
    temperature: float = 1.0
    top_p: float = 1.0
    max_tokens: int = 32_000
    reasoning_effort: str | None = "low"
    ask_again: int = 0
    seed: int = 0
    prompts: Prompts = field(default=DEFAULT, repr=False)

    def __post_init__(self) -> None:
        if self.votes < 1:
            raise InputError(f"--num_completions must be at least 1, got {self.votes}")
        if self.ask_again < 0:
            raise InputError(f"--ask_again must be at least 0, got {self.ask_again}")
        try:
            self.sampling(0)
        except ValueError as error:
            raise InputError(str(error)) from None

    def sampling(self, seed: int) -> Sampling:
        return Sampling(
            self.temperature, self.top_p, self.max_tokens, 1, seed, reasoning_effort=self.reasoning_effort
        )

    def record(self) -> dict[str, Any]:
        """For the manifest: what a resumed run must have in common with the run before."""
        kept = {name: value for name, value in vars(self).items() if name != "prompts"}
        return kept | {"prompts_sha256": self.prompts.judge_sha256}


@dataclass
class Judge:
    """Asks `engine` about cases."""

    engine: ChatEngine
    settings: JudgeSettings = field(default_factory=JudgeSettings)

    async def __call__(self, case: Row) -> Row:
        """The case with `responses`, `usage`, `classification` [votes], `asked` [votes] (tries), `verdict`
        (majority) and `judge_model` added. A fault of the engine raises InfraError.
        """
        key = content_hash(case)
        votes = await asyncio.gather(*(self._vote(case, key, vote) for vote in range(self.settings.votes)))
        texts, usage, labels, tries = map(list, zip(*votes, strict=True))
        return case | {
            "responses": texts, "usage": usage, "classification": labels, "asked": tries,
            "verdict": majority(labels), "judge_model": self.engine.name,
        }  # fmt: skip

    async def _vote(self, case: Row, key: str, vote: int) -> tuple[str, dict[str, int], str, int]:
        """Text, tokens (of all tries), label and number of tries of one vote."""
        used = {"prompt_tokens": 0, "completion_tokens": 0}
        for attempt in range(self.settings.ask_again + 1):
            seed = derived_seed(self.settings.seed, key, vote, attempt)
            if isinstance(self.engine, SyntacticJudge):
                said = self.engine.of_case(case)
            else:
                asked = self.settings.prompts.judge_messages(case)
                (said,) = await self.engine.chat(asked, self.settings.sampling(seed))
            used["prompt_tokens"] += said.prompt_tokens
            used["completion_tokens"] += said.completion_tokens
            label = classify(said.text)
            if label != UNKNOWN or said.finish_reason == CONTEXT_OVERFLOW:
                break
        return said.text, used, label, attempt + 1


def judge_engine(name: str, model: str | None, base_url: str | None = None, **options: Any) -> ChatEngine:
    """What answers: an engine (`connect`), or the rules of `syntactic`, which need no model."""
    return SyntacticJudge() if name == NAME else connect(name, model, base_url, **options)


@dataclass
class Judged:
    """What a run of the judge did and found."""

    run: Summary
    summary: dict[str, Any]


def open_cases(given: Rows) -> list[Row]:
    """Rows of `extract_turn_level_errors.py` with `judge_seq_id` (place, as text) and KEY (hash of their
    content). Raises InputError, with file:line, for other rows.
    """
    rows: list[Row] = []
    for where, row in given:
        for name in JUDGE_FIELDS:
            require(row, name, str, where)
        rows.append(row | {"judge_seq_id": str(len(rows)), KEY: content_hash(row)})
    if not rows:
        raise InputError(f"{given.name}: there are no cases to judge")
    return rows


async def judge_file(
    cases: StrPath,
    output: StrPath,
    engine: ChatEngine,
    settings: JudgeSettings | None = None,
    *,
    concurrency: int = 4,
    progress: Progress | None = None,
) -> Judged:
    """Judge every case of a file; what was judged is known by its content, wherever it stands now.

    Writes the rows in the order of the input, with their present `judge_seq_id`, and counts with intervals to
    `<output>.summary.json`. Raises InputError for rows that are no cases, SettingsChanged for an output of
    another model, prompt or number of votes.
    """
    settings = settings or JudgeSettings()
    given, output = open_rows(cases), Path(output)
    rows = open_cases(given)
    check_output(given.paths, output)
    recorded = {"stage": STAGE, "model": identity(engine), **settings.record()}
    check_resume(output, recorded)
    judge, distinct = Judge(engine, settings), list({row[KEY]: row for row in rows}.values())
    run = await run_rows(
        distinct, judge, output=output, concurrency=concurrency, settings=recorded, label=STAGE, key=KEY,
        progress=progress, inputs={} if given.path is None else {"input_file": given.path},
    )  # fmt: skip
    return await asyncio.to_thread(_finish, run, rows, given.sha256, engine.name)


async def calibrate(
    engine: ChatEngine, settings: JudgeSettings, *, concurrency: int = 4, progress: Progress | None = None
) -> dict[str, Any]:
    """Ask the judge about the canaries: `verdicts.calibration` and `settings`."""
    known, gate, judge = canaries(), asyncio.Semaphore(concurrency), Judge(engine, settings)
    judged: list[Row] = []

    async def one(case: Row) -> None:
        async with gate:
            judged.append(await judge({name: case[name] for name in case if name != "truth"}) | case)
        if progress is not None:
            progress.advance("calibration", len(judged), len(known))

    await asyncio.gather(*map(one, known))
    judged.sort(key=lambda row: int(row["id"]))
    return calibration(judged) | {"settings": settings.record()}


def _finish(run: Summary, cases: list[Row], input_sha256: str, model: str) -> Judged:
    """A row for each case, in the order of the input; cases that are gone are left out. Then count."""
    rows = {row[KEY]: row for _, row in read_rows(run.output)}
    kept = [rows[case[KEY]] | case for case in cases if case[KEY] in rows]
    write_jsonl(run.output, kept)
    summary = summarize(kept) | {"judge_model": model, "input_sha256": input_sha256}
    summary |= {"gone": len(rows.keys() - {case[KEY] for case in cases}), "failed": run.failed}
    atomic_write(summary_path(run.output), json.dumps(summary, indent=1, allow_nan=False) + "\n")
    return Judged(run, summary)


def main(argv: list[str] | None = None) -> int:
    """The command line of `run_llm_judge.py`: judge cases, or with --calibrate the judge. The exit code."""
    args = _flags().parse_args(argv)
    settings = JudgeSettings(
        args.num_completions, args.temperature, args.top_p, args.max_tokens,
        None if args.reasoning_effort == "none" else args.reasoning_effort, args.ask_again, args.seed,
        load(args.prompts),
    )  # fmt: skip
    if not args.calibrate:
        if not args.input_file or not args.output_file:
            raise InputError("run_llm_judge.py needs --input_file and --output_file (or --calibrate)")
        open_cases(open_rows(args.input_file))  # before an engine is opened
    return asyncio.run(_main(args, settings))


def _flags() -> Parser:
    flags = parser("Let a model sort turn errors into kinds of hacking, with several votes if asked for.")
    flags.add_argument("-i", "--input_file", help=f"rows of extract_turn_level_errors.py: {INPUT_HELP}")
    flags.add_argument("-o", "--output_file", help="JSONL file to write, or to continue")
    flags.add_argument(
        "--calibrate",
        action="store_true",
        help="judge the project's clear cases instead and print the confusion matrix (-o: as JSON, too)",
    )
    engine_flags(flags, "litellm", MODEL, "the judge", NAME)
    flags.add_argument("-n", "--num_completions", type=positive_int, default=1, help="votes per case")
    sampling_flags(flags, 1.0, 1.0, 32_000, "low", concurrency=4)
    flags.add_argument(
        "--ask_again", type=int, default=0, help="tries after a vote that cannot be read; then it is Unknown"
    )
    key_flags(flags)
    return flags


async def _main(args: Any, settings: JudgeSettings) -> int:
    how = {"concurrency": args.concurrency}
    options = engine_options(args)
    engine = judge_engine(args.engine, args.model_name, args.base_url, **options)
    try:
        await check(engine)
        with make_progress() as progress:
            if not args.calibrate:
                done = await judge_file(
                    args.input_file, args.output_file, engine, settings, progress=progress, **how
                )
                said, code = [*report_lines(done.summary), closing_line(done.run)], done.run.exit_code
            else:
                found = await calibrate(engine, settings, progress=progress, **how)
                said, code = calibration_lines(found), 0
    finally:
        await engine.aclose()
    if args.calibrate and args.output_file:
        atomic_write(args.output_file, json.dumps(found, indent=1, allow_nan=False) + "\n")
    print("\n".join(said))
    return code
