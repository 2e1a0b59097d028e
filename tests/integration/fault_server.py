"""A local OpenAI-compatible server that fails in every way a service does, on a given share of calls.

Which call fails and how depends on the request and on how often it has come; so does nothing in the answer.
"""

import asyncio
import collections
import hashlib
import json
from contextlib import contextmanager

from aiohttp import web
from chat_server import answer
from http_server import serving

FAULTS = ("429", "429 wait", "500", "503", "hang", "torn", "torn json", "no choices", "drop", "slow")


class Faults:
    """What the server did: `calls`, `faulty` by kind, and the answers given out by (conversation, seed)."""

    def __init__(self, share, hang_s):
        self.share, self.hang_s = share, hang_s
        self.calls = 0
        self.faulty = collections.Counter()
        self.given = collections.Counter()
        self._tries = collections.Counter()

    async def chat(self, request):
        payload = await request.json()
        self.calls += 1
        name = json.dumps([payload["messages"], payload["seed"]])
        self._tries[name] += 1
        digest = hashlib.sha256(f"{name}{self._tries[name]}".encode()).digest()
        body = json.dumps(answer(payload)).encode()
        if digest[0] / 256 >= self.share:
            self.given[name] += 1
            return web.Response(body=body, content_type="application/json")
        kind = FAULTS[digest[1] % len(FAULTS)]
        self.faulty[kind] += 1
        if kind.startswith("429"):
            wait = {"Retry-After": "0.02"} if kind == "429 wait" else None
            return web.json_response({"error": {"message": "slow down"}}, status=429, headers=wait)
        if kind in ("500", "503"):
            return web.json_response({"error": {"message": "oops"}}, status=int(kind))
        if kind == "hang":
            await asyncio.sleep(self.hang_s)
            return web.Response(status=504)
        if kind == "no choices":
            return web.json_response({"choices": []})
        if kind == "torn json":
            return web.Response(body=body[: len(body) // 2], content_type="application/json")
        if kind == "drop":
            request.transport.close()
            return web.Response()
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.content_length = len(body)
        await response.prepare(request)
        if kind == "torn":
            await response.write(body[: len(body) // 2])
            request.transport.close()
            return response
        for start in range(0, len(body), 1 + len(body) // 4):  # slow, but whole
            await response.write(body[start : start + 1 + len(body) // 4])
            await asyncio.sleep(0.01)
        self.given[name] += 1
        return response


@contextmanager
def fault_server(share=0.2, hang_s=3.0):
    """Yields the base URL and the Faults; the server runs in a thread."""
    faults = Faults(share, hang_s)
    with serving(faults.chat) as url:
        yield url, faults
