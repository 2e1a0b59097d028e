"""Nothing of a training stays on a node, however it ends: processes, sockets, shared memory, private folder.

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
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

MARK = "COBALT_RUN_DIR"  # in the environment of every process of a training, with a value of its own
_OUTSIDE = "outside"  # in the private folder: what else belongs to the training, a pattern a line
# verl's sockets for weights lie in a fixed place; Ray's number of the job is in their names
_SOCKETS = "/tmp/rl-colocate-zmq-{job}-*.sock"
_SHARED = b"/dev/shm/"
_LOOK_S = 2.0
_GRACE_S = 10.0
_ORPHANED_S = 10.0  # so long after the launcher, or Ray's last worker on the node, the rest may live


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
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
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
    return _read(pid, "cmdline").startswith(b"ray::")


def main(folder: Path, launcher: int | None) -> None:
    """Wait for the end of the training on this node."""
    orphaned_since: float | None = None
    while folder.exists():
        pids = marked(folder)
        _note(folder, pids)
        if _alive(launcher) if launcher else any(map(_is_worker, pids)):
            orphaned_since = None
        else:
            orphaned_since = orphaned_since or time.monotonic()
            if (launcher and not pids) or time.monotonic() - orphaned_since > _ORPHANED_S:
                remove(folder)
        time.sleep(_LOOK_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else None)
