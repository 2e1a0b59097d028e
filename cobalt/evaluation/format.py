"""Figures in words, the same on every terminal and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cobalt.stats import MIN_CLUSTERS

CANNOT_TELL = "cannot tell"  # what has no interval, p value or power, because it rests on too little
Ends = Sequence[float | None]
_BY = ("ci95", "ci95_group", "ci95_by_structure")


def percent(rate: float | None, digits: int = 1) -> str:
    """A fraction as a percentage."""
    return "n/a" if rate is None else f"{100 * rate:.{digits}f}"


def interval(ends: Ends, scale: float = 1.0, *, digits: int = 1, sign: bool = False) -> str:
    """[lo, hi], both times `scale`; [cannot tell] where it is not defined (None or nan)."""
    lo, hi = ends
    if lo is None or hi is None or lo != lo:
        return f"[{CANNOT_TELL}]"
    plus = "+" if sign else ""
    return f"[{scale * lo:{plus}.{digits}f}, {scale * hi:{plus}.{digits}f}]"


def rate(value: float | None, ends: Ends, digits: int = 1) -> str:
    """41.2 [37.0, 45.4], in percent."""
    if value is None:
        return percent(value)
    return f"{percent(value, digits)} {interval(ends, 100, digits=digits)}"


def rates(table: Mapping[str, Any]) -> list[str]:
    """`rate` of every turn."""
    return list(map(rate, table["pass_at_1"], table["ci95"]))


def quoted(difference: Mapping[str, Any]) -> Ends:
    """The one interval that is shown of a difference: the wider of those by task and by group of tasks."""
    known = [ends for name in _BY if None not in (ends := difference.get(name) or [None, None])]
    return max(known, key=lambda ends: ends[1] - ends[0], default=[None, None])


def shown(summary: Mapping[str, Any]) -> list[Ends]:
    """`quoted` of the Pass@1 of every turn of an evaluation's statistics."""
    pairs = zip(summary["ci95"], summary.get("ci95_group") or summary["ci95"], strict=True)
    return [quoted({"ci95": task, "ci95_group": group}) for task, group in pairs]


def points(difference: Mapping[str, Any], digits: int = 1) -> str:
    """+35.1 [+30.5, +40.1], of a difference in points."""
    if difference["points"] is None:
        return "n/a"
    return f"{difference['points']:+.{digits}f} {interval(quoted(difference), digits=digits, sign=True)}"


def tone(difference: Mapping[str, Any]) -> str:
    """better, worse or unclear: where the interval that is shown lies."""
    lo, hi = quoted(difference)
    if lo is None or hi is None:
        return "unclear"
    return "better" if lo > 0 else "worse" if hi < 0 else "unclear"


def p_value(value: float | None, digits: int = 3) -> str:
    """0.012, or <0.001 where that is all that can be shown."""
    if value is None:
        return CANNOT_TELL
    least = 10**-digits
    return f"<{least:.{digits}f}" if value < least else f"{value:.{digits}f}"


def detectable(difference: Mapping[str, Any]) -> str:
    """The true difference, in points, that would be found."""
    found = difference.get("detectable_points")
    return CANNOT_TELL if found is None else f"{found:.1f}"


def too_few(tasks: int, groups: int | None = None) -> list[str]:
    """What is to be said where there are too few tasks, or groups of tasks, to tell anything."""
    few = [
        f"{count} {what}: too few to tell{by}; intervals, p values and detectable differences need "
        f"{MIN_CLUSTERS}."
        for count, what, by in ((tasks, "tasks", ""), (groups, "groups", " by group"))
        if count is not None and count < MIN_CLUSTERS
    ]
    return few[:1]
