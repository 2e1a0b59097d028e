"""`cobalt train`, the command line of the training scripts."""

from __future__ import annotations

import argparse
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cobalt.cli import make_progress, parser, positive_int, run_main
from cobalt.errors import InputError
from cobalt.training.config import ALIASES, choices, compose, is_own, listed, one_or_many
from cobalt.training.launch import train
from cobalt.training.worker import NOT_HERE

# Overrides of the published scripts that mean the same as a flag of ours.
FLAGS = {
    "data.train_files": "train_file",
    "data.val_files": "val_file",
    "actor_rollout_ref.model.path": "model",
    "trainer.default_local_dir": "output",
}


def complete(given: dict[str, Any]) -> None:
    """Complete the values of a command line.

    Overrides that mean a flag take its place. The files that the published scripts name are the defaults:
    ``data/train.parquet``, and ``test.parquet`` beside the training data. Raises InputError if the first is
    needed and not there.
    """
    kept = []
    for text in given["overrides"]:
        flag = FLAGS.get(text.lstrip("+").partition("=")[0])
        if flag is None or "${" in text:
            kept.append(text)
        else:
            given[flag] = _value(text)
    given["overrides"] = kept
    train_file = given["train_file"] = given["train_file"] or _default_file(given["recipe"])
    beside = Path(listed(train_file)[0]).with_name("test.parquet")
    if given["val_file"] is None and beside.is_file():
        given["val_file"] = beside


def _value(override: str) -> Any:
    """One path, several, or None. Hydra's grammar is needed for quotes and lists only, and knows no ``~``."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    value: Any = override.partition("=")[2].strip()
    if value.startswith(("[", "'", '"')):
        try:
            value = OverridesParser.create().parse_override(override).value()
        except HydraException as error:
            raise InputError(f"configuration: {' '.join(str(error).split())}") from error
    return one_or_many([str(Path(str(one)).expanduser()) for one in listed(value) if one not in ("", "null")])


def _default_file(recipe: str) -> Path:
    for place in (Path("data/train.parquet"), Path("verl/data/train.parquet")):
        if place.is_file():
            return place
    command = {
        "contexts": "preproc/verl_preproc_multi_turn.py --local_dir data ...",
        "statements": "preproc/verl_preproc_single_turn.py --local_dir data ...",
        "stored": "cobalt stored_groups ... -o data/train.parquet",
        "revisions": "cobalt stored_groups --revisions ... -o data/train.parquet",
    }[compose(recipe, "cpu", "tiny", {}).cobalt.trains_on]
    raise InputError(
        "there is no data/train.parquet here, the default of --train_file: make it "
        f"({command}; docs/data.md), or name another file"
    )


def _flags() -> argparse.ArgumentParser:
    flags = parser(
        "Train a policy by a recipe (docs/recipes.md). Remaining arguments are Hydra overrides (key=value), "
        f"which win over flags; {', '.join(FLAGS)} mean --train_file, --val_file, --model, --output. "
        "SIGTERM saves after the step under way and ends; the same command goes on."
    )
    add = flags.add_argument
    add("--train_file", help="Parquet file with training rows (default: data/train.parquet)")
    add("--val_file", help="and for validation (default: test.parquet beside --train_file)")
    add("--model", help="Hugging Face folder, on GPUs also a cached model's name (default: the recipe's)")
    add("-o", "--output", help="folder of this training; run again to continue")
    names = ", ".join((*choices("recipe"), "or a YAML file of your own"))
    add("--recipe", default="cobalt", help=f"method: {names}", type=_recipe)
    add("--profile", choices=choices("profile"), default="gpu", help="hardware settings")
    add("--scale", choices=choices("scale"), help="sizes (default: tiny on CPU, published on GPUs)")
    add("--steps", type=positive_int, help="training steps (default: the recipe's epochs)")
    add("--seed", type=int, default=0, help="seed of data order and sampling")
    add("--evaluator", help="auto, local, serve or a URL (default: the configuration's)")
    add("--reward_profile", help="named reward profile (default: the configuration's)")
    add("--ptb_file", help="Parquet file with perturbed contexts, for recipes that mix them in")
    add("--prompts", metavar="default|tiny|FILE", help="texts that online dialogues show")
    resume = "auto (from the output's checkpoint), never, or a folder global_step_N"
    add("--resume", default="auto", help=resume)
    stopped = "exit status after a stop by SIGTERM (default 0)"
    add("--stopped_status", type=int, default=0, help=stopped)
    add("--wandb", action="store_true", help="log to Weights & Biases too")
    add("--dry_run", action="store_true", help="check everything, print the plan, stop")
    add("overrides", nargs="*", metavar="key=value", help="Hydra overrides, passed to verl")
    return flags


def main(argv: list[str] | None = None) -> int:
    """Exit status 0: trained, or stopped by SIGTERM after a step (or `--stopped_status`); 143: stopped by it
    before the first.
    """
    flags = _flags()
    args = vars(flags.parse_intermixed_args(argv))
    complete(args)
    stopped_status, dry_run = args.pop("stopped_status"), args["dry_run"]
    if args["output"] is None:
        flags.error("the following arguments are required: --output")
    if args.pop("wandb"):
        args["overrides"] = ["trainer.logger=[console,file,tensorboard,wandb]", *args["overrides"]]
    with _termination() as stop, make_progress() as progress:
        done = train(progress=None if dry_run else progress, stop=stop, **args)
    if dry_run:
        elsewhere = any(note.startswith(NOT_HERE) for note in done.notes)
        print(f"dry run: everything {'but the devices ' if elsewhere else ''}is in place")
        return 0
    if done.stopped and done.steps < int(done.plan["first_step"]):
        print("stopped before the first step was made; the same command begins with it")
        return 128 + signal.SIGTERM
    if done.stopped:
        print(f"stopped after step {done.steps} of {done.plan['steps']}; the same command goes on")
        return int(stopped_status)
    print(f"{done.steps} steps, {done.samples} samples, {done.masked} masked; model: {done.model}")
    return 0


def _recipe(name: str) -> str:
    if name not in (*choices("recipe"), *ALIASES) and not is_own(name):
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
