"""Extension of vLLM's worker where the GPU profile runs without GPUs: imported before the model is loaded.

Two things differ on vLLM's CPU build, and would hide whether weights arrive. Its linear layers pack each
weight once and replace the parameter by an empty tensor; here they keep it. And sleep does nothing; here
level 2 fills all parameters with NaN, as CUDA discards them: a weight that is not sent again shows at once.
"""

from __future__ import annotations

from typing import Any

import torch
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension
from vllm.model_executor.layers import utils as layers
from vllm.v1.worker import cpu_worker

from cobalt.training.verl_compat import expect_signature

expect_signature(layers, "dispatch_cpu_unquantized_gemm", ["layer", "remove_weight"], "vLLM 0.24.0")
expect_signature(cpu_worker.CPUWorker, "sleep", ["self", "level"], "vLLM 0.24.0")
expect_signature(cpu_worker.CPUWorker, "wake_up", ["self", "tags"], "vLLM 0.24.0")


def _keep_weight(layer: Any, remove_weight: bool) -> None:
    layer.cpu_linear = torch.nn.functional.linear


def _sleep(self: Any, level: int = 1) -> None:
    if level == 2:
        with torch.no_grad():
            for parameter in self.model_runner.model.parameters():
                parameter.fill_(float("nan"))


def _wake_up(self: Any, tags: list[str] | None = None) -> None:
    pass


layers.dispatch_cpu_unquantized_gemm = _keep_weight
cpu_worker.CPUWorker.sleep = _sleep
cpu_worker.CPUWorker.wake_up = _wake_up


class Worker(vLLMColocateWorkerExtension):
    """verl's own extension."""
