"""Chat engines: one interface (`cobalt.engines.base`), several ways to a model."""

from __future__ import annotations

from typing import Any

from cobalt.engines.base import ChatEngine
from cobalt.errors import InputError

ENGINES = ("vllm", "openai", "litellm", "transformers")


def connect(name: str, model_name: str | None, base_url: str | None = None, **kw: Any) -> ChatEngine:
    """Open the engine `name` (one of ENGINES) for `model_name`.

    `vllm`: the Serve application of `vllm_engine_actor.py` in a reachable Ray cluster, or a vLLM server at
    `base_url`; the model may be left out where only one is served. `openai`: `base_url` is the address of an
    OpenAI-compatible service, up to and including `/v1`. `litellm`: a provider's model. `transformers`:
    `model_name` is a folder in Hugging Face format (or a name in the local cache).
    `kw` goes to the engine's class. Nothing is sampled here.
    Raises InputError for an unknown or missing engine, model or address.
    """
    if name not in ENGINES:
        raise InputError(f"unknown engine '{name}': choose one of {', '.join(ENGINES)}")
    if name == "vllm":
        from cobalt.engines.vllm_client import open_vllm

        return open_vllm(model_name, base_url, **kw)
    if not model_name:
        raise InputError(f"engine '{name}' needs --model_name")
    if name == "litellm":
        from cobalt.engines.litellm_api import LiteLLMEngine

        return LiteLLMEngine(model_name, base_url=base_url, **kw)
    if name == "openai":
        from cobalt.engines.openai_api import OpenAIEngine

        if not base_url:
            raise InputError("engine 'openai' needs --base_url, for instance http://localhost:8000/v1")
        return OpenAIEngine(base_url, model_name, **kw)
    from cobalt.engines.local import TransformersEngine

    if base_url:
        raise InputError("engine 'transformers' runs in this process: --base_url does not go with it")
    return TransformersEngine(model_name, **kw)


async def check(engine: ChatEngine) -> None:
    """Ask the engine whether it can serve its model, where it has a way to tell, before any work is paid for.

    Raises InputError (unknown model, refused key) or InfraError (nobody answers).
    """
    ready = getattr(engine, "check", None)
    if ready is not None:
        await ready()
