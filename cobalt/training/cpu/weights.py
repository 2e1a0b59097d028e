"""Weights on their way from the training worker to the samplers: one file, replaced at every step."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError
from cobalt.training.leftovers import MARK


def weights_file() -> Path:
    """Raises InfraError outside a training that the launcher started."""
    if MARK not in os.environ:
        raise InfraError(f"{MARK} is not set: start the training through cobalt.training.launch")
    return Path(os.environ[MARK]) / "weights.safetensors"


def publish(weights: Iterable[tuple[str, Any]], step: int | None) -> None:
    """Write ``(name, tensor)`` pairs as the weights after training step ``step``, atomically."""
    from safetensors.torch import save_file

    tensors = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in weights}
    target = weights_file()
    temporary = target.with_suffix(".tmp")
    save_file(tensors, temporary, metadata={"step": str(step or 0)})
    os.replace(temporary, target)


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
            status = weights_file().stat()
        except FileNotFoundError:
            raise InfraError("no weights were published before sampling") from None
        if (status.st_ino, status.st_mtime_ns) == self._seen:
            return self.step
        with safe_open(weights_file(), framework="pt") as file:
            state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
            self.step = int(file.metadata()["step"])
        result = self.model.load_state_dict(state, strict=False)
        tied = {"lm_head.weight"} if self.model.config.tie_word_embeddings else set()
        if set(result.missing_keys) - tied or result.unexpected_keys:
            raise InfraError(f"weights: missing {result.missing_keys}, unexpected {result.unexpected_keys}")
        self._seen = (status.st_ino, status.st_mtime_ns)
        return self.step
