"""The client of vLLM deployments: the published call, our own, and addresses of all three kinds."""

import asyncio

import pytest
from aiohttp import web

from cobalt.engines import check
from cobalt.engines.base import Sampling
from cobalt.engines.vllm_engine import ServeEngine, VllmEngine
from cobalt.errors import InfraError, InputError

MESSAGES = [{"role": "user", "content": "hello"}]


class Method:
    """`.remote(...)` of a handle: awaits `call`."""

    def __init__(self, call):
        self._call = call

    async def remote(self, *args, **kw):
        return self._call(*args, **kw)


class Published:
    """A handle of the published deployment: six arguments, two keys."""

    def __init__(self, fails=()):
        self.seen, self.fails = [], list(fails)

    async def remote(self, messages, temperature=0.6, top_p=0.95, max_new_tokens=8192, n=16, is_batch=False):
        self.seen.append((temperature, top_p, max_new_tokens, n, is_batch))
        if self.fails:
            raise self.fails.pop(0)
        return {"prompts": ["p"], "responses": [f"text {i}" for i in range(n)]}

    @property
    def describe(self):
        def missing():
            raise AttributeError("the deployment has no method 'describe'")

        return Method(missing)


class Ours(Published):
    def __init__(self):
        super().__init__()
        self.sessions = []

    def options(self, session_id):
        self.sessions.append(session_id)
        return self

    @property
    def describe(self):
        return Method(lambda: {"model": "tiny", "model_path": "/models/tiny"})

    async def remote(self, messages, *, seeds, details, **kw):
        answer = await super().remote(messages, **kw)
        made = {"finish_reason": "length", "prompt_tokens": 3, "completion_tokens": 2}
        return answer | {"responses": [str(seed) for seed in seeds], "details": [made] * len(seeds)}


async def test_the_published_deployment_is_enough():
    handle = Published()
    engine = ServeEngine(handle)
    await check(engine)
    made = await engine.chat(MESSAGES, Sampling(0.7, 0.9, 50, 2, seed=3))
    assert [each.text for each in made] == ["text 0", "text 1"] and made[0].finish_reason == "stop"
    assert handle.seen == [(0.7, 0.9, 50, 2, False)]


async def test_ours_gets_seeds_and_sessions_and_tells_more():
    handle = Ours()
    engine = ServeEngine(handle, "tiny")
    await check(engine)
    two = await engine.chat(MESSAGES, Sampling(n=2, seed=2**40 + 5, session="s"))
    (second,) = await engine.chat(MESSAGES, Sampling(seed=2**40 + 5, index=1, session="s"))
    assert two[0].text == "5" and two[1].text == second.text and handle.sessions == ["s", "s"]
    assert (two[0].finish_reason, two[0].completion_tokens) == ("length", 2)
    assert engine.name == "vllm:tiny"
    with pytest.raises(InputError, match="serves tiny"):
        await check(ServeEngine(Ours(), "other"))


async def test_faults_of_replicas_are_tried_again():
    class ActorDiedError(Exception):
        pass

    handle = Published([ActorDiedError("gone"), OSError("net")])
    engine = ServeEngine(handle)
    assert len(await engine.chat(MESSAGES, Sampling(n=2))) == 2 and engine.retries == 2
    refused = ServeEngine(Published([ValueError("top_p")]))
    with pytest.raises(InfraError, match="refused a request: top_p"):
        await refused.chat(MESSAGES, Sampling())


@pytest.mark.parametrize("root", ["/v1", "/model/v1"])
async def test_any_address_of_a_server_will_do(root):
    async def models(request):
        return web.json_response({"data": [{"id": "tiny"}]})

    app = web.Application()
    app.router.add_get(f"{root}/models", models)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        for given in (url + root, url + root + "/", url + root.removesuffix("/v1")):
            engine = VllmEngine(given)
            await check(engine)
            assert (engine.base_url, engine.name) == (url + root, "vllm:tiny")
            await engine.aclose()
        wrong = VllmEngine(url + root, "other")
        with pytest.raises(InputError, match="serves tiny"):
            await check(wrong)
        await wrong.aclose()
    finally:
        await runner.cleanup()
    gone = VllmEngine(url)
    with pytest.raises(InputError, match="start one with: serve run vllm_engine_actor:app"):
        await check(gone)
    await asyncio.gather(gone.aclose(), gone.aclose())
