"""Chat engines. In: a conversation and `Sampling`; out: `Completion`s with token counts (all in base.py).

openai_engine.py: any OpenAI-compatible service. litellm_engine.py: providers. vllm_engine.py: vLLM, over HTTP
or by the handle of the Ray Serve application in vllm_server.py. transformers_engine.py: a model in this
process, on sampler.py and prefix_cache.py. flags.py: what of a command line chooses an engine.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

from cobalt.engines.base import ChatEngine
from cobalt.errors import InputError

ENGINES = ("vllm", "openai", "litellm", "transformers")
OWN = "FILE.py:NAME or MODULE:NAME"  # an engine of the user's own


def connect(name: str, model_name: str | None, base_url: str | None = None, **kw: Any) -> ChatEngine:
    """Open the engine `name` (one of ENGINES) for `model_name`; nothing is sampled.

    `vllm`: the Serve application in a reachable Ray cluster, or a vLLM server at `base_url`; the model may be
    left out where only one is served. `openai`: `base_url` up to and including `/v1`. `litellm`: a provider's
    model. `transformers`: `model_name` is a folder in Hugging Face format (or a name in the local cache).
    `FILE.py:NAME` or `MODULE:NAME` is called with `model_name` and `base_url` and returns an engine. `kw`
    goes to our engines' classes. Raises InputError for an unknown or missing engine, model or address.
    """
    if all(name.partition(":")):
        return _own(name, model_name, base_url)
    if name not in ENGINES:
        raise InputError(f"unknown engine '{name}': choose one of {', '.join(ENGINES)}, or {OWN}")
    if name == "vllm":
        from cobalt.engines.vllm_engine import open_vllm

        return open_vllm(model_name, base_url, **kw)
    if not model_name:
        raise InputError(f"engine '{name}' needs --model_name")
    if name == "litellm":
        from cobalt.engines.litellm_engine import LiteLLMEngine

        return LiteLLMEngine(model_name, base_url=base_url, **kw)
    if name == "openai":
        from cobalt.engines.openai_engine import OpenAIEngine

        if not base_url:
            raise InputError("engine 'openai' needs --base_url, for instance http://localhost:8000/v1")
        return OpenAIEngine(base_url, model_name, **kw)
    from cobalt.engines.transformers_engine import TransformersEngine

    if base_url:
        raise InputError("engine 'transformers' runs in this process: --base_url does not go with it")
    return TransformersEngine(model_name, **kw)


def _own(spec: str, model_name: str | None, base_url: str | None) -> ChatEngine:
    place, _, name = spec.rpartition(":")
    if place.endswith(".py"):
        found = importlib.util.spec_from_file_location(Path(place).stem, place)
        if not Path(place).is_file() or found is None or found.loader is None:
            raise InputError(f"engine {spec}: there is no file {place}")
        module = importlib.util.module_from_spec(found)
        found.loader.exec_module(module)
    else:
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{place}.".startswith(f"{error.name}."):
                raise
            raise InputError(f"engine {spec}: there is no module {place} (is it in PYTHONPATH?)") from None
    if not hasattr(module, name):
        raise InputError(f"engine {spec}: {place} has no {name}")
    engine: ChatEngine = getattr(module, name)(model_name, base_url=base_url)
    lacking = [part for part in ("name", "chat", "aclose") if not hasattr(engine, part)]
    if lacking:
        raise InputError(f"engine {spec}: lacks {', '.join(lacking)} (see cobalt.engines.base.ChatEngine)")
    return engine


async def check(engine: ChatEngine) -> None:
    """Ask the engine whether it can serve its model, where it can tell, before any work is paid for.

    Raises InputError (unknown model, refused key) or InfraError (nobody answers).
    """
    ready = getattr(engine, "check", None)
    if ready is not None:
        await ready()
