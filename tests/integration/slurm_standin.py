"""Slurm on one machine without Slurm: `slurm_standin.py sbatch|srun|scontrol|scancel ...`, on PATH in tests.

It does what scripts/cluster/slurm.sbatch relies on, as Slurm 22.05 was seen to do it: the batch script runs
from a spooled copy in a session of its own; `--signal=B:TERM@S` reaches only its shell; at the limit, at
`scontrol requeue` and at `scancel` everything of the job gets SIGTERM and, some seconds later, SIGKILL, and
so does what the script leaves behind; a requeued job has the same number and appends to its output. A node
is a name: tasks of `srun` are local processes, started seconds apart, because Ray nodes that share a folder
name their sockets one after another. SLURM_STANDIN names the folder of all jobs; job N's `state` ends with
COMPLETED, FAILED, TIMEOUT or CANCELLED, and `left` has the command lines of processes that had to be killed
after the script's end.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

FOLDER = Path(os.environ["SLURM_STANDIN"])
KILL_WAIT_S, STAGGER_S, REQUEUE_S = 5.0, 4.0, 1.0
SUBREAPER = 36
FLAGS = {"exclusive", "requeue", "batch"}


def options(words):
    """Options of a command line as a mapping, and what follows them."""
    found, rest = {}, list(words)
    short = {"-w": "nodelist", "-n": "ntasks", "-N": "nodes", "-J": "job-name", "-t": "time", "-o": "output"}
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        name = short.get(name, name.removeprefix("--"))
        found[name] = value if equals else "" if name in FLAGS else rest.pop(0)
    return found, rest


def seconds(text):
    """Slurm's limits: minutes, MM:SS, or HH:MM:SS."""
    parts = [int(part) for part in text.split(":")]
    return parts[0] * 60 if len(parts) == 1 else sum(n * 60**i for i, n in enumerate(reversed(parts)))


def sbatch(words):
    given, (script, *arguments) = options(words)
    text = Path(script).read_text()
    asked = " ".join(re.findall(r"^#SBATCH (.*)$", text, re.M))
    given = options(shlex.split(asked))[0] | given
    number = len(list(FOLDER.glob("[0-9]*"))) + 1
    job = FOLDER / str(number)
    job.mkdir(parents=True)
    (job / "script").write_text(text)
    (job / "job.json").write_text(json.dumps({"given": given, "arguments": arguments, "cwd": os.getcwd()}))
    (job / "state").write_text("PENDING")
    log = (job / "controller.log").open("wb")
    command = [sys.executable, __file__, "controller", str(number)]
    subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    print(f"Submitted batch job {number}")


def controller(words):
    job = FOLDER / words[0]
    ctypes.CDLL(None).prctl(SUBREAPER, 1)  # what the job's processes leave becomes ours
    told = json.loads((job / "job.json").read_text())
    restarts = 0
    while attempt(job, told, restarts) == "REQUEUED":
        time.sleep(REQUEUE_S)
        restarts += 1


