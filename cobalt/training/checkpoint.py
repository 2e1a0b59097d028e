"""Checkpoints of a training: which is the last, whether it can be gone on from, its export as a model."""

from __future__ import annotations

import json
import os
import shutil
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError
from cobalt.files import atomic_write

LATEST = "latest_checkpointed_iteration.txt"
RECIPE = "recipe.txt"  # beside the checkpoints: who made them
MADE_BY = "made_by.json"  # in a checkpoint's folder: what it takes to load it
STOP_REQUEST = "stop-request"  # in the output folder: end after the step under way
_OF_A_MODEL = ("model_type", "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads")
_PREFIX, _BASE = "base_model.model.", ".base_layer."  # in verl's names of a model with adapters


def checkpoint_step(checkpoints: Path) -> int:
    """Step of the latest complete checkpoint, 0 for none. Raises InputError if the record is damaged."""
    try:
        text = (checkpoints / LATEST).read_text()
    except FileNotFoundError:
        return 0
    try:
        step = int(text)
    except ValueError:
        raise InputError(f"{checkpoints / LATEST}: expected a step number, found {text[:40]!r}") from None
    if not (checkpoints / f"global_step_{step}" / "actor").is_dir():
        raise InputError(
            f"{checkpoints}: the checkpoint of step {step} is gone; delete {LATEST} to start again"
        )
    return step


def step_of(checkpoint: Path) -> int | None:
    """Step of a folder ``global_step_N`` that holds a checkpoint, else None."""
    head, _, number = checkpoint.name.rpartition("_")
    fits = head == "global_step" and number.isdecimal() and (checkpoint / "actor").is_dir()
    return int(number) if fits else None


def resumed(config: Any) -> tuple[int, Path]:
    """Steps in the checkpoint to go on from, 0 for none, and its folder.

    Raises InputError for a checkpoint of another model or recipe, or one that cannot be loaded here.
    """
    trainer = config.trainer
    folder = Path(trainer.default_local_dir)
    if is_own(config):
        done = checkpoint_step(folder)
        found = folder / f"global_step_{done}"
    else:
        found = Path(trainer.resume_from_path)
        done = step_of(found) or 0
    if done:
        check_same_model(found, Path(config.actor_rollout_ref.model.path))
        check_same_recipe(folder, config.cobalt.recipe)
        check_loads(found, config)
    return done, found


def is_own(config: Any) -> bool:
    """Whether a run goes on from its own checkpoint, if from any, and not from one that was named."""
    return bool(config.trainer.resume_mode != "resume_path")


def check_same_model(checkpoint: Path, model: Path) -> None:
    """Raises InputError if a checkpoint's exported configuration is not that of the model to train."""
    saved, given = checkpoint / "actor" / "huggingface" / "config.json", model / "config.json"
    if not saved.is_file() or not given.is_file():
        return  # a model named, not given as a folder: verl compares shapes when it loads
    one, other = json.loads(saved.read_text()), json.loads(given.read_text())
    for name in _OF_A_MODEL:
        if one.get(name) != other.get(name):
            raise InputError(
                f"{checkpoint} is a checkpoint of another model ({name} {one.get(name)}, but {model} has "
                f"{other.get(name)}): choose another --output, or the model that it was trained from"
            )


def check_same_recipe(checkpoints: Path, recipe: str) -> None:
    """Raises InputError if the checkpoints there were made by another recipe."""
    path = checkpoints / RECIPE
    found = path.read_text().strip() if path.exists() else recipe
    if found != recipe:
        raise InputError(f"{checkpoints} was made by recipe {found}, not {recipe}: choose another --output")


def made_by(config: Any) -> dict[str, Any]:
    """What a checkpoint of this training is made by and with."""
    actor, trainer = config.actor_rollout_ref.actor, config.trainer
    return {
        **{name: version(name) for name in ("torch", "transformers", "verl")},
        "strategy": "offline" if config.cobalt.method == "offline" else actor.strategy,
        "devices": int(trainer.n_gpus_per_node) * int(trainer.nnodes),
        "lora_rank": int(config.actor_rollout_ref.model.lora_rank),
        "data_sha256": config.cobalt.data_sha256,
    }


def write_made_by(checkpoint: Path, config: Any) -> None:
    """Record in a checkpoint's folder what made it."""
    atomic_write(checkpoint / MADE_BY, json.dumps(made_by(config)) + "\n")


def _made_by(checkpoint: Path) -> dict[str, Any]:
    path = checkpoint / MADE_BY
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}  # older than the record
    return found


