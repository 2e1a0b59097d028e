"""What a replica of the evaluator tells Prometheus, through Ray's metrics."""

from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from typing import Any

from ray.util import metrics

from cobalt.evaluator.local import LocalEvaluator
from cobalt.schema import SKIPPED


class ReplicaMetrics:
    """Counters and gauges of one replica; Ray adds its name as a tag."""

    def __init__(self, evaluator: LocalEvaluator) -> None:
        self._evaluator = evaluator
        self._restarts_told = 0
        self._programs = metrics.Counter(
            "cobalt_evaluator_programs", "Programs judged, by status of the suite", ("status",)
        )
        self._tests = metrics.Counter("cobalt_evaluator_tests", "Tests run, by status", ("status",))
        self._shared = metrics.Counter("cobalt_evaluator_shared", "Verdicts taken from identical requests")
        self._cpu = metrics.Counter("cobalt_evaluator_cpu_seconds", "CPU seconds that tests used")
        self._restarts = metrics.Counter("cobalt_evaluator_worker_restarts", "Workers that were replaced")
        self._queue = metrics.Gauge("cobalt_evaluator_queue", "Programs that wait or run")

    def count(self, results: Iterable[Mapping[str, Any]]) -> None:
        """Add finished requests."""
        programs, tests, shared, cpu_s = Tally[str](), Tally[str](), 0, 0.0
        for result in results:
            if "per_test" not in result:  # a raw run
                tests[result["status"]] += 1
                cpu_s += result["cpu_s"]
                continue
            programs[result["status"]] += 1
            shared += result["shared"]
            if not result["shared"]:
                tests.update(each["status"] for each in result["per_test"] if each["status"] != SKIPPED)
                cpu_s += sum(each["cpu_s"] for each in result["per_test"])
        for counter, tally in ((self._programs, programs), (self._tests, tests)):
            for status, count in tally.items():
                counter.inc(count, {"status": status})
        restarts = self._evaluator.restarts - self._restarts_told
        self._restarts_told += restarts
        for counter, amount in ((self._shared, shared), (self._cpu, cpu_s), (self._restarts, restarts)):
            if amount > 0:  # Ray refuses a step of 0
                counter.inc(amount)
        self._queue.set(self._evaluator.waiting)
