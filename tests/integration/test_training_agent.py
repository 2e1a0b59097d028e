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

from cobalt.rewards.records import Rollout
from cobalt.training.config import CONFIG_DIR, compose

pytestmark = pytest.mark.slow


SEEDS = []  # of all requests


class Server:
    """The first dialogue that asks gets the first of ``answers`` at every turn, the second the second."""

    def __init__(self, answers):
        self.answers, self.seen = answers, {}

    async def generate(self, **asked):
        from verl.workers.rollout.replica import TokenOutput

        if not self.answers:
            raise OSError("no server")
        SEEDS.append(asked["sampling_params"].get("seed"))
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

    def run(recipe, answers, logprobs, *overrides):
        given = {"cobalt.config_dir": str(CONFIG_DIR), "actor_rollout_ref.model.path": str(model)}
        config = compose(recipe, "gpu", "published", given, [
            "actor_rollout_ref.rollout.n=2", "cobalt.evaluator=local", "cobalt.token_counter=policy",
            "cobalt.evaluator_workers=1", f"actor_rollout_ref.rollout.calculate_log_probs={logprobs}",
            *overrides,
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
                "extra_info": {"split": "train", "index": 0, "prev_best_pass_rate": 0.0},
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

    from cobalt.training.verl_agent import RECORD

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
    places = [row["extra_fields"].data for row in (empty, full)]
    made = [Rollout.of(at.get(RECORD) or at["reward_extra_info"][RECORD]) for at in places]
    scores = [float(row["rm_scores"][-1]) for row in (empty, full)]
    assert [each.reward for each in made] == pytest.approx(scores)
    assert [len(each.turns) for each in made] == [turns, turns] and made[1].turns[-1].solved
    assert (made[1].turns[0].begin, made[1].turns[0].end, made[0].index) == (0, len(right), 0)
    assert [(one["has_code"], one["acc"], one["masked"]) for one in info] == [
        (0.0, 0.0, 0.0),
        (1.0, 1.0, 0.0),
    ]


@pytest.mark.parametrize(("recipe", "turns"), [("cobalt", 1), ("mt_grpo", 3)])
def test_every_request_has_a_seed_of_its_own_where_seeds_are_asked_for(rollout, recipe, turns):
    """verl would give all of them one."""
    asked = []
    for wanted in ("true", "true", "false"):
        SEEDS.clear()
        rollout(recipe, [[7, 1], [8, 1]], True, f"actor_rollout_ref.rollout.full_determinism={wanted}")
        asked.append(sorted(SEEDS, key=str))
    first, again, without = asked
    assert first == again and len({*first}) == len(first) == 2 * turns and without == [None] * 2 * turns


TREE = ("cobalt.dialogue.turns=2", "cobalt.dialogue.branches=[2,2]", "actor_rollout_ref.rollout.n=4")


def test_a_tree_grows_in_one_worker(rollout):
    from cobalt.training.verl_agent import RECORD, DialogueLoop

    answers = [[5, 6, 1], [7, 1], [8, 1], [9, 1]]
    rows, status = rollout("mt_grpo", answers, True, *TREE)
    assert status == ["running", "finished"] and list(rows) == [f"u_{leaf}_0" for leaf in range(4)]
    made = [Rollout.of(row["extra_fields"].data[RECORD]) for row in rows.values()]
    assert [[(turn.node, turn.shared) for turn in each.turns] for each in made] == [
        [(0, False), (1, False)],
        [(0, True), (3, False)],
        [(4, False), (5, False)],
        [(4, True), (7, False)],
    ]
    for row, record, begin in zip(rows.values(), made, answers[:1] * 2 + answers[1:2] * 2, strict=True):
        mask, responses = row["response_mask"].tolist(), row["responses"].tolist()
        assert responses[: len(begin)] == begin and set(mask[: len(begin)]) == {
            int(not record.turns[0].shared)
        }
        assert sum(mask[record.turns[1].begin :]) == record.turns[1].end - record.turns[1].begin
    assert not DialogueLoop._trees


def test_a_tree_whose_server_fails_is_a_failed_prompt(rollout):
    rows, status = rollout("mt_grpo", [], True, *TREE)
    assert status == ["running", "failure"] and not rows
