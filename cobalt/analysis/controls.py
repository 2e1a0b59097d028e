"""Control experiments: is it the feedback that helps, and does it beat drawing more samples?

Each runs on the same tasks, with the same runner and the same hidden tests as the evaluation it is compared
with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cobalt.analysis.hidden_tests import HiddenTests, hidden_tests
from cobalt.cli import Progress
from cobalt.engines.base import ChatEngine
from cobalt.errors import InfraError, InputError
from cobalt.manifest import manifest_path
from cobalt.output import row_ids
from cobalt.rejects import failures_path
from cobalt.rollouts.feedback import BlankFeedback, FeedbackPolicy, OtherTaskFeedback
from cobalt.rollouts.multi_turn import multi_turn, open_source
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rollouts.source import Rows, Source
from cobalt.rows import Row, read_rows
from cobalt.stats import Interval, clustered_mean

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator

FEEDBACK_CONTROLS = ("blank", "other")


def feedback_policy(kind: str, source: Source, settings: MultiTurnSettings) -> FeedbackPolicy:
    """The policy of a feedback control: `blank` or `other` (see `cobalt.rollouts.feedback`)."""
    if kind == "blank":
        return BlankFeedback(settings.prompts)
    if kind == "other":
        return OtherTaskFeedback(len(source))
    raise InputError(f"unknown feedback control '{kind}': choose one of {', '.join(FEEDBACK_CONTROLS)}")


async def feedback_control(
    kind: str,
    rows: Rows | Source,
    folder: Path,
    engine: ChatEngine,
    evaluator: Evaluator,
    settings: MultiTurnSettings,
    *,
    concurrency: int = 256,
    progress: Progress | None = None,
) -> HiddenTests:
    """The same model on the same tasks, shown `blank` feedback or that of an`other` task.

    Writes `control_KIND.jsonl` and `control_KIND_eval.jsonl` into `folder`, and continues them if they are
    there (`other`, whose tasks need each other, only when complete). Raises InfraError if a task fails: a
    control over fewer tasks could not be compared.
    """
    source = rows if isinstance(rows, Source) else open_source(rows, settings)
    policy = feedback_policy(kind, source, settings)
    output = folder / f"control_{kind}.jsonl"
    if policy.whole_batch and output.exists() and len(row_ids(output, "id")) < len(source):
        for path in (output, manifest_path(output), failures_path(output)):
            path.unlink(missing_ok=True)
    run = await multi_turn(
        source, output, engine, evaluator, settings, policy=policy, concurrency=concurrency, progress=progress
    )
    return await _evaluated(run.output, run.failed, evaluator, settings.seed, progress)


@dataclass(frozen=True)
class BestOf:
    """Hidden Pass@1 of the best of `n` first programs.

    `rates`: per task, the share of right choices. `interval` is clustered by task, `interval_group` by the
    rows' `group` (None where some row has none).
    """

    n: int
    rates: dict[str | int, float]
    interval: Interval
    interval_group: Interval | None


async def best_of_n(
    n: int,
    rows: Rows | Source,
    folder: Path,
    engine: ChatEngine,
    evaluator: Evaluator,
    settings: MultiTurnSettings,
    *,
    concurrency: int = 256,
    progress: Progress | None = None,
) -> BestOf:
    """`settings.samples` times per task: n independent first programs, the one that passes most public
    tests (the first on ties) is kept, and its hidden tests decide.

    Writes `best_of_N.jsonl` and `best_of_N_eval.jsonl` into `folder`. Raises InfraError if a task fails.
    """
    if n < 1:
        raise InputError(f"best of n needs n of at least 1, got {n}")
    single = replace(settings, turns=1, first_turn=True, n=n * settings.samples)
    run = await multi_turn(
        rows,
        folder / f"best_of_{n}.jsonl",
        engine,
        evaluator,
        single,
        concurrency=concurrency,
        progress=progress,
    )
    done = await _evaluated(run.output, run.failed, evaluator, settings.seed, progress)
    found = [row for _, row in read_rows(done.run.output)]
    rights = [choices(row, n) for row in found]
    groups = [row.get("group") for row in found]
    return BestOf(
        n,
        {row["id"]: sum(right) / len(right) for row, right in zip(found, rights, strict=True)},
        clustered_mean(rights),
        None if None in groups else clustered_mean(rights, groups),
    )


def choices(row: Row, n: int) -> list[float]:
    """For each run of n samples: 1.0 if the one of highest public pass rate (first on ties) is right."""
    public: Sequence[float] = row["public_pass_rates"][0]
    hidden = [sample[0] for sample in row["all_pass_rates"]]
    starts = range(0, len(public), n)
    chosen = [max(range(start, start + n), key=lambda i: (public[i], -i)) for start in starts]
    return [float(hidden[i] == 1) for i in chosen]


async def _evaluated(
    output: Path, failed: int, evaluator: Evaluator, seed: int, progress: Progress | None
) -> HiddenTests:
    if failed:
        raise InfraError(
            f"{failed} tasks of {output} failed, see {failures_path(output)}; run again to try them again"
        )
    target = output.with_name(f"{output.stem}_eval.jsonl")
    done = await hidden_tests(output, target, evaluator, seed=seed, progress=progress)
    if done.exit_code:
        raise InfraError(
            f"{target}: {done.summary['infra_errors']} programs have no verdict; run again to try them again"
        )
    return done
