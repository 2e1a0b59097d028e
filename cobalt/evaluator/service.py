"""The evaluator as a Ray Serve application, called through a handle or by HTTP POST.

    serve run remote_reward_server:app --name evaluator --route-prefix /evaluator

A request is `{code, test_cases: {inputs, outputs}}` or a list of them; the answer is the verdict or the list
of verdicts in the same order. Over HTTP a request of the wrong shape is answered with 422 and `{"error"}`;
through a handle it raises BadRequest. `{source[, stdin, files, time_s, fetch_files]}`, posted to
`/evaluator/run`, is answered with one raw run (`cobalt.evaluator.runs.Run`). `/evaluator/run_code` is
SandboxFusion's (`cobalt.evaluator.sandbox_fusion`). GET tells how the replica is doing.
"""

import asyncio
import json
import os
import secrets
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from ray import serve
from ray.serve import Application
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from cobalt import __version__
from cobalt.cluster import allow_slow_start, amounts
from cobalt.errors import BadRequest, InfraError
from cobalt.evaluator import sandbox_fusion
from cobalt.evaluator.access import allowed, fingerprint
from cobalt.evaluator.checker import LIVECODEBENCH, Rule
from cobalt.evaluator.local import LocalEvaluator
from cobalt.evaluator.metrics import ReplicaMetrics
from cobalt.evaluator.remote import DEPLOYMENT, TOKEN_VARIABLE
from cobalt.evaluator.requests import canary, is_run, parse_request
from cobalt.evaluator.runs import Run, RunRequest
from cobalt.sandbox.limits import Limits
from cobalt.testcases import TestCases

_LARGE_BYTES = 1 << 20  # from here on a body is parsed off the event loop


class Settings(BaseModel):
    """Arguments of the application: `serve run remote_reward_server:app replicas=8 cpus_per_replica=1`.

    Without `replicas` there is one replica on each node of the cluster, which runs as many programs at once
    as its node has CPUs; with it, as many as `cpus_per_replica`.
    """

    model_config = ConfigDict(extra="forbid")

    replicas: int = Field(default=0, ge=0, description="0: one on each node")
    cpus_per_replica: float = Field(default=1.0, gt=0, description="CPUs that Ray reserves for a replica")
    resource: str = Field(
        default="", description='Ray resource reserved in place of CPU, on nodes that have it; "": CPU'
    )
    workers: int = Field(default=0, ge=0, description="programs run at once by a replica; 0: see above")
    min_replicas: int = Field(default=0, ge=0, description="with max_replicas: scale from so many")
    max_replicas: int = Field(default=0, ge=0, description="scale with the load up to so many; 0: do not")
    target_ongoing_requests: float = Field(default=16, gt=0, description="requests per replica to scale for")
    isolation: str = Field(default="auto", description="level of the sandbox (docs/execution.md)")
    shared_verdicts: bool = Field(default=True, description="identical requests run once")
    compare: str = Field(default="strip", description="strip, lines, tokens, float(REL, ABS), livecodebench")
    stop_on_first_failure: bool = Field(default=False, description="skip tests after a failed one")
    cpu_s: float = Field(default=Limits.cpu_s, gt=0, description="CPU seconds of a test")
    suite_s: float = Field(default=Limits.suite_s, gt=0, description="CPU seconds of a program's tests")
    exit_and_quit: bool = Field(default=True, description="False: they fail, as in the published code")
    packages: str = Field(default="", description="that programs may import, as numpy; published: none")
    memory_mb: int = Field(default=Limits.memory_bytes >> 20, ge=128, description="memory of a test, MiB")
    max_ongoing_requests: int = Field(default=256, ge=1, description="requests a replica accepts at once")
    max_queued_requests: int = Field(default=4096, ge=-1, description="more waiting requests are refused")
    max_request_bytes: int = Field(default=256 << 20, ge=1, description="larger requests are refused")

    @model_validator(mode="before")
    @classmethod
    def _limits_of_the_rule(cls, given: dict[str, Any]) -> dict[str, Any]:
        own = Rule(LIVECODEBENCH).limits
        theirs = {"cpu_s": own.cpu_s, "suite_s": own.suite_s}
        return theirs | given if given.get("compare") == LIVECODEBENCH else given

    @model_validator(mode="after")
    def _fits(self) -> "Settings":
        if self.replicas and self.max_replicas:
            raise ValueError("give replicas, or min_replicas and max_replicas, not both")
        if self.max_replicas and self.max_replicas < max(1, self.min_replicas):
            raise ValueError("max_replicas must be at least min_replicas, and at least 1")
        self.rule()
        self.limits()
        return self

    def rule(self) -> Rule:
        return Rule(self.compare, self.stop_on_first_failure)

    def limits(self) -> Limits:
        return Limits(
            cpu_s=self.cpu_s,
            wall_s=self.cpu_s if self.compare == LIVECODEBENCH else None,
            suite_s=self.suite_s,
            memory_bytes=self.memory_mb << 20,
            exit_and_quit=self.exit_and_quit,
            packages=tuple(self.packages.split(",")) if self.packages else (),
        )

    @property
    def one_per_node(self) -> bool:
        return not (self.replicas or self.max_replicas)

    def workers_of_replica(self) -> int | None:
        """Programs at once; None: one per CPU of the node."""
        if self.workers or self.one_per_node:
            return self.workers or None
        return max(1, int(self.cpus_per_replica))


