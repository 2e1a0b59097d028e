"""The one place where a sampled completion becomes a training reward, whatever path the sample took."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cobalt.errors import InfraError, InputError
from cobalt.own import Own
from cobalt.rewards.cobalt import PROFILES, RewardProfile, ShapedReward
from cobalt.rollouts.trajectory import pass_rate
from cobalt.schema import SKIPPED
from cobalt.testcases import TestCases
from cobalt.text import extract_code
from cobalt.training.method import functions
from cobalt.training.reward import built_in, rewarded, validated

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator, Tests
    from cobalt.schema import ExecutionResult

VALIDATION_SPLITS = frozenset({"test", "val", "validation", "dev"})
TRAINING_SPLITS = frozenset({"train"})
_SUMS = ("infra_errors", "tests")
EXPOSED = "timing_s/reward_exposed"
_NOT_MEANS = (*_SUMS, "masked", "failed", "from_unix_s", "until_unix_s")


@dataclass(frozen=True)
class Score:
    """Verdict on one sample.

    ``reward`` is finite, of the shaped reward in [-1, 1] (validation: 0 or 1). ``masked``: the evaluator gave
    no verdict, or the recipe's reward no number, so the sample must not be trained on; its reward is 0 and
    means nothing. ``info``, all of it numbers: what verl stores beside the reward and the metrics are made
    of, the parts of a reward of one's own among it.
    ``passing`` [tests]: the outcome of each, all False for a completion without code.
    """

    reward: float
    masked: bool
    info: dict[str, float] = field(default_factory=dict)
    passing: tuple[bool, ...] = ()


def is_validation(extra_info: Mapping[str, Any]) -> bool:
    """Whether a row is for validation, by ``extra_info.split``. Raises InputError for an unknown split."""
    split = extra_info.get("split")
    if split not in VALIDATION_SPLITS | TRAINING_SPLITS:
        raise InputError(f"extra_info.split must be 'train' or 'test', got {split!r}")
    return split in VALIDATION_SPLITS


class Scorer:
    """Runs a completion on its tests and shapes the reward.

    A result ``infra_error``, or an exception of the evaluator that is not about the request, is retried
    ``retries`` times; then a training sample is masked, and for a validation sample InfraError is raised.
    An evaluator that does not answer at all (it was restarted, or its node was lost) is asked on for
    ``wait_s`` seconds beyond that, so that an outage costs time and no samples. ``reward`` (None: the
    shaped one) is asked in training; a sample that it raises on, or gives no finite number, is masked.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        profile: RewardProfile,
        count_tokens: Callable[[str], int],
        retries: int = 1,
        wait_s: float = 0.0,
        reward: Own | None = None,
    ) -> None:
        self.evaluator, self.profile, self.reward = evaluator, profile, reward or built_in()
        self.count_tokens, self.retries, self.wait_s = count_tokens, retries, wait_s

    async def score(
        self, completion: str, tests: Tests, *, best: float = 0.0, validation: bool = False, **shown: Any
    ) -> Score:
        """Score one completion.

        Args: ``completion`` decoded without special tokens; ``tests`` the task's tests, all of them; ``best``
        the best pass rate shown in the context, in [0, 1]; ``shown``: what else a reward may take
        (``messages``, ``info``, ``turn``).
        Raises BadRequest for tests of a wrong shape, InfraError as said above.
        """
        started = time.monotonic()
        code = extract_code(completion)
        result, faults = await self.verdict(code, tests)
        seconds = time.monotonic() - started
        if result is None:
            return self.lost(faults, seconds, validation=validation)
        rate, takes = pass_rate(result), self.reward.takes
        offered = {
            **shown, "completion": completion, "pass_rate": rate, "best": best, "profile": self.profile,
            "count_tokens": self.count_tokens, "result": copy.deepcopy(result) if "result" in takes else None,
            "tests": TestCases.parse(tests) if "tests" in takes else None,
        }  # fmt: skip
        total, parts = validated(offered) if validation else rewarded(self.reward, offered)
        info = _info(result, total or 0.0, parts, rate, best, faults, seconds, validation)
        if total is None:
            return Score(0.0, True, info | {"masked": 1.0})
        passing = tuple(result["passing"]) if code is not None else (False,) * len(TestCases.parse(tests))
        return Score(total, False, info, passing)

    async def score_row(
        self, completion: str, row: Mapping[str, Any], turn: int | None = None, since: Sequence[Any] = ()
    ) -> Score:
        """`score` with what verl's fields of a row say. In a dialogue, where no program was shown before:
        ``turn`` from 0, and the messages ``since`` the prompt.
        """
        extra = row["extra_info"]
        best = float(extra.get("prev_best_pass_rate") or 0.0) if turn is None else 0.0
        return await self.score(
            completion, row["reward_model"]["ground_truth"], best=best, validation=is_validation(extra),
            messages=[*row.get("raw_prompt", ()), *since], info=dict(extra), turn=turn or 0,
        )  # fmt: skip

    def lost(self, faults: int, seconds: float = 0.0, *, validation: bool) -> Score:
        """The masked score of a sample without verdict. Raises InfraError for a validation sample."""
        if validation:
            raise InfraError(f"the evaluator gave no verdict on a validation sample after {faults} tries")
        nothing = ShapedReward(0.0, format_ok=True if self.profile.judge_format else None)
        return Score(0.0, True, _info(None, 0.0, nothing.metrics(), 0.0, 0.0, faults, seconds, validation))

    async def ready(self) -> None:
        """Ask the evaluator for a verdict that is known. Raises InfraError if it is another one, or none."""
        from cobalt.evaluator.requests import canary

        request = canary()
        try:
            plain = getattr(self.evaluator, "plain", self.evaluator)
            result = await plain.aevaluate(request["code"], request["test_cases"])
        except (OSError, TimeoutError) as error:
            raise InfraError(f"the evaluator does not answer: {type(error).__name__}: {error}") from error
        if result["status"] != "ok" or result["passing"] != [True]:
            raise InfraError(
                f"the evaluator's verdict on a right program is status {result['status']!r}, "
                f"passing {result['passing']}; feedback: {' '.join(result.get('feedback', []))[:200]}"
            )

    async def verdict(self, code: str | None, tests: Tests) -> tuple[ExecutionResult | None, int]:
        """The evaluator's result (None after the last try) and the number of faults seen."""
        deadline, faults = time.monotonic() + self.wait_s, 0
        while True:
            answered = True
            try:
                result = await self.evaluator.aevaluate(code, tests)
            except (InfraError, OSError, TimeoutError):
                result, answered = None, False
            if result is not None and result["status"] != "infra_error":
                return result, faults
            faults += 1
            waiting = not answered and time.monotonic() < deadline
            if faults > self.retries and not waiting:
                return None, faults
            await asyncio.sleep(min(5.0, 0.2 * 2 ** min(faults - 1, 10)))


