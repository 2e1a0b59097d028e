"""Devices, and whether a model fits on them."""

from __future__ import annotations

from dataclasses import dataclass

from cobalt.errors import InputError
from cobalt.plan.assumptions import GPUS, Assumptions
from cobalt.plan.models import Model


class DoesNotFit(InputError):
    """The model does not fit on the devices."""


@dataclass(frozen=True)
class Device:
    """``gpus`` devices of one kind with a model of billions of parameters on each group of ``together``."""

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
    if kind != "cpu" and kind not in GPUS:
        raise InputError(f"there is no GPU kind '{kind}'; known: {', '.join(GPUS)}")
    tflops, bandwidth, memory = (
        a[f"gpu.{kind}.{what}"] for what in ("tflops", "bandwidth_gb_s", "memory_gb")
    )
    weights = model.params_b * a["sampling.weight_bytes"]
    cache = model.cache_mb(a["sampling.weight_bytes"]) * longest / 1e6
    reserve = 0.0 if kind == "cpu" else a["sampling.reserve_gb"]
    together = 1
    while together * 2 <= min(least, gpus):
        together *= 2
    while together * (memory * share - reserve) < weights + cache:
        together *= 2
        if together > gpus or memory * share <= reserve:
            raise DoesNotFit(
                f"{model.name} ({weights:.1f} GB of weights, {cache:.2f} GB of cache for one sequence) does "
                f"not fit on {gpus} x {kind} ({memory:g} GB each): give more or larger GPUs"
            )
    return Device(kind, gpus, model, together, tflops, bandwidth, memory)