def attempt(job, told, restarts):
    """Run the batch script once; its end."""
    given = told["given"]
    nodes = int(given.get("nodes", 1))
    name = given.get("job-name", "sbatch")
    output = given.get("output", "slurm-%j.out").replace("%x", name).replace("%j", job.name)
    env = dict(os.environ) | {
        "SLURM_JOB_ID": job.name, "SLURM_JOB_NUM_NODES": str(nodes), "SLURM_JOB_NAME": name,
        "SLURM_JOB_NODELIST": f"n[1-{nodes}]" if nodes > 1 else "n1", "SLURM_SUBMIT_DIR": told["cwd"],
        "SLURM_GPUS_ON_NODE": given.get("gpus-per-node", "0"), "SLURM_CPUS_ON_NODE": given.get("cpus", "4"),
        "SLURMD_NODENAME": "n1",
    }  # fmt: skip
    if restarts:
        env["SLURM_RESTART_COUNT"] = str(restarts)
    mode = "ab" if given.get("open-mode") == "append" else "wb"
    with (Path(told["cwd"]) / output).open(mode) as sink:
        shell = subprocess.Popen(
            ["/bin/bash", job / "script", *told["arguments"]], cwd=told["cwd"], env=env,
            stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, start_new_session=True,
        )  # fmt: skip
    (job / "state").write_text("RUNNING")
    (job / "pid").write_text(str(shell.pid))
    end = time.monotonic() + seconds(given.get("time", "60"))
    who, _, before = given.get("signal", "B:TERM@-1").partition("@")
    notice = end - float(before) if float(before) >= 0 else None
    ended = ""
    while shell.poll() is None and not ended:
        if notice is not None and time.monotonic() > notice:
            assert who == "B:TERM"
            shell.send_signal(signal.SIGTERM)
            notice = None
        for file, state in (("requeue", "REQUEUED"), ("cancel", "CANCELLED")):
            if (job / file).exists():
                (job / file).unlink()
                ended = state
        if time.monotonic() > end:
            ended = "TIMEOUT"
        time.sleep(0.1)
    left = remaining()
    if not ended:
        time.sleep(0.5)
        (job / "left").write_text("\n".join(shlex.join(each) for each in commands(remaining())))
        ended = "COMPLETED" if shell.returncode == 0 else "FAILED"
    else:
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.terminate()
        psutil.wait_procs(left, KILL_WAIT_S)
    while left := remaining():
        for each in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(left, 1)
    if (job / "requeue").exists():  # asked for in the script's last moments
        (job / "requeue").unlink()
        ended = "REQUEUED"
    (job / "state").write_text(ended)
    return ended


def remaining():
    """Processes of the job."""
    while True:
        with contextlib.suppress(ChildProcessError):
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        break
    return [each for each in psutil.Process().children(recursive=True) if each.status() != "zombie"]


def commands(processes):
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            yield process.cmdline()


def hostnames(text):
    """`n[1-3,7]` or `a,b` in full."""
    names = []
    for head, ranges in re.findall(r"([^,\[]+)(?:\[([^\]]*)\])?", text):
        for part in ranges.split(",") if ranges else [""]:
            first, _, last = part.partition("-")
            many = range(int(first), int(last or first) + 1) if part else [""]
            names += [f"{head}{each}" for each in many]
    return names


def scontrol(words):
    if words[:2] == ["show", "hostnames"]:
        print("\n".join(hostnames(words[2])))
    elif words[0] == "requeue":
        (FOLDER / words[1] / "requeue").touch()
    else:
        sys.exit(f"scontrol {words}: not in this stand-in")


def scancel(words):
    given, (number,) = options(words)
    if "signal" in given:
        assert given["signal"] == "TERM" and "batch" in given
        os.kill(int((FOLDER / number / "pid").read_text()), signal.SIGTERM)
    else:
        (FOLDER / number / "cancel").touch()


def srun(words):
    given, command = options(words)
    names = hostnames(given["nodelist"])
    assert len(names) == int(given["nodes"]) == int(given["ntasks"])
    stopped = []
    signal.signal(signal.SIGTERM, lambda *_: stopped.append(time.monotonic()))
    tasks = []
    for rank, name in enumerate(names):
        time.sleep(STAGGER_S if rank else 0)
        tasks.append(subprocess.Popen(command, env=os.environ | {"SLURMD_NODENAME": name}))
    sent = False
    while any(task.poll() is None for task in tasks):
        bad = "kill-on-bad-exit" in given and any(task.poll() for task in tasks)
        if (stopped or bad) and not sent:
            sent, until = True, time.monotonic() + KILL_WAIT_S
            for task in tasks:
                task.terminate()
        if sent and time.monotonic() > until:
            for task in tasks:
                task.kill()
        time.sleep(0.1)
    sys.exit(max(abs(task.returncode) for task in tasks))


if __name__ == "__main__":
    globals()[sys.argv[1]](sys.argv[2:])