class EvaluatorReplica:
    """One replica: a local evaluator behind an asynchronous front that never blocks.

    `token`: salt and hash (`fingerprint`) of the token that HTTP requests must bear; None: none.
    """

    def __init__(self, settings: dict[str, Any], token: tuple[str, str] | None = None) -> None:
        self._settings = Settings(**settings)
        self._token = token
        self._evaluator = LocalEvaluator(
            self._settings.workers_of_replica(),
            isolation=self._settings.isolation,
            limits=self._settings.limits(),
            shared_verdicts=self._settings.shared_verdicts,
            rule=self._settings.rule(),
        )
        self._metrics = ReplicaMetrics(self._evaluator)
        self._in_flight = 0

    async def __call__(self, request: Any, test_cases: Any = None) -> Any:
        if isinstance(request, Request):
            return await self._http(request)
        if test_cases is not None:
            request = {"code": request, "test_cases": test_cases}
        return await self._answer(request)

    async def _answer(self, request: Any) -> Any:
        """Verdicts, or raw runs for requests of these."""
        batch = isinstance(request, list)
        items = request if batch else [request]
        names = [f"request[{index}]" for index in range(len(items))] if batch else ["request"]
        rule = self._evaluator.rule
        parsed = [
            RunRequest.parse(item, name) if is_run(item) else parse_request(item, where=name, rule=rule)
            for item, name in zip(items, names, strict=True)
        ]
        results = await self._all(parsed)
        return results if batch else results[0]

    async def _all(self, parsed: Sequence[RunRequest | tuple[str | None, TestCases, Rule]]) -> list[Any]:
        self._in_flight += 1
        try:
            results = await asyncio.gather(*map(self._begun, parsed))
        finally:
            self._in_flight -= 1
        self._metrics.count(results)
        return results

    async def _begun(self, asked: RunRequest | tuple[str | None, TestCases, Rule]) -> Any:
        if isinstance(asked, RunRequest):
            run: Run = await asyncio.wrap_future(self._evaluator._start_run(asked))  # cancelled with this
            return asdict(run)
        code, tests, rule = asked
        return await self._evaluator.aevaluate(code, tests, rule=rule)

    async def _http(self, request: Request) -> Response:
        if not allowed(request.headers.get("authorization", ""), self._token):
            return JSONResponse({"error": f"a bearer token is needed (the service's {TOKEN_VARIABLE})"}, 401)
        path = request.url.path.rstrip("/")
        if request.method == "GET" and path.endswith(sandbox_fusion.PING):
            return JSONResponse("pong")
        if request.method == "GET":
            return JSONResponse(openapi() if path.endswith("/openapi.json") else self.status())
        if request.method != "POST":
            return JSONResponse({"error": f"{request.method} is not supported: POST a request"}, 405)
        if path.endswith(sandbox_fusion.ROUTES):
            return await self._fusion(path, request)
        try:
            body = await self._body(request)
            run = path.endswith("/run")
            if any(is_run(each) != run for each in (body if isinstance(body, list) else [body])):
                raise BadRequest(f"request: '{'source' if run else 'code'}' is missing")
            answer = await self._answer(body)
        except BadRequest as error:
            return JSONResponse({"error": str(error)}, 422)
        # Not JSONResponse: feedback may hold lone surrogates, which only escapes can carry.
        return Response(json.dumps(answer), media_type="application/json")

    async def _fusion(self, path: str, request: Request) -> Response:
        """A request of SandboxFusion's interface."""
        try:
            asked = sandbox_fusion.parse(await self._body(request), path)
            (run,) = await self._all([asked]) if isinstance(asked, RunRequest) else (asked,)
            found, status = sandbox_fusion.answer(run), 200
        except (BadRequest, ValidationError) as error:
            found, status = sandbox_fusion.refusal(error), 422
        return Response(json.dumps(found), status, media_type="application/json")

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
            "waiting": evaluator.waiting,
            "restarts": evaluator.restarts,
            "counters": evaluator.counters,
        }

    async def check_health(self) -> None:
        """Called by Serve. An idle replica proves itself on a program whose verdict is known."""
        if self._in_flight:
            return  # every run has its own deadline, and a canary would queue behind them
        code, tests, _ = parse_request(canary())
        result = await self._evaluator.aevaluate(code, tests)
        if result["passing"] != [True]:
            raise InfraError(f"the canary program was judged {result['status']}: {result['feedback']}")

    def __del__(self) -> None:
        if hasattr(self, "_evaluator"):
            self._evaluator.close()


