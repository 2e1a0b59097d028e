"""Programs run in the cluster of the training: one pool of workers on each node, whoever asks for verdicts.

verl starts several reward and agent-loop workers on a node, each a process. The pool is an actor that
belongs to the training process: it outlives a worker that asks, is started again if it is killed itself, and
ends with the training, however that ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cobalt.cluster import application
from cobalt.errors import BadRequest, CobaltError
from cobalt.evaluator.client import is_local
from cobalt.evaluator.remote import APPLICATION, DEPLOYMENT, RemoteEvaluator, Transient

HERE = "node"  # cobalt.evaluator where pools were started
_NAME = "cobalt-evaluator-"
_READY_S = 120.0


class NodePools:
    """The pools of all nodes, as the training process sees them. ``counters``: their sums."""

    def __init__(self, settings: Any) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place, *packages = settings.evaluator.split("+")
        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU", 0) > 0]
        kind = ray.remote(num_cpus=0, max_restarts=-1, max_concurrency=10_000)(_pool_class())
        self._actors = []
        for node in nodes:
            arguments = {
                "workers": int(settings.evaluator_workers or spare(node["Resources"])),
                "isolation": place.partition(":")[2] or "auto",
                "packages": ",".join(packages),
            }
            pinned = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            options = {"name": _NAME + node["NodeID"], "scheduling_strategy": pinned}
            self._actors.append(kind.options(**options).remote(arguments))
            address = node["NodeManagerAddress"]
            print(f"cobalt: evaluator on {address}: {arguments['workers']} workers", flush=True)
        for actor in self._actors:
            PoolEvaluator(actor).wait_ready(_READY_S)
        self.isolation = ""

    @property
    def counters(self) -> dict[str, Any]:
        import ray
        from ray.exceptions import RayError

        total: dict[str, Any] = {}
        for actor in self._actors:
            try:
                status = ray.get(actor.status.remote(), timeout=30)
            except RayError:  # of a node that was lost
                continue
            self.isolation = status["isolation"]
            for name, value in status["counters"].items():
                total[name] = total.get(name, 0) + value
        return total

    def close(self) -> None:
        import ray

        for actor in self._actors:
            ray.kill(actor)


class Service:
    """The Serve application, which others may use too: counted by the samples' metrics, not by itself."""

    counters: Mapping[str, Any] = {}

    def __init__(self, handle: Any) -> None:
        self.isolation = handle.status.remote().result(timeout_s=_READY_S)["isolation"]

    def close(self) -> None:
        """It stays."""


def start(settings: Any) -> NodePools | Service | None:
    """Start the pools that the section ``cobalt`` asks for, and point it at them; None: it names a URL.

    ``auto`` is the Serve application where it runs, else pools. Raises InputError or InfraError if a pool
    does not judge a known program rightly.
    """
    if settings.evaluator in ("auto", "serve"):
        handle = application(APPLICATION, DEPLOYMENT)
        if handle is not None:
            settings.evaluator = "serve"
            return Service(handle)
        if settings.evaluator == "auto":
            settings.evaluator = "local"
    if not is_local(settings.evaluator):
        return None
    pools = NodePools(settings)
    settings.evaluator = HERE
    return pools


def spare(resources: Mapping[str, float]) -> int:
    """Cores of a node that may run programs: its resource ``evaluator``, else all, a quarter beside GPUs."""
    cores = int(resources["CPU"])
    return int(resources.get("evaluator") or max(1, cores // 4 if resources.get("GPU") else cores))


def _pool_class() -> type[Any]:
    from cobalt.evaluator.service import EvaluatorReplica

    class Pool(EvaluatorReplica):
        async def judge(self, requests: list[dict[str, Any]]) -> Any:
            return await self(requests)

    return Pool


class PoolEvaluator(RemoteEvaluator):
    """The pool of this process's node (of another one where it has none), or a given one."""

    name = "node"

    def __init__(self, actor: Any = None) -> None:
        super().__init__("the node's pool")
        self._actor = actor or _nearest()

    def _send(self, requests: list[dict[str, Any]], seconds: float) -> Any:
        import ray
        from ray.exceptions import RayError, RayTaskError

        try:
            return ray.get(self._actor.judge.remote(requests), timeout=seconds)
        except RayTaskError as error:
            if isinstance(error.cause, BadRequest):
                raise BadRequest(str(error.cause)) from None
            raise Transient(f"{type(error.cause).__name__}: {error.cause}") from None
        except (RayError, TimeoutError) as error:
            raise Transient(f"{type(error).__name__}: {error}") from None


def _nearest() -> Any:
    import ray

    own = ray.get_runtime_context().get_node_id()
    nodes = sorted((node["NodeID"] for node in ray.nodes()), key=lambda node: node != own)
    for node in nodes:
        try:
            return ray.get_actor(_NAME + node)
        except ValueError:
            continue
    raise CobaltError("no node of this cluster has an evaluator's pool: the training did not start one")
