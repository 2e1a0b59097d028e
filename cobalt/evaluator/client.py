"""Finding the evaluator to use: in process, the Ray Serve application, or a URL."""

import sys
from dataclasses import replace

from cobalt.cli import Parser, positive_int
from cobalt.cluster import application
from cobalt.errors import InputError
from cobalt.evaluator.base import Evaluator
from cobalt.evaluator.checker import PUBLISHED, Rule
from cobalt.evaluator.environment import Environment, EnvironmentEvaluator, open_environment
from cobalt.evaluator.local import LocalEvaluator
from cobalt.evaluator.remote import (
    APPLICATION,
    DEPLOYMENT,
    ROUTE,
    HttpEvaluator,
    RemoteEvaluator,
    ServeEvaluator,
)
from cobalt.sandbox.limits import LEVELS, Limits

_READY_S = 60.0


def evaluator_flags(flags: Parser) -> None:
    """Add `--evaluator` and `--workers`, the arguments of `connect`."""
    flags.add_argument(
        "--evaluator", default="auto", metavar="auto|local|serve|URL",
        help="where programs run; auto is the Serve application of a reachable cluster, else this machine",
    )  # fmt: skip
    flags.add_argument(
        "--workers", type=positive_int, help="worker processes of a local evaluator (default: one per core)"
    )


def environment_flag(flags: Parser) -> None:
    """Add `--environment`, for `open_environment`."""
    flags.add_argument(
        "--environment", metavar="FILE.py:NAME", help="class that says what is run and what is right"
    )


def within(environment: Environment | None, evaluator: Evaluator) -> Evaluator:
    """An evaluator that judges by an environment on what another one runs; that one without."""
    return evaluator if environment is None else EnvironmentEvaluator(evaluator, environment)


def connect(
    spec: str = "auto",
    *,
    workers: int | None = None,
    environment: Environment | str | None = None,
    rule: Rule = PUBLISHED,
) -> Evaluator:
    """The evaluator that `spec` names, ready for work; which one is said in one line on stderr.

    `local`: this machine, `workers` programs at once, at the best isolation level that works; `local:LEVEL`
    names one (`namespaces`, `landlock`, or `none`, which is never chosen otherwise), `local+PACKAGE` what
    programs may import besides the standard library (numpy). `serve`: the Ray Serve application `evaluator`
    of the cluster this process is connected to, of the one at RAY_ADDRESS, of the one
    begun here by `ray start`, or else of any that runs here. A URL: the same application over HTTP. `auto`:
    `serve`, but without that last resort, if such an application runs; else `local`. `environment`: a class
    of the user's own that judges (`cobalt.evaluator.environment`), or its name. `rule`: of an evaluator of
    this machine, with the limits that go with it; remote ones have their own.

    Raises InputError for another `spec`, and where there is no evaluator of this version; InfraError if it
    judges wrongly. Safe to call within a running event loop, which waits meanwhile.
    """
    if environment is not None:
        if isinstance(environment, str):
            environment = open_environment(environment, "environment")
        return within(environment, connect(spec, workers=workers, rule=rule))
    evaluator: Evaluator
    check_spec(spec)
    if is_local(spec):
        evaluator = local(spec, workers, rule=rule)
        packages = "".join(f", with {name}" for name in evaluator.limits.packages)
        where = f"in process, {evaluator.workers} workers, isolation {evaluator.isolation}{packages}"
    elif spec.startswith(("http://", "https://")):
        evaluator, where = _ready(HttpEvaluator(spec))
    else:
        handle = application(APPLICATION, DEPLOYMENT, search=spec == "serve")
        if handle is None and spec == "auto":
            return connect("local", workers=workers, rule=rule)
        if handle is None:
            raise InputError(
                f"no Ray Serve application '{APPLICATION}' was found; start one with: serve run "
                f"remote_reward_server:app --name {APPLICATION} --route-prefix {ROUTE} (if several Ray "
                "clusters run here, set RAY_ADDRESS, or give its URL: --evaluator http://localhost:8000)"
            )
        evaluator, where = _ready(ServeEvaluator(handle))
    print(f"evaluator: {where}", file=sys.stderr)
    return evaluator


def check_spec(spec: str, name: str = "--evaluator") -> None:
    """Raises InputError, beginning with `name`, for what `connect` does not know; nothing is started."""
    if is_local(spec):
        level = spec.partition("+")[0].partition(":")[2] or "auto"
        _limits(spec, name)
        known = level in ("auto", *LEVELS)
    else:
        known = spec in ("auto", "serve") or (spec.startswith(("http://", "https://")) and spec[8:] != "")
    if not known:
        raise InputError(
            f"{name} must be auto, local, local:LEVEL, local+PACKAGE, serve or a URL, got {spec!r} (levels: "
            f"{', '.join(LEVELS)})"
        )


def is_local(spec: str) -> bool:
    """Whether programs are to run in this process, by `local`."""
    return spec.partition("+")[0].partition(":")[0] == "local"


def local(spec: str, workers: int | None, isolation: str = "auto", rule: Rule = PUBLISHED) -> LocalEvaluator:
    """The evaluator of `local[:LEVEL][+PACKAGE]`; `isolation` is the level where none is named."""
    place = spec.partition("+")[0].partition(":")[2]
    limits = replace(rule.limits, packages=_limits(spec).packages)
    return LocalEvaluator(workers, isolation=place or isolation, limits=limits, rule=rule)


def _limits(spec: str, name: str = "--evaluator") -> Limits:
    try:
        return Limits(packages=tuple(spec.split("+")[1:]))
    except ValueError as error:
        raise InputError(f"{name} {spec}: {error}") from None


def _ready(evaluator: RemoteEvaluator) -> tuple[RemoteEvaluator, str]:
    evaluator.wait_ready(_READY_S)
    return evaluator, evaluator.where
