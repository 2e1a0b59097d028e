"""A model's folder before anything loads it: its configuration, and the headers of its weights."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from cobalt.errors import InputError

_INDEX = "model.safetensors.index.json"
_LAYER = re.compile(r"\blayers\.(\d+)\.")


def model_config(folder: Path) -> dict[str, Any]:
    """`config.json`. Raises InputError for one that is missing or no JSON object."""
    return _json(folder / "config.json")


def check_weights(folder: Path) -> str:
    """Open every file of weights (headers only: seconds for any size) and compare with `config.json`; returns
    in words what was found.

    Raises InputError for a file that is missing, cut or no safetensors, and for tensors of other sizes.
    """
    config = model_config(folder)
    names = ["model.safetensors"]
    if (folder / _INDEX).is_file():
        names = sorted(set(_json(folder / _INDEX).get("weight_map", {}).values()))
    elif not (folder / names[0]).is_file() and any(folder.glob("*.bin")):
        return "its weights are not safetensors and were not opened"
    shapes: dict[str, list[int]] = {}
    for name in names:
        shapes |= _shapes(folder / name)
    width, words, layers = (config.get(key) for key in ("hidden_size", "vocab_size", "num_hidden_layers"))
    embedding = next((shape for name, shape in shapes.items() if name.endswith("embed_tokens.weight")), None)
    if embedding is not None and None not in (words, width) and embedding != [words, width]:
        raise InputError(
            f"{folder}: the weights embed {embedding[0]} words in {embedding[1]} numbers, and config.json "
            f"says vocab_size {words}, hidden_size {width}: files of two models"
        )
    found = {int(match[1]) for name in shapes if (match := _LAYER.search(name))}
    if found and layers is not None and len(found) != layers:
        raise InputError(f"{folder}: the weights have {len(found)} layers, config.json says {layers}")
    return f"{len(shapes)} tensors in {len(names)} file{'s' * (len(names) > 1)}, of the sizes in config.json"


def _shapes(path: Path) -> dict[str, list[int]]:
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise InputError(f"{path} is missing: the model has no weights there")
    try:
        with safe_open(path, framework="numpy") as file:
            return {name: list(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"{path} cannot be read as safetensors: it is cut or damaged, copy it again ({error})"
        ) from None


def _json(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error})") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: must hold a JSON object")
    return found
