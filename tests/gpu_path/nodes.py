"""A Ray cluster of local processes with made-up GPUs, trainings on it as a user starts them, and kills."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
from serve_session import free_port

from cobalt.training import checkpoint, result

ROOT = Path(__file__).resolve().parents[2]
FP32 = "{param_dtype:fp32,reduce_dtype:fp32,buffer_dtype:fp32}"
SHARP = (  # rollout and trainer in fp32: they differ by rounding only
    "actor_rollout_ref.rollout.dtype=float32",
    *(f"+actor_rollout_ref.{role}.fsdp_config.mixed_precision={FP32}" for role in ("actor", "ref")),
)
SMALL = (
    "data.max_prompt_length=32", "data.max_response_length=6", "data.train_batch_size=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4", "actor_rollout_ref.rollout.n=4",
    "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4", "actor_rollout_ref.actor.use_kl_loss=true",
    "trainer.val_before_train=false", "trainer.test_freq=-1", "trainer.logger=[console,file]",
)  # fmt: skip
DIALOGUES = (
    "data.max_response_length=280", "cobalt.dialogue.turns=3", "cobalt.dialogue.max_turn_tokens=3",
)  # fmt: skip
TWO_NODES = ("trainer.nnodes=2", "trainer.n_gpus_per_node=1")


class Nodes:
    """Nodes of one cluster; `folder` is the temporary directory of all its processes."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.http = folder, free_port(), free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.shared_before = set(os.listdir("/dev/shm"))
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("RAY_", "VERL_"))}
        self.env = kept | {
            "TMPDIR": str(folder), "RAY_ADDRESS": self.address, "RAY_AUTH_MODE": "disabled",
            "RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0",
            "RAY_raylet_start_wait_time_s": "120",
            "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60", "OMP_NUM_THREADS": "1",
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}",
        }  # fmt: skip
        self.nodes: dict[str, subprocess.Popen[bytes]] = {}

    def add(self, **wanted: dict[str, int]) -> None:
        """Start nodes with so many ``gpus`` and cores for the ``evaluator``, one after another."""
        for name, has in wanted.items():
            self._start(name, **has)
            log = self.folder / f"{name}.log"
            until(
                lambda log=log: "Ray runtime started" in log.read_text(errors="replace"),
                self.nodes[name],
                log,
            )

    def _start(self, name: str, gpus: int = 0, evaluator: int = 0) -> None:
        where = ["--head", f"--port={self.port}", f"--temp-dir={self.folder}/r", "--include-dashboard=false"]
        if self.nodes:
            where = [f"--address={self.address}"]
        log, cores = self.folder / f"{name}.log", 0 if evaluator else 16
        env = {key: value for key, value in self.env.items() if key != "RAY_ADDRESS"}
        with log.open("wb") as sink:
            self.nodes[name] = subprocess.Popen(
                ["ray", "start", "--block", *where, "--node-ip-address=127.0.0.1", f"--num-cpus={cores}",
                 f"--num-gpus={gpus}", f'--resources={{"evaluator": {evaluator}}}',
                 "--object-store-memory=300000000"],
                env=env, stdout=sink, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip

    def kill(self, name: str) -> None:
        """kill -9 of a node: its own processes and every worker on it."""
        kill_tree(self.nodes.pop(name).pid)

    def serve_evaluator(self) -> None:
        """`serve run` of the evaluator, one replica on nodes with the resource."""
        for command in (
            f"serve start --http-host 127.0.0.1 --http-port {self.http}",
            "serve run --non-blocking --name evaluator --route-prefix /evaluator remote_reward_server:app "
            "replicas=1 cpus_per_replica=1 resource=evaluator",
        ):
            done = subprocess.run(
                command.split(), cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=180
            )
            assert done.returncode == 0, done.stdout + done.stderr

    def train(
        self, output: Path, recipe: str, steps: int, files: dict[str, Path], *overrides: str
    ) -> Training:
        return Training(self, output, recipe, steps, files, overrides)

    def left(self) -> dict[str, list[str]]:
        """What there is of this cluster's trainings: processes, sockets, shared memory, private folders."""
        processes = [
            " ".join(process.cmdline())[:100]
            for process in psutil.process_iter()
            if "COBALT_RUN_DIR" in environment(process)
            and environment(process).get("TMPDIR") == self.env["TMPDIR"]
        ]
        return {
            "processes": processes,
            "shared memory": sorted(set(os.listdir("/dev/shm")) - self.shared_before),
            "sockets": [str(path) for path in (*self.folder.glob("rl-*"), *Path("/tmp").glob("rl-*"))],
            "folders": [str(path) for path in self.folder.glob("cobalt-*")],
        }

    def memory(self) -> float:
        """GiB of all processes that belong to this folder, shared pages divided among their users."""
        total = 0
        for process in psutil.process_iter():
            if environment(process).get("TMPDIR") == self.env["TMPDIR"]:
                with contextlib.suppress(psutil.Error):
                    total += process.memory_full_info().pss
        return total / 2**30


class Training:
    """`cobalt train --profile gpu_on_cpu` in a process of its own."""

    def __init__(
        self,
        nodes: Nodes,
        output: Path,
        recipe: str,
        steps: int,
        files: dict[str, Path],
        overrides: tuple[str, ...],
    ) -> None:
        flags = {
            "profile": "gpu_on_cpu", "scale": "tiny", "recipe": recipe, "output": output, "steps": steps,
            "seed": 3, **files,
        }  # fmt: skip
        command = [sys.executable, "-m", "cobalt", "train"]
        command += [part for name, value in flags.items() for part in (f"--{name}", str(value))]
        self.nodes, self.output, self.started = nodes, output, time.monotonic()
        self.said = nodes.folder / f"{output.name}-{time.monotonic_ns()}.txt"
        with self.said.open("wb") as sink:
            self.process = subprocess.Popen(
                [*command, *SMALL, *overrides], env=nodes.env, cwd=ROOT, stdout=sink, stderr=subprocess.STDOUT
            )

    def until_checkpoint(self, step: int, seconds: float = 600) -> None:
        """Until a checkpoint of that step, or a later one, is complete."""
        checkpoints = self.output / "checkpoints"
        until(lambda: checkpoint.checkpoint_step(checkpoints) >= step, self.process, self.said, seconds)

    def until_step(self, step: int, seconds: float = 600) -> None:
        """Until that step's metrics are written."""
        until(lambda: step in steps(self.output), self.process, self.said, seconds)

    def processes(self, name: str) -> list[psutil.Process]:
        """Processes of this training whose command line starts with a name."""
        return [
            process for process in psutil.process_iter()
            if " ".join(command(process)).startswith(name)
            and environment(process).get("TMPDIR") == self.nodes.env["TMPDIR"]
        ]  # fmt: skip

    def wait(self, seconds: float) -> tuple[int, str]:
        """Exit status and what it printed."""
        try:
            return self.process.wait(seconds), self.said.read_text()
        except subprocess.TimeoutExpired:
            self.process.kill()  # the next test needs the cluster
            raise AssertionError(f"still runs after {seconds} s:\n{self.said.read_text()}") from None


@contextlib.contextmanager
def nodes() -> Iterator[Nodes]:
    folder = Path(tempfile.mkdtemp(prefix="g", dir="/tmp"))  # socket paths must be short
    made = Nodes(folder)
    try:
        yield made
    finally:
        for node in reversed(made.nodes.values()):
            kill_tree(node.pid)
        for process in psutil.process_iter():
            if environment(process).get("TMPDIR") == str(folder):
                with contextlib.suppress(psutil.Error):
                    process.kill()
        shutil.rmtree(folder, ignore_errors=True)


class Peak:
    """The most memory seen while a training runs, looked at every three seconds."""

    def __init__(self, made: Nodes) -> None:
        self.gib, self._ended = 0.0, threading.Event()
        self._thread = threading.Thread(target=self._look, args=(made,), daemon=True)

    def _look(self, made: Nodes) -> None:
        while not self._ended.wait(3):
            self.gib = max(self.gib, made.memory())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def steps(output: Path) -> list[int]:
    """Steps of all launches whose metrics are written, in the order of the launches."""
    files = [folder / result.METRICS for folder in result.launch_folders(output)]
    return [
        record["step"]
        for path in files
        if path.exists()
        for record in result.read_metrics([path])
        if record["step"]
    ]


def until(
    condition: Callable[[], bool], process: subprocess.Popen[bytes], said: Path, seconds: float = 120
) -> None:
    """Until a condition holds; what the process said is shown if it ends, or the time is over, before."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert process.poll() is None and time.monotonic() < deadline, said.read_text(errors="replace")
        time.sleep(0.05)


def kill_tree(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in [parent, *parent.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)


def environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except (psutil.Error, OSError):
        return {}


def command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.Error, OSError):
        return []
