"""Parts that plug into verl, tried against the installed library without starting a training."""

from __future__ import annotations

import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf

from cobalt.engines.turn_end import next_turn_ids
from cobalt.errors import InfraError, InputError
from cobalt.rewards.groups import grpo
from cobalt.rewards.records import Rollout, Turn
from cobalt.training import checkpoint
from cobalt.training.config import choices, compose
from cobalt.training.groups import masked_keys

pytestmark = pytest.mark.slow


def test_group_advantages_are_verls():
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage

    rewards = [1.0, 0.2, -0.1, 0.0]
    scores = torch.tensor(rewards)[:, None]
    found, _ = compute_grpo_outcome_advantage(scores, torch.ones(4, 1), np.array(["a"] * 4))
    assert found[:, 0].tolist() == pytest.approx(grpo(rewards), abs=1e-5)


def test_an_advantage_of_ones_own_is_an_estimator_of_verl():
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    from cobalt.recipes.verpo import advantage
    from cobalt.training import advantages as plugin
    from cobalt.training.own_update import ADVANTAGE, own_function

    # group a: a dialogue of two turns (3 tokens, 2 of feedback, 2 tokens) and one of one turn; then padding
    long = Rollout(1.0, (Turn(0.2, (True, False), 0, 3, 0), Turn(1.0, (True, True), 5, 7, 1)))
    short = Rollout(0.0, (Turn(0.0, (False, False), 0, 4, 2),))
    mask = torch.tensor([[1, 1, 1, 0, 0, 1, 1], [1, 1, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0]])
    own = own_function(compose("verpo", "cpu", "tiny", {}, ["cobalt.verpo.beta=0.7"]), ADVANTAGE)
    estimator = get_adv_estimator_fn("cobalt_own")
    plugin.remember({"a_0_0": long, "a_1_0": short})
    with plugin.rows(["a_0_0", "a_1_0", "pad_0_0"], own):
        assert plugin.turns_of_rows(mask)[1:] == [[{"end": 4, "passing": [False, False]}], None]
        found, returns = estimator(
            token_level_rewards=torch.zeros(3, 7),
            response_mask=mask,
            index=np.array(["a", "a", "pad"]),
            config={},
        )
    (one, two), (other,) = advantage([long, short], beta=0.7)
    assert found.tolist() == [
        pytest.approx([one] * 3 + [0, 0] + [two] * 2),
        pytest.approx([other] * 4 + [0] * 3),
        [0] * 7,
    ]
    assert torch.equal(found, returns) and bool(((found != 0) <= (mask == 1)).all())
    with (
        plugin.rows(["a_0_0", "b_0_0"], own),
        pytest.raises(InfraError, match="turns of row b_0_0 are not known"),
    ):
        estimator(token_level_rewards=mask[:2], response_mask=mask[:2], index=np.array(["a", "b"]))
    with plugin.rows([], own), pytest.raises(InfraError, match="3 rows but 0 keys"):
        estimator(token_level_rewards=mask, response_mask=mask, index=np.array(["a"] * 3))
    numbers = [plugin.turn_numbers(*row).tolist() for row in zip([long, short, None], mask, strict=True)]
    assert numbers == [[1, 1, 1, -1, -1, 2, 2], [1, 1, 1, 1, 0, 0, 0], [0] * 7]
    elsewhere = replace(long, turns=(replace(long.turns[0], shared=True), long.turns[1]))
    assert plugin.turn_numbers(elsewhere, torch.tensor([0, 0, 0, 0, 0, 1, 1])).tolist() == [0] * 5 + [2] * 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("return aggregate(-advantages * log_prob, mask), {'rows': len(group)}", None),
        ("return aggregate(log_prob, turns < 0).reshape(1)", None),
        ("return log_prob * advantages", r"own.py:1: .* returned Tensor \(5, 3\), which is no scalar"),
        ("return 1.0", "returned float"),
        ("return aggregate(log_prob / 0, mask)", "own.py:1: .* returned nan"),
        ("return aggregate(advantages, mask)", "nothing to learn from it"),
        ("return aggregate(log_prob, mask), {'rows': 'many'}", "no mapping of names to numbers"),
        ("return aggregate(log_prob, mask), 7", "no mapping of names to numbers"),
        ("return group[0].turns[1].begin", "own.py:2: cobalt.policy_loss=.*IndexError"),
    ],
)
def test_a_loss_of_ones_own_is_tried_before_the_start(tmp_path, line, said):
    from cobalt.training.losses import check_loss

    file = tmp_path / "own.py"
    file.write_text(f"def f(log_prob, advantages, mask, turns, group, aggregate):\n    {line}\n")
    config = compose("cobalt", "cpu", "tiny", {}, [f"cobalt.policy_loss={file}:f"])
    if said is None:
        assert check_loss(config).startswith(f"policy loss: {file}:f ({file}:1, sha256 ")
        return
    with pytest.raises(InputError, match=said):
        check_loss(config)


