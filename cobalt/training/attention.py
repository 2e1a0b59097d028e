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
    distribution, module = _PACKAGES.get(name, (None, None))
    if distribution is None or module is None:
        return None
    try:
        found = version(distribution)
        importlib.import_module(module)
    except PackageNotFoundError:
        return f"{distribution} is not installed"
    except ImportError as error:  # built for another torch
        return f"{distribution} {found} cannot be imported ({(str(error).splitlines() or ['?'])[0]})"
    return None


def settle(config: Any) -> str:
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
        if name == PACKED and MODULE not in (libraries := _listed(model.external_lib)):
            model.external_lib = [*libraries, MODULE]
    return f"attention: {name} ({why}){_mask(config) if name == 'sdpa' else ''}"


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
        each = given[part]
        places = (each, each.fsdp_config)
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


def _mask(config: Any) -> str:
    """What sdpa's mask over a pack of several sequences takes: see `cobalt.training.packed`."""
    given, longest = (
        config.actor_rollout_ref,
        int(config.data.max_prompt_length) + int(config.data.max_response_length),
    )
    passes = [(given.actor, "", "ppo")]
    passes += [(given.rollout, "log_prob_", "log_prob"), (given.ref, "log_prob_", "log_prob")]
    tokens = max(
        int(part[f"{word}_max_token_len_per_gpu"])
        if part[f"{prefix}use_dynamic_bsz"]
        else int(part[f"{word}_micro_batch_size_per_gpu"]) * longest
        for part, prefix, word in passes
    )
    if config.cobalt.method == "offline" or not given.model.use_remove_padding or tokens <= longest:
        return ""
    gib = tokens**2 / 2**30
    return (
        f": a pack of {tokens:,} tokens has a mask of {gib:,.2f} GiB ({3 * gib:,.2f} while it is made, and "
        f"{2 * gib:,.2f} in bfloat16 in every layer); {PACKED} has none"
    )


def _listed(value: Any) -> list[str]:
    return [] if value is None else [value] if isinstance(value, str) else list(value)
