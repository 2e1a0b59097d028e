"""What the stages of one run share: configuration, files, one evaluator, and one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cobalt.errors import InfraError
from cobalt.files import plain, settings_hash
from cobalt.pipeline import Summary, failures_path
from cobalt.prompts import load as load_prompts
from cobalt.rollouts.settings import MultiTurnSettings, RolloutSettings
from cobalt.run.config import Config
from cobalt.run.remember import Remember
from cobalt.run.view import View
from cobalt.store import file_sha256

if TYPE_CHECKING:
    from cobalt.engines.base import ChatEngine
    from cobalt.evaluator import Evaluator

T = TypeVar("T")
NOT_IDENTITY = ("execution",)  # how fast, not what


class Job:
    """One run in the folder `out`. Use as a context manager: it closes evaluator and event loop.

    `seed` of sampling and training, `task_seed` of the tasks; `model` is the reference model's folder.
    """

    def __init__(self, config: Config, model: Path, out: Path, *, seed: int, task_seed: int) -> None:
        self.config, self.model, self.out = config, model, out
        self.seed, self.task_seed = seed, task_seed
        self.prompts = load_prompts(config.model.prompts)
        self.view: View | None = None
        self._runner = asyncio.Runner()
        self._evaluator: Evaluator | None = None

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        if self._evaluator is not None:
            self._evaluator.close()
        self._runner.close()

    @cached_property
    def model_sha256(self) -> str:
        """Hash of the reference model: weights, configuration and tokenizer."""
        files = sorted([*self.model.glob("*.safetensors"), *self.model.glob("*.json")])
        return settings_hash([[path.name, file_sha256(path)] for path in files])

    @cached_property
    def family_hash(self) -> str:
        from cobalt.tasks import tiny

        return tiny.family_hash()

    def identity(self) -> dict[str, Any]:
        """What makes this run another than the next: everything that can change a result."""
        config = {name: value for name, value in plain(self.config).items() if name not in NOT_IDENTITY}
        config["model"].pop("path")
        return {
            "config": config,
            "seed": self.seed,
            "task_seed": self.task_seed,
            "model_sha256": self.model_sha256,
            "prompts_sha256": self.prompts.sha256,
            "family_hash": self.family_hash,
        }

    def path(self, *parts: str) -> Path:
        """A file of the run."""
        return self.out.joinpath(*parts)

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator of all stages but training, opened when first asked for."""
        if self._evaluator is None:
            from cobalt.evaluator import LocalEvaluator

            execution = self.config.execution
            self._evaluator = Remember(LocalEvaluator(execution.workers, isolation=execution.isolation))
        return self._evaluator

    def counters(self) -> dict[str, float]:
        """Counters of the evaluator so far."""
        counters = self._evaluator.counters if self._evaluator is not None else {}
        found = {name: float(counters.get(name, 0)) for name in ("tests", "shared", "infra_errors")}
        return found | {"shared": found["shared"] + counters.get("remembered", 0)}

    @contextlib.contextmanager
    def engine(self, model: Path) -> Iterator[ChatEngine]:
        """An engine for a model folder, closed at the end."""
        from transformers.utils import logging

        from cobalt.engines import connect

        logging.disable_progress_bar()
        settings, threads = self.config.model, self.config.execution.threads
        engine = connect(settings.engine, str(model), max_context=settings.max_context, threads=threads)
        try:
            yield engine
        finally:
            self.wait(engine.aclose())

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in the run's event loop."""
        return self._runner.run(work)

    def single_turn(self) -> RolloutSettings:
        """Sampling of first programs for training tasks."""
        return RolloutSettings(**self._sampling(), n=self.config.collect.samples)

    def repair(self) -> MultiTurnSettings:
        """Sampling of the further programs for training tasks."""
        return MultiTurnSettings(**self._sampling(), turns=self.config.collect.turns)

    def evaluation(self) -> MultiTurnSettings:
        """Sampling on held-out tasks, the same for every model and control."""
        given = self.config.evaluate
        return replace(self.repair(), n=given.samples, turns=given.turns, first_turn=True)

    def _sampling(self) -> dict[str, Any]:
        return {**plain(self.config.sampling), "seed": self.seed, "prompts": self.prompts}


def complete(summary: Summary) -> Summary:
    """`summary`, if every row was made; raises InfraError naming the file of failures otherwise."""
    if summary.failed:
        raise InfraError(
            f"{summary.failed} of {summary.total} rows failed, see {failures_path(summary.output)}; "
            "run the same command again to try them again"
        )
    return summary
