"""A request router for one server; it imports nothing, as verl starts a process for it in any case."""

from __future__ import annotations

from typing import Any


class OneServerRouter:
    """The interface of verl's load balancers (setting ``rollout.router_config_path``) for a single server."""

    def __init__(self, servers: dict[str, Any], settings: dict[str, Any]) -> None:
        self.servers, self.inflight = dict(servers), 0

    def require_acquire_fields(self) -> list[str]:
        return []

    def require_release_fields(self) -> list[str]:
        return []

    def acquire_server(self, request_id: str, **_: Any) -> tuple[str, Any]:
        self.inflight += 1
        return next(iter(self.servers.items()))

    def release_server(self, server_id: str, request_id: str | None = None) -> None:
        self.inflight -= 1

    def add_servers(self, servers: dict[str, Any]) -> None:
        self.servers.update(servers)

    def remove_servers(self, server_ids: list[str]) -> None:
        for server_id in server_ids:
            self.servers.pop(server_id, None)

    def get_all_servers(self) -> list[str]:
        return list(self.servers)

    def get_status(self) -> dict[str, Any]:
        return {"servers": self.get_all_servers(), "total_inflight": self.inflight, "active_servers": 1}

    def clear_sticky_cache(self) -> dict[str, Any]:
        return {"cleared_entries": 0, "server_loads": {}}

    def get_total_inflight(self) -> int:
        return self.inflight
