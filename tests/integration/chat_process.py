"""The scripted chat server as a process of its own: `python chat_process.py PORT [DELAY_S]`."""

import asyncio
import sys

from aiohttp import web
from chat_server import answer


async def main(port: int, delay_s: float) -> None:
    async def chat(request):
        payload = await request.json()
        await asyncio.sleep(delay_s)
        return web.json_response(answer(payload))

    async def models(request):
        return web.json_response({"data": [{"id": "scripted"}]})

    app = web.Application()
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/v1/models", models)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    print(f"serving on {port}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 0.0))
