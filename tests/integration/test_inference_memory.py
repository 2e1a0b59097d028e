"""A very large run on a stub engine and a stub judge: memory stays flat; resume on 5 GB starts soon."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cobalt.manifest import write_manifest
from cobalt.pipeline import Summary
from cobalt.rows import encode_row

pytestmark = pytest.mark.full
GIB = 1 << 30

SCRIPT = """
import asyncio, json, resource, sys, time
from cobalt.engines.base import Completion
from cobalt.prompts import TINY
from cobalt.rollouts.multi_turn import multi_turn
from cobalt.rollouts.settings import MultiTurnSettings

TEXT = "```python\\n" + "print(sum(map(int, input().split())))  # some words\\n" * 8 + "```"
PEAKS = []

class Engine:
    name, separate = "stub", True
    async def chat(self, messages, sampling):
        await asyncio.sleep(0)
        return [Completion(TEXT, "stop", 100, 100)] * sampling.n
    async def aclose(self): pass

class Judge:
    async def aevaluate(self, code, tests):
        await asyncio.sleep(0)
        return {"passing": [False] * len(tests), "feedback": ["Input:\\n1"] * len(tests), "status": "ok",
                "per_test": [], "suite_limit": False, "shared": False}

class Watch:
    def advance(self, label, done, total, **fields):
        pages = int(open("/proc/self/statm").read().split()[1])
        PEAKS.append((done, pages * 4096))

settings = MultiTurnSettings(n=16, turns=9, first_turn=True, prompts=TINY)
began = time.monotonic()
asyncio.run(multi_turn(sys.argv[1], sys.argv[2], Engine(), Judge(), settings, progress=Watch()))
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps({"peak": peak, "seconds": time.monotonic() - began, "by_rows": PEAKS}))
"""


def write_tasks(path, count):
    tests = json.dumps({"inputs": ["1 2\n"] * 3, "outputs": ["3\n"] * 3})
    with open(path, "w") as handle:
        for i in range(count):
            row = {
                "id": i,
                "instruction": f"Add numbers. {i}",
                "test_cases": tests,
                "public_test_cases": tests,
            }
            handle.write(json.dumps(row) + "\n")


def test_memory_of_a_large_run(tmp_path):
    tasks, out = tmp_path / "tasks.jsonl", tmp_path / "out.jsonl"
    count = int(os.environ.get("COBALT_MEMORY_TASKS", "10000"))
    write_tasks(tasks, count)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tasks), str(out)], capture_output=True, text=True, check=True
    )
    facts = json.loads(done.stdout)
    quarter = [size for rows, size in facts["by_rows"] if count // 8 <= rows <= count // 4]
    last = [size for rows, size in facts["by_rows"] if rows >= 7 * count // 8]
    written = out.stat().st_size / GIB
    print(
        f"{count} tasks: peak {facts['peak'] / GIB:.2f} GiB, after an eighth {max(quarter) / GIB:.2f}, "
        f"at the end {max(last) / GIB:.2f}, {facts['seconds']:.0f} s, output {written:.2f} GiB"
    )
    assert facts["peak"] < 1.5 * GIB and max(last) < 1.3 * max(quarter) + 0.05 * GIB
    with open(out, "rb") as handle:
        assert sum(1 for _ in handle) == count


class Waiting:
    """An engine that tells when it is first asked, then refuses: the run has begun."""

    name, separate = "stub", True

    def __init__(self):
        self.asked = None

    async def chat(self, messages, sampling):
        self.asked = self.asked or time.monotonic()
        raise asyncio.CancelledError

    async def aclose(self):
        pass


async def test_resume_of_a_large_output_starts_soon(tmp_path):
    """5 GB of rows, all but one task done."""
    from cobalt.prompts import TINY
    from cobalt.rollouts.multi_turn import multi_turn, open_source
    from cobalt.rollouts.settings import MultiTurnSettings

    size = int(float(os.environ.get("COBALT_RESUME_GB", "5")) * 1e9)
    tasks, out = Path(tmp_path / "tasks.jsonl"), tmp_path / "out.jsonl"
    text = "".join(f"line {i}: print('a \"quoted\" value', {i})\n" for i in range(60))
    message = [{"role": "user", "content": text}] * 20
    row = {
        "conversations": [message] * 16,
        "raw_responses": [[text] * 16] * 9,
        "public_pass_rates": [[0.5] * 16] * 9,
    }
    length = len(encode_row({"id": 10**5, **row}))
    count = size // length + 1
    write_tasks(tasks, count)
    body = encode_row({"id": 0, **row}).removeprefix(b'{"id": 0')
    with open(out, "wb") as handle:
        for i in range(count - 1):
            handle.write(b'{"id": %d' % i + body)
    settings = MultiTurnSettings(n=16, turns=9, first_turn=True, prompts=TINY)
    source = open_source(tasks, settings)
    engine = Waiting()
    made = {
        "stage": "multi turn",
        "model": "stub",
        "input_sha256": source.sha256,
        "feedback": "honest",
        "n": 16,
    }
    write_manifest(out, settings=made | settings.record(), counts=Summary(out).counts())
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await multi_turn(tasks, out, engine, None, settings)
    print(f"{out.stat().st_size / 1e9:.1f} GB: the first request after {engine.asked - began:.1f} s")
    assert engine.asked - began < 60
