"""What a configuration file may say. Defaults are those of the demo (`configs/tiny.yaml` states them all)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from cobalt.errors import InputError
from cobalt.run import schema
from cobalt.run.schema import Bounds

Count = Annotated[int, Bounds(1)]
Share = Annotated[float, Bounds(0, 1)]


@dataclass(frozen=True)
class Tasks:
    """The task family and how many tasks of it each split gets (disjoint by structure)."""

    family: Literal["tiny"] = "tiny"
    train: Count = 150
    dev: Count = 100
    heldout: Annotated[int, Bounds(2)] = 300


@dataclass(frozen=True)
class Model:
    """The reference model: a Hugging Face folder, relative to the configuration file; prompts by name or
    file.
    """

    path: str = "../models/tiny-reference"
    engine: Literal["transformers"] = "transformers"
    prompts: str = "tiny"
    max_context: Count = 512


@dataclass(frozen=True)
class Sampling:
    """How programs are sampled everywhere but in training (whose settings are its own)."""

    temperature: Annotated[float, Bounds(0)] = 1.0
    top_p: Share = 1.0
    max_tokens: Count = 64


@dataclass(frozen=True)
class Collect:
    """Trajectories of the reference: `samples` per task, `turns` programs each."""

    samples: Annotated[int, Bounds(2)] = 8
    turns: Annotated[int, Bounds(2)] = 3


@dataclass(frozen=True)
class Train:
    """GRPO in verl: `steps` of `contexts` x `completions`, `mini_batches` optimiser steps each.

    `overrides` are verl settings (`key=value`) appended as they are.
    """

    profile: Literal["cpu", "gpu"] = "cpu"
    reward_profile: str = "plain"
    steps: Count = 60
    contexts: Count = 16
    completions: Annotated[int, Bounds(2)] = 8
    mini_batches: Count = 2
    learning_rate: Annotated[float, Bounds(0)] = 4e-4
    max_prompt_tokens: Count = 320
    max_response_tokens: Count = 64
    overrides: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Evaluate:
    """Held-out evaluation: `samples` dialogues per task of `turns` programs, judged by hidden tests."""

    samples: Count = 2
    turns: Annotated[int, Bounds(2)] = 3


@dataclass(frozen=True)
class Controls:
    """What must not explain the gain. Each can be switched off."""

    single_turn_training: bool = True
    blank_feedback: bool = True
    other_feedback: bool = True
    best_of_turns: bool = True


@dataclass(frozen=True)
class Execution:
    """How the work is done; none of it changes results, so a run may continue under other values.

    `workers` that run programs (None: one per CPU core), `isolation` level of the sandbox, `concurrency`:
    completions in flight, `threads` of the engine that samples.
    """

    workers: Count | None = None
    isolation: str = "auto"
    concurrency: Count = 256
    threads: Count = 1


@dataclass(frozen=True)
class Config:
    """One run."""

    name: str
    schema: Annotated[int, Bounds(1, 1)] = 1
    tasks: Tasks = field(default_factory=Tasks)
    model: Model = field(default_factory=Model)
    sampling: Sampling = field(default_factory=Sampling)
    collect: Collect = field(default_factory=Collect)
    train: Train = field(default_factory=Train)
    evaluate: Evaluate = field(default_factory=Evaluate)
    controls: Controls = field(default_factory=Controls)
    execution: Execution = field(default_factory=Execution)

    def __post_init__(self) -> None:
        if self.train.contexts % self.train.mini_batches:
            raise ValueError(
                f"'train.contexts' ({self.train.contexts}) must be a multiple of "
                f"'train.mini_batches' ({self.train.mini_batches})"
            )


def load(path: Path) -> Config:
    """Read and check a configuration file. Raises InputError naming file, line and field."""
    config = schema.load(path, Config)
    folder = model_folder(config, path)
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{path}: 'model.path' is {folder}, which holds no model (no config.json); "
            "scripts/train_tiny_reference.sh makes the tiny reference"
        )
    return config


def model_folder(config: Config, path: Path) -> Path:
    """The reference model's folder; a relative one is meant from the configuration file's folder."""
    return (path.parent / config.model.path).resolve()
