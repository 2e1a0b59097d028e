"""Finding the evaluator to use: in process, the Ray Serve application, or a URL."""

import json
import os
import socket
import sys
import urllib.error
import urllib.request
from typing import Any

from cobalt.cluster import application
from cobalt.errors import BadRequest, InputError
from cobalt.evaluator.base import Evaluator
from cobalt.evaluator.local import LocalEvaluator
from cobalt.evaluator.remote import Absent, Refused, RemoteEvaluator, Transient
from cobalt.evaluator.request import APPLICATION, DEPLOYMENT, ROUTE, TOKEN_VARIABLE
from cobalt.sandbox.policy import Limits

_READY_S = 60.0


def connect(spec: str = "auto", *, workers: int | None = None) -> Evaluator:
    """The evaluator that `spec` names, ready for work; which one is said in one line on stderr.

    `local`: this machine, `workers` programs at once, at the best isolation level that works; `local:LEVEL`
    names one (`namespaces`, `landlock`, or `none`, which is never chosen otherwise), `local+PACKAGE` what
    programs may import besides the standard library (numpy). `serve`: the Ray Serve application `evaluator`
    of the cluster this process is connected to, of the one at RAY_ADDRESS, of the one
    begun here by `ray start`, or else of any that runs here. A URL: the same application over HTTP. `auto`:
    `serve`, but without that last resort, if such an application runs; else `local`.

    Raises InputError for another `spec`, and where there is no evaluator of this version; InfraError if it
    judges wrongly. Safe to call within a running event loop, which waits meanwhile.
    """
    evaluator: Evaluator
    if is_local(spec):
        evaluator = local(spec, workers)
    elif spec.startswith(("http://", "https://")):
        evaluator = HttpEvaluator(spec)
        evaluator.wait_ready(_READY_S)
    elif spec in ("auto", "serve"):
        handle = application(APPLICATION, DEPLOYMENT, search=spec == "serve")
        if handle is None and spec == "auto":
            return connect("local", workers=workers)
        if handle is None:
            raise InputError(
                f"no Ray Serve application '{APPLICATION}' was found; start one with: serve run "
                f"remote_reward_server:app --name {APPLICATION} --route-prefix {ROUTE} (if several Ray "
                "clusters run here, set RAY_ADDRESS, or give its URL: --evaluator http://localhost:8000)"
            )
        evaluator = ServeEvaluator(handle)
        evaluator.wait_ready(_READY_S)
    else:
        raise InputError(
            f"--evaluator must be auto, local, local:LEVEL, local+PACKAGE, serve or a URL, got {spec!r}"
        )
    print(f"evaluator: {_describe(evaluator)}", file=sys.stderr)
    return evaluator


def is_local(spec: str) -> bool:
    """Whether programs are to run in this process, by `local`."""
    return spec.partition("+")[0].partition(":")[0] == "local"


def local(spec: str, workers: int | None, isolation: str = "auto") -> LocalEvaluator:
    """The evaluator of `local[:LEVEL][+PACKAGE]`; `isolation` is the level where none is named."""
    place, *packages = spec.split("+")
    try:
        limits = Limits(packages=tuple(packages))
    except ValueError as error:
        raise InputError(f"--evaluator {spec}: {error}") from None
    return LocalEvaluator(workers, isolation=place.partition(":")[2] or isolation, limits=limits)


def _describe(evaluator: Evaluator) -> str:
    if isinstance(evaluator, LocalEvaluator):
        packages = "".join(f", with {name}" for name in evaluator.limits.packages)
        return f"in process, {evaluator.workers} workers, isolation {evaluator.isolation}{packages}"
    return evaluator.where if isinstance(evaluator, RemoteEvaluator) else evaluator.name


class HttpEvaluator(RemoteEvaluator):
    """The service over HTTP; `url` is that of the application (the route `/evaluator` is added if absent).

    A token that the service asks for is taken from the environment (COBALT_EVALUATOR_TOKEN).
    """

    name = "http"

    def __init__(self, url: str) -> None:
        url = url.rstrip("/")
        super().__init__(url if url.endswith(ROUTE) else url + ROUTE)

    def _send(self, requests: list[dict[str, Any]], seconds: float) -> Any:
        headers = {"Content-Type": "application/json"}
        token = os.environ.get(TOKEN_VARIABLE)
        if token:
            headers["Authorization"] = f"Bearer {token}"
        post = urllib.request.Request(self.where, json.dumps(requests).encode(), headers, method="POST")
        try:
            with urllib.request.urlopen(post, timeout=seconds) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                text = error.read(1 << 16).decode("utf-8", "replace")
            if error.code in (413, 422):
                raise BadRequest(_error_text(text)) from None
            if error.code in (429, 503):
                raise Refused(f"HTTP {error.code}: {text[:300]}") from None
            if error.code in (404, 405, 500, 501):
                raise Absent(f"HTTP {error.code}: {text[:300]}") from None
            if error.code in (401, 403):
                raise InputError(
                    f"the evaluator at {self.where} refuses the token: set {TOKEN_VARIABLE} to the service's"
                ) from None
            raise Transient(f"HTTP {error.code}: {text[:300]}") from None
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None)
            if isinstance(reason, ConnectionRefusedError | socket.gaierror):
                raise Absent(str(reason)) from None
            raise Transient(f"{type(error).__name__}: {error}") from None


def _error_text(text: str) -> str:
    try:
        return str(json.loads(text)["error"])
    except (ValueError, KeyError, TypeError):
        return text[:300]


class ServeEvaluator(RemoteEvaluator):
    """The service through a Ray Serve handle."""

    name = "serve"

    def __init__(self, handle: Any) -> None:
        super().__init__(f"the Ray Serve application '{APPLICATION}'")
        self._handle = handle

    def _send(self, requests: list[dict[str, Any]], seconds: float) -> Any:
        from ray.exceptions import RayError, RayTaskError
        from ray.serve.exceptions import BackPressureError, RayServeException

        try:
            return self._handle.remote(requests).result(timeout_s=seconds)
        except BackPressureError as error:
            raise Refused(str(error)) from None
        except BadRequest as error:
            raise BadRequest(str(getattr(error, "cause", error))) from None
        except RayTaskError as error:
            if isinstance(error.cause, BadRequest):
                raise BadRequest(str(error.cause)) from None
            if isinstance(error.cause, TypeError | LookupError | AttributeError):
                raise self.foreign(f"{type(error.cause).__name__}: {error.cause}") from None
            raise Transient(f"{type(error.cause).__name__}: {error.cause}") from None
        except (RayError, RayServeException, TimeoutError, OSError) as error:
            raise Transient(f"{type(error).__name__}: {error}") from None
