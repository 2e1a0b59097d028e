"""An engine of one's own: any model behind two methods. This one writes programs from a list."""

from cobalt.engines.base import STOP, Completion

PROGRAMS = (
    "print(sum(map(int, input().split())))",
    "n = list(map(int, input().split()))\nprint(max(n) - min(n))",
    "print(sum(int(n) % 2 for n in input().split()))",
)


class TemplateEngine:
    def __init__(self, model_name, base_url=None):
        self.name = f"template:{model_name}"  # a run that is continued must find the same name

    async def chat(self, messages, sampling):
        """`sampling.n` completions of the dialogue `messages`: after a program comes the next of the list."""
        last = next((m["content"] for m in reversed(messages) if m["role"] == "assistant"), "")
        begin = next((i + 1 for i, program in enumerate(PROGRAMS) if program in last), sampling.index)
        programs = [PROGRAMS[(begin + i) % len(PROGRAMS)] for i in range(sampling.n)]
        texts = [f"```python\n{program}\n```" for program in programs]
        prompt = sum(len(message["content"].split()) for message in messages)
        return [Completion(text, STOP, prompt, len(text.split())) for text in texts]

    async def aclose(self):
        """Nothing to release."""
