"""Replicas of vLLM: our deployment (`vllm_engine_actor.py`) by handle or HTTP, or a plain `vllm serve`."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any
from urllib.parse import urlsplit

from cobalt.cluster import application
from cobalt.engines.base import STOP, Completion, Sampling
from cobalt.engines.openai_api import OpenAIEngine
from cobalt.engines.retry import Pace, Retrier, Retry
from cobalt.engines.seeds import derive
from cobalt.errors import InfraError, InputError
from cobalt.schema import Message

APPLICATION = "vllm_actor"
ROUTE = "/vllm_actor"
DEPLOYMENT = "VllmEngineActor"
LOCAL = "http://127.0.0.1:8000"
_ADVICE = (
    f"start one with: serve run vllm_engine_actor:app --name {APPLICATION} --route-prefix {ROUTE} "
    "model=FOLDER, or give --base_url, or take another engine: --engine transformers --model_name FOLDER"
)


def open_vllm(model_name: str | None, base_url: str | None, **kw: Any) -> OpenAIEngine | ServeEngine:
    """The engine behind `base_url`; without one the Serve application of a reachable Ray cluster, or else
    the same application on this machine over HTTP.
    """
    if base_url:
        return VllmEngine(base_url, model_name, **kw)
    handle = application(APPLICATION, DEPLOYMENT)
    if handle is not None:
        return ServeEngine(handle, model_name, **kw)
    return VllmEngine(LOCAL, model_name, **kw)


class VllmEngine(OpenAIEngine):
    """An OpenAI-compatible server of vLLM.

    `base_url` may be the whole address (up to /v1), our application's (up to /vllm_actor) or the server's;
    which it is, and the model if none is named, `check` finds out.
    """

    def __init__(self, base_url: str, model_name: str | None = None, **kw: Any) -> None:
        super().__init__(base_url, model_name or "", **kw)
        self._rename()

    def _rename(self) -> None:
        self.name = self._retrier.name = f"vllm:{self.model_name}"

    async def check(self) -> None:
        """Find the server. Raises InfraError if nobody answers, InputError for a model it does not serve."""
        given = self.base_url
        path = urlsplit(given).path.rstrip("/")
        endings = (
            [""] if path.endswith("/v1") else ["/v1"] if path.endswith(ROUTE) else [f"{ROUTE}/v1", "/v1", ""]
        )
        names: list[str] | None = None
        for ending in endings:
            self.base_url = given + ending
            names = await self._served()
            if names is not None:
                break
        if names is None:
            raise InputError(f"no vLLM server answers at {given}; {_ADVICE}")
        if not self.model_name and len(names) == 1:
            self.model_name = names[0]
        if not self.model_name or (names and self.model_name not in names):
            raise InputError(
                f"--model_name {self.model_name or '(none)'}: {given} serves {', '.join(names[:10])}"
            )
        self._rename()

    async def _served(self) -> list[str] | None:
        try:
            status, body, _ = await self._call("GET", "/models", None)
        except Retry:
            return None
        if status in (401, 403):
            raise self._refused(status)
        listed = body.get("data") if status == 200 and isinstance(body, dict) else None
        if not isinstance(listed, list):
            return None
        return [str(each["id"]) for each in listed if isinstance(each, dict) and "id" in each]


class ServeEngine:
    """The Serve application through its handle, by the published call:

    `remote(messages, temperature, top_p, max_new_tokens, n, is_batch)` -> `{prompts, responses}`. Our own
    deployment says more and takes more (seed, session; finish reasons, tokens); one that has no `describe` is
    taken for a published one, which samples without seeds.
    """

    def __init__(
        self, handle: Any, model_name: str | None = None, *, timeout_s: float = 3600.0, retries: int = 6,
        backoff_s: float = 0.5, concurrency: int = 1024,
    ) -> None:  # fmt: skip
        self._handle, self.model_name = handle, model_name or ""
        self.name = f"vllm:{self.model_name or APPLICATION}"
        self.counters: Counter[str] = Counter()
        self.facts: dict[str, Any] | None = None
        self._timeout_s = timeout_s
        self._retrier = Retrier(
            self.name, retries=retries, backoff_s=backoff_s, counters=self.counters, pace=Pace(concurrency)
        )

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
        return await self._retrier(lambda: self._try(messages, sampling))

    async def aclose(self) -> None:
        """The cluster is not ours to close."""

    async def _try(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        request: dict[str, Any] = {
            "temperature": sampling.temperature, "top_p": sampling.top_p, "n": sampling.n,
            "max_new_tokens": sampling.max_tokens, "is_batch": False,
        }  # fmt: skip
        handle = self._handle
        if self.facts is not None:
            seeds = [_seed(sampling.seed, sampling.index + j) for j in range(sampling.n)]
            request |= {"seeds": seeds, "stop": list(sampling.stop), "details": True}
            handle = handle.options(session_id=sampling.session) if sampling.session else handle
        try:
            answer = await asyncio.wait_for(_awaited(handle.remote(messages, **request)), self._timeout_s)
        except TimeoutError:
            raise Retry("timeout", f"no answer within {self._timeout_s:g} s") from None
        except Exception as error:
            raise _meaning(error) from error
        return _completions(answer, sampling.n)


def _seed(seed: int | None, index: int) -> int | None:
    """Completion `index` of a seeded request has the same seed as over HTTP."""
    return None if seed is None else (derive(seed, index) if index else seed) % 2**31


async def _awaited(response: Any) -> Any:
    return await response


def _meaning(error: Exception) -> Exception:
    """What a failed call through a handle is: one that may pass, or a fault of the request."""
    kind = type(error).__name__
    cause = getattr(error, "cause", None) or error
    if isinstance(cause, InputError | ValueError | TypeError):
        return InfraError(f"the deployment refused a request: {cause}")
    names = {"BackPressureError": "rate_limit", "DeploymentUnavailableError": "connection"}
    return Retry(
        names.get(kind, "connection" if "Actor" in kind else "http_500"), f"{kind}: {str(error)[:300]}"
    )


def _completions(answer: Any, n: int) -> list[Completion]:
    texts = answer.get("responses") if isinstance(answer, dict) else None
    if not isinstance(texts, list) or len(texts) != n:
        raise Retry("empty_answer", f"expected {n} responses")
    details = answer.get("details") or [{}] * n
    return [
        Completion(
            text or "", each.get("finish_reason") or STOP, each.get("prompt_tokens", 0),
            each.get("completion_tokens", 0), each.get("token_ids"), each.get("logprobs"),
        )
        for text, each in zip(texts, details, strict=True)
    ]  # fmt: skip
