"""`cobalt study`: Cobalt and its rivals on the tiny task family, at equal samples and at equal wall time.

Everything is kept in one folder and done run by run: a run that is finished is not repeated, one that was
interrupted goes on from its checkpoint.
"""

from __future__ import annotations

import json
import shutil
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cobalt.cli import parser, positive_int
from cobalt.commands.study_report import WALL_SUFFIX, report
from cobalt.errors import InputError
from cobalt.files import atomic_write
from cobalt.rows import Row, read_rows
from cobalt.run.config import load, model_folder
from cobalt.run.dialogues import multi_turn
from cobalt.run.job import Job, complete
from cobalt.run.meter import Meter
from cobalt.run.ptb import perturbed_contexts
from cobalt.run.runner import Runner, lines
from cobalt.run.stages import data_stages
from cobalt.run.view import View

LEARNING_RATES = (1e-4, 4e-4)
# arm -> (recipe, what its training reads)
ARMS = {
    "cobalt": ("cobalt", "contexts"),
    "single_turn_grpo": ("single_turn_grpo", "tasks"),
    "mt_grpo": ("mt_grpo", "tasks"),
    "verpo": ("verpo", "tasks"),
    "cobalt_ptb": ("cobalt_ptb", "contexts"),
    "offline_rl": ("offline_rl", "groups"),
    "rejection_sft": ("rejection_sft", "groups"),
}
WALL_ARM = f"mt_grpo{WALL_SUFFIX}"
# data of an arm's kind -> the stages that make it; what the tasks themselves take counts for nobody
MADE_BY = {"contexts": ("collect", "repair", "judge", "contexts", "parquet"), "groups": ("collect",)}
TIMED_ROUNDS, TIMED_STEPS = 2, 6


