"""Figures in words, the same on every terminal and page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

Ends = Sequence[float | None]
_BY = ("ci95", "ci95_group", "ci95_by_structure")


def percent(rate: float | None, digits: int = 1) -> str:
    """A fraction as a percentage."""
    return "n/a" if rate is None else f"{100 * rate:.{digits}f}"


def interval(ends: Ends, scale: float = 1.0, *, digits: int = 1, sign: bool = False, none: str = "") -> str:
    """[lo, hi], both times `scale`; `none` where it is not defined."""
    lo, hi = ends
    if lo is None or hi is None:
        return none
    plus = "+" if sign else ""
    return f"[{scale * lo:{plus}.{digits}f}, {scale * hi:{plus}.{digits}f}]"


def rate(value: float | None, ends: Ends, digits: int = 1) -> str:
    """41.2 [37.0, 45.4], in percent."""
    return f"{percent(value, digits)} {interval(ends, 100, digits=digits)}".strip()


def half_width(value: float | None, ends: Ends) -> str:
    """41.2 ± 4.2, in percent, with half of the interval."""
    lo, hi = ends
    if value is None or lo is None or hi is None:
        return percent(value)
    return f"{percent(value)} ± {50 * (hi - lo):.1f}"


def quoted(difference: Mapping[str, Any]) -> Ends:
    """The one interval that is shown of a difference: the wider of those by task and by group of tasks."""
    known = [ends for name in _BY if None not in (ends := difference.get(name) or [None, None])]
    return max(known, key=lambda ends: ends[1] - ends[0], default=[None, None])


def points(difference: Mapping[str, Any], digits: int = 1) -> str:
    """+35.1 [+30.5, +40.1], of a difference in points."""
    if difference["points"] is None:
        return "n/a"
    ends = interval(quoted(difference), digits=digits, sign=True)
    return f"{difference['points']:+.{digits}f} {ends}".strip()


def tone(difference: Mapping[str, Any]) -> str:
    """better, worse or unclear: where the interval that is shown lies."""
    lo, hi = quoted(difference)
    if lo is None or hi is None:
        return "unclear"
    return "better" if lo > 0 else "worse" if hi < 0 else "unclear"


def p_value(value: float | None, digits: int = 3) -> str:
    """0.012, or <0.001 where that is all that can be shown."""
    least = 10**-digits
    return "n/a" if value is None else f"<{least:.{digits}f}" if value < least else f"{value:.{digits}f}"
