"""An engine of the user's own, named as FILE.py:NAME or MODULE:NAME; and what a word for a model means."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from cobalt.engines import connect, is_own
from cobalt.engines.base import ChatEngine
from cobalt.errors import InputError
from cobalt.hub import is_hub_name
from cobalt.models import similar
from cobalt.own import absolute, find, is_spec

_PARTS = ("name", "chat", "aclose")


def load_own(spec: str) -> Callable[..., ChatEngine]:
    """What `spec` names: called with `model_name` and `base_url` it returns an engine.

    Raises InputError where there is no such file, module or name, or it cannot be imported.
    """
    made: Callable[..., ChatEngine] = find(spec, f"engine {spec}", "is it in PYTHONPATH?")
    if not callable(made):
        name = spec.rpartition(":")[2]
        raise InputError(f"engine {spec}: {name} is no class or function that returns an engine")
    # The name is often given to the object only.
    _refuse_without(_PARTS[1:] if isinstance(made, type) else (), made, spec)
    return made


def located(engine: str, file: Path, field: str) -> str | None:
    """Where the engine of the user's own is that a `field` of a configuration `file` names, from its folder;
    None for one of ours. Raises InputError, with file and field, where it cannot be loaded.
    """
    if not is_own(engine):
        return None
    spec = absolute(engine, file.parent)
    try:
        load_own(spec)
    except InputError as error:
        raise InputError(f"{file}: '{field}': {error}") from None
    return spec


def connect_own(spec: str, model_name: str | None, base_url: str | None) -> ChatEngine:
    """The engine that `spec` names, for a model."""
    engine = load_own(spec)(model_name, base_url=base_url)
    _refuse_without(_PARTS, engine, spec)
    return engine


def _refuse_without(parts: tuple[str, ...], found: object, spec: str) -> None:
    lacking = [part for part in parts if not hasattr(found, part)]
    if lacking:
        raise InputError(f"engine {spec}: lacks {', '.join(lacking)} (see cobalt.engines.base.ChatEngine)")


def engine_of(model: str) -> dict[str, str]:
    """`engine`, with `model_name` or `base_url`, that a word for a model means: the URL of an
    OpenAI-compatible server, FILE.py:NAME or MODULE:NAME, the folder of a model, a provider's model that
    LiteLLM knows, or a model of the hub.

    Raises InputError for a word that is none of these.
    """
    if model.startswith(("http://", "https://")):
        return {"engine": "openai", "base_url": model}
    place = model.rpartition(":")[0]
    if is_spec(model) and (place.endswith(".py") or importlib.util.find_spec(place.partition(".")[0])):
        return {"engine": model}
    folder = Path(model).expanduser()
    if folder.exists():
        return {"engine": "transformers", "model_name": str(folder)}
    try:
        connect("litellm", model)
        return {"engine": "litellm", "model_name": model}
    except InputError:
        known = "nor a provider's model that LiteLLM knows"
    except ModuleNotFoundError:
        known = "and LiteLLM, which knows providers' models, is not installed (cobalt[providers])"
    if is_hub_name(model) and not folder.parent.is_dir():
        return {"engine": "transformers", "model_name": model}
    raise InputError(
        f"model {model}: neither a URL, nor FILE.py:NAME, nor a folder here, nor owner/name of the hub, "
        f"{known}{similar(folder)}"
    )