@dataclass
class Study:
    """One study. ``job`` holds data, evaluator and engine settings; ``out`` everything else."""

    job: Job
    out: Path
    config: Path
    steps: int
    seeds: int
    say: Callable[[str], None] = print

    # ---- data -------------------------------------------------------------------------------------------

    def data(self, meter: Meter) -> None:
        """Tasks, trajectories, contexts; the same from perturbed tests; stored groups."""
        _collect(self.job, meter)
        limit = self.job.config.train.max_prompt_tokens
        self._once(
            "ptb/train.parquet",
            lambda: perturbed_contexts(self.job, self.out / "ptb", max_prompt_tokens=limit),
        )
        self._once("groups.parquet", self._groups)
        self._once(
            "heldout_ptb.jsonl", lambda: self._perturb(self._task("heldout"), self.out / "heldout_ptb.jsonl")
        )

    def _once(self, name: str, make: Callable[[], object]) -> None:
        if not (self.out / name).exists():
            self.say(f"making {name}")
            make()

    def _task(self, split: str) -> Path:
        return self.job.path("tasks", f"{split}.jsonl")

    def _perturb(self, source: Path, target: Path) -> None:
        from cobalt.tasks.perturb import run_perturbation

        run_perturbation(source, target)

    def _groups(self) -> None:
        from cobalt.training.offline_data import main

        source, target = self.job.path("collect", "single.jsonl"), self.out / "groups.parquet"
        main(["-i", str(source), "-o", str(target), "--prompts", self.job.prompts_source])

    # ---- runs -------------------------------------------------------------------------------------------

    def train(
        self, arm: str, rate: float, seed: int, steps: int | None = None, *, name: str | None = None
    ) -> dict[str, Any]:
        """One training; returns its record (``wall_s``, ``steps``, ``step_s``, ...)."""
        from cobalt.training.launch import train

        recipe, reads = ARMS[arm.removesuffix(WALL_SUFFIX)]
        folder = self.out / "runs" / (name or f"{arm}-lr{rate:g}-seed{seed}")
        record = folder / "record.json"
        if record.exists():
            found: dict[str, Any] = json.loads(record.read_text())
            return found
        self.say(f"training {folder.name}")
        files = {
            "contexts": self.job.path("parquet"), "tasks": self.job.path("parquet_single"), "groups": None,
        }[reads]  # fmt: skip
        before = json.loads((folder / "spent.json").read_text()) if (folder / "spent.json").exists() else 0.0
        started = time.monotonic()
        try:
            done = train(
                train_file=self.out / "groups.parquet" if files is None else files / "train.parquet",
                val_file=None if files is None else files / "test.parquet",
                model=self.job.model, output=folder, profile="cpu", recipe=recipe, steps=steps or self.steps,
                seed=seed, evaluator="local" if files else None, say=lambda _: None,
                ptb_file=self.out / "ptb" / "train.parquet" if arm == "cobalt_ptb" else None,
                prompts=self.job.prompts_source,
                overrides=[f"actor_rollout_ref.actor.optim.lr={rate}"],
            )  # fmt: skip
        finally:
            spent = before + time.monotonic() - started
            folder.mkdir(parents=True, exist_ok=True)
            atomic_write(folder / "spent.json", json.dumps(spent))
        made = {
            "arm": arm, "rate": rate, "seed": seed, "steps": done.steps, "samples": done.samples,
            "masked": done.masked, "wall_s": spent, "step_s": [m["timing_s/step"] for m in done.metrics],
            "model": str(done.model),
        }  # fmt: skip
        atomic_write(record, json.dumps(made, indent=2) + "\n")
        shutil.rmtree(folder / "checkpoints", ignore_errors=True)
        return made

    def evaluate(self, name: str, model: Path | str, split: str) -> Path:
        """Rows of a model on ``dev``, ``heldout`` or ``heldout_ptb`` with verdicts on hidden tests."""
        from cobalt.analysis.hidden_tests import hidden_tests

        target = self.out / "eval" / f"{name}.{split}_eval.jsonl"
        if target.exists() and (self.out / "eval" / f"{name}.{split}.done").exists():
            return target
        target.parent.mkdir(exist_ok=True)
        self.say(f"evaluating {name} on {split}")
        ptb = split == "heldout_ptb"
        settings = replace(self.job.evaluation(), tests="perturbed" if ptb else "public")
        rows = self.out / "heldout_ptb.jsonl" if ptb else self._task(split)
        shown = self.out / "eval" / f"{name}.{split}.jsonl"
        multi_turn(self.job, model, rows, shown, settings)
        complete(self.job.wait(hidden_tests(shown, target, self.job.evaluator, seed=self.job.seed)).run)
        (self.out / "eval" / f"{name}.{split}.done").touch()
        return target

    def tuned(self, arm: str) -> float:
        """The rate of the grid with the best Pass@1 at the last turn on development tasks, seed 0."""
        scores = {}
        for rate in LEARNING_RATES:
            made = self.train(arm, rate, 0)
            rows = self.evaluate(f"{arm}-lr{rate:g}-seed0", made["model"], "dev")
            last = [sample[-1] for row in _rows(rows) for sample in row["all_pass_rates"]]
            scores[rate] = sum(value == 1.0 for value in last) / len(last)
        chosen = max(scores, key=lambda rate: scores[rate])
        shown = ", ".join(f"{rate:g}: {100 * score:.1f}" for rate, score in scores.items())
        self.say(f"{arm}: learning rate {chosen:g} (development Pass@1 {shown})")
        return chosen

    def timing(self, rates: Mapping[str, float]) -> dict[str, float]:
        """Seconds of a step of every arm that samples, and of making ``contexts`` and ``groups``, in turns.

        The study's own runs lie hours apart, and a machine is not equally busy all that time. Medians; the
        first step of a training is left out. Start-up, the same for all, is not in them.
        """
        file = self.out / "timing.json"
        if file.exists():
            found: dict[str, float] = json.loads(file.read_text())
            return found
        sampling = [arm for arm in rates if ARMS[arm][1] != "groups"]
        seconds: dict[str, list[float]] = {name: [] for name in (*MADE_BY, *sampling)}
        for turn in range(TIMED_ROUNDS):
            with opened(self.config, self.out / f"timing-{turn}") as job, Meter() as meter:
                self.say(f"timing the collection, round {turn + 1}")
                for kind, wall_s in _collect(job, meter).items():
                    seconds[kind].append(wall_s)
            for arm in sampling:
                made = self.train(arm, rates[arm], 0, TIMED_STEPS, name=f"timing-{arm}-{turn}")
                seconds[arm] += made["step_s"][1:]
        made_of = {arm: statistics.median(values) for arm, values in seconds.items()}
        atomic_write(file, json.dumps(made_of, indent=2) + "\n")
        return made_of

    def run(self, arms: Sequence[str], *, equal_wall: bool) -> dict[str, Any]:
        """All of it; returns what the report is made of."""
        results: dict[str, Any] = {"steps": self.steps, "arms": {}}
        reference = {
            split: [str(self.evaluate("reference", self.job.model, split))]
            for split in ("heldout", "heldout_ptb")
        }
        results["arms"]["reference"] = {"files": reference, "runs": []}
        for arm in arms:
            results["arms"][arm] = self._arm(arm, self.tuned(arm), None)
        seconds = results["timing"] = self.timing({arm: results["arms"][arm]["rate"] for arm in arms})
        if equal_wall and {"cobalt", "mt_grpo"} <= set(arms):
            budget = seconds["contexts"] + self.steps * seconds["cobalt"]
            steps = max(1, round(budget / seconds["mt_grpo"]))
            self.say(f"equal wall time: {budget:.0f} s of collection and steps are {steps} online steps")
            results["arms"][WALL_ARM] = self._arm(WALL_ARM, results["arms"]["mt_grpo"]["rate"], steps)
        return results

    def _arm(self, arm: str, rate: float, steps: int | None) -> dict[str, Any]:
        runs = [self.train(arm, rate, seed, steps) for seed in range(self.seeds)]
        files: dict[str, list[str]] = {"heldout": [], "heldout_ptb": []}
        for made in runs:
            name = f"{arm}-lr{rate:g}-seed{made['seed']}"
            for split, found in files.items():
                found.append(str(self.evaluate(name, made["model"], split)))
        return {"rate": rate, "reads": ARMS[arm.removesuffix(WALL_SUFFIX)][1], "runs": runs, "files": files}


