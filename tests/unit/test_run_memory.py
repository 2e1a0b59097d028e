"""The memory of a tree of processes."""

import subprocess
import sys

import psutil

from cobalt.run.memory import MemoryPeak


def test_memory_peaks_with_a_large_child():
    hold = "import time\nheld = bytearray(b'x') * 150_000_000\ntime.sleep(1)"
    own = psutil.Process().memory_info().rss / 2**20
    with MemoryPeak(0.1) as memory:
        subprocess.run([sys.executable, "-S", "-c", hold], check=True)
    assert 143 <= memory.peak_mib <= own + 300
