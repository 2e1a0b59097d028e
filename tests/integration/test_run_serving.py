"""The server of a run: started, asked, ended; and with it a run that serves, is killed, and continues."""

import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from chat_server import add_task

from cobalt.config.sections import Serving
from cobalt.errors import InfraError
from cobalt.run.serving import Server

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHAT = [sys.executable, str(HERE / "chat_server.py"), "{port}"]


def alive(mark: str) -> list[int]:
    """Processes with a word in their command lines."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def environment_of(entry: Path) -> list[bytes]:
    try:
        return (entry / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def gone(mark: str, within_s: float = 60) -> bool:
    deadline = time.monotonic() + within_s
    while alive(mark) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not alive(mark)


def served(folder: Path, command: list[str], start_s: int = 120) -> Server:
    return Server(Serving(command=command, start_s=start_s), "some/model", 512, folder)


def test_a_server_is_started_answers_and_is_ended(tmp_path):
    mark = f"mark-{tmp_path.name}"
    # A server that starts another process, in a session of its own, as Ray does.
    script = (
        "import os, subprocess, sys; subprocess.Popen(['sleep', '1000'], start_new_session=True); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    server = served(tmp_path, [sys.executable, "-c", script, CHAT[1], "{port}", "0", mark])
    try:
        url = server.url()
        with urllib.request.urlopen(f"{url}/v1/models", timeout=20) as response:
            assert json.load(response)["data"][0]["id"] == "scripted"
        assert server.url() == url  # not started twice
        (child,) = alive(mark)
        environment = environment_of(Path(f"/proc/{child}"))
        marked = next(each for each in environment if each.startswith(b"COBALT_RUN_DIR="))
    finally:
        server.close()
    assert gone(mark)
    left = [entry.name for entry in Path("/proc").iterdir() if marked in environment_of(entry)]
    assert left == [] and not Path(marked.partition(b"=")[2].decode()).exists()
    server.close()


@pytest.mark.parametrize(
    ("code", "start_s", "said"),
    [
        ("print('no such model'); raise SystemExit(3)", 60, "ended with status 3; its log .*no such model"),
        ("import time; time.sleep(1000)", 1, r"did not answer at http://127\.0\.0\.1:\d+ within 1 s"),
    ],
)
def test_a_server_that_does_not_come_is_said_and_ended(tmp_path, code, start_s, said):
    mark = f"mark-{tmp_path.name}-{start_s}"
    server = served(tmp_path, [sys.executable, "-c", code, "{port}", mark], start_s)
    with pytest.raises(InfraError, match=f"(?s)the server for some/model {said}"):
        server.url()
    assert gone(mark)


def test_a_command_that_is_not_there_is_said(tmp_path):
    with pytest.raises(InfraError, match=r"cannot be started: /no-such-server: No such file"):
        served(tmp_path, ["/no-such-server", "{port}"]).url()


def test_the_server_gets_what_the_configuration_says(tmp_path):
    settings = Serving(replicas=2, tensor_parallel=4, eager=True, gpu_memory=0.7)
    program, *words = Server(settings, "owner/model", 4096, tmp_path)._command(1234)
    assert Path(program).name == "vllm" and words[:2] == ["serve", "owner/model"]
    assert words[-1] == "--enforce-eager"
    given = dict(zip(words[2:-1:2], words[3:-1:2], strict=True))
    assert given == {
        "--host": "127.0.0.1", "--port": "1234", "--data-parallel-size": "2", "--tensor-parallel-size": "4",
        "--max-model-len": "4096", "--gpu-memory-utilization": "0.7", "--generation-config": "vllm",
    }  # fmt: skip


CONFIG = """
name: served
tasks: {{family: files, train_file: tasks.jsonl, dev_file: other.jsonl, heldout_file: other.jsonl}}
model: {{path: {model}, engine: vllm, max_context: 4096}}
collect: {{samples: 2, turns: 2}}
train: {{recipe: cobalt}}
execution:
  workers: 2
  serving: {{command: [{python}, {script}, "{{port}}", "{delay}", "{mark}"]}}
"""


class Run:
    """A run up to the hidden tests, whose reference is the scripted server."""

    def __init__(self, folder: Path, delay: float) -> None:
        self.out, self.log, self.mark = folder / "out", folder / "log", f"mark-{folder.name}"
        for name, keys in (("tasks", range(6)), ("other", range(6, 8))):
            with (folder / f"{name}.jsonl").open("w") as handle:
                for key in keys:
                    handle.write(json.dumps(add_task(key)) + "\n")
        self.config = folder / "served.yaml"
        text = CONFIG.format(
            model=ROOT / "models/tiny-reference", python=sys.executable, script=CHAT[1], delay=delay,
            mark=self.mark,
        )  # fmt: skip
        self.config.write_text(text)

    def start(self) -> subprocess.Popen:
        command = [sys.executable, "-m", "cobalt.run", str(self.config), "--out", str(self.out)]
        return subprocess.Popen(
            [*command, "--until", "judge"], stdout=self.log.open("wb"), stderr=subprocess.STDOUT
        )

    def until(self, process: subprocess.Popen, condition, within_s: float = 240) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert process.poll() is None and time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.02)

    def record(self, stage: str) -> dict:
        return json.loads((self.out / "stages" / f"{stage}.json").read_text())


@pytest.mark.slow
def test_a_run_serves_its_model_is_killed_and_continues(tmp_path):
    run = Run(tmp_path, delay=0.5)
    journal = run.out / "collect" / "trajectories.jsonl.journal"
    process = run.start()
    run.until(process, lambda: journal.exists() and journal.stat().st_size)
    assert alive(run.mark)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    assert gone(run.mark)  # the server went with the run

    process = run.start()
    assert process.wait(240) == 0, run.log.read_text()
    assert gone(run.mark, 1)  # ended by the run itself, before it ended
    assert "collect: first programs of the reference: unchanged, kept, 6 rows" in run.log.read_text()
    assert run.record("repair")["attempts"] == 2 and run.record("collect")["attempts"] == 1
    rows = [json.loads(text) for text in (run.out / "collect" / "judged.jsonl").open()]
    assert sorted(row["id"] for row in rows) == list(range(6))
    assert all(len(sample) == 2 for row in rows for sample in row["all_pass_rates"])
    manifest = json.loads((run.out / "collect" / "single.jsonl.manifest.json").read_text())
    assert manifest["settings"]["model"] == "vllm:scripted"
