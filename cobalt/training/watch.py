"""What the launcher sees of a training while it runs: the plan, every step, the best model, collapse."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.errors import InfraError
from cobalt.files import atomic_write
from cobalt.training import outcome

if TYPE_CHECKING:
    from cobalt.cli import Progress

BEST = "best"  # in the output folder: the model of the best validated checkpoint
_NO_CODE, _FORMAT = "reward/no_code", "reward/format_broken"
_ENTROPY, _LENGTH = "actor/entropy", "response_length/mean"
_DIFF = "training/rollout_probs_diff_mean"
_NORM = "actor/grad_norm"
# What must be a number at every step that has it. Others may be null for a reason (a correlation of equal
# values, the deviation of a single one).
_NUMBERS = (
    _DIFF,
    "training/rollout_probs_diff_max",
    "reward/",
    "actor/pg_loss",
    "actor/loss",
    "actor/kl_loss",
    "actor/ppo_kl",
    "actor/entropy",
    "offline/",
    *(f"critic/{name}/" for name in ("score", "rewards", "advantages", "returns")),
    "val-core/",
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
        if _NORM in data:
            self._count(_NORM, not is_number(data[_NORM]))
            if self._crossed[_NORM] >= self._patience:
                raise InfraError(
                    f"the gradient was not finite in {self._crossed[_NORM]} step(s) up to step {step}, which "
                    "taught nothing; checkpoints before them are kept"
                )
        for name, metric, above in (
            ("max_no_code", _NO_CODE, True),
            ("max_format_broken", _FORMAT, True),
            ("min_entropy", _ENTROPY, False),
            ("max_length_share", _LENGTH, True),
            ("max_rollout_probs_diff", _DIFF, True),
        ):
            bound, value = self.bounds.get(name), data.get(metric)
            if bound is None or value is None:
                continue
            if name == "max_length_share":
                value /= self.limit
            bad = value > bound if above else value < bound
            self._count(name, bad)
            # a rollout that disagrees with its trainer is a fault at once, not a trend
            if bad and self._crossed[name] >= (1 if name == "max_rollout_probs_diff" else self._patience):
                raise InfraError(
                    f"the training collapsed: {metric}"
                    f"{' (of the limit)' if metric == _LENGTH else ''} is {value:.4g} at step {step}, "
                    f"{'above' if above else 'below'} cobalt.abort.{name}={bound} for "
                    f"{self._crossed[name]} step(s); checkpoints before it are kept"
                )

    def _count(self, name: str, bad: bool) -> None:
        self._crossed[name] = self._crossed.get(name, 0) + 1 if bad else 0

    @property
    def _patience(self) -> int:
        return int(self.bounds.get("patience") or 1)


def validation_score(data: Mapping[str, float]) -> float | None:
    """Validation Pass@1 of a step, the mean over data sources; None where it was not validated, or a source's
    is not a number.
    """
    values = [value for name, value in data.items() if name.startswith("val-core/") and "/acc/mean@" in name]
    return sum(values) / len(values) if values and all(map(is_number, values)) else None


@dataclass
class Watch:
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
        self._unsaved: list[tuple[int, float]] = []

    def __call__(self) -> None:
        if self.plan is None and self.plan_file.exists():
            self.plan = json.loads(self.plan_file.read_text())
            for line in (*self.plan["lines"], *self.plan["notes"]):
                self.say(f"  {line}")
        if self.plan is None or not self.metrics.exists():
            return
        lines = self.metrics.read_bytes().split(b"\n")[:-1]
        fresh, self.seen = lines[self.seen :], len(lines)
        for line in fresh:
            record = json.loads(line)
            score = validation_score(record["data"])
            if score is not None:
                self._unsaved.append((record["step"], score))
            if record["step"] > 0:
                self._report(record["step"], self.plan["plan"]["steps"], record["data"])
                self.collapse(record["step"], record["data"])
            else:
                check_numbers(record["step"], record["data"])
        self._keep_best()

    def _report(self, step: int, steps: int, data: Mapping[str, float]) -> None:
        if self.first_step_s is None:
            self.first_step_s = time.monotonic() - self.started
        if not is_number(data.get(_NORM, 0.0)):
            self.say(f"  step {step}: the gradient was not finite, so its update was skipped")
        if self.progress is not None:
            self.progress.advance(
                self.label,
                step,
                steps,
                reward=round(data.get("reward/shaped") or 0.0, 3),
                pass_rate=round(data.get("reward/pass_rate") or 0.0, 3),
                masked=round(data.get("reward/masked") or 0.0),
            )

    def _keep_best(self) -> None:
        """Export the checkpoint of the best validated step, if that step has one (it may be 0: none)."""
        while self._unsaved:
            step, score = self._unsaved.pop(0)
            checkpoint = Path(self.config.trainer.default_local_dir) / f"global_step_{step}"
            known = best(self.output)
            if not (checkpoint / "actor" / "huggingface").is_dir() or (known and known["score"] >= score):
                continue
            outcome.export_model(checkpoint, self.output / BEST, fp32=outcome.is_fp32(self.config))
            record = {"step": step, "score": score, "metric": "validation Pass@1"}
            atomic_write(self.output / BEST / "best.json", json.dumps(record) + "\n")
            self.say(
                f"  step {step}: validation Pass@1 {100 * score:.1f} %, the best so far (kept in {BEST}/)"
            )


def best(output: Path) -> dict[str, Any] | None:
    """``step`` and ``score`` of the best model kept, or None."""
    try:
        found: dict[str, Any] = json.loads((output / BEST / "best.json").read_text())
    except FileNotFoundError:
        return None
    return found