def test_importance_weights_are_not_lost(tmp_path):
    from cobalt.training.losses import check_loss

    file = tmp_path / "own.py"
    config = compose("cobalt", "cpu", "tiny", {}, [
        f"cobalt.policy_loss={file}:f", "algorithm.rollout_correction.rollout_is=token"
    ])  # fmt: skip
    file.write_text("def f(log_prob, mask, aggregate):\n    return aggregate(log_prob, mask)\n")
    with pytest.raises(InputError, match=r"own.py:1: .*rollout_is: it must take 'weights'"):
        check_loss(config)


def test_the_gradient_is_that_of_the_samples_left():
    """A masked sample leaves, verl fills up with its own padding row, and nothing of either is learnt."""
    from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, get_policy_loss_fn
    from verl.trainer.ppo.padding_utils import construct_minimal_padding_template
    from verl.workers.config import ActorConfig

    torch.manual_seed(0)
    keys = ["a_0_0", "a_1_0", "a_2_0", "a_3_0"]
    gone = masked_keys(keys, [False, False, True, False])
    assert gone == {"a_2_0"}
    kept = [i for i, key in enumerate(keys) if key not in gone]
    rewards, mask = (
        torch.tensor([1.0, 0.2, 0.0, -0.1]),
        torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]]),
    )
    source = {"response_mask": mask[0], "position_ids": torch.arange(3)}
    padding, tag = construct_minimal_padding_template(source, {}, eos_token_id=1)
    assert tag["is_padding"] and int(padding["response_mask"].sum()) == 0

    config = ActorConfig(strategy="fsdp2", rollout_n=4, ppo_micro_batch_size_per_gpu=1, clip_ratio_high=0.4)
    table = torch.randn(5, 3)  # log-probabilities of four samples, and of the padding row

    def gradient(rows, padded):
        weights = table.clone().requires_grad_()
        chosen = weights[[*rows, 4] if padded else rows]
        masks = torch.cat([mask[rows], torch.zeros(1, 3, dtype=torch.long)]) if padded else mask[rows]
        scores = torch.zeros_like(masks, dtype=torch.float32)
        scores[: len(rows), 0] = rewards[rows]
        groups = np.array(["a"] * len(rows) + ["pad"] * padded)
        values, _ = compute_grpo_outcome_advantage(scores, masks, groups)
        loss, _ = get_policy_loss_fn("vanilla")(
            old_log_prob=chosen.detach() - 0.05, log_prob=chosen, advantages=values, response_mask=masks,
            loss_agg_mode="token-mean", config=config,
        )  # fmt: skip
        loss.backward()
        return weights.grad

    left, filled = gradient(kept, False), gradient(kept, True)
    assert torch.allclose(left, filled, atol=1e-7)
    assert float(left.abs().sum()) > 0 and float(filled[2].abs().sum()) == float(filled[4].abs().sum()) == 0.0
    assert not torch.allclose(
        left[kept], gradient([0, 1, 2, 3], False)[kept], atol=1e-4
    )  # as a score it would


