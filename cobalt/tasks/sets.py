"""Tasks by the name of their set: what `--tasks` takes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cobalt.prompts import Prompts
from cobalt.rows import INPUT_HELP, Raw, Row, Rows, open_rows, parsed
from cobalt.tasks import livecodebench
from cobalt.tasks.own import complete, complete_perturbed, is_perturbed

TINY, LIVECODEBENCH = "tiny", "livecodebench"
SET_HELP = (
    f"{INPUT_HELP}, or {TINY} (held-out tasks of the tiny family), {LIVECODEBENCH} (version 6, from the hub)"
)


class TaskSet(Rows):
    """The tasks of a source, each with all that the doors read: ready, perturbed, or of a LiveCodeBench
    release (`functional`: see `LcbSettings`).
    """

    def __init__(
        self, source: Rows, prompts: Prompts, functional: livecodebench.Functional = "stdin"
    ) -> None:
        super().__init__(source.name, source.paths, source.table, source.revision)
        self._prompts = prompts
        self._lcb = livecodebench.LcbSettings(functional=functional, prompts=prompts)

    def raw(self) -> Iterator[tuple[str, Raw]]:
        for where, raw in super().raw():
            yield where, self._task(parsed(raw, where), where)

    def _task(self, row: Row, where: str) -> Row:
        if "private_test_cases" in row:
            made = livecodebench.convert(row, where, self._lcb)
            assert not isinstance(made, str)  # no dates are left out
            return made
        if is_perturbed(row):
            task = complete_perturbed(row, where, self._prompts)
            return {"test_cases": task["hidden_test_cases"], **task}
        return complete(row, where, self._prompts)


def task_source(name: str) -> Rows:
    """The rows of the set that `--tasks` names: `tiny`, `livecodebench`, or what `open_rows` reads."""
    if name == TINY and not Path(name).exists():
        from cobalt.tasks import tiny

        return Rows(TINY, table=list(tiny.draw_tasks("heldout", tiny.TASKS["heldout"], 0)))
    if name == LIVECODEBENCH and not Path(name).exists():
        name = livecodebench.locate(livecodebench.HUB_NAME)
    return open_rows(name, ("test", "heldout", "validation", "dev", "train"))


def task_set(name: str, prompts: Prompts) -> TaskSet:
    """The tasks of that set."""
    return TaskSet(task_source(name), prompts)
