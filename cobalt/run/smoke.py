"""Any configuration made small: the same stages on the tiny task family, on two CPU cores in minutes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import cobalt
from cobalt.run.rules import DIALOGUES, STORED
from cobalt.run.sections import SPLITS, Collect, Execution, Model, Sampling, Tasks, Train

if TYPE_CHECKING:
    from cobalt.run.config import Config

ROOT = Path(cobalt.__file__).resolve().parent.parent
REFERENCE = ROOT / "models" / "tiny-reference"
RELEASED = ROOT / "examples" / "released"  # made rows in the columns of the released files
TURNS = 3  # what fits into the tiny model's context


def small(config: Config) -> Config:
    """`config` with the tiny model and tasks swapped in and every size cut.

    What makes the run what it is stays: recipe, rules of selection and slicing, validation, sets by name,
    whether public tests are perturbed, controls, objective and reward of offline recipes; ready tasks,
    perturbed tasks and trajectories are read from files like the released ones. Engine, profile and scale are
    those of a CPU, verl overrides and the judge (which would cost money) are left out.
    """
    trained = config.train
    dialogues, stored = trained.recipe in DIALOGUES, trained.recipe in STORED
    offline = [setting for setting in trained.overrides if setting.startswith("cobalt.offline.")]
    train = Train(
        recipe=trained.recipe,
        steps=2,
        contexts=4,
        completions=4,
        mini_batches=1,
        max_prompt_tokens=128 if dialogues else 320,
        max_response_tokens=320 if dialogues else 64,
        learning_rate=1e-4 if stored else 4e-4,
        lora_rank=trained.lora_rank if stored else 0,
        lora_alpha=trained.lora_alpha,
        perturbed_share=trained.perturbed_share,
        overrides=["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16", *offline],
    )
    ready = config.tasks.family == "files"
    tasks = Tasks(train=16, dev=12, heldout=12, submissions=8 if config.tasks.has_stored else None)
    if ready:
        folder = str(RELEASED / "tasks")
        tasks = Tasks(family="files", train=16, dev=12, train_file=folder, dev_file=folder)

    def split(source: str, perturbed: bool = False) -> str:
        if ready and perturbed and source not in SPLITS:
            return str(RELEASED / "ptb")
        return "dev" if source == "dev" or ready else "heldout"

    sets = [
        replace(
            each, source=split(each.source, each.kind == "perturbed"), limit=None, expected=None,
            kind="perturbed" if each.kind == "perturbed" else "tasks", functional="stdin",
            samples=None, turns=None,
        )
        for each in config.evaluate.sets
    ]  # fmt: skip
    evaluate = replace(config.evaluate, samples=2, turns=min(config.evaluate.turns, TURNS), sets=sets)
    perturb = config.perturb
    if perturb is not None:
        source = "heldout" if perturb.source == "heldout" and not ready else "dev"
        source = split(perturb.source, perturbed=True) if ready else source
        perturb = replace(perturb, source=source, limit=8, samples=2, turns=None, expected=None)
    return replace(
        config,
        tasks=tasks,
        model=Model(path=str(REFERENCE)),
        sampling=Sampling(),
        collect=replace(
            config.collect, samples=4, turns=min(config.collect.turns, TURNS), **_trajectories(config.collect)
        ),
        contexts=replace(
            config.contexts,
            max_prompt_tokens=320,
            validation="trajectories" if config.validates_on_trajectories else "openings",
        ),
        train=train,
        evaluate=evaluate,
        perturb=perturb,
        hack_analysis=replace(config.hack_analysis, judge=None),
        execution=Execution(workers=config.execution.workers, isolation=config.execution.isolation),
    )


def _trajectories(given: Collect) -> dict[str, str]:
    """Made trajectories in place of those that are given."""
    names = {"trajectories": "train", "dev_trajectories": "validation"}
    folder = RELEASED / "trajectories"
    return {name: f"{folder}:{split}" for name, split in names.items() if getattr(given, name) is not None}
