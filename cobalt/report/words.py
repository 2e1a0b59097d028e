"""Figures in words, the same on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CONTROLS = {
    "single_turn_training": "trained on first turns only, as many completions",
    "blank_feedback": "trained model, feedback blanked",
    "other_feedback": "trained model, feedback of another task",
    "best_of_turns": "reference, best of {turns} independent programs by public tests",
}
SLOTS = {
    "constant": "constant",
    "rearrangement": "rearrangement",
    "format": "output format",
    "nothing": "nothing",
}


TRAINED = {"cobalt": "Cobalt", "cobalt_ptb": "Cobalt-PTB"}  # by recipe; others are called as they are


def trained_name(results: Mapping[str, Any]) -> str:
    """What the trained model of a run is called."""
    recipe = Path(str(results.get("recipe", "cobalt"))).stem
    return TRAINED.get(recipe, recipe)


def percent(rate: float | None) -> str:
    """A fraction as a percentage with one decimal."""
    return "n/a" if rate is None else f"{100 * rate:.1f}"


def interval(ends: Sequence[float | None], scale: float = 1.0, sign: bool = False) -> str:
    """[lo, hi], both times `scale`; empty where it is not defined."""
    lo, hi = ends
    if lo is None or hi is None:
        return ""
    shape = "{:+.1f}" if sign else "{:.1f}"
    return f"[{shape.format(scale * lo)}, {shape.format(scale * hi)}]"


def points(gain: Mapping[str, Any], ends: str = "ci95") -> str:
    """+35.1 [+30.5, +40.1]"""
    return f"{gain['points']:+.1f} {interval(gain[ends], sign=True)}".strip()


def verdict(gain: Mapping[str, Any]) -> str:
    """better, worse or unclear: where the interval by task lies."""
    lo, hi = gain["ci95"]
    if lo is None or hi is None:
        return "unclear"
    return "better" if lo > 0 else "worse" if hi < 0 else "unclear"


def control_name(name: str, turns: int) -> str:
    """What a control is."""
    return CONTROLS.get(name, name.replace("_", " ")).format(turns=turns)


def slot_name(row: Mapping[str, Any]) -> str:
    """The tasks a row of the slot table is about."""
    name = SLOTS.get(row["slot"], row["slot"])
    if row["slot"] == "nothing":
        return "nothing vague"
    return f"{name} vague" if row["kind"] == "also" else f"only {name} vague"


def headline(results: Mapping[str, Any]) -> str:
    """The finding in one sentence."""
    turn = results["turns"]
    before, after = (results["pass_at_1"][name][-1] for name in ("reference", "cobalt"))
    gain = points(results["final_turn_gain"])
    return (
        f"Pass@1 at turn {turn} on {results['tasks']} held-out tasks: {percent(before)} % before, "
        f"{percent(after)} % after training, {gain} points (95 % interval by task)."
    )
