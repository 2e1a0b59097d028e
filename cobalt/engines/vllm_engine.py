"""vLLM: the Ray Serve application of `vllm_engine_actor.py` by its handle, or a `vllm serve` over HTTP."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from cobalt.cluster import application
from cobalt.engines.base import STOP, Completion, Sampling
from cobalt.engines.openai_engine import OpenAIEngine
from cobalt.errors import InfraError, InputError
from cobalt.schema import Message

APPLICATION = "vllm_actor"
DEPLOYMENT = "VllmEngineActor"
LOCAL = "http://127.0.0.1:8000"
_ADVICE = (
    f"start one with: serve run vllm_engine_actor:app --name {APPLICATION} --route-prefix /{APPLICATION} "
    "model=FOLDER, or: vllm serve FOLDER --generation-config vllm, or give --base_url, or take another "
    "engine: --engine transformers --model_name FOLDER"
)
# Classes of Ray's errors that may pass: a replica has gone, or has too much to do.
_PASSING = ("Actor", "BackPressureError", "DeploymentUnavailableError", "ReplicaUnavailable")


def open_vllm(model_name: str | None, base_url: str | None, **kw: Any) -> OpenAIEngine | ServeEngine:
    """The engine behind `base_url`; without one the Serve application of a reachable Ray cluster, or else
    a server on this machine.
    """
    handle = None if base_url else application(APPLICATION, DEPLOYMENT)
    if handle is not None:
        return ServeEngine(handle, model_name, timeout_s=kw.get("timeout_s", 3600.0))
    return VllmEngine(base_url or LOCAL, model_name, **kw)


class VllmEngine(OpenAIEngine):
    """An OpenAI-compatible server of vLLM, at its address with or without `/v1`.

    `check` finds out which it is and, if none is named, the model.
    """

    kind = "vllm"

    def __init__(self, base_url: str, model_name: str | None = None, **kw: Any) -> None:
        super().__init__(base_url, model_name or "", **kw)

    async def check(self) -> None:
        """Raises InputError if no server answers, or if it does not serve the model named."""
        try:
            names = await self._listed()
        except InfraError:
            names = None
        if names is None:
            raise InputError(f"no vLLM server answers at {self.base_url}; {_ADVICE}")
        self._choose(names)


class ServeEngine:
    """The Serve application through its handle, by the published call:

    `remote(messages, temperature, top_p, max_new_tokens, n, is_batch)` -> `{prompts, responses}`. Our own
    deployment says more and takes more (seed, session; finish reasons, tokens); one that has no `describe` is
    taken for a published one, which samples without seeds. What a replica that has gone leaves undone is
    asked for again, `retries` times.
    """

    def __init__(
        self, handle: Any, model_name: str | None = None, *, timeout_s: float = 3600.0, retries: int = 6
    ) -> None:
        self._handle, self.model_name = handle, model_name or ""
        self.name = f"vllm:{self.model_name or APPLICATION}"
        self.retries = 0
        self.facts: dict[str, Any] | None = None
        self._timeout_s, self._retries = timeout_s, retries

    async def check(self) -> None:
        """Ask the deployment what it serves. Raises InputError for another model than the one named."""
        try:
            self.facts = dict(await self._handle.describe.remote())
        except Exception as error:
            if "describe" not in str(error):
                raise InfraError(
                    f"the Ray Serve application '{APPLICATION}' does not answer: {error}"
                ) from error
            return  # the published deployment
        served = str(self.facts["model"])
        if self.model_name and self.model_name not in (served, self.facts.get("model_path")):
            raise InputError(
                f"--model_name {self.model_name}: the application '{APPLICATION}' serves {served}"
            )
        self.model_name, self.name = served, f"vllm:{served}"

    async def chat(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """`sampling.n` completions of the conversation. A fault of the service raises InfraError."""
        for attempt in range(self._retries + 1):
            try:
                return _completions(await self._ask(messages, sampling), sampling.n)
            except TimeoutError:
                last = f"no answer within {self._timeout_s:g} s"
            except Exception as error:
                kind, last = type(error).__name__, str(error)[:300]
                if not isinstance(error, OSError) and not any(name in kind for name in _PASSING):
                    raise InfraError(f"the deployment refused a request: {last}") from error
            self.retries += 1
            await asyncio.sleep(random.uniform(0.25, 0.5) * 2**attempt)
        raise InfraError(f"{self.name}: gave up after {self._retries + 1} tries; the last: {last}")

    async def aclose(self) -> None:
        """The cluster is not ours to close."""

    async def _ask(self, messages: list[Message], sampling: Sampling) -> Any:
        request: dict[str, Any] = {
            "temperature": sampling.temperature, "top_p": sampling.top_p, "n": sampling.n,
            "max_new_tokens": sampling.max_tokens, "is_batch": False,
        }  # fmt: skip
        handle = self._handle
        if self.facts is not None:
            seeds = [sampling.seed_of(sample) for sample in range(sampling.n)]
            request |= {"seeds": seeds, "details": True}
            handle = handle.options(session_id=sampling.session) if sampling.session else handle
        async with asyncio.timeout(self._timeout_s):
            return await handle.remote(messages, **request)


def _completions(answer: Any, n: int) -> list[Completion]:
    texts = answer.get("responses") if isinstance(answer, dict) else None
    if not isinstance(texts, list) or len(texts) != n:
        raise ValueError(f"expected {n} responses")
    return [
        Completion(
            text or "", each.get("finish_reason") or STOP, each.get("prompt_tokens", 0),
            each.get("completion_tokens", 0),
        )
        for text, each in zip(texts, answer.get("details") or [{}] * n, strict=True)
    ]  # fmt: skip
