"""verl's configuration for one training: its defaults, our override files, and what the caller asked for."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cobalt
from cobalt.contexts.rule import open_rule
from cobalt.errors import InputError
from cobalt.evaluator.environment import open_environment
from cobalt.models import check_model, similar
from cobalt.prompts import load, near
from cobalt.rollouts.feedback import open_feedback
from cobalt.training import checkpoint, method, own_recipe, own_update, sampling, scoring, trackers
from cobalt.training.data import check_files
from cobalt.training.own_recipe import is_own as is_own
from cobalt.training.verl_compat import check_version

_INSTALLED = Path(__file__).resolve().with_name("verl_config")  # where setup.py puts it in a wheel
CONFIG_DIR = _INSTALLED if _INSTALLED.is_dir() else Path(cobalt.__file__).resolve().parents[1] / "verl/config"
ALIASES = {"multi_turn": "cobalt", "single_turn": "single_turn_grpo"}  # the published scripts' words
_hydra = threading.Lock()  # Hydra keeps the folder it composes from in a global
# Accepted and silently ignored by verl 0.9.1, or by our parts: a run that sets them would train otherwise.
_IGNORED_SECTIONS = ("reward_model", "custom_reward_function", "sandbox_fusion")
_IGNORED_SWITCHES = {
    "trainer.v1.sampler.sync_refill_failed_groups": "a failed group stops the run, and nothing vanishes",
    "cobalt.offline.lora_rank": "set actor_rollout_ref.model.lora_rank",
    "cobalt.offline.lora_alpha": "set actor_rollout_ref.model.lora_alpha",
    "reward.custom_reward_function.path": "cobalt.reward=FILE.py:NAME names a reward of your own "
    "(docs/howto/reward.md)",
}
Files = Path | str | Sequence[Path | str] | None


def choices(group: str) -> tuple[str, ...]:
    """Names of the files in a folder of ``verl/config``: ``recipe``, ``profile`` or ``scale``."""
    return tuple(sorted(path.stem for path in (CONFIG_DIR / group).glob("*.yaml")))


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
    Raises InputError for a name, override or setting that does not exist, or a key that would be ignored.
    """
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException
    from omegaconf import OmegaConf

    if not CONFIG_DIR.is_dir():
        raise InputError(f"{CONFIG_DIR} is missing: this installation is not whole, install Cobalt again")
    recipe = ALIASES.get(recipe, recipe)
    # a mapping without keys takes new ones where it is said that they are new
    overrides = [
        f"++{each}" if each.startswith(("cobalt.constants.", "cobalt.constants=")) else each
        for each in overrides
    ]
    own = own_recipe.read(recipe, choices("recipe")) if is_own(recipe) else None
    for kind, name in (("recipe", recipe), ("profile", profile), ("scale", scale)):
        if name not in choices(kind) and not (kind == "recipe" and own):
            raise InputError(f"{kind} {name!r} is unknown; there are: {', '.join(choices(kind))}")
    try:
        with own_recipe.search_folder(own, CONFIG_DIR / "fit") as folders:
            config = _composed(own.name if own else recipe, profile, scale, folders, overrides)
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise InputError(f"configuration: {' '.join(str(error).split())}") from error
    plain = _plain("cobalt" if own else recipe, profile, scale)
    own_recipe.refuse_other_types(((each.key_or_group, each.value()) for each in parsed), plain)
    if own:
        own_recipe.refuse_unknown_keys(own, plain)
        config.cobalt.recipe, config.cobalt.recipe_file = own.name, str(own.path)
    overridden = {override.key_or_group for override in parsed}
    method.locate(config, overridden)
    for key, value in values.items():
        if key not in overridden:
            OmegaConf.update(config, key, value)
    said = OmegaConf.create(dict(own.keys) if own else {})
    own_update.choose(config, lambda name: name in overridden or OmegaConf.select(said, name) is not None)
    sampling.settle(config, overridden)
    trackers.settle(config)
    _refuse(config)
    return config


