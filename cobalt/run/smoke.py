"""Any configuration made small: the same stages on the tiny task family, on two CPU cores in minutes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import cobalt
from cobalt.run.rules import DIALOGUES, STORED
from cobalt.run.sections import Execution, Model, Sampling, Tasks, Train

if TYPE_CHECKING:
    from cobalt.run.config import Config

REFERENCE = Path(cobalt.__file__).resolve().parent.parent / "models" / "tiny-reference"
TURNS = 3  # what fits into the tiny model's context


def small(config: Config) -> Config:
    """`config` with the tiny model and tasks swapped in and every size cut.

    What makes the run what it is stays: recipe, rules of selection and slicing, sets by name, whether public
    tests are perturbed, controls, objective and reward of offline recipes. Engine, profile and scale are
    those of a CPU, verl overrides and the judge (which would cost money) are left out.
    """
    given = config.train
    dialogues, stored = given.recipe in DIALOGUES, given.recipe in STORED
    offline = [setting for setting in given.overrides if setting.startswith("cobalt.offline.")]
    train = Train(
        recipe=given.recipe,
        steps=2,
        contexts=4,
        completions=4,
        mini_batches=1,
        max_prompt_tokens=128 if dialogues else 320,
        max_response_tokens=320 if dialogues else 64,
        learning_rate=1e-4 if stored else 4e-4,
        lora_rank=given.lora_rank if stored else 0,
        lora_alpha=given.lora_alpha,
        perturbed_share=given.perturbed_share,
        overrides=["actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=16", *offline],
    )
    sets = [
        replace(
            each, source="dev" if each.source == "dev" else "heldout", limit=None, expected=None,
            kind="perturbed" if each.kind == "perturbed" else "tasks", functional="stdin",
            samples=None, turns=None,
        )
        for each in config.evaluate.sets
    ]  # fmt: skip
    evaluate = replace(config.evaluate, samples=2, turns=min(config.evaluate.turns, TURNS), sets=sets)
    perturb = config.perturb
    if perturb is not None:
        source = "heldout" if perturb.source == "heldout" else "dev"
        perturb = replace(perturb, source=source, limit=8, samples=2, turns=None, expected=None)
    return replace(
        config,
        tasks=Tasks(train=16, dev=12, heldout=12, submissions=8 if config.tasks.has_stored else None),
        model=Model(path=str(REFERENCE)),
        sampling=Sampling(),
        collect=replace(config.collect, samples=4, turns=min(config.collect.turns, TURNS)),
        contexts=replace(config.contexts, max_prompt_tokens=320),
        train=train,
        evaluate=evaluate,
        perturb=perturb,
        hack_analysis=replace(config.hack_analysis, judge=None),
        execution=Execution(workers=config.execution.workers, isolation=config.execution.isolation),
    )
