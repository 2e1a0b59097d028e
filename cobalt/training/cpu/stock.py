"""What verl imports through ``external_lib`` where the GPU profile runs without GPUs (``gpu_on_cpu``).

verl's own FSDP engine, unchanged but for features that only CUDA has, instead of the engine of the CPU
profile: one process can register only one of the two, so this is a module of its own.
"""

from __future__ import annotations

import sys
from typing import Any

from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl

from cobalt.training.verl_compat import (
    export_in_place,
    fsdp1_in_main_memory,
    let_cpu_engines_sleep,
    offload_without_pinning,
)


@EngineRegistry.register(model_type="language_model", backend=["fsdp", "fsdp2"], device="cpu")
class StockEngine(transformer_impl.FSDPEngineWithLMHead):
    """Both strategies of FSDP in main memory, with gloo."""

    def _build_fsdp_module(self, module: Any) -> Any:
        with offload_without_pinning(transformer_impl), fsdp1_in_main_memory():
            return super()._build_fsdp_module(module)


export_in_place()
if "vllm" in sys.modules:  # the server actor, which asks before it starts its engine
    let_cpu_engines_sleep()
