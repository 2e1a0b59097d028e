"""The stages of a run from tasks to trained models. Each calls the function behind the door of its name."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from cobalt.errors import InfraError
from cobalt.files import plain
from cobalt.run.job import Job, complete
from cobalt.run.runner import Outcome, Stage

# Seconds on two idle cores, only for the time left that is shown; 0: runs beside another stage.
_EXPECTED_S = {
    "tasks": 0.5, "collect": 46, "repair": 42, "judge": 17, "contexts": 1, "parquet": 1,
    "train": 215, "train_single": 0, "evaluate": 86, "controls": 37, "report": 4,
}  # fmt: skip


def stage(job: Job, name: str, title: str, **rest: Any) -> Stage:
    """A stage with its expected time scaled to the size of the run."""
    config = job.config
    size = {
        "train": config.train.steps / 60,
        "train_single": config.train.steps / 60,
        "evaluate": config.tasks.heldout * config.evaluate.samples / 600,
        "controls": config.tasks.heldout * config.evaluate.samples / 600,
    }.get(name, config.tasks.train * config.collect.samples / 1920)
    start = 45 if name == "train" else 0
    return Stage(name=name, title=title, expected_s=start + size * (_EXPECTED_S[name] - start), **rest)


def data_stages(job: Job) -> list[Stage]:
    """Tasks, trajectories of the reference, hidden tests, contexts, Parquet."""
    tasks = job.config.tasks
    train, dev, heldout = (job.path("tasks", f"{split}.jsonl") for split in ("train", "dev", "heldout"))
    single, trajectories = job.path("collect", "single.jsonl"), job.path("collect", "trajectories.jsonl")
    judged, contexts = job.path("collect", "judged.jsonl"), job.path("contexts", "train.jsonl")
    model = {"model_sha256": job.model_sha256}
    folders = [job.path("parquet"), job.path("parquet_single")]
    parquet = [folder / f"{split}.parquet" for folder in folders for split in ("train", "test")]

    def make_tasks() -> Outcome:
        from cobalt.tasks import tiny

        counts = {"train": tasks.train, "dev": tasks.dev, "heldout": tasks.heldout}
        tiny.write_splits(job.path("tasks"), seed=job.task_seed, **counts)
        return Outcome(0, sum(counts.values()), {"splits": counts})

    def collect() -> Outcome:
        from cobalt.rollouts.single_turn import single_turn

        with job.engine(job.model) as engine:
            work = single_turn(
                train, single, engine, job.evaluator, job.single_turn(),
                concurrency=job.config.execution.concurrency, progress=job.view,
            )  # fmt: skip
            done = complete(job.wait(work))
        return Outcome(done.total, done.total, {"programs": done.total * job.config.collect.samples})

    def repair() -> Outcome:
        from cobalt.rollouts.multi_turn import multi_turn

        with job.engine(job.model) as engine:
            work = multi_turn(
                single, trajectories, engine, job.evaluator, job.repair(),
                concurrency=job.config.execution.concurrency, progress=job.view,
            )  # fmt: skip
            done = complete(job.wait(work))
        programs = done.total * job.config.collect.samples * (job.config.collect.turns - 1)
        return Outcome(done.total, done.total, {"programs": programs})

    def judge() -> Outcome:
        from cobalt.analysis.hidden_tests import hidden_tests

        done = job.wait(hidden_tests(trajectories, judged, job.evaluator, seed=job.seed, progress=job.view))
        complete(done.run)
        if done.summary["infra_errors"]:
            raise InfraError(f"{judged}: {done.summary['infra_errors']} programs have no verdict; run again")
        return Outcome(done.run.total, done.run.total, {"pass_at_1": done.summary["pass_at_1"]})

    def cut() -> Outcome:
        from cobalt.contexts.build import build_contexts

        done = build_contexts(
            judged, contexts, model_name=str(job.model), max_prompt_tokens=job.config.train.max_prompt_tokens
        )
        return Outcome(done.tasks, done.contexts, plain(done))

    def to_parquet() -> Outcome:
        from cobalt.contexts.parquet import build_parquet

        # Validation rows are openings of development tasks; verl asks for a file even if it never validates.
        openings = _openings(job)
        many = build_parquet(contexts, openings, folders[0], kind="multi_turn")
        one = build_parquet(train, dev, folders[1], kind="single_turn", prompts=job.prompts)
        rows = {"multi_turn": many.splits["train"].written, "single_turn": one.splits["train"].written}
        return Outcome(many.splits["train"].read + one.splits["train"].read, sum(rows.values()), rows)

    sampling = plain(job.single_turn().record()) | model
    return [
        stage(job, "tasks", "draw tasks", run=make_tasks, inputs=[], outputs=[train, dev, heldout],
              settings={"family_hash": job.family_hash, "seed": job.task_seed, **plain(tasks)}),
        stage(job, "collect", "collect: first programs of the reference", run=collect, inputs=[train],
              outputs=[single], settings=sampling | {"n": job.config.collect.samples}),
        stage(job, "repair", "repair: further turns on feedback", run=repair, inputs=[single],
              outputs=[trajectories], settings=plain(job.repair().record()) | model),
        stage(job, "judge", "judge: hidden tests", run=judge, inputs=[trajectories], outputs=[judged],
              settings={}),
        stage(job, "contexts", "contexts: select and slice", run=cut, inputs=[judged], outputs=[contexts],
              settings={"max_prompt_tokens": job.config.train.max_prompt_tokens, **model}),
        stage(job, "parquet", "parquet: training data", run=to_parquet, inputs=[contexts, train, dev],
              outputs=parquet, settings={"prompts": job.prompts.sha256}),
    ]  # fmt: skip


def _openings(job: Job) -> list[dict[str, Any]]:
    """Contexts without programs for the development tasks."""
    from cobalt.store import read_jsonl

    return [
        {
            "example_id": row["id"],
            "conversation": job.prompts.messages(row["instruction"]),
            "test_cases": row["test_cases"],
            "difficulty": row["difficulty"],
            "prev_best_pass_rate": 0.0,
        }
        for _, row in read_jsonl(job.path("tasks", "dev.jsonl"))
    ]


def training_stages(job: Job) -> list[Stage]:
    """Cobalt's training, and the single-turn control with the same number of completions."""
    stages = [_training(job, "train", "train: GRPO on contexts (verl)", "multi_turn", "parquet")]
    if job.config.controls.single_turn_training:
        title = "train the single-turn control"
        stages.append(_training(job, "train_single", title, "single_turn", "parquet_single"))
    return stages


