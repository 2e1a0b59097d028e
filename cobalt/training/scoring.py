"""The one place where a sampled completion becomes a training reward, whatever path the sample took."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from cobalt.errors import InfraError, InputError
from cobalt.rewards.cobalt import PROFILES, RewardProfile, ShapedReward, shaped_reward
from cobalt.rollouts.trajectory import pass_rate
from cobalt.schema import SKIPPED
from cobalt.testcases import TestCases
from cobalt.text import extract_code
from cobalt.training.own_recipe import own_reward

if TYPE_CHECKING:
    from cobalt.evaluator.base import Evaluator
    from cobalt.schema import ExecutionResult

VALIDATION_SPLITS = frozenset({"test", "val", "validation", "dev"})
TRAINING_SPLITS = frozenset({"train"})
_SUMS = ("infra_errors", "tests")
EXPOSED = "timing_s/reward_exposed"
_NOT_MEANS = (*_SUMS, "masked", "from_unix_s", "until_unix_s")


@dataclass(frozen=True)
class Score:
    """Verdict on one sample.

    ``reward`` in [-1, 1] (validation: 0 or 1). ``masked``: the evaluator gave no verdict, so the sample must
    not be trained on; its reward is 0 and means nothing. ``info`` has the same keys for every sample of one
    profile, all of them numbers: what verl stores beside the reward and the metrics are made of.
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
    ``wait_s`` seconds beyond that, so that an outage costs time and no samples. ``own(completion, result,
    best)`` takes the shaped reward's place in training.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        *,
        profile: RewardProfile,
        count_tokens: Callable[[str], int],
        retries: int = 1,
        wait_s: float = 0.0,
        own: Callable[..., float] | None = None,
    ) -> None:
        self.evaluator, self.profile, self.own = evaluator, profile, own
        self.count_tokens, self.retries, self.wait_s = count_tokens, retries, wait_s

    async def score(
        self, completion: str, tests: str | Mapping[str, Any], *, best: float = 0.0, validation: bool = False
    ) -> Score:
        """Score one completion.

        Args: ``completion`` decoded without special tokens; ``tests`` the task's tests, all of them; ``best``
        the best pass rate shown in the context, in [0, 1].
        Raises BadRequest for tests of a wrong shape, InfraError as said above.
        """
        started = time.monotonic()
        result, faults = await self.verdict(extract_code(completion), tests)
        seconds = time.monotonic() - started
        if result is None:
            return self.lost(faults, seconds, validation=validation)
        rate = pass_rate(result)
        shaped = shaped_reward(
            completion,
            rate,
            prev_best_pass_rate=best,
            count_tokens=self.count_tokens,
            training=not validation,
            profile=self.profile,
        )
        if self.own is not None and not validation:
            shaped = replace(shaped, total=float(self.own(completion, result, best)))
        info = _info(result, shaped, rate, best, faults, seconds, validation)
        passing = tuple(result["passing"]) if shaped.has_code else (False,) * len(TestCases.parse(tests))
        return Score(shaped.total, False, info, passing)

    async def score_row(self, completion: str, row: Mapping[str, Any], *, best: bool = True) -> Score:
        """`score` with what verl's fields of a row say; without ``best``, nothing was shown before."""
        extra = row["extra_info"]
        shown = float(extra.get("prev_best_pass_rate") or 0.0) if best else 0.0
        truth = row["reward_model"]["ground_truth"]
        return await self.score(completion, truth, best=shown, validation=is_validation(extra))

    def lost(self, faults: int, seconds: float = 0.0, *, validation: bool) -> Score:
        """The masked score of a sample without verdict. Raises InfraError for a validation sample."""
        if validation:
            raise InfraError(f"the evaluator gave no verdict on a validation sample after {faults} tries")
        nothing = ShapedReward(0.0, format_ok=True if self.profile.judge_format else None)
        return Score(0.0, True, _info(None, nothing, 0.0, 0.0, faults, seconds, validation))

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

    async def verdict(
        self, code: str | None, tests: str | Mapping[str, Any]
    ) -> tuple[ExecutionResult | None, int]:
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
    shaped: ShapedReward,
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
        "shaped": shaped.total,
        **shaped.metrics(),
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
    generation hides.
    """
    judged = [info for info in infos if not info["masked"]]
    names = [name for name in (judged[0] if judged else {}) if name not in _NOT_MEANS]
    metrics = {f"reward/{name}": sum(info[name] for info in judged) / len(judged) for name in names}
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


def session_of(key: str) -> str:
    """``{uid}_{session}`` of a key ``{uid}_{session}_{index}``."""
    return key.rsplit("_", 1)[0]


def masked_keys(keys: list[str], masked: list[bool]) -> set[str]:
    """Keys ``{uid}_{session}_{index}`` that must leave the batch.

    A masked output takes its session with it (one advantage belongs to the whole session), and a group with
    fewer than two sessions left leaves too.
    """
    gone = {session_of(key) for key, flag in zip(keys, masked, strict=True) if flag}
    if not gone:
        return set()
    left = Counter(session_of(session) for session in {session_of(key) for key in keys} - gone)
    return {key for key in keys if session_of(key) in gone or left[session_of(session_of(key))] < 2}


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

    Raises InputError for an unknown profile, reward or counter, or where ``o200k_base`` is not cached.
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
        own=own_reward(settings["reward"]) if settings.get("reward") else None,
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
