"""vLLM behind Ray Serve: an asynchronous engine per replica, which batches whatever is in flight.

    serve run vllm_engine_actor:app --name vllm_actor --route-prefix /vllm_actor model=FOLDER replicas=2

It answers calls through its handle, as the published application does; for HTTP there is `vllm serve`. A thin
deployment over vLLM's own engine, not `ray.serve.llm`: the vLLM that fits this Ray there is not the one that
verl trains with, so serving and training would need two environments.
"""

import asyncio
import importlib.util
import itertools
import uuid
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve import Application
from ray.serve.config import RequestRouterConfig

from cobalt.cluster import allow_slow_start, amounts
from cobalt.engines.base import CONTEXT_OVERFLOW, STOP, without_surrogates
from cobalt.engines.turn_end import turn_end
from cobalt.engines.vllm_engine import DEPLOYMENT
from cobalt.errors import InputError
from cobalt.models import check_model

_AFFINITY = "ray.serve.experimental.consistent_hash_router.ConsistentHashRouter"


class Settings(BaseModel):
    """Arguments of the application: `serve run vllm_engine_actor:app model=Qwen/Qwen3-8B replicas=2`.

    The defaults are published: Qwen3 8B, on four GPUs two replicas of two.
    """

    model_config = ConfigDict(extra="forbid")

    model: str = Field("Qwen/Qwen3-8B", min_length=1, description="folder or name in Hugging Face format")
    served_model_name: str = Field("", description="name that clients use; default: model")
    replicas: int = Field(0, ge=0, description="0: as many as fit the GPUs")
    tensor_parallel_size: int = Field(0, ge=0, description="GPUs per replica; 0: two, below four GPUs one")
    max_model_len: int | None = Field(None, ge=1, description="prompt and completion; default: the model's")
    max_num_batched_tokens: int | None = Field(None, ge=1, description="of a step; default: vLLM's")
    dtype: str = Field("auto", description="of the weights, as vLLM names it")
    gpu_memory_utilization: float = Field(0.9, gt=0, le=1, description="share of a GPU's memory")
    enforce_eager: bool = Field(False, description="no graphs: starts sooner, runs slower")
    device: str = Field("auto", pattern="^(auto|gpu|cpu)$", description="what Ray reserves for a replica")
    double_bos: bool = Field(False, description="the published rendering: special tokens added twice")
    max_ongoing_requests: int = Field(1024, ge=1, description="requests that a replica accepts at once")
    max_queued_requests: int = Field(16384, ge=-1, description="waiting requests before callers are refused")
    drain_s: float = Field(600.0, ge=0, description="how long a replica that goes may finish its requests")