def _info(
    result: ExecutionResult | None,
    reward: float,
    parts: Mapping[str, float],
    rate: float,
    best: float,
    faults: int,
    seconds: float,
    validation: bool,
) -> dict[str, float]:
    tests = result.get("per_test", []) if result is not None else []
    shared = bool(result and result.get("shared"))
    info = {
        "acc": float(rate == 1.0),
        "pass_rate": rate,
        "shaped": reward,
        **parts,
        "improved": float(0.0 < best < rate),
        "time_limit": float(any(test["status"] == "time_limit" for test in tests)),
        "shared": float(shared),
        "masked": float(result is None),
        "infra_errors": float(faults),
        "evaluator_s": seconds,
    }
    if not validation:  # clocks of one machine, or nearly equal ones
        info["from_unix_s"], info["until_unix_s"] = time.time() - seconds, time.time()
        info["tests"] = float(not shared and sum(test["status"] != SKIPPED for test in tests))
    return info


def batch_metrics(infos: list[dict[str, float]]) -> dict[str, float]:
    """Metrics of one training batch, ``reward/...``: means over the samples that have a verdict.

    Sums: ``reward/infra_errors`` faults of the evaluator, healed ones included; ``reward/tests`` tests run.
    ``reward/evaluator_s`` is the mean time that a sample waited for its verdict, ``_p95`` and ``_max`` are of
    the same. ``timing_s/reward_exposed``: seconds from the last request to the last verdict, which no
    generation hides. A part that a sample does not have is 0; ``reward/failed`` (a reward of one's own):
    samples that it gave no number.
    """
    judged = [info for info in infos if not info["masked"]]
    names = [
        name for name in dict.fromkeys(name for info in judged for name in info) if name not in _NOT_MEANS
    ]
    metrics = {f"reward/{name}": sum(info.get(name, 0.0) for info in judged) / len(judged) for name in names}
    if any("failed" in info for info in infos):
        metrics["reward/failed"] = sum(info.get("failed", 0.0) for info in infos)
    for has, lacks in (("has_code", "no_code"), ("format_ok", "format_broken")):
        if f"reward/{has}" in metrics:
            metrics[f"reward/{lacks}"] = 1.0 - metrics.pop(f"reward/{has}")
    if judged:
        waits = sorted(info["evaluator_s"] for info in judged)
        metrics["reward/evaluator_s_p95"] = waits[min(len(waits) - 1, int(0.95 * len(waits)))]
        metrics["reward/evaluator_s_max"] = waits[-1]
        ends = [max(info.get(name, 0.0) for info in infos) for name in ("from_unix_s", "until_unix_s")]
        metrics[EXPOSED] = max(0.0, ends[1] - ends[0])
    return metrics | {f"reward/{name}": sum(info.get(name, 0.0) for info in infos) for name in _SUMS}


