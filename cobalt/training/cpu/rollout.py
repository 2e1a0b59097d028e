"""Rollout ``cobalt_cpu``: what verl expects of an engine, where the trainer's process samples itself.

The batch path (cobalt.training.cpu.batch) samples with the training worker's weights, which are on their way
in one file, replaced at every step. No server is started.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica

from cobalt.engines.sampler import BatchSampler
from cobalt.errors import InfraError
from cobalt.training.leftovers import MARK


def load_sampler(model_path: str, tokenizer: Any, max_context: int) -> tuple[BatchSampler, WeightsReader]:
    """A sampler in fp32 and the reader that keeps its weights up to date."""
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model = AutoModelForCausalLM.from_pretrained(
        model_path, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    return BatchSampler(model, tokenizer, max_context), WeightsReader(model)


def _weights_file() -> Path:
    return Path(os.environ[MARK]) / "weights.safetensors"


class WeightsReader:
    """Loads published weights into a model when there are new ones."""

    def __init__(self, model: Any) -> None:
        self.model, self.step = model, 0
        self._seen: tuple[int, int] | None = None

    def refresh(self) -> int:
        """Bring the model up to date and return the training step of its weights.

        Raises InfraError if nothing was published yet or the names do not match.
        """
        from safetensors import safe_open

        try:
            status = _weights_file().stat()
        except FileNotFoundError:
            raise InfraError("no weights were published before sampling") from None
        if (status.st_ino, status.st_mtime_ns) == self._seen:
            return self.step
        with safe_open(_weights_file(), framework="pt") as file:
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            self.step = int(file.metadata()["step"])
        result = self.model.load_state_dict(state, strict=False)
        tied = {"lm_head.weight"} if self.model.config.tie_word_embeddings else set()
        if set(result.missing_keys) - tied or result.unexpected_keys:
            raise InfraError(f"weights: missing {result.missing_keys}, unexpected {result.unexpected_keys}")
        self._seen = (status.st_ino, status.st_mtime_ns)
        return self.step


class NoServer:
    """Stands for the server: every call is done at once."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    async def remote(self, *_: Any, **__: Any) -> None:
        return None


class CpuReplica(RolloutReplica):
    """The one replica, without a server."""

    async def launch_servers(self) -> None:
        self.servers, self._server_address = [NoServer()], "in the trainer"


class CpuRollout(BaseRollout):
    """Lives in the training worker and publishes new weights."""

    async def resume(self, tags: list[str]) -> None:
        """Nothing to resume."""

    async def release(self) -> None:
        """Nothing to release."""

    async def update_weights(
        self,
        weights: Iterable[tuple[str, torch.Tensor]],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        **_: Any,
    ) -> None:
        """Write ``(name, tensor)`` pairs as the weights after a training step, atomically."""
        from safetensors.torch import save_file

        if wire_format != "named_tensors":
            raise NotImplementedError(wire_format)
        tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in weights}
        target = _weights_file()
        temporary = target.with_suffix(".tmp")
        save_file(tensors, temporary, metadata={"step": str(global_steps or 0)})
        os.replace(temporary, target)
