"""The user's own functions of the update: ``cobalt.advantage`` and ``cobalt.policy_loss``.

verl knows both under the name `NAME`, as an estimator (cobalt.training.advantages) and as a loss mode
(cobalt.training.losses). Here they are found, called, and what they return is checked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from numbers import Real
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.own import Own, fault_in, load
from cobalt.rewards.records import Rollout, Turn
from cobalt.training.dialogue import DialogueSettings
from cobalt.training.method import OFFERED
from cobalt.training.tree import leaves_below

NAME = "cobalt_own"
ADVANTAGE, LOSS = "cobalt.advantage", "cobalt.policy_loss"
# Estimators by the names that they had before; a section of the module's name has their constants.
_EARLIER = {"cobalt_verpo": "cobalt.recipes.verpo:advantage"}
_SWITCHES = (  # setting, the setting of verl's in whose place it stands
    (ADVANTAGE, "algorithm.adv_estimator"),
    (LOSS, "actor_rollout_ref.actor.policy_loss.loss_mode"),
)
TESTS = 2  # of the made-up groups


def choose(config: Any, given: Callable[[str], bool]) -> None:
    """Have verl use the functions that a composed configuration names. ``given``: whether the user made a
    (dotted) setting, in the recipe's file or as an override; it wins over that of a built-in recipe.

    Raises InputError where two are given, or what verl adds would be left out.
    """
    from omegaconf import OmegaConf, open_dict

    for setting, of_verl in _SWITCHES:
        value, chosen = OmegaConf.select(config, setting), OmegaConf.select(config, of_verl)
        earlier = _EARLIER.get(chosen)
        if given(of_verl) and chosen != NAME:
            if value not in (None, earlier) and given(setting):
                raise InputError(f"{setting}={value} and {of_verl}={chosen}: give one of them")
            value = earlier
        if value is None and chosen == NAME:
            raise InputError(f"{of_verl}={NAME}: {setting} names no function")
        OmegaConf.update(config, setting, value)
        if value is not None:
            OmegaConf.update(config, of_verl, NAME)
    cobalt = config.cobalt
    for spec in _EARLIER.values():
        section = spec.partition(":")[0].rpartition(".")[2]
        if cobalt.advantage == spec:
            with open_dict(cobalt):
                cobalt.constants = {**cobalt[section], **(cobalt.get("constants") or {})}
    if cobalt.advantage is not None and config.algorithm.use_kl_in_reward:
        raise InputError(
            f"{ADVANTAGE}: sees rewards without algorithm.use_kl_in_reward; set actor.use_kl_loss"
        )
    if cobalt.policy_loss is not None and OmegaConf.select(config, "distillation.enabled"):
        raise InputError(f"{LOSS}: distillation.enabled has a loss of its own")
    if cobalt.method == "offline" and (cobalt.advantage or cobalt.policy_loss):
        raise InputError(f"{ADVANTAGE}, {LOSS}: recipe {cobalt.recipe} takes cobalt.offline.objective")


def own_function(config: Any, setting: str) -> Own | None:
    """The function that `ADVANTAGE` or `LOSS` names in a composed configuration; None where none is named."""
    spec = config.cobalt[setting.removeprefix("cobalt.")]
    offered = OFFERED[setting.removeprefix("cobalt.")]
    constants = config.cobalt.get("constants") or {}
    return None if spec is None else load(spec, setting, offered, constants=dict(constants))


def advantages(own: Own, group: Sequence[Rollout]) -> list[list[float]]:
    """What ``own`` gives the turns of a group, [rollouts][turns].

    Raises InfraError with file and line where it fails, or returns other than one number for every rollout or
    one for every turn of it.
    """
    given = called(own, group=tuple(group))
    try:
        values = [_by_turn(value, len(each.turns)) for value, each in zip(given, group, strict=True)]
    except (TypeError, ValueError) as error:
        many = f" of length {len(given)}" if hasattr(given, "__len__") else ""
        raise InfraError(
            f"{own.where}: {own.setting}={own.spec}: returned a {type(given).__name__}{many} for a group of "
            f"{len(group)} rollouts, each of which takes a number or one for each of its turns ({error})"
        ) from None
    if not all(math.isfinite(value) for turns in values for value in turns):
        raise InfraError(f"{own.where}: {own.setting}={own.spec}: returned NaN or infinity: {values}")
    return values


def _by_turn(value: Any, turns: int) -> list[float]:
    if isinstance(value, Real) or getattr(value, "ndim", 1) == 0:
        return [float(value)] * turns
    found = [float(each) for each in value]
    if isinstance(value, str | bytes | Mapping) or len(found) != turns:
        raise ValueError(f"{len(found)} numbers for {turns} turns")
    return found


def called(own: Own, **offered: Any) -> Any:
    """What ``own`` returns. Raises InfraError with file and line if it raises."""
    try:
        return own(**offered)
    except Exception as error:
        raise InfraError(fault_in(own, error)) from error


def made_up(config: Any) -> list[tuple[Rollout, ...]]:
    """Groups to try a function on, of the shape that a configuration's groups have: rollouts of one turn with
    different and with equal rewards, and where dialogues have several turns, such dialogues too.
    """
    dialogue = DialogueSettings.read(config)
    turns, below = dialogue.turns, leaves_below(dialogue.branches, dialogue.turns)
    alone = [1] * turns
    groups = [([[2], [1]], alone), ([[0], [0]], alone)]  # tests passed by every program of every rollout
    if dialogue.branches:
        leaves = range(math.prod(dialogue.branches))
        groups.append(([[leaf // b % (TESTS + 1) for b in below] for leaf in leaves], below))
    elif turns > 1:
        groups += [([[0] * (turns - 1) + [2], [1] * turns], alone), ([[1], [0] * turns], alone)]
    return [
        tuple(_rollout(leaf, counts, each, dialogue.every_turn) for leaf, counts in enumerate(passed))
        for passed, each in groups
    ]


def _rollout(leaf: int, passed: list[int], below: list[int], every: bool) -> Rollout:
    """One whose programs have three tokens, and one of feedback after each; see `made_up`."""
    turns = []
    for turn, count in enumerate(passed):
        judged, first = every or turn == len(passed) - 1, leaf - leaf % below[turn]
        outcome = tuple(test < count for test in range(TESTS)) if judged else ()
        reward, node, begin = count / TESTS if judged else None, first * len(below) + turn, 4 * turn
        turns.append(Turn(reward, outcome, begin, begin + 3, node, shared=first != leaf))
    return Rollout(passed[-1] / TESTS, tuple(turns), index="made-up")


def tried(what: str, call: Callable[[], Any]) -> Any:
    """The result of a call on made-up data. Raises InputError where it fails."""
    try:
        return call()
    except InfraError as error:
        raise InputError(f"{error} (tried on {what})") from error


def check_advantage(config: Any, own: Own | None = None) -> list[str]:
    """Try `ADVANTAGE` on made-up groups; notes about it. Raises InputError.

    ``own``: the function, where it is found already.
    """
    own = own or own_function(config, ADVANTAGE)
    if own is None:
        tree = config.cobalt.dialogue.branches
        said = (
            "a program that rollouts share learns from the first one's reward only, without cobalt.advantage"
        )
        return [f"cobalt.dialogue.branches: {said}"] if tree else []
    for group in made_up(config):
        passed = [[sum(turn.passing) if turn.passing else None for turn in each.turns] for each in group]
        what = f"a made-up group; of {TESTS} tests its programs pass, turn by turn, {passed}"
        tried(what, partial(advantages, own, group))
    return [f"advantage: {own.spec} ({own.where}, sha256 {own.sha256})"]
