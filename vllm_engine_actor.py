"""vLLM replicas: `serve run vllm_engine_actor:app --name vllm_actor --route-prefix /vllm_actor model=...`."""

from cobalt.engines.server import app

__all__ = ["app"]
