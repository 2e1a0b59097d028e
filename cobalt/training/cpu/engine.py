"""What verl imports through ``model.external_lib`` on CPU: engine and rollout.

The engine is verl's for FSDP2, where completions of one prompt share its computation; the rollout
``cobalt_cpu`` only publishes weights, in a file replaced at every step: the batch path samples itself.

A group of n completions is laid out as ``prompt, completion 1, ..., completion n``. A completion sees the
prompt and itself, and its positions go on from the prompt's end, so every log-probability and every gradient
is the same as from n separate sequences; with short completions most of the work is saved. (The idea is known
as prefix grouping or shared-prefix forward.)
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import verl.utils.torch_functional as verl_functional
from torch.nn.functional import cross_entropy
from verl.utils import tensordict_utils
from verl.workers.engine import EngineRegistry
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

from cobalt.engines.prefix_cache import supports
from cobalt.engines.sampler import BatchSampler
from cobalt.errors import InfraError
from cobalt.training.leftovers import MARK
from cobalt.training.verl_compat import offload_without_pinning, register_rollout

ROLLOUT = "cobalt_cpu"
LONG_RESPONSES = 3.0
_NOT_SHARED = (
    "use_remove_padding",
    "use_fused_kernels",
    "distillation_use_topk",
    "calculate_sum_pi_squared",
)


@dataclass(frozen=True)
class Packed:
    """A batch in the shared layout. G groups, L the longest group, N response tokens in all.

    ``ids``, ``positions`` [G, L]; ``mask`` [G, 1, L, L], True where attention is allowed; ``source`` [N]
    places (in the flattened [G * L]) whose logits predict the response tokens; ``target`` [N] those tokens;
    ``place`` [N] where a row-by-row layout (all rows' prompt and response tokens one after another) has the
    predicting tokens; ``row`` [N] the row of each. Response tokens are ordered by row, then by time.
    """

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    source: torch.Tensor
    target: torch.Tensor
    place: torch.Tensor
    row: torch.Tensor


def pays(prompts: Sequence[torch.Tensor], responses: Sequence[torch.Tensor]) -> bool:
    """Whether sharing prompts saves work: attention costs the square of a group, so it does not where
    responses are much longer than prompts, as dialogues are.
    """
    return sum(map(len, responses)) <= LONG_RESPONSES * sum(map(len, prompts))


def pack(
    prompts: Sequence[torch.Tensor], responses: Sequence[torch.Tensor], pad_id: int, *, share: bool = True
) -> Packed:
    """Lay out rows; ``prompts[i]`` and ``responses[i]`` are the token ids of row i, on the CPU.

    Without ``share`` every row is a group of its own.
    """
    members: dict[tuple[int, ...], list[int]] = {}
    for row, prompt in enumerate(prompts):
        members.setdefault(tuple(prompt.tolist()) if share else (row,), []).append(row)
    groups = [(prompts[rows[0]].tolist(), rows) for rows in members.values()]
    lengths = [len(prompt) + sum(len(responses[row]) for row in rows) for prompt, rows in groups]
    width = max(lengths)
    ids = torch.full((len(groups), width), pad_id)
    positions = torch.zeros_like(ids)
    # Every token belongs to a block: 0 the prompt, k the k-th completion, -1 padding.
    block = torch.full_like(ids, -1)
    begins: list[tuple[int, int]] = [(0, 0)] * len(prompts)
    for group, (prompt, rows) in enumerate(groups):
        end = len(prompt)
        ids[group, :end] = torch.tensor(prompt)
        positions[group, :end] = torch.arange(end)
        block[group, :end] = 0
        for number, row in enumerate(rows, start=1):
            begin, end = end, end + len(responses[row])
            begins[row] = (group * width, begin)
            ids[group, begin:end] = responses[row]
            positions[group, begin:end] = torch.arange(len(prompt), len(prompt) + end - begin)
            block[group, begin:end] = number
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    same = block[:, :, None] == block[:, None, :]
    mask = causal & (same | (block[:, None, :] == 0))  # padding sees only padding before it, itself included
    source: list[int] = []
    place: list[int] = []
    row_of: list[int] = []
    offset = 0
    for row, (base, begin) in enumerate(begins):
        size, length = len(responses[row]), len(prompts[row])
        source += [base + length - 1, *range(base + begin, base + begin + size - 1)][:size]
        place += range(offset + length - 1, offset + length - 1 + size)
        row_of += [row] * size
        offset += length + size
    found = torch.tensor(source), torch.cat(list(responses)), torch.tensor(place), torch.tensor(row_of)
    return Packed(ids, positions, mask[:, None], *found)


@EngineRegistry.register(model_type="language_model", backend="fsdp2", device="cpu")
class CpuFSDPEngine(transformer_impl.FSDPEngineWithLMHead):
    """The stock engine but for two things.

    Pinned memory, a CUDA feature, is off for the reference model. And the completions of a group share their
    prompt's forward and backward pass where the model computes plain causal attention; log-probabilities of
    prompt tokens, which no loss reads, are then 0.
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


def _weights_file() -> Path:
    return Path(os.environ[MARK]) / "weights.safetensors"


def load_weights(model: Any) -> int:
    """Give the sampler's model the weights that the trainer published, and return their training step.

    Raises InfraError if the names do not match.
    """
    from safetensors import safe_open

    with safe_open(_weights_file(), framework="pt") as file:
        state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)
        step = int(file.metadata()["step"])
    result = model.load_state_dict(state, strict=False)
    tied = {"lm_head.weight"} if model.config.tie_word_embeddings else set()
    if set(result.missing_keys) - tied or result.unexpected_keys:
        raise InfraError(f"weights: missing {result.missing_keys}, unexpected {result.unexpected_keys}")
    return step


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


RolloutReplicaRegistry.register(ROLLOUT, lambda: CpuReplica)
register_rollout(ROLLOUT, f"{__name__}.CpuRollout")


def load_sampler(model_path: str, tokenizer: Any, max_context: int) -> BatchSampler:
    """A sampler in fp32."""
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model = AutoModelForCausalLM.from_pretrained(
        model_path, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    return BatchSampler(model, tokenizer, max_context)
