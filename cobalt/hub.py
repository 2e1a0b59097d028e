"""Data sets in folders and on the Hugging Face hub, through the libraries that know them; cached copies are
used offline.
"""

from __future__ import annotations

import contextlib
import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cobalt.errors import InfraError, InputError

Choose = Callable[[list[str]], str]  # of the splits that there are, the one to read

DATA_SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".parquet")
_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*/[A-Za-z0-9][\w.\-]*")
_TIMEOUT_S = 15.0
_REFUSED = (401, 403, 404)
_HIDDEN = "(not recorded)"
_LONGEST = 400  # characters of what the hub says
_AGAIN = (408, 429)  # time-out and too many requests: no refusal
_DENIED = {401: "the hub does not take the token", 403: "the token may not write there"}
_NO_DATA = (".manifest.json", ".summary.json", ".failures.jsonl", ".rejects.jsonl", ".verdicts.jsonl")


def is_hub_name(name: str) -> bool:
    """Whether a text could name a data set of the hub: `owner/name`."""
    return bool(_NAME.fullmatch(name)) and not name.endswith(DATA_SUFFIXES)


def folder_table(folder: Path, choose: Choose) -> tuple[list[Path], Any]:
    """(files, table) of a split of a folder: JSON lines or Parquet files, or what `datasets` saved there.

    Raises InputError for a folder that holds neither.
    """
    if (folder / "dataset_info.json").exists() or (folder / "dataset_dict.json").exists():
        from datasets import Dataset, load_from_disk

        saved = load_from_disk(str(folder))
        return [], saved if isinstance(saved, Dataset) else saved[choose(list(saved))]
    from datasets import load_dataset_builder

    try:
        with quiet():
            files = load_dataset_builder(str(folder)).config.data_files
    except Exception as error:  # the library raises many kinds; all mean that it found no data here
        raise InputError(f"{folder}: no data set found ({_first_line(error)})") from None
    chosen = choose([str(each) for each in files])
    paths = [Path(each) for each in files[chosen] if not str(each).endswith(_NO_DATA)]
    other = next((path for path in paths if not path.name.endswith(DATA_SUFFIXES)), None)
    if other is not None:
        raise InputError(f"{other}: JSON lines ({', '.join(DATA_SUFFIXES[:-1])}) or Parquet files are needed")
    return paths, ()


def data_files(folder: Path) -> list[Path]:
    """Files of rows directly in a folder, by name, without what stands beside them."""
    found = [each for each in folder.iterdir() if each.name.endswith(DATA_SUFFIXES) and each.name[0] != "."]
    return sorted(each for each in found if not each.name.endswith(_NO_DATA))


def own_token() -> str | None:
    """The user's token, where the hub's library finds one (HF_TOKEN, or `hf auth login`)."""
    from huggingface_hub import get_token

    return get_token()


def upload(folder: Path, repo: str, kind: str, *, public: bool, closed: bool) -> Iterator[str]:
    """Upload a folder to a repository (`model` or `dataset`), which is made, `public` or private, where there
    is none; says what was done. Repeated, what the hub has already is not sent again.

    Raises InputError where the hub refuses token, repository or card, and for a public repository where the
    data are `closed`; InfraError where the connection breaks off.
    """
    from huggingface_hub import HfApi

    hub = HfApi()
    if own_token() is None:
        raise InputError("--really: no token; set HF_TOKEN, or log in once (hf auth login)")
    _asked(repo, hub.whoami)
    _asked(repo, hub.create_repo, repo, repo_type=kind, private=not public, exist_ok=True)
    there = _asked(repo, hub.repo_info, repo, repo_type=kind)
    if closed and not there.private:
        raise InputError(f"{repo} is public, and hidden tests of LiveCodeBench must not be published")
    ours = {".gitattributes", *(str(path.relative_to(folder)) for path in folder.rglob("*"))}
    others = sorted({each.rfilename for each in there.siblings or ()} - ours)
    words = {"repo_type": kind, "folder_path": folder, "commit_message": "cobalt push"}
    done = _asked(repo, hub.upload_folder, repo_id=repo, **words)
    yield f"uploaded: {done.commit_url} ({'private' if there.private else 'public'})"
    if others:
        yield f"files that were there before and stay: {', '.join(others)}"


