"""The stages of a run from tasks to training files. Each calls the function behind the door of its name."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobalt.config.config import GROUP_SIZE
from cobalt.contexts.build import build_contexts
from cobalt.contexts.parquet import build_parquet
from cobalt.files import plain
from cobalt.output import write_jsonl
from cobalt.rows import Row, read_rows, require
from cobalt.run.dialogues import judged, multi_turn, single_turn
from cobalt.run.given import local_trajectories, trajectories
from cobalt.run.job import Job
from cobalt.run.stage_cache import Outcome, Stage
from cobalt.run.task_files import (
    is_split,
    local_sources,
    openings,
    rows,
    stored_programs,
    task_files,
    write_tasks,
)
from cobalt.schema import EvalRow, SingleTurnRow
from cobalt.tasks.own import complete

# Columns of further turns, and those that then have another shape.
_FOLLOWING = {*EvalRow.__annotations__} - {*SingleTurnRow.__annotations__} | {"usage", "finish_reasons"}


def data_stages(job: Job) -> list[Stage]:
    """Tasks; as the recipe needs them, trajectories, hidden tests and contexts; Parquet."""
    collected, stages = job.config.collected, [_data(job)]
    if collected:
        stages.append(_collect(job))
    if collected and (job.config.on_contexts or job.config.on_revisions):
        stages += [_repair(job), _judge(job)]
    if job.config.on_contexts:
        stages.append(_contexts(job))
    if job.config.train.perturbed:
        stages.append(_ptb_contexts(job))
    return [*stages, _parquet(job)]


def _task(job: Job, split: str) -> Path:
    return job.path("tasks", f"{split}.jsonl")


def _collected(job: Job, name: str) -> dict[str, Path]:
    """The files of the reference's programs for the tasks that it answers, by split."""
    return {
        split: job.path("collect", f"{'' if split == 'train' else f'{split}_'}{name}.jsonl")
        for split in job.config.collected
    }


def _data(job: Job) -> Stage:
    tasks = job.config.tasks

    def run() -> Outcome:
        counts, left_out, shared = write_tasks(job)
        if left_out:
            job.note(f"{left_out} training tasks left out: development or held-out tasks say the same")
        for each in shared:
            job.note(f"warning: {each}")
        facts = {"splits": counts, "left_out": left_out, "shared": shared}
        return Outcome(0, sum(counts.values()), facts)

    made_up = [stored_programs(job)] if tasks.submissions is not None else []
    own = [plain(each) for each in job.config.evaluate.sets if not is_split(each)]
    keys = ("name", "source", "kind", "limit", "functional")
    settings = {
        "family_hash": job.family_hash, "seed": job.task_seed, "prompts": job.prompts.sha256,
        **{name: value for name, value in plain(tasks).items() if not name.startswith("expected")},
        "sets": [{name: each[name] for name in keys} for each in own],
    }  # fmt: skip
    return Stage(
        "data", "data: tasks", run=run, inputs=local_sources(job), outputs=[*task_files(job), *made_up],
        settings=settings,
    )  # fmt: skip


def _collect(job: Job) -> Stage:
    targets, samples = _collected(job, "single"), job.config.collect.samples

    def run() -> Outcome:
        # The training tasks' first turns are in this file, which all that ask for them read.
        total = sum(
            single_turn(job, _task(job, split), target, shared_first=split != "train")
            for split, target in targets.items()
        )
        return Outcome(total, total)

    return Stage(
        "collect", "collect: first programs of the reference", run=run,
        inputs=[_task(job, split) for split in targets], outputs=list(targets.values()),
        settings=plain(job.single_turn().record()) | job.model_basis | {"n": samples},
    )  # fmt: skip


def _repair(job: Job) -> Stage:
    firsts, targets = _collected(job, "single"), _collected(job, "trajectories")

    def run() -> Outcome:
        total = sum(
            multi_turn(job, job.model, firsts[split], target, job.repair())
            for split, target in targets.items()
        )
        return Outcome(total, total)

    return Stage(
        "repair", "repair: further turns on feedback", run=run, inputs=list(firsts.values()),
        outputs=list(targets.values()), settings=plain(job.repair().record()) | job.model_basis,
    )  # fmt: skip


