"""The stages of a run from tasks to training files. Each calls the function behind the door of its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cobalt.files import plain
from cobalt.run.dialogues import judged as hidden_verdicts
from cobalt.run.dialogues import multi_turn, single_turn
from cobalt.run.given import local_trajectories, trajectories
from cobalt.run.job import Job
from cobalt.run.ptb import perturbed_contexts
from cobalt.run.rules import GROUP_SIZE, STORED, on_contexts
from cobalt.run.sources import is_split, local_sources, rows, task_files, write_tasks
from cobalt.run.stage import Outcome, Stage
from cobalt.run.stored import stored_inputs, stored_programs, write_stored

SPLIT_NAMES = {"train": "training", "dev": "development"}
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
    tasks = {
        "train": config.tasks.train or config.tasks.expected_train or 1000,
        "dev": config.tasks.dev or config.tasks.expected_dev or 250,
    }
    asked = sum(tasks[split] for split in config.collected) or tasks["train"]
    train = asked * config.collect.samples / 1920
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
    if job.config.collected:
        stages.append(_collect(job))
    if on_contexts(recipe):
        stages += [_repair(job), _judge(job)] if job.config.collected else []
        stages.append(_contexts(job))
    if recipe == "cobalt_ptb":
        stages.append(_ptb_contexts(job))
    return [*stages, _parquet(job)]


def _task(job: Job, split: str) -> Path:
    return job.path("tasks", f"{split}.jsonl")


def _data(job: Job) -> Stage:
    tasks, sets = job.config.tasks, job.config.evaluate.sets

    def run() -> Outcome:
        counts, left_out = write_tasks(job)
        if left_out and job.view is not None:
            job.view.note(f"{left_out} training tasks left out: development or held-out tasks say the same")
        return Outcome(0, sum(counts.values()), {"splits": counts, "left_out": left_out})

    made_up = [stored_programs(job)] if tasks.submissions is not None else []
    own = [each for each in sets if not is_split(each)]
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


def _collected(job: Job, split: str, name: str) -> Path:
    """A file of the reference's programs for the tasks of a split."""
    return job.path("collect", f"{'' if split == 'train' else f'{split}_'}{name}.jsonl")


def _whose(job: Job) -> str:
    splits = job.config.collected
    return "" if splits == ["train"] else f" ({' and '.join(SPLIT_NAMES[each] for each in splits)} tasks)"


def _collect(job: Job) -> Stage:
    splits = job.config.collected

    def run() -> Outcome:
        counts = {}
        for split in splits:
            # The training tasks' first turns are in this file, which all that ask for them read.
            target, once = _collected(job, split, "single"), split == "train"
            counts[split] = single_turn(job, _task(job, split), target, shared_first=not once)
        total = sum(counts.values())
        return Outcome(total, total, {"tasks": counts, "programs": total * job.config.collect.samples})

    return stage(
        job, "collect", f"collect: first programs of the reference{_whose(job)}", run=run,
        inputs=[_task(job, split) for split in splits],
        outputs=[_collected(job, split, "single") for split in splits],
        settings=plain(job.single_turn().record()) | job.model_basis | {"n": job.config.collect.samples},
    )  # fmt: skip


def _repair(job: Job) -> Stage:
    splits = job.config.collected

    def run() -> Outcome:
        total = 0
        for split in splits:
            single, target = (_collected(job, split, name) for name in ("single", "trajectories"))
            total += multi_turn(job, job.model, single, target, job.repair())
        collect = job.config.collect
        return Outcome(total, total, {"programs": total * collect.samples * (collect.turns - 1)})

    return stage(
        job, "repair", f"repair: further turns on feedback{_whose(job)}", run=run,
        inputs=[_collected(job, split, "single") for split in splits],
        outputs=[_collected(job, split, "trajectories") for split in splits],
        settings=plain(job.repair().record()) | job.model_basis,
    )  # fmt: skip


