"""One training of the bench, in a process of its own: data, steps, the checkpoints that count, their tasks.

`python -m cobalt.bench.trial REQUEST.json` writes the result that the request names. Killed anywhere and
started again it goes on: stages that are done are kept, the training has its checkpoints.
"""

from __future__ import annotations

import fcntl
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from cobalt.bench.spent import Ledger, Spent, adopt, cpu_seconds, reached
from cobalt.config.config import GROUP_SIZE, Config
from cobalt.config.evaluation_sections import EvaluationSet
from cobalt.config.load import load, model_at
from cobalt.errors import InfraError, InputError
from cobalt.evaluation.evaluated_rows import Outcomes, task_rates
from cobalt.evaluation.turn_errors import turn_errors
from cobalt.files import atomic_write, plain, settings_hash
from cobalt.rows import read_rows
from cobalt.run.cli import assembled
from cobalt.run.dialogues import evaluation
from cobalt.run.job import Job
from cobalt.run.runner import MemoryPeak, Runner
from cobalt.run.stage_cache import Shared
from cobalt.run.task_files import set_path
from cobalt.run.trainings import trainings
from cobalt.run.view import View
from cobalt.training import checkpoint
from cobalt.training.process import end_with_parent, output_lock
from cobalt.training.result import METRICS, launch_folders

DEV = "dev"
MOST_STEPS = 100_000  # never reached: a training ends when it has what was asked for
SAVE_EVERY = 128  # programs: every step of the tiny scale; a checkpoint takes 0.1 s
CONTROLS = "{single_turn_training: false, blank_feedback: false, other_feedback: false, best_of_turns: false}"
_SAVED = "train/checkpoints"
_LOCK_WAIT_S = 300.0  # for what a killed bench left behind to end


