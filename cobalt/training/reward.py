"""The door of a recipe's reward: what it is given, what it may return, what happens where it fails."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from cobalt.errors import InputError
from cobalt.own import Own, fault_in, load
from cobalt.rewards.cobalt import PLAIN, ShapedReward, shaped_reward
from cobalt.rollouts.trajectory import pass_rate
from cobalt.testcases import TestCases

BUILT_IN = "cobalt.recipes.cobalt:reward"  # where cobalt.reward is null
OFFERED = (
    *("completion", "result", "best", "messages", "info", "tests", "turn"),
    *("pass_rate", "count_tokens", "profile"),
)
# Metrics of a sample whatever its reward is: no part may have their name.
_METRICS = frozenset({
    "acc", "pass_rate", "shaped", "has_code", "no_code", "format_ok", "format_broken", "regressed",
    "improved", "time_limit", "shared", "masked", "infra_errors", "evaluator_s", "evaluator_s_p95",
    "evaluator_s_max", "from_unix_s", "until_unix_s", "tests", "turns", "failed", "step_share",
})  # fmt: skip
_FACTS = ("has_code", "regressed", "format_ok")  # of what the shaped reward knows
first_refusal: list[str] = []  # in this process


class Refused(Exception):
    """A reward raised, or gave what cannot be used: one line with ``file:line``."""


def built_in() -> Own:
    """The shaped reward."""
    return load(BUILT_IN, "cobalt.reward", OFFERED)


def ask(own: Own, **offered: Any) -> ShapedReward | tuple[float, dict[str, float]]:
    """A reward with its parts by name. Raises Refused where the function raises, or returns what is no finite
    number and no mapping of such to names that are free.
    """
    try:
        made = own(**offered)
        if isinstance(made, ShapedReward):
            return made
        parts = {name: _number(value) for name, value in made.items()} if isinstance(made, Mapping) else {}
        total = sum(parts.values()) if parts else _number(made)
    except (Exception, SystemExit) as error:
        raise Refused(fault_in(own, error)) from error
    taken = [name for name in parts if name in _METRICS or not isinstance(name, str)]
    if taken or not math.isfinite(total):
        said = f"a part named {taken[0]!r}, which is a metric already" if taken else f"{made!r:.80}"
        raise Refused(f"{own.where}: {own.setting}={own.spec}: returned {said}")
    return total, parts


def validated(offered: Mapping[str, Any]) -> tuple[float, dict[str, float]]:
    """1.0 or 0.0, and what the shaped reward knows of a sample."""
    shaped = shaped_reward(
        offered["completion"], offered["pass_rate"], prev_best_pass_rate=offered["best"],
        count_tokens=offered["count_tokens"], training=False, profile=offered["profile"],
    )  # fmt: skip
    return shaped.total, shaped.metrics()


def rewarded(own: Own, offered: Mapping[str, Any]) -> tuple[float | None, dict[str, float]]:
    """A sample's reward and what is logged of it; None where it has none, of which the first is said why."""
    try:
        made = ask(own, **offered)
    except Refused as error:
        if not first_refusal:
            first_refusal.append(str(error))
            print(f"cobalt: a sample is masked, for it has no reward: {error}", flush=True)
        return None, {"failed": 1.0}
    counted = {"failed": 0.0} if own.spec != BUILT_IN else {}
    if isinstance(made, ShapedReward):
        return made.total, made.metrics() | counted
    known = validated(offered)[1]
    return made[0], {name: known[name] for name in _FACTS if name in known} | made[1] | counted


def _number(value: Any) -> float:
    if isinstance(value, str | bytes) or not hasattr(value, "__float__"):
        raise TypeError(f"returned {value!r:.80}, which is no number")
    return float(value)


def try_out(own: Own, row: Mapping[str, Any]) -> list[str]:
    """Ask a reward about made-up programs for a row of the training data: right, wrong, none.

    Returns a note for each that it cannot judge; raises InputError where it can judge none.
    """
    tests, program = TestCases.parse(row["reward_model"]["ground_truth"]), "```python\npass\n```"
    faults = {}
    for what, text, status in (
        ("passes every test", program, "passed"),
        ("passes none", program, "wrong_answer"),
        ("is missing", "no program", "runtime_error"),
    ):
        good, one = status == "passed", {"status": status, "cpu_s": 0.01, "wall_s": 0.01, "returncode": 0}
        result: Any = {
            "passing": [good] * len(tests), "feedback": ["" if good else "Exception: tried"] * len(tests),
            "status": "ok" if text == program else "no_code", "per_test": [one.copy() for _ in tests.inputs],
            "suite_limit": False, "shared": False,
        }  # fmt: skip
        try:
            ask(
                own, completion=text, result=result, best=0.0, messages=list(row["prompt"]), tests=tests,
                info=dict(row["extra_info"]), turn=0, pass_rate=pass_rate(result), count_tokens=len,
                profile=PLAIN,
            )  # fmt: skip
        except Refused as error:
            faults[what] = str(error)
    if len(faults) == 3:
        raise InputError(f"{next(iter(faults.values()))} (for a made-up result)")
    return [f"warning: where a program {what}, its sample is masked: {why}" for what, why in faults.items()]
