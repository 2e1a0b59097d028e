"""vLLM replicas: `serve run vllm_engine_actor:app --name vllm_actor --route-prefix /vllm_actor model=...`."""

from cobalt.engines.vllm_server import app

__all__ = ["app"]
