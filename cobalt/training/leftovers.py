"""Nothing of a training stays on a node, however it ends: processes, sockets, shared memory, private folder.

And nothing waits for a dead engine: `DeadEngines`.

The processes of a training carry the name of its private folder in their environment. This file is also a
small program, ``leftovers.py FOLDER [LAUNCHER]``, one per node, which waits for their end (and the
launcher's, where there is one) and lives on when all of them are killed. Ray kills engines of vLLM at the
end of a job; they leave shared memory behind whose names say nothing. So: what processes of the training
had mapped, and nobody has mapped any more, is removed.
"""

from __future__ import annotations

import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

MARK = "COBALT_RUN_DIR"  # in the environment of every process of a training, with a value of its own
_OUTSIDE = "outside"  # in the private folder: what else belongs to the training, a pattern a line
# verl's sockets for weights lie in a fixed place; Ray's number of the job is in their names
_SOCKETS = "/tmp/rl-colocate-zmq-{job}-*.sock"
_SHARED = b"/dev/shm/"
_LOOK_S = 2.0
_GRACE_S = 10.0
_ORPHANED_S = 10.0  # so long after the launcher, or Ray's last worker on the node, the rest may live
ENGINE = "engine"  # in the private folder: what ended before workers that waited for it were killed
_TRAINER = "ray::WorkerDict"  # what Ray calls verl's workers that train
_WAITING_S = 4.0
_IDLE_CPU = 0.1  # of a core: a worker that waits for a message uses a hundredth
_IDLE_BYTES = 1 << 20


def watch(folder: Path, launcher: int | None = None) -> None:
    """Start the watching process of this node."""
    subprocess.Popen(
        [sys.executable, "-I", __file__, str(folder), *([str(launcher)] if launcher else [])],
        env={name: value for name, value in os.environ.items() if name != MARK},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, cwd="/",
    )  # fmt: skip


def on_node() -> None:
    """Ray's setup hook of every worker process: the first one on a node starts the watch.

    vLLM's sockets go into the private folder; on a node where it cannot be made they stay where they were.
    """
    folder = Path(os.environ[MARK])
    try:
        folder.mkdir(mode=0o700)
        watch(folder)
    except FileExistsError:
        pass
    except OSError as error:
        print(f"cobalt: {folder} cannot be made on this node: {error.strerror}", file=sys.stderr)
        return
    os.environ.setdefault("VLLM_RPC_BASE_PATH", str(folder))


def remove(folder: Path) -> None:
    """End what still carries the mark of the run in ``folder``, and remove what it left."""
    deadline = time.monotonic() + _GRACE_S
    while time.monotonic() < deadline and (left := marked(folder)):
        _note(folder, left)
        _kill(left)
        time.sleep(0.05)
    used = {*_mapped(_pids()), *_bound()}
    for pattern in _noted(folder):
        for path in set(glob.glob(pattern)) - used:
            with contextlib.suppress(OSError):
                os.unlink(path)
    shutil.rmtree(folder, ignore_errors=True)


def marked(folder: Path) -> list[int]:
    """Processes that carry the mark of the run in ``folder``."""
    mark = f"{MARK}={folder}".encode()
    return [pid for pid in _pids() if pid != os.getpid() and mark in _read(pid, "environ").split(b"\0")]


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except (FileNotFoundError, PermissionError, ProcessLookupError):
        return b""


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _mapped(pids: list[int]) -> Iterator[str]:
    """Files of shared memory that processes have mapped; those removed already are left out."""
    for pid in pids:
        for line in _read(pid, "maps").splitlines():
            _, found, name = line.partition(_SHARED)
            if found and not name.endswith(b" (deleted)"):
                yield os.fsdecode(_SHARED + name)


def _bound() -> set[str]:
    """Sockets with a path that somebody still has."""
    lines = Path("/proc/net/unix").read_text().splitlines()
    return {parts[7] for line in lines if len(parts := line.split(maxsplit=7)) == 8}


