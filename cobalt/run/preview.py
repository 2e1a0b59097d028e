"""What a run would do: `--dry_run`."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from cobalt.run.shared import Shared
from cobalt.run.stage import Records, Stage

if TYPE_CHECKING:
    from cobalt.run.config import Config
    from cobalt.run.job import Job


def stage_lines(
    stages: Sequence[Stage], records: Records, only: Collection[str] | None, shared: Shared
) -> list[str]:
    """A line for each stage: runs, is kept, is taken over or is not asked for, and why."""
    width = max(len(stage.name) for stage in stages)
    lines, to_run, taken = [], list[Stage](), list[Stage]()
    for stage in stages:
        again = next((other.name for other in to_run if stage.needs(other)), None)
        open_ = next((other.name for other in taken if stage.needs(other)), None)
        why = f"after {again}" if again else records.why(stage)
        if only is not None and stage.name not in only:
            said = "not asked for"
        elif why is None:
            said = "kept, nothing has changed"
        elif open_ and not again:
            said = f"runs or is taken over, as {open_}"
            taken.append(stage)
        elif not again and _is_shared(stage, records, shared):
            said = "taken over from another run"
            taken.append(stage)
        else:
            said = f"runs ({why})"
            to_run.append(stage)
        lines.append(f"  {stage.name:<{width}}  {said}")
    return lines


def skipped_lines(config: Config) -> list[str]:
    """A line for each part of the work that given data make superfluous."""
    from cobalt.planning.from_config import skipped

    return [f"  {name}  skipped: {why}" for name, why in skipped(config)]


def _is_shared(stage: Stage, records: Records, shared: Shared) -> bool:
    ready = stage.common and all(path.exists() for path in stage.inputs)
    return ready and shared.has(stage.name, records.basis(stage)["hash"])


def plan_lines(job: Job) -> list[str]:
    """The cost plan of the configuration; `cobalt plan` shows the arithmetic."""
    from cobalt.planning.estimate import estimate
    from cobalt.planning.from_config import workload

    return estimate(workload(job.config, job.file)).summary()
