"""A local OpenAI-compatible server in a thread, whose answers a test gives."""

import asyncio
import threading
from contextlib import contextmanager

from aiohttp import web


@contextmanager
def serving(chat, port=0):
    """Yields the base URL of a server that answers chat completions by the handler `chat`."""
    started, place = threading.Event(), {}

    async def models(request):
        return web.json_response({"data": [{"id": "scripted"}]})

    async def serve():
        app = web.Application()
        app.router.add_post("/v1/chat/completions", chat)
        app.router.add_get("/v1/models", models)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, backlog=1024).start()
        place["port"], place["stop"], place["loop"] = (
            runner.addresses[0][1], asyncio.Event(), asyncio.get_running_loop(),
        )  # fmt: skip
        started.set()
        await place["stop"].wait()
        await runner.cleanup()

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    assert started.wait(10)
    try:
        yield f"http://127.0.0.1:{place['port']}/v1"
    finally:
        place["loop"].call_soon_threadsafe(place["stop"].set)
        thread.join(10)
