"""Finding the evaluator to use."""

from cobalt.errors import InputError
from cobalt.evaluator.base import Evaluator
from cobalt.evaluator.local import LocalEvaluator


def connect(spec: str = "auto", *, workers: int | None = None) -> Evaluator:
    """An evaluator: `local` (in process), `serve` (the Ray Serve application), a URL, or `auto`."""
    if spec in ("auto", "local"):
        return LocalEvaluator(workers)
    raise InputError(f"evaluator {spec!r} is not supported yet")