def test_a_batch_is_in_the_order_of_its_prompts():
    """Rows stand in the queue as they finished; groups must stay together, as pairs and mini-batches need."""
    from cobalt.training.groups import in_order

    keys = ["b_0_0", "a_10_0", "b_1_0", "c-d_0_0", "a_2_1", "a_2_0"]
    batch = SimpleNamespace(keys=list(keys), tags=[{"was": key} for key in keys])
    in_order(batch, {"a": 1, "c-d": 1, "b": 1})
    assert batch.keys == ["a_2_0", "a_2_1", "a_10_0", "c-d_0_0", "b_0_0", "b_1_0"]
    assert [tag["was"] for tag in batch.tags] == batch.keys


@pytest.mark.parametrize(("share", "stops"), [(0.25, False), (0.24, True)])
def test_too_many_samples_without_a_verdict_stop_the_run(monkeypatch, share, stops):
    from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

    from cobalt.training import trainer

    keys, left = [f"a_{number}_0" for number in range(8)], []
    batch = SimpleNamespace(keys=list(keys), tags=[{}] * 8, partition_id="train")
    info = {"reward": 0.0, "evaluator_s": 0.1, "infra_errors": 0.0, "tests": 1.0}
    extras = [{"reward_extra_info": info | {"masked": float(number in (2, 5))}} for number in range(8)]
    monkeypatch.setattr(ReplayBuffer, "sample", lambda self, **_: (batch, {}))
    monkeypatch.setattr(trainer.tq, "kv_batch_get", lambda **_: {"extra_fields": extras})
    monkeypatch.setattr(trainer.tq, "kv_clear", lambda keys, **_: left.extend(keys))
    buffer = trainer.LoudReplayBuffer.__new__(trainer.LoudReplayBuffer)
    buffer.samples_per_prompt, buffer.max_masked_share, buffer.contrast = 8, share, None
    buffer.prompt_global_steps = {"train": {"a": 1}}
    if stops:
        said = (
            r"step 3: 2 of 8 samples have no verdict, .* 0\.24 that is allowed \(cobalt\.max_masked_share\)"
        )
        with pytest.raises(InfraError, match=said):
            buffer.sample(3, "train", 1)
    else:
        made, metrics = buffer.sample(3, "train", 1)
        assert metrics["reward/masked"] == 2.0
        assert made.keys == [key for key in keys if key not in left]
    assert left == [keys[2], keys[5]]


def test_the_workers_get_the_loss_that_is_asked_for():
    from verl.workers.utils.losses import ppo_loss

    from cobalt.training import losses, trainer

    def given(*overrides):
        made, losses = trainer.CobaltTrainer.__new__(trainer.CobaltTrainer), []
        made.config, made.global_steps = compose("cobalt", "gpu", "published", {}, overrides), 0
        made.actor_rollout_wg = SimpleNamespace(set_loss_fn=losses.append)
        made.checkpoint_manager = SimpleNamespace(update_weights=lambda step: None)
        made.on_init_end()
        return losses

    (loss,) = given()
    assert loss.func is not ppo_loss
    assert loss.keywords["config"].clip_ratio_high == 0.4
    assert given("cobalt.token_mean_over=null") == []
    (loss,) = given("actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean")
    assert loss.func is losses.mean_of_filled


@pytest.mark.parametrize(
    ("overrides", "refused"),
    [
        (["cobalt.token_mean_over=2"], False),
        (["cobalt.token_mean_over=3"], True),
        (["cobalt.token_mean_over=3", "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean"], False),
        (["cobalt.token_mean_over=3", "actor_rollout_ref.actor.use_dynamic_bsz=true"], True),
        (["cobalt.token_mean_over=256"], False),
        (["cobalt.token_mean_over=0"], True),
        (["cobalt.token_mean_over=null"], False),
    ],
)
def test_blocks_of_the_loss_fill_mini_batches(overrides, refused):
    from contextlib import nullcontext

    from cobalt.training.fit import check_blocks

    config = compose("cobalt", "gpu", "published", {}, overrides)
    message = "token_mean_over=.* must be null or a number of sequences that divides the 256 of"
    with pytest.raises(InputError, match=message) if refused else nullcontext():
        check_blocks(config.cobalt.token_mean_over, config.actor_rollout_ref.actor, 256)


