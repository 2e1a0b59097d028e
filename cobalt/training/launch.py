"""Start one training and wait for it: compose, check, print the plan, run verl, collect what it left."""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cobalt.cli import parser, positive_int, run_main
from cobalt.errors import InfraError, InputError
from cobalt.files import atomic_write
from cobalt.training import entry, outcome
from cobalt.training.asked import FLAGS, Files, check_inputs, composed, settle
from cobalt.training.card import card
from cobalt.training.outcome import METRICS, TrainResult
from cobalt.training.plugins import is_own, module_folder
from cobalt.training.process import environment, output_lock, private_folder, run_entry
from cobalt.training.settings import ALIASES, choices
from cobalt.training.watch import Watch, check_numbers

if TYPE_CHECKING:
    from cobalt.cli import Progress

_TAIL_LINES = 30
_STARTS = 3  # of a training that loses its port before the first step


class PortTaken(InfraError):
    """verl chooses a free port and listens there seconds later; any process may have taken it meanwhile."""

    def __init__(self, message: str, port: str) -> None:
        super().__init__(message)
        self.port = port


def train(
    *,
    train_file: Files,
    val_file: Files = None,
    model: Path | str,
    output: Path | str,
    profile: str = "cpu",
    recipe: str = "cobalt",
    scale: str | None = None,
    steps: int | None = None,
    seed: int = 0,
    evaluator: str | None = None,
    reward_profile: str | None = None,
    ptb_file: Path | str | None = None,
    prompts: str | None = None,
    resume: str = "auto",
    overrides: Sequence[str] = (),
    progress: Progress | None = None,
    label: str = "training",
    say: Callable[[str], None] = print,
    stop: Callable[[], bool] = lambda: False,
    dry_run: bool = False,
) -> TrainResult:
    """Train a model by a recipe and return what came of it.

    Args: ``train_file`` and ``val_file`` in Parquet, or several (offline recipes need one); ``model`` a
    Hugging Face folder (or name, on GPUs); ``output`` a folder of this training alone: run again with the
    same arguments, it continues from its last checkpoint (``resume`` ``auto``; ``never`` refuses a folder
    that has one; a path names another ``global_step_N``). ``recipe``: a file of ``verl/config/recipe``,
    the published scripts' words multi_turn and single_turn, or the path of a YAML file. ``ptb_file``:
    contexts for cobalt_ptb. ``scale`` None: ``tiny`` on CPU, ``published`` on GPUs. ``steps`` None: as many
    as the recipe's epochs have. ``evaluator`` (``auto``, ``local``, ``serve``, a URL), ``reward_profile`` and
    ``prompts`` (of online dialogues) None: as the configuration says. ``overrides`` in Hydra's syntax win
    over everything. ``progress`` hears of every step under ``label``, ``say`` gets the plan line by line.
    Once ``stop()`` is true the run ends after the step under way, with a checkpoint, and the result says
    ``stopped``. ``dry_run`` stops after the plan.

    On CPU several trainings with different outputs may run at once; each has a Ray cluster of its own.
    Raises InputError for input that cannot be used (nothing has been trained then), InfraError if the
    training failed or made fewer steps than asked for.
    """
    started = time.monotonic()
    target = Path(output).resolve()
    config = composed(
        target,
        (train_file, val_file, ptb_file),
        model,
        (recipe, profile, scale or ("tiny" if profile == "cpu" else "published")),
        {
            "trainer.total_training_steps": steps,
            "cobalt.evaluator": evaluator,
            "cobalt.reward_profile": reward_profile,
            "cobalt.dialogue.prompts": prompts,
        },
        seed,
        resume,
        overrides,
    )
    check_inputs(config)
    with output_lock(target):
        starts = 0
        while True:
            starts += 1
            with private_folder() as folder:
                launch = folder if dry_run else outcome.new_launch(target)
                watch = Watch(launch / METRICS, folder / entry.PLAN, target, config, progress, label, say)
                try:
                    return _run(config, target, launch, folder, watch, stop, dry_run, started)
                except PortTaken as error:
                    if starts == _STARTS or watch.first_step_s is not None:
                        raise
                    say(f"another process took the port that verl had chosen ({error.port}): starting again")


