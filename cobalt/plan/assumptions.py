"""Every assumption of `cobalt plan`: name, default, unit and reason, from `assumptions.yaml`."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from cobalt.errors import InputError

TABLES: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
GPUS = tuple(kind for kind in TABLES["devices"] if kind != "cpu")
_SHARES = ("share", "mfu")  # names that end so are in [0, 1]
_DEVICE = {
    "tflops": "TFLOP/s, bf16, dense", "bandwidth_gb_s": "GB/s", "memory_gb": "GB (10^9 bytes)",
    "price_h": "USD per hour",
}  # fmt: skip


@dataclass(frozen=True)
class Assumption:
    """One number. ``source``: default, or where it was replaced."""

    name: str
    default: float
    unit: str
    reason: str
    source: str = "default"


def _table() -> dict[str, Assumption]:
    rows = [Assumption(name, *row) for name, row in TABLES["assumptions"].items()]
    for kind, values in TABLES["devices"].items():
        spec = "two cores of a server, fp32; not measured" if kind == "cpu" else "the maker's data sheet"
        rent = "order of magnitude of hourly rents in 2025; give yours" if values[-1] else "your own machine"
        for (what, unit), value in zip(_DEVICE.items(), values, strict=True):
            reason = rent if what == "price_h" else spec
            rows.append(Assumption(f"gpu.{kind}.{what}", value, unit, reason))
    return {row.name: row for row in rows}


@dataclass
class Assumptions:
    """All assumptions; ``assumptions[name]`` is a value and notes that it was used."""

    rows: dict[str, Assumption] = field(default_factory=_table)
    used: dict[str, Assumption] = field(default_factory=dict)

    def __getitem__(self, name: str) -> float:
        self.used[name] = self.rows[name]
        return self.rows[name].default

    def replaced(self, texts: Sequence[str]) -> Assumptions:
        """A copy with the values of ``--assume NAME=VALUE``.

        Raises InputError for another text, an unknown name or a value out of range.
        """
        rows = dict(self.rows)
        for text in texts:
            name, _, given = text.partition("=")
            try:
                value = float(given)
            except ValueError:
                raise InputError(f"--assume {text}: give NAME=NUMBER, as in training.mfu=0.4") from None
            if name not in rows:
                near = difflib.get_close_matches(name, rows, n=1, cutoff=0.5)
                advice = f"did you mean '{near[0]}'?" if near else "--list_assumptions shows all"
                raise InputError(f"--assume {text}: there is no assumption '{name}'; {advice}")
            most = 1.0 if name.endswith(_SHARES) else math.inf
            if not (0 <= value <= most and math.isfinite(value)):
                raise InputError(f"--assume {text}: must be at least 0 and at most {most:g}")
            rows[name] = replace(rows[name], default=value, source="--assume")
        return Assumptions(rows)
