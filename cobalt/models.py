"""Whether a model can be had, before anything heavy is imported: a folder's files whole and of one size, a
name of the hub known there or cached. Nothing is loaded: of the weights, only the headers are read.
"""

from __future__ import annotations

import difflib
import json
import re
import struct
from pathlib import Path
from typing import Any

from cobalt.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*(/[A-Za-z0-9][\w.\-]*)?")
_TIMEOUT_S = 10.0
_HEADER_BYTES = 100 << 20  # the format's own bound
_LFS = b"version https://git-lfs"
_TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model")


def check_model(model: str | Path, *, flag: str = "--model_name", weights: bool = True) -> None:
    """Raises InputError, naming `flag` and the file, for what is no model: no folder, files that are missing,
    cut short or of other sizes than the configuration says, a name that neither the hub nor its cache has.

    `weights`: also configuration and weights; without, a tokenizer alone will do.
    """
    name, path = str(model), Path(model).expanduser()
    if path.is_dir():
        try:
            _check_folder(path, weights)
        except InputError as error:
            raise InputError(f"{flag} {name}: {error}") from None
        return
    if path.is_file():
        raise InputError(f"{flag} {name}: that is a file; a model is a folder with a config.json")
    if not _NAME.fullmatch(name) or (path.parent != Path() and path.parent.is_dir()):
        raise InputError(f"{flag} {name}: no such folder{similar(path)}")
    _check_hub(name, flag, similar(path))


def similar(path: Path) -> str:
    """Advice: a folder beside `path` whose name is nearly the same."""
    beside = [each.name for each in path.parent.iterdir() if each.is_dir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1, cutoff=0.6)
    return f"; did you mean '{path.parent / near[0]}'?" if near else ""


def _check_folder(folder: Path, weights: bool) -> None:
    if (folder / "adapter_config.json").is_file():  # of an adapter, the library opens both parts
        return
    file = folder / "config.json"
    config = _json(file, "so this is no Hugging Face model folder") if weights or file.exists() else {}
    present = [folder / each for each in _TOKENIZERS if (folder / each).is_file()]
    for path in [*present, folder / "tokenizer_config.json"]:
        if path.suffix == ".json" and path.is_file():
            _json(path, "")
    if not weights:
        return
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        listed = _json(index, "").get("weight_map")
        if not isinstance(listed, dict):
            raise InputError(f"{index}: field 'weight_map' is missing")
        files = [folder / str(each) for each in sorted(set(listed.values()))]
    else:
        files = sorted(folder.glob("*.safetensors"))
    if not files and not list(folder.glob("*.bin")):
        raise InputError("no weights there (*.safetensors)")
    shapes: dict[str, list[int]] = {}
    for path in files:
        shapes |= _shapes(path)
    for name, shape in shapes.items():
        wanted = [config.get("vocab_size"), config.get("hidden_size")]
        if name.endswith("embed_tokens.weight") and None not in wanted and shape != wanted:
            raise InputError(f"{name} has the shape {shape}, but config.json says {wanted}: not of one model")


def _json(path: Path, missing: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"no {path.name} there{', ' + missing if missing else ''}") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path}: no JSON ({error}); {_again(path)}") from None
    if not isinstance(found, dict):
        raise InputError(f"{path}: an object is needed")
    return found


def _shapes(path: Path) -> dict[str, list[int]]:
    """Of the tensors in a safetensors file: 8 bytes of length, a JSON header, data up to the last offset."""
    try:
        with open(path, "rb") as handle:
            length = struct.unpack("<Q", start)[0] if len(start := handle.read(8)) == 8 else 0
            if not 2 <= length <= _HEADER_BYTES:
                raise InputError(f"{path}: no safetensors file; {_again(path)}")
            header = json.loads(handle.read(length))
            size = handle.seek(0, 2)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise InputError(f"{path}: its header is cut or damaged; {_again(path)}") from None
    tensors = {name: each for name, each in header.items() if name != "__metadata__"}
    promised = 8 + length + max((each["data_offsets"][1] for each in tensors.values()), default=0)
    if promised != size:
        raise InputError(f"{path}: has {size:,} bytes where its header says {promised:,}; {_again(path)}")
    return {name: list(each["shape"]) for name, each in tensors.items()}


def _again(path: Path) -> str:
    with open(path, "rb") as handle:
        pointer = handle.read(len(_LFS)) == _LFS
    return "it is a Git LFS pointer: run `git lfs pull`" if pointer else "copy or download it again"


def _check_hub(name: str, flag: str, similar: str) -> None:
    """One question to the hub; without an answer, what is cached decides."""
    from huggingface_hub import HfApi, constants, try_to_load_from_cache
    from huggingface_hub.errors import HfHubHTTPError

    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return
    if constants.HF_HUB_OFFLINE:
        why = "HF_HUB_OFFLINE is set"
    else:
        try:
            HfApi().model_info(name, timeout=_TIMEOUT_S)
            return
        except HfHubHTTPError as error:
            status = error.response.status_code
            if status in (401, 403, 404):
                advice = similar or "; check the name, and set HF_TOKEN if it is private"
                where = f"no folder here, and no such model on {constants.ENDPOINT} (HTTP {status})"
                raise InputError(f"{flag} {name}: {where}{advice}") from None
            why = f"{constants.ENDPOINT} answers with HTTP {status}"
        except Exception:  # no network: each library beneath has its own kind
            why = f"{constants.ENDPOINT} cannot be reached"
    raise InputError(f"{flag} {name}: no such folder; on the hub: {why}, and no copy is cached{similar}")