@dataclass(frozen=True)
class Request:
    """A training: `method` at `rate` and `seed`, until it has sampled `samples` programs and, with `seconds`,
    has spent that many CPU seconds; then the tasks of `sets`. `anchor`: what it spends is the budget.

    `settings`: changes to the configuration `config`. `work`: its folder; `shared`: what trainings have in
    common; `result`: the file to write. `dialogues` per task.
    """

    method: str
    rate: float
    seed: int
    samples: int
    seconds: float | None
    anchor: bool
    config: str
    settings: tuple[str, ...]
    sets: tuple[str, ...]
    dialogues: int
    work: str
    shared: str
    result: str

    @property
    def choice(self) -> bool:
        """Whether it is for the choice of a rate."""
        return self.sets == (DEV,)

    @property
    def until(self) -> str:
        """What ends it."""
        return f"{self.samples} programs, {self.seconds} s"

    def job(self) -> Job:
        """The run that it is a part of."""
        train = f"{{recipe: {json.dumps(self.method)}, learning_rate: {self.rate!r}, steps: {MOST_STEPS}}}"
        given = [f"train={train}", f"controls={CONTROLS}", "perturb=null", *self.settings]
        path = Path(self.config)
        config = load(path, given)
        sets = config.evaluate.sets
        if DEV not in [each.name for each in sets]:
            dev = replace(sets[0], name=DEV, source=DEV, kind="tasks", samples=None, turns=None, limit=None)
            config = replace(config, evaluate=replace(config.evaluate, sets=[*sets, dev]))
        every = max(1, SAVE_EVERY // rows_of(config))
        overrides = [f"trainer.save_freq={every}", *config.train.overrides]
        config = replace(config, train=replace(config.train, overrides=overrides))
        more: dict[str, Any] = {"file": path, "shared": Shared(Path(self.shared)), "task_seed": 0}
        return Job(config, model_at(config.model.path, path), Path(self.work), seed=self.seed, **more)

    def chosen(self, job: Job) -> list[EvaluationSet]:
        """The sets of the run that it is evaluated on."""
        return [each for each in job.config.evaluate.sets if each.name in self.sets]

    def basis(self, job: Job) -> str:
        """Hash of all that decides the training: settings, files of the recipe and its functions, model."""
        stage = trainings(job)[0].stage("")
        return settings_hash([plain(stage.settings), plain(job.identity()), self.dialogues])


def rows_of(config: Config) -> int:
    """Completions, or dialogues, of a step; of stored groups, their programs."""
    of_group = config.collect.samples if config.on_revisions else GROUP_SIZE
    return config.train.contexts * (of_group if config.on_stored else config.train.completions)


def run(request: Request) -> dict[str, Any]:
    """Train and evaluate; returns the result."""
    adopt()
    work = Path(request.work)
    with output_lock(work, ".trial", _LOCK_WAIT_S), MemoryPeak(2.0) as memory, request.job() as job:
        basis = request.basis(job)
        _begin(work, basis, request)
        before = _data(job, sys.argv[1])
        done = checkpoint.checkpoint_step(work / _SAVED)
        ledger = Ledger(work / "steps.jsonl", rows_of(job.config), done)
        models: dict[int, Path | str] = {0: job.model}
        models.update(_train(job, request, ledger, before))
        spent = ledger.spent(before)
        at = {"samples": reached(spent, models, programs=request.samples)}
        if request.anchor:
            at["seconds"] = at["samples"]
        elif request.seconds is not None:
            at["seconds"] = reached(spent, models, cpu_s=request.seconds)
        sets, steps, folder = request.chosen(job), {each.step for each in at.values()}, work / "evaluate"
        found = {n: measured(job, models[n], folder / str(n), sets, request.dialogues) for n in steps}
        if not request.choice:
            _end(work, request, [each.step for each in at.values()])
        return {
            **{name: value for name, value in asdict(request).items() if name not in ("work", "shared")},
            "basis": basis,
            "launches": max((line["launch"] for line in ledger.lines), default=0),
            "data": before._asdict(),
            "steps_made": spent[-1]._asdict(),
            "at": {name: {**each._asdict(), **found[each.step]} for name, each in at.items()},
            "peak_mib": round(memory.mib),
        }


def _begin(work: Path, basis: str, request: Request) -> None:
    """Delete what a training of other settings left, or one that ended with other models."""
    known, ended = work / "basis", work / "ended"
    other = not known.exists() or known.read_text() != basis
    if other or (ended.exists() and ended.read_text() != request.until):
        for each in work.iterdir():
            if each.name not in (".trial", "log"):
                shutil.rmtree(each) if each.is_dir() else each.unlink()
        atomic_write(known, basis)


def _end(work: Path, request: Request, chosen: Sequence[int]) -> None:
    """Delete the models and checkpoints that nobody asks for any more."""
    atomic_write(work / "ended", request.until)
    for each in (work / "models").glob("[0-9]*"):
        if int(each.name) not in chosen:
            shutil.rmtree(each)


def _data(job: Job, asked: str) -> Spent:
    """Make, or take over, the training data; what it took, start-up of the libraries left out.

    In a process of its own, whose memory is free again before the training starts.
    """
    runner = _data_runner(job)
    if any(runner.kept.why(stage) for stage in runner.chosen):
        made = subprocess.run([sys.executable, "-m", "cobalt.bench.trial", asked, "data"])
        if made.returncode:
            raise InfraError("the training data could not be made")
    records = [runner.kept.read(stage.name) or {} for stage in runner.chosen]
    cpu_s = sum(record["counters"]["cpu_s"] for record in records)
    return Spent(0, 0, round(cpu_s, 2), round(sum(record["wall_s"] for record in records), 2))


def _data_runner(job: Job) -> Runner:
    runner = assembled(job)
    runner.only = runner.stages[: [stage.name for stage in runner.stages].index("train")]
    runner.counters = lambda: {"cpu_s": cpu_seconds()}
    return runner


def make_data(request: Request) -> None:
    """The stages before the training, as far as they are not there."""
    adopt()
    with request.job() as job, _alone(Path(request.shared)):
        runner = _data_runner(job)
        view = View(runner.stages)
        for stage in runner.chosen:
            if runner.kept.why(stage) is not None and not runner.kept.has_shared(stage, job.shared):
                import torch
                import transformers  # noqa: F401 - their start is nobody's cost

                torch.set_num_threads(job.config.execution.threads)
            runner.only = [stage]
            runner.run(view)


@contextmanager
def _alone(shared: Path) -> Iterator[None]:
    """One process at a time, so that what trainings share is made once."""
    shared.mkdir(parents=True, exist_ok=True)
    with open(shared / ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _train(job: Job, request: Request, ledger: Ledger, before: Spent) -> dict[int, Path]:
    """Train until everything asked for is there; models by step."""
    training = trainings(job)[0]
    kept = job.path("models")

    def models() -> dict[int, Path]:
        return {int(path.name): path for path in kept.glob("[0-9]*")}

    def enough() -> bool:
        last = ledger.spent(before)[-1]
        paid = request.seconds is None or last.cpu_s >= request.seconds
        return paid and last.programs >= request.samples

    def stop() -> bool:
        """Asked five times a second."""
        with suppress(InputError):  # verl is just writing which checkpoint is the last one
            _keep(job.path(_SAVED), kept)
        if launches := launch_folders(training.out):
            ledger.look(launches[-1] / METRICS)
        return enough()

    if not job.path("ended").exists() and not (enough() and ledger.spent(before)[-1].step in models()):
        training.train(stop)
        stop()
        _keep(job.path(_SAVED), kept)
    return models()


def _keep(checkpoints: Path, kept: Path) -> None:
    """Keep the model of the last checkpoint; the training keeps two of them."""
    step = checkpoint.checkpoint_step(checkpoints)
    if step and not (kept / str(step)).is_dir():
        kept.mkdir(exist_ok=True)
        checkpoint.export_model(checkpoints / f"global_step_{step}", kept / str(step), fp32=True)


def measured(
    job: Job, model: Any, folder: Path, sets: Sequence[EvaluationSet], dialogues: int
) -> dict[str, Any]:
    """Evaluate on sets: `tasks`, the share of right programs by turn of every task, by set; and for perturbed
    sets `hacks`, by task how many programs followed feedback on a wrong test, and how many of them accepted
    it. Dialogues have the same seeds whatever the training's.
    """
    tasks, hacks = {}, {}
    for each in sets:
        settings = replace(job.evaluation(dialogues, each.turns), seed=0)
        rows, target = set_path(job, each), folder / each.name / "model_eval.jsonl"
        if each.kind == "perturbed":
            settings = replace(settings, tests="perturbed")
        evaluation(job, model, rows, target, settings)
        tasks[each.name] = by_task(target, settings.turns)
        if each.kind == "perturbed":
            accepted = turn_errors(rows, target, target.with_name("errors.jsonl"), match="exact")
            hacks[each.name] = accepted["by_task"]
    return {"tasks": tasks, "hacks": hacks}


def by_task(target: Path, turns: int) -> dict[str, list[float]]:
    """Share of right programs at each turn by task, of tasks with a verdict at every turn."""
    outcomes = [Outcomes.of(row, where) for where, row in read_rows(target)]
    columns = [task_rates(outcomes, turn) for turn in range(turns)]
    common = [task for task in columns[0] if all(task in column for column in columns)]
    return {str(task): [round(column[task], 6) for column in columns] for task in common}


def main(arguments: list[str]) -> int:
    """Carry a request out and write its result; returns the exit code."""
    end_with_parent()
    given = json.loads(Path(arguments[0]).read_text(encoding="utf-8"))
    request = Request(**{**given, "settings": tuple(given["settings"]), "sets": tuple(given["sets"])})
    if arguments[1:] == ["data"]:
        make_data(request)
        return 0
    began = time.monotonic()
    found = run(request) | {
        "minutes": round((time.monotonic() - began) / 60, 2),
        "ended": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }
    atomic_write(request.result, json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    from cobalt.cli import run_main

    run_main(lambda _: main(sys.argv[1:]))
