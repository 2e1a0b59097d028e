"""A scripted model and a scripted judge, so that rows of the runners can be written down in full.

A program is a line `pass 0 2`: it passes the tests with these numbers. `broken` in place of the numbers is a
program on which the judge has no verdict.
"""

import asyncio
import hashlib
import json
from pathlib import Path

from cobalt.engines.base import Completion
from cobalt.output import write_jsonl
from cobalt.testcases import TestCases


def fence(code):
    return f"```python\n{code}\n```"


def json_tests(count, tag=""):
    return json.dumps(
        {"inputs": [f"in{tag}{i}" for i in range(count)], "outputs": [f"out{tag}{i}" for i in range(count)]}
    )


def task(key, public=2, hidden=3, **more):
    tests = {
        "inputs": [f"in{i}" for i in range(public + hidden)],
        "outputs": [f"out{i}" for i in range(public + hidden)],
    }
    part = {k: slice(*r) for k, r in {"public": (0, public), "hidden": (public, None)}.items()}
    return {
        "id": key,
        "difficulty": "easy",
        "instruction": f"statement {key}",
        "test_cases": json.dumps(tests),
        **{f"{k}_test_cases": json.dumps({name: v[s] for name, v in tests.items()}) for k, s in part.items()},
        "unknown_key": {"kept": key},
        **more,
    }


class ScriptedEngine:
    """Answers with `reply(messages, sampling, index)`, a text or an exception; records every request."""

    name = "scripted"

    def __init__(self, reply, delay=0.0):
        self.reply, self.delay = reply, delay
        self.requests = []

    async def chat(self, messages, sampling):
        self.requests.append((messages, sampling))
        await asyncio.sleep(self.delay(messages) if callable(self.delay) else self.delay)
        made = []
        for index in range(sampling.n):
            said = self.reply(messages, sampling, index)
            if isinstance(said, Exception):
                raise said
            made.append(
                said
                if isinstance(said, Completion)
                else Completion(said, "stop", len(str(messages)), len(said))
            )
        return made

    async def aclose(self):
        pass


def seeded_reply(messages, sampling, index):
    """A program that depends on the dialogue and the seed only."""
    digest = hashlib.sha256(json.dumps([messages, sampling.seed, index]).encode()).digest()
    return fence("pass " + " ".join(str(i) for i in range(8) if digest[i] % 2))


class ScriptedJudge:
    """Reads the tests passed from the program; `faults` calls answer infra_error first."""

    def __init__(self, faults=0):
        self.faults, self.calls = faults, []

    async def aevaluate(self, code, test_cases):
        tests = TestCases.parse(test_cases)
        self.calls.append((code, len(tests)))
        await asyncio.sleep(0)
        if self.faults or (code and "broken" in code):
            self.faults = max(0, self.faults - 1)
            return self._result([False] * len(tests), "infra_error", ["the sandbox failed"] * len(tests))
        if code is None:
            return self._result([False] * len(tests), "no_code", ["no code"] * len(tests))
        numbers = {int(word) for word in code.split() if word.isdigit()}
        which = [int("".join(c for c in text if c.isdigit())) for text in tests.inputs]
        passing = [number in numbers for number in which]
        feedback = [f"Input:\n{text}\nfailed" for text in tests.inputs]
        return self._result(passing, "ok", feedback)

    @staticmethod
    def _result(passing, status, feedback):
        per_test = [
            {"status": "passed" if ok else "wrong_answer", "cpu_s": 0.0, "wall_s": 0.0, "returncode": 0}
            for ok in passing
        ]
        return {
            "passing": passing, "feedback": feedback, "status": status, "per_test": per_test,
            "suite_limit": False, "shared": False,
        }  # fmt: skip


def rated(path, rates, **more):
    """Evaluated rows from rates [sample][turn] by id; `more`: further fields, the same in all or by id."""
    write_jsonl(path, (
        {"id": key, "all_pass_rates": table}
        | {name: value[key] if isinstance(value, dict) else value for name, value in more.items()}
        for key, table in rates.items()
    ))  # fmt: skip
    return path


def random_model(folder, **changes):
    """A model folder of the tiny reference's shape and tokenizer, with random weights; returns `folder`."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

    reference = Path(__file__).parents[1] / "models" / "tiny-reference"
    torch.manual_seed(2)
    config = AutoConfig.from_pretrained(reference, **changes)
    AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    AutoTokenizer.from_pretrained(reference).save_pretrained(folder)
    return folder