def _training(job: Job, name: str, title: str, recipe: str, data: str) -> Stage:
    given, out = job.config.train, job.path(name)
    files = [job.path(data, f"{split}.parquet") for split in ("train", "test")]

    def owned(command: Sequence[str]) -> bool:
        return any(part.startswith(f"{out.resolve()}{os.sep}") for part in command)

    def run() -> Outcome:
        from cobalt.training.launch import train

        done = train(
            train_file=files[0], val_file=files[1], model=job.model, output=out, profile=given.profile,
            recipe=recipe, steps=given.steps, seed=job.seed, evaluator="local",
            reward_profile=given.reward_profile, overrides=_overrides(job),
            progress=job.view.progress(name) if job.view else None,
        )  # fmt: skip
        return Outcome(
            done.plan["contexts"], done.samples,
            {"steps": done.steps, "samples": done.samples, "masked": done.masked, "evaluator": done.evaluator,
             "plan": done.plan},
        )  # fmt: skip

    # Both trainings leave a core idle part of the time, so the control runs beside the other. It starts
    # first: configurations are composed in this process, one at a time.
    return stage(
        job, name, title, run=run, inputs=files, outputs=[out / "model", out / "metrics.jsonl"],
        beside="train" if name != "train" else None, owned=owned,
        under_way=lambda: bool(_children(owned)), stop=lambda: _end(_children(owned)),
        settings={"recipe": recipe, "seed": job.seed, "model_sha256": job.model_sha256,
                  **plain(replace(given, overrides=_overrides(job)))},
    )  # fmt: skip


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


def _overrides(job: Job) -> list[str]:
    given = job.config.train
    policy = "actor_rollout_ref"
    return [
        f"data.train_batch_size={given.contexts}",
        f"data.max_prompt_length={given.max_prompt_tokens}",
        f"data.max_response_length={given.max_response_tokens}",
        f"{policy}.rollout.n={given.completions}",
        f"{policy}.actor.ppo_mini_batch_size={given.contexts // given.mini_batches}",
        f"{policy}.actor.optim.lr={given.learning_rate}",
        *given.overrides,
    ]