def _rows(path: Path) -> Iterator[Row]:
    return (row for _, row in read_rows(path))


def _collect(job: Job, meter: Meter) -> dict[str, float]:
    """Run what is missing of a job's data stages; wall seconds that each kind of data took."""
    runner = Runner(job.out, [], meter, job.counters)
    runner.stages = data_stages(job)
    if not runner.finished():
        view = job.view = View(lines(runner.stages))
        try:
            runner.run(view)
        finally:
            view.close()
            job.view = None
    took = {record["name"]: record["wall_s"] for record in runner.records()}
    return {kind: sum(took[stage] for stage in stages) for kind, stages in MADE_BY.items()}


@contextmanager
def opened(config: Path, out: Path) -> Iterator[Job]:
    """The job of the study's data, in ``out``/data."""
    loaded = load(config)
    with Job(loaded, model_folder(loaded, config), out / "data", seed=0, task_seed=0) as job:
        yield job


def main(argv: list[str] | None = None) -> int:
    """The command line of `scripts/study_tiny.sh`; returns the exit code."""
    flags = parser("Train and compare the arms on the tiny task family. Run again to continue.")
    flags.add_argument(
        "--config", type=Path, default=Path("configs/tiny.yaml"), help="sizes of data and evaluation"
    )
    flags.add_argument("--out", type=Path, default=Path("outputs/study_tiny"), help="folder of the study")
    flags.add_argument("--steps", type=positive_int, default=30, help="training steps of every arm")
    flags.add_argument("--seeds", type=positive_int, default=3, help="trainings per arm")
    flags.add_argument("--arms", nargs="+", choices=list(ARMS), default=list(ARMS), help="which arms")
    flags.add_argument(
        "--no_equal_wall", action="store_true", help="without the comparison at equal wall time"
    )
    args = flags.parse_args(argv)
    if not args.config.is_file():
        raise InputError(f"--config {args.config}: no such file")
    settings = {"steps": args.steps, "seeds": args.seeds}
    noted = args.out / "study.json"
    args.out.mkdir(parents=True, exist_ok=True)
    before = args.out / "settings.json"
    if before.exists() and json.loads(before.read_text())["steps"] != args.steps:
        raise InputError(f"{args.out} is a study of another number of steps; choose another --out")
    atomic_write(before, json.dumps(settings))
    with Meter() as meter, opened(args.config, args.out) as job:
        study = Study(job, args.out, args.config, args.steps, args.seeds)
        study.data(meter)
        results = study.run(args.arms, equal_wall=not args.no_equal_wall)
    atomic_write(noted, json.dumps(results, indent=2) + "\n")
    print(report(results, args.out))
    return 0
