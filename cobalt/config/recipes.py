"""What a recipe trains with, read from the files of ``verl/config`` (and one's own) without verl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from cobalt.errors import InputError
from cobalt.training.config import ALIASES, CONFIG_DIR, choices, is_own
from cobalt.training.own_recipe import read as own_recipe

CONTROL = ALIASES["single_turn"]  # the recipe of `controls.single_turn_training`
_POLICY = "actor_rollout_ref"


class Settings:
    """Settings by dotted name, as far as our own files and the overrides give them."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(values)

    def number(self, name: str, default: float) -> float:
        """A number; ``default`` where it is not set, null or no number (an interpolation)."""
        try:
            return float(self.values.get(name, default))
        except (TypeError, ValueError):
            return default

    def flag(self, name: str, default: bool = False) -> bool:
        """True or false."""
        return str(self.values.get(name, default)).lower() == "true"

    def text(self, name: str, default: str = "") -> str:
        """A word."""
        return str(self.values.get(name, default))


def read(recipe: str, profile: str, scale: str, overrides: Sequence[str] = ()) -> Settings:
    """The files that `cobalt train` composes (later ones win), and the overrides.

    ``recipe`` is a name, or the path of a file of one's own. Raises InputError for what has no file, or one
    that cannot be read.
    """
    values = _file(CONFIG_DIR / "published.yaml")
    own = Path(recipe) if is_own(recipe) else CONFIG_DIR / "recipe" / f"{recipe}.yaml"
    fits = own.parent if is_own(recipe) else CONFIG_DIR / "fit"
    for path in (own, CONFIG_DIR / "profile" / f"{profile}.yaml", CONFIG_DIR / "scale" / f"{scale}.yaml"):
        values |= _file(path)
    fit = fits / f"{scale}_{own.stem}{own.suffix}"
    if fit.is_file():
        values |= _file(fit)
    elif is_own(recipe):
        values |= _flat(own_recipe(recipe, choices("recipe")).fits(CONFIG_DIR / "fit").get(scale, {}))
    for given in overrides:
        name, _, value = given.lstrip("+").partition("=")
        values[name] = value
    return Settings(values)


def sizes(found: Settings) -> dict[str, Any]:
    """The keys of section `train` that a recipe decides, as it says."""

    def whole(name: str, default: float = 0) -> int:
        return int(found.number(name, default))

    contexts = whole("data.train_batch_size", 1)
    return {
        "trains_on": found.text("cobalt.trains_on", "contexts"),
        "perturbed": found.flag("cobalt.ptb.mix"),
        "reward_profile": found.text("cobalt.reward_profile", "published"),
        "contexts": contexts,
        "completions": whole(f"{_POLICY}.rollout.n", 2),
        "mini_batches": max(1, contexts // (whole(f"{_POLICY}.actor.ppo_mini_batch_size") or contexts)),
        "learning_rate": found.number(f"{_POLICY}.actor.optim.lr", 0.0),
        "max_prompt_tokens": whole("data.max_prompt_length", 1),
        "max_response_tokens": whole("data.max_response_length", 1),
        "lora_rank": whole(f"{_POLICY}.model.lora_rank"),
        "lora_alpha": whole(f"{_POLICY}.model.lora_alpha", 16),
    }


def that_train_on(rows: str) -> list[str]:
    """Names of the built-in recipes that train on ``contexts``, ``statements`` or ``stored`` groups."""
    found = {name: read(name, "cpu", "tiny") for name in choices("recipe")}
    return [name for name, settings in found.items() if settings.text("cobalt.trains_on") == rows]


def program_tokens(found: Settings) -> int:
    """Tokens of one program's completion at most: a turn's where whole dialogues are sampled."""
    return int(found.number("cobalt.dialogue.max_turn_tokens", found.number("data.max_response_length", 1)))


def epochs(found: Settings) -> int:
    """Passes over the data where a configuration says neither steps nor epochs."""
    return int(found.number("trainer.total_epochs", 1))


def _file(path: Path) -> dict[str, Any]:
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(tree, dict):
        raise InputError(f"{path}: must hold settings (key: value), and holds none")
    values: dict[str, Any] = {}
    for base in tree.pop("defaults", []):
        if isinstance(base, str) and base != "_self_":
            beside = path.with_name(f"{base}.yaml")
            values |= _file(beside if beside.is_file() else CONFIG_DIR / "recipe" / f"{base}.yaml")
    return values | _flat(tree)


def _flat(tree: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in tree.items():
        name = f"{before}{key}"
        values |= _flat(value, f"{name}.") if isinstance(value, Mapping) else {name: value}
    return values
