"""Reading the evaluated trajectories of one task, with every check on their shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from cobalt.contexts.select import all_solved, combined_rate
from cobalt.errors import InputError
from cobalt.rows import Row, require, row_id
from cobalt.schema import Message
from cobalt.testcases import NUM_PUBLIC, TestCases


@dataclass(frozen=True)
class Trajectories:
    """The trajectories of one task: ``conversations`` [samples][2 + 2 turns] messages (samples that stopped
    early are shorter), combined ``rates`` [samples][turns] in [0, 1] (None for a sample with a program
    without a verdict). ``solved``: all single-turn samples passed all tests. What was not assumed: public
    tests were counted, ``solved`` comes from single-turn verdicts.
    """

    task_id: str | int
    difficulty: str
    test_cases: str
    conversations: list[list[Message]]
    rates: list[list[float] | None]
    solved: bool
    counted_public: bool
    judged_singles: bool


def read_trajectories(row: Row, where: str) -> Trajectories:
    """Check one row and combine its rates. ``where`` (``file:line``) opens every error.

    Public rates are ``[turns][samples]``, hidden rates ``[samples][turns]``. Raises InputError for a
    missing or malformed field, and for verdicts that are faults of the evaluation.
    """
    task_id = row_id(row, where)
    difficulty = require(row, "difficulty", str, where)
    tests = _tests(row, "test_cases", where)
    counted = row.get("public_test_cases") is not None
    n_public = len(_tests(row, "public_test_cases", where)) if counted else NUM_PUBLIC
    if not 0 < len(tests) >= n_public:
        assumed = "" if counted else " (assumed, because 'public_test_cases' is missing)"
        raise InputError(f"{where}: 'test_cases' holds {len(tests)} tests, {n_public} are public{assumed}")
    conversations = _conversations(row, where)
    turns = [len(conversation) // 2 - 1 for conversation in conversations]
    hidden = _hidden_rates(row, turns, where)
    public = _public_rates(row, turns, where)
    combine = partial(combined_rate, n_public=n_public, n_tests=len(tests))
    rates = [
        None if h is None else [combine(*each) for each in zip(h, p, strict=True)]
        for h, p in zip(hidden, public, strict=True)
    ]
    judged = row.get("exec_results") is not None
    solved = _single_turn_solved(row, where) if judged else all(r is not None and r[0] == 1.0 for r in rates)
    stored = row["test_cases"]
    text = stored if isinstance(stored, str) else tests.to_json()
    return Trajectories(task_id, difficulty, text, conversations, rates, solved, counted, judged)


def _tests(row: Row, field: str, where: str) -> TestCases:
    return TestCases.parse(require(row, field, (str, dict), where), where=f"{where}: field '{field}'")


def _conversations(row: Row, where: str) -> list[list[Message]]:
    conversations: list[list[Message]] = require(row, "conversations", list, where)
    if not conversations:
        raise InputError(f"{where}: field 'conversations' holds no samples")
    for s, conversation in enumerate(conversations):
        place = f"{where}: conversations[{s}]"
        check_conversation(conversation, place)
        if len(conversation) < 4:
            raise InputError(f"{place} has {len(conversation)} messages, so no program (2 + 2 per turn)")
    return conversations


def check_conversation(value: Any, place: str) -> None:
    """Raise InputError unless ``value`` is system, user, then (assistant, user) any number of times."""
    if not isinstance(value, list) or len(value) < 2 or len(value) % 2:
        raise InputError(f"{place} must be a list of 2 + 2 messages per turn, ending with a user message")
    for m, message in enumerate(value):
        role = "system" if m == 0 else "user" if m % 2 else "assistant"
        if not isinstance(message, Mapping) or message.get("role") != role:
            raise InputError(f"{place}[{m}] must be a message of role '{role}'")
        if not isinstance(message.get("content"), str):
            raise InputError(f"{place}[{m}]: 'content' must be a string")


def _hidden_rates(row: Row, turns: list[int], where: str) -> list[list[float] | None]:
    """[samples][turns]; None for a sample of which a program has no verdict."""
    place, axes = f"{where}: all_pass_rates", "(axes: [sample][turn])"
    table = _sized(require(row, "all_pass_rates", list, where), len(turns), place, f"samples {axes}")
    rates: list[list[float] | None] = []
    for s, programs in enumerate(turns):
        values = _sized(table[s], programs, f"{place}[{s}]", f"programs {axes}")
        known = [rate(value, f"{place}[{s}][{t}]") for t, value in enumerate(values) if value is not None]
        rates.append(known if len(known) == programs else None)
    return rates


def _public_rates(row: Row, turns: list[int], where: str) -> list[list[float]]:
    """[samples][turns], transposed from [turns][samples]; places after the end of a dialogue are not read."""
    place, axes = f"{where}: public_pass_rates", "(axes: [turn][sample])"
    table: list[Any] = require(row, "public_pass_rates", list, where)
    _sized(table[: max(turns)], max(turns), place, f"turns {axes}")
    for t, values in enumerate(table):
        _sized(values, len(turns), f"{place}[{t}]", f"samples {axes}")
    return [
        [rate(table[t][s], f"{place}[{t}][{s}]") for t in range(programs)] for s, programs in enumerate(turns)
    ]


def _sized(values: Any, size: int, place: str, what: str) -> list[Any]:
    if not isinstance(values, list) or len(values) != size:
        found = len(values) if isinstance(values, list) else "no"
        raise InputError(f"{place} has {found} rates for {size} {what}")
    return values


def rate(value: Any, place: str) -> float:
    """A rate in [0, 1]. Raises InputError, beginning with ``place``, for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise InputError(f"{place} must be a rate in [0, 1], got {value!r}")
    return float(value)


def _single_turn_solved(row: Row, where: str) -> bool:
    verdicts: list[Any] = require(row, "exec_results", list, where)
    if not verdicts:
        raise InputError(f"{where}: field 'exec_results' holds no verdicts")
    for s, verdict in enumerate(verdicts):
        place = f"{where}: exec_results[{s}]"
        passing = verdict.get("passing") if isinstance(verdict, Mapping) else None
        if not isinstance(passing, list) or not passing or not all(isinstance(p, bool) for p in passing):
            raise InputError(f"{place}: 'passing' must be a list of at least one true or false")
        if verdict.get("status") == "infra_error":
            raise InputError(f"{place} is an infra_error, not a verdict: run the single-turn stage again")
    return all_solved(verdicts)
