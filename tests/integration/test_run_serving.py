"""The server of a run: started, asked, ended; and with it a run that serves, is killed, and continues."""

import json
import signal
import sys
import urllib.request
from pathlib import Path

import pytest
from chat_server import add_task
from run_process import RunProcess, found, gone

from cobalt.config.sections import Serving
from cobalt.errors import InfraError
from cobalt.run.serving import Server

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CHAT = [sys.executable, str(HERE / "chat_server.py"), "{port}"]


def served(folder: Path, command: list[str], start_s: int = 120) -> Server:
    return Server(Serving(command=command, start_s=start_s), "some/model", 512, folder)


def test_a_server_is_started_answers_and_is_ended(tmp_path):
    mark = f"mark-{tmp_path.name}"
    # A server that starts another process, in a session of its own, as Ray does.
    script = (
        "import os, subprocess, sys; subprocess.Popen(['sleep', '1000'], start_new_session=True); "
        "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
    )
    server = served(tmp_path, [sys.executable, "-c", script, CHAT[1], "{port}", mark])
    try:
        url = server.url()
        with urllib.request.urlopen(f"{url}/v1/models", timeout=20) as response:
            assert json.load(response)["data"][0]["id"] == "scripted"
        assert server.url() == url  # not started twice
        (child,) = found(mark)
        private = child.environ()["COBALT_RUN_DIR"]
        assert len(found(f"COBALT_RUN_DIR={private}")) > 1
    finally:
        server.close()
    assert gone(mark) and gone(f"COBALT_RUN_DIR={private}", 1) and not Path(private).exists()
    server.close()


@pytest.mark.parametrize(
    ("command", "start_s", "said"),
    [
        (
            [sys.executable, "-c", "print('no such model'); raise SystemExit(3)"],
            60,
            "status 3; .*no such model",
        ),
        ([sys.executable, "-c", "import time; time.sleep(1000)"], 1, r"127\.0\.0\.1:\d+ within 1 s"),
        (["/no-such-server"], 1, "cannot be started: /no-such-server: No such file"),
    ],
)
def test_a_server_that_does_not_come_is_said_and_ended(tmp_path, command, start_s, said):
    mark = f"mark-{tmp_path.name}-{start_s}"
    with pytest.raises(InfraError, match=f"(?s)the server for some/model .*{said}"):
        served(tmp_path, [*command, "{port}", mark], start_s).url()
    assert gone(mark)


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
model: {{path: {model}, engine: vllm, max_context: 1024}}
collect: {{samples: 2, turns: 2}}
train: {{recipe: cobalt}}
execution:
  workers: 2
  serving: {{command: [{python}, {script}, "{{port}}", "{mark}"]}}
"""


@pytest.mark.slow
def test_a_run_serves_its_model_is_killed_and_continues(tmp_path):
    for name, keys in (("tasks", range(6)), ("other", range(6, 8))):
        rows = (json.dumps(add_task(key)) + "\n" for key in keys)
        (tmp_path / f"{name}.jsonl").write_text("".join(rows))
    given = {"model": ROOT / "models/tiny-reference", "python": sys.executable, "script": CHAT[1]}
    mark = f"mark-{tmp_path.name}"
    run = RunProcess(tmp_path / "served.yaml", CONFIG.format(**given, mark=mark))
    journal = run.out / "collect" / "trajectories.jsonl.journal"
    process = run.start("--until", "judge")
    run.until(process, lambda: journal.exists() and journal.stat().st_size)
    assert found(mark)
    process.send_signal(signal.SIGKILL)
    process.wait(30)
    assert gone(mark)  # the server went with the run

    process = run.start("--until", "judge")
    assert process.wait(240) == 0, run.said()
    assert gone(mark, 1)  # ended by the run itself, before it ended
    assert "collect: first programs of the reference: unchanged, kept, 6 rows" in run.said()
    assert run.record("repair")["attempts"] == 2 and run.record("collect")["attempts"] == 1
    rows = [json.loads(text) for text in (run.out / "collect" / "judged.jsonl").open()]
    assert sorted(row["id"] for row in rows) == list(range(6))
    assert all(len(sample) == 2 for row in rows for sample in row["all_pass_rates"])
    manifest = json.loads((run.out / "collect" / "single.jsonl.manifest.json").read_text())
    assert manifest["settings"]["model"] == "vllm:scripted"
