"""What determines the rows of a rollout, and what it may cost."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from cobalt.engines.base import Sampling, derived_seed
from cobalt.errors import InputError
from cobalt.own import Own
from cobalt.prompts import DEFAULT, Prompts

DEFAULT_SAMPLES = 16
TEST_SETS = ("auto", "public", "perturbed")


@dataclass(frozen=True)
class RolloutSettings:
    """Sampling of a run; the defaults are the published ones (arXiv 2602.03806).

    `n` samples per task; None is 16, or, where first turns are read from a file, as many as the file has.
    `seed` of the run: each completion's seed is a hash of it, the task's id, sample and turn.
    """

    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 8192
    n: int | None = None
    seed: int = 0
    prompts: Prompts = field(default=DEFAULT)
    reasoning_effort: str | None = None

    def __post_init__(self) -> None:
        if self.n is not None and self.n < 1:
            raise InputError(f"--num_completions must be at least 1, got {self.n}")
        try:
            self.sampling()
        except ValueError as error:
            raise InputError(str(error)) from None

    @property
    def samples(self) -> int:
        return DEFAULT_SAMPLES if self.n is None else self.n

    def sampling(self, n: int = 1, seed: int | None = None, **more: Any) -> Sampling:
        return Sampling(
            self.temperature, self.top_p, self.max_tokens, n, seed,
            reasoning_effort=self.reasoning_effort, **more,
        )  # fmt: skip

    def first(self, key: str | int, n: int, index: int = 0) -> Sampling:
        """The first turn of a task, n samples from `index` on; the same in single- and multi-turn runs."""
        session = json.dumps([key, index] if n == 1 else [key])
        return self.sampling(n, derived_seed(self.seed, key, "first turn"), index=index, session=session)

    def later(self, key: str | int, sample: int, turn: int) -> Sampling:
        """A later turn of one sample."""
        seed = derived_seed(self.seed, key, sample, turn)
        return self.sampling(1, seed, session=json.dumps([key, sample]))

    def record(self) -> dict[str, Any]:
        """For the manifest: what a resumed run must have in common with the run before."""
        return {
            "temperature": self.temperature, "top_p": self.top_p, "max_tokens": self.max_tokens,
            "seed": self.seed, "prompts_sha256": self.prompts.sha256,
            **({"reasoning_effort": self.reasoning_effort} if self.reasoning_effort else {}),
        }  # fmt: skip


@dataclass(frozen=True)
class MultiTurnSettings(RolloutSettings):
    """A multi-turn run.

    `turns`: programs per trajectory, the first included (collection 3, evaluation 9). `tests`: which tests
    the model is shown, see `cobalt.rollouts.inputs.shown_tests`. `first_turn`: sample the first turn too,
    instead of reading it from `responses`. `enable_thinking`: messages keep the text after the last
    `</think>` only, cut to 6,000 characters. `unfinished_thinking`: what a response that never closes its
    thinking counts as, `run` (its last block is run, as published) or `no_code`. `stop_when_passed`: no
    further turns once all shown tests pass. `feedback`: makes the message after a program in place of the
    built-in text (`cobalt.rollouts.feedback`).
    """

    turns: int = 9
    tests: str = "auto"
    first_turn: bool = False
    enable_thinking: bool = False
    unfinished_thinking: str = "run"
    stop_when_passed: bool = False
    feedback: Own | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.turns < 1:
            raise InputError(f"--turns must be at least 1, got {self.turns}")

    def record(self) -> dict[str, Any]:
        return super().record() | {
            "turns": self.turns, "tests": self.tests, "first_turn": self.first_turn,
            "enable_thinking": self.enable_thinking, "unfinished_thinking": self.unfinished_thinking,
            "stop_when_passed": self.stop_when_passed,
            **(self.feedback.identity("feedback") if self.feedback else {}),
        }  # fmt: skip


@dataclass(frozen=True)
class Budget:
    """What all runs of one output may cost together; none of it changes a result.

    `limit` in US dollars, None: no limit. `prices`: dollars per million (prompt, completion) tokens, where
    the engine tells no cost; `rates`: the same, to estimate what is not sampled yet (None: as dear as any so
    far). `first`: dollars that the first completion may take, until one is known; `earlier`: dollars that
    another output has cost already.
    """

    limit: float | None = None
    prices: tuple[float, float] | None = None
    rates: tuple[float, float] | None = None
    first: float = 0.0
    earlier: float = 0.0
