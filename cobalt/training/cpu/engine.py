"""verl's FSDP2 engine on CPU."""

from __future__ import annotations

from typing import Any

from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl

from cobalt.training.private import offload_without_pinning


@EngineRegistry.register(model_type="language_model", backend="fsdp2", device="cpu")
class CpuFSDPEngine(transformer_impl.FSDPEngineWithLMHead):
    """The stock engine; only pinned memory, a CUDA feature, is switched off for the reference model."""

    def _build_fsdp_module(self, module: Any) -> Any:
        with offload_without_pinning(transformer_impl):
            return super()._build_fsdp_module(module)
