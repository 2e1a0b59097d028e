"""Reading a configuration and what it names: every mistake is one message with place and field."""

from __future__ import annotations

import dataclasses
import os
import re
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import TypeAdapter, ValidationError

from cobalt.config import recipes
from cobalt.config.config import Config
from cobalt.config.smoke import small
from cobalt.errors import InputError, did_you_mean
from cobalt.hub import is_hub_name
from cobalt.prompts import load as load_prompts
from cobalt.prompts import near
from cobalt.training.config import choices, is_own

_Place = tuple[str, ...]
_EXPONENT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")


def load(path: Path, settings: Sequence[str] = (), *, smoke: bool = False) -> Config:
    """Read and check a configuration file; `settings` are changes to it as `section.key=value`.

    `smoke` makes it small, see `cobalt.config.smoke`. Raises InputError naming file (or setting), line and
    field, also for files and models that are not there.
    """
    config = parse(path, settings)
    if smoke:
        config = small(config, path.parent)
    check_files(config, path)
    return config


def parse(path: Path, settings: Sequence[str] = ()) -> Config:
    """What `load` does, without a look at the files that the configuration names."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), Loader=yaml.SafeLoader)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise InputError(f"{where}: not valid YAML ({getattr(error, 'problem', None) or error})") from None
    if node is None:
        raise InputError(f"{path}: the file is empty")
    text = _Text(path)
    value = text.value(node, ())
    for setting in settings:
        text.change(value, setting)
    if isinstance(value, dict):
        _fill(value, text)
    try:
        return TypeAdapter(Config).validate_python(value)
    except ValidationError as error:
        raise _refusal(error.errors()[0], text) from None


class _Text:
    """Where in a file, or in which setting, every value stands."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.places: dict[_Place, str] = {}

    def error(self, at: _Place, message: str, *, named: bool = True) -> InputError:
        """An error at a place, or at the nearest above it that the file has."""
        place = next(at[:end] for end in range(len(at), -1, -1) if at[:end] in self.places)
        field = f"'{'.'.join(at)}' " if at and named else ""
        return InputError(f"{self.places[place]}: {field}{message}")

    def value(self, node: yaml.Node, at: _Place) -> Any:
        """The value of a node. YAML 1.1 reads 4e-4 as text; here it is the number that was meant."""
        self.places.setdefault(at, f"{self.path}:{node.start_mark.line + 1}")
        if isinstance(node, yaml.SequenceNode):
            return [self.value(each, (*at, str(place))) for place, each in enumerate(node.value)]
        if isinstance(node, yaml.MappingNode):
            values: dict[str, Any] = {}
            for key, below in node.value:
                inner = (*at, str(key.value))
                self.places[inner] = f"{self.path}:{key.start_mark.line + 1}"
                if inner[-1] in values:
                    raise self.error(inner, "is given twice")
                values[inner[-1]] = self.value(below, inner)
            return values
        if node.style is None and _EXPONENT.fullmatch(node.value):
            return float(node.value)
        return yaml.SafeLoader("").construct_object(node)

    def change(self, value: Any, setting: str) -> None:
        """Put the value of a setting into the tree; where mappings are missing, they are made."""
        key, equals, text = setting.partition("=")
        names = tuple(key.strip().split("."))
        try:
            node = yaml.compose(text, Loader=yaml.SafeLoader) if equals else None
        except yaml.YAMLError as error:
            raise InputError(
                f"--set {setting}: not valid YAML ({getattr(error, 'problem', error)})"
            ) from None
        if not equals or not all(names):
            raise InputError(f"--set {setting}: must be section.key=value")
        new = None if node is None else _Text(self.path).value(node, ())
        for end, name in enumerate(names, 1):
            last, at = end == len(names), names[:end]
            if isinstance(value, list):
                if not name.isdigit() or int(name) >= len(value):
                    dotted = ".".join(at)
                    raise InputError(f"--set {setting}: '{dotted}': the list has {len(value)} items, from 0")
                if last:
                    value[int(name)] = new
                value = value[int(name)]
            elif isinstance(value, dict):
                if last:
                    value[name] = new
                value = value.setdefault(name, {})
            else:
                raise InputError(f"--set {setting}: '{'.'.join(names[: end - 1])}' is a value, not a section")
            self.places.setdefault(at, f"--set {setting}")
        self.places = {at: where for at, where in self.places.items() if at[: len(names)] != names}
        self.places[names] = f"--set {setting}"


