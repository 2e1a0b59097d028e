"""The evaluator as a Ray Serve application, called through a handle or by HTTP POST.

    serve run remote_reward_server:app --name evaluator --route-prefix /evaluator

A request is `{code, test_cases: {inputs, outputs}}` or a list of them; the answer is the verdict or the list
of verdicts in the same order. Over HTTP a request of the wrong shape is answered with 422 and `{"error"}`;
through a handle it raises BadRequest. GET tells how the replica is doing.
"""

import asyncio
import json
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from ray import serve
from ray.serve import Application
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cobalt.errors import BadRequest, InfraError
from cobalt.evaluator.local import LocalEvaluator
from cobalt.evaluator.request import DEPLOYMENT, canary, parse_request
from cobalt.records import ExecutionResult

_LARGE_BYTES = 1 << 20  # from here on a body is parsed off the event loop


class Settings(BaseModel):
    """Arguments of the application: `serve run remote_reward_server:app replicas=2 workers=4`."""

    model_config = ConfigDict(extra="forbid")

    replicas: int = Field(1, ge=1)
    cpus_per_replica: float = Field(1.0, gt=0, description="CPUs that Ray reserves for a replica")
    workers: int = Field(0, ge=0, description="programs run at once by a replica; 0: one per CPU of its node")
    isolation: str = "auto"
    shared_verdicts: bool = True
    max_ongoing_requests: int = Field(256, ge=1, description="requests that a replica accepts at once")
    max_queued_requests: int = Field(4096, ge=-1, description="requests that wait before callers are refused")
    max_request_bytes: int = Field(256 << 20, ge=1)


class EvaluatorReplica:
    """One replica: a local evaluator behind an asynchronous front that never blocks."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = Settings(**settings)
        self._evaluator = LocalEvaluator(
            self._settings.workers or None,
            isolation=self._settings.isolation,
            shared_verdicts=self._settings.shared_verdicts,
        )
        self._in_flight = 0

    async def __call__(self, request: Any, test_cases: Any = None) -> Any:
        if isinstance(request, Request):
            return await self._http(request)
        if test_cases is not None:
            request = {"code": request, "test_cases": test_cases}
        return await self._answer(request)

    async def _answer(self, request: Any) -> ExecutionResult | list[ExecutionResult]:
        batch = isinstance(request, list)
        items = request if batch else [request]
        names = [f"request[{index}]" for index in range(len(items))] if batch else ["request"]
        parsed = [parse_request(item, where=name) for item, name in zip(items, names, strict=True)]
        self._in_flight += 1
        try:
            results = await asyncio.gather(*(self._evaluator.aevaluate(*each) for each in parsed))
        finally:
            self._in_flight -= 1
        return list(results) if batch else results[0]

    async def _http(self, request: Request) -> Response:
        if request.method == "GET":
            return JSONResponse(self.status())
        if request.method != "POST":
            return JSONResponse({"error": f"{request.method} is not supported: POST a request"}, 405)
        try:
            answer = await self._answer(await self._body(request))
        except BadRequest as error:
            return JSONResponse({"error": str(error)}, 422)
        # Not JSONResponse: feedback may hold lone surrogates, which only escapes can carry.
        return Response(json.dumps(answer), media_type="application/json")

    async def _body(self, request: Request) -> Any:
        limit = self._settings.max_request_bytes
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise BadRequest(f"request: larger than {limit} bytes")
            parts.append(part)
        data = b"".join(parts)
        try:
            return await asyncio.to_thread(json.loads, data) if size > _LARGE_BYTES else json.loads(data)
        except (ValueError, RecursionError) as error:
            raise BadRequest(f"request: not valid JSON ({error})") from None

    def status(self) -> dict[str, Any]:
        """What the replica is and has done."""
        evaluator = self._evaluator
        return {
            "status": "ok",
            "isolation": evaluator.isolation,
            "workers": evaluator.workers,
            "in_flight": self._in_flight,
            "counters": evaluator.counters,
        }

    async def check_health(self) -> None:
        """Called by Serve. An idle replica proves itself on a program whose verdict is known."""
        if self._in_flight:
            return  # every run has its own deadline, and a canary would queue behind them
        result = await self._evaluator.aevaluate(*parse_request(canary()))
        if result["passing"] != [True]:
            raise InfraError(f"the canary program was judged {result['status']}: {result['feedback']}")

    def __del__(self) -> None:
        if hasattr(self, "_evaluator"):
            self._evaluator.close()


def app(args: Settings) -> Application:
    """Builder of the application; `serve run` passes its `key=value` arguments as `args`."""
    deployment = serve.deployment(
        EvaluatorReplica,
        name=DEPLOYMENT,
        num_replicas=args.replicas,
        max_ongoing_requests=args.max_ongoing_requests,
        max_queued_requests=args.max_queued_requests,
        ray_actor_options={"num_cpus": args.cpus_per_replica},
        health_check_timeout_s=60,
        graceful_shutdown_timeout_s=5,
    )
    return deployment.bind(args.model_dump())
