"""What a plan assumes, from `assumptions.yaml`: numbers with unit and reason, shapes of models, devices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import yaml

from cobalt.errors import InputError, did_you_mean
from cobalt.training.memory import Sizes, sizes

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
                advice = did_you_mean(name, rows, "--list_assumptions shows all", 0.5)
                raise InputError(f"--assume {text}: there is no assumption '{name}'; {advice}")
            most = 1.0 if name.endswith(_SHARES) else math.inf
            if not (0 <= value <= most and math.isfinite(value)):
                raise InputError(f"--assume {text}: must be at least 0 and at most {most:g}")
            rows[name] = replace(rows[name], default=value, source="--assume")
        return Assumptions(rows)

    def with_value(self, name: str, value: float, source: str) -> Assumptions:
        """A copy with one number, and where it comes from."""
        return Assumptions(self.rows | {name: replace(self.rows[name], default=value, source=source)})


class DoesNotFit(InputError):
    """The model does not fit on the devices."""


@dataclass(frozen=True)
class Model(Sizes):
    """A dense decoder by name, its sizes as the published ``config.json`` gives them."""

    name: str

    @property
    def params_b(self) -> float:
        """Billions of parameters with embeddings, without norms."""
        return self.parameters / 1e9


KNOWN = {name: Model(*[*row, name]) for name, row in TABLES["models"].items()}


def shape(name: str, folder: Path | None = None) -> Model:
    """The shape of a model by its hub name, or from ``config.json`` in ``folder``.

    Raises InputError for a name that is not in the table and no folder.
    """
    if folder is not None and (folder / "config.json").is_file():
        found = sizes(folder)
        if found is None:
            raise InputError(f"{folder / 'config.json'}: sizes of a dense decoder are missing")
        return Model(**asdict(found), name=folder.name)
    if name in KNOWN:
        return KNOWN[name]
    advice = did_you_mean(name, KNOWN, f"known: {', '.join(KNOWN)}", 0.5)
    raise InputError(
        f"the shape of model '{name}' is not known; {advice} (or give a folder with its config.json)"
    )


@dataclass(frozen=True)
class Device:
    """``gpus`` of one kind (TFLOP/s, GB/s, GB each); every ``together`` of them hold the model once."""

    kind: str
    gpus: int
    model: Model
    together: int
    tflops: float
    bandwidth: float
    memory: float

    @property
    def replicas(self) -> int:
        """Independent samplers."""
        return self.gpus // self.together


def device(
    a: Assumptions, kind: str, gpus: int, model: Model, longest: float, share: float, least: int = 1
) -> Device:
    """The device with the fewest GPUs per replica (``least``, if there are so many) that hold the model and
    one sequence of ``longest`` tokens in a ``share`` of their memory.

    Raises InputError for an unknown kind, DoesNotFit if all GPUs together are too small.
    """
    if kind not in ("cpu", *GPUS):
        raise InputError(f"there is no GPU kind '{kind}'; known: {', '.join(GPUS)}")
    tflops, bandwidth, memory = (
        a[f"gpu.{kind}.{what}"] for what in ("tflops", "bandwidth_gb_s", "memory_gb")
    )
    value_bytes = a["sampling.weight_bytes"]
    weights = model.params_b * value_bytes
    cache = 2 * model.layers * model.kv_heads * model.head_dim * value_bytes * longest / 1e9
    free = memory * share - (0.0 if kind == "cpu" else a["sampling.reserve_gb"])
    together = 1
    while together * 2 <= min(least, gpus):
        together *= 2
    while together * free < weights + cache:
        together *= 2
        if together > gpus:
            raise DoesNotFit(
                f"{model.name} ({weights:.1f} GB of weights, {cache:.2f} GB of cache for one sequence) does "
                f"not fit on {gpus} x {kind} ({memory:g} GB each): give more or larger GPUs"
            )
    return Device(kind, gpus, model, together, tflops, bandwidth, memory)