def _fill(value: dict[str, Any], text: _Text) -> None:
    """Put in what the recipe decides and the file leaves out. What is wrong in the file is found later."""
    train, sampling = value.setdefault("train", {}), value.setdefault("sampling", {})
    if not isinstance(train, dict) or not isinstance(train.get("recipe", ""), str):
        return
    recipe, overrides = train.get("recipe", "cobalt"), train.get("overrides")
    profile = "gpu" if train.get("profile") == "gpu" else "cpu"
    if not train.get("scale"):
        train["scale"] = "tiny" if profile == "cpu" else "published"
    if is_own(recipe):
        recipe = str(text.path.parent / recipe)
        if not Path(recipe).is_file():
            raise text.error(("train", "recipe"), f"is {recipe}, which does not exist")
    elif recipe not in choices("recipe"):
        known = ", ".join(choices("recipe"))
        raise text.error(("train", "recipe"), f"must be one of {known}, got '{recipe}'")
    scale = train["scale"] if train["scale"] in choices("scale") else "published"
    given = [str(each) for each in overrides] if isinstance(overrides, list) else []
    found = recipes.read(recipe, profile, scale, given)
    for name, size in recipes.sizes(found).items():
        train.setdefault(name, size)
    if train.get("steps") is None and train.get("epochs") is None:
        train["epochs"] = recipes.epochs(found)
    if isinstance(sampling, dict):
        sampling.setdefault("max_tokens", recipes.program_tokens(found))


def _refusal(error: Any, text: _Text) -> InputError:
    """The message for one of pydantic's errors."""
    at, kind, value = tuple(map(str, error["loc"])), error["type"], error["input"]
    if kind == "value_error":
        message = str(error["ctx"]["error"])
        named = re.search(r"'([\w.]+)'", message)
        return text.error(at or (tuple(named[1].split(".")) if named else ()), message, named=bool(at))
    if kind == "missing":
        return text.error(at, "is missing")
    if kind == "string_too_short":
        return text.error(at, "must not be empty")
    if kind == "unexpected_keyword_argument":
        known = _keys(at[:-1])
        advice = did_you_mean(at[-1], known, f"known keys: {', '.join(known)}")
        return text.error(at, f"is unknown; {advice}")
    if kind.startswith("dataclass"):
        return text.error(at, f"must be a mapping of {', '.join(_keys(at))}")
    said = f", got {value!r}" if not isinstance(value, list | dict) else ""
    return text.error(at, error["msg"].replace("Input should be", "must be") + said)


def _keys(at: _Place) -> list[str]:
    """The keys that a section may have."""
    kind: Any = Config
    for name in at:
        if not name.isdigit():
            kind = typing.get_type_hints(kind)[name]
        inner = [kind, *typing.get_args(kind)]
        kind = next((each for each in inner if dataclasses.is_dataclass(each)), kind)
    return [field.name for field in dataclasses.fields(kind)]


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
    return next(
        (Path(each) for each in (name, name.rpartition(":")[0]) if each and os.path.exists(each)), None
    )


def model_at(model: str, path: Path) -> Path | str:
    """The reference model: an absolute folder, or a name on the hub. Raises InputError if it is no model."""
    if is_hub_name(model) and not (path.parent / model).is_dir():
        return model
    folder = (path.parent / model).resolve()
    if not (folder / "config.json").is_file():
        raise InputError(
            f"{path}: 'model.path' is {folder}, which holds no model (no config.json); "
            "scripts/train_tiny_reference.sh makes the tiny reference"
        )
    return folder


def check_files(config: Config, path: Path) -> None:
    """Raises InputError for a model, prompts or a file of tasks that the file `path` names, and are not there
    (prompts: or cannot be used).
    """
    if isinstance(model_at(config.model.path, path), str) and config.train.profile == "cpu":
        raise InputError(
            f"{path}: 'model.path' is {config.model.path}, a name on the hub; "
            "'train.profile' cpu needs a folder"
        )
    try:
        load_prompts(near(config.model.prompts, path.parent))
    except InputError as error:
        raise InputError(f"{path}: 'model.prompts': {error}") from None
    tasks = config.tasks
    named = {f"tasks.{name}": getattr(tasks, name) for name in ("train_file", "dev_file", "heldout_file")}
    if tasks.family != "stored":  # those: check_stored
        named["tasks.source"] = tasks.source
    named |= {f"evaluate.sets.{n}.source": each.source for n, each in enumerate(config.evaluate.sets)}
    if config.perturb is not None:
        named["perturb.source"] = config.perturb.source
    for where, name in named.items():
        if name not in (None, "dev", "heldout"):
            try:
                data_at(name, path)
            except InputError as error:
                raise InputError(f"{path}: '{where}' {error}") from None


def check_stored(config: Config, path: Path) -> None:
    """Raises InputError for stored programs that are not there, or nothing a run can train on.

    Apart from the other files: a plan needs no data.
    """
    tasks = config.tasks
    if tasks.family != "stored" or tasks.source is None:
        return
    source = path.parent / tasks.source
    where = f"{path}: 'tasks.source' is {source}"
    if not source.exists():
        raise InputError(
            f"{where}, which does not exist: unpack Project CodeNet there (docs/data.md), or name a folder "
            "of its layout or a file of stored groups (--set tasks.source=...)"
        )
    if source.is_dir():
        from cobalt.tasks.codenet import problem_ids

        problem_ids(source)
    elif source.suffix != ".parquet":  # whose rows training checks
        raise InputError(f"{where}: a file of stored groups is .parquet")