def test_bounds_below_the_longest_sequence_are_raised():
    from cobalt.training.prepare import _raise_bounds

    dynamic = "actor_rollout_ref.actor.use_dynamic_bsz=true"
    policy = compose("mt_grpo", "gpu", "published", {}, [dynamic]).actor_rollout_ref
    assert _raise_bounds(policy, 24_576) == [
        "actor.ppo_max_token_len_per_gpu raised from 16384 to 24576, the longest sequence"
    ]
    assert policy.ref.log_prob_max_token_len_per_gpu == 24_576  # follows, as does the rollout's
    assert policy.rollout.log_prob_max_token_len_per_gpu == 24_576
    own = "actor_rollout_ref.ref.log_prob_max_token_len_per_gpu=100"
    two = "actor_rollout_ref.actor.fsdp_config.ulysses_sequence_parallel_size=2"
    policy = compose("mt_grpo", "gpu", "published", {}, [dynamic, own, two]).actor_rollout_ref
    assert _raise_bounds(policy, 24_575) == [
        "ref.log_prob_max_token_len_per_gpu raised from 100 to 12288, the longest sequence"
    ]
    assert _raise_bounds(compose("mt_grpo", "gpu", "published", {}).actor_rollout_ref, 10**6) == []


@pytest.mark.parametrize(
    "recipe", [name for name in choices("recipe") if name not in ("offline_rl", "rejection_sft")]
)
def test_every_recipe_resolves_to_our_parts_on_gpus(recipe):
    """The vLLM profile is composed and accepted by the installed verl; nothing of it is run here."""
    from cobalt.training.attention import choose_attention
    from cobalt.training.config import CONFIG_DIR
    from cobalt.training.prepare import check_parts

    config = compose(recipe, "gpu", "published", {"cobalt.config_dir": str(CONFIG_DIR)})
    assert choose_attention(config).startswith("attention: ")
    check_parts(config)
    assert config.trainer.v1.trainer_mode == "cobalt" and config.actor_rollout_ref.rollout.name == "vllm"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("trainer.v1.trainer_mode=sync", "trainer.v1.trainer_mode resolves to"),
        ("trainer.v1.trainer_mode=none", "Unknown trainer 'none'"),
        ("algorithm.adv_estimator=none", "none"),
        ("actor_rollout_ref.rollout.agent.default_agent_loop=other", "other"),
    ],
)
def test_parts_that_are_not_ours_are_refused(override, message):
    from cobalt.training.config import CONFIG_DIR
    from cobalt.training.prepare import check_parts

    config = compose("mt_grpo", "gpu", "published", {"cobalt.config_dir": str(CONFIG_DIR)}, [override])
    with pytest.raises(InputError, match=message):
        check_parts(config)


def test_verls_own_loops_find_no_server_on_cpu():
    from cobalt.training.config import CONFIG_DIR
    from cobalt.training.prepare import check_parts

    none = ["actor_rollout_ref.rollout.agent.agent_loop_manager_class=null"]
    config = compose("verpo", "cpu", "tiny", {"cobalt.config_dir": str(CONFIG_DIR)}, none)
    with pytest.raises(InputError, match="not to our BatchManager"):
        check_parts(config)


def test_too_few_gpus_are_one_message(monkeypatch):
    from cobalt import cluster
    from cobalt.training.prepare import missing_devices

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    config = OmegaConf.create({"trainer": {"device": "cuda", "n_gpus_per_node": 64, "nnodes": 2}})
    said = missing_devices(config, None)
    assert "n_gpus_per_node=64" in said and "there is no Ray cluster to join" in said
    assert missing_devices(OmegaConf.merge(config, {"trainer": {"device": "cpu"}}), None) is None
    nodes = [64.0, 8.0]
    monkeypatch.setattr(cluster, "amounts", lambda resource: nodes)
    said = missing_devices(config, "10.0.0.1:6379")
    assert "the nodes of the Ray cluster at 10.0.0.1:6379 have 64, 8 GPUs" in said
    nodes[1] = 64.0
    assert missing_devices(config, "10.0.0.1:6379") is None


