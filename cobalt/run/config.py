"""What a configuration file may say: one `Config`, checked as a whole before anything starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from cobalt.run import schema
from cobalt.run.rules import STORED, broken, check_files, on_contexts
from cobalt.run.schema import Bounds
from cobalt.run.sections import (
    Collect,
    Contexts,
    Controls,
    Evaluate,
    EvaluationSet,
    Execution,
    HackAnalysis,
    Judge,
    Model,
    Perturb,
    Sampling,
    Serving,
    Tasks,
    Train,
)
from cobalt.run.smoke import small

__all__ = [
    "Collect", "Config", "Contexts", "Controls", "Evaluate", "EvaluationSet", "Execution", "HackAnalysis",
    "Judge", "Model", "Perturb", "Sampling", "Serving", "Tasks", "Train", "load", "model_folder",
]  # fmt: skip


@dataclass(frozen=True)
class Config:
    """One run. `perturb` null leaves out the stages perturb and hack_analysis."""

    name: str
    schema: Annotated[int, Bounds(1, 1)] = 1
    tasks: Tasks = field(default_factory=Tasks)
    model: Model = field(default_factory=Model)
    sampling: Sampling = field(default_factory=Sampling)
    collect: Collect = field(default_factory=Collect)
    contexts: Contexts = field(default_factory=Contexts)
    train: Train = field(default_factory=Train)
    evaluate: Evaluate = field(default_factory=Evaluate)
    perturb: Perturb | None = field(default_factory=Perturb)
    hack_analysis: HackAnalysis = field(default_factory=HackAnalysis)
    controls: Controls = field(default_factory=Controls)
    execution: Execution = field(default_factory=Execution)

    def __post_init__(self) -> None:
        wrong = broken(self)
        if wrong:
            raise ValueError(wrong)

    @property
    def validates_on_trajectories(self) -> bool:
        """Whether validation uses contexts cut from trajectories of development tasks."""
        usual = "openings" if self.train.profile == "cpu" else "trajectories"
        return on_contexts(self.train.recipe) and (self.contexts.validation or usual) == "trajectories"

    @property
    def given_trajectories(self) -> dict[str, str | None]:
        """Ready trajectories that the run uses, by split; None where it collects, or needs none."""
        train = self.collect.trajectories if on_contexts(self.train.recipe) else None
        dev = self.collect.dev_trajectories if self.validates_on_trajectories else None
        return {"train": train, "dev": dev}

    @property
    def collected(self) -> list[str]:
        """Splits whose tasks the reference answers before training."""
        recipe, given = self.train.recipe, self.given_trajectories
        stored = recipe in STORED and not self.tasks.has_stored
        splits = ["train"] if stored or (on_contexts(recipe) and given["train"] is None) else []
        return splits + (["dev"] if self.validates_on_trajectories and given["dev"] is None else [])


def load(path: Path, settings: Sequence[str] = (), *, smoke: bool = False) -> Config:
    """Read and check a configuration file; `settings` are changes to it as `section.key=value`.

    `smoke` makes it small, see `cobalt.run.smoke`. Raises InputError naming file (or setting), line and
    field, also for files and models that are not there.
    """
    config = schema.load(path, Config, settings)
    if smoke:
        config = small(config)
    check_files(config, path)
    return config


def model_folder(config: Config, path: Path) -> Path:
    """The reference model's folder; a relative one is meant from the configuration file's folder."""
    return (path.parent / config.model.path).resolve()
