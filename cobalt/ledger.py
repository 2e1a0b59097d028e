"""What a run keeps beside its output: counts, rows given up, manifest, and the final order of rows."""

import json
import os
import resource
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cobalt.files import StrPath, replacing
from cobalt.records import row_id
from cobalt.store import JsonlWriter, parse_line, read_jsonl, read_manifest, write_jsonl, write_manifest

Id = str | int
_HEAD_BYTES, _LONG_BYTES = 1024, 65536


@dataclass
class Summary:
    """What a run did. `resumed` rows were in the output before, `written` are new, `failed` were given up."""

    output: Path
    total: int = 0
    resumed: int = 0
    written: int = 0
    failed: int = 0
    retried: int = 0
    wall_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def exit_code(self) -> int:
        """The exit code of a door: 1 if any row failed."""
        return 1 if self.failed else 0

    def counts(self) -> dict[str, int]:
        names = ("total", "resumed", "written", "failed", "retried")
        return {name: value for name, value in asdict(self).items() if name in names}


def failures_path(output: StrPath) -> Path:
    """Where the rows that were given up are recorded: id, error, attempts, traceback."""
    return Path(os.fspath(output) + ".failures.jsonl")


class Failures:
    """The file of rows given up: opened when the first one comes, at the end only what is still missing."""

    def __init__(self, output: Path, key: str) -> None:
        self._path = failures_path(output)
        self._key = key
        self._writer: JsonlWriter | None = None

    async def write(self, key: Id, error: Exception, attempts: int) -> None:
        self._writer = self._writer or JsonlWriter(self._path)
        await self._writer.write(
            {
                self._key: key,
                "error": f"{type(error).__name__}: {error}",
                "attempts": attempts,
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "traceback": "".join(traceback.format_exception(error)),
            }
        )

    def close(self, done: set[Id]) -> None:
        if self._writer is not None:
            self._writer.close()
        if not self._path.exists():
            return
        latest = {row[self._key]: row for _, row in read_jsonl(self._path, repair=True)}
        left = [row for key, row in latest.items() if key not in done]
        if left:
            write_jsonl(self._path, left)
        else:
            self._path.unlink()


class Book:
    """Keeps the manifest; seconds add up over the runs that made the file."""

    def __init__(
        self,
        output: Path,
        settings: Mapping[str, Any],
        inputs: Mapping[str, StrPath] | Iterable[StrPath],
        extra: Callable[[], Mapping[str, Any]] | Mapping[str, Any] | None,
        summary: Summary,
    ) -> None:
        self._output, self._settings, self._extra, self._summary = output, settings, extra, summary
        self._inputs = inputs if isinstance(inputs, Mapping) else list(inputs)
        earlier = (read_manifest(output) or {}) if output.stat().st_size else {}
        self._wall_s, self._cpu_s = float(earlier.get("wall_s", 0)), float(earlier.get("cpu_s", 0))
        self._started = time.monotonic(), _cpu_seconds()

    def write(self) -> None:
        self._summary.wall_s = time.monotonic() - self._started[0]
        self._summary.cpu_s = _cpu_seconds() - self._started[1]
        seconds = {
            "wall_s": round(self._wall_s + self._summary.wall_s, 3),
            "cpu_s": round(self._cpu_s + self._summary.cpu_s, 3),
        }
        extra = self._extra() if callable(self._extra) else self._extra or {}
        write_manifest(
            self._output,
            settings=self._settings,
            inputs=self._inputs,
            counts=self._summary.counts(),
            extra={**seconds, **extra},
        )


def _cpu_seconds() -> float:
    usage = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in usage)


def put_in_order(path: Path, order: list[Id], key: str) -> None:
    """Rewrite a file, atomically, with its lines in this order of ids (others after them)."""
    spans: dict[Id, tuple[int, int]] = {}
    with open(path, "rb") as handle:
        offset = 0
        for number, line in enumerate(handle, start=1):
            if line.strip():
                spans[_row_key(line, f"{path}:{number}", key)] = offset, len(line)
            offset += len(line)
        wanted = [each for each in order if each in spans]
        known = set(order)
        wanted += [each for each in spans if each not in known]
        if wanted == list(spans):
            return
        with replacing(path) as target:
            for each in wanted:
                handle.seek(spans[each][0])
                target.write(handle.read(spans[each][1]))


def done_keys(path: Path, key: str) -> set[Id]:
    """Ids of the rows of an output that is to be continued.

    A long line is read no further than its id if it begins with it and ends as an object does, so that an
    output of gigabytes is ready in seconds; all others are parsed. Raises InputError, with file:line, for a
    line that is no row.
    """
    with open(path, "rb") as handle:
        return {
            _row_key(line, f"{path}:{number}", key)
            for number, line in enumerate(handle, start=1) if line.strip()
        }  # fmt: skip


def _row_key(line: bytes, where: str, key: str) -> Id:
    start = line[:_HEAD_BYTES].decode("utf-8", "ignore")
    prefix = json.dumps({key: 0})[:-2]
    if len(line) > _LONG_BYTES and start.startswith(prefix) and line.endswith(b"}\n"):
        try:
            found, _ = json.JSONDecoder().raw_decode(start, len(prefix))
            return row_id({key: found}, where, key)
        except ValueError:
            pass  # longer than the head: read it all
    return row_id(parse_line(line, where), where, key)
