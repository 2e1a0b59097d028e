"""Which trajectories become contexts, and where they are cut: a rule, built in or the user's own."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from cobalt.contexts.trajectories import Trajectories
from cobalt.errors import InputError
from cobalt.own import Own, absolute, fault_in, load
from cobalt.schema import Message

BUILT_IN = "cobalt.recipes.cobalt:contexts"
OFFERED = ("task", "count_tokens", "draw", "validation", "max_prompt_tokens", "note")

Count = Callable[[Sequence[Message]], int]


def open_rule(
    spec: str | None, setting: str, constants: Mapping[str, Any] | None = None, *, tried: bool = False
) -> Own | None:
    """The rule that a ``setting`` names; None where ``spec`` is None. ``tried``: also on a made-up task.

    Raises InputError, with ``file:line``, where it cannot be loaded or fails.
    """
    if spec is None:
        return None
    rule = load(absolute(spec, Path.cwd()), setting, OFFERED, constants=constants)
    if tried:
        list(cuts(rule, _made_up(), "a made-up task", random.Random(0), len, 1000))
    return rule


def cuts(
    rule: Own,
    task: Trajectories,
    where: str,
    draw: random.Random,
    count_tokens: Count,
    max_prompt_tokens: int,
    *,
    validation: bool = False,
    note: Callable[[int, str], None] = lambda sample, reason: None,
) -> Iterator[tuple[int, int]]:
    """(sample, programs shown) of every context of a task, by ``rule``; 0 programs: the statement alone.

    Raises InputError, with ``where`` and the rule's ``file:line``, if it raises or gives what there is not: a
    sample or number of programs out of range, one without a verdict, the same context twice, another type.
    """
    found: set[tuple[int, int]] = set()

    def bad(what: str) -> InputError:
        return InputError(f"{where}: {rule.where}: {rule.setting}={rule.spec}: {what}")

    try:
        given = rule(
            task=task, count_tokens=count_tokens, draw=draw, validation=validation,
            max_prompt_tokens=max_prompt_tokens, note=note,
        )  # fmt: skip
        for each in given:
            cut = _pair(each)
            if cut is None:
                raise bad(f"must give pairs (sample, programs shown) of whole numbers, got {each!r:.80}")
            sample, programs = cut
            if not 0 <= sample < len(task.conversations):
                raise bad(f"there is no sample {sample} of {len(task.conversations)}")
            there, rates = len(task.conversations[sample]) // 2 - 1, task.rates[sample]
            if not 0 <= programs <= there:
                raise bad(f"sample {sample} cannot show {programs} of its {there} programs")
            if programs and rates is None:
                raise bad(f"sample {sample} has a program without a verdict (its task.rates are None)")
            if (place := cut if programs else (0, 0)) in found:  # statements are the same in all samples
                raise bad(f"gives sample {sample} with {programs} programs twice")
            found.add(place)
            yield cut
    except InputError:
        raise
    except Exception as error:
        raise InputError(f"{where}: {fault_in(rule, error)}") from error


def _pair(each: Any) -> tuple[int, int] | None:
    try:
        sample, programs = each
        pair = operator.index(sample), operator.index(programs)
    except (TypeError, ValueError):
        return None
    return None if isinstance(sample, bool) or isinstance(programs, bool) else pair


def _made_up() -> Trajectories:
    """Three samples of three, two and one programs; the last has no verdict."""
    rates: list[list[float] | None] = [[0.0, 0.5, 1.0], [0.5, 0.5], None]
    opening = [{"role": "system", "content": "Write a program."}, {"role": "user", "content": "Add one."}]
    said = [{"role": "assistant", "content": "```python\n1\n```"}, {"role": "user", "content": "It failed."}]
    dialogues: list[Any] = [opening + said * turns for turns in (3, 2, 1)]
    tests = '{"inputs": ["1\\n", "2\\n"], "outputs": ["2\\n", "3\\n"]}'
    return Trajectories("made up", "EASY", tests, dialogues, rates, False, True, True)
