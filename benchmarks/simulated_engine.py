"""A server that speaks the OpenAI protocol and takes the time of a real engine, but has no model.

Real HTTP; `slots` sequences at once, each at `rate` tokens per second, the others wait in line. Lengths are
drawn from a log-normal distribution. Length and text depend on the conversation and the seed only, so two
clients that do the same work get the same answers. `scale` makes its clock run faster. For measuring.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import Any

from aiohttp import web

MODEL = "simulated"


@dataclass(frozen=True)
class Engine:
    """The engine simulated. `median` and `p95` of the completions' lengths in tokens, `cap` their maximum."""

    slots: int = 64
    rate: float = 40.0
    scale: float = 100.0
    median: float = 1500.0
    p95: float = 6000.0
    cap: int = 6144

    @property
    def tokens_per_s(self) -> float:
        """What all slots together give by the wall clock."""
        return self.slots * self.rate * self.scale

    def length(self, uniform: float) -> int:
        """Tokens of a completion at this quantile."""
        normal = statistics.NormalDist()
        sigma = math.log(self.p95 / self.median) / normal.inv_cdf(0.95)
        drawn = math.exp(math.log(self.median) + sigma * normal.inv_cdf(min(max(uniform, 1e-9), 1 - 1e-9)))
        return max(1, min(self.cap, round(drawn)))


def answer(engine: Engine, payload: dict[str, Any]) -> dict[str, Any]:
    """The response to a request; its program fails or passes by a coin of the same hash."""
    digest = hashlib.sha256(json.dumps([payload["messages"], payload.get("seed")]).encode()).digest()
    tokens = engine.length(int.from_bytes(digest[:7], "big") / 2**56)
    code = f"print({digest[7] % 4})  # {digest.hex()[:16]}"
    message = {"role": "assistant", "content": f"```python\n{code}\n```"}
    reason = "length" if tokens == engine.cap else "stop"
    size = sum(len(each["content"]) for each in payload["messages"]) // 4
    return {
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": reason, "message": message}],
        "usage": {"prompt_tokens": size, "completion_tokens": tokens},
    }


async def serve(engine: Engine) -> None:
    """Serve on a free port of this machine; the port is printed. Ends when stdin is closed."""
    slots = asyncio.Semaphore(engine.slots)

    async def chat(request: web.Request) -> web.Response:
        body = answer(engine, await request.json())
        async with slots:
            await asyncio.sleep(body["usage"]["completion_tokens"] / engine.rate / engine.scale)
        return web.json_response(body)

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": MODEL}]})

    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


@contextmanager
def running(engine: Engine) -> Iterator[str]:
    """The server in a process of its own; yields its base URL."""
    command = [sys.executable, __file__, json.dumps(astuple(engine))]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    finally:
        process.communicate()


if __name__ == "__main__":
    asyncio.run(serve(Engine(*json.loads(sys.argv[1]))))
