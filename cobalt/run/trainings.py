"""The stages that train: the recipe, and the single-turn control beside it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobalt.files import plain
from cobalt.run.job import Job
from cobalt.run.rules import STORED, on_contexts
from cobalt.run.sections import Train
from cobalt.run.stage import Outcome, Stage
from cobalt.run.stages import stage
from cobalt.training.config import is_own

PTB_SHARE = 0.5  # of the training rows, where the configuration does not say


def training_stages(job: Job) -> list[Stage]:
    """The recipe's training, and the single-turn control with the same number of completions."""
    given = job.config.train
    what = "GRPO on contexts" if on_contexts(given.recipe) else f"recipe {given.recipe}"
    stages = [_training(job, "train", f"train: {what} (verl)", given.recipe)]
    if job.config.controls.single_turn_training:
        title = "train the single-turn control"
        stages.append(_training(job, "train_single", title, "single_turn_grpo"))
    return stages


def _files(job: Job, recipe: str) -> tuple[Path, Path | None]:
    if recipe in STORED:
        return job.path("parquet", "groups.parquet"), None
    folder = job.path("parquet" if on_contexts(recipe) else "parquet_single")
    return folder / "train.parquet", folder / "test.parquet"


def _training(job: Job, name: str, title: str, recipe: str) -> Stage:
    given, out = job.config.train, job.path(name)
    train_file, val_file = _files(job, recipe)
    ptb = job.path("ptb_contexts", "train.parquet") if recipe == "cobalt_ptb" else None
    files = [path for path in (train_file, val_file, ptb) if path is not None]
    control = recipe != given.recipe
    own = [_own(job)] if is_own(recipe) else []
    basis = [job.path("parquet", "train.parquet")] if control and given.epochs else []
    label = "control training" if control else "training"
    settings = replace(given, recipe=recipe, perturbed_share=given.perturbed_share if ptb else None)

    def owned(command: Sequence[str]) -> bool:
        return any(part.startswith(f"{out.resolve()}{os.sep}") for part in command)

    def run() -> Outcome:
        from cobalt.training.launch import train

        job.release()
        steps = given.steps
        if basis:  # as many completions as the other training has
            steps = max(1, _rows(basis[0]) * (given.epochs or 1) // given.contexts)
        done = train(
            train_file=train_file, val_file=val_file, model=job.model, output=out, profile=given.profile,
            recipe=str(own[0]) if own else recipe, scale=given.scale, steps=steps, seed=job.seed,
            evaluator=None if recipe in STORED else job.config.execution.evaluator,
            reward_profile=given.reward_profile, ptb_file=ptb, prompts=job.prompts_source,
            overrides=overrides(settings),
            progress=job.view.progress(name) if job.view else None, label=label,
            say=lambda line: print(f"  {label}: {line.strip()}", flush=True),
        )  # fmt: skip
        return Outcome(
            done.plan["contexts"], done.samples,
            {"steps": done.steps, "samples": done.samples, "masked": done.masked, "evaluator": done.evaluator,
             "plan": done.plan},
        )  # fmt: skip

    # Two trainings on a CPU leave a core idle part of the time, so the control runs beside the other. It
    # starts first: configurations are composed in this process, one at a time.
    return stage(
        job, name, title, run=run, inputs=[*files, *basis, *own],
        outputs=[out / "model", out / "metrics.jsonl"], owns=[out],
        beside="train" if control and given.profile == "cpu" else None, owned=owned,
        under_way=lambda: bool(_children(owned)), stop=lambda: _end(_children(owned)),
        settings={"recipe": recipe, "seed": job.seed, "model_sha256": job.model_sha256,
                  "prompts": job.prompts.sha256,
                  **plain(replace(settings, overrides=overrides(settings)))},
    )  # fmt: skip


def _own(job: Job) -> Path:
    """The recipe's file."""
    return (job.file.parent / job.config.train.recipe).resolve()


def overrides(given: Train) -> list[str]:
    """verl's settings for a training."""
    policy = "actor_rollout_ref"
    made = [
        f"data.train_batch_size={given.contexts}",
        f"data.max_prompt_length={given.max_prompt_tokens}",
        f"data.max_response_length={given.max_response_tokens}",
        f"{policy}.rollout.n={given.completions}",
        f"{policy}.actor.ppo_mini_batch_size={given.contexts // given.mini_batches}",
        f"{policy}.actor.optim.lr={given.learning_rate}",
    ]
    if given.epochs is not None:
        made.append(f"trainer.total_epochs={given.epochs}")
    if given.gpus is not None:
        made.append(f"trainer.n_gpus_per_node={given.gpus}")
    if given.lora_rank:
        lora = {"lora_rank": given.lora_rank, "lora_alpha": given.lora_alpha}
        made += [f"{policy}.model.{name}={value}" for name, value in lora.items()]
    if given.recipe == "cobalt_ptb":
        made.append(f"cobalt.ptb.share={given.perturbed_share or PTB_SHARE}")
    return [*made, *given.overrides]


def check_composed(job: Job) -> None:
    """Compose verl's configuration, so that a wrong override is found before anything starts, as is a
    training whose weights and optimiser alone cannot fit.

    Raises InputError.
    """
    from cobalt.training.config import compose
    from cobalt.training.fit import fit

    given = job.config.train
    scale = given.scale or ("tiny" if given.profile == "cpu" else "published")
    recipe = str(_own(job)) if is_own(given.recipe) else given.recipe
    values = {"actor_rollout_ref.model.path": str(job.model)}
    if recipe not in STORED:
        values["cobalt.evaluator"] = job.config.execution.evaluator
    config = compose(recipe, given.profile, scale, values, overrides(given))
    fit(config, 1)


def _rows(path: Path) -> int:
    import pyarrow.parquet as parquet

    return int(parquet.read_metadata(path).num_rows)


def _children(owned: Callable[[Sequence[str]], bool]) -> list[Any]:
    """Our own children with such a command line."""
    import psutil

    found = []
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if owned(child.cmdline()):
                found.append(child)
    return found


def _end(children: list[Any]) -> None:
    """Ask processes to end; the launcher that started them then cleans up."""
    import psutil

    for child in children:
        with contextlib.suppress(psutil.Error):
            child.terminate()
