"""Shapes of models, and the devices that hold them."""

from __future__ import annotations

import difflib
from dataclasses import asdict, dataclass
from pathlib import Path

from cobalt.errors import InputError
from cobalt.plan.assumptions import GPUS, TABLES, Assumptions
from cobalt.training.sizes import Sizes, sizes


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
    near = difflib.get_close_matches(name, KNOWN, n=1, cutoff=0.5)
    advice = f"did you mean '{near[0]}'?" if near else f"known: {', '.join(KNOWN)}"
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
