"""Any OpenAI-compatible service over HTTP: vLLM, SGLang, llama.cpp, Ray Serve, hosted APIs."""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections import Counter
from dataclasses import replace
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any

from cobalt.engines.base import CONTEXT_OVERFLOW, STOP, Completion, Sampling
from cobalt.engines.seeds import derive
from cobalt.errors import InfraError, InputError
from cobalt.records import Message

if TYPE_CHECKING:
    import aiohttp

KEY_VARIABLE = "OPENAI_API_KEY"
_LONGEST_WAIT_S = 60.0
_CONTEXT = re.compile(r"context[ _](?:length|window|size)|prompt is too long|too many tokens", re.IGNORECASE)
_LIMIT = re.compile(r"maximum context length is (\d+)")
_PROMPT = re.compile(r"(\d+) (?:in the messages|input tokens|prompt tokens)|messages resulted in (\d+)")


class _Retry(Exception):
    """A failure that may pass: its class (for counts and messages), how long the service asks to wait."""

    def __init__(self, kind: str, detail: str, after_s: float | None = None) -> None:
        super().__init__(detail)
        self.kind, self.after_s = kind, after_s


class OpenAIEngine:
    """Chat completions from `base_url` + `/chat/completions`.

    Each completion is a request of its own, so that its seed, its token counts and its retries are its own
    and services without `n` work too. Rate limits (429, with `Retry-After`), time-outs, 5xx, dropped
    connections, torn bodies and empty answers are tried again, up to `retries` times with jittered
    exponential waits (seconds: `backoff_s` doubling up to 60); what then still fails raises InfraError. A
    prompt that the service calls too long is `context_overflow`; missing content (None) is an empty text.
    The key is read from OPENAI_API_KEY, kept in memory and sent to `base_url` only. `counters` counts calls
    and retries by class.
    """

    def __init__(
        self,
        base_url: str,
        model_name: str,
        *,
        timeout_s: float = 900.0,
        retries: int = 6,
        backoff_s: float = 0.5,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise InputError(f"--base_url {base_url}: must begin with http:// or https://")
        self.base_url, self.model_name = base_url.rstrip("/"), model_name
        self.name = f"openai:{model_name}"
        self.timeout_s, self.retries, self.backoff_s = timeout_s, retries, backoff_s
        self.counters: Counter[str] = Counter()
        self._key = os.environ.get(KEY_VARIABLE) or None
        self._session: aiohttp.ClientSession | None = None
        self._jitter = random.Random()

    async def chat(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """`sampling.n` completions. InputError: the service refuses key or model; InfraError: no answer."""
        tasks = [asyncio.create_task(self._one(messages, sampling, j)) for j in range(sampling.n)]
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in tasks:
                task.cancel()

    async def check(self) -> None:
        """Look for the model in the service's list. Services that have no list are taken at their word."""
        try:
            status, body, _ = await self._call("GET", "/models", None)
        except _Retry as failure:
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
        for attempt in range(self.retries + 1):
            try:
                return await self._try(payload)
            except _Retry as failure:
                self.counters[f"retries.{failure.kind}"] += 1
                if attempt == self.retries:
                    raise InfraError(
                        f"{self.name}: gave up after {attempt + 1} tries; the last: {failure.kind}: {failure}"
                    ) from failure
                await asyncio.sleep(self._wait_s(attempt, failure.after_s))
        raise AssertionError("unreachable")

    def _wait_s(self, attempt: int, after_s: float | None) -> float:
        """Full jitter over a doubling wait; a wait the service asks for is kept, with a little spread on
        top.
        """
        doubling = min(_LONGEST_WAIT_S, self.backoff_s * 2**attempt)
        if after_s is None:
            return self._jitter.uniform(0.1, 1.0) * doubling
        return after_s + self._jitter.uniform(0.0, 0.25) * doubling

    async def _try(self, payload: dict[str, Any]) -> Completion:
        self.counters["calls"] += 1
        status, body, after_s = await self._call("POST", "/chat/completions", payload)
        if status == 200:
            return _completion(body)
        detail = _error_text(body)
        if status in (401, 403):
            raise self._refused(status)
        if status == 429:
            raise _Retry("rate_limit", detail, after_s)
        if status in (408, 409, 425) or status >= 500:
            raise _Retry(f"http_{status}", detail, after_s)
        if status in (400, 413, 422) and _CONTEXT.search(detail):
            limit, prompt = _LIMIT.search(detail), _PROMPT.search(detail)
            used = int(next(filter(None, prompt.groups()))) if prompt else None
            room = int(limit.group(1)) - used if limit and used is not None else 0
            if (
                0 < room < payload["max_tokens"]
            ):  # the prompt fits, only the room asked for behind it does not
                return await self._try(payload | {"max_tokens": room})
            return Completion("", CONTEXT_OVERFLOW, used or 0, 0)
        # A 404 is a wrong model or address for every request; other refusals may be of this one only.
        kind = InputError if status == 404 else InfraError
        raise kind(f"{self.base_url} refused a request for model {self.model_name} (HTTP {status}): {detail}")

    async def _call(self, method: str, path: str, payload: Any) -> tuple[int, Any, float | None]:
        """Status, decoded body (text where it is not JSON), seconds of Retry-After."""
        import aiohttp

        try:
            async with self._open().request(method, self.base_url + path, json=payload) as response:
                after_s = _retry_after_s(response.headers)
                try:
                    return response.status, await response.json(content_type=None), after_s
                except ValueError as error:
                    if response.status == 200:
                        raise _Retry("torn_body", f"not JSON: {error}") from error
                    return response.status, (await response.text(errors="replace"))[:500], after_s
        except TimeoutError as error:
            raise _Retry("timeout", f"no answer within {self.timeout_s:g} s") from error
        except aiohttp.ClientPayloadError as error:
            raise _Retry("torn_body", str(error)) from error
        except (aiohttp.ClientConnectionError, OSError) as error:
            raise _Retry("connection", str(error) or type(error).__name__) from error

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
        text = choice["message"].get("content") or ""
        usage = body.get("usage") or {}
        reason = choice.get("finish_reason") or STOP
        completion = Completion(
            str(text),
            str(reason),
            int(usage.get("prompt_tokens") or 0),
            int(usage.get("completion_tokens") or 0),
        )
        entries = (choice.get("logprobs") or {}).get("content")
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        raise _Retry(
            "empty_answer", f"no usable choice in the answer ({type(error).__name__}: {error})"
        ) from error
    if entries:
        completion = replace(completion, logprobs=[float(entry["logprob"]) for entry in entries])
    return completion


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


def _retry_after_s(headers: Any) -> float | None:
    """Seconds of a Retry-After header (a number or a date), at most 60; None without one."""
    value = headers.get("Retry-After")
    if not value:
        return None
    try:
        seconds = float(value)
    except ValueError:
        from datetime import UTC, datetime

        try:
            seconds = (parsedate_to_datetime(value) - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(max(0.0, seconds), _LONGEST_WAIT_S)