def test_another_verl_is_noticed(monkeypatch):
    """The guards of the private names: each says what is not as it was."""
    from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

    from cobalt.training import verl_compat

    verl_compat.check_trainer(PPOTrainerSync)
    monkeypatch.setattr(verl_compat, "version", lambda name: "0.9.2")
    with pytest.raises(InputError, match=r"verl 0\.9\.2 is installed, but .* 0\.9\.1 only"):
        verl_compat.check_version()

    class Renamed(PPOTrainerSync):
        def _compute_advantage(self, batch):
            pass

    with pytest.raises(ImportError, match=r"_compute_advantage is not as it is in verl 0\.9\.1"):
        verl_compat.check_trainer(Renamed)


@pytest.fixture(scope="module")
def batch_path():
    """The batch path with the tiny reference and the real evaluator, without Ray or a trainer."""
    import asyncio
    import threading
    from pathlib import Path

    from transformers import AutoModelForCausalLM, AutoTokenizer

    from cobalt.engines.sampler import BatchSampler
    from cobalt.evaluator import LocalEvaluator
    from cobalt.rewards.cobalt import PLAIN
    from cobalt.training.cpu.batch import BatchManager
    from cobalt.training.dialogue import DialogueSettings, Judge
    from cobalt.training.scoring import Scorer

    folder = Path(__file__).parents[2] / "models" / "tiny-reference"
    manager = BatchManager.__new__(BatchManager)
    config = compose("verpo", "cpu", "tiny", {})
    manager.rollout, manager.seed = SimpleNamespace(prompt_length=128, response_length=320), 5
    manager.tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    manager.sampler = BatchSampler(model, manager.tokenizer, 448)
    manager.dialogue, manager.loop = DialogueSettings.read(config), asyncio.new_event_loop()
    threading.Thread(target=manager.loop.run_forever, daemon=True).start()
    with LocalEvaluator(2) as evaluator:
        scorer = Scorer(evaluator, profile=PLAIN, count_tokens=len)
        manager.judge = Judge(scorer, manager.tokenizer, manager.dialogue)
        yield manager
    manager.loop.call_soon_threadsafe(manager.loop.stop)


def dialogue_rows(count):
    from cobalt.prompts import TINY
    from cobalt.tasks import tiny

    tasks = tiny.draw_tasks("train", count, seed=1)
    return [
        {
            "raw_prompt": TINY.messages(task["instruction"]),
            "public_test_cases": task["public_test_cases"],
            "reward_model": {"ground_truth": task["test_cases"]},
            "extra_info": {"split": "train"},
        }
        for task in tasks
    ]


def test_dialogues_of_the_batch_path_are_masked_judged_and_reproducible(batch_path):
    from cobalt.training.cpu.batch import Sampling

    rows, how = dialogue_rows(3), Sampling(2, 1.0, 1.0, 7, False)
    started = time.monotonic()
    samples, waiting_s = batch_path._dialogues(rows, how)
    took_s = time.monotonic() - started
    again, _ = batch_path._dialogues(rows, how)
    alone, _ = batch_path._dialogues(rows[:1], how)
    assert len(samples) == 6 and 0 < waiting_s < took_s
    ids = [made.response_ids for made, _ in samples]
    assert [made.response_ids for made, _ in again] == ids
    assert [made.response_ids for made, _ in alone] == ids[:2]
    eos = batch_path.tokenizer.eos_token_id
    for made, score in samples:
        assert len(made.response_ids) == len(made.mask) == len(made.logprobs) <= 320
        turns = made.record(score, {}, 3).turns
        assert len(made.texts) == len(turns) == score.info["turns"] == 3
        begin = 0
        for turn in turns:
            own = [i for i in range(begin, turn.end) if made.mask[i]]
            assert own == list(range(turn.begin, turn.end)) and 0 < len(own) <= 64  # one run, at the end
            assert made.response_ids[turn.end - 1] == eos or len(own) == 64
            begin = turn.end
        assert begin == len(made.response_ids)
        assert all(made.logprobs[i] == 0.0 for i, flag in enumerate(made.mask) if not flag)
        assert all(made.logprobs[i] < 0.0 for i, flag in enumerate(made.mask) if flag)
        last = turns[-1].passing
        assert len(last) > 3 and (score.reward == 1.0) == all(last)


