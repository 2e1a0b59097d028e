"""Exceptions raised by Cobalt.

Two families matter to a caller: `InputError` says that what the user gave cannot be used (a door
exits with code 2 and has changed nothing), `InfraError` says that a part of Cobalt failed (code 1).
A wrong answer by a model is neither: it is data.
"""

from collections.abc import Iterable


class CobaltError(Exception):
    """Base of every error that Cobalt raises on purpose; its text is meant for the user."""


class InputError(CobaltError):
    """Input that cannot be used: a path, a row, a flag. Doors exit with code 2."""


class BadRequest(InputError):
    """An evaluator request of the wrong shape (missing or unequal lists, wrong types, over the limit)."""


class SettingsChanged(InputError):
    """An output was begun under other settings, so continuing it would mix two experiments."""


class InfraError(CobaltError):
    """An engine, evaluator or disk failed. Never to be counted as a wrong answer. Doors exit with code 1."""


def did_you_mean(name: object, known: Iterable[object], otherwise: str = "", cutoff: float = 0.6) -> str:
    """ "did you mean 'X'?" with the known name that is most like ``name``; ``otherwise`` where none is."""
    import difflib

    near = difflib.get_close_matches(str(name), map(str, known), n=1, cutoff=cutoff)
    return f"did you mean '{near[0]}'?" if near else otherwise