def check_loads(checkpoint: Path, config: Any) -> None:
    """Raises InputError if a checkpoint cannot be loaded by this torch, on this many devices, this way.

    verl reads the shards of as many processes as wrote them. Those of FSDP2 are pickled and open in no older
    torch. Offline recipes use a format that does not depend on either.
    """
    there, here = _made_by(checkpoint), made_by(config)
    offline = here["strategy"] == "offline"
    differ = [
        f"{name} {there[name]} (here {here[name]})"
        for name in (("lora_rank",) if offline else ("devices", "lora_rank", "strategy"))
        if name in there and there[name] != here[name]
    ]
    if there and not offline and _release(there["torch"]) > _release(here["torch"]):
        differ.append(f"torch {there['torch']} (here the older {here['torch']})")
    if differ:
        merged = not (checkpoint / "actor" / "lora_train_meta.json").exists()
        raise InputError(
            f"{checkpoint} cannot be loaded: it was written with {', '.join(differ)}. Go on as it was "
            "written, or start from its weights with another --output"
            + (f": --model {checkpoint / 'actor' / 'huggingface'}" if merged else "")
        )


def _release(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


def check_same_data(checkpoint: Path, sha256: str, *, own: bool) -> list[str]:
    """A note if a checkpoint was trained on other rows. Raises InputError if it is this output's ``own``."""
    if _made_by(checkpoint).get("data_sha256") in (None, sha256):
        return []
    if own:
        raise InputError(
            f"{checkpoint} was trained on other rows than those given now: choose another --output (with "
            f"--resume {checkpoint} to go on from it there)"
        )
    return [f"the rows are not those that {checkpoint.name} was trained on"]


def is_fp32(config: Any) -> bool:
    """Whether verl's trainer keeps, and writes, weights in 32 bits (the offline one says what it writes)."""
    kinds = ("fp32", "float32")
    offline = config.cobalt.method == "offline"
    return not offline and config.actor_rollout_ref.actor.fsdp_config.model_dtype in kinds


def export_model(checkpoint: Path, target: Path, *, fp32: bool) -> Path:
    """Put the Hugging Face folder of a checkpoint at ``target``, replacing what is there.

    Weights are linked, not copied, where the file system allows; adapters are put into them. verl writes
    fp32 weights but names bfloat16 in the configuration; with ``fp32`` that is corrected. Raises InfraError
    if files are missing.
    """
    source = checkpoint / "actor" / "huggingface"
    names = {path.name for path in source.glob("*")}
    if "config.json" not in names or not any(name.endswith(".safetensors") for name in names):
        raise InfraError(f"{source}: no exported model (is hf_model among actor.checkpoint.save_contents?)")
    if not any(name.startswith("tokenizer") for name in names):
        raise InfraError(f"{source}: the exported model has no tokenizer")
    part = target.with_name(f".{target.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(source, part, copy_function=_link_or_copy)
    adapters = checkpoint / "actor" / "lora_train_meta.json"
    if adapters.exists():
        merge_adapters(part, adapters)
    if fp32:
        config = json.loads((part / "config.json").read_text())
        config.pop("torch_dtype", None)
        config["dtype"] = "float32"
        (part / "config.json").unlink()  # a link to the checkpoint's own
        atomic_write(part / "config.json", json.dumps(config, indent=2, sort_keys=True) + "\n")
    shutil.rmtree(target, ignore_errors=True)
    part.rename(target)
    return target


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:
        shutil.copy2(source, target)


def merge_adapters(folder: Path, meta: Path) -> bool:
    """Rewrite the weights of an exported model as W + alpha / r * B A under their usual names.

    verl saves the wrapped model's, which no loader of Hugging Face models knows. ``meta`` is verl's file with
    ``r`` and ``lora_alpha``. Returns whether there were adapters. Raises InfraError if some are incomplete.
    """
    from safetensors.torch import load_file, save_file

    files = sorted(folder.glob("*.safetensors"))
    tensors = {name: weight for path in files for name, weight in load_file(path).items()}
    if not any(name.startswith(_PREFIX) for name in tensors):
        return False
    try:
        facts = json.loads(meta.read_text())
        scale = facts["lora_alpha"] / facts["r"]
    except (OSError, ValueError, KeyError, ZeroDivisionError) as error:
        raise InfraError(f"{meta}: rank and alpha of the adapters cannot be read ({error})") from None
    whole = merged(tensors, scale, folder)
    for path in [*files, folder / "model.safetensors.index.json"]:
        path.unlink(missing_ok=True)  # links to the checkpoint's own files
    save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    return True


def merged(tensors: dict[str, Any], scale: float, folder: Path) -> dict[str, Any]:
    """Weights by their usual names, the adapters among ``tensors`` put in; ``folder`` is for messages."""
    import torch

    found: dict[str, Any] = {}
    for name, weight in tensors.items():
        if ".lora_A." in name or ".lora_B." in name:
            continue
        stem, base, kind = name.partition(_BASE)
        if base and kind == "weight":
            names = [f"{stem}.lora_{part}.default.weight" for part in ("A", "B")]
            if not all(each in tensors for each in names):
                raise InfraError(f"{folder}: {stem} has no pair of adapters")
            a, b = (tensors[each].to(torch.float32) for each in names)
            weight = (weight.to(torch.float32) + scale * (b @ a)).to(weight.dtype)
        found[name.removeprefix(_PREFIX).replace(_BASE, ".")] = weight.contiguous()
    return found
