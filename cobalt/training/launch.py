"""Start one training and wait for it: compose, check, print the plan, run verl, collect what it left."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.errors import InfraError, InputError
from cobalt.files import atomic_write
from cobalt.flags import parser, positive_int, run_main
from cobalt.training import entry, outcome, scoring
from cobalt.training.data import check_file
from cobalt.training.outcome import METRICS, TrainResult
from cobalt.training.process import environment, output_lock, private_folder, run_entry
from cobalt.training.settings import CONFIG_DIR, PROFILES, RECIPES, SCALES, compose

if TYPE_CHECKING:
    from cobalt.progress import Progress

_TAIL_LINES = 30


def train(
    *,
    train_file: Path | str,
    val_file: Path | str,
    model: Path | str,
    output: Path | str,
    profile: str = "cpu",
    recipe: str = "multi_turn",
    scale: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    evaluator: str | None = None,
    reward_profile: str | None = None,
    overrides: Sequence[str] = (),
    progress: Progress | None = None,
    label: str = "training",
    say: Callable[[str], None] = print,
    dry_run: bool = False,
) -> TrainResult:
    """Train a model with verl and return what came of it.

    Args: ``train_file`` and ``val_file`` in Parquet; ``model`` a Hugging Face folder (or name, on GPUs);
    ``output`` a folder of this training alone: run again with the same arguments, it continues from its
    last checkpoint. ``scale`` None: ``tiny`` on CPU, ``published`` on GPUs. ``steps`` None: as many as the
    recipe's epochs have. ``evaluator`` (``auto``, ``local``, ``serve``, a URL) and ``reward_profile`` None:
    as the configuration says. ``overrides`` in Hydra's syntax win over everything. ``progress`` hears of
    every step under ``label``, ``say`` gets the plan line by line. ``dry_run`` stops after the plan.

    On CPU several trainings with different outputs may run at once; each has a Ray cluster of its own.
    Raises InputError for input that cannot be used (nothing has been trained then), InfraError if the
    training failed or made fewer steps than asked for.
    """
    started = time.monotonic()
    target = Path(output).resolve()
    values: dict[str, Any] = {
        "data.train_files": str(Path(train_file).resolve()),
        "data.val_files": str(Path(val_file).resolve()),
        "data.seed": seed,
        "actor_rollout_ref.rollout.seed": seed,
        "actor_rollout_ref.actor.data_loader_seed": seed,
        "actor_rollout_ref.model.path": _model_path(model, local=profile == "cpu"),
        "trainer.default_local_dir": str(target / "checkpoints"),
        "trainer.total_training_steps": steps,
        "cobalt.config_dir": str(CONFIG_DIR),
    }
    if evaluator is not None:
        values["cobalt.evaluator"] = evaluator
    if reward_profile is not None:
        values["cobalt.reward_profile"] = reward_profile
    config = compose(
        recipe, profile, scale or ("tiny" if profile == "cpu" else "published"), values, overrides
    )
    for key, what, validation in (
        ("train_files", "training data", False),
        ("val_files", "validation data", True),
    ):
        check_file(Path(config.data[key]), what=what, validation=validation)
    scoring.reward_profile(config.cobalt.reward_profile)
    with output_lock(target), private_folder() as folder:
        launch = folder if dry_run else outcome.new_launch(target)
        watch = _Watch(launch / METRICS, folder / entry.PLAN, progress, label, say)
        return _run(config, target, launch, folder, watch, dry_run, started)


def _run(
    config: Any,
    target: Path,
    launch: Path,
    folder: Path,
    watch: _Watch,
    dry_run: bool,
    started: float,
) -> TrainResult:
    from omegaconf import OmegaConf

    path, log = launch / "config.yaml", launch / "train.log"
    atomic_write(path, OmegaConf.to_yaml(config))
    env = environment(
        folder,
        cpu=config.trainer.device == "cpu",
        threads=config.cobalt.threads,
        metrics=launch / METRICS,
    )
    with log.open("wb") as sink:
        status = run_entry([str(path), *(["--check"] if dry_run else [])], env, sink, watch)
    if status != 0:
        raise _failure(status, folder / entry.FAILURE, log)
    assert watch.plan is not None
    result = TrainResult(
        output=target,
        plan=watch.plan["plan"],
        notes=watch.plan["notes"],
        log=None if dry_run else log,
        first_step_s=watch.first_step_s,
    )
    if dry_run:
        return result
    counters = folder / entry.COUNTERS
    if counters.exists():
        result = replace(result, evaluator=json.loads(counters.read_text()))
    return _collect(OmegaConf.load(path), result, started)


def _collect(config: Any, result: TrainResult, started: float) -> TrainResult:
    """Check that every step was made, export the model, write ``metrics.jsonl`` and ``result.json``."""
    checkpoints, steps = Path(config.trainer.default_local_dir), int(result.plan["steps"])
    files = [folder / METRICS for folder in outcome.launch_folders(result.output)]
    metrics = outcome.read_metrics(path for path in files if path.exists())
    metrics = [step for step in metrics if step["step"] > 0]
    done = outcome.checkpoint_step(checkpoints)
    missing = sorted(set(range(1, steps + 1)) - {step["step"] for step in metrics})
    if done < steps or missing:
        assert result.log is not None
        raise InfraError(
            f"the training ended after step {done} of {steps}"
            + (f", without metrics of steps {missing[:10]}" if missing else "")
            + f"; the log ({result.log}) ends:\n{_tail(result.log)}"
        )
    checkpoint = checkpoints / f"global_step_{done}"
    fp32 = config.actor_rollout_ref.actor.fsdp_config.model_dtype in ("fp32", "float32")
    result = replace(
        result,
        steps=done,
        samples=done * result.plan["contexts_per_step"] * result.plan["samples_per_context"],
        masked=outcome.masked_samples(metrics),
        wall_s=time.monotonic() - started,
        checkpoint=checkpoint,
        model=outcome.export_model(checkpoint, result.output / "model", fp32=fp32),
        metrics=metrics,
    )
    atomic_write(result.output / METRICS, "".join(json.dumps(step) + "\n" for step in metrics))
    atomic_write(result.output / "result.json", json.dumps(result.as_dict(), indent=2) + "\n")
    return result


class _Watch:
    """Reads what the training process writes: first its plan, then every step."""

    def __init__(
        self, metrics: Path, plan: Path, progress: Progress | None, label: str, say: Callable[[str], None]
    ) -> None:
        self.metrics, self.plan_file = metrics, plan
        self.progress, self.label, self.say = progress, label, say
        self.started, self.seen = time.monotonic(), 0
        self.plan: dict[str, Any] | None = None
        self.first_step_s: float | None = None

    def __call__(self) -> None:
        if self.plan is None and self.plan_file.exists():
            self.plan = json.loads(self.plan_file.read_text())
            for line in (*self.plan["lines"], *self.plan["notes"]):
                self.say(f"  {line}")
        if self.plan is None or not self.metrics.exists():
            return
        lines = self.metrics.read_bytes().split(b"\n")[:-1]
        for line in lines[self.seen :]:
            record = json.loads(line)
            if record["step"] > 0:
                self._report(record["step"], self.plan["plan"]["steps"], record["data"])
        self.seen = len(lines)

    def _report(self, step: int, steps: int, data: dict[str, Any]) -> None:
        if self.first_step_s is None:
            self.first_step_s = time.monotonic() - self.started
        if self.progress is not None:
            self.progress.advance(
                self.label,
                step,
                steps,
                reward=round(data.get("reward/shaped", 0.0), 3),
                pass_rate=round(data.get("reward/pass_rate", 0.0), 3),
                masked=round(data.get("reward/masked", 0.0)),
            )


def _failure(status: int, failure: Path, log: Path) -> Exception:
    if failure.exists():
        said = json.loads(failure.read_text())
        if said["kind"] == "input":
            return InputError(said["message"])
        return InfraError(f"the training failed: {said['message']}\nThe log ({log}) ends:\n{_tail(log)}")
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return InfraError(f"the training process {how}. The log ({log}) ends:\n{_tail(log)}")


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(f"    {line[:300]}" for line in lines[-_TAIL_LINES:])


def _model_path(model: Path | str, *, local: bool) -> str:
    folder = Path(model)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"--model {model}: no config.json there, so it is no Hugging Face model folder")
        return str(folder.resolve())
    if local or folder.is_absolute() or str(model).startswith("."):
        raise InputError(f"--model {model}: no such folder")
    return str(model)


def main(argv: list[str] | None = None) -> int:
    """Command line of the training scripts; arguments that are not flags are Hydra overrides."""
    from cobalt.progress import make_progress

    flags = parser("Train a policy with verl (GRPO). Remaining arguments are Hydra overrides (key=value).")
    flags.add_argument("--train_file", required=True, help="Parquet file with training rows")
    flags.add_argument("--val_file", required=True, help="Parquet file with validation rows")
    flags.add_argument(
        "--model", required=True, help="Hugging Face folder (on GPUs also a cached model's name)"
    )
    flags.add_argument("-o", "--output", required=True, help="folder of this training; run again to continue")
    flags.add_argument("--recipe", choices=RECIPES, default="multi_turn", help="settings to train with")
    flags.add_argument("--profile", choices=PROFILES, default="gpu", help="hardware settings")
    flags.add_argument("--scale", choices=SCALES, help="sizes (default: tiny on CPU, published on GPUs)")
    flags.add_argument("--steps", type=positive_int, help="training steps (default: the recipe's epochs)")
    flags.add_argument("--seed", type=int, default=0, help="seed of data order and sampling")
    flags.add_argument("--evaluator", help="auto, local, serve or a URL (default: the configuration's)")
    flags.add_argument("--reward_profile", help="named reward profile (default: the configuration's)")
    flags.add_argument("--dry_run", action="store_true", help="check everything, print the plan, stop")
    flags.add_argument("overrides", nargs="*", metavar="key=value", help="Hydra overrides, passed to verl")
    args = flags.parse_intermixed_args(argv)
    result = train(progress=None if args.dry_run else make_progress(), **vars(args))
    if args.dry_run:
        print("dry run: everything is in place")
    else:
        print(
            f"{result.steps} steps, {result.samples} samples, {result.masked} masked; model: {result.model}"
        )
    return 0


if __name__ == "__main__":
    run_main(main)
