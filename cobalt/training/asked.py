"""What a caller asks of a training, as one composed and checked configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.prompts import load, near
from cobalt.training import outcome, scoring
from cobalt.training.data import check_files
from cobalt.training.settings import ALIASES, CONFIG_DIR, compose

# Overrides of the published scripts that mean the same as a flag of ours.
FLAGS = {
    "data.train_files": "train_file",
    "data.val_files": "val_file",
    "actor_rollout_ref.model.path": "model",
    "trainer.default_local_dir": "output",
}
Files = Path | str | Sequence[Path | str] | None


def settle(given: dict[str, Any]) -> None:
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
    beside = Path(_listed(train_file)[0]).with_name("test.parquet")
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
    found = [str(Path(str(one)).expanduser()) for one in _listed(value) if one not in ("", "null")]
    return found if len(found) > 1 else next(iter(found), None)


def _default_file(recipe: str) -> Path:
    for place in (Path("data/train.parquet"), Path("verl/data/train.parquet")):
        if place.is_file():
            return place
    maker = {"cobalt": "multi", "cobalt_ptb": "multi"}.get(ALIASES.get(recipe, recipe), "single")
    command = f"preproc/verl_preproc_{maker}_turn.py --local_dir data ..."
    if recipe in ("offline_rl", "rejection_sft"):
        command = "cobalt stored_groups ... -o data/train.parquet"
    raise InputError(
        "there is no data/train.parquet here, the default of --train_file: make it "
        f"({command}; docs/data.md), or name another file"
    )


def _listed(files: Any) -> list[Any]:
    many = isinstance(files, Sequence) and not isinstance(files, str)
    return list(files) if many else [] if files is None else [files]


def composed(
    target: Path,
    files: tuple[Files, Files, Path | str | None],
    model: Path | str,
    names: tuple[str, str, str],
    given: dict[str, Any],
    seed: int,
    resume: str,
    overrides: Sequence[str],
) -> Any:
    """The composed configuration; what is None in ``given`` stays as the files say. Prompts are loaded once
    here, so that a file that cannot be used is found before any process starts.
    """
    checkpoints, resumed = target / "checkpoints", {"trainer.resume_mode": "auto"}
    if resume == "never":
        if outcome.checkpoint_step(checkpoints):
            raise InputError(f"--resume never: {checkpoints} has a checkpoint; choose another --output")
    elif resume != "auto":
        if outcome.step_of(Path(resume)) is None:
            raise InputError(f"--resume {resume}: not auto, never or a folder global_step_N with 'actor'")
        resumed = {
            "trainer.resume_mode": "resume_path",
            "trainer.resume_from_path": str(Path(resume).resolve()),
        }
    train_file, val_file, ptb_file = map(_resolved, files)
    values: dict[str, Any] = {
        "data.train_files": train_file,
        "data.val_files": val_file,
        "data.seed": seed,
        "actor_rollout_ref.rollout.seed": seed,
        "actor_rollout_ref.actor.data_loader_seed": seed,
        "actor_rollout_ref.model.path": _model_path(model, local=names[1] == "cpu"),
        "trainer.default_local_dir": str(checkpoints),
        "trainer.total_training_steps": given.pop("trainer.total_training_steps"),
        "cobalt.config_dir": str(CONFIG_DIR),
        **resumed,
        **{key: value for key, value in given.items() if value is not None},
    }
    if ptb_file is not None:
        values["cobalt.ptb.file"] = ptb_file
    config = compose(*names, values, overrides)
    dialogue = config.cobalt.dialogue
    dialogue.prompts = near(str(dialogue.prompts), Path.cwd())  # workers run in folders of their own
    load(dialogue.prompts)
    return config


def check_inputs(config: Any) -> None:
    """What can be checked without a tokenizer, before any process starts. Raises InputError."""
    cobalt, data = config.cobalt, config.data
    mixes = bool(cobalt.ptb.mix)
    if mixes != (cobalt.ptb.file is not None):
        raise InputError(
            f"recipe {cobalt.recipe}: --ptb_file (contexts from perturbed tests) "
            + ("is required" if mixes else "belongs to recipes like cobalt_ptb (cobalt.ptb.mix)")
        )
    scoring.reward_profile(cobalt.reward_profile)
    if cobalt.method == "offline":
        if len(_listed(data.train_files)) > 1:
            raise InputError(f"recipe {cobalt.recipe} takes one --train_file")
        from cobalt.training.stored import check_groups

        check_groups(Path(data.train_files), config)
        return
    if data.val_files is None:
        raise InputError(
            f"--val_file is missing, which recipe {cobalt.recipe} needs "
            "(default: test.parquet beside --train_file)"
        )
    for path, what, validation in (
        (data.train_files, "training data", False),
        (data.val_files, "validation data", True),
        (cobalt.ptb.file, "perturbed contexts", False),
    ):
        if path is not None:
            dialogues = int(cobalt.dialogue.turns) > 1
            check_files(path, what=what, validation=validation, dialogues=dialogues)


def _resolved(files: Files) -> Any:
    found = [str(Path(file).resolve()) for file in _listed(files)]
    return found if len(found) > 1 else next(iter(found), None)


def _model_path(model: Path | str, *, local: bool) -> str:
    folder = Path(model)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"--model {model}: no config.json there, so it is no Hugging Face model folder")
        return str(folder.resolve())
    if local or folder.is_absolute() or str(model).startswith("."):
        raise InputError(f"--model {model}: no such folder")
    return str(model)
