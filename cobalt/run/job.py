"""What the stages of one run share: configuration, files, evaluator, engines."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from cobalt.config.config import Config
from cobalt.engines.own import located
from cobalt.files import file_sha256, plain, settings_hash
from cobalt.prompts import load as load_prompts
from cobalt.prompts import near
from cobalt.rollouts.settings import MultiTurnSettings, RolloutSettings
from cobalt.run.first_turns import FirstTurns
from cobalt.run.functions import functions
from cobalt.run.serving import Server
from cobalt.run.stage_cache import Shared
from cobalt.run.view import View

if TYPE_CHECKING:
    from cobalt.engines.base import ChatEngine
    from cobalt.evaluator import Evaluator

T = TypeVar("T")
NOT_IDENTITY = ("execution",)  # how fast, not what
# What decides a model's answers: weights, configuration, tokenizer, chat template.
_MODEL_FILES = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.model", "merges.txt", "vocab.txt")


class Job:
    """One run in the folder `out`. Use as a context manager: it closes evaluator, server and event loop.

    `seed` of sampling and training, `task_seed` of the tasks; `model` is the reference model's folder, or its
    name on the hub. `file` is the configuration file, from whose folder relative paths are meant; `shared` is
    what the run has in common with others; `smoke`: its results say nothing about the method.
    """

    def __init__(
        self,
        config: Config,
        model: Path | str,
        out: Path,
        *,
        seed: int,
        task_seed: int,
        file: Path,
        shared: Shared | None = None,
        smoke: bool = False,
        changed: Sequence[str] = (),
    ) -> None:
        self.smoke, self.changed = smoke, changed
        self.config, self.model, self.out, self.file = config, model, out, file
        self.seed, self.task_seed = seed, task_seed
        self.shared = shared or Shared(None)
        # The reference's dialogues outlive a change of the training, whatever is shared with other runs.
        self.of_reference = self.shared if self.shared.folder else Shared(out / "kept")
        self.prompts_source = near(config.model.prompts, file.parent)
        self.prompts = load_prompts(self.prompts_source)
        self.functions = functions(config, file, self.prompts)
        self.own_engine = located(config.model.engine, file, "model.engine")
        self.view: View | None = None
        self._runner = asyncio.Runner()
        self._evaluator: Evaluator | None = None
        self._server: Server | None = None

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        if self._evaluator is not None:
            self._evaluator.close()
        self._runner.close()

    @cached_property
    def model_sha256(self) -> str:
        """Hash of the reference model."""
        return model_hash(self.model)

    @property
    def model_basis(self) -> dict[str, Any]:
        """The reference model, what runs it, and what its programs are judged and answered by, for the
        settings of stages.
        """
        given, own = self.config.model, (self.own_engine or "").rpartition(":")[0]
        return {
            "model_sha256": self.model_sha256, "engine": given.engine, "served_name": given.served_name,
            "max_context": given.max_context,
            **({"engine_sha256": file_sha256(own)} if own.endswith(".py") else {}),
            **self.functions.identity,
        }  # fmt: skip

    @cached_property
    def family_hash(self) -> str | None:
        """Identity of the tiny task family, None for other tasks."""
        if self.config.tasks.family != "tiny":
            return None
        from cobalt.tasks import tiny

        return tiny.FAMILIES[self.config.tasks.version].family_hash()

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
            **self.functions.identity,
            "family_hash": self.family_hash,
        }

    @property
    def about(self) -> dict[str, Any]:
        """What pages call the reference model, and whether all of this is a rehearsal."""
        return {
            "model": self.model if isinstance(self.model, str) else self.model.name,
            "smoke": self.smoke,
            "changed": list(self.changed),
        }

    def path(self, *parts: str) -> Path:
        """A file of the run."""
        return self.out.joinpath(*parts)

    @property
    def evaluator(self) -> Evaluator:
        """The evaluator of all stages but training, opened when first asked for."""
        if self._evaluator is None:
            from cobalt.evaluator.client import connect, is_local, local, within
            from cobalt.evaluator.verdict_cache import VerdictCache

            own = self.config.execution
            if is_local(own.evaluator):
                inner: Evaluator = local(own.evaluator, own.workers, own.isolation)
            else:
                inner = connect(own.evaluator, workers=own.workers)
            self._evaluator = within(self.functions.environment, inner)
            # The stages ask about parts of a task's tests, and about the same few programs again.
            self._evaluator.cache = VerdictCache(200_000, by_test=True)
        return self._evaluator

    def counters(self) -> dict[str, float]:
        """Counters of the evaluator so far."""
        counters = self._evaluator.counters if self._evaluator is not None else {}
        return {name: float(counters.get(name, 0)) for name in ("tests", "shared", "infra_errors")}

    @contextlib.contextmanager
    def engine(self, model: Path | str, *, shared_first: bool = True) -> Iterator[ChatEngine]:
        """An engine for the reference or a trained model, closed at the end.

        A server that had to be started stays until another model, or `release`, is asked for. With
        `shared_first` the first turns are kept for, and taken from, all stages that ask so.
        """
        from cobalt.engines import check

        engine = self._connected(model)
        try:
            self.wait(check(engine))
            yield FirstTurns(engine, self._first_turns(model)) if shared_first else engine
        finally:
            self.wait(engine.aclose())

    def _first_turns(self, model: Path | str) -> Path:
        """Where the first turns of a model, as its engine makes them, are kept."""
        basis = self.model_basis
        if model != self.model:
            trained = {"trained_engine": self.config.model.trained_engine}
            basis = basis | {"model_sha256": model_hash(model)} | trained
        return self.path("first_turns", f"{settings_hash(basis)[:16]}.jsonl")

    def _connected(self, model: Path | str) -> ChatEngine:
        from cobalt.engines import connect

        given, execution = self.config.model, self.config.execution
        reference = model == self.model
        name = given.engine if reference else given.trained_engine or given.engine
        if self.own_engine is not None and name == given.engine:
            served, url = (given.served_name, given.base_url) if reference else (None, None)
            return connect(self.own_engine, served or str(model), url)
        if name == "transformers":
            from transformers.utils import logging

            logging.disable_progress_bar()
            return connect(name, str(model), max_context=given.max_context, threads=execution.threads)
        if reference and (given.base_url or name == "litellm"):
            served = given.served_name or (None if name == "vllm" else str(given.path))
            return connect(name, served, given.base_url)
        # A server's processes may work in other folders than this one.
        folder = str(model.resolve()) if isinstance(model, Path) else model
        if self._server is None or self._server.model != folder:
            self.release()
            self._server = Server(execution.serving, folder, given.max_context, self.path("serving"))
        return connect("vllm", None, self._server.url(self.view))

    def release(self) -> None:
        """End the server, if one was started: its GPUs are free afterwards."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end in the run's event loop."""
        return self._runner.run(work)

    def single_turn(self) -> RolloutSettings:
        """Sampling of first programs for training tasks."""
        return RolloutSettings(**self._sampling(), n=self.config.collect.samples)

    def repair(self) -> MultiTurnSettings:
        """Sampling of the further programs for training tasks."""
        collect, model = self.config.collect, self.config.model
        return MultiTurnSettings(
            **self._sampling(), turns=collect.turns, enable_thinking=model.thinking,
            feedback=self.functions.feedback,
        )  # fmt: skip

    def evaluation(self, samples: int | None = None, turns: int | None = None) -> MultiTurnSettings:
        """Sampling on tasks to evaluate on, one for every model and control; None: as `evaluate` says."""
        given = self.config.evaluate
        return replace(self.repair(), n=samples or given.samples, turns=turns or given.turns, first_turn=True)

    def cut(self) -> dict[str, Any]:
        """How trajectories are selected and sliced, as `build_contexts` takes it."""
        given = self.config.contexts
        return {
            "policy": given.policy, "selection": given.selection if given.partial else "none",
            "max_prompt_tokens": given.max_prompt_tokens or self.config.train.max_prompt_tokens,
            "rule": self.functions.rule,
        }  # fmt: skip

    @property
    def cut_basis(self) -> dict[str, Any]:
        """The same for the settings of stages."""
        cut = self.cut()
        rule = cut.pop("rule")
        return cut | (rule.identity("rule") if rule else {})

    def note(self, text: str) -> None:
        """Say something in the middle of a stage, where anybody looks on."""
        if self.view is not None:
            self.view.note(text)

    def _sampling(self) -> dict[str, Any]:
        return {**plain(self.config.sampling), "seed": self.seed, "prompts": self.prompts}


def model_hash(model: Path | str) -> str:
    """Hash of a model: its weights, configuration and tokenizer, or its name on the hub."""
    if isinstance(model, str):
        return settings_hash(["hub", model])
    files = sorted({path for pattern in _MODEL_FILES for path in model.glob(pattern)})
    return settings_hash([[path.name, file_sha256(path)] for path in files])