_open: list[Any] = []  # evaluators of this process, to be closed and counted at its end


def count_at_end(evaluator: Any) -> None:
    """Have ``close_evaluators`` count and close it."""
    _open.append(evaluator)


def close_evaluators() -> dict[str, Any]:
    """Close the evaluators that were opened here; returns their counters and isolation."""
    counters: dict[str, Any] = {}
    while _open:
        evaluator = _open.pop()
        for name, value in evaluator.counters.items():
            counters[name] = counters.get(name, 0) + value
        counters["isolation"] = evaluator.isolation
        evaluator.close()
    return counters


def make_scorer(settings: Mapping[str, Any], tokenizer: Any) -> Scorer:
    """The scorer that the section ``cobalt`` of a training configuration describes.

    Raises InputError for an unknown profile or counter, a reward that cannot be found or called, or where
    ``o200k_base`` is not cached.
    """
    from cobalt.evaluator.client import connect, within
    from cobalt.evaluator.environment import open_environment
    from cobalt.training import pools

    if settings["evaluator"] == pools.HERE:
        inner: Evaluator = pools.PoolEvaluator()
    else:
        inner = connect(settings["evaluator"], workers=settings["evaluator_workers"])
    evaluator = within(open_environment(settings.get("environment"), "cobalt.environment"), inner)
    count_at_end(evaluator)
    return Scorer(
        evaluator,
        profile=reward_profile(settings["reward_profile"]),
        count_tokens=token_counter(settings["token_counter"], tokenizer),
        retries=settings["evaluator_retries"],
        wait_s=settings["evaluator_wait_s"],
        reward=functions(settings)["reward"],
    )


def reward_profile(name: str) -> RewardProfile:
    """The profile of that name. Raises InputError with the names there are."""
    if name not in PROFILES:
        raise InputError(f"reward profile {name!r} is unknown; there are: {', '.join(sorted(PROFILES))}")
    return PROFILES[name]


def token_counter(name: str, tokenizer: Any) -> Callable[[str], int]:
    """``o200k_base`` (the published one; never fetched here) or ``policy``, the policy's own tokenizer."""
    from cobalt.text import o200k_counter, tokenizer_counter

    if name == "o200k_base":
        return o200k_counter()
    if name == "policy":
        return tokenizer_counter(tokenizer)
    raise InputError(f"cobalt.token_counter must be o200k_base or policy, got {name!r}")
