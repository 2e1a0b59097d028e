"""Chat engines: one interface (`cobalt.engines.base`), several ways to a model."""

from __future__ import annotations

from typing import Any

from cobalt.engines.base import ChatEngine
from cobalt.errors import InputError

ENGINES = ("vllm", "openai", "litellm", "transformers")
_PLANNED = {
    "vllm": "a running vLLM server is reached by --engine openai --base_url URL",
    "litellm": "any OpenAI-compatible service is reached by --engine openai --base_url URL",
}


def connect(name: str, model_name: str | None, base_url: str | None = None, **kw: Any) -> ChatEngine:
    """Open the engine `name` (one of ENGINES) for `model_name`.

    `transformers`: `model_name` is a folder in Hugging Face format (or a name in the local cache).
    `openai`: `base_url` is the address of an OpenAI-compatible service, up to and including `/v1`.
    `kw` goes to the engine's class (`TransformersEngine`, `OpenAIEngine`). Nothing is sampled here.
    Raises InputError for an unknown or missing engine, model or address.
    """
    if name in _PLANNED:
        raise InputError(
            f"engine '{name}' is not available in this version: {_PLANNED[name]}, "
            "a model folder by --engine transformers --model_name FOLDER"
        )
    if name not in ENGINES:
        raise InputError(f"unknown engine '{name}': choose one of {', '.join(ENGINES)}")
    if not model_name:
        raise InputError(f"engine '{name}' needs --model_name")
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
