"""A training process as far as its variables and pools go: prints a line of JSON per part, then waits.

Asks from three workers, as verl's reward workers do; one of them is killed between two rounds.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from typing import Any

import ray
from omegaconf import OmegaConf

from cobalt.rewards.cobalt import PROFILES
from cobalt.training import forwarded, pools, scoring
from cobalt.training.config import CONFIG_DIR

TESTS = {"inputs": ["1\n", "2\n"], "outputs": ["2\n", "3\n"]}
PROGRAMS = ("print(int(input()) + 1)", "print(2)", "1 / 0", "print(")


class Asking:
    """A reward worker."""

    def variables(self, names: list[str]) -> list[str | None]:
        return [os.environ.get(name) for name in names]

    def connect(self) -> int:
        settings: Any = OmegaConf.to_container(OmegaConf.load(CONFIG_DIR / "published.yaml").cobalt)
        settings |= {
            "evaluator": "node", "evaluator_workers": None, "reward_profile": next(iter(PROFILES)),
            "token_counter": "policy", "evaluator_retries": 1, "evaluator_wait_s": 60,
        }  # fmt: skip
        self.evaluator = scoring.make_scorer(settings, None).evaluator
        return os.getpid()

    async def judge(self, mark: str) -> list[Any]:
        programs = [f"{code}\n# {mark} {i}" for i in range(2) for code in PROGRAMS]
        found = await asyncio.gather(*(self.evaluator.aevaluate(code, TESTS) for code in programs))
        return [(result["status"], result["passing"]) for result in found]


def say(**values: Any) -> None:
    print(json.dumps(values), flush=True)


def main() -> None:
    forwarded.join({"log_to_driver": False}, os.environ)
    config = OmegaConf.create({"evaluator": "auto", "evaluator_workers": 2})
    found = pools.start(config)
    assert found is not None
    scoring.count_at_end(found)
    workers = [ray.remote(num_cpus=0)(Asking).remote() for _ in range(3)]
    names = json.loads(os.environ["COBALT_TEST_NAMES"])
    say(variables=ray.get(workers[0].variables.remote(names)), evaluator=config.evaluator)
    ray.get([worker.connect.remote() for worker in workers])
    say(verdicts=ray.get([worker.judge.remote(str(i)) for i, worker in enumerate(workers)]))
    say(counters=found.counters)
    ray.kill(workers.pop())
    say(verdicts=ray.get([worker.judge.remote(f"again {i}") for i, worker in enumerate(workers)]))
    if "COBALT_TEST_WAIT" in os.environ:
        say(waiting=True)
        while True:  # as a training goes on while its pools are killed, until it is itself
            time.sleep(0.5)
            say(verdicts=ray.get([workers[0].judge.remote(f"later {time.time()}")]))
    say(counters=scoring.close_evaluators())
    forwarded.leave()


if __name__ == "__main__":
    main()
