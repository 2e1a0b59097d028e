"""What a training will be composed of, read from the files of ``verl/config`` without verl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from cobalt.errors import InputError
from cobalt.training.config import CONFIG_DIR


class Settings:
    """Settings by dotted name, as far as our own files and the overrides give them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def number(self, name: str, default: float) -> float:
        """A number; ``default`` where it is not set, null or no number (an interpolation)."""
        try:
            return float(self._values.get(name, default))
        except (TypeError, ValueError):
            return default

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        return str(self._values.get(name, default)).lower() == "true"

    def text(self, name: str, default: str = "") -> str:
        """A word."""
        return str(self._values.get(name, default))


def read(recipe: str, profile: str, scale: str, overrides: Sequence[str] = ()) -> Settings:
    """The files that `cobalt train` composes (later ones win), and the overrides.

    Raises InputError for a recipe, profile or scale that has no file.
    """
    values = _file(CONFIG_DIR / "published.yaml")
    for group, name in (("recipe", recipe), ("profile", profile), ("scale", scale)):
        values |= _file(CONFIG_DIR / group / f"{name}.yaml")
    fit = CONFIG_DIR / "fit" / f"{scale}_{recipe}.yaml"
    if fit.is_file():
        values |= _file(fit)
    for given in overrides:
        name, _, value = given.lstrip("+").partition("=")
        values[name] = value
    return Settings(values)


def _file(path: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    values: dict[str, Any] = {}
    for base in tree.pop("defaults", []):
        if isinstance(base, str) and base != "_self_":
            values |= _file(path.with_name(f"{base}.yaml"))
    return values | _flat(tree)


def _flat(tree: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{before}{key}"
        values |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return values
