"""What the model is told after each program: the truth, or, in control experiments, something else."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from cobalt.errors import InfraError, InputError
from cobalt.prompts import Prompts


class Place(NamedTuple):
    """One program of a run: position of its task among the rows, sample and turn, each from 0."""

    task: int
    sample: int
    turn: int


class FeedbackPolicy:
    """The honest policy, and the base of the others: decides which feedback message follows a program.

    `name` stands in the manifest. A policy with `whole_batch` waits for other tasks, so all tasks must be in
    flight at once; the runner sees to that.
    """

    name = "honest"
    whole_batch = False

    async def message(self, place: Place, honest: str) -> str:
        """The message to show at `place`, where `honest` would be true."""
        return honest

    def abort(self, error: Exception) -> None:
        """A task has failed: release whoever waits for it."""


class BlankFeedback(FeedbackPolicy):
    """A feedback message without feedback, whether the program passed or not."""

    name = "blank"

    def __init__(self, prompts: Prompts) -> None:
        self._message = prompts.feedback_message("")

    async def message(self, place: Place, honest: str) -> str:
        return self._message


class OtherTaskFeedback(FeedbackPolicy):
    """The honest message of another task, for the same sample and turn: tasks are shifted by a third of the
    rows.

    `tasks`: how many rows the run has. Raises InputError for fewer than two.
    """

    name = "other"
    whole_batch = True

    def __init__(self, tasks: int) -> None:
        if tasks < 2:
            raise InputError("feedback of another task needs at least two tasks")
        self._tasks, self._shift = tasks, 1 + tasks // 3 if tasks > 2 else 1
        self._honest: dict[Place, asyncio.Future[str]] = {}
        self._failed: InfraError | None = None

    async def message(self, place: Place, honest: str) -> str:
        mine = self._at(place)
        if not mine.done():
            mine.set_result(honest)
        return await asyncio.shield(self._at(place._replace(task=(place.task + self._shift) % self._tasks)))

    def abort(self, error: Exception) -> None:
        self._failed = InfraError(f"another task failed, whose feedback was needed: {error}")
        for future in self._honest.values():
            if not future.done():
                future.set_exception(self._failed)

    def _at(self, place: Place) -> asyncio.Future[str]:
        if self._failed is not None and place not in self._honest:
            raise self._failed
        return self._honest.setdefault(place, asyncio.get_running_loop().create_future())
