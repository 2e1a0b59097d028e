"""A very large run on a stub engine and a stub judge: memory stays flat; resume on 5 GB starts soon."""

import json
import os
import subprocess
import sys

import pytest

from cobalt.prompts import TINY
from cobalt.rollouts.settings import MultiTurnSettings
from cobalt.rows import encode_row

pytestmark = pytest.mark.full
GIB = 1 << 30
SETTINGS = MultiTurnSettings(n=16, turns=9, first_turn=True, prompts=TINY)

SCRIPT = """
import asyncio, json, sys
from test_inference_memory import SETTINGS
from cobalt.engines.base import Completion
from cobalt.rollouts.multi_turn import multi_turn

TEXT = "```python\\n" + "print(sum(map(int, input().split())))  # some words\\n" * 8 + "```"
SIZES = []

class Engine:
    name, separate = "stub", True
    async def chat(self, messages, sampling):
        await asyncio.sleep(0)
        return [Completion(TEXT, "stop", 100, 100)] * sampling.n

class Judge:
    async def aevaluate(self, code, tests):
        await asyncio.sleep(0)
        return {"passing": [False] * len(tests), "feedback": ["Input:\\n1"] * len(tests), "status": "ok",
                "per_test": [], "suite_limit": False, "shared": False}

class Watch:
    def advance(self, label, done, total, **fields):
        SIZES.append((done, 4096 * int(open("/proc/self/statm").read().split()[1])))

asyncio.run(multi_turn(sys.argv[1], sys.argv[2], Engine(), Judge(), SETTINGS, progress=Watch()))
print(json.dumps(SIZES))
"""


def write_tasks(path, count):
    tests = json.dumps({"inputs": ["1 2\n"] * 3, "outputs": ["3\n"] * 3})
    with open(path, "wb") as handle:
        for i in range(count):
            handle.write(
                encode_row({"id": i, "instruction": f"Add numbers. {i}", "public_test_cases": tests})
            )


def test_memory_of_a_large_run(tmp_path):
    tasks, out, count = tmp_path / "tasks.jsonl", tmp_path / "out.jsonl", 10_000
    write_tasks(tasks, count)
    here = os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])}
    command = [sys.executable, "-c", SCRIPT, str(tasks), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=here)
    sizes = json.loads(done.stdout)
    early = max(size for rows, size in sizes if count // 8 <= rows <= count // 4)
    late = max(size for rows, size in sizes if rows >= 7 * count // 8)
    print(f"after an eighth {early / GIB:.2f} GiB, at the end {late / GIB:.2f} GiB")
    assert late < 1.5 * GIB and late < 1.3 * early + 0.05 * GIB
    with open(out, "rb") as handle:
        assert sum(1 for _ in handle) == count
