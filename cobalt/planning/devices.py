"""How long a device takes to read prompts and to decode, and whether a model fits.

Decoding is bound by memory: a step reads all weights and the cache of all sequences under way, so the batch
is what the memory left over holds. A stage decodes with full batches until no request waits, then with fewer
and fewer sequences until the longest has ended.
"""

from __future__ import annotations

from dataclasses import dataclass

from cobalt.errors import InputError
from cobalt.planning.arithmetic import Sheet
from cobalt.planning.assumptions import GPUS, Assumptions
from cobalt.planning.lengths import Response
from cobalt.planning.models import Model

_SMALL_B = 0.01  # billions of parameters below which a CPU's time is Python's, not the memory's


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


@dataclass(frozen=True)
class Job:
    """Requests to one model: ``chain`` completions follow each other in each of ``dialogues``.

    ``prompt``: mean tokens of a prompt; ``computed``: prompt tokens in all that are not in a prefix cache;
    ``concurrency``: completions in flight; ``memory_share`` of a GPU's memory for weights and caches.
    """

    dialogues: float
    chain: float
    prompt: float
    computed: float
    response: Response
    concurrency: float
    memory_share: float


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


def sample(sheet: Sheet, a: Assumptions, on: Device, job: Job) -> float:
    """Seconds that a stage's prompts and completions take."""
    completions = job.dialogues * job.chain
    if on.kind == "cpu" and on.model.params_b < _SMALL_B:
        return sheet.put(
            "sampling on the CPU", "completions * mean_response / tokens_per_s", "s",
            completions=completions, mean_response=job.response.mean,
            tokens_per_s=a["sampling.measured_tokens_per_s"] or a["sampling.cpu_tokens_per_s"],
        )  # fmt: skip
    reading = _read(sheet, a, on, job)
    if a["sampling.measured_tokens_per_s"]:
        return sheet.put(
            "sampling at the measured rate", "completions * mean_response / (replicas * tokens_per_s)", "s",
            completions=completions, mean_response=job.response.mean, replicas=on.replicas,
            tokens_per_s=a["sampling.measured_tokens_per_s"],
        )  # fmt: skip
    return _decode(sheet, a, on, job, reading)


def _read(sheet: Sheet, a: Assumptions, on: Device, job: Job) -> float:
    speed = sheet.put(
        "reading speed of a replica",
        "gpus_of_a_replica * TFLOPs * share * 1000 / "
        "(2 * params_B + 2 * layers * heads * head_dim * prompt / 1e9)",
        "tokens/s", gpus_of_a_replica=on.together, TFLOPs=on.tflops, share=a["sampling.prefill_share"],
        params_B=on.model.params_b, layers=on.model.layers, heads=on.model.heads, head_dim=on.model.head_dim,
        prompt=job.prompt,
    )  # fmt: skip
    return sheet.put(
        "reading prompts", "tokens / (replicas * speed)", "s",
        tokens=job.computed, replicas=on.replicas, speed=speed,
    )  # fmt: skip


def _decode(sheet: Sheet, a: Assumptions, on: Device, job: Job, reading: float) -> float:
    weight_bytes, made = a["sampling.weight_bytes"], job.response
    free = sheet.put(
        "memory for caches of a replica", "gpus * (GB * share - reserve) - params_B * weight_bytes", "GB",
        gpus=on.together, GB=on.memory, share=job.memory_share, reserve=a["sampling.reserve_gb"],
        params_B=on.model.params_b, weight_bytes=weight_bytes,
    )  # fmt: skip
    cache = sheet.put(
        "cache of a sequence", "2 * layers * kv_heads * head_dim * bytes * (prompt + so_far) / 1e9", "GB",
        layers=on.model.layers, kv_heads=on.model.kv_heads, head_dim=on.model.head_dim, bytes=weight_bytes,
        prompt=job.prompt, so_far=made.live,
    )  # fmt: skip
    dialogues = job.dialogues / on.replicas
    flight = max(1.0, job.concurrency / on.replicas)
    batch = sheet.put(
        "sequences at once of a replica",
        "min(max(1, floor(free / cache)), sequences, in_flight, dialogues)", "",
        free=free, cache=cache, sequences=a["sampling.sequences"], in_flight=flight, dialogues=dialogues,
    )  # fmt: skip
    # A chain of turns is as one long response, but only one of its completions is in the cache at a time.
    longest = made.longest(job.dialogues * job.chain) + (job.chain - 1) * made.mean
    full = sheet.put(
        "steps with full batches", "max(0, dialogues / batch - 1) * turns * mean_response", "steps",
        dialogues=dialogues, batch=batch, turns=job.chain, mean_response=made.mean,
    )  # fmt: skip
    few = sheet.put(
        "mean batch while the last end", "batch * turns * mean_response / longest", "",
        batch=batch, turns=job.chain, mean_response=made.mean, longest=longest,
    )  # fmt: skip
    times = [
        sheet.put(
            f"a step with {said}",
            "1000 * max((params_B * weight_bytes + batch * cache) / (gpus * GB_per_s * reached), "
            "batch * 2 * params_B / (gpus * TFLOPs * share * 1000)) + step_ms",
            "ms", params_B=on.model.params_b, weight_bytes=weight_bytes, batch=size, cache=cache,
            gpus=on.together, GB_per_s=on.bandwidth, reached=a["sampling.bandwidth_share"], TFLOPs=on.tflops,
            share=a["sampling.prefill_share"], step_ms=a["sampling.step_ms"],
        )
        for said, size in (("a full batch", batch), ("the last", few))
    ]  # fmt: skip
    return sheet.put(
        "sampling", "reading + (full_steps * full_ms + last_steps * last_ms) / 1000", "s",
        reading=reading, full_steps=full, full_ms=times[0], last_steps=longest, last_ms=times[1],
    )  # fmt: skip
