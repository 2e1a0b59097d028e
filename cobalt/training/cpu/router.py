"""A request router that nobody asks; it imports nothing, as verl starts a process for it in any case."""

from __future__ import annotations

from typing import Any


class NoRouter:
    """Stands for verl's load balancer (setting ``rollout.router_config_path``): there is no server."""

    def __init__(self, servers: dict[str, Any], settings: dict[str, Any]) -> None:
        pass
