"""Data sets of the Hugging Face hub, through the libraries that know it; cached copies are used offline."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cobalt.errors import InputError

_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*")
_TIMEOUT_S = 15.0
DATA_SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".parquet")
_REFUSED = (401, 403, 404)


def is_hub_name(name: str) -> bool:
    """Whether a text could name a data set of the hub: `owner/name`."""
    return bool(_NAME.fullmatch(name)) and not name.endswith(DATA_SUFFIXES)


def hub_table(name: str, choose: Callable[[list[str]], str]) -> tuple[Any, str | None]:
    """The split that `choose` picks from the list of splits, as a `datasets.Dataset`, and the revision.

    Raises InputError if there is no such set, or the hub cannot be reached and no copy is cached.
    """
    facts = _facts(name)
    with _library(reachable=facts is not None):
        import datasets

        try:
            splits = [str(each) for each in datasets.get_dataset_split_names(name)]
            return datasets.load_dataset(name, split=choose(splits)), _revision(facts)
        except InputError:
            raise
        except Exception as error:  # the libraries raise many kinds for one thing: the data cannot be had
            raise InputError(_explain(name, facts, error)) from None


def hub_files(name: str, files: list[str]) -> tuple[list[Path], str | None]:
    """Local copies of files of a data set, and the revision. Raises InputError as `hub_table` does."""
    facts = _facts(name)
    with _library(reachable=facts is not None):
        from huggingface_hub import hf_hub_download

        try:
            paths = [
                Path(hf_hub_download(name, each, repo_type="dataset", revision=_revision(facts)))
                for each in files
            ]
        except Exception as error:
            raise InputError(_explain(name, facts, error)) from None
    return paths, _revision(facts)


def _endpoint() -> str:
    return os.environ.get("HF_ENDPOINT", "https://huggingface.co").rstrip("/")


def _facts(name: str) -> dict[str, Any] | None:
    """What the hub says about a data set; None if it cannot be reached. Asked once, without retries."""
    if os.environ.get("HF_HUB_OFFLINE", "").upper() in ("1", "TRUE", "YES", "ON"):
        return None
    request = urllib.request.Request(f"{_endpoint()}/api/datasets/{name}")
    if token := os.environ.get("HF_TOKEN"):
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            facts = json.load(response)
            return facts if isinstance(facts, dict) else None
    except urllib.error.HTTPError as error:
        if error.code in _REFUSED:
            raise InputError(
                f"there is no file or folder {name}, and no such data set on {_endpoint()} "
                f"(HTTP {error.code}; set HF_TOKEN if it is private)"
            ) from None
        return None
    except (OSError, ValueError):
        return None


def _revision(facts: dict[str, Any] | None) -> str | None:
    return facts.get("sha") if facts else None


def _explain(name: str, facts: dict[str, Any] | None, error: Exception) -> str:
    reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
    if facts is None:
        return (
            f"cannot reach {_endpoint()} for the data set {name}, and no copy of it is cached ({reason}); "
            "connect (and unset HF_HUB_OFFLINE), or give a local JSONL or Parquet file or folder instead"
        )
    files = [each.get("rfilename", "") for each in facts.get("siblings", ())]
    data = [each for each in files if each.endswith(DATA_SUFFIXES)]
    listed = f"; name one of its files as {name}:FILE ({', '.join(data[:8])})" if data else ""
    return f"data set {name} cannot be loaded: {reason}{listed}"


@contextlib.contextmanager
def _library(reachable: bool) -> Iterator[None]:
    """Libraries without their chatter, and without attempts to reach a hub that does not answer."""
    import datasets
    import huggingface_hub.constants

    offline = datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE
    if not reachable:
        datasets.config.HF_HUB_OFFLINE = huggingface_hub.constants.HF_HUB_OFFLINE = True
    try:
        with quiet():
            yield
    finally:
        datasets.config.HF_HUB_OFFLINE, huggingface_hub.constants.HF_HUB_OFFLINE = offline


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No log lines of the hub's libraries: what goes wrong is raised, and told in one line."""
    loggers = [logging.getLogger(each) for each in ("huggingface_hub", "datasets")]
    levels = [each.level for each in loggers]
    for each in loggers:
        each.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for each, level in zip(loggers, levels, strict=True):
            each.setLevel(level)
