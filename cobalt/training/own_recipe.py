"""Recipes and modules of the user's own: files outside this package that a training is composed of."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cobalt.errors import InputError, did_you_mean
from cobalt.own import imported

_SUFFIXES = (".yaml", ".yml")
_PACKAGE = "# @package _global_\n"  # Hydra's word for "my keys are those of the whole configuration"


@dataclass(frozen=True)
class OwnRecipe:
    """A recipe file: ``name`` (the file's, without suffix), ``path``, its settings as nested ``keys``, and
    the recipes that it starts from.
    """

    name: str
    path: Path
    keys: Mapping[str, Any]
    bases: tuple[str, ...] = ()

    def fits(self, folder: Path) -> dict[str, dict[str, Any]]:
        """By scale, what the files in ``folder`` set to fit its bases to it, but for what it sets itself."""
        import yaml

        return {
            path.stem.removesuffix(f"_{base}"): _besides(yaml.safe_load(path.read_text()), self.keys)
            for base in self.bases
            for path in folder.glob(f"*_{base}.yaml")
        }


def _besides(tree: Mapping[str, Any], own: Any) -> dict[str, Any]:
    """What ``own`` does not set. A mapping stands for its keys."""
    own = own if isinstance(own, Mapping) else {}
    return {
        key: _besides(value, own.get(key)) if isinstance(value, Mapping) else value
        for key, value in tree.items()
        if isinstance(value, Mapping) or key not in own
    }


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
    bases = tuple(base for base in keys.pop("defaults", None) or () if isinstance(base, str))
    return OwnRecipe(path.stem, path, keys, bases)


@contextlib.contextmanager
def search_folder(own: OwnRecipe | None, built_in: Path) -> Iterator[list[str]]:
    """Folders in which Hydra finds the recipe, and what fits it to a scale, under the names that it expects:
    files beside it (``SCALE_NAME.yaml``), else what fits its bases (files of the folder ``built_in``).
    """
    import yaml

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
        for scale, keys in own.fits(built_in).items():
            target = Path(folder, "fit", f"{scale}_{own.name}.yaml")
            target.parent.mkdir(exist_ok=True)
            if not target.exists():
                target.write_text(_PACKAGE + yaml.safe_dump(keys), encoding="utf-8")
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
                said = f"{own.path}: there is no setting '{'.'.join((*path, str(key)))}'"
                raise InputError("; ".join(filter(None, [said, did_you_mean(key, place)])))
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
        of_one = ((said, fits) for of_type, said, fits in kinds if isinstance(before, of_type))
        kind, fits = next(of_one, ("", True))
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
