"""The server that engine `vllm` needs, started for the stages that use it and ended before training."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from cobalt.errors import InfraError
from cobalt.run.guard import GRACE_S
from cobalt.run.sections import Serving
from cobalt.run.view import View

_TAIL_LINES = 20


class Server:
    """One model behind an OpenAI-compatible API on this machine.

    `model`: a folder or hub name. `folder` gets the log. `url` starts it
    and waits until it answers; `close` ends it, with all that it started, and nothing else.
    """

    def __init__(self, settings: Serving, model: str, max_context: int, folder: Path) -> None:
        self.settings, self.model, self.max_context, self.folder = settings, model, max_context, folder
        self.log = folder / "server.log"
        self._url = ""
        self._guard: subprocess.Popen[bytes] | None = None

    def url(self, view: View | None = None) -> str:
        """The address of the API; the server is started first if need be (`view` is told).

        Raises InfraError if the server ends, or does not answer in time.
        """
        if self._guard is None or self._guard.poll() is not None:
            if view is not None:
                view.note(f"starting the server for {self.model} (log: {self.log})")
            self._url = self._start()
        return self._url

    def _start(self) -> str:
        port = _free_port()
        command = self._command(port)
        url = f"http://127.0.0.1:{port}"
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._guard = subprocess.Popen(
                [sys.executable, "-m", "cobalt.run.guard", *command],
                stdin=subprocess.PIPE, stdout=log, stderr=log,
                start_new_session=True,  # Ctrl-C reaches the run only, which then closes the server
            )  # fmt: skip
        try:
            self._wait(url)
        except BaseException:
            self.close()
            raise
        return url

    def close(self) -> None:
        """End the server. Harmless if it has ended."""
        guard, self._guard = self._guard, None
        if guard is None:
            return
        assert guard.stdin is not None
        with contextlib.suppress(OSError):
            guard.stdin.close()
        try:
            guard.wait(2 * GRACE_S)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()

    def _command(self, port: int) -> list[str]:
        """The user's command, or `vllm serve` with the model's own sampling defaults left out."""
        given = self.settings
        filled = {
            "model": self.model, "port": port, "replicas": given.replicas,
            "tensor_parallel": given.tensor_parallel, "max_context": self.max_context,
        }  # fmt: skip
        if given.command is not None:
            return [word.format(**filled) for word in given.command]
        options = {
            "--host": "127.0.0.1", "--port": port, "--data-parallel-size": given.replicas,
            "--tensor-parallel-size": given.tensor_parallel, "--max-model-len": self.max_context,
            "--gpu-memory-utilization": given.gpu_memory, "--generation-config": "vllm",
        }  # fmt: skip
        vllm = str(Path(sys.executable).with_name("vllm"))
        words = [vllm, "serve", self.model, *(str(word) for pair in options.items() for word in pair)]
        return [*words, "--enforce-eager"] if given.eager else words

    def _wait(self, url: str) -> None:
        """Ask for the list of models until it comes."""
        assert self._guard is not None
        deadline = time.monotonic() + self.settings.start_s
        while time.monotonic() < deadline:
            if _answers(f"{url}/v1/models"):
                return
            status = self._guard.poll()
            if status is not None:
                raise InfraError(f"the server for {self.model} ended with status {status}; {self._said()}")
            time.sleep(0.3)
        raise InfraError(
            f"the server for {self.model} did not answer at {url} within {self.settings.start_s} s "
            f"(execution.serving.start_s); {self._said()}"
        )

    def _said(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        return f"its log ({self.log}) ends:\n" + "\n".join(f"    {line[:300]}" for line in lines)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return isinstance(json.load(response).get("data"), list)
    except (OSError, ValueError):
        return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
