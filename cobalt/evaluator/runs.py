"""One run of a program, raw: what it wrote and how it ended, without a test that says what is right."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError
from dataclasses import asdict, dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, ClassVar

from cobalt.errors import BadRequest
from cobalt.evaluator.checker import encode
from cobalt.evaluator.endings import FAULTS, PAUSE_S, check_end, out_of_memory, too_long
from cobalt.sandbox.limits import Limits
from cobalt.sandbox.pool import Pool
from cobalt.sandbox.worker import RunFacts

FINISHED = "finished"  # the status of a run that ended with exit status 0
_MOST_FILES, _MOST_IN_FILES = 256, 3 << 20  # a character has at most four bytes, a file 16 MiB


@dataclass(frozen=True)
class Run:
    """What one run did. ``status``: ``finished`` (exit status 0), ``runtime_error``, ``time_limit``,
    ``memory_limit``, ``output_limit``, or ``infra_error``: a fault of ours, said in ``stderr``.

    ``stdout`` is whole up to the limit, ``stderr`` cut to its first and last 64 KiB; bytes that are no UTF-8
    are lone surrogates (``text.encode("utf-8", "surrogateescape")`` gives them back). ``returncode`` is None
    where a limit struck, negative for a signal; times in seconds. ``compiled``: False if no line of it ran.
    ``files``: what it left of those that were to be fetched, in base64.
    """

    status: str
    returncode: int | None = None
    stdout: str = ""
    stderr: str = ""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_bytes: int = 0
    compiled: bool = True
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RunRequest:
    """A program and its stdin, as text like `Run`'s; ``files`` of its working folder (read-only, by relative
    path); ``time_s``: CPU seconds in place of the limit's, at most those of a suite; ``fetch_files``: paths
    of what is wanted of its files afterwards (12 MiB together, else none).

    Raises BadRequest that names the field.
    """

    source: str
    stdin: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    time_s: float | None = None
    fetch_files: Sequence[str] = ()
    mode: ClassVar[int] = 0o444  # of its files

    def __post_init__(self) -> None:
        for name in ("source", "stdin"):
            if not isinstance(getattr(self, name), str):
                raise BadRequest(f"'{name}' must be a string, got {type(getattr(self, name)).__name__}")
        time_s = self.time_s
        if time_s is not None and (
            isinstance(time_s, bool) or not isinstance(time_s, int | float) or not (0 < time_s < math.inf)
        ):
            raise BadRequest(f"'time_s' must be a number above 0, got {time_s!r:.80}")
        fetch = self.fetch_files
        if not isinstance(fetch, list | tuple) or any(
            not isinstance(each, str) or "\0" in each for each in fetch
        ):
            raise BadRequest(f"'fetch_files' must be a list of paths, got {fetch!r:.80}")
        if not isinstance(self.files, Mapping):
            raise BadRequest(f"'files' must be an object, got {type(self.files).__name__}")
        for path, text in self.files.items():
            if not _is_path(path) or not isinstance(text, str):
                raise BadRequest(f"'files' must hold relative paths (a/b.txt) and texts, got {path!r:.80}")
        folders = {str(each) for path in self.files for each in PurePosixPath(path).parents}
        size = sum(len(text) for text in self.files.values())
        if not folders.isdisjoint(self.files) or len(self.files) > _MOST_FILES or size > _MOST_IN_FILES:
            raise BadRequest(
                f"'files' must be at most {_MOST_FILES}, of {_MOST_IN_FILES >> 20} MiB together, and none of "
                "them the folder of another"
            )

    @classmethod
    def parse(cls, value: Any, where: str) -> "RunRequest":
        """From a mapping; unknown keys are refused. Raises BadRequest, beginning with ``where``."""
        known = cls.__dataclass_fields__
        if not isinstance(value, Mapping) or "source" not in value or not value.keys() <= known.keys():
            raise BadRequest(f"{where}: expected an object with 'source' and, if wanted, {', '.join(known)}")
        try:
            return cls(**value)
        except BadRequest as error:
            raise BadRequest(f"{where}: {error}") from None

    def limits(self, given: Limits) -> Limits:
        """The limits of this run."""
        return (
            given
            if self.time_s is None
            else replace(given, cpu_s=min(self.time_s, given.suite_s), wall_s=None)
        )

    def to_mapping(self) -> dict[str, Any]:
        """For the wire."""
        return asdict(self)


def _is_path(path: Any) -> bool:
    if not isinstance(path, str) or "\0" in path or str(PurePosixPath(path)) != path:
        return False
    data = path.encode(errors="ignore")
    if data.decode() != path or len(data) > 200:  # no name that a file can have
        return False
    parts = PurePosixPath(path).parts
    return bool(parts) and parts[0] != "/" and ".." not in parts


def text_of(data: bytes | str) -> str:
    """Bytes as text, whatever they are."""
    return data if isinstance(data, str) else data.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    """The reverse; lone surrogates that stand for no byte are kept as they are."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return encode(text)


def run_program(pool: Pool, request: RunRequest, most: Limits, unwanted: Callable[[], bool]) -> Run:
    """Run it once; again on another worker if a fault of ours ended it. Raises what ended it twice, and
    CancelledError where it is `unwanted`.
    """
    source, limits = bytes_of(request.source), request.limits(most)
    if said := too_long(source, limits):
        return Run("runtime_error", 1, stderr=said, compiled=False)
    files = {path: bytes_of(text) for path, text in request.files.items()}
    fetch = list(request.fetch_files)
    given = (request.mode, files, fetch) if files or fetch else None
    stdin, lost = bytes_of(request.stdin), False
    while not unwanted():
        began = time.monotonic()
        try:
            with pool.lend() as worker, worker.program(source, limits, given=given) as program:
                facts = program.run(stdin, unwanted)
            check_end(facts, began)
            return _run(facts, limits)
        except FAULTS:
            if lost and not unwanted():
                raise
            lost = True
            time.sleep(PAUSE_S)
    raise CancelledError


def _run(facts: RunFacts, limits: Limits) -> Run:
    stderr = text_of(facts.stderr)
    status = FINISHED if facts.returncode == 0 else "runtime_error"
    if max(facts.stdout_size, facts.stderr_size) >= limits.output_bytes:
        status = "output_limit"
    elif facts.limit in ("cpu", "wall"):
        status = "time_limit"
    elif out_of_memory(facts, stderr):
        status = "memory_limit"
    elif facts.limit:
        status = "runtime_error"
    return Run(
        status, None if facts.limit else facts.returncode, text_of(facts.stdout), stderr, facts.cpu_s,
        facts.wall_s, facts.peak_bytes, not facts.compile_failed,
        facts.files,
    )  # fmt: skip
