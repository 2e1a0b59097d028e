"""Every assumption of `cobalt plan`: name, default, unit and reason, from `assumptions.yaml`.

What was used, and from where (default, ``--assume``, a measured file), is part of the plan.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from cobalt.errors import InputError

TABLES: dict[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
GPUS = tuple(kind for kind in TABLES["devices"] if kind != "cpu")
LESS_THAN_ONE = ("share", "mfu")  # names that end so are in [0, 1]
# Numbers that are divided by, or whose logarithm is taken.
_POSITIVE = (
    "sigma", "_tokens", "characters_per_token", "tests", "tasks", "test_ms", "bandwidth_share", "mfu",
    "prefill_share", "memory_share", "weight_bytes", "pcie_gb_s", "sequences", "bytes_per_s",
    "cores", "cores_per_gpu", "provider.tokens_per_s", "cpu_tokens_per_s", "answer_characters", "tflops",
    "bandwidth_gb_s", "memory_gb",
)  # fmt: skip
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

    def replaced(self, values: Mapping[str, float], source: str) -> Assumptions:
        """A copy with other values. Raises InputError for an unknown name or a value out of range."""
        rows = dict(self.rows)
        for name, value in values.items():
            if name not in rows:
                near = difflib.get_close_matches(name, rows, n=1, cutoff=0.5)
                advice = f"; did you mean '{near[0]}'?" if near else ""
                raise InputError(
                    f"there is no assumption '{name}'{advice} (cobalt plan --list_assumptions shows all)"
                )
            positive = name.endswith(_POSITIVE)
            if not math.isfinite(value) or value < 0 or (positive and value == 0):
                least = "above 0" if positive else "at least 0"
                unit = rows[name].unit
                raise InputError(f"{source}: '{name}' must be {least}, got {value:g} (unit: {unit})")
            if name.rpartition(".")[2].endswith(LESS_THAN_ONE) and value > 1:
                raise InputError(f"{source}: '{name}' is a share and must be at most 1, got {value:g}")
            rows[name] = replace(rows[name], default=value, source=source)
        return Assumptions(rows)


def parse(texts: list[str]) -> dict[str, float]:
    """Values of ``--assume name=value``. Raises InputError for other texts."""
    values = {}
    for text in texts:
        name, _, value = text.partition("=")
        try:
            values[name.strip()] = float(value)
        except ValueError:
            raise InputError(f"--assume {text!r}: give NAME=NUMBER, as in training.mfu=0.4") from None
    return values


def listing(assumptions: Assumptions) -> str:
    """All assumptions as text."""
    return "\n".join(
        f"{row.name} = {row.default:g} {row.unit}  ({row.reason if row.source == 'default' else row.source})"
        for row in assumptions.rows.values()
    )
