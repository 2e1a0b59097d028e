"""Recipes and modules of the user's own: files outside this package that a training is composed of."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobalt.errors import InputError

_SUFFIXES = (".yaml", ".yml")
_PACKAGE = "# @package _global_\n"  # Hydra's word for "my keys are those of the whole configuration"


@dataclass(frozen=True)
class OwnRecipe:
    """A recipe file: ``name`` (the file's, without suffix), ``path``, and its settings as nested ``keys``."""

    name: str
    path: Path
    keys: Mapping[str, Any]


def is_own(recipe: str) -> bool:
    """Whether a recipe is given as a file and not by the name of a built-in one."""
    return recipe.endswith(_SUFFIXES) or "/" in recipe


def read(recipe: str, built_in: tuple[str, ...]) -> OwnRecipe:
    """Read a recipe file. Raises InputError if it is missing, no mapping, or named like a built-in one."""
    import yaml

    path = Path(recipe).resolve()
    if path.suffix not in _SUFFIXES or not path.is_file():
        raise InputError(f"--recipe {recipe}: no such file (a recipe of your own is a YAML file)")
    if not re.fullmatch(r"[A-Za-z]\w*", path.stem):
        raise InputError(f"--recipe {recipe}: name the file with letters, digits and underscores only")
    if path.stem in built_in:
        raise InputError(f"--recipe {recipe}: {path.stem} is a built-in recipe; name the file otherwise")
    try:
        keys = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InputError(f"--recipe {recipe}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(keys, dict):
        raise InputError(f"--recipe {recipe}: must hold settings (key: value), and holds none")
    return OwnRecipe(path.stem, path, {key: value for key, value in keys.items() if key != "defaults"})


@contextlib.contextmanager
def search_folder(own: OwnRecipe | None) -> Iterator[list[str]]:
    """Folders in which Hydra finds the recipe, and the files beside it that fit it to a scale
    (``SCALE_NAME.yaml``), under the names that it expects.
    """
    if own is None:
        yield []
        return
    fits = sorted(own.path.parent.glob(f"*_{own.name}{own.path.suffix}"))
    with tempfile.TemporaryDirectory(prefix="cobalt-recipe-") as folder:
        for group, source in (("recipe", own.path), *(("fit", path) for path in fits)):
            target = Path(folder, group, f"{source.stem}.yaml")
            target.parent.mkdir(exist_ok=True)
            text = source.read_text(encoding="utf-8")
            target.write_text(text if "@package" in text else _PACKAGE + text, encoding="utf-8")
        yield [folder]


def refuse_unknown_keys(own: OwnRecipe, known: Mapping[str, Any]) -> None:
    """Raises InputError, with a suggestion, for a setting that neither verl nor Cobalt has.

    ``known`` is a composed configuration; where it has an empty mapping or null, any key may stand.
    """

    def check(tree: Mapping[str, Any], place: Any, path: tuple[str, ...]) -> None:
        for key, value in tree.items():
            if not isinstance(place, Mapping) or not place:
                return
            if key not in place:
                near = difflib.get_close_matches(str(key), map(str, place), n=1)
                advice = f"; did you mean '{near[0]}'?" if near else ""
                raise InputError(f"{own.path}: there is no setting '{'.'.join((*path, str(key)))}'{advice}")
            name = ".".join((*path, str(key)))
            refuse_other_types([(name, value)], known, f"{own.path}: ")
            if isinstance(value, Mapping):
                check(value, place[key], (*path, str(key)))

    check(own.keys, known, ())


def refuse_other_types(settings: Iterable[tuple[str, Any]], known: Mapping[str, Any], of: str = "") -> None:
    """Raises InputError, beginning with ``of``, for a value of another type than the one it replaces.

    ``settings`` are dotted keys and their values, ``known`` a composed configuration. A null, an
    interpolation and what replaces one may be anything. verl writes 0 and 1 for numbers that need not be
    whole, and takes one text for a list of them.
    """
    for name, value in settings:
        before: Any = known
        for part in name.split("."):
            before = before.get(part) if isinstance(before, Mapping) else None
        if None in (before, value) or any("${" in str(each) for each in (before, value)):
            continue
        flag, scalar = isinstance(value, bool), isinstance(value, str | int | float)
        number = scalar and not flag and not isinstance(value, str)
        kinds: list[tuple[type, str, bool]] = [
            (bool, "true or false", flag),
            (int, "a whole number", number and (before in (0, 1) or value == int(value))),
            (float, "a number", number),
            (str, "text", scalar and not flag),
            (dict, "a mapping", isinstance(value, dict)),
            (
                list,
                "a list",
                isinstance(value, list | str) and (value[:0] == [] or not name.startswith("cobalt.")),
            ),
        ]
        kind, fits = next((said, fits) for of_type, said, fits in kinds if isinstance(before, of_type))
        if not fits:
            raise InputError(f"{of}{name}: must be {kind} (it is {before!r} otherwise), got {value!r}")


def module_folder(config: Any) -> Path | None:
    """The folder of the recipe file, where its modules are looked for; None for a built-in recipe."""
    file = config.cobalt.recipe_file
    return None if file is None else Path(file).parent


def load_plugins(config: Any) -> None:
    """Import the modules of ``cobalt.plugins``, which register what they bring with verl."""
    for name in config.cobalt.plugins:
        imported(name, "cobalt.plugins")


def imported(name: str, setting: str) -> Any:
    """A module by its name. Raises InputError if there is none; what it raises itself passes through."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        raise InputError(
            f"{setting}: there is no module {name} (looked beside the recipe and in PYTHONPATH)"
        ) from None


def own_reward(name: str) -> Callable[..., float]:
    """The function that ``cobalt.reward`` names, ``MODULE:FUNCTION``. Raises InputError if there is none."""
    module, _, function = name.partition(":")
    found = getattr(imported(module, "cobalt.reward"), function or "?", None)
    if not callable(found):
        raise InputError(f"cobalt.reward={name}: there is no such function (MODULE:FUNCTION)")
    reward: Callable[..., float] = found
    return reward
