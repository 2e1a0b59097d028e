"""Which attention a training on GPUs uses, chosen from what is installed."""

from __future__ import annotations

import importlib
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import Any

from cobalt.errors import InputError

FLASH, PACKED = "flash_attention_2", "packed_sdpa"
MODULE = "cobalt.training.packed"  # registers PACKED with transformers
_PACKAGES = {  # attention -> (distribution, what it is imported as)
    FLASH: ("flash-attn", "flash_attn"),
    "flash_attention_3": ("flash-attn-3", "flash_attn_interface"),
    "flash_attention_4": ("flash-attn-4", "flash_attn"),
}


def missing(name: str) -> str | None:
    """Why the attention of that name cannot be used in this installation; None if it can."""
    if "/" in name:  # a kernel of the hub
        return None if find_spec("kernels") else "the package kernels is not installed"
    if name not in _PACKAGES:
        return None
    distribution, module = _PACKAGES[name]
    try:
        found = version(distribution)
        importlib.import_module(module)
    except PackageNotFoundError:
        return f"{distribution} is not installed"
    except ImportError as error:  # built for another torch
        return f"{distribution} {found} cannot be imported ({(str(error).splitlines() or ['?'])[0]})"
    return None


def choose_attention(config: Any) -> str:
    """Set the attention of a composed training on GPUs where it names none; returns one line about it.

    Raises InputError for one that this installation or this recipe cannot use.
    """
    from omegaconf import open_dict

    model = config.actor_rollout_ref.model
    given = model.override_config.get("attn_implementation")
    name, why = _choice(config) if given is None else (str(given), "as the configuration says")
    _check(config, name)
    with open_dict(model):
        model.override_config.attn_implementation = name
    if name == PACKED:
        import_in_workers(config, [MODULE])
    return f"attention: {name} ({why})"


def import_in_workers(config: Any, modules: list[str]) -> None:
    """Add modules to those that verl imports in every worker with a model (``model.external_lib``)."""
    from omegaconf import open_dict

    model = config.actor_rollout_ref.model
    given = model.external_lib
    known = [] if given is None else [given] if isinstance(given, str) else list(given)
    new = [name for name in modules if name not in known]
    if new:
        with open_dict(model):
            model.external_lib = [*known, *new]


def _choice(config: Any) -> tuple[str, str]:
    if config.cobalt.method == "offline":  # no mask is needed: torch's own kernel
        return "sdpa", "rows are padded on the right and need no mask"
    lacking = missing(FLASH)
    if lacking is None:
        return FLASH, f"flash-attn {version('flash-attn')}"
    why = f"{lacking}: torch's own kernel, called once per sequence of a pack; docs/cluster.md"
    if not config.actor_rollout_ref.model.use_fused_kernels:
        why += "; log-probabilities token by token unless actor_rollout_ref.model.use_fused_kernels=true"
    return PACKED, why


def _check(config: Any, name: str) -> None:
    setting, given = "actor_rollout_ref.model.override_config.attn_implementation", config.actor_rollout_ref
    lacking = missing(name)
    if lacking is not None:
        raise InputError(
            f"{setting}={name}: {lacking}; install it (docs/cluster.md), or leave the setting out: what is "
            "installed is used"
        )
    if config.cobalt.method == "offline":
        if name not in ("sdpa", "eager"):
            raise InputError(f"{setting}={name}: recipe {config.cobalt.recipe} takes sdpa or eager")
        return
    for part in ("actor", "ref"):
        places = (given[part], given[part].fsdp_config)
        ways = max(int(place.get("ulysses_sequence_parallel_size", 1)) for place in places)
        if ways > 1 and not name.startswith("flash_attention_"):
            raise InputError(
                f"actor_rollout_ref.{part}.ulysses_sequence_parallel_size={ways} needs flash attention, in "
                f"which verl exchanges sequences; with {name} a device would see its part of a sequence only"
            )
    if "/" not in name and not config.cobalt.plugins and not given.model.external_lib:
        from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

        known = {"eager", PACKED, *ALL_ATTENTION_FUNCTIONS.valid_keys()}
        if name not in known:
            raise InputError(f"{setting}={name} is unknown; there are: {', '.join(sorted(known))}")
