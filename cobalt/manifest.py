"""The manifest beside every output: `X` has `X.manifest.json`, which says how `X` was made.

It is written before the first row (so that a resumed run can be checked against it) and again at the end.
"""

import contextlib
import hashlib
import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import cobalt
from cobalt.errors import InputError, SettingsChanged
from cobalt.files import StrPath, atomic_write, file_sha256, plain, settings_hash
from cobalt.rows import Rows

SCHEMA = 1
HIDDEN = "(not recorded)"

_PACKAGES = (
    *("torch", "verl", "transformers", "tokenizers", "ray", "vllm", "tensordict", "TransferQueue"),
    *("datasets", "pyarrow", "pandas", "numpy", "litellm"),
)
# `max_tokens` is a setting, `hf_token` a secret.
_SECRET = re.compile(
    r"(?:api_?key|access_?key|secret|password|passwd|credential|(?:^|_)token$)", re.IGNORECASE
)


def manifest_path(out: StrPath) -> Path:
    """Where the manifest of the output `out` is."""
    return Path(os.fspath(out) + ".manifest.json")


def write_manifest(
    out: StrPath,
    *,
    settings: Mapping[str, Any],
    inputs: Mapping[str, StrPath | Rows] | Iterable[StrPath] = (),
    counts: Mapping[str, Any] | None = None,
    extra: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Write (atomically) and return the manifest of `out`.

    `settings` is what determines the rows (model, sampling, prompts' hash, seeds): `check_resume` compares
    it. `inputs` are files, by name or not, recorded with size and SHA-256. `counts` and `extra` (seconds,
    tokens, notes) are free. Beside them stand argv, the time of the first and of this writing, and the
    versions of Cobalt and of the packages installed. Values of keys and flags that name a secret are left
    out. Raises InputError for an input that cannot be read.
    """
    named = inputs if isinstance(inputs, Mapping) else {os.path.basename(path): path for path in inputs}
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    kept = _without_secrets(plain(settings))
    sha256 = settings_hash(kept)
    before = read_manifest(out) or {}
    manifest = {
        "schema": SCHEMA,
        "output": os.path.basename(out),
        "created": before.get("created", now) if before.get("settings_sha256") == sha256 else now,
        "updated": now,
        "argv": _argv(),
        "settings": kept,
        "settings_sha256": sha256,
        "inputs": {name: _file_facts(path) for name, path in named.items()},
        "counts": plain(counts or {}),
        "versions": versions(),
        **plain(extra or {}),
    }
    atomic_write(manifest_path(out), json.dumps(manifest, indent=2, ensure_ascii=True) + "\n")
    return manifest


def read_manifest(out: StrPath) -> dict[str, Any] | None:
    """The manifest of `out`, None if it has none. Raises InputError if it is damaged."""
    path = manifest_path(out)
    try:
        manifest = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}); delete it together with the output") from None
    if not isinstance(manifest, dict):
        raise InputError(f"{path}: expected a JSON object")
    return manifest


def check_resume(out: StrPath, settings: Mapping[str, Any], *, begun: StrPath | None = None) -> None:
    """Raise SettingsChanged, with a line per difference, if `out` has rows made under other settings.

    An output without rows may be begun under any settings; one with rows but without a manifest is
    refused, because nobody can tell what made it. `begun` names a file beside it that holds parts of rows, if
    there is one: it counts as rows do.
    """
    try:
        empty = os.path.getsize(out) == 0
    except FileNotFoundError:
        empty = True
    except OSError as error:
        raise InputError(f"cannot read {os.fspath(out)}: {error.strerror}") from None
    if empty and begun is None:
        return
    advice = "give another output file, or delete this one to start again"
    if begun is not None:
        advice += f", and {os.fspath(begun)} with it"
    manifest = read_manifest(out)
    if manifest is None:
        raise SettingsChanged(
            f"{os.fspath(out)} holds rows but no {manifest_path(out).name} says how they were made; {advice}"
        )
    before, now = flatten(manifest.get("settings", {})), flatten(_without_secrets(plain(settings)))
    changes = [
        f"  {name}: {_show(before, name)} -> {_show(now, name)}"
        for name in sorted(before.keys() | now.keys())
        if name not in before or name not in now or before[name] != now[name]
    ]
    if changes:
        raise SettingsChanged(
            "\n".join([f"{os.fspath(out)} was begun with other settings ({advice}):", *changes])
        )


def flatten(value: Any, prefix: str = "") -> dict[str, Any]:
    """Nested objects as one level with dotted names; lists are values."""
    if not isinstance(value, dict) or not value:
        return {prefix: value} if prefix else {}
    result: dict[str, Any] = {}
    for key, item in value.items():
        result |= flatten(item, f"{prefix}.{key}" if prefix else key)
    return result


def _show(values: dict[str, Any], name: str) -> str:
    return json.dumps(values[name]) if name in values else "(absent)"


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: HIDDEN if item and _SECRET.search(key) else _without_secrets(item) for key, item in value.items()
    }


def _argv() -> list[str]:
    result: list[str] = []
    hide = False
    for arg in sys.argv:
        name, equals, _ = arg.partition("=")
        secret = arg.startswith("--") and bool(_SECRET.search(name.lstrip("-").replace("-", "_")))
        shown = f"{name}={HIDDEN}" if secret and equals else arg
        result.append(HIDDEN if hide and not arg.startswith("--") else shown)
        hide = secret and not equals
    return result


def _file_facts(given: StrPath | Rows) -> dict[str, Any]:
    path = str(given.path) if isinstance(given, Rows) else os.fspath(given)
    sha256 = given.sha256 if isinstance(given, Rows) else file_sha256(path)  # rows know theirs
    return {"path": path, "bytes": os.path.getsize(path), "sha256": sha256}


def versions() -> dict[str, str]:
    """Versions of Python, of Cobalt (with a hash of its sources) and of its packages where installed."""
    found = {
        "python": platform.python_version(),
        "cobalt": cobalt.__version__,
        "cobalt_sources": _source_hash(),
    }
    for package in _PACKAGES:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[package] = metadata.version(package)
    return found


@cache
def _source_hash() -> str:
    root = Path(cobalt.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        digest.update(f"{path.relative_to(root)}\0".encode() + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class Book:
    """The manifest of an output that grows: seconds add up over the runs that made the file."""

    def __init__(
        self,
        output: Path,
        settings: Mapping[str, Any],
        inputs: Mapping[str, StrPath] | Iterable[StrPath],
        extra: Callable[[], Mapping[str, Any]] | Mapping[str, Any] | None,
    ) -> None:
        self._output, self._settings, self._extra = output, settings, extra
        self._inputs = inputs if isinstance(inputs, Mapping) else list(inputs)
        earlier = (read_manifest(output) or {}) if output.stat().st_size else {}
        self._started = time.monotonic() - float(earlier.get("wall_s", 0))

    def write(self, counts: Mapping[str, int]) -> None:
        """Write the manifest with what has been counted so far."""
        extra = self._extra() if callable(self._extra) else self._extra or {}
        extra = {"wall_s": round(time.monotonic() - self._started, 3), **extra}
        write_manifest(self._output, settings=self._settings, inputs=self._inputs, counts=counts, extra=extra)
