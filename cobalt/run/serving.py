"""The server that engine `vllm` needs, started for the stages that use it and ended before training."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from cobalt.config.sections import Serving
from cobalt.errors import InfraError
from cobalt.run.view import View
from cobalt.training.leftovers import MARK
from cobalt.training.process import private_folder

GRACE_S = 20.0  # for a server that was asked to end; then it is killed
_TAIL_LINES = 20


class Server:
    """One model behind an OpenAI-compatible API on this machine.

    `model`: a folder or hub name. `folder` gets the log. `url` starts it and waits until it answers; `close`
    ends it, with all that it started, and nothing else: its processes inherit a mark in their environment, by
    which they are also ended when this process is killed.
    """

    def __init__(self, settings: Serving, model: str, max_context: int, folder: Path) -> None:
        self.settings, self.model, self.max_context, self.folder = settings, model, max_context, folder
        self.log = folder / "server.log"
        self._url = ""
        self._child: subprocess.Popen[bytes] | None = None
        self._held = contextlib.ExitStack()

    def url(self, view: View | None = None) -> str:
        """The address of the API; the server is started first if need be (`view` is told).

        Raises InfraError if the server ends, or does not answer in time.
        """
        if self._child is None or self._child.poll() is not None:
            self.close()
            if view is not None:
                view.note(f"starting the server for {self.model} (log: {self.log})")
            try:
                self._url = self._start()
            except BaseException:
                self.close()
                raise
        return self._url

    def close(self) -> None:
        """End the server. Harmless if it has ended."""
        child, self._child = self._child, None
        if child is not None and child.poll() is None:
            child.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(GRACE_S)
            child.kill()
            child.wait()
        self._held.close()

    def _start(self) -> str:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        url = f"http://127.0.0.1:{port}"
        self.folder.mkdir(parents=True, exist_ok=True)
        command, held = self._command(port), str(self._held.enter_context(private_folder()))
        env = {**os.environ, MARK: held, "VLLM_NO_USAGE_STATS": "1"}
        with self.log.open("ab") as log:
            try:
                self._child = subprocess.Popen(
                    command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    start_new_session=True,  # Ctrl-C reaches the run only, which then closes the server
                )  # fmt: skip
            except OSError as error:
                raise InfraError(
                    f"the server for {self.model} cannot be started: {command[0]}: {error.strerror}"
                ) from None
        deadline = time.monotonic() + self.settings.start_s
        while time.monotonic() < deadline:
            if _answers(f"{url}/v1/models"):
                return url
            status = self._child.poll()
            if status is not None:
                raise InfraError(f"the server for {self.model} ended with status {status}; {self._said()}")
            time.sleep(0.3)
        raise InfraError(
            f"the server for {self.model} did not answer at {url} within {self.settings.start_s} s "
            f"(execution.serving.start_s); {self._said()}"
        )

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

    def _said(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:]
        return f"its log ({self.log}) ends:\n" + "\n".join(f"    {line[:300]}" for line in lines)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return isinstance(json.load(response).get("data"), list)
    except (OSError, ValueError):
        return False
