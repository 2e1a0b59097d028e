"""Rows of a source to rows of an output, one at a time or in several processes: what command lines of data
share. A row that cannot be used ends the run, or is left out and listed in `OUTPUT.rejects.jsonl`.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import multiprocessing
import os
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from cobalt.cli import Parser, Progress
from cobalt.errors import InfraError, InputError
from cobalt.files import StrPath
from cobalt.manifest import write_manifest
from cobalt.output import refuse_overwriting, write_jsonl
from cobalt.rows import Raw, Row, Rows, parsed, row_id

T = TypeVar("T")
R = TypeVar("R")

_TEXT_OF_REJECT = 2000


class Rejects:
    """What to do with rows that cannot be used: stop at the first (`fail`) or leave them out (`skip`).

    Those left out are listed in `OUTPUT.rejects.jsonl` by `close`: `where`, `id` if there is one, `error`,
    and the beginning of the `text`.
    """

    def __init__(self, output: StrPath, policy: str = "fail") -> None:
        self.path = rejects_path(output)
        self.policy = policy
        self.rows: dict[str, Row] = {}

    def add(self, where: str, error: InputError, raw: Raw) -> None:
        """Take note of a bad row, or raise `error` with advice."""
        if self.policy == "fail":
            raise type(error)(f"{error}; correct it, or leave such rows out: --on_bad_row skip") from None
        text = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else json.dumps(raw)
        noted: Row = {"where": where, "error": str(error), "text": text[:_TEXT_OF_REJECT].rstrip("\n")}
        with contextlib.suppress(InputError):
            noted["id"] = row_id(parsed(raw, where), where)
        self.rows[where] = noted

    def __len__(self) -> int:
        return len(self.rows)

    def close(self) -> None:
        """Replace the list beside the output, or delete it if every row was good."""
        if self.rows:
            write_jsonl(self.path, self.rows.values())
        else:
            self.path.unlink(missing_ok=True)


def rejects_path(output: StrPath) -> Path:
    """Where the rows that were left out are listed."""
    return Path(os.fspath(output) + ".rejects.jsonl")


def rejected(count: int, output: StrPath) -> list[str]:
    """What to tell of rows left out, if there are any."""
    return [f"{count} bad rows left out, see {rejects_path(output)}"] if count else []


def bad_row_flag(flags: Parser) -> None:
    """Add `--on_bad_row`."""
    flags.add_argument(
        "--on_bad_row", choices=("fail", "skip"), default="fail",
        help="what a row that cannot be used does: end the run, or be listed in OUTPUT.rejects.jsonl",
    )  # fmt: skip


def checked(source: Rows, rejects: Rejects, convert: Callable[[Row, str], T]) -> Iterator[tuple[str, T]]:
    """(where, `convert(row, where)`) of every good row: one is bad if it is no JSON object or `convert`
    raises InputError. Rows rejected before are left out, so a second pass gives the same rows.
    """
    for where, raw in source.raw():
        if where in rejects.rows:
            continue
        try:
            item = convert(parsed(raw, where), where)
        except InputError as error:
            rejects.add(where, error, raw)
        else:
            yield where, item


@dataclass
class Converted:
    """Rows read, bad, written, and dropped by reason."""

    read: int = 0
    bad_rows: int = 0
    written: int = 0
    dropped: dict[str, int] = field(default_factory=dict)


def convert_rows(
    source: Rows,
    output: StrPath,
    make: Callable[[Row, str], Row | str],
    *,
    unit: str,
    on_bad_row: str,
    progress: Progress | None,
) -> Converted:
    """Replace `output`, atomically, by what `make(row, where)` gives: a row, or why there is none.

    Raises InputError for an input that is the output, or cannot be used; nothing has been changed then.
    """
    refuse_overwriting(source.paths, output)
    rejects, counts = Rejects(output, on_bad_row), Converted()

    def rows() -> Iterator[Row]:
        for _, made in checked(source, rejects, make):
            counts.read += 1
            if progress is not None:
                progress.advance(unit, counts.read, None, dropped=sum(counts.dropped.values()))
            if isinstance(made, str):
                counts.dropped[made] = counts.dropped.get(made, 0) + 1
            else:
                counts.written += 1
                yield made
        counts.bad_rows = len(rejects)
        if not counts.read:
            raise InputError(f"{source.name} holds no rows that can be used")

    write_jsonl(output, rows())
    rejects.close()
    return counts


def record(
    output: StrPath,
    source: Rows,
    settings: Mapping[str, Any],
    counts: Mapping[str, Any],
    **more: Any,
) -> None:
    """Write the manifest of an output that was made from one source."""
    write_manifest(
        output,
        settings={**settings, "input_sha256": source.sha256},
        inputs={"input_file": source} if source.path is not None else {},
        counts=counts,
        extra={"input": source.facts(), **more},
    )


CHUNK = 4  # items that are handed over together: published rows hold megabytes
_PR_SET_PDEATHSIG = 1
_AHEAD = 2  # chunks per process that wait or are done before their turn

_function: Callable[[Any], Any]


def in_order(function: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[tuple[T, R]]:
    """Every item and its `function`, in order; in this process if `workers` is 1.

    Children inherit `function` by fork, so it needs no pickling; items and results do. They end with this
    process, however it ends. What `function` raises is raised here. Raises InfraError if a child is killed.
    (`multiprocessing.Pool.imap` reads all of its input ahead, and waits forever for a killed child.)
    """
    if workers == 1:
        yield from ((item, function(item)) for item in items)
        return
    global _function
    _function = function
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # threads of the parent do not survive a fork
    context = multiprocessing.get_context("fork")
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_enter, initargs=(os.getpid(),))
    window: deque[tuple[list[T], Future[list[R]]]] = deque()
    found = iter(items)
    try:
        while (chunk := list(islice(found, CHUNK))) or window:
            if chunk:
                window.append((chunk, pool.submit(_call, chunk)))
            if not chunk or len(window) > (1 + _AHEAD) * workers:
                given, results = window.popleft()
                yield from zip(given, results.result(), strict=True)
    except BrokenProcessPool:
        raise InfraError(
            "a worker process was killed (out of memory?); run again with fewer --workers"
        ) from None
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _enter(parent: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before that took effect
        os._exit(1)


def _call(chunk: list[Any]) -> list[Any]:
    return [_function(item) for item in chunk]
