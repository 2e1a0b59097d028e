"""A host that is itself limited, or is root: right verdicts or an error that names what is in the way."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
import threading
import time

import psutil
import pytest

from cobalt.sandbox.limits import Limits
from cobalt.sandbox.worker import Worker

bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash")

# Prints "right" if a right and a wrong program are told apart, else the error's text.
JUDGE = textwrap.dedent(
    """
    import sys
    from cobalt.errors import InfraError
    from cobalt.evaluator import LocalEvaluator
    programs = {
        "echo": ("print(input())", "ab", "ab"),
        "memory": ("x = bytes(200 << 20); print(len(x) >> 20)", "", "200"),
        "output": ("print('x' * (3 << 20))", "", "x" * (3 << 20)),
        "threads": ("import threading\\nb = threading.Barrier(11)\\n"
                    "for _ in range(10): threading.Thread(target=b.wait).start()\\n"
                    "b.wait()\\nprint(1)", "", "1"),
        "cpu": (f"import time\\nwhile time.process_time() < {sys.argv[2]}: pass\\nprint(1)", "", "1"),
        "wrong": ("print(int(input()) + 1)", "1", "2"),
    }
    try:
        with LocalEvaluator(1, isolation=sys.argv[1], shared_verdicts=False) as evaluator:
            for name, (code, given, wanted) in programs.items():
                for output, passes in ((wanted, True), ("another", False)):
                    result = evaluator.evaluate(code, {"inputs": [given], "outputs": [output]})
                    if result["status"] == "infra_error":
                        raise InfraError(result["feedback"][0])
                    assert result["passing"] == [passes], (name, passes, result)
        print("right")
    except InfraError as error:
        print("infra", error)
    """
)

# What `ulimit` calls them, values that are in the way of something, and what the error may say.
HARD = {
    "open files": ("-Hn 64", r"RLIMIT_NOFILE|ulimit -H?n"),
    "stack": ("-Hs 8192", r"RLIMIT_STACK|ulimit -H?s"),
    "file size": ("-Hf 1024", r"RLIMIT_FSIZE|ulimit -H?f"),
    "address space": ("-Hv 800000", r"RLIMIT_AS|ulimit -H?v"),
    "data": ("-Hd 150000", r"RLIMIT_DATA|ulimit -H?d"),
    "CPU time": ("-Ht 3", r"RLIMIT_CPU|ulimit -H?t"),
    "what is in nobody's way": (
        "-Ss 4096 && ulimit -Hi 16 && ulimit -Hl 0 && ulimit -Hq 0 && ulimit -Hc 0",
        "^$",
    ),
    "processes": ("-Hu 8", r"RLIMIT_NPROC|ulimit -H?u"),
}
ORDINARY = ("open files", "stack", "file size")


def _judged(level: str, setting: str) -> subprocess.CompletedProcess[str]:
    soft = setting.replace("-H", "-S")
    script = f'ulimit {soft} && ulimit {setting} && exec "$@"'
    # Only a limit of CPU time is in the way of a program that needs much of it; the default limit is 4 s.
    burn = "3.3" if "t" in setting.split()[0] else "0.1"
    command = ["bash", "-c", script, "bash", sys.executable, "-c", JUDGE, level, burn]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


@bash
@pytest.mark.parametrize("level", ["namespaces", "landlock"])
@pytest.mark.parametrize(
    "what", [pytest.param(each, marks=() if each in ORDINARY else pytest.mark.full) for each in HARD]
)
def test_a_limit_of_the_host_s_own_makes_no_verdict_wrong(usable, level, what):
    setting, named = HARD[what]
    done = _judged(usable(level), setting)
    if done.returncode != 0:
        # The host's own end is no verdict either, if it is said why.
        pytest.fail(f"exit status {done.returncode}: {done.stderr[-1500:]}")
    answer = done.stdout.strip()
    if answer != "right":
        assert answer.startswith("infra ")
        assert re.search(named, answer), answer


STATUS = """
import ctypes, os, struct
for work in (lambda: os.setuid(65000), lambda: os.setgid(65000), lambda: os.setgroups([1])):
    try: work()
    except OSError: continue
    print('another user')
try:
    for line in open('/proc/self/status'):
        if line.startswith('Cap'): print(int(line.split()[1], 16))
except OSError: pass
# Asked of the kernel as well, for /proc need not be there: effective, permitted, inheritable.
libc = ctypes.CDLL(None, use_errno=True)
header, data = ctypes.create_string_buffer(struct.pack('Ii', 0x20080522, 0)), ctypes.create_string_buffer(24)
if libc.capget(header, data) == 0: print(*struct.unpack('6I', data))
print(0, sum(max(0, libc.prctl(23, each, 0, 0, 0)) for each in range(41)))
"""


def test_a_program_has_no_capability_and_can_be_no_other_user(box):
    numbers = [int(each) for each in box.output(STATUS).split()]
    assert len(numbers) >= 2 and set(numbers) == {0}


@pytest.mark.skipif(os.geteuid() != 0, reason="started by an ordinary user")
@pytest.mark.parametrize("level", ["namespaces", "landlock"])
def test_a_test_runs_under_another_account_than_the_host(usable, level):
    """Seen from outside, while a program of the worker sleeps."""
    worker = Worker(usable(level))
    try:
        limits = Limits(cpu_s=1.0, wall_s=1.0)
        found: list[set[int]] = []

        def look() -> None:
            time.sleep(0.5)
            children = psutil.Process(worker.pid).children(recursive=True)
            found.append({number for each in children for number in each.uids()})

        watcher = threading.Thread(target=look)
        with worker.program(b"import time\ntime.sleep(30)", limits) as program:
            watcher.start()
            program.run(b"")
            watcher.join()
        assert found and found[0] and 0 not in found[0]
    finally:
        worker.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="started by an ordinary user")
def test_a_program_started_by_root_is_not_root_and_root_s_files_stay_root_s(box, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o600)
    code = f"""
import os
print(*[each for each in (*os.getresuid(), *os.getresgid(), *os.getgroups()) if each == 0])
for work in (lambda: open({str(secret)!r}).read(), lambda: os.setuid(0), lambda: os.setresuid(0, 0, 0),
             lambda: os.chown({str(secret)!r}, 1000, 1000), lambda: open('/proc/1/mem', 'rb')):
    try: work()
    except OSError: continue
    print('done')
"""
    assert box.output(code) == ""
