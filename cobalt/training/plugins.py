"""Recipes and modules of the user's own: files outside this package that a training is composed of."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import re
import tempfile
from collections.abc import Iterator, Mapping
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

    @property
    def fits(self) -> list[Path]:
        """Files beside it that fit it to a scale: ``SCALE_NAME.yaml``, like those of ``verl/config/fit``."""
        return sorted(self.path.parent.glob(f"*_{self.name}{self.path.suffix}"))


def is_own(recipe: str) -> bool:
    """Whether a recipe is given as a file and not by the name of a built-in one."""
    return recipe.endswith(_SUFFIXES) or "/" in recipe


def read_recipe(recipe: str, built_in: tuple[str, ...]) -> OwnRecipe:
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
    """Folders in which Hydra finds the recipe, and what fits it to a scale, under the names it expects."""
    if own is None:
        yield []
        return
    with tempfile.TemporaryDirectory(prefix="cobalt-recipe-") as folder:
        for group, sources in (("recipe", [own.path]), ("fit", own.fits)):
            for source in sources:
                target = Path(folder, group, f"{source.stem}.yaml")
                target.parent.mkdir(exist_ok=True)
                text = source.read_text(encoding="utf-8")
                target.write_text(text if "@package" in text else _PACKAGE + text, encoding="utf-8")
        yield [folder]


def refuse_unknown_keys(own: OwnRecipe, known: Mapping[str, Any]) -> None:
    """Raises InputError, with a suggestion, for a setting that neither verl nor Cobalt has.

    ``known`` is a composed configuration; where it has an empty mapping or null, any key may stand.
    """
    for path in _leaves(own.keys):
        place: Any = known
        for depth, part in enumerate(path):
            if not isinstance(place, Mapping) or not place:
                break
            if part not in place:
                near = difflib.get_close_matches(part, map(str, place), n=1)
                advice = f"; did you mean '{near[0]}'?" if near else ""
                key = ".".join(path[: depth + 1])
                raise InputError(f"{own.path}: there is no setting '{key}'{advice}")
            place = place[part]


def _leaves(tree: Mapping[str, Any], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, (*path, str(key)))
        else:
            yield (*path, str(key))


def module_folder(config: Any) -> Path | None:
    """The folder of the recipe file, where its modules are looked for; None for a built-in recipe."""
    file = config.cobalt.recipe_file
    return None if file is None else Path(file).parent


def load_plugins(config: Any) -> None:
    """Import the modules of ``cobalt.plugins``, which register what they bring with verl.

    Raises InputError for a module that cannot be found; what it raises itself passes through.
    """
    for name in config.cobalt.plugins:
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise InputError(
                f"cobalt.plugins: there is no module {name} (looked beside the recipe and in PYTHONPATH)"
            ) from None
