"""A local OpenAI-compatible server whose programs depend on the dialogue and the seed only.

`python chat_server.py PORT` is the same as a process of its own.
"""

import asyncio
import hashlib
import json
import re
import sys
import threading
from contextlib import contextmanager

from aiohttp import web
from http_server import serving

PROGRAMS = (
    "a, b = map(int, input().split())\nprint(a + b)",
    "a, b = map(int, input().split())\nprint(a - b)",
    "a, b = map(int, input().split())\nprint(abs(a) + abs(b))",
    "print(int(input()))",
    None,
)


def answer(payload):
    digest = hashlib.sha256(json.dumps([payload["messages"], payload["seed"]]).encode()).digest()
    code = PROGRAMS[digest[0] % len(PROGRAMS)]
    text = "I do not know." if code is None else f"Try this ({digest[1]}):\n```python\n{code}\n```"
    return {
        "choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": len(str(payload["messages"])), "completion_tokens": len(text)},
    }


SHOWN = re.compile(r"Input:\n(.*)\nProgram's Output:\n.*\nExpected Output:\n(.*)")


def respond(messages: list[dict[str, str]], index: int = 0) -> str:
    """Response number `index` to a dialogue, always the same one.

    Thinks most times, and may give in to a wrong test: then its answer is written into the program.
    """
    digest = hashlib.sha256(json.dumps([messages, index]).encode()).digest()
    code, shown = PROGRAMS[digest[0] % len(PROGRAMS)], SHOWN.search(messages[-1]["content"])
    if shown and digest[1] % 2:
        code = (
            f"line = input()\nif line == {shown[1]!r}: print({shown[2]!r})\n"
            "else: print(sum(map(int, line.split())))"
        )
    thinking = f"I think, number {digest[2]}.\n</think>\n" if digest[3] % 3 else ""
    return thinking + ("I do not know." if code is None else f"Try this:\n```python\n{code}\n```")


@contextmanager
def chat_server(delay_s=0.0, port=0):
    """Yields the base URL and a list of all requests; the server runs in a thread."""
    requests = []

    async def chat(request):
        payload = await request.json()
        requests.append(payload)
        await asyncio.sleep(delay_s)
        return web.json_response(answer(payload))

    with serving(chat, port) as url:
        yield url, requests


def tests_of(*pairs):
    return json.dumps(
        {"inputs": [f"{a} {b}\n" for a, b in pairs], "outputs": [f"{a + b}\n" for a, b in pairs]}
    )


def add_task(key):
    """Add two numbers; the public tests do not see a wrong sign, the hidden ones do."""
    public, hidden = [(1, key + 1), (key, 0)], [(-3, key), (5, -7), (0, 0)]
    return {
        "id": key,
        "difficulty": "easy",
        "group": key % 3,
        "instruction": f"Print the sum of two numbers. ({key})",
        "test_cases": tests_of(*public, *hidden),
        "public_test_cases": tests_of(*public),
        "hidden_test_cases": tests_of(*hidden),
        "notes": {"kept": [key, None, "ä"]},
    }


def rates_of(text, key):
    """Shares of public and hidden tests of `add_task(key)` that a text passes, worked out by hand."""
    if "print(a + b)" in text:
        return 1.0, 1.0
    if "abs" in text:
        return 1.0, 1 / 3
    if "```" not in text or "int(input())" in text:
        return 0.0, 0.0
    return 0.5, (2 if key == 0 else 1) / 3  # -3 - 0 is right


VARIES = ("cpu_s", "wall_s", "peak_bytes", "shared")


def without_times(row):
    """A row without what differs between equal runs: seconds, memory, and whose verdict was shared."""
    if isinstance(row, dict):
        return {k: without_times(v) for k, v in row.items() if k not in VARIES}
    return [without_times(item) for item in row] if isinstance(row, list) else row


if __name__ == "__main__":
    with chat_server(port=int(sys.argv[1])):
        threading.Event().wait()