def _noted(folder: Path) -> set[str]:
    try:
        return set((folder / _OUTSIDE).read_text().splitlines())
    except OSError:
        return set()


def _note(folder: Path, pids: list[int]) -> None:
    known = _noted(folder)
    found = {glob.escape(path) for path in _mapped(pids)}
    for pid in pids:
        for variable in _read(pid, "environ").split(b"\0"):
            if variable.startswith(b"RAY_JOB_ID="):
                found.add(_SOCKETS.format(job=glob.escape(variable.decode().partition("=")[2])))
    if found - known:
        with contextlib.suppress(FileNotFoundError):  # the launcher was faster and has removed the folder
            (folder / _OUTSIDE).write_text("".join(f"{each}\n" for each in sorted(known | found)))


def _alive(pid: int) -> bool:
    state = _read(pid, "stat").rpartition(b")")[2].split()
    return bool(state) and state[0] != b"Z"


def _is_worker(pid: int) -> bool:
    return _title(pid).startswith("ray::")


def _title(pid: int) -> str:
    return _read(pid, "cmdline").partition(b"\0")[0].decode(errors="replace").strip()


def _work(pid: int) -> tuple[float, int]:
    """Seconds of CPU time used, and bytes written, by a process."""
    stat = _read(pid, "stat").rpartition(b")")[2].split()
    written = re.search(rb"wchar: (\d+)", _read(pid, "io"))
    ticks = int(stat[11]) + int(stat[12]) if stat else 0
    return ticks / os.sysconf("SC_CLK_TCK"), int(written[1]) if written else 0


class DeadEngines:
    """Ends a wait without end: for the answer of a process of vLLM that was killed.

    verl's trainer processes send weights to vLLM's and wait for each answer, with no limit of time; killed
    then, vLLM's server notices, but verl's trainer hears the sender only. A trainer process of this node that
    does nothing for ``_WAITING_S`` after the end of an engine is killed, so that Ray raises. One that still
    works, on a checkpoint say, is left alone until it waits too.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.engines: dict[int, str] = {}
        self.dead: list[str] = []
        self.since, self.before = 0.0, dict[int, tuple[float, int]]()

    def look(self, pids: list[int]) -> None:
        """``pids``: of the training's processes on this node."""
        titles = {pid: _title(pid) for pid in pids if _alive(pid)}
        gone = [f"{name} (process {pid})" for pid, name in self.engines.items() if pid not in titles]
        self.engines = {pid: name for pid, name in titles.items() if name.startswith("VLLM::")}
        self.dead += gone
        if not self.dead:
            return
        seconds = time.monotonic() - self.since
        if self.before and seconds < _WAITING_S:
            return
        work = {pid: _work(pid) for pid, name in titles.items() if name.startswith(_TRAINER)}
        waiting = [pid for pid in work if pid in self.before and _idle(self.before[pid], work[pid], seconds)]
        if waiting:
            with contextlib.suppress(FileNotFoundError):  # the launcher has removed the folder meanwhile
                (self.folder / ENGINE).write_text(", ".join(self.dead))
        _kill(waiting)
        self.since, self.before = time.monotonic(), work


def _idle(before: tuple[float, int], after: tuple[float, int], seconds: float) -> bool:
    return after[0] - before[0] < _IDLE_CPU * seconds and after[1] - before[1] < _IDLE_BYTES


def main(folder: Path, launcher: int | None) -> None:
    """Wait for the end of the training on this node."""
    orphaned_since: float | None = None
    engines = DeadEngines(folder)
    while folder.exists():
        pids = marked(folder)
        _note(folder, pids)
        engines.look(pids)
        if _alive(launcher) if launcher else any(map(_is_worker, pids)):
            orphaned_since = None
        else:
            orphaned_since = orphaned_since or time.monotonic()
            if (launcher and not pids) or time.monotonic() - orphaned_since > _ORPHANED_S:
                remove(folder)
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
