"""The functions of a recipe: found, given their constants, checked and recorded before anything starts."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cobalt.contexts import rule
from cobalt.errors import InputError, did_you_mean
from cobalt.own import Own, absolute, as_file, constants_of, is_spec, load
from cobalt.rollouts import feedback
from cobalt.training import reward
from cobalt.training.own_recipe import module_folder, refuse_other_types

# What the function of a key of section cobalt may take, by name.
OFFERED = {
    "reward": reward.OFFERED,
    "feedback": feedback.OFFERED,
    "contexts": rule.OFFERED,
    "advantage": ("group",),
    "policy_loss": (
        *("log_prob", "old_log_prob", "advantages", "mask", "turns", "group"),
        *("aggregate", "config", "entropy", "weights"),
    ),
}
STORED = ("stored", "revisions")  # groups of programs, of method offline
TRAINS_ON = ("contexts", "statements", *STORED)


def locate(config: Any, overridden: set[str]) -> None:
    """Have the specs of a composed configuration name files by absolute paths: they are meant from the
    recipe's folder, and from the working directory where they are ``overridden`` (dotted keys).

    Raises InputError for what is no spec.
    """
    for key in (*OFFERED, "environment"):
        spec, name = config.cobalt[key], f"cobalt.{key}"
        if spec is None:
            continue
        if not isinstance(spec, str) or not is_spec(spec):
            raise InputError(f"{name}={spec}: must be FILE.py:NAME or MODULE:NAME")
        folder = None if name in overridden else module_folder(config)
        config.cobalt[key] = absolute(spec, folder or Path.cwd())


def functions(settings: Mapping[str, Any]) -> dict[str, Own]:
    """The functions that the section ``cobalt``, as plain mappings, names, and the built-in reward; by key.

    Raises InputError for one that is not there or cannot be called, and for constants that none of them has
    or of another type than their defaults.
    """
    if settings["method"] == "offline":
        named = {}  # verdicts are stored, and weighed by cobalt.offline
    else:
        named = {"reward": reward.BUILT_IN} | {
            key: settings[key] for key in OFFERED if settings[key] is not None
        }
    given = settings["constants"] or {}
    found = {key: load(spec, f"cobalt.{key}", OFFERED[key], constants=given) for key, spec in named.items()}
    known = constants_of(list(found.values()))
    for name in given:
        if name not in known:
            advice = did_you_mean(name, known, f"there are: {', '.join(known) or 'none'}")
            raise InputError(f"cobalt.constants.{name}: no function of the recipe has it; {advice}")
    refuse_other_types(
        ((f"cobalt.constants.{name}", value) for name, value in given.items()),
        {"cobalt": {"constants": known}},
    )
    return found


def with_files(config: Any) -> Any:
    """A copy of a composed configuration in which modules beside the recipe are named as files, for a process
    that has not the recipe's folder in its path.
    """
    made = copy.deepcopy(config)
    for key in (*OFFERED, "environment"):
        if made.cobalt[key] is not None:
            made.cobalt[key] = as_file(made.cobalt[key], module_folder(config))
    return made


def check(config: Any, near: Any = None) -> dict[str, Own]:
    """`functions` of a composed configuration, in a process that has not the recipe's folder in its path;
    leaves in ``cobalt.functions`` what they are: spec, place, hash of the source, constants. ``near``:
    `with_files` of it, where that is there already.
    """
    from omegaconf import OmegaConf, open_dict

    path = sys.path.copy()
    try:
        settings: Any = OmegaConf.to_container((near or with_files(config)).cobalt, resolve=True)
        found = functions(settings)
    finally:
        sys.path[:] = path  # without the folders of files that were looked into
    with open_dict(config):
        config.cobalt.functions = {
            key: {
                "function": config.cobalt[key] or own.spec,
                "where": own.where,
                "sha256": own.sha256,
                "constants": {**own.constants},
            }
            for key, own in found.items()
        }
    return found
