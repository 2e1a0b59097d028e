"""verl's FSDP2 engine on CPU, with prompts computed once per group."""

from __future__ import annotations

from typing import Any

import torch
import verl.utils.torch_functional as verl_functional
from torch.nn.functional import cross_entropy
from verl.utils import tensordict_utils
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl

from cobalt.engines.prefix_cache import supports
from cobalt.training.cpu.sharing import pack, pays
from cobalt.training.verl_compat import offload_without_pinning

_NOT_SHARED = (
    "use_remove_padding",
    "use_fused_kernels",
    "distillation_use_topk",
    "calculate_sum_pi_squared",
)


@EngineRegistry.register(model_type="language_model", backend="fsdp2", device="cpu")
class CpuFSDPEngine(transformer_impl.FSDPEngineWithLMHead):
    """The stock engine but for two things.

    Pinned memory, a CUDA feature, is off for the reference model. And the completions of a group share their
    prompt's forward and backward pass (cobalt.training.cpu.sharing) where the model computes plain causal
    attention; log-probabilities of prompt tokens, which no loss reads, are then 0.
    """

    def _build_fsdp_module(self, module: Any) -> Any:
        with offload_without_pinning(transformer_impl):
            return super()._build_fsdp_module(module)

    def prepare_model_inputs(self, micro_batch: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        if not self._can_share(micro_batch):
            return super().prepare_model_inputs(micro_batch)
        prompts, responses = micro_batch["prompts"].unbind(), micro_batch["responses"].unbind()
        packed = pack(prompts, responses, pad_id=0, share=pays(prompts, responses))
        inputs = {
            "input_ids": packed.ids,
            "attention_mask": packed.mask,
            "position_ids": packed.positions,
        }
        return inputs, {"packed": packed}

    def prepare_model_outputs(
        self, output: Any, output_args: dict[str, Any], micro_batch: Any, logits_processor_func: Any
    ) -> dict[str, Any]:
        packed = output_args.get("packed")
        if packed is None:
            return super().prepare_model_outputs(output, output_args, micro_batch, logits_processor_func)
        logits = output.logits.flatten(0, 1)[packed.source]
        temperature = micro_batch["temperature"]
        if isinstance(temperature, torch.Tensor):
            logits = logits / temperature[packed.row].clamp(min=1e-8).unsqueeze(-1)
        elif temperature != 1.0:
            logits = logits / max(float(temperature), 1e-8)
        # verl's logprobs_from_logits saves memory by a Python loop over tokens: slower than all the rest
        results = {"log_probs": -cross_entropy(logits, packed.target, reduction="none")}
        if tensordict_utils.get_non_tensor_data(micro_batch, key="calculate_entropy", default=False):
            results["entropy"] = verl_functional.entropy_from_logits(logits)
        offsets = micro_batch["input_ids"].offsets()
        return {
            name: torch.nested.nested_tensor_from_jagged(
                values.new_zeros(int(offsets[-1])).index_put((packed.place,), values), offsets
            )
            for name, values in results.items()
        }

    def _can_share(self, micro_batch: Any) -> bool:
        flags = (
            tensordict_utils.get_non_tensor_data(micro_batch, key=key, default=False) for key in _NOT_SHARED
        )
        return (
            "prompts" in micro_batch
            and "responses" in micro_batch
            and micro_batch["position_ids"].dim() == 2
            and supports(self.model_config.hf_config)
            and self.model_config.hf_config._attn_implementation == "sdpa"
            and not any(flags)
        )
