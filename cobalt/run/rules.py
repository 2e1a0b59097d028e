"""Rules of a configuration that concern more than one field, and the files that it names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from cobalt.errors import InputError
from cobalt.hub import is_hub_name
from cobalt.training.config import choices, is_own

if TYPE_CHECKING:
    from cobalt.run.config import Config

STORED = ("offline_rl", "rejection_sft")  # recipes that train on stored groups
DIALOGUES = ("mt_grpo", "verpo")  # recipes that sample whole dialogues
ON_CONTEXTS = ("cobalt", "cobalt_ptb")
GROUP_SIZE = 4  # completions of a stored group
_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*")
_RESERVED = ("reference", "perturbed")


def on_contexts(recipe: str) -> bool:
    """Whether a recipe trains on contexts; recipes of one's own, given as files, do."""
    return recipe in ON_CONTEXTS or is_own(recipe)


def broken(config: Config) -> str | None:
    """The first rule that a configuration breaks, None for a sound one."""
    return next(_broken(config), None)


def _broken(config: Config) -> Iterator[str]:
    yield from _tasks(config)
    yield from _model(config)
    yield from _training(config)
    yield from _sets(config)


def _tasks(config: Config) -> Iterator[str]:
    tasks = config.tasks
    files = {name: getattr(tasks, f"{name}_file") for name in ("train", "dev", "heldout")}
    if tasks.family == "taco" and tasks.source is None:
        yield "'tasks.source' is missing: family taco reads a file or hub name (likaixin/TACO-verified)"
    if tasks.family == "stored" and tasks.source is None:
        yield "'tasks.source' is missing: family stored reads a folder of CodeNet's layout, or stored groups"
    if tasks.submissions is not None and tasks.family != "tiny":
        yield f"'tasks.submissions' are made up for family tiny, not for {tasks.family}"
    if tasks.has_stored and config.train.recipe not in STORED:
        recipes = " or ".join(STORED)
        yield f"stored programs ('tasks.family', 'tasks.submissions') need 'train.recipe' {recipes}"
    if tasks.family == "stored" and config.controls.single_turn_training:
        yield "'controls.single_turn_training' needs tasks to train on, which family stored has not"
    if tasks.family == "taco" and tasks.heldout is not None:
        yield "'tasks.heldout': family taco has no held-out split; name its data in 'evaluate.sets'"
    if tasks.family not in ("taco", "stored") and tasks.source is not None:
        yield f"'tasks.source' belongs to family taco or stored, not to {tasks.family}"
    if tasks.family == "files":
        for name in ("train", "dev"):
            if files[name] is None:
                yield f"'tasks.{name}_file' is missing, which family files needs"
        if tasks.heldout is not None and files["heldout"] is None:
            yield "'tasks.heldout' without 'tasks.heldout_file'"
    else:
        for name, file in files.items():
            if file is not None and (tasks.family != "stored" or name == "train"):
                yield f"'tasks.{name}_file' belongs to family files, not to {tasks.family}"


def _model(config: Config) -> Iterator[str]:
    model, serving = config.model, config.execution.serving
    remote = model.engine in ("openai", "litellm")
    if model.engine == "openai" and not model.base_url:
        yield "'model.base_url' is missing, which engine openai needs"
    if model.engine == "transformers" and model.base_url:
        yield "'model.base_url' does not go with engine transformers, which runs in this process"
    if remote and model.trained_engine is None:
        yield (
            f"'model.trained_engine' is missing: engine {model.engine} cannot run the trained models; choose "
            "transformers or vllm"
        )
    if not remote and model.served_name is not None and model.base_url is None:
        yield "'model.served_name' is the model's name at 'model.base_url', which is missing"
    if model.engine == "vllm" and model.base_url and model.trained_engine is None:
        yield (
            "'model.trained_engine' is missing: the server at 'model.base_url' does not serve the trained "
            "models; choose transformers or vllm"
        )
    starts = "vllm" in (model.trained_engine or model.engine, model.engine if not model.base_url else None)
    if starts and config.train.profile == "cpu" and serving.command is None:
        yield (
            "engine vllm reserves GPUs, but 'train.profile' is cpu: choose engine transformers, or give "
            "'execution.serving.command'"
        )
    if starts and serving.command is not None:
        try:
            words = " ".join(serving.command).format(
                model="m", port=1, replicas=1, tensor_parallel=1, max_context=1
            )
        except (KeyError, IndexError, ValueError) as error:
            yield f"'execution.serving.command': cannot fill in {error}"
        else:
            if not words.strip() or "{port}" not in " ".join(serving.command):
                yield "'execution.serving.command' must name {port}, where it is asked"


def _training(config: Config) -> Iterator[str]:
    train, collect = config.train, config.collect
    known = choices("recipe")
    if train.recipe not in known and not is_own(train.recipe):
        yield f"'train.recipe' must be one of {', '.join(known)}, got '{train.recipe}'"
    if train.contexts % train.mini_batches:
        yield (
            f"'train.contexts' ({train.contexts}) must be a multiple of "
            f"'train.mini_batches' ({train.mini_batches})"
        )
    if train.steps is not None and train.epochs is not None:
        yield "give either 'train.steps' or 'train.epochs' (the other null)"
    if train.perturbed_share is not None and train.recipe != "cobalt_ptb":
        yield f"'train.perturbed_share' belongs to recipe cobalt_ptb, not to {train.recipe}"
    if train.recipe in STORED and not config.tasks.has_stored and collect.samples < GROUP_SIZE:
        yield (
            f"recipe {train.recipe} needs 'collect.samples' of at least {GROUP_SIZE}, the size of a stored "
            f"group, got {collect.samples}"
        )
    if train.recipe in STORED and train.reward_profile == "":
        yield "'train.reward_profile' must not be empty"
    if train.profile == "cpu" and train.gpus is not None:
        yield "'train.gpus' does not go with 'train.profile' cpu"
    if train.profile == "cpu" and train.lora_rank and train.recipe not in STORED:
        yield "'train.lora_rank' needs 'train.profile' gpu: the CPU engine trains all weights"
    if config.controls.single_turn_training and train.recipe == "single_turn_grpo":
        yield (
            "'controls.single_turn_training' is what recipe single_turn_grpo does anyway: switch the control "
            "off"
        )
    if not config.contexts.partial and config.contexts.selection != "max_variance":
        yield "'contexts.selection' has no effect when 'contexts.partial' is false"


