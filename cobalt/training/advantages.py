"""Advantage estimators registered with verl (``algorithm.adv_estimator``).

verl hands an estimator rewards, masks and prompt ids. Dense methods need the outcome of every test of every
turn; the replay buffer leaves those here under the rows' keys, in the process that also estimates.
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


class _Rows:
    """Keys of the batch's rows in order, and what the replay buffer remembered of each."""

    keys: Sequence[str] = ()
    turns: Mapping[str, list[dict[str, Any]]] = {}
    constants = verpo.Constants()


def remember(turns: Mapping[str, list[dict[str, Any]]]) -> None:
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


@register_adv_est(VERPO)
def verpo_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """VeRPO's advantage: every policy token of a turn has its turn's (cobalt.rewards.verpo).

    ``response_mask`` [rows, tokens]; ``index`` [rows] prompt ids. Constants: the section ``cobalt.verpo``.
    Returns advantages twice, [rows, tokens], 0 where the mask is. Rows that were not remembered (verl's
    padding) get 0. Raises InfraError if the batch's turns are not known.
    """
    keys = list(_Rows.keys)
    if len(keys) != len(response_mask):
        raise InfraError(f"{VERPO}: {len(response_mask)} rows but {len(keys)} keys: is trainer_mode cobalt?")
    values = torch.zeros_like(response_mask, dtype=torch.float32)
    groups: dict[Any, list[int]] = {}
    for row, key in enumerate(keys):
        if key in _Rows.turns:
            groups.setdefault(index[row], []).append(row)
        elif bool(response_mask[row].any()):
            raise InfraError(f"{VERPO}: the turns of row {key} are not known")
    for members in groups.values():
        group = [_Rows.turns[keys[row]] for row in members]
        found = verpo.advantages([[turn["passing"] for turn in turns] for turns in group], _Rows.constants)
        for row, turns, dialogue in zip(members, group, found, strict=True):
            begin = 0
            for turn, value in zip(turns, dialogue, strict=True):
                values[row, begin : turn["end"]] = value
                begin = turn["end"]
    values = values * response_mask
    return values, values
