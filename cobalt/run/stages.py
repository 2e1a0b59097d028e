"""The stages of a run from tasks to training files. Each calls the function behind the door of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cobalt.files import plain
from cobalt.run.dialogues import judged as hidden_verdicts
from cobalt.run.dialogues import multi_turn
from cobalt.run.job import Job, complete
from cobalt.run.ptb import perturbed_contexts
from cobalt.run.rules import GROUP_SIZE, STORED, on_contexts
from cobalt.run.sources import (
    local_sources,
    rows,
    set_path,
    stored_inputs,
    stored_programs,
    task_files,
    write_stored,
    write_tasks,
)
from cobalt.run.stage import Outcome, Stage

# Seconds on two idle cores, only for the time left that is shown; 0: runs beside another stage.
_EXPECTED_S = {
    "data": 0.5, "collect": 46, "repair": 42, "judge": 17, "contexts": 1, "ptb_contexts": 60, "parquet": 1,
    "train": 215, "train_single": 0, "evaluate": 86, "perturb": 12, "hack_analysis": 1, "controls": 37,
    "report": 6,
}  # fmt: skip


def stage(job: Job, name: str, title: str, **rest: Any) -> Stage:
    """A stage with its expected time scaled to the size of the run."""
    config = job.config
    held = (config.tasks.heldout or 175) * config.evaluate.samples / 600
    train = (config.tasks.train or config.tasks.expected_train or 1000) * config.collect.samples / 1920
    size = {
        "train": (config.train.steps or 100) / 60, "train_single": (config.train.steps or 100) / 60,
        "evaluate": held, "controls": held, "perturb": 1.0, "hack_analysis": 1.0, "report": 1.0,
    }.get(name, train)  # fmt: skip
    start = 45 if name == "train" else 0
    return Stage(name=name, title=title, expected_s=start + size * (_EXPECTED_S[name] - start), **rest)


def data_stages(job: Job) -> list[Stage]:
    """Tasks; as the recipe needs them, trajectories, hidden tests and contexts; Parquet."""
    recipe = job.config.train.recipe
    stages = [_data(job)]
    if on_contexts(recipe) or (recipe in STORED and not job.config.tasks.has_stored):
        stages.append(_collect(job))
    if on_contexts(recipe):
        stages += [_repair(job), _judge(job), _contexts(job)]
    if recipe == "cobalt_ptb":
        stages.append(_ptb_contexts(job))
    return [*stages, _parquet(job)]


def _task(job: Job, split: str) -> Path:
    return job.path("tasks", f"{split}.jsonl")


def _data(job: Job) -> Stage:
    tasks, sets = job.config.tasks, job.config.evaluate.sets

    def run() -> Outcome:
        counts = write_tasks(job)
        return Outcome(0, sum(counts.values()), {"splits": counts})

    made_up = [stored_programs(job)] if tasks.submissions is not None else []
    own = [each for each in sets if set_path(job, each) != _task(job, each.source)]
    made = {"name", "source", "kind", "limit", "functional"}
    settings = {
        "family_hash": job.family_hash, "seed": job.task_seed, "prompts": job.prompts.sha256,
        **{name: value for name, value in plain(tasks).items() if not name.startswith("expected")},
        "sets": [{name: value for name, value in plain(each).items() if name in made} for each in own],
    }  # fmt: skip
    return stage(
        job, "data", "data: tasks", run=run, inputs=local_sources(job), outputs=[*task_files(job), *made_up],
        settings=settings,
    )  # fmt: skip


def _collect(job: Job) -> Stage:
    train, single = _task(job, "train"), job.path("collect", "single.jsonl")

    def run() -> Outcome:
        from cobalt.rollouts.single_turn import single_turn

        with job.engine(job.model) as engine:
            work = single_turn(
                train, single, engine, job.evaluator, job.single_turn(),
                concurrency=job.config.execution.concurrency, progress=job.view,
            )  # fmt: skip
            done = complete(job.wait(work))
        return Outcome(done.total, done.total, {"programs": done.total * job.config.collect.samples})

    return stage(
        job, "collect", "collect: first programs of the reference", run=run, inputs=[train],
        outputs=[single],
        settings=plain(job.single_turn().record()) | job.model_basis | {"n": job.config.collect.samples},
    )  # fmt: skip


def _repair(job: Job) -> Stage:
    single, trajectories = job.path("collect", "single.jsonl"), job.path("collect", "trajectories.jsonl")

    def run() -> Outcome:
        total = multi_turn(job, job.model, single, trajectories, job.repair())
        collect = job.config.collect
        return Outcome(total, total, {"programs": total * collect.samples * (collect.turns - 1)})

    return stage(
        job, "repair", "repair: further turns on feedback", run=run, inputs=[single], outputs=[trajectories],
        settings=plain(job.repair().record()) | job.model_basis,
    )  # fmt: skip


def _judge(job: Job) -> Stage:
    trajectories, judged = job.path("collect", "trajectories.jsonl"), job.path("collect", "judged.jsonl")

    def run() -> Outcome:
        summary = hidden_verdicts(job, trajectories, judged)
        return Outcome(summary["tasks"], summary["tasks"], {"pass_at_1": summary["pass_at_1"]})

    return stage(
        job, "judge", "judge: hidden tests", run=run, inputs=[trajectories], outputs=[judged], settings={}
    )


def _cut(job: Job) -> dict[str, Any]:
    """How trajectories are selected and sliced, as `build_contexts` takes it."""
    given = job.config.contexts
    return {
        "policy": given.policy, "selection": given.selection if given.partial else "none",
        "max_prompt_tokens": given.max_prompt_tokens or job.config.train.max_prompt_tokens,
    }  # fmt: skip


def _contexts(job: Job) -> Stage:
    judged, contexts = job.path("collect", "judged.jsonl"), job.path("contexts", "train.jsonl")

    def run() -> Outcome:
        from cobalt.contexts.build import build_contexts

        done = build_contexts(judged, contexts, model_name=str(job.model), **_cut(job))
        return Outcome(done.tasks, done.contexts, plain(done))

    return stage(
        job, "contexts", "contexts: select and slice", run=run, inputs=[judged], outputs=[contexts],
        settings=_cut(job) | {"model_sha256": job.model_sha256},
    )  # fmt: skip


def _ptb_contexts(job: Job) -> Stage:
    folder, single = job.path("ptb_contexts"), job.path("collect", "single.jsonl")

    def run() -> Outcome:
        return Outcome(rows(single), perturbed_contexts(job, folder, **_cut(job)))

    return stage(
        job, "ptb_contexts", "contexts from perturbed tests", run=run, inputs=[single],
        outputs=[folder / "train.parquet"], owns=[folder],
        settings=plain(job.repair().record()) | job.model_basis | _cut(job),
    )  # fmt: skip


def _parquet(job: Job) -> Stage:
    recipe, control = job.config.train.recipe, job.config.controls.single_turn_training
    train, dev, contexts = _task(job, "train"), _task(job, "dev"), job.path("contexts", "train.jsonl")
    single = job.path("collect", "single.jsonl")
    many, one = job.path("parquet"), job.path("parquet_single")
    inputs, outputs = [train, dev], []
    if on_contexts(recipe):
        inputs, outputs = [contexts, *inputs], [many / "train.parquet", many / "test.parquet"]
    elif recipe in STORED:
        stored = job.config.tasks.has_stored
        inputs, outputs = [*(stored_inputs(job) if stored else [single])], [many / "groups.parquet"]
        inputs += [train, dev] if control else []
    if control or recipe not in STORED:
        outputs += [one / "train.parquet", one / "test.parquet"]

    def run() -> Outcome:
        from cobalt.contexts.parquet import build_parquet

        read, written = 0, {}
        if on_contexts(recipe):
            # Validation rows are openings of development tasks; verl asks for a file in any case.
            made = build_parquet(contexts, _openings(job), many, kind="multi_turn").splits["train"]
            read, written["multi_turn"] = made.read, made.written
        elif recipe in STORED:
            from cobalt.training.stored import write_groups

            target = many / "groups.parquet"
            target.parent.mkdir(parents=True, exist_ok=True)
            if job.config.tasks.has_stored:
                read = written["groups"] = write_stored(job, target)
            else:
                written["groups"] = write_groups(single, target, job.prompts, size=GROUP_SIZE, seed=job.seed)
                read = rows(single)
        if control or recipe not in STORED:
            made = build_parquet(train, dev, one, kind="single_turn", prompts=job.prompts).splits["train"]
            read, written["single_turn"] = read + made.read, made.written
        return Outcome(read, sum(written.values()), written)

    settings = {
        "prompts": job.prompts.sha256, "seed": job.seed, "single_turn": control or recipe not in STORED,
    }  # fmt: skip
    if job.config.tasks.family == "stored":
        tasks = job.config.tasks
        settings |= {"language": tasks.language, "max_groups": tasks.max_groups, "problems": tasks.train}
    return stage(
        job, "parquet", "parquet: training data", run=run, inputs=inputs, outputs=outputs, settings=settings
    )


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
        for _, row in read_jsonl(_task(job, "dev"))
    ]
