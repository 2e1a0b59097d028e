"""Advantage estimators registered with verl (``algorithm.adv_estimator``).

verl hands an estimator rewards, masks and prompt ids. What is known of every turn stands in records
(cobalt.rewards.records), which the replay buffer leaves here under the rows' keys, in the process that also
estimates. ``cobalt.advantage`` gets them group by group; an estimator of one's own that is registered with
verl asks `turns_of_rows` for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from verl.trainer.ppo.core_algos import register_adv_est

from cobalt.errors import InfraError
from cobalt.own import Own
from cobalt.rewards.records import Rollout
from cobalt.training import own_update

Turns = list[dict[str, Any]]


class _Rows:
    """Keys of the batch's rows in order, and what the replay buffer remembered of each."""

    keys: Sequence[str] = ()
    records: Mapping[str, Rollout] = {}
    own: Own | None = None


def remember(records: Mapping[str, Rollout]) -> None:
    """Keep the records of a batch, by the rows' keys."""
    _Rows.records = dict(records)


@contextmanager
def rows(keys: Sequence[str], own: Own | None = None) -> Iterator[None]:
    """While open, estimators see that row i has key ``keys[i]``, and the function of cobalt.advantage."""
    _Rows.keys, _Rows.own = list(keys), own
    try:
        yield
    finally:
        _Rows.keys = ()


def records_of(keys: Sequence[str], response_mask: torch.Tensor) -> list[Rollout | None]:
    """The records of rows with these keys; None of verl's padding.

    ``response_mask``: [rows, tokens], or a list of [tokens]. Raises InfraError where one is not known.
    """
    if len(keys) != len(response_mask):
        raise InfraError(f"{len(response_mask)} rows but {len(keys)} keys: is trainer_mode cobalt?")
    for key, mask in zip(keys, response_mask, strict=True):
        if key not in _Rows.records and bool(mask.any()):
            raise InfraError(f"the turns of row {key} are not known: the reward manager made no record of it")
    return [_Rows.records.get(key) for key in keys]


def turns_of_rows(response_mask: torch.Tensor) -> list[Turns | None]:
    """The turns of every row of the batch under way: mappings with ``end`` (the place after its last token in
    the response) and ``passing`` [tests]; None of verl's padding.

    ``response_mask`` [rows, tokens]. Raises InfraError where a turn was not judged.
    """
    found: list[Turns | None] = []
    for record in records_of(_Rows.keys, response_mask):
        if record is not None and not all(turn.passing for turn in record.turns):
            raise InfraError("a turn of the batch was not judged (cobalt.dialogue.every_turn=true)")
        turns = record.turns if record is not None else ()
        known = [{"end": each.end, "passing": list(each.passing)} for each in turns]
        found.append(known if record is not None else None)
    return found


def turn_numbers(record: Rollout | None, mask: torch.Tensor) -> torch.Tensor:
    """Which turn the tokens of a row are of, as ``mask`` [tokens] of its policy tokens is: 1, 2, .. where the
    mask is 1; -1, -2, .. on the feedback after turn 1, 2, ..; 0 elsewhere, also on what another rollout of a
    tree has in its loss.
    """
    numbers = torch.zeros_like(mask, dtype=torch.int64)
    turns = record.turns if record is not None else ()
    for number, turn in enumerate(turns, start=1):
        numbers[turn.begin : turn.end] = number * mask[turn.begin : turn.end]
        if number < len(turns) and not turn.shared:
            numbers[turn.end : turns[number].begin] = -number
    return numbers


@register_adv_est(own_update.NAME)
def own_advantage(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, index: Any, **_: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """``cobalt.advantage``: every policy token of a turn has what the function gives the turn.

    ``response_mask`` [rows, tokens]; ``index`` [rows] prompt ids. Returns advantages twice, [rows, tokens], 0
    where the mask is and in verl's padding rows. Raises InfraError for records that are not known, and as
    `own_update.advantages` does.
    """
    if _Rows.own is None:
        raise InfraError("no function of cobalt.advantage: is trainer_mode cobalt?")
    values = torch.zeros_like(response_mask, dtype=torch.float32)
    groups: dict[Any, list[tuple[int, Rollout]]] = {}
    for row, record in enumerate(records_of(_Rows.keys, response_mask)):
        if record is not None:
            groups.setdefault(index[row], []).append((row, record))
    for members in groups.values():
        found = own_update.advantages(_Rows.own, [record for _, record in members])
        for (row, record), by_turn in zip(members, found, strict=True):
            for turn, value in zip(record.turns, by_turn, strict=True):
                values[row, turn.begin : turn.end] = value
    values = values * response_mask
    return values, values