def _judge(job: Job) -> Stage:
    made, targets = _collected(job, "trajectories"), _collected(job, "judged")

    def run() -> Outcome:
        total = sum(judged(job, made[split], target)["tasks"] for split, target in targets.items())
        return Outcome(total, total)

    return Stage(
        "judge", "judge: hidden tests", run=run, inputs=list(made.values()),
        outputs=list(targets.values()), settings={},
    )  # fmt: skip


def _contexts(job: Job) -> Stage:
    own = _collected(job, "judged")
    targets = {"train": job.path("contexts", "train.jsonl")}
    if job.config.validates_on_trajectories:
        targets["dev"] = job.path("contexts", "validation.jsonl")

    def run() -> Outcome:
        made = {
            split: build_contexts(
                trajectories(job, split) or own[split], target, is_test=split == "dev",
                model_name=str(job.model), **job.cut(),
            )
            for split, target in targets.items()
        }  # fmt: skip
        for said in (each for one in made.values() for each in one.warnings if job.config.contexts.partial):
            job.note(f"warning: {said}")
        tasks, contexts = (sum(getattr(one, of) for one in made.values()) for of in ("tasks", "contexts"))
        return Outcome(tasks, contexts, {split: plain(each) for split, each in made.items()})

    return Stage(
        "contexts", "contexts: select and slice", run=run,
        inputs=[*(path for split, path in own.items() if split in targets), *local_trajectories(job)],
        outputs=list(targets.values()),
        settings=job.cut_basis | {"model_sha256": job.model_sha256, "validation": "dev" in targets}
        | job.config.given_trajectories,
    )  # fmt: skip


def _ptb_contexts(job: Job) -> Stage:
    folder, single = job.path("ptb_contexts"), _collected(job, "single").get("train")
    kind = job.config.train.perturbed_kind

    def run() -> Outcome:
        return Outcome(rows(_task(job, "train")), _perturbed_contexts(job, folder))

    return Stage(
        "ptb_contexts", "contexts from perturbed tests", run=run,
        inputs=local_trajectories(job) if single is None else [single],
        outputs=[folder / "train.parquet"], owns=[folder],
        settings=plain(job.repair().record()) | job.model_basis | job.cut_basis
        | {"trajectories": job.config.given_trajectories["train"]}
        | ({} if kind == "swap" else {"perturbation": kind}),
    )  # fmt: skip


def _perturbed_contexts(job: Job, folder: Path) -> int:
    """Make `train.parquet` in `folder`: trajectories that were shown perturbed tests, with their true rates,
    so that selection and reward are honest. Returns the number of contexts.
    """
    from cobalt.tasks.perturb import run_perturbation

    folder.mkdir(parents=True, exist_ok=True)
    first, shown = folder / "single.jsonl", folder / "trajectories.jsonl"
    given, own = trajectories(job, "train"), job.path("collect", "single.jsonl")
    if given is not None:
        own = folder / "given.jsonl"
        write_jsonl(own, (_first_turn(job, row, where) for where, row in given))
    run_perturbation(own, first, kind=job.config.train.perturbed_kind)
    multi_turn(job, job.model, first, shown, replace(job.repair(), tests="perturbed"))
    hidden = _true_rates(job, shown, folder / "hidden.jsonl")
    swapped = folder / "public_as_hidden.jsonl"
    write_jsonl(
        swapped, (row | {"hidden_test_cases": row["public_test_cases"]} for _, row in read_rows(shown))
    )
    public = _true_rates(job, swapped, folder / "public.jsonl")
    write_jsonl(true := folder / "judged.jsonl", (
        row | {
            "all_pass_rates": hidden[row["id"]],
            "public_pass_rates": [list(rates) for rates in zip(*public[row["id"]], strict=True)],
        }
        for _, row in read_rows(shown)
    ))  # fmt: skip
    contexts, made = folder / "contexts.jsonl", folder / "made"
    done = build_contexts(true, contexts, model_name=str(job.model), **job.cut())
    build_parquet(contexts, contexts, made, kind="multi_turn")
    shutil.copy(made / "train.parquet", folder / "train.parquet")
    return done.contexts


