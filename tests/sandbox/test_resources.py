# ruff: noqa: E501 (programs in one line)
"""Memory, output, disk, CPU, time, recursion, descriptors."""

import resource

import pytest

from cobalt.sandbox.limits import Limits

QUICK = Limits(cpu_s=0.5, memory_bytes=256 << 20, output_bytes=1 << 20)


def test_a_busy_loop_is_ended_by_cpu_time(box):
    facts = box.run("while True: pass", limits=QUICK)
    assert facts.limit == "cpu"
    assert 0.5 <= facts.cpu_s < 0.8


def test_a_sleeper_is_ended_by_wall_time_and_used_no_cpu(box):
    facts = box.run("import time\ntime.sleep(60)", limits=Limits(cpu_s=0.5, wall_s=1.0))
    assert facts.limit == "wall"
    assert facts.cpu_s < 0.5
    assert 1.0 <= facts.wall_s < 10


@pytest.mark.parametrize(
    "work", ["while True: pass", "while time.process_time() < 0.1: pass"], ids=["that run", "that have ended"]
)
def test_cpu_time_of_children_counts(namespaces, work):
    code = f"""
import os, time
while True:
    if os.fork() == 0:
        {work}
        os._exit(0)
    os.wait()
"""
    facts = namespaces.run(code, limits=Limits(cpu_s=0.6))
    assert facts.limit == "cpu" and facts.cpu_s < 1.2, facts


def test_cpu_time_of_threads_counts(box):
    code = "import threading\ndef spin():\n    while True: pass\nfor _ in range(3): threading.Thread(target=spin).start()"
    assert box.run(code, limits=QUICK).limit == "cpu"


def test_a_cpu_limit_signal_cannot_be_caught_away(box):
    code = "import signal\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError): pass\nwhile True: pass"
    assert box.run(code, limits=QUICK).limit == "cpu"


@pytest.mark.parametrize("code", ["x = bytearray(1 << 30)", "x = []\nwhile True: x.append(bytes(1 << 20))"])
def test_memory_beyond_the_limit_is_a_memory_error(box, code):
    facts = box.run(code)
    assert facts.returncode == 1 and facts.peak_bytes < 300 << 20
    assert facts.stderr.rstrip().endswith(b"MemoryError")


def test_memory_of_many_processes_together_meets_the_limit(namespaces):
    code = """
import os, time
for _ in range(8):
    if os.fork() == 0:
        x = os.urandom(1 << 20) * 150
        time.sleep(20)
        os._exit(0)
time.sleep(20)
"""
    facts = namespaces.run(code, limits=Limits(cpu_s=4, memory_bytes=512 << 20))
    assert facts.limit == "memory"


def test_a_hundred_megabytes_of_output_do_not_reach_the_host(box):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    facts = box.run("while True: print('x' * 10_000_000)")
    assert facts.stdout_size == 1 << 20
    assert len(facts.stdout) == 1 << 20
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_a_flood_on_stderr_is_cut(box):
    facts = box.run("import sys\nwhile True: sys.stderr.write('x' * 100_000)")
    assert facts.stderr_size == 1 << 20
    assert len(facts.stderr) == 1 << 17


def test_descriptors_are_bounded(box):
    facts = box.run(
        "import os\nn = 0\ntry:\n    while True:\n        os.dup(0); n += 1\nexcept OSError: print(n)"
    )
    assert int(facts.stdout) <= 128


def test_files_are_bounded_in_size_and_number(namespaces):
    facts = namespaces.run("open('/tmp/x', 'wb').write(bytes(2 << 20))")
    assert b"OSError: [Errno 27]" in facts.stderr
    code = "n = 0\ntry:\n    while n < 10000:\n        open(f'/tmp/{n}', 'w').close(); n += 1\nexcept OSError: print(n)"
    assert int(namespaces.run(code).stdout) < 5000


def test_locked_memory_is_refused(box):
    code = "import ctypes\nlibc = ctypes.CDLL(None)\nprint(libc.mlockall(3))"
    assert box.output(code) == "-1"


RAISE = """
import resource
soft, hard = resource.getrlimit(resource.{setting})
try:
    resource.setrlimit(resource.{setting}, (hard + 1, hard + 1))
except (OSError, ValueError):
    print('refused', hard > 0)
"""


@pytest.mark.parametrize(
    "setting", ["RLIMIT_AS", "RLIMIT_CPU", "RLIMIT_FSIZE", "RLIMIT_NOFILE", "RLIMIT_NPROC"]
)
def test_limits_cannot_be_raised(box, setting):
    if (box.level, setting) != (
        "landlock",
        "RLIMIT_NPROC",
    ):  # there processes are refused, and threads counted
        assert box.output(RAISE.format(setting=setting)) == "refused True"
