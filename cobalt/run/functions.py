"""Functions and the class of the user's own that a configuration names, or its recipe where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from cobalt.config import recipes
from cobalt.config.config import Config
from cobalt.contexts.rule import open_rule
from cobalt.errors import InputError
from cobalt.evaluator.environment import Environment, open_environment
from cobalt.own import Own, absolute, as_file
from cobalt.prompts import Prompts
from cobalt.rollouts.feedback import open_feedback
from cobalt.training.config import is_own

_KEYS = {"feedback": "model.feedback", "contexts": "contexts.rule", "environment": "tasks.environment"}


@dataclass(frozen=True)
class Functions:
    """What is the user's own, found and tried."""

    feedback: Own | None
    rule: Own | None
    environment: Environment | None

    @property
    def overrides(self) -> list[str]:
        """What trainings are told, the control's too."""
        parts = {"feedback": self.feedback, "environment": self.environment}
        specs = {name: part.spec.replace("'", "\\'") for name, part in parts.items() if part}
        return [f"cobalt.{name}='{spec}'" for name, spec in specs.items()]

    @property
    def identity(self) -> dict[str, str]:
        """What decides the programs' messages and verdicts, for the settings of stages."""
        return {
            **(self.feedback.identity("feedback") if self.feedback else {}),
            **(self.environment.identity if self.environment else {}),
        }


def recipe_path(recipe: str, file: Path) -> str:
    """A recipe's name, or the path of its file, which the configuration ``file`` names from its folder."""
    return str((file.parent / recipe).resolve()) if is_own(recipe) else recipe


def functions(config: Config, file: Path, prompts: Prompts) -> Functions:
    """Find and try what ``file`` or its recipe names. Raises InputError that names the key, and the line."""
    train, found = config.train, dict[str, tuple[str, str]]()
    path = recipe_path(train.recipe, file)
    told = recipes.read(path, train.profile, train.scale, train.overrides).values
    given = {"feedback": config.model.feedback, "contexts": config.contexts.rule,
             "environment": config.tasks.environment}  # fmt: skip
    named = {
        name: as_file(absolute(spec, file.parent), file.parent)
        for name, spec in given.items()
        if spec is not None
    }
    overridden = {each.lstrip("+").partition("=")[0] for each in train.overrides}
    for name, key in _KEYS.items():
        spec, setting = told.get(f"cobalt.{name}"), f"cobalt.{name}"
        beside = is_own(train.recipe) and setting not in overridden
        if name in named:
            found[name] = named[name], f"{file}: '{key}'"
        elif spec not in (None, "null", ""):
            folder = Path(path).parent if beside else file.parent
            found[name] = as_file(absolute(str(spec), folder), folder), setting
    if "contexts" in found and config.contexts.beside_rule:
        raise InputError(
            f"{file}: 'contexts.{config.contexts.beside_rule}': the recipe brings a rule of its own "
            f"(cobalt.contexts={found['contexts'][0]}), which takes its place: leave it out"
        )
    start = "cobalt.constants."
    constants = {
        name.removeprefix(start): yaml.safe_load(value) if isinstance(value, str) else value
        for name, value in told.items()
        if name.startswith(start)
    }

    def of(name: str) -> tuple[Any, str]:
        return found.get(name, (None, ""))

    return Functions(
        open_feedback(*of("feedback"), prompts, constants),
        open_rule(*of("contexts"), constants, tried=True),
        open_environment(*of("environment")),
    )