class VllmEngineActor:
    """One replica. Calls join the running batch; the event loop never waits for the model."""

    def __init__(self, settings: dict[str, Any]) -> None:
        from vllm.engine.arg_utils import AsyncEngineArgs
        from vllm.v1.engine.async_llm import AsyncLLM

        given = self._settings = Settings(**settings)
        self._name = given.served_model_name or given.model
        self._engine = AsyncLLM.from_engine_args(
            AsyncEngineArgs(
                model=given.model, tensor_parallel_size=given.tensor_parallel_size, dtype=given.dtype,
                max_model_len=given.max_model_len, enforce_eager=given.enforce_eager,
                gpu_memory_utilization=given.gpu_memory_utilization, enable_prefix_caching=True,
                max_num_batched_tokens=given.max_num_batched_tokens,
            )
        )  # fmt: skip
        from transformers import AutoTokenizer

        self._tokenizer = AutoTokenizer.from_pretrained(given.model)
        if not self._tokenizer.chat_template:
            raise InputError(f"model={given.model}: the tokenizer has no chat template")
        self._end = turn_end(self._tokenizer)
        self._max_len = int(self._engine.model_config.max_model_len)
        self._run, self._ids = uuid.uuid4().hex, itertools.count()

    async def __call__(
        self,
        messages: Any,
        temperature: float = 0.6,
        top_p: float = 0.95,
        max_new_tokens: int = 8192,
        n: int = 16,
        is_batch: bool = False,
        seeds: list[int | None] | None = None,
        details: bool = False,
    ) -> Any:
        """The published call: `{prompts, responses}`, n texts of one conversation, or with `is_batch` one
        text for each of a list of conversations.

        `seeds` are one per response. `details` adds, per response, `finish_reason` (`context_overflow` for a
        conversation that does not fit), `prompt_tokens` and `completion_tokens`.
        """
        conversations = messages if is_batch else [messages]
        prompts = await asyncio.gather(*(asyncio.to_thread(self._encode, each) for each in conversations))
        rows = [prompt for prompt in prompts for _ in range(1 if is_batch else n)]
        chosen = seeds or [None] * len(rows)
        if len(chosen) != len(rows):
            raise ValueError(f"{len(chosen)} seeds for {len(rows)} responses")
        sampling = {"temperature": temperature, "top_p": top_p}
        made = await asyncio.gather(
            *(
                self._sample(prompt, max_new_tokens, seed, sampling)
                for prompt, seed in zip(rows, chosen, strict=True)
            )
        )
        answer: dict[str, Any] = {
            "prompts": [self._tokenizer.decode(prompt) for prompt in prompts],
            "responses": [each.pop("text") for each in made],
        }
        return answer | ({"details": made} if details else {})

    async def describe(self) -> dict[str, Any]:
        """What the replica serves."""
        return {"model": self._name, "model_path": self._settings.model, "max_model_len": self._max_len}

    async def check_health(self) -> None:
        """Called by Serve, while requests run, too."""
        await self._engine.check_health()

    def _encode(self, messages: list[dict[str, str]]) -> list[int]:
        """Token ids in the chat template; no special token is added to those that the template writes."""
        text = self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        text = without_surrogates(text)
        ids = self._tokenizer(text, add_special_tokens=self._settings.double_bos)["input_ids"]
        return [int(each) for each in ids]

    async def _sample(
        self, prompt: list[int], max_tokens: int, seed: int | None, sampling: dict[str, float]
    ) -> dict[str, Any]:
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt
        from vllm.sampling_params import RequestOutputKind

        room, text, reason, size = self._max_len - len(prompt), "", CONTEXT_OVERFLOW, 0
        if room > 0:
            params = SamplingParams(
                **sampling, max_tokens=min(max_tokens, room), seed=seed,
                output_kind=RequestOutputKind.FINAL_ONLY, stop_token_ids=sorted(self._end.stop_ids),
            )  # fmt: skip
            name = f"{self._run}-{next(self._ids)}"
            outputs = self._engine.generate(TokensPrompt(prompt_token_ids=prompt), params, name)
            (made,) = [output.outputs[0] async for output in outputs]
            text, reason, size = made.text, made.finish_reason or STOP, len(made.token_ids)
        return {
            "text": text, "finish_reason": reason, "prompt_tokens": len(prompt), "completion_tokens": size,
        }  # fmt: skip

    def __del__(self) -> None:
        if hasattr(self, "_engine"):
            self._engine.shutdown()


def app(args: Settings) -> Application:
    """Builder of the application; `serve run` passes its `key=value` arguments as `args`."""
    if importlib.util.find_spec("vllm") is None:
        raise InputError(
            "vllm is not installed here: pip install -r requirements-gpu.txt in its own environment"
        )
    allow_slow_start()  # `serve run` builds the application, then starts Ray
    given = args.model_dump()
    if Path(args.model).exists() or Path(args.model).parent.is_dir():
        check_model(args.model, flag="model")
    if Path(args.model).is_dir():
        given["served_model_name"] = args.served_model_name or args.model
        given["model"] = str(Path(args.model).resolve())
    gpus = 0 if args.device == "cpu" else _gpus()
    given["tensor_parallel_size"] = args.tensor_parallel_size or (2 if gpus >= 4 else 1)
    replicas = args.replicas or max(1, gpus // given["tensor_parallel_size"])
    options: dict[str, Any] = {"num_cpus": 1}
    if args.device == "gpu" or (args.device == "auto" and gpus):
        options["num_gpus"] = given["tensor_parallel_size"]
    affinity: dict[str, Any] = {}
    if replicas > 1 and importlib.util.find_spec("mmh3") is not None:
        # Requests of one trajectory go where its prefix is cached.
        affinity["request_router_config"] = RequestRouterConfig(request_router_class=_AFFINITY)
    deployment = serve.deployment(
        VllmEngineActor, name=DEPLOYMENT, num_replicas=replicas, ray_actor_options=options,
        max_ongoing_requests=args.max_ongoing_requests, max_queued_requests=args.max_queued_requests,
        health_check_timeout_s=60, graceful_shutdown_timeout_s=args.drain_s, **affinity,
    )  # fmt: skip
    return deployment.bind(given | {"replicas": replicas})


def _gpus() -> int:
    """GPUs of the cluster, or of this machine where `serve run` has yet to begin one."""
    import torch

    return int(sum(amounts("GPU"))) or torch.cuda.device_count()