@cache
def _plain(recipe: str, profile: str, scale: str) -> Any:
    """The tree of a built-in recipe without overrides, as plain mappings."""
    from omegaconf import OmegaConf

    return OmegaConf.to_container(_composed(recipe, profile, scale), resolve=False)


def _composed(
    recipe: str, profile: str, scale: str, folders: Sequence[str] = (), overrides: Sequence[str] = ()
) -> Any:
    from hydra import compose, initialize_config_dir

    places = ",".join(f"file://{folder}" for folder in (verl_folder() / "trainer" / "config", *folders))
    chosen = [f"hydra.searchpath=[{places}]", f"recipe={recipe}", f"profile={profile}", f"scale={scale}"]
    with _hydra, initialize_config_dir(str(CONFIG_DIR), version_base=None):
        return compose("train", [*chosen, *overrides])


def _refuse(config: Any) -> None:
    from omegaconf import OmegaConf

    for name, why in _IGNORED_SWITCHES.items():
        if OmegaConf.select(config, name):
            raise InputError(f"{name} is not read: {why}")
    sampling.check(config)
    if config.trainer.device == "cpu" and config.cobalt.evaluator == "serve":
        raise InputError(
            "--evaluator serve: the CPU profile trains in a Ray cluster of its own, which has no evaluator; "
            "give the URL of one that runs (--evaluator http://localhost:8000), or local"
        )
    stored, trains_on = config.cobalt.method == "offline", config.cobalt.trains_on
    if trains_on not in method.TRAINS_ON or stored != (trains_on in method.STORED):
        raise InputError(
            f"cobalt.trains_on={trains_on}: must be one of {', '.join(method.TRAINS_ON)}, and one of "
            f"{', '.join(method.STORED)} where cobalt.method is offline (it is {config.cobalt.method})"
        )
    for section in _IGNORED_SECTIONS:
        names = _set_keys(OmegaConf.to_container(config[section], resolve=True), section)
        if names:
            raise InputError(
                f"{', '.join(names)}: verl 0.9.1 accepts this old key and ignores it; rewards are set by "
                "reward.reward_manager and the section cobalt"
            )


def _set_keys(tree: Any, path: str) -> list[str]:
    if isinstance(tree, dict):
        return [name for key, value in tree.items() for name in _set_keys(value, f"{path}.{key}")]
    return [] if tree is None else [path]


def composed(
    target: Path,
    files: tuple[Files, Files, Path | str | None],
    model: Path | str | None,
    names: tuple[str, str, str],
    given: dict[str, Any],
    seed: int,
    resume: str,
    overrides: Sequence[str],
) -> Any:
    """The configuration of a training in folder ``target``.

    ``files``: of training, validation and perturbed contexts; ``names``: recipe, profile, scale; ``given``:
    further dotted keys, of which None stays as the files say.
    """
    checkpoints = target / "checkpoints"
    resumed = _resume(checkpoints, resume)
    train_file, val_file, ptb_file = (_resolved(each) for each in files)
    values: dict[str, Any] = {
        "data.train_files": train_file,
        "data.val_files": val_file,
        "data.seed": seed,
        "actor_rollout_ref.rollout.seed": seed,
        "actor_rollout_ref.actor.data_loader_seed": seed,
        "trainer.default_local_dir": str(checkpoints),
        "cobalt.config_dir": str(CONFIG_DIR),
        **resumed,
    }
    local = names[1] == "cpu"
    path = None if model is None else _model_path(str(model), local=local)
    given = {**given, "cobalt.ptb.file": ptb_file, "actor_rollout_ref.model.path": path}
    values |= {key: value for key, value in given.items() if value is not None}
    config = compose(*names, values, overrides)
    policy, dialogue = config.actor_rollout_ref, config.cobalt.dialogue
    if model is None:
        policy.model.path = _model_path(policy.model.path, local=local)
    dialogue.prompts = near(str(dialogue.prompts), Path.cwd())  # workers run in folders of their own
    load(dialogue.prompts)
    return config


