"""Low-rank adapters as verl writes them into an exported model, put back into the weights.

verl saves the wrapped model's names (``base_model.model. ... .base_layer.weight``, ``lora_A``, ``lora_B``),
which no loader of Hugging Face models knows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError

PREFIX = "base_model.model."
_BASE = ".base_layer."


def merge_adapters(folder: Path, meta: Path) -> bool:
    """Rewrite the weights of an exported model as W + alpha / r * B A under their usual names.

    ``meta`` is verl's file with ``r`` and ``lora_alpha``. Returns whether there were adapters. Raises
    InfraError if some are incomplete.
    """
    from safetensors.torch import load_file, save_file

    files = sorted(folder.glob("*.safetensors"))
    tensors = {name: weight for path in files for name, weight in load_file(path).items()}
    if not any(name.startswith(PREFIX) for name in tensors):
        return False
    try:
        facts = json.loads(meta.read_text())
        scale = facts["lora_alpha"] / facts["r"]
    except (OSError, ValueError, KeyError, ZeroDivisionError) as error:
        raise InfraError(f"{meta}: rank and alpha of the adapters cannot be read ({error})") from None
    whole = merged(tensors, scale, folder)
    for path in [*files, folder / "model.safetensors.index.json"]:
        path.unlink(missing_ok=True)  # links to the checkpoint's own files
    save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    return True


def merged(tensors: dict[str, Any], scale: float, folder: Path) -> dict[str, Any]:
    """Weights by their usual names, the adapters among ``tensors`` put in; ``folder`` is for messages."""
    import torch

    found: dict[str, Any] = {}
    for name, weight in tensors.items():
        if ".lora_A." in name or ".lora_B." in name:
            continue
        stem, base, kind = name.partition(_BASE)
        if base and kind == "weight":
            names = [f"{stem}.lora_{part}.default.weight" for part in ("A", "B")]
            if not all(each in tensors for each in names):
                raise InfraError(f"{folder}: {stem} has no pair of adapters")
            a, b = (tensors[each].to(torch.float32) for each in names)
            weight = (weight.to(torch.float32) + scale * (b @ a)).to(weight.dtype)
        found[name.removeprefix(PREFIX).replace(_BASE, ".")] = weight.contiguous()
    return found
