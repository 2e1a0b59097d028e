"""Time for Ray Serve to start on a busy machine.

Serve's controller gives the process that listens for HTTP five seconds to come up, then kills it, and whoever
started Serve fails with `ActorDiedError`. With two busy processors that takes longer.
"""

import os

READY_VARIABLE = "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"
READY_S = "60"  # as long as Serve's own start waits for it


def allow_slow_start() -> None:
    """Raise the controller's limit to 60 s, unless the environment sets one.

    Only before Ray starts: the controller inherits the environment of the process that starts Ray.
    """
    os.environ.setdefault(READY_VARIABLE, READY_S)