def _resume(checkpoints: Path, resume: str) -> dict[str, str]:
    if resume == "never" and checkpoint.checkpoint_step(checkpoints):
        raise InputError(f"--resume never: {checkpoints} has a checkpoint; choose another --output")
    if resume in ("never", "auto"):
        return {"trainer.resume_mode": "auto"}
    if checkpoint.step_of(Path(resume)) is None:
        raise InputError(f"--resume {resume}: not auto, never or a folder global_step_N with 'actor'")
    return {"trainer.resume_mode": "resume_path", "trainer.resume_from_path": str(Path(resume).resolve())}


def check_inputs(config: Any) -> None:
    """What can be checked without a tokenizer, before any process starts. Raises InputError."""
    cobalt, data = config.cobalt, config.data
    trackers.check(config)
    mixes = bool(cobalt.ptb.mix)
    if mixes != (cobalt.ptb.file is not None):
        raise InputError(
            f"recipe {cobalt.recipe}: --ptb_file (contexts from perturbed tests) "
            + ("is required" if mixes else "belongs to recipes that mix them in (cobalt.ptb.mix)")
        )
    scoring.reward_profile(cobalt.reward_profile)
    here = method.with_files(config)
    functions = method.check(config, here)
    own_update.check_advantage(here, functions.get("advantage"))
    check_own(here)
    if cobalt.method == "offline":
        from cobalt.training.offline_data import check_groups

        if cobalt.reward is not None:
            raise InputError(f"cobalt.reward: recipe {cobalt.recipe} takes cobalt.offline.reward")
        if len(listed(data.train_files)) > 1:
            raise InputError(f"recipe {cobalt.recipe} takes one --train_file")
        check_groups(Path(data.train_files), config)
        return
    if data.val_files is None:
        raise InputError(
            f"--val_file is missing, which recipe {cobalt.recipe} needs "
            "(default: test.parquet beside --train_file)"
        )
    dialogues = int(cobalt.dialogue.turns) > 1
    check_files(data.train_files, what="training data", validation=False, dialogues=dialogues)
    check_files(data.val_files, what="validation data", validation=True, dialogues=dialogues)
    if cobalt.ptb.file is not None:
        check_files(cobalt.ptb.file, what="perturbed contexts", validation=False, dialogues=dialogues)


def check_own(config: Any) -> list[str]:
    """Find and try what is the user's own for dialogues, contexts and verdicts; says which there are.

    Raises InputError.
    """
    cobalt = config.cobalt
    constants, prompts = cobalt.get("constants"), load(cobalt.dialogue.prompts)
    found = {
        "feedback": open_feedback(cobalt.feedback, "cobalt.feedback", prompts, constants),
        "contexts": open_rule(cobalt.contexts, "cobalt.contexts", constants),
        "environment": open_environment(cobalt.environment, "cobalt.environment"),
    }
    return [f"{name}: {own.spec} ({own.where}, sha256 {own.sha256})" for name, own in found.items() if own]


def listed(files: Any) -> list[Any]:
    """One file, several or None, as a list."""
    many = isinstance(files, Sequence) and not isinstance(files, str)
    return list(files) if many else [] if files is None else [files]


def one_or_many(files: list[str]) -> Any:
    """The reverse of `listed`."""
    return files if len(files) > 1 else next(iter(files), None)


def _resolved(files: Files) -> Any:
    return one_or_many([str(Path(file).resolve()) for file in listed(files)])


def _model_path(model: str, *, local: bool) -> str:
    folder = Path(model)
    if folder.is_dir():
        check_model(folder, flag="--model")
        return str(folder.resolve())
    if local or folder.is_absolute() or str(model).startswith("."):
        raise InputError(f"--model {model}: no such folder{similar(folder)}")
    return model
