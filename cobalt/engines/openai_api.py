"""Any OpenAI-compatible service over HTTP: vLLM, SGLang, llama.cpp, Ray Serve, hosted APIs."""

from __future__ import annotations

import hashlib
import os
import re
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cobalt.engines.base import CONTENT_FILTER, CONTEXT_OVERFLOW, STOP, Completion, Sampling, together
from cobalt.engines.retry import Pace, Retrier, Retry, retry_after_s
from cobalt.engines.seeds import derive
from cobalt.errors import InfraError, InputError
from cobalt.schema import Message

if TYPE_CHECKING:
    import aiohttp

KEY_VARIABLE = "OPENAI_API_KEY"
SESSION_HEADER = "x-session-id"  # what Ray Serve routes by
_CONTEXT = re.compile(r"context[ _](?:length|window|size)|prompt is too long|too many tokens", re.IGNORECASE)
_REFUSED = re.compile(r"\b(?:content_filter|content_policy_violation)\b")
_LIMIT = re.compile(r"maximum context length is (\d+)")
_PROMPT = re.compile(r"(\d+) (?:in the messages|input tokens|prompt tokens)|messages resulted in (\d+)")


class OpenAIEngine:
    """Chat completions from `base_url` + `/chat/completions`.

    Each completion is a request of its own, so that its seed, its token counts and its retries are its own
    and services without `n` work too. Rate limits (429, with `Retry-After`), time-outs, 5xx, dropped
    connections, torn bodies and empty answers are tried again, up to `retries` times with jittered
    exponential waits (seconds: `backoff_s` doubling up to 60); what then still fails raises InfraError. A
    prompt that the service calls too long is `context_overflow`; missing content (None) is an empty text.
    The key is `key` or read from OPENAI_API_KEY, kept in memory and sent to `base_url` only. `concurrency` is
    the most calls at once; a service that answers 429, 503 or not in time gets fewer (`pace`). `counters`
    counts calls and retries by class.
    """

    separate = True

    def __init__(
        self,
        base_url: str,
        model_name: str,
        *,
        timeout_s: float = 900.0,
        retries: int = 6,
        backoff_s: float = 0.5,
        concurrency: int = 1024,
        key: str | None = None,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise InputError(f"--base_url {base_url}: must begin with http:// or https://")
        self.base_url, self.model_name = base_url.rstrip("/"), model_name
        self.name = f"openai:{model_name}"
        self.timeout_s = timeout_s
        self.counters: Counter[str] = Counter()
        self.pace = Pace(concurrency)
        self._retrier = Retrier(
            self.name, retries=retries, backoff_s=backoff_s, counters=self.counters, pace=self.pace
        )
        self._key = key or os.environ.get(KEY_VARIABLE) or None
        self._session: aiohttp.ClientSession | None = None

    async def chat(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """`sampling.n` completions. InputError: the service refuses key or model; InfraError: no answer."""
        return await together(self._one(messages, sampling, sampling.index + j) for j in range(sampling.n))

    async def check(self) -> None:
        """Look for the model in the service's list. Services that have no list are taken at their word."""
        try:
            status, body, _ = await self._call("GET", "/models", None)
        except Retry as failure:
            raise InfraError(
                f"--base_url {self.base_url}: no answer ({failure.kind}: {failure})"
            ) from failure
        if status in (401, 403):
            raise self._refused(status)
        listed = body.get("data") if status == 200 and isinstance(body, dict) else None
        names = (
            [str(m["id"]) for m in listed if isinstance(m, dict) and "id" in m]
            if isinstance(listed, list)
            else []
        )
        if names and self.model_name not in names:
            raise InputError(
                f"--model_name {self.model_name}: {self.base_url} serves {', '.join(names[:10])}"
            )

    async def aclose(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    async def _one(self, messages: list[Message], sampling: Sampling, index: int) -> Completion:
        payload: dict[str, Any] = {
            "model": self.model_name, "messages": messages, "temperature": sampling.temperature,
            "top_p": sampling.top_p, "max_tokens": sampling.max_tokens,
        }  # fmt: skip
        if sampling.seed is not None:
            seed = derive(sampling.seed, index) if index else sampling.seed
            payload["seed"] = seed % 2**31  # the widest range that every server takes
        if sampling.stop:
            payload["stop"] = list(sampling.stop)
        if sampling.logprobs:
            payload["logprobs"] = True
        if sampling.reasoning_effort:
            payload["reasoning_effort"] = sampling.reasoning_effort
        session = sampling.session
        return await self._retrier(lambda: self._try(payload, session))

    async def _try(self, payload: dict[str, Any], session: str | None = None) -> Completion:
        status, body, after_s = await self._call("POST", "/chat/completions", payload, session)
        if status == 200:
            return _completion(body)
        detail = redacted(_error_text(body), self._key)
        if status in (401, 403):
            raise self._refused(status)
        if status == 429:
            raise Retry("rate_limit", detail, after_s)
        if status in (408, 409, 425) or status >= 500:
            raise Retry(f"http_{status}", detail, after_s)
        if status == 400 and _REFUSED.search(detail):
            return Completion("", CONTENT_FILTER, 0, 0)
        if status in (400, 413, 422) and _CONTEXT.search(detail):
            limit, prompt = _LIMIT.search(detail), _PROMPT.search(detail)
            used = int(next(filter(None, prompt.groups()))) if prompt else None
            room = int(limit.group(1)) - used if limit and used is not None else 0
            if (
                0 < room < payload["max_tokens"]
            ):  # the prompt fits, only the room asked for behind it does not
                return await self._try(payload | {"max_tokens": room}, session)
            return Completion("", CONTEXT_OVERFLOW, used or 0, 0)
        # A 404 is a wrong model or address for every request; other refusals may be of this one only.
        kind = InputError if status == 404 else InfraError
        raise kind(f"{self.base_url} refused a request for model {self.model_name} (HTTP {status}): {detail}")

    async def _call(
        self, method: str, path: str, payload: Any, session: str | None = None
    ) -> tuple[int, Any, float | None]:
        """Status, decoded body (text where it is not JSON), seconds of Retry-After."""
        import aiohttp

        url = self.base_url + path
        headers = (
            {SESSION_HEADER: hashlib.blake2b(session.encode(), digest_size=12).hexdigest()}
            if session
            else None
        )
        try:
            async with self._open().request(method, url, json=payload, headers=headers) as response:
                after_s = retry_after_s(response.headers)
                try:
                    return response.status, await response.json(content_type=None), after_s
                except ValueError as error:
                    if response.status == 200:
                        raise Retry("torn_body", f"not JSON: {error}") from error
                    return response.status, (await response.text(errors="replace"))[:500], after_s
        except TimeoutError as error:
            raise Retry("timeout", f"no answer within {self.timeout_s:g} s") from error
        except aiohttp.ClientPayloadError as error:
            raise Retry("torn_body", str(error)) from error
        except (aiohttp.ClientConnectionError, OSError) as error:
            raise Retry("connection", str(error) or type(error).__name__) from error

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            import aiohttp

            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),  # the caller bounds what is in flight
                timeout=aiohttp.ClientTimeout(total=self.timeout_s, sock_connect=min(30.0, self.timeout_s)),
                headers={"Authorization": f"Bearer {self._key}"} if self._key else {},
            )
        return self._session

    def _refused(self, status: int) -> InputError:
        state = "the key in" if self._key else "no key is set in"
        return InputError(f"{self.base_url} refused access (HTTP {status}): {state} {KEY_VARIABLE}")


def _completion(body: Any) -> Completion:
    """The first choice of an answer. An answer without one is a fault; one without content is data."""
    try:
        choice = body["choices"][0]
        text = choice["message"].get("content") or choice["message"].get("refusal") or ""
        usage = body.get("usage") or {}
        reason = choice.get("finish_reason") or STOP
        completion = Completion(
            str(text),
            str(reason),
            int(usage.get("prompt_tokens") or 0),
            int(usage.get("completion_tokens") or 0),
        )
        entries = (choice.get("logprobs") or {}).get("content")
        reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens")
        token_ids = choice.get("token_ids")
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise Retry(
            "empty_answer", f"no usable choice in the answer ({type(error).__name__}: {error})"
        ) from error
    if entries:
        completion = replace(completion, logprobs=[float(entry["logprob"]) for entry in entries])
    if token_ids:
        completion = replace(completion, token_ids=[int(each) for each in token_ids])
    return completion if reasoning is None else replace(completion, reasoning_tokens=int(reasoning))


def redacted(text: str, *secrets: str | None) -> str:
    """`text` without any of the secrets: services like to quote the key they refuse."""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "(key)")
    return text


def _error_text(body: Any) -> str:
    """What the service says went wrong, shortened."""
    if isinstance(body, dict):
        error = body.get("error", body.get("detail", body))
        body = (
            " ".join(str(error[k]) for k in ("code", "message") if error.get(k))
            if isinstance(error, dict)
            else error
        )
    return str(body)[:500]
