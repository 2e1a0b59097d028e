"""What the launcher sees of a training while it runs: the plan, every step, the best model, collapse."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cobalt.cli import Progress
from cobalt.errors import InfraError
from cobalt.files import atomic_write
from cobalt.training import checkpoint

BEST = "best"  # in the output folder: the model of the best validated checkpoint
_DIFF, _NORM, _LENGTH = "training/rollout_probs_diff_mean", "actor/grad_norm", "response_length/mean"
# What must be a number at every step that has it. Others may be null for a reason (a correlation of equal
# values, the deviation of a single one).
_NUMBERS = (
    *(_DIFF, "training/rollout_probs_diff_max", "reward/", "offline/", "val-core/"),
    *(f"actor/{name}" for name in ("pg_loss", "loss", "kl_loss", "ppo_kl", "entropy")),
    *(f"critic/{name}/" for name in ("score", "rewards", "advantages", "returns")),
)
_BOUNDS = (  # of the section cobalt.abort: setting, metric, whether it bounds from above
    ("max_no_code", "reward/no_code", True),
    ("max_format_broken", "reward/format_broken", True),
    ("min_entropy", "actor/entropy", False),
    ("max_length_share", _LENGTH, True),
    ("max_rollout_probs_diff", _DIFF, True),
)


def check_numbers(step: int, data: Mapping[str, Any]) -> None:
    """Raises InfraError if rollout, reward, loss or validation of a step gave NaN or infinity.

    verl's file logger writes those as null, which is not the same as a metric that the step does not have.
    """
    compared = data.get("training/rollout_probs_diff_valid") != 0  # else there was no token to compare
    for name, value in data.items():
        if name.startswith(_NUMBERS) and not is_number(value) and (compared or "_probs_diff_" not in name):
            raise InfraError(
                f"{name} is not a number at step {step}: rollout, reward or loss gave NaN or infinity. "
                "Checkpoints before it are kept, and the same command goes on from the last one"
            )


def is_number(value: Any) -> bool:
    """Whether a metric is finite; verl's file logger writes NaN and infinity as null."""
    return value is not None and math.isfinite(value)


@dataclass
class Collapse:
    """The bounds of the section ``cobalt.abort``; null switches one off. ``limit``: tokens of a response."""

    bounds: Mapping[str, Any]
    limit: int
    _crossed: dict[str, int] = field(default_factory=dict)

    def __call__(self, step: int, data: Mapping[str, float]) -> None:
        """Look at the metrics of a step. A metric that a step does not have neither counts nor clears.

        Raises InfraError once a bound was crossed in ``patience`` steps one after another that had it, and at
        once for what must be a number and is none. A gradient that is not finite counts like a bound: verl
        skips the update.
        """
        check_numbers(step, data)
        patience = int(self.bounds.get("patience") or 1)
        if _NORM in data and self._count(_NORM, not is_number(data[_NORM])) >= patience:
            raise InfraError(
                f"the gradient was not finite in {self._crossed[_NORM]} step(s) up to step {step}, which "
                "taught nothing; checkpoints before them are kept"
            )
        for name, metric, above in _BOUNDS:
            bound, value = self.bounds.get(name), data.get(metric)
            if bound is None or value is None:
                continue
            if metric == _LENGTH:
                value /= self.limit
            crossed = self._count(name, value > bound if above else value < bound)
            # a rollout that disagrees with its trainer is a fault at once, not a trend
            if crossed >= (1 if metric == _DIFF else patience):
                what = f"{metric} (of the limit)" if metric == _LENGTH else metric
                raise InfraError(
                    f"the training collapsed: {what} is {value:.4g} at step {step}, "
                    f"{'above' if above else 'below'} cobalt.abort.{name}={bound} for {crossed} step(s); "
                    "checkpoints before it are kept"
                )

    def _count(self, name: str, bad: bool) -> int:
        self._crossed[name] = self._crossed.get(name, 0) + 1 if bad else 0
        return self._crossed[name]


def validation_score(data: Mapping[str, float]) -> float | None:
    """Validation Pass@1 of a step, the mean over data sources; None where it was not validated, or a source's
    is not a number.
    """
    values = [value for name, value in data.items() if name.startswith("val-core/") and "/acc/mean@" in name]
    return sum(values) / len(values) if values and all(map(is_number, values)) else None


@dataclass
class Monitor:
    """Reads what the training process writes: first its plan, then every step.

    Called five times a second. Raises InfraError on collapse. ``first_step_s``: seconds to the first step.
    """

    metrics: Path
    plan_file: Path
    output: Path
    config: Any
    progress: Progress | None
    label: str
    say: Callable[[str], None]
    plan: dict[str, Any] | None = None
    first_step_s: float | None = None
    seen: int = 0
    started: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self.collapse = Collapse(self.config.cobalt.abort, int(self.config.data.max_response_length))

    def __call__(self) -> None:
        if self.plan is None and self.plan_file.exists():
            self.plan = json.loads(self.plan_file.read_text())
            for line in (*self.plan["lines"], *self.plan["notes"]):
                self.say(f"  {line}")
        if self.plan is None or not self.metrics.exists():
            return
        lines = self.metrics.read_bytes().split(b"\n")[:-1]
        fresh, self.seen = lines[self.seen :], len(lines)
        validated = []
        for line in fresh:
            record = json.loads(line)
            step, data = record["step"], record["data"]
            score = validation_score(data)
            if score is not None:
                validated.append((step, score))
            if step > 0:
                self._report(step, self.plan["plan"]["steps"], data)
                self.collapse(step, data)
            else:
                check_numbers(step, data)
        for step, score in validated:
            self._keep_best(step, score)

    def _report(self, step: int, steps: int, data: Mapping[str, float]) -> None:
        if self.first_step_s is None:
            self.first_step_s = time.monotonic() - self.started
        if not is_number(data.get(_NORM, 0.0)):
            self.say(f"  step {step}: the gradient was not finite, so its update was skipped")
        if data.get("reward/failed"):
            count = f"{data['reward/failed']:.0f} samples without a reward"
            self.say(f"  step {step}: {count} are masked; why: launches/*/train.log, 'a sample is masked'")
        if self.progress is not None:
            self.progress.advance(
                self.label,
                step,
                steps,
                reward=round(data.get("reward/shaped") or 0.0, 3),
                pass_rate=round(data.get("reward/pass_rate") or 0.0, 3),
                masked=round(data.get("reward/masked") or 0.0),
            )

    def _keep_best(self, step: int, score: float) -> None:
        """Export the checkpoint of the best validated step, if that step has one (it may be 0: none)."""
        found = Path(self.config.trainer.default_local_dir) / f"global_step_{step}"
        known = best(self.output)
        if not (found / "actor" / "huggingface").is_dir() or (known and known["score"] >= score):
            return
        checkpoint.export_model(found, self.output / BEST, fp32=checkpoint.is_fp32(self.config))
        record = {"step": step, "score": score, "metric": "validation Pass@1"}
        atomic_write(self.output / BEST / "best.json", json.dumps(record) + "\n")
        self.say(f"  step {step}: validation Pass@1 {100 * score:.1f} %, the best so far (kept in {BEST}/)")


def best(output: Path) -> dict[str, Any] | None:
    """``step`` and ``score`` of the best model kept, or None."""
    path = output / BEST / "best.json"
    found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
    return found
