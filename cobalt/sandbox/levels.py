"""Which isolation levels this machine gives: every limit is tried from inside, none is assumed."""

import functools
import json
import os
import threading
import warnings
from collections.abc import Collection
from dataclasses import replace

from cobalt.errors import InfraError, InputError
from cobalt.sandbox.host_limits import host_obstacles
from cobalt.sandbox.policy import LEVELS, Limits
from cobalt.sandbox.trials import TRIALS, program
from cobalt.sandbox.worker import Worker, WorkerLost

_lock = threading.Lock()

_ADVICE = {
    "namespaces": "allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
    "user.max_user_namespaces>0; in Docker also --security-opt seccomp=unconfined --security-opt "
    "systempaths=unconfined), or use the level landlock (--evaluator local:landlock)",
    "landlock": "use a kernel of version 5.13 or later with Landlock enabled (lsm=landlock,...), "
    "or allow unprivileged user namespaces",
    "none": "check that this interpreter can be started as a child process",
}


def try_limits(
    level: str, limits: Limits | None = None, *, names: Collection[str] | None = None
) -> dict[str, str]:
    """What came of trying to break each limit at `level`, and to use each promise: `held` or `broken: ...`.

    `names`: which to try; by default all that belong to the level. `limits`: what is promised, times apart.
    Raises InfraError if no worker can be started at that level.
    """
    limits = replace(limits or Limits(), cpu_s=10.0, wall_s=None, suite_s=10.0)
    try:
        worker = Worker(level, stack_bytes=limits.stack_limit_bytes)
    except (WorkerLost, OSError) as error:
        raise InfraError(f"isolation level '{level}' is not available here: {error}") from None
    try:
        if names is None:
            names = [each.name for each in TRIALS if level in each.levels]
        found: dict[str, str] = {}
        # A second run looks for what the first one left behind.
        with worker.program(program(names, os.getpid(), limits).encode(), limits) as trial:
            for _ in range(2):
                facts = trial.run(b"")
                if facts.returncode != 0 or facts.limit:
                    how = f"limit {facts.limit}" if facts.limit else f"exit code {facts.returncode}"
                    said = facts.stderr.decode(errors="replace")[-500:]
                    raise InfraError(f"isolation level '{level}': the probe ended with {how}. {said}")
                for name, answer in json.loads(facts.stdout).items():
                    if found.get(name, "held") == "held":
                        found[name] = answer
        return found
    except WorkerLost as error:
        raise InfraError(f"isolation level '{level}' is not available here: {error}") from None
    finally:
        worker.close()


@functools.cache
def _why_not(level: str, pid: int, limits: Limits) -> str:
    """Empty if the level works and holds; otherwise what is wrong."""
    try:
        found = try_limits(level, limits).items()
        broken = [f"{name} ({answer})" for name, answer in found if answer != "held"]
    except InfraError as error:
        return str(error)
    return f"isolation level '{level}' does not hold here: {', '.join(broken)}" if broken else ""


def resolve(isolation: str, limits: Limits | None = None) -> str:
    """The level to use for `isolation`: a level's name, or `auto` for the best one that really works.

    `none` is never chosen by `auto`, and warns. Raises InputError for an unknown name and InfraError, with
    the reason and what to do about it, for a level that this machine does not give, or if the host's own
    limits are below what `limits` promise to programs.
    """
    if isolation not in ("auto", *LEVELS):
        raise InputError(f"isolation must be one of auto, {', '.join(LEVELS)}, got {isolation!r}")
    limits = limits or Limits()
    obstacles = host_obstacles(limits)
    if obstacles:
        raise InfraError(
            "the limits of this process are below what programs are promised:\n" + "\n".join(obstacles)
        )
    limits = replace(limits, cpu_s=10.0, wall_s=None, suite_s=10.0)  # of no concern to what is tried
    if isolation == "none":
        warnings.warn(
            "isolation 'none': programs can read and change your files and reach the network", stacklevel=3
        )
        return isolation
    reasons = []
    for level in LEVELS[:-1] if isolation == "auto" else [isolation]:
        with _lock:
            why = _why_not(level, os.getpid(), limits)
        if not why:
            return level
        reasons.append(f"{why}\n  to change that: {_ADVICE[level]}")
    raise InfraError("no safe way to run programs was found:\n" + "\n".join(reasons))
