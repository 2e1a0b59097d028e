"""The OpenAI-compatible engine, and vLLM's over HTTP, against a real server that misbehaves on demand."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from cobalt.engines import check, connect
from cobalt.engines.base import Sampling
from cobalt.engines.openai_engine import KEY_VARIABLE, OpenAIEngine
from cobalt.engines.vllm_engine import VllmEngine
from cobalt.errors import InfraError, InputError

MESSAGES = [{"role": "user", "content": "hello"}]
KEY = "sk-canary-3141592653"


def answer(text="hi", reason="stop", tokens=2):
    message = {"role": "assistant", "content": text}
    return {
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 5, "completion_tokens": tokens},
    }


def error(status, message, code=None, headers=None):
    body = {"error": {"message": message, "code": code}}
    return lambda _: web.json_response(body, status=status, headers=headers)


@asynccontextmanager
async def served(script, root="/v1", models=("m",)):
    """The address of a server that answers the k-th chat call with script[k] (the last one again and again),
    and what it was asked.
    """
    seen = []

    async def chat(request):
        payload = await request.json()
        seen.append((payload, request.headers.get("Authorization")))
        step = script[min(len(seen), len(script)) - 1]
        if callable(step):
            step = await step(request) if asyncio.iscoroutinefunction(step) else step(payload)
        return web.json_response(step) if isinstance(step, dict) else step

    async def listed(request):
        return web.json_response({"data": [{"id": name} for name in models]})

    app = web.Application()
    app.router.add_post(f"{root}/chat/completions", chat)
    app.router.add_get(f"{root}/models", listed)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", seen
    finally:
        await runner.cleanup()


@asynccontextmanager
async def serving(*script, models=("m",), **settings):
    """An engine on such a server."""
    async with served(script, models=models) as (url, seen):
        engine = OpenAIEngine(f"{url}/v1/", "m", **settings)
        try:
            yield engine, seen
        finally:
            await engine.aclose()


async def test_request_and_answer():
    async with serving(answer("text", "length", 7), answer(None)) as (engine, seen):
        (made,) = await engine.chat(MESSAGES, Sampling(0.5, 0.9, 100, 1, 2**62 + 5))
        (empty,) = await engine.chat([{"role": "user", "content": "a\ud800b"}], Sampling())
    facts = (made.text, made.finish_reason, made.prompt_tokens, made.completion_tokens)
    assert facts == ("text", "length", 5, 7) and empty.text == ""
    assert seen[0] == ({"model": "m", "messages": MESSAGES, "temperature": 0.5, "top_p": 0.9,
                        "max_tokens": 100, "seed": 5}, None)  # fmt: skip
    assert seen[1][0]["messages"][0]["content"] == "a\ufffdb"
    async with serving(lambda payload: answer(str(payload["seed"]))) as (engine, _):
        three = await engine.chat(MESSAGES, Sampling(n=3, seed=11))
        one = await engine.chat(MESSAGES, Sampling(n=1, seed=11))
    assert len({c.text for c in three}) == 3 and three[0].text == one[0].text == "11"


async def drop(request):
    request.transport.close()
    return web.Response()


async def hang(request):
    await asyncio.sleep(30)


@pytest.mark.parametrize(
    "fault",
    [error(429, "slow down", headers={"Retry-After": "0.4"}), error(503, "busy"), drop, hang,
     lambda _: web.Response(text='{"choices": [', content_type="application/json"), {"choices": []},
     {"choices": [{"message": None}]}],
)  # fmt: skip
async def test_faults_that_pass_are_tried_again(fault):
    began = time.monotonic()
    async with serving(fault, answer(), timeout_s=0.3) as (engine, seen):
        (made,) = await engine.chat(MESSAGES, Sampling(seed=1))
    assert made.text == "hi" and len(seen) == 2 and engine.retries == 1
    assert seen[0] == seen[1]  # the same seed: a retry does not change the sample
    assert time.monotonic() - began >= 0.3  # as long as the service asks for, or a pause of the client's


@pytest.mark.parametrize(
    "fault, kind, says, calls",
    [
        (error(500, "oops"), InfraError, "gave up after 3 tries.*HTTP 500: oops", 3),
        (error(400, "unsafe prompt"), InfraError, "HTTP 400.*unsafe prompt", 1),  # of this request only
        (error(401, f"no {KEY}"), InputError, r"refused access: the key in OPENAI_API_KEY \(.*no \(key\)", 1),
        (error(404, "no model"), InputError, "HTTP 404.*no model", 1),
    ],
)
async def test_what_keeps_failing_is_an_error_that_shows_no_key(monkeypatch, fault, kind, says, calls):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    async with serving(fault, retries=2) as (engine, seen):
        with pytest.raises(kind, match=says) as refused:
            await engine.chat(MESSAGES, Sampling())
    assert len(seen) == calls and seen[0][1] == f"Bearer {KEY}"
    assert KEY not in json.dumps(seen[0][0]) + str(refused.value) + engine.name + repr(engine)


@pytest.mark.parametrize(
    "message, code",
    [
        ("This model's maximum context length is 4096 tokens. However, you requested 9000 tokens "
         "(8000 in the messages, 1000 in the completion).", None),
        ("Input too long", "context_length_exceeded"),
        ("the request exceeds the available context size", None),
    ],
)  # fmt: skip
async def test_over_long_prompts_overflow_and_one_that_fits_gets_the_room_that_is_left(message, code):
    async with serving(error(400, message, code)) as (engine, seen):
        (made,) = await engine.chat(MESSAGES, Sampling())
    assert (made.text, made.finish_reason, made.completion_tokens) == ("", "context_overflow", 0)
    assert [payload.get("max_tokens") for payload, _ in seen] == [8192, None]
    async with serving(error(400, message, code), answer()) as (engine, seen):
        assert (await engine.chat(MESSAGES, Sampling()))[0].text == "hi"


async def test_check_looks_for_server_and_model():
    async with serving(answer(), models=("other",)) as (engine, _):
        with pytest.raises(InputError, match="serves other"):
            await check(engine)
    async with serving(answer()) as (engine, _):
        await check(engine)
    engine = OpenAIEngine(engine.base_url, "m")
    with pytest.raises(InfraError, match="no answer"):
        await check(engine)  # the server is gone
    await engine.aclose()


@pytest.mark.parametrize("root", ["/v1", "/model/v1"])
async def test_any_address_of_a_vllm_server_will_do(root):
    async with served([answer()], root, ["tiny"]) as (url, _):
        for given in (url + root, url + root + "/", url + root.removesuffix("/v1")):
            engine = VllmEngine(given)
            await check(engine)
            assert (engine.base_url, engine.name) == (url + root, "vllm:tiny")
            await engine.aclose()
        wrong = VllmEngine(url + root, "other")
        with pytest.raises(InputError, match="serves tiny"):
            await check(wrong)
        await wrong.aclose()
    gone = VllmEngine(url)
    with pytest.raises(InputError, match="start one with: serve run vllm_engine_actor:app"):
        await check(gone)
    await gone.aclose()


@pytest.mark.parametrize(
    "name, model, url, says",
    [
        ("vllm", "m", "localhost:8000", "http://"),
        ("litellm", None, None, "--model_name"),
        ("nope", "m", None, "unknown engine 'nope': choose one of"),
        ("openai", None, None, "--model_name"),
        ("transformers", None, None, "--model_name"),
        ("openai", "m", None, "--base_url"),
        ("openai", "m", "localhost:8000", "http://"),
        ("transformers", "m", "http://localhost/v1", "--base_url does not go with it"),
        ("none.py:Engine", "m", None, "there is no file none.py"),
        ("no.such:Engine", "m", None, "there is no module no.such"),
        ("cobalt.errors:Engine", "m", None, "cobalt.errors has no Engine"),
        ("builtins:dict", [], None, "lacks chat, aclose"),
    ],
)
def test_engines_that_cannot_be_opened(name, model, url, says):
    with pytest.raises(InputError, match=says):
        connect(name, model, url)
