"""Providers through LiteLLM: OpenAI, Bedrock (by boto3's ordinary credential chain) and all others it knows.

Nothing is fetched when LiteLLM is imported: prices and model names come from the table in the package.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

from cobalt.engines.base import CONTENT_FILTER, CONTEXT_OVERFLOW, STOP, Completion, Sampling, together
from cobalt.engines.openai_api import redacted
from cobalt.engines.retry import OWN_LIMIT, Pace, Retrier, Retry, retry_after_s
from cobalt.engines.seeds import derive
from cobalt.errors import InfraError, InputError
from cobalt.schema import Message

_SECRETS = ("OPENAI_API_KEY", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


def load() -> Any:
    """The litellm module, quiet and offline. Raises InputError if it is not installed."""
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    try:
        import litellm
    except ImportError as error:
        raise InputError("engine 'litellm' needs its package: pip install 'cobalt[providers]'") from error
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    return litellm


class LiteLLMEngine:
    """Chat completions of the provider that `model_name` names (`gpt-...`, `bedrock/...`, `provider/...`).

    `base_url` is another address of that provider; a name that LiteLLM does not know is then taken for one of
    an OpenAI-compatible service. `credentials` (`api_key`, `aws_access_key_id`, ...) go into the requests
    only; without them LiteLLM and boto3 look where they always do. `rpm` and `tpm`: requests and tokens per
    minute that the provider allows, kept by LiteLLM's router. Parameters that a model does not take are
    dropped. Retries, waits and `concurrency` as `OpenAIEngine`; `counters` counts calls and retries by class.
    Raises InputError for a name without a provider.
    """

    separate = True

    def __init__(
        self,
        model_name: str,
        *,
        base_url: str | None = None,
        credentials: Mapping[str, str] | None = None,
        timeout_s: float = 900.0,
        retries: int = 6,
        backoff_s: float = 0.5,
        concurrency: int = 1024,
        rpm: int | None = None,
        tpm: int | None = None,
    ) -> None:
        self._litellm = load()
        self.model_name, self.base_url = model_name, base_url
        self.name = f"litellm:{model_name}"
        self._credentials = {name: value for name, value in (credentials or {}).items() if value}
        self._secrets = [*self._credentials.values(), *(os.environ.get(name) for name in _SECRETS)]
        self._provider = self._find_provider()
        self.counters: Counter[str] = Counter()
        self.pace = Pace(concurrency)
        self._retrier = Retrier(
            self.name, retries=retries, backoff_s=backoff_s, counters=self.counters, pace=self.pace
        )
        self._timeout_s, self._limits = timeout_s, {"rpm": rpm, "tpm": tpm}
        self._router: Any = None

    def price(self) -> tuple[float, float] | None:
        """US dollars per million (prompt, completion) tokens; None for a model without a price."""
        name = self.model_name.removeprefix(f"{self._provider}/")
        try:
            facts = self._litellm.get_model_info(name, custom_llm_provider=self._provider)
        except Exception:  # LiteLLM raises a bare Exception for a model that it does not know
            return None
        prices = facts.get("input_cost_per_token") or 0.0, facts.get("output_cost_per_token") or 0.0
        return (prices[0] * 1e6, prices[1] * 1e6) if any(prices) else None

    async def check(self) -> None:
        """Whether there are credentials for the provider; nothing is sent. Raises InputError if not."""
        if self._credentials or self.base_url:
            return
        found = self._litellm.validate_environment(model=self._qualified())
        if self._provider == "bedrock":
            import boto3

            if await asyncio.to_thread(boto3.Session().get_credentials) is None:
                raise InputError(
                    f"--model_name {self.model_name}: AWS has no credentials here; set AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY, or a profile or role that boto3 finds"
                )
            return
        missing = [] if found["keys_in_environment"] else found["missing_keys"]
        key = f"{self._provider.upper()}_API_KEY"
        if not os.environ.get(key, key).strip():  # set but empty, which LiteLLM takes for a key
            missing = [key]
        if missing:
            raise InputError(f"--model_name {self.model_name}: set {' and '.join(missing)}")

    async def chat(self, messages: list[Message], sampling: Sampling) -> list[Completion]:
        """`sampling.n` completions. InputError: the service refuses key or model; InfraError: no answer."""
        return await together(self._one(messages, sampling, sampling.index + j) for j in range(sampling.n))

    async def aclose(self) -> None:
        if self._router is not None:
            self._router.discard()
            self._router = None
            await self._litellm.close_litellm_async_clients()
            self._litellm.in_memory_llm_clients_cache.flush_cache()  # the closed ones are kept otherwise

    async def _one(self, messages: list[Message], sampling: Sampling, index: int) -> Completion:
        request: dict[str, Any] = {
            "messages": messages, "temperature": sampling.temperature, "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
        }  # fmt: skip
        if sampling.seed is not None:
            request["seed"] = (derive(sampling.seed, index) if index else sampling.seed) % 2**31
        if sampling.stop:
            request["stop"] = list(sampling.stop)
        if sampling.logprobs:
            request["logprobs"] = True
        if sampling.reasoning_effort:
            request["reasoning_effort"] = sampling.reasoning_effort
        return await self._retrier(lambda: self._try(request))

    async def _try(self, request: dict[str, Any]) -> Completion:
        try:
            answer = await asyncio.wait_for(
                self._open().acompletion(model=self.model_name, **request), self._timeout_s
            )
        except TimeoutError:
            raise Retry("timeout", f"no answer within {self._timeout_s:g} s") from None
        except Exception as error:
            return self._meaning(error)
        return self._completion(answer)

    def _meaning(self, error: Exception) -> Completion:
        """A completion for what is data; raises Retry, InputError or InfraError for all else. No keys."""
        known = self._litellm.exceptions
        detail = redacted(f"{type(error).__name__}: {error}", *self._secrets)[:500]
        status = getattr(error, "status_code", None)
        if isinstance(error, known.ContextWindowExceededError):
            return Completion("", CONTEXT_OVERFLOW, 0, 0)
        if isinstance(error, known.ContentPolicyViolationError):
            return Completion("", CONTENT_FILTER, 0, 0)
        if isinstance(error, known.AuthenticationError | known.PermissionDeniedError):
            raise InputError(f"{self.name}: access refused, check the provider's key: {detail}") from None
        if isinstance(error, known.NotFoundError):
            raise InputError(f"{self.name}: no such model or address: {detail}") from None
        after_s = retry_after_s(getattr(getattr(error, "response", None), "headers", None) or {})
        if isinstance(error, known.RateLimitError) and "No deployments available" in detail:
            # Our own limits are used up; the router counts by the minute of the clock.
            raise Retry(OWN_LIMIT, detail, 60.5 - time.time() % 60) from None
        if isinstance(error, known.RateLimitError):
            raise Retry("rate_limit", detail, after_s) from None
        if isinstance(error, known.Timeout):
            raise Retry("timeout", detail, after_s) from None
        if isinstance(error, known.APIConnectionError):
            raise Retry("connection", detail, after_s) from None
        if status == 500 and "Connection error" in detail:
            raise Retry("connection", detail, after_s) from None
        if isinstance(status, int) and (status in (408, 409, 425) or status >= 500):
            raise Retry(f"http_{status}", detail, after_s) from None
        if isinstance(error, known.APIResponseValidationError | known.JSONSchemaValidationError):
            raise Retry("torn_body", detail, after_s) from None
        raise InfraError(f"{self.name} refused a request: {detail}") from None

    def _completion(self, answer: Any) -> Completion:
        try:
            choice = answer.choices[0]
            text = choice.message.content or getattr(choice.message, "refusal", None) or ""
            used = getattr(answer, "usage", None)
            details = getattr(used, "completion_tokens_details", None)
            logprobs = getattr(getattr(choice, "logprobs", None), "content", None)
            return Completion(
                str(text), str(choice.finish_reason or STOP),
                int(getattr(used, "prompt_tokens", 0) or 0), int(getattr(used, "completion_tokens", 0) or 0),
                logprobs=[float(each.logprob) for each in logprobs] if logprobs else None,
                reasoning_tokens=int(getattr(details, "reasoning_tokens", 0) or 0),
                cost=(getattr(answer, "_hidden_params", None) or {}).get("response_cost") or None,
            )  # fmt: skip
        except (IndexError, TypeError, AttributeError, ValueError) as error:
            raise Retry("empty_answer", f"no usable choice ({type(error).__name__}: {error})") from None

    def _open(self) -> Any:
        """The router; made on first use, in the event loop that uses it."""
        if self._router is None:
            parameters = {
                "model": self._qualified(), "api_base": self.base_url, "timeout": self._timeout_s,
                "max_retries": 0, "drop_params": True, **self._limits, **self._credentials,
            }  # fmt: skip
            if self._provider == "openai" and self.base_url and not self._key():
                parameters["api_key"] = "none"  # a local service asks for none, the client insists on one
            limited = any(self._limits.values())
            given = {name: value for name, value in parameters.items() if value is not None}
            self._router = self._litellm.Router(
                model_list=[{"model_name": self.model_name, "litellm_params": given}],
                num_retries=0, disable_cooldowns=True, set_verbose=False,
                routing_strategy="usage-based-routing-v2" if limited else "simple-shuffle",
            )  # fmt: skip
        return self._router

    def _key(self) -> str | None:
        return self._credentials.get("api_key") or os.environ.get("OPENAI_API_KEY")

    def _qualified(self) -> str:
        prefix = f"{self._provider}/"
        return self.model_name if self.model_name.startswith(prefix) else prefix + self.model_name

    def _find_provider(self) -> str:
        name = self.model_name
        if name.startswith("bedrock"):
            return "bedrock"
        try:
            return str(self._litellm.get_llm_provider(name)[1])
        except Exception as error:  # LiteLLM's own kind, a bad request
            if self.base_url:
                return "openai"
            raise InputError(
                f"--model_name {name}: LiteLLM knows no provider for it; write provider/name, as in "
                "bedrock/..., or give the address of an OpenAI-compatible service by --base_url"
            ) from error
