"""verl on CPU: platform, engine, rollout and batch path, all of them registered plug-ins."""

from typing import Any


class NoRouter:
    """Stands for verl's load balancer (setting ``rollout.router_config_path``): there is no server.

    Here, because verl starts a process for it, which then has nothing to import.
    """

    def __init__(self, servers: dict[str, Any], settings: dict[str, Any]) -> None:
        pass
