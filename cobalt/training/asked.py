"""What a caller asks of a training, as one composed and checked configuration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.prompts import load, near
from cobalt.training import outcome, scoring
from cobalt.training.data import check_file
from cobalt.training.settings import CONFIG_DIR, compose


def composed(
    target: Path,
    files: tuple[Path | str | None, Path | str | None, Path | str | None],
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
    train_file, val_file, ptb_file = (None if file is None else str(Path(file).resolve()) for file in files)
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
        from cobalt.training.stored import check_groups

        check_groups(Path(data.train_files), config)
        return
    if data.val_files is None:
        raise InputError(f"--val_file is missing, which recipe {cobalt.recipe} needs")
    for path, what, validation in (
        (data.train_files, "training data", False),
        (data.val_files, "validation data", True),
        (cobalt.ptb.file, "perturbed contexts", False),
    ):
        if path is not None:
            dialogues = int(cobalt.dialogue.turns) > 1
            check_file(Path(path), what=what, validation=validation, dialogues=dialogues)


def _model_path(model: Path | str, *, local: bool) -> str:
    folder = Path(model)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise InputError(f"--model {model}: no config.json there, so it is no Hugging Face model folder")
        return str(folder.resolve())
    if local or folder.is_absolute() or str(model).startswith("."):
        raise InputError(f"--model {model}: no such folder")
    return str(model)
