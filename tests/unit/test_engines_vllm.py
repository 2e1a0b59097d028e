"""The client of vLLM's Serve application by its handle: the published call, and our own."""

import pytest

from cobalt.engines import check
from cobalt.engines.base import Sampling
from cobalt.engines.vllm_engine import ServeEngine
from cobalt.errors import InfraError, InputError

MESSAGES = [{"role": "user", "content": "hello"}]


class Method:
    """`.remote()` of a handle's method: gives `found`, or raises it."""

    def __init__(self, found):
        self._found = found

    async def remote(self):
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


class Published:
    """A handle of the published deployment: six arguments, two keys."""

    describe = Method(AttributeError("the deployment has no method 'describe'"))

    def __init__(self, *fails):
        self.seen, self.fails = [], list(fails)

    async def remote(self, messages, temperature=0.6, top_p=0.95, max_new_tokens=8192, n=16, is_batch=False):
        self.seen.append((temperature, top_p, max_new_tokens, n, is_batch))
        if self.fails:
            raise self.fails.pop(0)
        return {"prompts": ["p"], "responses": [f"text {i}" for i in range(n)]}


class Ours(Published):
    describe = Method({"model": "tiny", "model_path": "/models/tiny"})
    sessions = ()

    def options(self, session_id):
        self.sessions = [*self.sessions, session_id]
        return self

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

    engine = ServeEngine(Published(ActorDiedError("gone"), OSError("net")))
    assert len(await engine.chat(MESSAGES, Sampling(n=2))) == 2 and engine.retries == 2
    with pytest.raises(InfraError, match="refused a request: top_p"):
        await ServeEngine(Published(ValueError("top_p"))).chat(MESSAGES, Sampling())
    with pytest.raises(InfraError, match="gave up after 1 tries"):
        await ServeEngine(Published(OSError("net")), retries=0).chat(MESSAGES, Sampling())
