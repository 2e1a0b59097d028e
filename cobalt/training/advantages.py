"""Advantage estimators registered with verl (``algorithm.adv_estimator``).

verl hands an estimator rewards, masks and prompt ids. Dense methods need the outcome of every test of every
turn; the replay buffer leaves those here under the rows' keys, in the process that also estimates. An
estimator of one's own asks `turns_of_rows` for them (`cobalt.dialogue.every_turn=true` has them made).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from verl.trainer.ppo.core_algos import register_adv_est

from cobalt.errors import InfraError
from cobalt.rewards import verpo

VERPO = "cobalt_verpo"
Turns = list[dict[str, Any]]


class _Rows:
    """Keys of the batch's rows in order, and what the replay buffer remembered of each."""

    keys: Sequence[str] = ()
    turns: Mapping[str, Turns] = {}
    constants = verpo.Constants()


def remember(turns: Mapping[str, Turns]) -> None:
    """Keep the turns of a batch: key -> one mapping per turn with ``end`` (place after its last token in the
    response) and ``passing`` [tests].
    """
    _Rows.turns = dict(turns)


@contextmanager
def rows(keys: Sequence[str], constants: verpo.Constants) -> Iterator[None]:
    """While open, estimators see that row i of the batch has key ``keys[i]``, and VeRPO's constants."""
    _Rows.keys, _Rows.constants = list(keys), constants
    try:
        yield
    finally:
        _Rows.keys = ()


def turns_of_rows(response_mask: torch.Tensor) -> list[Turns | None]:
    """The judged turns of every row of the batch under way, as `remember` says; None of verl's padding.

    ``response_mask`` [rows, tokens]. Raises InfraError where the turns of a row are not known.
    """
    keys = list(_Rows.keys)
    if len(keys) != len(response_mask):
        raise InfraError(f"{len(response_mask)} rows but {len(keys)} keys: is trainer_mode cobalt?")
    for key, mask in zip(keys, response_mask, strict=True):
        if key not in _Rows.turns and bool(mask.any()):
            raise InfraError(f"the turns of row {key} are not known (cobalt.dialogue.every_turn=true)")
    return [_Rows.turns.get(key) for key in keys]


@register_adv_est(VERPO)
def verpo_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """VeRPO's advantage: every policy token of a turn has its turn's (cobalt.rewards.verpo).

    ``response_mask`` [rows, tokens]; ``index`` [rows] prompt ids. Constants: the section ``cobalt.verpo``.
    Returns advantages twice, [rows, tokens], 0 where the mask is and in verl's padding rows. Raises
    InfraError if the batch's turns are not known.
    """
    values = torch.zeros_like(response_mask, dtype=torch.float32)
    groups: dict[Any, list[tuple[int, Turns]]] = {}
    for row, turns in enumerate(turns_of_rows(response_mask)):
        if turns is not None:
            groups.setdefault(index[row], []).append((row, turns))
    for members in groups.values():
        passing = [[turn["passing"] for turn in turns] for _, turns in members]
        found = verpo.advantages(passing, _Rows.constants)
        for (row, turns), dialogue in zip(members, found, strict=True):
            begin = 0
            for turn, value in zip(turns, dialogue, strict=True):
                values[row, begin : turn["end"]] = value
                begin = turn["end"]
    values = values * response_mask
    return values, values
