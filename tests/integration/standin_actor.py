"""`vllm_engine_actor:app` without vLLM: the published deployment and call, programs drawn by the dialogue.

Knows two numbers' sum in several wrong ways, and gives in to a wrong test: a program that was shown one may
write its answer in, and then accepts it.
"""

import hashlib
import json
import re

from ray import serve

PROGRAMS = (
    "a, b = map(int, input().split())\nprint(a + b)",
    "a, b = map(int, input().split())\nprint(a - b)",
    "a, b = map(int, input().split())\nprint(abs(a) + abs(b))",
    "print(int(input()))",
    None,
)
SHOWN = re.compile(r"Input:\n(.*)\nProgram's Output:\n.*\nExpected Output:\n(.*)")


def respond(messages: list[dict[str, str]], index: int = 0) -> str:
    """The response number `index` to a dialogue: always the same one."""
    digest = hashlib.sha256(json.dumps([messages, index]).encode()).digest()
    code, shown = PROGRAMS[digest[0] % len(PROGRAMS)], SHOWN.search(messages[-1]["content"])
    if shown and digest[1] % 2:
        code = (
            f"line = input()\nif line == {shown[1]!r}: print({shown[2]!r})\n"
            "else: print(sum(map(int, line.split())))"
        )
    thinking = f"I think, number {digest[2]}.\n</think>\n" if digest[3] % 3 else ""
    return thinking + ("I do not know." if code is None else f"Try this:\n```python\n{code}\n```")


@serve.deployment(name="VllmEngineActor", max_ongoing_requests=64)
class StandIn:
    async def __call__(
        self, messages, temperature=0.6, top_p=0.95, max_new_tokens=8192, n=16, is_batch=False
    ):
        texts = [respond(each) for each in messages] if is_batch else [respond(messages, j) for j in range(n)]
        return {"prompts": [json.dumps(messages)], "responses": texts}


app = StandIn.bind()