def _run(
    config: Any,
    target: Path,
    launch: Path,
    folder: Path,
    watch: Watch,
    stop: Callable[[], bool],
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
        tensorboard=target / "tensorboard",
        modules=module_folder(config),
        given=config.cobalt.env,
    )
    request = target / outcome.STOP_REQUEST
    request.unlink(missing_ok=True)

    def tick() -> None:
        if stop() and not request.exists():
            atomic_write(request, "")
        watch()

    with log.open("wb") as sink:
        status = run_entry([str(path), *(["--check"] if dry_run else [])], env, sink, tick)
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
    return _collect(config, result, started)


def _collect(config: Any, result: TrainResult, started: float) -> TrainResult:
    """Check that every step was made, export the model, write ``metrics.jsonl`` and ``result.json``."""
    checkpoints, steps = Path(config.trainer.default_local_dir), int(result.plan["steps"])
    files = [folder / METRICS for folder in outcome.launch_folders(result.output)]
    known = outcome.read_metrics(path for path in files if path.exists())
    metrics = [step for step in known if step["step"] > 0]
    done = outcome.checkpoint_step(checkpoints)
    stopped = done < steps and (result.output / outcome.STOP_REQUEST).exists()
    begin, have = int(result.plan["first_step"]), {step["step"] for step in metrics}
    missing = sorted(set(range(begin, (done if stopped else steps) + 1)) - have)
    if (done < steps and not stopped) or missing:
        assert result.log is not None
        raise InfraError(
            f"the training ended after step {done} of {steps}"
            + (f", without metrics of steps {missing[:10]}" if missing else "")
            + f"; the log ({result.log}) ends:\n{_tail(result.log)}"
        )
    for last in metrics[-1:]:
        check_numbers(last["step"], last)
    lost = sorted(set(range(1, begin)) - have) if config.trainer.resume_mode != "resume_path" else []
    if lost:  # a step is saved before it is logged
        result.notes.append(
            f"metrics of steps {lost} are lost: a launch was killed after saving and before them"
        )
    result = replace(
        result,
        steps=done,
        stopped=stopped,
        samples=done * result.plan["contexts_per_step"] * result.plan["samples_per_context"],
        masked=outcome.masked_samples(metrics),
        wall_s=time.monotonic() - started,
        metrics=metrics,
    )
    if done:
        checkpoint = outcome.latest(checkpoints)
        model = outcome.export_model(checkpoint, result.output / "model", fp32=outcome.is_fp32(config))
        atomic_write(model / "README.md", card(config, result))
        result = replace(result, checkpoint=checkpoint, model=model)
    atomic_write(result.output / METRICS, "".join(json.dumps(step) + "\n" for step in metrics))
    atomic_write(result.output / "result.json", json.dumps(result.as_dict(), indent=2) + "\n")
    return result


def _failure(status: int, failure: Path, log: Path) -> Exception:
    if failure.exists():
        said = json.loads(failure.read_text())
        if said["kind"] == "input":
            return InputError(said["message"])
        text = f"the training failed: {said['message']}\nThe log ({log}) ends:\n{_tail(log)}"
        taken = re.search(r"DistNetworkError: .*port: (\d+).*EADDRINUSE", said["message"])
        return PortTaken(text, taken[1]) if taken else InfraError(text)
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return InfraError(f"the training process {how}. The log ({log}) ends:\n{_tail(log)}")


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join(f"    {line[:300]}" for line in lines[-_TAIL_LINES:])


