"""Any OpenAI-compatible service over HTTP: vLLM, SGLang, llama.cpp, hosted APIs. The client is OpenAI's."""

from __future__ import annotations

import hashlib
import json
import os
import re
from typing import Any

import aiohttp
import httpx
import openai

from cobalt.engines.base import (
    CONTENT_FILTER,
    CONTEXT_OVERFLOW,
    STOP,
    Completion,
    Sampling,
    together,
    without_surrogates,
)
from cobalt.errors import CobaltError, InfraError, InputError
from cobalt.schema import Message

KEY_VARIABLE = "OPENAI_API_KEY"
SESSION_HEADER = "x-session-id"  # what routers send a trajectory's requests to the same replica by
_TOO_LONG = re.compile(r"context[ _](?:length|window|size)|prompt is too long|too many tokens", re.IGNORECASE)
_REFUSED = re.compile(r"\b(?:content_filter|content_policy_violation)\b")
_OURS_TO_SET = (
    "host",
    "connection",
    "accept-encoding",
    "content-length",
    "content-encoding",
    "transfer-encoding",
)


class OpenAIEngine:
    """Chat completions from `base_url` + `/chat/completions`.

    Each completion is a request of its own, so that its seed, its token counts and its retries are its own
    and services without `n` work too. Rate limits (with `Retry-After`), time-outs, 5xx, dropped connections
    and unusable answers are tried again by the client, up to `retries` times; what then still fails raises
    InfraError. A prompt that the service calls too long is `context_overflow`; missing content (None) is an
    empty text. The key is `key` or read from OPENAI_API_KEY, kept in memory and sent to `base_url` only.
    """

    separate = True
    kind = "openai"

    def __init__(
        self,
        base_url: str,
        model_name: str,
        *,
        timeout_s: float = 900.0,
        retries: int = 10,
        key: str | None = None,
    ) -> None:
        if not base_url.startswith(("http://", "https://")):
            raise InputError(f"--base_url {base_url}: must begin with http:// or https://")
        key = key or os.environ.get(KEY_VARIABLE) or ""
        self.base_url, self.model_name = base_url.rstrip("/"), model_name
        self.name = f"{self.kind}:{model_name}"
        self.retries = 0
        self._retries, self._secrets, self._key_variable = retries, [key], KEY_VARIABLE
        http = httpx.AsyncClient(transport=_Transport(timeout_s), timeout=None)
        # Local services ask for no key; the client insists on one, and on being told not to send it.
        self._headers: dict[str, str | openai.Omit] = {} if key else {"Authorization": openai.Omit()}
        self._client = openai.AsyncOpenAI(
            api_key=key or "none", base_url=base_url, max_retries=retries, http_client=http
        )
        # To describe this machine it would run `uname`, a process that is given our environment and its keys.
        self._client._platform = "Unknown"

    async def chat(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """`sampling.n` completions. InputError: the service refuses key or model; InfraError: no answer."""
        return await together(self._one(messages, sampling, sample) for sample in range(sampling.n))

    async def check(self) -> None:
        """Look for the model in the service's list, at the address with or without `/v1`; where none is
        named, take the only one. Services that have no list are taken at their word.
        """
        self._choose(await self._listed())

    async def _listed(self) -> list[str] | None:
        """Names of the models at the address as given, else with `/v1`, which is then kept."""
        given, names = self.base_url, await self._served()
        if names is None and not given.endswith("/v1"):
            self._client.base_url = self.base_url = f"{given}/v1"
            names = await self._served()
            if names is None:
                self._client.base_url = self.base_url = given
        return names

    def _choose(self, names: list[str] | None) -> None:
        """Settle on the model named, or the only one of those served (None: there is no list)."""
        if not self.model_name and names and len(names) == 1:
            self.model_name = names[0]
        if not self.model_name or (names and self.model_name not in names):
            served = f"serves {', '.join(names[:10])}" if names is not None else "has no list of models"
            served += "" if self.model_name else "; name one with --model_name"
            raise InputError(f"--model_name {self.model_name or '(none)'}: {self.base_url} {served}")
        self.name = f"{self.kind}:{self.model_name}"

    async def aclose(self) -> None:
        await self._client.close()

    async def _served(self) -> list[str] | None:
        """Names in the service's list of models, None if it has no such list."""
        try:
            answer = await self._client.get(
                "/models", cast_to=httpx.Response, options={"max_retries": 0, "headers": self._headers}
            )
            return [str(each["id"]) for each in json.loads(answer.content)["data"]]
        except openai.APIStatusError as error:
            if error.status_code in (401, 403):
                raise self._meaning(error) from None
            return None
        except openai.APIConnectionError as error:
            raise InfraError(f"--base_url {self.base_url}: no answer ({_said(error)})") from error
        except (ValueError, KeyError, TypeError):
            return None

    async def _one(self, messages: list[Message], sampling: Sampling, sample: int) -> Completion:
        """Ask with `max_tokens`; if that is too much behind this prompt, for what room there is."""
        optional = {"seed": sampling.seed_of(sample), "reasoning_effort": sampling.reasoning_effort}
        request = {
            "model": self.model_name,
            "messages": [{**each, "content": without_surrogates(each["content"])} for each in messages],
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            **{name: value for name, value in optional.items() if value is not None},
        }
        for room in ({"max_tokens": sampling.max_tokens}, {}):
            try:
                return await self._ask(request | room, sampling.session)
            except openai.APIError as error:
                detail = _said(error)
                if _REFUSED.search(detail):
                    return Completion("", CONTENT_FILTER, 0, 0)
                if getattr(error, "status_code", 0) not in (400, 413, 422) or not _TOO_LONG.search(detail):
                    raise self._meaning(error) from None
        return Completion("", CONTEXT_OVERFLOW, 0, 0)

    async def _ask(self, request: dict[str, Any], session: str | None) -> Completion:
        """One request, tried again by the client. Raises openai.APIError."""
        headers = dict(self._headers)
        if session:
            headers[SESSION_HEADER] = hashlib.blake2b(session.encode(), digest_size=12).hexdigest()
        answer = await self._client.post(
            "/chat/completions", cast_to=httpx.Response, body=request, options={"headers": headers}
        )
        self.retries += int(answer.request.headers.get("x-stainless-retry-count", 0))
        made: Completion = answer.extensions["completion"]
        return made

    def _meaning(self, error: openai.APIError) -> CobaltError:
        """What a failure says to the user; no keys."""
        status, detail = getattr(error, "status_code", None), _said(error)
        for secret in filter(None, self._secrets):  # services like to quote the key they refuse
            detail = detail.replace(secret, "(key)")
        detail = detail[:500]
        if status in (401, 403):
            state = "the key in" if any(self._secrets) else "no key is set in"
            return InputError(
                f"{self.name}: {self.base_url} refused access: {state} {self._key_variable} ({detail})"
            )
        if status is None or status in (408, 409, 429) or status >= 500:
            self.retries += self._retries
            return InfraError(f"{self.name}: gave up after {self._retries + 1} tries; the last: {detail}")
        # A 404 is a wrong model or address for every request; other refusals may be of this one only.
        kind = InputError if status == 404 else InfraError
        return kind(f"{self.name}: {self.base_url} refused a request: {detail}")


class _Transport(httpx.AsyncBaseTransport):
    """aiohttp under the client: httpx's own pool looks at all connections for each request, which with
    hundreds in flight costs more than everything else.

    A completion is read as it arrives. To the client a fault in it is one of the connection: it asks again.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout = aiohttp.ClientTimeout(total=timeout_s, sock_connect=min(30.0, timeout_s))
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if self._session is None:  # the caller bounds what is in flight
            connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(connector=connector, timeout=self._timeout)
        headers = {name: text for name, text in request.headers.items() if name not in _OURS_TO_SET}
        try:
            async with self._session.request(
                request.method, str(request.url), headers=headers, data=request.content
            ) as answer:
                content = await answer.read()
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time", request=request) from error
        extensions: dict[str, Any] = {}
        if answer.status == 200 and request.method == "POST":
            try:
                extensions["completion"] = completion(json.loads(content))
            except (ValueError, KeyError, IndexError, TypeError, AttributeError) as error:
                raise httpx.RemoteProtocolError(
                    f"no usable choice: {type(error).__name__}: {error}"
                ) from error
        told = [pair for pair in answer.headers.items() if pair[0].lower() not in _OURS_TO_SET]
        return httpx.Response(answer.status, headers=told, content=content, extensions=extensions)

    async def aclose(self) -> None:
        if self._session is not None:
            await self._session.close()


def completion(answer: Any) -> Completion:
    """The first choice of an answer. An answer without one is a fault; one without content is data."""
    choice, usage = answer["choices"][0], answer.get("usage") or {}
    message, details = choice["message"], usage.get("completion_tokens_details") or {}
    return Completion(
        str(message.get("content") or message.get("refusal") or ""),
        str(choice.get("finish_reason") or STOP),
        int(usage.get("prompt_tokens") or 0),
        int(usage.get("completion_tokens") or 0),
        details.get("reasoning_tokens"),
    )


def _said(error: openai.APIError) -> str:
    """What went wrong, in the service's words, or behind the client's `Connection error.`"""
    said = error.body
    if isinstance(said, dict):
        said = said.get("error", said.get("detail", said))
    if isinstance(said, dict):
        said = " ".join(str(said[name]) for name in ("code", "message") if said.get(name))
    if isinstance(error, openai.APIConnectionError):
        said = f"{error.message} {error.__cause__ or ''}"
    status = f"HTTP {error.status_code}: " if isinstance(error, openai.APIStatusError) else ""
    return status + str(said or error.message).strip()
