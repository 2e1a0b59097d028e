"""verl's configuration for one training: its defaults, our override files, and what the caller asked for."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cobalt
from cobalt.errors import InputError
from cobalt.training import plugins
from cobalt.training.private import check_version

_INSTALLED = Path(__file__).resolve().with_name("verl_config")  # where setup.py puts it in a wheel
CONFIG_DIR = _INSTALLED if _INSTALLED.is_dir() else Path(cobalt.__file__).resolve().parents[1] / "verl/config"
ALIASES = {"multi_turn": "cobalt", "single_turn": "single_turn_grpo"}  # the published scripts' words


def choices(group: str) -> tuple[str, ...]:
    """Names of the files in a folder of ``verl/config``: ``recipe``, ``profile`` or ``scale``."""
    return tuple(sorted(path.stem for path in (CONFIG_DIR / group).glob("*.yaml")))


# Accepted and silently ignored by verl 0.9.1: a run that sets them would train on another reward.
_hydra = threading.Lock()  # Hydra keeps the folder it composes from in a global
IGNORED_SECTIONS = ("reward_model", "custom_reward_function", "sandbox_fusion")


def verl_folder() -> Path:
    """Folder of the installed library, found without importing it.

    Raises InputError if it is missing, of another version, or hidden by a folder of the same name.
    """
    check_version()
    spec = importlib.util.find_spec("verl")
    origin = Path(spec.origin).resolve() if spec is not None and spec.origin else None
    if origin is None or not (origin.parent / "trainer" / "config" / "ppo_trainer.yaml").is_file():
        raise InputError(
            f"'import verl' finds {origin or 'a folder without __init__.py'} and not the library (verl "
            f"{version('verl')} is installed): a folder named verl with an __init__.py is in the way"
        )
    return origin.parent


def compose(
    recipe: str, profile: str, scale: str, values: Mapping[str, Any], overrides: Sequence[str] = ()
) -> Any:
    """The composed configuration (an OmegaConf tree).

    Order, later wins: verl's defaults, ``verl/config/published.yaml``, the recipe's file, the profile's, the
    scale's, the file for this recipe at this scale if there is one, ``values`` (dotted keys that exist),
    ``overrides`` (Hydra's syntax, as on verl's command line). ``recipe`` may be the user's own YAML file.
    Raises InputError for an unknown name, an override that Hydra refuses, a setting in an own recipe that
    does not exist, or a key that verl ignores.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from omegaconf import OmegaConf

    if not CONFIG_DIR.is_dir():
        raise InputError(f"{CONFIG_DIR} is missing: this installation is not whole, install Cobalt again")
    recipe = ALIASES.get(recipe, recipe)
    own = plugins.read_recipe(recipe, choices("recipe")) if plugins.is_own(recipe) else None
    for kind, name in (("recipe", recipe), ("profile", profile), ("scale", scale)):
        if name not in choices(kind) and not (kind == "recipe" and own):
            raise InputError(f"{kind} {name!r} is unknown; there are: {', '.join(choices(kind))}")
    try:
        with plugins.search_folder(own) as folders:
            config = _composed(own.name if own else recipe, profile, scale, folders, overrides)
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise InputError(f"configuration: {' '.join(str(error).split())}") from error
    overridden = {override.key_or_group for override in parsed}
    if own:
        plain = _composed("cobalt", profile, scale)
        plugins.refuse_unknown_keys(own, OmegaConf.to_container(plain, resolve=False))
        config.cobalt.recipe, config.cobalt.recipe_file = own.name, str(own.path)
    for key, value in values.items():
        if key not in overridden:
            OmegaConf.update(config, key, value)
    _refuse_ignored(config)
    return config


def _composed(
    recipe: str, profile: str, scale: str, folders: Sequence[str] = (), overrides: Sequence[str] = ()
) -> Any:
    from hydra import compose, initialize_config_dir

    places = ",".join(f"file://{folder}" for folder in (verl_folder() / "trainer" / "config", *folders))
    chosen = [f"hydra.searchpath=[{places}]", f"recipe={recipe}", f"profile={profile}", f"scale={scale}"]
    with _hydra, initialize_config_dir(str(CONFIG_DIR), version_base=None):
        return compose("train", [*chosen, *overrides])


def _refuse_ignored(config: Any) -> None:
    from omegaconf import OmegaConf

    def set_keys(tree: Any, path: str) -> list[str]:
        if isinstance(tree, dict):
            return [name for key, value in tree.items() for name in set_keys(value, f"{path}.{key}")]
        return [] if tree is None else [path]

    for name in ("lora_rank", "lora_alpha"):
        if name in config.cobalt.offline:
            raise InputError(f"cobalt.offline.{name} is not read: set actor_rollout_ref.model.{name}")
    for name, value in (
        ("algorithm.filter_groups.enable", config.algorithm.filter_groups.enable),
        ("trainer.v1.sampler.sync_refill_failed_groups", config.trainer.v1.sampler.sync_refill_failed_groups),
    ):
        if value:
            raise InputError(
                f"{name}=true is not read: only verl's own replay buffer filters and refills groups, and "
                "Cobalt's stands in its place (groups of equal rewards have advantage 0, a failed one stops "
                "the run)"
            )
    for section in IGNORED_SECTIONS:
        names = set_keys(OmegaConf.to_container(config[section], resolve=True), section)
        if names:
            raise InputError(
                f"{', '.join(names)}: verl 0.9.1 accepts this old key and ignores it; rewards are set by "
                "reward.reward_manager and the section cobalt"
            )
