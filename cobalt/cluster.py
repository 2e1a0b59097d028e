"""The Ray cluster that was meant for us: what it has, and the applications that Ray Serve runs on it."""

import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cobalt.errors import InputError

# Ray asks a port that is not its own for minutes. Its server speaks HTTP/2, which answers this opening (the
# protocol's name and empty settings) with settings of its own, a frame of kind 4.
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0\0\0\0\0"
_TLS = "RAY_USE_TLS"  # then it would not answer in clear
_FAILED = ("DEPLOY_FAILED", "UNHEALTHY")

# Serve's controller gives the process that listens for HTTP five seconds to come up, then kills it, and
# whoever started Serve fails with `ActorDiedError`. With two busy processors that takes longer.
READY_VARIABLE = "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"
READY_S = "60"  # as long as Serve's own start waits for it


def allow_slow_start() -> None:
    """Raise the controller's limit to 60 s, unless the environment sets one.

    Only before Ray starts: the controller inherits the environment of the process that starts Ray.
    """
    os.environ.setdefault(READY_VARIABLE, READY_S)


def application(name: str, deployment: str, *, search: bool = False) -> Any:
    """A handle of the Serve application `name`, or None where none is to be found. Starts no cluster.

    The cluster is the one this process is connected to, that of RAY_ADDRESS, or the one begun here by
    `ray start`; with `search`, else any that runs on this machine (without it nobody holds on to the
    short-lived cluster of another program). Raises InputError where somebody else's word stands against ours:
    RAY_ADDRESS names a cluster that does not answer, `deployment` runs under another application's name, or
    the application has failed.
    """
    address = _address() or ("auto" if search else None)
    if address is None:
        return None
    import ray
    from ray import serve

    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    joined = not ray.is_initialized()
    if joined and not _join(address):
        return None
    try:
        running = serve.status().applications
    except Exception as error:  # Serve raises many kinds; all mean that it does not run
        print(f"ray: the cluster is there, Serve is not ({type(error).__name__})", file=sys.stderr)
        running = {}
    if name in running:
        if running[name].status in _FAILED:
            raise InputError(
                f"the Ray Serve application '{name}' is {running[name].status.value}: "
                f"{running[name].message.strip() or 'see `serve status`'}"
            )
        return serve.get_app_handle(name)
    others = [other for other, each in running.items() if deployment in each.deployments]
    if others:
        raise InputError(
            f"Ray Serve runs {deployment} as application '{others[0]}', and '{name}' is looked for: "
            f"start it with `serve run ... --name {name}`"
        )
    if joined:
        ray.shutdown()
    return None


def amounts(resource: str) -> list[float]:
    """How much of a resource each node of the cluster has, of those that have any; none without a cluster.

    For builders of applications: `serve run` calls them before it joins the cluster. Leaves no connection
    behind that was not there.
    """
    import ray

    joined = not ray.is_initialized()
    if joined:
        address = _address()
        if address is None or not _join(address):
            return []
    try:
        found = [float(node["Resources"].get(resource, 0)) for node in ray.nodes() if node["Alive"]]
    finally:
        if joined:
            ray.shutdown()
    return [amount for amount in found if amount]


def to_join() -> str | None:
    """Address of the cluster that a training joins: RAY_ADDRESS, or the one begun here by `ray start`.

    None: it starts one of its own, as where RAY_ADDRESS is Ray's word `local`. Raises InputError if what
    RAY_ADDRESS names does not answer.
    """
    return None if os.environ.get("RAY_ADDRESS") == "local" else _address()


@contextmanager
def joined(address: str) -> Iterator[None]:
    """Connected to a cluster while open. Raises InputError if that fails."""
    import ray

    if not _join(address):
        raise _no_cluster(address, "see above")
    try:
        yield
    finally:
        ray.shutdown()


def leave() -> None:
    """Close the connection of this process to a cluster, if it has one."""
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


def _join(address: str) -> bool:
    """Connect to a cluster. Raises InputError if that fails and RAY_ADDRESS names it; else says so."""
    import ray

    try:
        ray.init(address=address, log_to_driver=False, logging_level="warning")
    except (ConnectionError, RuntimeError, ValueError) as error:
        if _named():
            raise _no_cluster(address, str(error)) from None
        print(f"ray: cannot join the cluster at {address}: {error}", file=sys.stderr)
        return False
    return True


def _named() -> str:
    """RAY_ADDRESS; "local" is Ray's word for a new cluster, so for none."""
    given = os.environ.get("RAY_ADDRESS") or ""
    return "" if given == "local" else given


def _address() -> str | None:
    """Address of a cluster that answers: ours if connected, RAY_ADDRESS, or the one begun by `ray start`."""
    if "ray" in sys.modules and sys.modules["ray"].is_initialized():
        return "auto"
    address = _named()
    if not address:
        folder = os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp"  # as Ray looks for it
        note = Path(folder) / "ray" / "ray_current_cluster"
        try:
            address = note.read_text().strip()
        except OSError:
            return None
    host, _, port = address.rpartition(":")
    if not port.isdecimal():
        return address  # `auto`, or a scheme of Ray's own, as ray://host
    try:
        with socket.create_connection((host.rpartition("/")[2], int(port)), timeout=5) as wire:
            wire.sendall(_HELLO)
            head = wire.recv(9)
        problem = None if _TLS in os.environ or head[3:4] == b"\x04" else "what listens there is not Ray"
    except OSError as error:
        problem = error.strerror or str(error)
    if problem is None:
        return address
    if _named():
        raise _no_cluster(address, problem)
    return None  # what `ray start` left behind


def _no_cluster(address: str, why: str) -> InputError:
    return InputError(
        f"RAY_ADDRESS={address}: no Ray cluster can be joined there ({' '.join(why.split())[:300]}); "
        "correct or unset it, or start one with: ray start --head"
    )