def _first_turn(job: Job, row: Row, where: str) -> Row:
    """A task with its first programs, of a row that also holds the turns that followed."""
    require(row, "responses", list, where)
    kept = {name: value for name, value in row.items() if name not in _FOLLOWING}
    return complete(kept, where, job.prompts)


def _true_rates(job: Job, rows: Path, target: Path) -> dict[Any, list[list[float]]]:
    judged(job, rows, target)
    return {row["id"]: row["all_pass_rates"] for _, row in read_rows(target)}


def _parquet(job: Job) -> Stage:
    config, tasks = job.config, job.config.tasks
    stored = config.on_stored
    statements = config.controls.single_turn_training or not stored
    train, dev, contexts = _task(job, "train"), _task(job, "dev"), job.path("contexts", "train.jsonl")
    cut = job.path("contexts", "validation.jsonl") if config.validates_on_trajectories else None
    many, one = job.path("parquet"), job.path("parquet_single")
    inputs, outputs = [], list[Path]()
    if config.on_contexts:
        inputs = [contexts, *([] if cut is None else [cut])]
        outputs = [many / "train.parquet", many / "test.parquet"]
    elif stored:
        inputs, outputs = [_stored_input(job)], [many / "groups.parquet"]
    if statements:
        inputs += [train, dev]
        outputs += [one / "train.parquet", one / "test.parquet"]

    def run() -> Outcome:
        read, written = 0, dict[str, int]()
        if config.on_contexts:
            # verl asks for a file of validation in any case.
            made = build_parquet(contexts, cut or openings(job), many, kind="multi_turn").splits["train"]
            read, written["multi_turn"] = made.read, made.written
        elif stored:
            many.mkdir(parents=True, exist_ok=True)
            read, written["groups"] = _write_groups(job, many / "groups.parquet")
        if statements:
            made = build_parquet(train, dev, one, kind="single_turn", prompts=job.prompts).splits["train"]
            read, written["single_turn"] = read + made.read, made.written
        return Outcome(read, sum(written.values()), written)

    settings = {"prompts": job.prompts.sha256, "seed": job.seed, "single_turn": statements}
    if tasks.family == "stored":
        settings |= {"language": tasks.language, "max_groups": tasks.max_groups, "problems": tasks.train}
    return Stage(
        "parquet", "parquet: training data", run=run, inputs=inputs, outputs=outputs, settings=settings
    )


def _stored_input(job: Job) -> Path:
    """What decides the groups: of a tree its metadata (the programs do not change under their names)."""
    if not job.config.tasks.has_stored:
        return _collected(job, "judged" if job.config.on_revisions else "single")["train"]
    source = stored_programs(job)
    return source if source.is_file() else source / "metadata"


def _write_groups(job: Job, target: Path) -> tuple[int, int]:
    """Groups of stored programs, or of the run's own, as Parquet; returns rows read, groups written."""
    from pyarrow import parquet

    from cobalt.tasks.codenet import CodenetSettings, build_codenet
    from cobalt.training.offline_data import write_groups, write_revisions

    tasks, source = job.config.tasks, stored_programs(job)
    if not tasks.has_stored:
        made = _stored_input(job)
        if job.config.on_revisions:
            return rows(made), write_revisions(made, target)
        return rows(made), write_groups(made, target, job.prompts, size=GROUP_SIZE, seed=job.seed)
    if source.is_dir():
        settings = CodenetSettings(
            job.prompts, tasks.language, GROUP_SIZE, tasks.max_groups, seed=job.seed,
            problems=tasks.train if tasks.family == "stored" else None,
        )  # fmt: skip
        groups = build_codenet(source, target, settings, job.view).groups
    else:
        shutil.copyfile(source, target)  # training checks every row
        groups = int(parquet.read_metadata(target).num_rows)
    return groups, groups
