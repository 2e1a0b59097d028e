"""The training process: its environment, its private Ray folder, its end. Nothing of it is left behind."""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import cobalt
from cobalt.errors import InputError
from cobalt.training import leftovers
from cobalt.training.own_recipe import module_folder

_PREFIX, _OWNER = "cobalt-", "launcher"
_GRACE_S = 10.0
WRITER_WAIT_S = 60.0
_PR_SET_PDEATHSIG = 1
_EVERYWHERE = {
    "PYTHONUNBUFFERED": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "TOKENIZERS_PARALLELISM": "false",
    "VLLM_NO_USAGE_STATS": "1",
    # the published scripts' deadline for a reward request to be accepted
    "RAY_SERVE_QUEUE_LENGTH_RESPONSE_DEADLINE_S": "10.0",
}
_ON_CPU = {
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_worker_niceness": "0",
    "TRANSFER_QUEUE_ENABLE": "1",
    "VERL_PLATFORM": "cpu",
    "VERL_USE_EXTERNAL_MODULES": "cobalt.training.cpu.platform",
}


@contextlib.contextmanager
def output_lock(output: Path, name: str = ".lock", wait_s: float = 0.0) -> Iterator[None]:
    """Hold the output folder. Raises InputError if another training holds it ``wait_s`` seconds later too."""
    try:
        output.mkdir(parents=True, exist_ok=True)
        handle = open(output / name, "w")  # noqa: SIM115 (held while the context is open)
    except OSError as error:
        raise InputError(f"--output {output}: cannot be written ({error.strerror})") from None
    deadline, said = time.monotonic() + wait_s, False
    with handle:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise InputError(f"--output {output}: another training is writing there") from None
            if not said:
                print(f"cobalt: waiting for the training that still writes to {output}", flush=True)
                said = True
            time.sleep(0.2)
        yield


def writer_lock(output: Path) -> contextlib.AbstractContextManager[None]:
    """Held by the process that trains in a cluster, which Ray ends seconds after its launcher was killed."""
    return output_lock(output, ".writer", WRITER_WAIT_S)


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """A folder under the system's temporary directory for sockets, weights and caches; removed at the end.

    The name is short because Ray makes socket paths of it, which may have 107 characters. Folders of
    launchers that were killed together with what watched over them are removed too.
    """
    for old in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*/{_OWNER}"):
        if old.stat().st_uid == os.getuid() and not Path(f"/proc/{old.read_text() or 0}").exists():
            leftovers.remove(old.parent)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    (folder / _OWNER).write_text(str(os.getpid()))
    leftovers.watch(folder, os.getpid())
    try:
        yield folder
    finally:
        leftovers.remove(folder)


def environment(folder: Path, config: Any, metrics: Path) -> dict[str, str]:
    """The environment of the training process, which Ray's processes inherit; ``cobalt.env`` wins.

    ``folder``: the private one; ``metrics``: the file that verl's file logger writes. Modules beside a recipe
    of one's own are looked for after those of PYTHONPATH.
    """
    env = {**os.environ, **_EVERYWHERE, leftovers.MARK: str(folder), "VERL_FILE_LOGGER_PATH": str(metrics)}
    ours = str(Path(cobalt.__file__).resolve().parent.parent)
    beside = str(module_folder(config) or "")
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [ours, env.get("PYTHONPATH"), beside]))
    env.setdefault("HF_HUB_OFFLINE", "1")
    env.setdefault("TENSORBOARD_DIR", str(Path(config.trainer.default_local_dir).parent / "tensorboard"))
    if config.cobalt.threads is not None:
        env["OMP_NUM_THREADS"] = str(config.cobalt.threads)
    if config.trainer.device == "cpu":
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        for name in ("RAY_ADDRESS", "CUDA_VISIBLE_DEVICES"):
            env.pop(name, None)
        env |= {
            **_ON_CPU,
            "COBALT_RAY_DIR": str(folder / "r"),
            "HF_DATASETS_CACHE": str(folder / "datasets"),
            "RAY_AUTH_TOKEN_PATH": str(token),
        }
    return env | {name: str(value) for name, value in config.cobalt.env.items()}


def end_with_parent() -> None:
    """Have the kernel end this process when its parent is killed, so that no training runs unattended."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() == 1:
        sys.exit("the launcher is gone")


def run_worker(arguments: list[str], env: dict[str, str], log: IO[bytes], tick: Callable[[], None]) -> int:
    """Run ``cobalt.training.worker`` to its end and return its status; ``tick`` is called five times a
    second.

    An exception in this process (Ctrl-C too) ends the training first.
    """
    child = subprocess.Popen(
        [sys.executable, "-m", "cobalt.training.worker", *arguments],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,  # Ctrl-C reaches this process only, which then ends the other in order
    )
    try:
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(0.2)
            tick()
            if child.returncode is not None:
                return child.returncode
    finally:
        if child.poll() is None:
            child.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE_S)
            child.kill()
            child.wait()
