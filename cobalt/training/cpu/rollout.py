"""Rollout ``cobalt_cpu``: BatchSampler behind the interfaces that verl expects of an inference engine.

With the batch path (cobalt.training.cpu.batch) the trainer's process samples itself and no server is started.
With verl's own agent loops one Ray actor gathers concurrent requests and samples them together.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from typing import Any

import ray
import torch
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.replica import RolloutReplica, TokenOutput

from cobalt.engines.sampler import BatchSampler, row_seed
from cobalt.training.cpu.weights import WeightsReader, publish

WINDOW_S = 0.02  # how long the server waits for company after the first request


def load_sampler(model_path: str, tokenizer: Any, max_context: int) -> tuple[BatchSampler, WeightsReader]:
    """A sampler in fp32 and the reader that keeps its weights up to date."""
    from transformers import AutoModelForCausalLM

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    model = AutoModelForCausalLM.from_pretrained(
        model_path, dtype=torch.float32, attn_implementation="sdpa"
    ).eval()
    return BatchSampler(model, tokenizer, max_context), WeightsReader(model)


class SamplerServer:
    """Ray actor that answers verl's agent loops."""

    def __init__(self, config: Any, model_config: Any) -> None:
        self.config, self.tokenizer = config, model_config.tokenizer
        self.max_context = config.prompt_length + config.response_length
        self.sampler, self.reader = load_sampler(model_config.local_path, self.tokenizer, self.max_context)
        self.requests, self.pending = 0, list[tuple[Any, list[int], int, asyncio.Future[Any]]]()
        self.worker: asyncio.Task[None] | None = None

    async def ready(self) -> bool:
        return True

    async def sleep(self, *_: Any, **__: Any) -> None:
        """Nothing to free: weights and caches live in main memory."""

    wake_up = clear_kv_cache = release_kv_cache = resume_kv_cache = sleep
    resume_generation = abort_all_requests = sleep

    async def generate(
        self, request_id: str, prompt_ids: list[int], sampling_params: dict[str, Any], **_: Any
    ) -> TokenOutput:
        """One completion of ``prompt_ids``; top-k sampling is not supported."""
        limit = sampling_params.get("max_tokens") or self.config.response_length
        if sampling_params.get("top_k", -1) > 0:
            raise NotImplementedError("rollout cobalt_cpu does not sample with top_k")
        key = (sampling_params["temperature"], sampling_params["top_p"], limit)
        future = asyncio.get_running_loop().create_future()
        self.requests += 1
        self.pending.append((key, list(prompt_ids), row_seed(self.config.seed, self.requests), future))
        if self.worker is None or self.worker.done():
            self.worker = asyncio.create_task(self._drain())
        return await future

    async def _drain(self) -> None:
        while self.pending:
            await asyncio.sleep(WINDOW_S)
            requests, self.pending = self.pending, []
            for key in {request[0] for request in requests}:
                group = [request for request in requests if request[0] == key]
                try:
                    outputs = await asyncio.to_thread(self._sample, key, group)
                except Exception as error:
                    for *_, future in group:
                        future.set_exception(error)
                    continue
                for (*_, future), output in zip(group, outputs, strict=True):
                    future.set_result(output)

    def _sample(self, key: tuple[float, float, int], group: list[Any]) -> list[TokenOutput]:
        temperature, top_p, limit = key
        step = self.reader.refresh()
        rows = self.sampler.generate(
            [request[1] for request in group],
            [request[2] for request in group],
            temperature=temperature,
            top_p=top_p,
            max_tokens=limit,
            stop_ids={self.tokenizer.eos_token_id},
        )
        return [
            TokenOutput(
                token_ids=row.token_ids,
                log_probs=row.logprobs,
                stop_reason="completed",
                extra_fields={"global_steps": step},
            )
            for row in rows
        ]


class NoServer:
    """Stands for the server where the trainer's process samples: every call is done at once."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    async def remote(self, *_: Any, **__: Any) -> None:
        return None


class CpuReplica(RolloutReplica):
    """The one replica. Its server is an actor, or nothing where the batch path is configured."""

    async def launch_servers(self) -> None:
        if self.config.agent.agent_loop_manager_class:
            self.servers = [NoServer()]
            self._server_address = "in the trainer"
            return
        server = ray.remote(SamplerServer).options(num_cpus=0, max_concurrency=self.max_concurrency)
        handle = server.remote(self.config, omega_conf_to_dataclass(self.model_config))
        await handle.ready.remote()
        self.servers, self._server_handle = [handle], handle
        self._server_address = f"cobalt_cpu_{self.replica_rank}"


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
        if wire_format != "named_tensors":
            raise NotImplementedError(wire_format)
        publish(weights, global_steps)
