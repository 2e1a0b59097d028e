"""Providers through LiteLLM: OpenAI, Bedrock (by boto3's ordinary credential chain) and all others it knows.

Nothing is fetched when LiteLLM is imported: prices and model names come from the table in the package.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import openai

from cobalt.engines.base import CONTENT_FILTER, CONTEXT_OVERFLOW, Completion
from cobalt.engines.openai_engine import KEY_VARIABLE, OpenAIEngine, completion
from cobalt.errors import InfraError, InputError

_SECRETS = (KEY_VARIABLE, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


class LiteLLMEngine(OpenAIEngine):
    """Chat completions of the provider that `model_name` names (`gpt-...`, `bedrock/...`, `provider/...`).

    `base_url` is another address of that provider; a name that LiteLLM does not know is then taken for one of
    an OpenAI-compatible service. `credentials` (`api_key`, `aws_access_key_id`, ...) go into the requests
    only; without them LiteLLM and boto3 look where they always do. `rpm` and `tpm`: requests and tokens per
    minute that the provider allows. LiteLLM's router keeps them and tries failed requests again, `retries`
    times. Parameters that a model does not take are dropped. Raises InputError for a name without a provider.
    """

    def __init__(
        self,
        model_name: str,
        *,
        base_url: str | None = None,
        credentials: Mapping[str, str] | None = None,
        timeout_s: float = 900.0,
        retries: int = 10,
        rpm: int | None = None,
        tpm: int | None = None,
    ) -> None:
        os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        import litellm

        litellm.suppress_debug_info, litellm.telemetry = True, False
        self._litellm = litellm
        self.model_name, self.name = model_name, f"litellm:{model_name}"
        self._address, self._provider = base_url, self._find_provider(base_url)
        self.base_url = base_url or self._provider
        self._credentials = {name: value for name, value in (credentials or {}).items() if value}
        self._secrets = [*self._credentials.values(), *(os.environ.get(name, "") for name in _SECRETS)]
        self.retries = 0
        self._key_variable = (
            "AWS_ACCESS_KEY_ID" if self._provider == "bedrock" else f"{self._provider.upper()}_API_KEY"
        )
        self._retries, self._limits = retries, {"rpm": rpm, "tpm": tpm}
        self._timeout_s, self._router = timeout_s, None

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
        if self._credentials or self._address:
            return
        if self._provider == "bedrock":
            import boto3

            if await asyncio.to_thread(boto3.Session().get_credentials) is None:
                raise InputError(
                    f"--model_name {self.model_name}: AWS has no credentials here; set AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY, or a profile or role that boto3 finds"
                )
            return
        found = self._litellm.validate_environment(model=self._qualified())
        missing = [] if found["keys_in_environment"] else found["missing_keys"]
        key = f"{self._provider.upper()}_API_KEY"
        if not os.environ.get(key, key).strip():  # set but empty, which LiteLLM takes for a key
            missing = [key]
        if missing:
            raise InputError(f"--model_name {self.model_name}: set {' and '.join(missing)}")

    async def aclose(self) -> None:
        if self._router is not None:
            self._router.discard()
            self._router = None
            await self._litellm.close_litellm_async_clients()
            self._litellm.in_memory_llm_clients_cache.flush_cache()  # the closed ones are kept otherwise

    async def _ask(self, request: dict[str, Any], session: str | None) -> Completion:
        """One request, tried again by LiteLLM, whose errors are OpenAI's."""
        known = self._litellm.exceptions
        request["model"] = self.model_name
        while True:
            try:
                answer = await self._open().acompletion(**request)
                break
            except known.ContextWindowExceededError:
                return Completion("", CONTEXT_OVERFLOW, 0, 0)
            except known.ContentPolicyViolationError:
                return Completion("", CONTENT_FILTER, 0, 0)
            except openai.APIError:
                raise
            except Exception as error:  # the router's own, and bare ones of LiteLLM
                if "No deployments available" not in str(error):
                    raise openai.APIError(f"{type(error).__name__}: {error}", None, body=None) from None
                # Our own limits are used up; the router counts by the minute of the clock.
                await asyncio.sleep(60.5 - time.time() % 60)
        hidden = getattr(answer, "_hidden_params", None) or {}
        tried = (hidden.get("additional_headers") or {}).get("x-litellm-attempted-retries") or 0
        self.retries += int(tried)
        try:
            made = completion(answer.model_dump())
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise InfraError(f"{self.name}: no usable choice ({type(error).__name__}: {error})") from None
        return replace(
            made, cost=hidden.get("response_cost") or None, reasoning_tokens=made.reasoning_tokens or 0
        )

    def _open(self) -> Any:
        """The router; made on first use, in the event loop that uses it."""
        if self._router is None:
            parameters = {
                "model": self._qualified(), "api_base": self._address, "timeout": self._timeout_s,
                "max_retries": 0, "drop_params": True, **self._limits, **self._credentials,
            }  # fmt: skip
            key = self._credentials.get("api_key") or os.environ.get(KEY_VARIABLE)
            if self._provider == "openai" and self._address and not key:
                parameters["api_key"] = "none"  # a local service asks for none, the client insists on one
            given = {name: value for name, value in parameters.items() if value is not None}
            limited = any(self._limits.values())
            self._router = self._litellm.Router(
                model_list=[{"model_name": self.model_name, "litellm_params": given}],
                num_retries=self._retries, disable_cooldowns=True, set_verbose=False,
                routing_strategy="usage-based-routing-v2" if limited else "simple-shuffle",
            )  # fmt: skip
        return self._router

    def _qualified(self) -> str:
        prefix = f"{self._provider}/"
        return self.model_name if self.model_name.startswith(prefix) else prefix + self.model_name

    def _find_provider(self, base_url: str | None) -> str:
        if self.model_name.startswith("bedrock"):
            return "bedrock"
        try:
            return str(self._litellm.get_llm_provider(self.model_name)[1])
        except openai.APIError as error:
            if base_url:
                return "openai"
            raise InputError(
                f"--model_name {self.model_name}: LiteLLM knows no provider for it; write provider/name, as "
                "in bedrock/..., or give the address of an OpenAI-compatible service by --base_url"
            ) from error
