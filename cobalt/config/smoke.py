"""Any configuration made small: the same stages on the tiny task family, on two CPU cores in minutes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import cobalt
from cobalt.config import recipes
from cobalt.config.config import Config
from cobalt.config.sections import SPLITS, Execution, Model, Sampling, Tasks, Train
from cobalt.training.config import is_own
from cobalt.training.method import OFFERED, STORED

ROOT = Path(cobalt.__file__).resolve().parent.parent
REFERENCE = ROOT / "models" / "tiny-reference"
RELEASED = ROOT / "examples" / "released"  # made rows in the columns of the released files
TURNS = 3  # what fits into the tiny model's context


def small(config: Config, folder: Path) -> Config:
    """`config` (of a file in `folder`) with the tiny model and tasks swapped in and every size cut.

    What makes the run what it is stays: recipe, rules of selection and slicing, validation, sets by name,
    whether public tests are perturbed, controls, objective and reward of offline recipes; ready tasks,
    perturbed tasks and trajectories are read from files like the released ones. Engine, profile and scale are
    those of a CPU, verl overrides and the judge (which would cost money) are left out.
    """
    train, max_tokens = _training(config.train, folder)
    ready, collect = config.tasks.family == "files", config.collect
    tasks = Tasks(train=16, dev=12, heldout=12, submissions=8 if config.tasks.has_stored else None)
    if ready:
        files = str(RELEASED / "tasks")
        tasks = Tasks(family="files", train=16, dev=12, train_file=files, dev_file=files)

    def source(name: str, perturbed: bool) -> str:
        if ready and perturbed and name not in SPLITS:
            return str(RELEASED / "ptb")
        return "dev" if name == "dev" or ready else "heldout"

    sets = [
        replace(
            each, source=source(each.source, each.kind == "perturbed"), limit=None, expected=None,
            kind="perturbed" if each.kind == "perturbed" else "tasks", functional="stdin", samples=None,
            turns=None,
        )
        for each in config.evaluate.sets
    ]  # fmt: skip
    perturb = config.perturb
    if perturb is not None:
        name = source(perturb.source, True) if ready or perturb.source == "heldout" else "dev"
        perturb = replace(perturb, source=name, limit=8, samples=2, turns=None, expected=None)
    return replace(
        config,
        tasks=tasks,
        model=Model(path=str(REFERENCE)),
        sampling=Sampling(max_tokens=max_tokens),
        collect=replace(collect, samples=4, turns=min(collect.turns, TURNS), **_trajectories(config)),
        contexts=replace(
            config.contexts,
            max_prompt_tokens=320,
            validation="trajectories" if config.validates_on_trajectories else "openings",
        ),
        train=train,
        evaluate=replace(config.evaluate, samples=2, turns=min(config.evaluate.turns, TURNS), sets=sets),
        perturb=perturb,
        hack_analysis=replace(config.hack_analysis, judge=None),
        execution=Execution(workers=config.execution.workers, isolation=config.execution.isolation),
    )


def _training(given: Train, folder: Path) -> tuple[Train, int]:
    """Two steps of the recipe at the tiny scale, and the tokens of one of its programs."""
    kept = ("cobalt.offline.", "cobalt.constants", *(f"cobalt.{name}=" for name in OFFERED))
    overrides = [setting for setting in given.overrides if setting.startswith(kept)]
    recipe = str(folder / given.recipe) if is_own(given.recipe) else given.recipe
    found = recipes.read(recipe, "cpu", "tiny", overrides)
    sizes: dict[str, Any] = recipes.sizes(found) | {
        "contexts": 4, "completions": 4, "mini_batches": 1,
        "lora_rank": given.lora_rank if given.trains_on in STORED else 0, "lora_alpha": given.lora_alpha,
        "trains_on": given.trains_on, "perturbed": given.perturbed,
    }  # fmt: skip
    overrides.insert(0, "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16")
    train = Train(
        recipe=given.recipe, scale="tiny", steps=2, perturbed_share=given.perturbed_share,
        perturbed_kind=given.perturbed_kind,
        overrides=overrides, **sizes,
    )  # fmt: skip
    return train, recipes.program_tokens(found)


def _trajectories(config: Config) -> dict[str, str]:
    """Made trajectories in place of those that are given."""
    names, folder = {"trajectories": "train", "dev_trajectories": "validation"}, RELEASED / "trajectories"
    return {
        name: f"{folder}:{split}"
        for name, split in names.items()
        if getattr(config.collect, name) is not None
    }
