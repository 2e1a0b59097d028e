"""`vllm_engine_actor:app` without vLLM: the published deployment and call, programs drawn by the dialogue."""

import json

from chat_server import respond
from ray import serve


@serve.deployment(name="VllmEngineActor", max_ongoing_requests=64)
class StandIn:
    async def __call__(
        self, messages, temperature=0.6, top_p=0.95, max_new_tokens=8192, n=16, is_batch=False
    ):
        texts = [respond(each) for each in messages] if is_batch else [respond(messages, j) for j in range(n)]
        return {"prompts": [json.dumps(messages)], "responses": texts}


app = StandIn.bind()


@serve.deployment(name="Evaluator")
class OldEvaluator:
    """An evaluator of the published protocol: one request, and nothing but verdicts and texts."""

    async def __call__(self, payload):
        tests = payload["test_cases"]["inputs"]
        return {"passing": [True] * len(tests), "feedback": [payload["code"]] * len(tests)}


old_evaluator = OldEvaluator.bind()