def _asked(repo: str, ask: Callable[..., Any], *args: Any, **words: Any) -> Any:
    """The answer of the hub; what goes wrong is told in one line, without the token."""
    from huggingface_hub import constants
    from huggingface_hub.errors import HfHubHTTPError

    try:
        with quiet():
            return ask(*args, **words)
    except Exception as error:  # the library raises many kinds
        line = " ".join(str(error).split())[:_LONGEST] or type(error).__name__
        line = line.replace(own_token() or _HIDDEN, _HIDDEN)
        status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
        refused = 400 <= status < 500 and status not in _AGAIN if status else isinstance(error, ValueError)
        where = f"{constants.ENDPOINT}, {repo}"
        if refused:
            raise InputError(f"{where}: {_DENIED.get(status or 0, 'refused')} ({line})") from None
        raise InfraError(f"{where}: broken off ({line}); run the same command again to continue") from None


def hub_table(name: str, choose: Choose) -> tuple[Any, str | None]:
    """A split of a data set of the hub, as a `datasets.Dataset`, and the revision.

    Raises InputError if there is no such set, or the hub cannot be reached and no copy is cached.
    """

    def load(revision: str | None) -> Any:
        import datasets

        splits = [str(each) for each in datasets.get_dataset_split_names(name)]
        return datasets.load_dataset(name, split=choose(splits))

    return _from_hub(name, load)


def hub_file(name: str, file: str) -> tuple[Path, str | None]:
    """Local copy of a file of a data set, and the revision. Raises InputError as `hub_table` does."""

    def load(revision: str | None) -> Path:
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download(name, file, repo_type="dataset", revision=revision))

    return _from_hub(name, load)


def _from_hub(name: str, load: Callable[[str | None], Any]) -> tuple[Any, str | None]:
    """Without attempts to reach a hub that does not answer: then what is cached is read."""
    import datasets
    from huggingface_hub import constants

    facts = _facts(name)
    revision = facts.sha if facts is not None else None
    offline = datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE
    if facts is None:
        datasets.config.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE = True
    try:
        with quiet():
            return load(revision), revision
    except InputError:
        raise
    except Exception as error:  # the libraries raise many kinds for one thing: the data cannot be had
        raise InputError(_explain(name, facts, constants.ENDPOINT, error)) from None
    finally:
        datasets.config.HF_HUB_OFFLINE, constants.HF_HUB_OFFLINE = offline


def _facts(name: str) -> Any:
    """What the hub says about a data set (`huggingface_hub.DatasetInfo`); None if it cannot be reached."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError

    hub = HfApi()
    try:
        return hub.dataset_info(name, timeout=_TIMEOUT_S)
    except HfHubHTTPError as error:
        status = error.response.status_code
        if status in _REFUSED:
            raise InputError(
                f"there is no file or folder {name}, and no such data set on {hub.endpoint} "
                f"(HTTP {status}; set HF_TOKEN if it is private)"
            ) from None
        return None
    except Exception:  # no network, or told to do without: each library has its own kind
        return None


def _explain(name: str, facts: Any, endpoint: str, error: Exception) -> str:
    if facts is None:
        return (
            f"cannot reach {endpoint} for the data set {name}, and no copy of it is cached "
            f"({_first_line(error)}); "
            "connect (and unset HF_HUB_OFFLINE), or give a local JSONL or Parquet file or folder instead"
        )
    data = [each.rfilename for each in facts.siblings or () if each.rfilename.endswith(DATA_SUFFIXES)]
    listed = f"; name one of its files as {name}:FILE ({', '.join(data[:8])})" if data else ""
    return f"data set {name} cannot be loaded: {_first_line(error)}{listed}"


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


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