def main(argv: list[str] | None = None) -> int:
    """Command line of the training scripts; arguments that are not flags are Hydra overrides.

    Exit status 0: trained, or stopped by SIGTERM after a step (or `--stopped_status`);
    143: stopped by it before the first.
    """
    from cobalt.cli import make_progress

    flags = parser(
        "Train a policy by a recipe (docs/recipes.md). Remaining arguments are Hydra overrides (key=value), "
        f"which win over flags; {', '.join(FLAGS)} mean --train_file, --val_file, --model, --output. "
        "SIGTERM saves after the step under way and ends; the same command goes on."
    )
    flags.add_argument("--train_file", help="Parquet file with training rows (default: data/train.parquet)")
    flags.add_argument("--val_file", help="and for validation (default: test.parquet beside --train_file)")
    flags.add_argument("--model", help="Hugging Face folder (on GPUs also a cached model's name)")
    flags.add_argument("-o", "--output", help="folder of this training; run again to continue")
    names = ", ".join((*choices("recipe"), "or a YAML file of your own"))
    flags.add_argument("--recipe", default="cobalt", help=f"method: {names}", type=_recipe)
    flags.add_argument("--profile", choices=choices("profile"), default="gpu", help="hardware settings")
    flags.add_argument(
        "--scale", choices=choices("scale"), help="sizes (default: tiny on CPU, published on GPUs)"
    )
    flags.add_argument("--steps", type=positive_int, help="training steps (default: the recipe's epochs)")
    flags.add_argument("--seed", type=int, default=0, help="seed of data order and sampling")
    flags.add_argument("--evaluator", help="auto, local, serve or a URL (default: the configuration's)")
    flags.add_argument("--reward_profile", help="named reward profile (default: the configuration's)")
    flags.add_argument("--ptb_file", help="Parquet file with perturbed contexts, for cobalt_ptb")
    flags.add_argument("--prompts", metavar="default|tiny|FILE", help="texts that online dialogues show")
    flags.add_argument(
        "--resume",
        default="auto",
        help="auto (from the output's checkpoint), never, or a folder global_step_N",
    )
    flags.add_argument(
        "--stopped_status", type=int, default=0, help="exit status after a stop by SIGTERM (default 0)"
    )
    flags.add_argument("--wandb", action="store_true", help="log to Weights & Biases too")
    flags.add_argument("--dry_run", action="store_true", help="check everything, print the plan, stop")
    flags.add_argument("overrides", nargs="*", metavar="key=value", help="Hydra overrides, passed to verl")
    args = vars(flags.parse_intermixed_args(argv))
    settle(args)
    stopped_status = args.pop("stopped_status")
    missing = [f"--{name}" for name in ("model", "output") if args[name] is None]
    if missing:
        flags.error(f"the following arguments are required: {', '.join(missing)}")
    if args.pop("wandb"):
        args["overrides"] = ["trainer.logger=[console,file,tensorboard,wandb]", *args["overrides"]]
    with _termination() as stop:
        result = train(progress=None if args["dry_run"] else make_progress(), stop=stop, **args)
    if args["dry_run"]:
        elsewhere = any(note.startswith(entry.NOT_HERE) for note in result.notes)
        print(f"dry run: everything {'but the devices ' if elsewhere else ''}is in place")
    elif result.stopped and result.steps < int(result.plan["first_step"]):
        print("stopped before the first step was made; the same command begins with it")
        return 128 + signal.SIGTERM
    elif result.stopped:
        print(f"stopped after step {result.steps} of {result.plan['steps']}; the same command goes on")
        return int(stopped_status)
    else:
        print(
            f"{result.steps} steps, {result.samples} samples, {result.masked} masked; model: {result.model}"
        )
    return 0


def _recipe(name: str) -> str:
    known = (*choices("recipe"), *ALIASES)
    if name not in known and not is_own(name):
        raise argparse.ArgumentTypeError(
            f"{name!r} is unknown; there are: {', '.join(choices('recipe'))}, or a YAML file of your own"
        )
    return name


@contextlib.contextmanager
def _termination() -> Iterator[Callable[[], bool]]:
    """While open, SIGTERM (Slurm's notice before a preemption) only makes the returned function true."""
    asked = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield asked.is_set
        return
    before = signal.signal(signal.SIGTERM, lambda *_: asked.set())
    try:
        yield asked.is_set
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    run_main(main)
