"""verl's agent-loop worker with our loops.

The worker, the loops, the reward manager and the evaluator are real; the rollout server is a stub that may
return no token, the queue a dictionary.
"""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace

import pytest
from training_assets import PROGRAMS, TESTS, make_model

from cobalt.training.config import CONFIG_DIR, compose

pytestmark = pytest.mark.slow


class Server:
    """The first dialogue that asks gets the first of ``answers`` at every turn, the second the second."""

    def __init__(self, answers):
        self.answers, self.seen = answers, {}

    async def generate(self, **asked):
        from verl.workers.rollout.replica import TokenOutput

        ids = self.answers[self.seen.setdefault(asked["request_id"], len(self.seen))]
        logprobs = [-0.5] * len(ids) if asked["sampling_params"]["logprobs"] else None
        fields = {"min_global_steps": 3, "max_global_steps": 3}
        return TokenOutput(token_ids=ids, log_probs=logprobs, stop_reason="completed", extra_fields=fields)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("agent") / "model")


@pytest.fixture
def rollout(model, monkeypatch):
    """Runs one prompt twice: ``rollout(recipe, answers)`` gives the rows put and the prompt's status."""
    from verl.trainer.ppo.v1 import agent_loop_tq

    from cobalt.training import scoring
    from cobalt.training.verl_agent import CobaltReward

    rows, status = {}, []

    async def put_rows(keys, fields, tags, partition_id):
        rows.update({key: {name: value[0] for name, value in fields.items()} for key in keys})

    async def put(key, partition_id, tag):
        status.append(tag["status"])

    monkeypatch.setattr(agent_loop_tq.tq, "init", lambda: None)
    monkeypatch.setattr(agent_loop_tq.tq, "async_kv_put", put)
    monkeypatch.setattr(agent_loop_tq.tq, "async_kv_batch_put", put_rows)

    def run(recipe, answers, logprobs):
        given = {"cobalt.config_dir": str(CONFIG_DIR), "actor_rollout_ref.model.path": str(model)}
        config = compose(recipe, "gpu", "published", given, [
            "actor_rollout_ref.rollout.n=2", "cobalt.evaluator=local", "cobalt.token_counter=policy",
            "cobalt.evaluator_workers=1", f"actor_rollout_ref.rollout.calculate_log_probs={logprobs}",
        ])  # fmt: skip
        worker_class = agent_loop_tq.AgentLoopWorkerTQ.__ray_metadata__.modified_class

        async def main():
            worker = worker_class(config, Server(answers))
            reward = CobaltReward(config, worker.tokenizer)
            compute = SimpleNamespace(remote=reward.run_single)
            worker.reward_loop_worker_handles = [SimpleNamespace(compute_score=compute)]
            prompt = {
                "uid": "u", "index": 0, "global_steps": 3,
                "agent_name": config.actor_rollout_ref.rollout.agent.default_agent_loop,
                "raw_prompt": [{"role": "user", "content": "Task 1"}], "data_source": "x",
                "reward_model": {"ground_truth": json.dumps(TESTS)},
                "public_test_cases": json.dumps(TESTS),
                "extra_info": {"split": "train", "prev_best_pass_rate": 0.0},
            }  # fmt: skip
            sampling = {"temperature": 1.0, "top_p": 1.0, "logprobs": logprobs}
            where = {"step": 3, "sample_index": 0, "rollout_n": 0, "validate": False}
            await worker._run_prompt(prompt, sampling, where)
            return rows, status

        try:
            return asyncio.run(main())
        finally:
            scoring.close_evaluators()

    return run


@pytest.mark.parametrize(("recipe", "turns"), [("cobalt", 1), ("mt_grpo", 3)])
@pytest.mark.parametrize("logprobs", [True, False])
def test_an_empty_response_is_scored_and_not_learnt_from(rollout, model, recipe, turns, logprobs):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    right = tokenizer(f"```python\n{PROGRAMS[0]}\n```", add_special_tokens=False)["input_ids"] + [1]
    rows, status = rollout(recipe, [[], right], logprobs)
    assert status == ["running", "finished"] and set(rows) == {"u_0_0", "u_1_0"}
    empty, full = sorted(rows.values(), key=lambda row: int(row["response_mask"].sum()))
    assert set(empty) == set(full)  # else the batch cannot be put together
    if turns == 1:
        assert (empty["responses"].tolist(), empty["response_mask"].tolist()) == ([1], [0])
        assert full["responses"].tolist() == right and full["response_mask"].tolist() == [1, 1]
    assert int(empty["response_mask"].sum()) == 0 and float(empty["rm_scores"][-1]) == -1.0
    assert float(full["rm_scores"][-1]) > float(empty["rm_scores"][-1])
    info = [row["extra_fields"].data["reward_extra_info"] for row in (empty, full)]
    assert [(one["has_code"], one["acc"], one["masked"]) for one in info] == [
        (0.0, 0.0, 0.0),
        (1.0, 1.0, 0.0),
    ]