def _judge(job: Job) -> Stage:
    splits = job.config.collected

    def run() -> Outcome:
        found = {}
        for split in splits:
            trajectories, target = (_collected(job, split, name) for name in ("trajectories", "judged"))
            found[split] = hidden_verdicts(job, trajectories, target)
        total = sum(each["tasks"] for each in found.values())
        return Outcome(
            total, total, {"pass_at_1": {split: each["pass_at_1"] for split, each in found.items()}}
        )

    return stage(
        job, "judge", f"judge: hidden tests{_whose(job)}", run=run,
        inputs=[_collected(job, split, "trajectories") for split in splits],
        outputs=[_collected(job, split, "judged") for split in splits], settings={},
    )  # fmt: skip


def _cut(job: Job) -> dict[str, Any]:
    """How trajectories are selected and sliced, as `build_contexts` takes it."""
    given = job.config.contexts
    return {
        "policy": given.policy, "selection": given.selection if given.partial else "none",
        "max_prompt_tokens": given.max_prompt_tokens or job.config.train.max_prompt_tokens,
    }  # fmt: skip


def _contexts(job: Job) -> Stage:
    own, given = job.config.collected, job.config.given_trajectories
    targets = {"train": job.path("contexts", "train.jsonl")}
    if job.config.validates_on_trajectories:
        targets["dev"] = job.path("contexts", "validation.jsonl")

    def run() -> Outcome:
        from cobalt.contexts.build import build_contexts

        made = {}
        for split, target in targets.items():
            made[split] = build_contexts(
                trajectories(job, split) or _collected(job, split, "judged"), target,
                is_test=split == "dev", model_name=str(job.model), **_cut(job),
            )  # fmt: skip
        facts = {split: plain(each) for split, each in made.items()}
        tasks, contexts = (
            sum(getattr(each, name) for each in made.values()) for name in ("tasks", "contexts")
        )
        return Outcome(tasks, contexts, facts)

    return stage(
        job, "contexts", "contexts: select and slice", run=run,
        inputs=[*(_collected(job, split, "judged") for split in targets if split in own),
                *local_trajectories(job)],
        outputs=list(targets.values()),
        settings=_cut(job) | {"model_sha256": job.model_sha256, "validation": "dev" in targets, **given},
    )  # fmt: skip


def _ptb_contexts(job: Job) -> Stage:
    folder, single = job.path("ptb_contexts"), _collected(job, "train", "single")
    inputs = [single] if "train" in job.config.collected else local_trajectories(job)

    def run() -> Outcome:
        return Outcome(rows(_task(job, "train")), perturbed_contexts(job, folder, **_cut(job)))

    return stage(
        job, "ptb_contexts", "contexts from perturbed tests", run=run, inputs=inputs,
        outputs=[folder / "train.parquet"], owns=[folder],
        settings=plain(job.repair().record()) | job.model_basis | _cut(job)
        | {"trajectories": job.config.given_trajectories["train"]},
    )  # fmt: skip


def _parquet(job: Job) -> Stage:
    recipe, control = job.config.train.recipe, job.config.controls.single_turn_training
    train, dev, contexts = _task(job, "train"), _task(job, "dev"), job.path("contexts", "train.jsonl")
    cut = job.path("contexts", "validation.jsonl") if job.config.validates_on_trajectories else None
    single = job.path("collect", "single.jsonl")
    many, one = job.path("parquet"), job.path("parquet_single")
    inputs, outputs = [train, dev], []
    if on_contexts(recipe):
        inputs = [contexts, *([] if cut is None else [cut]), *inputs]
        outputs = [many / "train.parquet", many / "test.parquet"]
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
            # verl asks for a file of validation in any case.
            made = build_parquet(contexts, cut or _openings(job), many, kind="multi_turn").splits["train"]
            read, written["multi_turn"] = made.read, made.written
        elif recipe in STORED:
            from cobalt.training.offline_data import write_groups

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
    from cobalt.rows import read_rows

    return [
        {
            "example_id": row["id"],
            "conversation": job.prompts.messages(row["instruction"]),
            "test_cases": row["test_cases"],
            "difficulty": row["difficulty"],
            "prev_best_pass_rate": 0.0,
        }
        for _, row in read_rows(_task(job, "dev"))
    ]