def test_a_tree_of_the_batch_path_samples_and_judges_shared_programs_once(batch_path):
    from cobalt.training.cpu.batch import Sampling

    plain, judge, asked = batch_path.dialogue, batch_path.judge, []
    batch_path.dialogue = judge.settings = replace(plain, branches=(2, 3, 1), every_turn=True)
    batch_path.judge = SimpleNamespace(
        after_turn=lambda made, row: asked.append(made.leaf) or judge.after_turn(made, row),
        total=judge.total, text=judge.text, end=judge.end,
    )  # fmt: skip
    try:
        samples, _ = batch_path._dialogues(dialogue_rows(2), Sampling(6, 1.0, 1.0, 7, False))
    finally:
        batch_path.dialogue = judge.settings = plain
        batch_path.judge = judge
    assert sorted(asked) == sorted([0, 3, *range(6), *range(6)] * 2)
    for group in (samples[:6], samples[6:]):
        records = [made.record(score, {}, 3) for made, score in group]
        assert [[turn.node for turn in each.turns] for each in records] == [
            [leaf - leaf % 3 and 9, 3 * leaf + 1, 3 * leaf + 2] for leaf in range(6)
        ]
        assert [each.turns[0].shared for each in records] == [False, True, True] * 2
        for (made, _), record in zip(group, records, strict=True):
            first, second, third = record.turns
            assert made.texts[0] == group[3 * (made.leaf // 3)][0].texts[0]
            own = [*range(second.begin, second.end), *range(third.begin, third.end)]
            own = own if first.shared else [*range(first.end), *own]
            assert [i for i, flag in enumerate(made.mask) if flag] == own
            assert all(turn.passing and turn.reward is not None for turn in record.turns)
        assert len({made.texts[1] for made, _ in group}) > 2


def test_the_trainers_log_probabilities_of_a_dialogue_are_the_samplers(batch_path):
    """What the loss will see on the masked tokens is what was sampled, feedback between the turns and all."""
    from cobalt.training.cpu.batch import Sampling

    ((made, _),), _ = batch_path._dialogues(dialogue_rows(1), Sampling(1, 1.0, 1.0, 1, False))
    with torch.no_grad():
        logits = batch_path.sampler.model(torch.tensor([made.context])).logits[0]
    found = torch.log_softmax(logits[len(made.prompt_ids) - 1 : -1], -1)
    for place, (token, flag, logprob) in enumerate(
        zip(made.response_ids, made.mask, made.logprobs, strict=True)
    ):
        assert not flag or float(found[place, token]) == pytest.approx(logprob, abs=1e-3)


def test_what_a_server_renders_is_compared_with_what_is_trained(batch_path, monkeypatch):
    """Equal where nothing is thought; a template that leaves out earlier thinking gives another context."""
    from cobalt.training.dialogue import Dialogue

    (row,) = rows = dialogue_rows(1)
    tokenizer, end = batch_path.tokenizer, batch_path.judge.end
    template = tokenizer.chat_template.replace("m['content']", "m['content'].split('</think>')[-1]")
    monkeypatch.setattr(tokenizer, "chat_template", template)
    answer = [*tokenizer("1")["input_ids"], end.token]

    def two_turns(*thought):
        made = Dialogue(batch_path._encode(rows)[0])
        for text, ids in (("5</think>1" if thought else "1", [*thought, *answer]), ("1", answer)):
            made.add_response(ids, [-1.0] * len(ids), text)
            if len(made.texts) == 1:
                made.since += [{"role": "assistant", "content": text}, {"role": "user", "content": "1"}]
                made.add_feedback(next_turn_ids(tokenizer, "1", end, end.token), batch_path.dialogue)
        return made

    same, other = two_turns(), two_turns(107, 20, 21)
    assert batch_path._compare([(row, same)] * 2) == {
        "training/served_differs": 0.0,
        "training/served_logprob_diff": 0.0,
    }
    contexts = [made.context[: -len(answer)] for made in (same, other)]
    served, trained = (batch_path._mean_logprob(context, answer) for context in contexts)
    assert abs(served - trained) > 1e-4
    assert batch_path._compare([(row, other), (row, same)]) == pytest.approx(
        {"training/served_differs": 0.5, "training/served_logprob_diff": (served - trained) / 2}
    )
    assert batch_path._compare([(row, Dialogue([1]))]) == {}


def fitted(tmp_path, monkeypatch, metrics_of, steps=4):
    """verl's own loop over our trainer, without workers; what was called, in order, and what was logged."""
    from verl.trainer.ppo.v1 import trainer_base

    from cobalt.training.trainer import CobaltTrainer

    folder = tmp_path / "out" / "checkpoints"
    overrides = ["trainer.val_before_train=false", "trainer.test_freq=-1", "trainer.save_freq=3"]
    values = {"trainer.default_local_dir": str(folder), "trainer.total_epochs": 9, "trainer.logger": []}
    called, logged = [], []
    trainer = CobaltTrainer.__new__(CobaltTrainer)
    trainer.config = compose("cobalt", "cpu", "tiny", values, overrides)
    trainer.global_steps, trainer.total_training_steps, trainer.steps_per_epoch = 0, steps, 100
    trainer.trainer_mode, trainer.parameter_sync_step, trainer.use_critic = "sync", 1, False
    trainer._stop_request = folder.parent / checkpoint.STOP_REQUEST
    trainer.timing_raw, trainer.dump_executor = {}, None
    trainer.checkpoint_callback = SimpleNamespace(on_save=lambda **_: None)
    trainer.train_dataloader = SimpleNamespace(state_dict=dict)
    trainer.actor_rollout_wg = SimpleNamespace(save_checkpoint=lambda *_, **__: called.append("save"))
    trainer.checkpoint_manager = SimpleNamespace(update_weights=lambda _: called.append("wake"))
    trainer.prepare_step = dict

    def step(metrics, timing_raw, size):
        called.append(f"step {trainer.global_steps}")
        metrics.update(metrics_of(trainer))
        return SimpleNamespace(keys=[], tags=[], partition_id="train")

    trainer._step_once = step
    for name in ("_compute_metrics", "_start_profiling", "_stop_profiling", "_shutdown_dump_executor"):
        setattr(trainer, name, lambda *_, **__: None)
    monkeypatch.setattr(trainer_base.tq, "kv_clear", lambda **_: None)
    tracking = SimpleNamespace(log=lambda data, step: logged.append((step, data)))
    monkeypatch.setattr(trainer_base, "Tracking", lambda **_: tracking)
    try:
        trainer.fit(None)
    finally:
        made = sorted(path.parent.name for path in folder.glob(f"*/{checkpoint.MADE_BY}"))
    return called, logged, made


def test_the_stop_checkpoint_is_saved_before_the_rollout_wakes(tmp_path, monkeypatch):
    def metrics(trainer):
        if trainer.global_steps == 2:
            trainer._stop_request.touch()
        return {"actor/pg_loss": 0.1}

    (tmp_path / "out" / "checkpoints").mkdir(parents=True)
    called, logged, made = fitted(tmp_path, monkeypatch, metrics)
    assert called == ["step 1", "wake", "step 2", "save", "wake"]
    assert [step for step, _ in logged] == [1, 2] and made == ["global_step_2"]
    assert (tmp_path / "out" / "checkpoints" / checkpoint.LATEST).read_text() == "2"


def test_a_loss_that_is_no_number_is_logged_and_never_saved(tmp_path, monkeypatch):
    (tmp_path / "out" / "checkpoints").mkdir(parents=True)
    seen = []

    def metrics(trainer):
        seen.append(trainer)
        return {"actor/pg_loss": float("nan") if trainer.global_steps == 3 else 0.1}

    with pytest.raises(InfraError, match="actor/pg_loss is not a number at step 3"):
        fitted(tmp_path, monkeypatch, metrics)
    assert not (tmp_path / "out" / "checkpoints" / "global_step_3").exists()
