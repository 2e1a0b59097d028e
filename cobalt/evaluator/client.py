"""Finding the evaluator to use: in process, the Ray Serve application, or a URL."""

import json
import os
import socket
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from cobalt.errors import BadRequest, InfraError, InputError
from cobalt.evaluator.base import Evaluator
from cobalt.evaluator.local import LocalEvaluator
from cobalt.evaluator.remote import Refused, RemoteEvaluator, Transient
from cobalt.evaluator.request import APPLICATION, ROUTE, TOKEN_VARIABLE

_READY_S = 60.0


def connect(spec: str = "auto", *, workers: int | None = None) -> Evaluator:
    """The evaluator that `spec` names, ready for work; which one is said in one line on stderr.

    `local`: this machine, `workers` programs at once, at the best isolation level that works; `local:LEVEL`
    names one (`namespaces`, `landlock`, or `none`, which is never chosen otherwise). `serve`: the Ray Serve
    application `evaluator` of the cluster this process is connected to, of the one at RAY_ADDRESS, of the one
    begun here by `ray start`, or else of any that runs here. A URL: the same application over HTTP. `auto`:
    `serve`, but without that last resort, if such an application runs; else `local`.

    Raises InputError for another `spec`, InfraError if the evaluator cannot be reached or judges wrongly.
    """
    evaluator: Evaluator
    if spec.startswith(("http://", "https://")):
        evaluator = HttpEvaluator(spec)
        evaluator.wait_ready(_READY_S)
    elif spec == "serve":
        handle = _serve_handle(search=True)
        if handle is None:
            raise InfraError(
                f"no Ray Serve application '{APPLICATION}' was found; start one with: serve run "
                f"remote_reward_server:app --name {APPLICATION} --route-prefix {ROUTE} (if several Ray "
                "clusters run here, set RAY_ADDRESS, or give its URL: --evaluator http://localhost:8000)"
            )
        evaluator = ServeEvaluator(handle)
        evaluator.wait_ready(_READY_S)
    elif spec == "auto":
        handle = _serve_handle(search=False)
        if handle is None:
            return connect("local", workers=workers)
        evaluator = ServeEvaluator(handle)
        evaluator.wait_ready(_READY_S)
    elif spec.partition(":")[0] == "local":
        evaluator = LocalEvaluator(workers, isolation=spec.partition(":")[2] or "auto")
    else:
        raise InputError(f"--evaluator must be auto, local, local:LEVEL, serve or a URL, got {spec!r}")
    print(f"evaluator: {_describe(evaluator)}", file=sys.stderr)
    return evaluator


def _describe(evaluator: Evaluator) -> str:
    if isinstance(evaluator, LocalEvaluator):
        return f"in process, {evaluator.workers} workers, isolation {evaluator.isolation}"
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
            if error.code in (401, 403):
                raise InfraError(
                    f"the evaluator at {self.where} refuses the token: set {TOKEN_VARIABLE} to the service's"
                ) from None
            raise Transient(f"HTTP {error.code}: {text[:300]}") from None
        except (OSError, ValueError) as error:
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
            raise Transient(f"{type(error.cause).__name__}: {error.cause}") from None
        except (RayError, RayServeException, TimeoutError, OSError) as error:
            raise Transient(f"{type(error).__name__}: {error}") from None


def _serve_handle(*, search: bool) -> Any:
    """A handle of the running application, or None. Starts no cluster.

    `search`: take any cluster that runs on this machine. Otherwise only one that was meant for us: `auto`
    must not hold on to the short-lived cluster of another program.
    """
    address = cluster_address() or ("auto" if search else None)
    if address is None:
        return None
    import ray
    from ray import serve

    joined = not ray.is_initialized()
    if joined:
        try:
            ray.init(address=address, log_to_driver=False, logging_level="warning")
        except (ConnectionError, RuntimeError, ValueError) as error:
            print(f"evaluator: cannot join the Ray cluster at {address}: {error}", file=sys.stderr)
            return None
    try:
        if APPLICATION in serve.status().applications:
            return serve.get_app_handle(APPLICATION)
    except Exception as error:  # Serve raises many kinds; all mean that there is no such application to use
        print(f"evaluator: Ray is running, Serve is not ({type(error).__name__})", file=sys.stderr)
    if joined:
        ray.shutdown()
    return None


def cluster_address() -> str | None:
    """Address of a cluster that answers: ours if connected, RAY_ADDRESS, or the one begun by `ray start`."""
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        return "auto"
    address = os.environ.get("RAY_ADDRESS") or ""
    if not address:
        folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"  # as Ray looks for it
        note = Path(folder) / "ray" / "ray_current_cluster"
        try:
            address = note.read_text().strip()
        except OSError:
            return None
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        return address  # a scheme of Ray's own, as ray://host
    try:
        socket.create_connection((host.rpartition("/")[2], int(port)), timeout=2).close()
    except OSError:
        return None
    return address
