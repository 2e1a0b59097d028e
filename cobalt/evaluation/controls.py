"""Control experiments: is it the feedback that helps, and does it beat drawing more samples?

Each runs on the same tasks, with the same runner and the same hidden tests as the evaluation it is compared
with.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cobalt.cli import Progress
from cobalt.engines.base import ChatEngine
from cobalt.errors import InfraError, InputError
from cobalt.evaluation.evaluate import HiddenTests, hidden_tests
from cobalt.manifest import manifest_path
from cobalt.output import failures_path, row_ids
from cobalt.pipeline import Summary
from cobalt.rollouts.inputs import Rows
from cobalt.rollouts.multi_turn import multi_turn, open_source
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rollouts.trajectory import BlankFeedback, FeedbackPolicy, OtherTaskFeedback
from cobalt.rows import Row, read_rows

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator


async def feedback_control(
    kind: str,
    rows: Rows,
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
    source = open_source(rows, settings)
    if kind not in ("blank", "other"):
        raise InputError(f"unknown feedback control '{kind}': choose one of blank, other")
    policy: FeedbackPolicy = (
        BlankFeedback(settings.prompts) if kind == "blank" else OtherTaskFeedback(len(source))
    )
    output = folder / f"control_{kind}.jsonl"
    if policy.whole_batch and output.exists() and len(row_ids(output, "id")) < len(source):
        for path in (output, manifest_path(output), failures_path(output)):
            path.unlink(missing_ok=True)
    run = await multi_turn(
        source, output, engine, evaluator, settings, policy=policy, concurrency=concurrency, progress=progress
    )
    return await _evaluated(run, evaluator, progress)


async def best_of_n(
    n: int,
    rows: Rows,
    folder: Path,
    engine: ChatEngine,
    evaluator: Evaluator,
    settings: MultiTurnSettings,
    *,
    concurrency: int = 256,
    progress: Progress | None = None,
) -> dict[str | int, float]:
    """Hidden Pass@1 of each task by the best of `n` first programs: `settings.samples` times n independent
    ones are drawn, the one that passes most public tests (the first on ties) is kept, and its hidden tests
    decide.

    Writes `best_of_N.jsonl` and `best_of_N_eval.jsonl` into `folder`. Raises InfraError if a task fails.
    """
    if n < 1:
        raise InputError(f"best of n needs n of at least 1, got {n}")
    single = replace(settings, turns=1, first_turn=True, n=n * settings.samples)
    output = folder / f"best_of_{n}.jsonl"
    run = await multi_turn(
        rows, output, engine, evaluator, single, concurrency=concurrency, progress=progress
    )
    done = await _evaluated(run, evaluator, progress)
    rights = {row["id"]: choices(row, n) for _, row in read_rows(done.run.output)}
    return {key: sum(right) / len(right) for key, right in rights.items()}


def choices(row: Row, n: int) -> list[float]:
    """For each run of n samples: 1.0 if the one of highest public pass rate (first on ties) is right."""
    public = row["public_pass_rates"][0]
    hidden = [sample[0] for sample in row["all_pass_rates"]]
    chosen = [max(range(start, start + n), key=public.__getitem__) for start in range(0, len(public), n)]
    return [float(hidden[i] == 1) for i in chosen]


async def _evaluated(run: Summary, evaluator: Evaluator, progress: Progress | None) -> HiddenTests:
    if run.failed:
        raise InfraError(
            f"{run.failed} tasks of {run.output} failed, see {failures_path(run.output)}; "
            "run again to try them again"
        )
    target = run.output.with_name(f"{run.output.stem}_eval.jsonl")
    done = await hidden_tests(run.output, target, evaluator, progress=progress)
    if done.exit_code:
        raise InfraError(
            f"{target}: {done.summary['infra_errors']} programs have no verdict; run again to try them again"
        )
    return done
