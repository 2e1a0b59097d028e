"""The OpenAI-compatible engine against a real HTTP server that misbehaves on demand."""

import asyncio
import json
import time
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from cobalt.engines import check
from cobalt.engines.base import Sampling
from cobalt.engines.openai_engine import KEY_VARIABLE, OpenAIEngine
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
    return web.json_response({"error": {"message": message, "code": code}}, status=status, headers=headers)


@asynccontextmanager
async def serving(script, *, models=("m",), **settings):
    """An engine on a server that answers the k-th chat call with script[k] (the last one again and again)."""
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
    app.router.add_post("/v1/chat/completions", chat)
    app.router.add_get("/v1/models", listed)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = site._server.sockets[0].getsockname()[1]
    engine = OpenAIEngine(f"http://127.0.0.1:{port}/v1/", "m", **settings)
    try:
        yield engine, seen
    finally:
        await engine.aclose()
        await runner.cleanup()


async def test_request_and_answer():
    async with serving([answer("text", "length", 7)]) as (engine, seen):
        (made,) = await engine.chat(MESSAGES, Sampling(0.5, 0.9, 100, 1, 2**62 + 5))
    assert (made.text, made.finish_reason, made.prompt_tokens, made.completion_tokens) == (
        "text",
        "length",
        5,
        7,
    )
    payload, header = seen[0]
    assert header is None and payload == {
        "model": "m", "messages": MESSAGES, "temperature": 0.5, "top_p": 0.9, "max_tokens": 100,
        "seed": 5,
    }  # fmt: skip


async def test_n_completions_have_seeds_of_their_own():
    async with serving([lambda payload: answer(str(payload["seed"]))]) as (engine, _):
        three = await engine.chat(MESSAGES, Sampling(n=3, seed=11))
        one = await engine.chat(MESSAGES, Sampling(n=1, seed=11))
    assert len({c.text for c in three}) == 3 and three[0].text == one[0].text == "11"


@pytest.mark.parametrize(
    "fault",
    [
        error(429, "slow down"),
        error(500, "oops"),
        error(503, "busy"),
        web.Response(text='{"choices": [', content_type="application/json"),
        {"choices": []},
        {"choices": [{"message": None}]},
    ],
)
async def test_faults_that_pass_are_tried_again(fault):
    async with serving([lambda _: fault, answer()]) as (engine, seen):
        (made,) = await engine.chat(MESSAGES, Sampling(seed=1))
    assert made.text == "hi" and len(seen) == 2 and engine.retries == 1
    assert seen[0] == seen[1]  # the same seed: a retry does not change the sample


async def test_dropped_connections_and_hangs_are_tried_again():
    async def drop(request):
        request.transport.close()
        return web.Response()

    async def hang(request):
        await asyncio.sleep(30)

    async with serving([drop, hang, answer()], timeout_s=0.3) as (engine, seen):
        (made,) = await engine.chat(MESSAGES, Sampling())
    assert made.text == "hi" and len(seen) == 3
    assert engine.retries == 2


async def test_retry_after_is_kept():
    async with serving([lambda _: error(429, "slow", headers={"Retry-After": "0.4"}), answer()]) as (
        engine,
        _,
    ):
        started = time.monotonic()
        await engine.chat(MESSAGES, Sampling())
    assert time.monotonic() - started >= 0.4


async def test_what_keeps_failing_is_an_infrastructure_error():
    async with serving([lambda _: error(500, "oops")], retries=2) as (engine, seen):
        with pytest.raises(InfraError, match=r"gave up after 3 tries.*HTTP 500: oops"):
            await engine.chat(MESSAGES, Sampling(n=1))
    assert len(seen) == 3


@pytest.mark.parametrize(
    "message, code",
    [
        ("This model's maximum context length is 4096 tokens. However, you requested 9000 tokens "
         "(8000 in the messages, 1000 in the completion).", None),
        ("Input too long", "context_length_exceeded"),
        ("the request exceeds the available context size", None),
    ],
)  # fmt: skip
async def test_over_long_prompts_are_context_overflow(message, code):
    async with serving([lambda _: error(400, message, code)]) as (engine, seen):
        (made,) = await engine.chat(MESSAGES, Sampling())
    assert (made.text, made.finish_reason, made.completion_tokens) == ("", "context_overflow", 0)
    assert len(seen) == 2


async def test_a_prompt_that_fits_gets_the_room_that_is_left():
    said = (
        "'max_tokens' is too large: 8192. This model's maximum context length is 4096 tokens and your "
        "request has 1000 input tokens (8192 > 4096 - 1000)."
    )
    async with serving([lambda _: error(400, said), answer()]) as (engine, seen):
        (made,) = await engine.chat(MESSAGES, Sampling())
    assert made.text == "hi" and [payload.get("max_tokens") for payload, _ in seen] == [8192, None]


async def test_lone_surrogates_become_replacement_characters():
    async with serving([answer()]) as (engine, seen):
        await engine.chat([{"role": "user", "content": "a\ud800b"}], Sampling())
    assert seen[0][0]["messages"][0]["content"] == "a\ufffdb"


async def test_missing_content_is_an_empty_text():
    async with serving([answer(None)]) as (engine, _):
        assert (await engine.chat(MESSAGES, Sampling()))[0].text == ""


async def test_refusals_are_the_users_to_mend(monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    async with serving([lambda _: error(401, "who are you"), lambda _: error(404, "no model")]) as (
        engine,
        seen,
    ):
        with pytest.raises(InputError, match="no key is set in OPENAI_API_KEY"):
            await engine.chat(MESSAGES, Sampling())
        with pytest.raises(InputError, match=r"HTTP 404.*no model"):
            await engine.chat(MESSAGES, Sampling())
    assert len(seen) == 2


async def test_a_refusal_of_one_request_fails_that_request_only():
    async with serving([lambda _: error(400, "unsafe prompt"), answer()]) as (engine, seen):
        with pytest.raises(InfraError, match=r"HTTP 400.*unsafe prompt"):
            await engine.chat(MESSAGES, Sampling())
        assert (await engine.chat(MESSAGES, Sampling()))[0].text == "hi"
    assert len(seen) == 2


async def test_the_key_goes_into_the_header_only(monkeypatch):
    monkeypatch.setenv(KEY_VARIABLE, KEY)
    async with serving([answer(), lambda _: error(403, "no")]) as (engine, seen):
        await engine.chat(MESSAGES, Sampling())
        with pytest.raises(InputError) as refused:
            await engine.chat(MESSAGES, Sampling())
        assert seen[0][1] == f"Bearer {KEY}" and KEY not in json.dumps(seen[0][0])
        assert KEY not in str(refused.value) + engine.name + repr(engine)


async def test_check_looks_for_server_and_model():
    async with serving([answer()], models=("other",)) as (engine, _):
        with pytest.raises(InputError, match="serves other"):
            await check(engine)
    with pytest.raises(InfraError, match="no answer"):
        await check(engine)  # the server is gone
    await engine.aclose()
    async with serving([answer()]) as (engine, _):
        await check(engine)
