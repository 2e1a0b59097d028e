"""The stages that train: the recipe, and the single-turn control beside it."""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.config import recipes
from cobalt.config.sections import Train
from cobalt.contexts.select import MAX_KEPT
from cobalt.errors import InfraError
from cobalt.files import file_sha256, plain
from cobalt.own import absolute, is_spec
from cobalt.run.functions import recipe_path
from cobalt.run.job import Job
from cobalt.run.stage_cache import Outcome, Stage
from cobalt.training.method import OFFERED, STORED

if TYPE_CHECKING:
    from cobalt.training.result import TrainResult

_OBJECTIVE = "offline.objective"  # may name a function, too
_STARTING = threading.Lock()  # configurations are composed in this process, one at a time


def training_stages(job: Job) -> list[Stage]:
    """The stages of `trainings`."""
    what = "GRPO on contexts" if job.config.on_contexts else f"recipe {job.config.train.recipe}"
    titles = f"train: {what} (verl)", "train the single-turn control"
    return [each.stage(title) for each, title in zip(trainings(job), titles, strict=False)]


def trainings(job: Job) -> list[Training]:
    """The recipe's training, and the single-turn control with the same number of completions."""
    found = [Training(job, "train", job.config.train.recipe)]
    if job.config.controls.single_turn_training:
        found.append(Training(job, "train_single", recipes.CONTROL))
    return found