def openapi() -> dict[str, Any]:
    """The HTTP interface in OpenAPI 3.1, served at `/evaluator/openapi.json`."""
    found: dict[str, Any] = json.loads(Path(__file__).with_name("openapi.json").read_text(encoding="utf-8"))
    found["info"]["version"] = __version__
    return found


def app(args: Settings) -> Application:
    """Builder of the application; `serve run` passes its `key=value` arguments as `args`.

    If COBALT_EVALUATOR_TOKEN is set here, HTTP requests must bear it.
    """
    allow_slow_start()  # `serve run` builds the application, then starts Ray
    options: dict[str, Any] = {"num_replicas": args.replicas}
    if args.max_replicas:
        options = {
            "autoscaling_config": {
                "min_replicas": max(1, args.min_replicas),
                "max_replicas": args.max_replicas,
                "target_ongoing_requests": args.target_ongoing_requests,
            }
        }
    elif args.one_per_node:
        options = {"num_replicas": max(1, len(amounts(args.resource or "CPU"))), "max_replicas_per_node": 1}
    if args.resource:  # a node's cores are its CPU for training and its resource for programs
        actor = {"num_cpus": 0, "resources": {args.resource: args.cpus_per_replica}}
    else:
        actor = {"num_cpus": args.cpus_per_replica}
    deployment = serve.deployment(
        EvaluatorReplica,
        name=DEPLOYMENT,
        max_ongoing_requests=args.max_ongoing_requests,
        max_queued_requests=args.max_queued_requests,
        ray_actor_options=actor,
        health_check_timeout_s=60,
        graceful_shutdown_timeout_s=5,
        logging_config={"enable_access_log": False},  # a line for each verdict, in the log of every training
        **options,
    )
    token, salt = os.environ.get(TOKEN_VARIABLE), secrets.token_hex(8)
    return deployment.bind(args.model_dump(), (salt, fingerprint(salt, token)) if token else None)