def _sets(config: Config) -> Iterator[str]:
    sets, splits = config.evaluate.sets, config.tasks.splits
    if not sets:
        yield "'evaluate.sets' must name at least one set of tasks"
    seen = set()
    for number, each in enumerate(sets):
        at = f"'evaluate.sets.{number}"
        if not _NAME.fullmatch(each.name) or each.name in _RESERVED:
            yield f"{at}.name' must be letters, digits, '.', '-', '_' and no reserved word; got '{each.name}'"
        if each.name in seen:
            yield f"{at}.name': two sets are named '{each.name}'"
        seen.add(each.name)
        if each.source in ("dev", "heldout") and each.source not in splits:
            yield f"{at}.source': there is no split {each.source} (tasks: {', '.join(splits) or 'none'})"
        if each.kind == "livecodebench" and each.source in ("dev", "heldout"):
            yield f"{at}.kind' livecodebench needs a release file or hub name as source"
    perturb = config.perturb
    if perturb is not None and perturb.source in ("dev", "heldout") and perturb.source not in splits:
        yield f"'perturb.source': there is no split {perturb.source} (tasks: {', '.join(splits) or 'none'})"


def check_files(config: Config, path: Path) -> None:
    """Raises InputError for a model or a file of tasks that is named in the file `path` but not there."""
    model_at(config.model.path, path)
    if config.train.profile == "cpu" and is_name(config.model.path, path):
        raise InputError(
            f"{path}: 'model.path' is {config.model.path}, a name on the hub; 'train.profile' cpu needs a "
            "folder"
        )
    recipe = config.train.recipe
    if is_own(recipe) and not (path.parent / recipe).is_file():
        raise InputError(f"{path}: 'train.recipe' is {path.parent / recipe}, which does not exist")
    tasks = config.tasks
    named = {f"tasks.{name}": getattr(tasks, name) for name in
             ("source", "train_file", "dev_file", "heldout_file")}  # fmt: skip
    if tasks.family == "stored":
        del named["tasks.source"]  # check_stored
    sources = {f"evaluate.sets.{n}.source": each.source for n, each in enumerate(config.evaluate.sets)}
    if config.perturb is not None:
        sources["perturb.source"] = config.perturb.source
    named |= {where: name for where, name in sources.items() if name not in ("dev", "heldout")}
    for where, name in named.items():
        if name is not None:
            try:
                data_at(name, path)
            except InputError as error:
                raise InputError(f"{path}: '{where}' {error}") from None


def check_stored(config: Config, path: Path) -> None:
    """Raises InputError for stored programs that are not there, or nothing a run can train on.

    Apart from the other files: a plan needs no data.
    """
    tasks = config.tasks
    if tasks.family != "stored":
        return
    assert tasks.source is not None
    source = path.parent / tasks.source
    if not source.exists():
        raise InputError(
            f"{path}: 'tasks.source' is {source}, which does not exist: unpack Project CodeNet "
            "there (docs/data.md), or name a folder of its layout or a file of stored groups "
            "(--set tasks.source=...)"
        )
    if source.is_dir():
        from cobalt.tasks.codenet_tree import problem_ids

        problem_ids(source)
    elif source.suffix not in (".parquet", ".jsonl"):
        raise InputError(f"{path}: 'tasks.source' is {source}: a file of stored groups is .parquet or .jsonl")
    else:
        from cobalt.rows import open_rows
        from cobalt.training.offline_data import COLUMNS

        first = next((row for _, row in open_rows(str(source))), {})
        missing = [name for name in COLUMNS if name not in first]
        if missing:
            raise InputError(
                f"{path}: 'tasks.source' is {source}: no stored groups (no {', '.join(missing)})"
            )


def data_at(name: str, path: Path) -> str:
    """A file or folder of tasks as a path that can be opened from anywhere; a hub name as it is.

    A relative path is meant from the folder of the configuration file `path`. Raises InputError (without the
    place) if there is neither.
    """
    local = path.parent / name
    if local.exists():
        return str(local.resolve())
    head, colon, split = name.rpartition(":")
    if colon and (path.parent / head).exists():
        return f"{(path.parent / head).resolve()}:{split}"
    if is_hub_name(name.partition(":")[0]):
        return name
    raise InputError(f"is {local}, which does not exist")


def local_path(name: str) -> Path | None:
    """The file or folder of a source as `data_at` gives it; None for a name on the hub."""
    for each in (name, name.rpartition(":")[0]):
        if each and os.path.exists(each):
            return Path(each)
    return None


def is_name(model: str, path: Path) -> bool:
    """Whether a model is a name on the hub, not a folder."""
    return is_hub_name(model) and not (path.parent / model).is_dir()


def model_at(model: str, path: Path) -> Path | str:
    """The reference model: an absolute folder, or a name on the hub. Raises InputError if it is no model."""
    if is_name(model, path):
        return model
    folder = (path.parent / model).resolve()
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{path}: 'model.path' is {folder}, which holds no model (no config.json); "
            "scripts/train_tiny_reference.sh makes the tiny reference"
        )
    return folder