class Training:
    """One training of a run, in the folder `name`."""

    def __init__(self, job: Job, name: str, recipe: str) -> None:
        self.job, self.name, self.recipe, self.out = job, name, recipe, job.path(name)
        given = job.config.train
        self.control = recipe != given.recipe
        self.label = "control training" if self.control else "training"
        if self.control:
            reward = any(each.startswith("cobalt.reward=") for each in given.overrides)
            given = replace(
                given, recipe=recipe, trains_on="statements", perturbed=False, perturbed_share=None,
                perturbed_kind="swap",
                # constants of functions that the control has not
                overrides=[each for each in given.overrides if reward or "cobalt.constants" not in each],
            )  # fmt: skip
        self.given, self.stored = given, given.trains_on in STORED
        self.ptb = job.path("ptb_contexts", "train.parquet") if given.perturbed else None
        self._stopped = threading.Event()

    def stage(self, title: str) -> Stage:
        """On a CPU two trainings leave a core idle part of the time, so the control runs beside the other."""
        job, given = self.job, self.given
        settings = {
            "recipe": self.recipe, "seed": job.seed, "model_sha256": job.model_sha256,
            "prompts": job.prompts.sha256, **job.functions.identity, **_decides(job, self.recipe),
            **plain(replace(given, overrides=overrides(given))),
        }  # fmt: skip
        files = [path for path in (*self._data(), self.ptb, self._steps_from()) if path is not None]
        return Stage(
            self.name, title, run=self.run, inputs=files,
            outputs=[self.out / "model", self.out / "metrics.jsonl"], owns=[self.out], settings=settings,
            beside="train" if self.control and given.profile == "cpu" else None, stop=self._stopped.set,
        )  # fmt: skip

    def run(self) -> Outcome:
        """Train, or go on from the last checkpoint."""
        self.job.release()
        with contextlib.ExitStack() as starting:
            starting.enter_context(_STARTING)

            def stop() -> bool:
                """Asked five times a second once the training has a process of its own."""
                starting.close()
                if self._stopped.is_set():
                    raise InfraError(f"the {self.label} was stopped")
                return False

            done = self.train(stop)
        return Outcome(
            done.plan["contexts"], done.samples,
            {"steps": done.steps, "samples": done.samples, "masked": done.masked, "evaluator": done.evaluator,
             "plan": done.plan},
        )  # fmt: skip

    def train(self, stop: Callable[[], bool]) -> TrainResult:
        """Train until the last step, or until `stop()`, asked five times a second, is true."""
        from cobalt.training.launch import train

        job, given, steps, basis = self.job, self.given, self.given.steps, self._steps_from()
        if basis is not None:  # as many completions as the other training has
            steps = max(1, _rows(basis) * (given.epochs or 1) // given.contexts)
        train_file, val_file = self._data()
        return train(
            train_file=train_file, val_file=val_file, output=self.out, steps=steps, ptb_file=self.ptb,
            stop=stop, progress=job.view.progress(self.name) if job.view else None,
            say=lambda line: print(f"  {self.label}: {line.strip()}", flush=True), **self._given(),
        )  # fmt: skip

    def _given(self, *more: str) -> dict[str, Any]:
        job, given = self.job, self.given
        return {
            "model": job.model, "profile": given.profile, "recipe": recipe_path(self.recipe, job.file),
            "scale": given.scale, "seed": job.seed, "reward_profile": given.reward_profile,
            "evaluator": None if self.stored else job.config.execution.evaluator,
            "prompts": job.prompts_source,
            "overrides": [*job.functions.overrides, *overrides(given, job.file.parent), *more],
            "label": self.label,
        }  # fmt: skip

    def try_out(self, rows: list[dict[str, Any]], folder: Path, *more: str) -> TrainResult:
        """Put it together in ``folder``, in a process of its own, with the openings of these tasks as data
        (stored groups: programs made up) and ``more`` overrides, and start nothing.

        Raises InputError for what verl or our parts refuse, InfraError for what does not work here.
        """
        import pyarrow
        import pyarrow.parquet as parquet

        from cobalt.contexts.parquet import build_parquet
        from cobalt.training.launch import train

        rows = [row | {"id": number} for number, row in enumerate(rows)]
        file, prompts = folder / "train.parquet", self.job.prompts
        if self.stored:
            pair = [{"text": "```python\npass\n```", "pass_rate": rate} for rate in (0.0, 1.0)]
            if self.job.config.on_revisions:
                pair = [each | {"baseline": 0.5} for each in pair]
            groups = [
                {"prompt": prompts.messages(row["instruction"]), "completions": pair * 2,
                 "extra_info": {"split": "train", "index": row["id"]}} for row in rows
            ]  # fmt: skip
            parquet.write_table(pyarrow.Table.from_pylist(groups), file)
        else:
            build_parquet(rows, rows[:1], folder, kind="single_turn", prompts=prompts)
        return train(
            train_file=file, val_file=None if self.stored else folder / "test.parquet",
            output=folder / "out", steps=self.given.steps, ptb_file=file if self.ptb else None, dry_run=True,
            say=lambda line: None, **self._given(*more),
        )  # fmt: skip

    def _data(self) -> tuple[Path, Path | None]:
        if self.stored:
            return self.job.path("parquet", "groups.parquet"), None
        folder = self.job.path("parquet" if self.given.trains_on == "contexts" else "parquet_single")
        return folder / "train.parquet", folder / "test.parquet"

    def _steps_from(self) -> Path | None:
        """The rows of the other training, by which a control over epochs counts its steps."""
        return self.job.path("parquet", "train.parquet") if self.control and self.given.epochs else None


def _decides(job: Job, recipe: str) -> dict[str, Any]:
    """What the files of the recipe say, and hashes of the sources of its functions and plug-ins."""
    given, path = job.config.train, recipe_path(recipe, job.file)
    found = recipes.read(path, given.profile, given.scale, given.overrides)
    hashes, places = {}, re.findall(r"[\w.]+", found.text("cobalt.plugins"))
    for key in (*OFFERED, _OBJECTIVE):
        here = any(each.startswith(f"cobalt.{key}=") for each in given.overrides)
        folder = job.file.parent if here else Path(path).parent
        place = absolute(found.text(f"cobalt.{key}").strip("'\""), folder).rpartition(":")[0]
        if not place.endswith(".py"):
            places.append(place)
        elif Path(place).is_file():
            hashes[Path(place).name] = file_sha256(Path(place))
    for module in places:
        name = module.partition(".")[0]
        if name == "cobalt":  # a change elsewhere in this package is no other method
            ours = find_spec(module)
            if ours is not None and ours.origin is not None:
                hashes[module] = file_sha256(Path(ours.origin))
            continue
        spec = PathFinder.find_spec(name, [str(Path(path).parent), *sys.path])
        if spec is not None and spec.origin is not None:
            file = Path(spec.origin)
            files = sorted(file.parent.rglob("*.py")) if spec.submodule_search_locations else [file]
            hashes[name] = " ".join(map(file_sha256, files))
    return {"verl": found.values, "modules": hashes}


def overrides(given: Train, folder: Path | None = None) -> list[str]:
    """verl's settings for a training. ``folder``: of the configuration, from which files of functions that
    an override names are meant.
    """
    policy = "actor_rollout_ref"
    made = [
        f"data.train_batch_size={given.contexts}",
        f"data.max_prompt_length={given.max_prompt_tokens}",
        f"data.max_response_length={given.max_response_tokens}",
        f"{policy}.rollout.n={given.completions}",
        f"{policy}.actor.ppo_mini_batch_size={given.contexts // given.mini_batches}",
        f"{policy}.actor.optim.lr={given.learning_rate}",
        f"cobalt.trains_on={given.trains_on}",
        f"cobalt.ptb.mix={given.perturbed}".lower(),
    ]
    if given.epochs is not None:
        made.append(f"trainer.total_epochs={given.epochs}")
    if given.gpus is not None:
        made.append(f"trainer.n_gpus_per_node={given.gpus}")
    if given.lora_rank:
        lora = {"lora_rank": given.lora_rank, "lora_alpha": given.lora_alpha}
        made += [f"{policy}.model.{name}={value}" for name, value in lora.items()]
    if given.perturbed_share is not None:
        made.append(f"cobalt.ptb.share={given.perturbed_share}")
    return [*made, *(_located(each, folder) for each in given.overrides)]


_FUNCTIONS = {f"cobalt.{name}" for name in (*OFFERED, "environment", _OBJECTIVE)}


def _located(override: str, folder: Path | None) -> str:
    key, _, spec = override.partition("=")
    spec = spec.strip("'\"")
    if folder is None or key not in _FUNCTIONS or not is_spec(spec):
        return override
    found = absolute(spec, folder)
    return f"{key}={found if found.isascii() and ' ' not in found else repr(found)}"


def check_composed(job: Job, recipe: str | None = None) -> Any:
    """verl's configuration of a training (``recipe`` None: the configuration's), composed, so that a wrong
    override is found before anything starts, as is a training whose weights and optimiser alone cannot fit.

    Raises InputError.
    """
    from cobalt.training.config import compose
    from cobalt.training.fit import fit
    from cobalt.training.method import check

    of = next(each for each in trainings(job) if each.recipe == (recipe or job.config.train.recipe))
    given = of.given
    values = {"actor_rollout_ref.model.path": str(job.model)}
    if not of.stored:
        values["cobalt.evaluator"] = job.config.execution.evaluator
    changed = overrides(given, job.file.parent)
    composed = compose(recipe_path(of.recipe, job.file), given.profile, given.scale, values, changed)
    fit(composed, 1)
    check(composed)
    return composed


def rows_at_most(job: Job, tasks: int) -> tuple[int, str]:
    """The rows that these tasks can give a training at most, and what they are called."""
    config = job.config
    if config.on_stored:
        return tasks * config.tasks.max_groups if config.tasks.has_stored else tasks, "stored groups"
    if not config.on_contexts:
        return tasks, "tasks"
    whole = config.contexts.selection == "all" or job.functions.rule is not None
    each = config.collect.samples if whole else MAX_KEPT
    return tasks * (1 + config.contexts.partial * each * config.collect.turns), "contexts"


def _rows(path: Path) -> int:
    import pyarrow.parquet as parquet

    return int(parquet.read_metadata(path).num_rows)
