"""Which groups are learnt from: the replay buffer over a queue in memory, dynamic sampling, seeds."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from cobalt.errors import InfraError
from cobalt.training.groups import prompt_of

pytestmark = pytest.mark.slow
N = 4


class Queue:
    """Prompts with N samples each; ``rewards[uid]`` are theirs (None: masked)."""

    def __init__(self, monkeypatch, rewards, *, batch, metric="reward", most=0, share=0.5):
        from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

        from cobalt.training import trainer

        self.rewards, self.left, self.cleared, self.asked = rewards, list(rewards), [], []
        monkeypatch.setattr(ReplayBuffer, "sample", lambda buffer, **given: self.take(given["batch_size"]))
        monkeypatch.setattr(trainer.tq, "kv_batch_get", self.read)
        monkeypatch.setattr(trainer.tq, "kv_clear", lambda keys, **_: self.cleared.extend(keys))
        self.buffer = trainer.LoudReplayBuffer.__new__(trainer.LoudReplayBuffer)
        self.buffer.samples_per_prompt, self.buffer.max_masked_share = N, share
        self.buffer.contrast, self.buffer.rounds, self.buffer.refill_fn = metric, most, self.asked.append
        self.buffer.prompt_global_steps = {"train": dict.fromkeys(rewards, 1)}
        self.batch = batch

    def take(self, number):
        uids, self.left = self.left[:number], self.left[number:]
        keys = [f"{uid}_{session}_0" for uid in reversed(uids) for session in range(N)]
        return SimpleNamespace(keys=keys, tags=[{}] * len(keys), partition_id="train"), {}

    def read(self, keys, select_fields, **_):
        values = [self.rewards[prompt_of(key)][int(key.split("_")[1])] for key in keys]
        info = {"evaluator_s": 0.1, "infra_errors": 0.0, "tests": 1.0}
        extras = [
            {
                "reward_extra_info": {
                    **info,
                    "acc": float(v == 1.0),
                    "shaped": v or 0.0,
                    "masked": float(v is None),
                }
            }
            for v in values
        ]
        scores = [torch.tensor([0.0, v or 0.0]) for v in values]
        return {name: {"extra_fields": extras, "rm_scores": scores}[name] for name in select_fields}

    def sample(self):
        batch, metrics = self.buffer.sample(5, "train", self.batch)
        counts = {
            name.rpartition("/")[2]: value for name, value in metrics.items() if "filter_groups" in name
        }
        return batch.keys, counts, metrics


GOOD, FLAT, LOW = [1.0, 0.0, 0.0, 1.0], [1.0] * N, [0.2, 0.1, 0.0, 0.2]
HALF, ALIKE = [1.0, None, 0.0, 1.0], [1.0, 1.0, None, 1.0]


def keys_of(*uids, without=()):
    return [key for uid in uids for i in range(N) if (key := f"{uid}_{i}_0") not in without]


def test_groups_without_contrast_are_sampled_again_until_the_batch_is_full(monkeypatch):
    rewards = {"a": GOOD, "b": FLAT, "c": FLAT, "d": HALF, "e": ALIKE, "f": FLAT, "g": LOW, "h": GOOD}
    queue = Queue(monkeypatch, rewards, batch=3)
    keys, counts, metrics = queue.sample()
    assert queue.asked == [3, 2]  # twice what is missing, at most a batch
    assert keys == keys_of("a", "d", "g", without=["d_1_0"])  # the masked one left, the surplus did, in order
    assert counts == {"sampled": 8.0, "dropped": 4.0, "kept": 3.0, "batches": 3.0}
    assert metrics["reward/masked"] == 2.0 and metrics["reward/shaped"] == pytest.approx(
        sum(v for row in queue.rewards.values() for v in row if v is not None) / 30
    )
    everything = set(keys_of(*queue.rewards))
    assert set(queue.cleared) == everything - set(keys) and len(queue.cleared) == len(set(queue.cleared))


@pytest.mark.parametrize(
    ("metric", "left"), [("seq_reward", ["a", "b"]), ("acc", ["a"]), (None, ["a", "b", "c"])]
)
def test_contrast_is_in_the_metric_that_is_named(monkeypatch, metric, left):
    queue = Queue(monkeypatch, {"a": GOOD, "b": LOW, "c": FLAT}, batch=3, metric=metric, most=1)
    keys, counts, _ = queue.sample()
    assert keys == keys_of(*left) and not queue.asked  # trained on what there is
    assert counts.get("kept") == (len(left) if metric else None)


def test_nothing_to_learn_from_ends_the_run_after_the_last_batch(monkeypatch):
    queue = Queue(monkeypatch, dict.fromkeys("abcdefghij", FLAT), batch=2, most=3)
    with pytest.raises(InfraError, match="in none of 6 groups do samples differ in reward, after 3 batches"):
        queue.sample()
    assert queue.asked == [2, 2]


def test_masked_samples_of_every_batch_count_against_the_share(monkeypatch):
    rewards = {"a": FLAT, "b": FLAT, "c": [None] * 3 + [1.0], "d": GOOD}
    queue = Queue(monkeypatch, rewards, batch=2, share=0.2)
    with pytest.raises(InfraError, match="step 5: 4 of 16 samples have no verdict"):
        queue.sample()


def test_seeds_of_a_training_are_all_distinct():
    """10^5 of them: steps, training and validation, prompts, samples, turns, and batches of one step."""
    from cobalt.engines.sampler import row_seed
    from cobalt.training.cpu.batch import Sampling

    seen = set()
    for step in range(20):
        for validate in (False, True):
            for again in range(2):
                how = Sampling(8, 1.0, 1.0, step, validate, again)
                places = [divmod(place, 8) for place in range(16 * 8)]
                turns = {how.seed(3, *place, turn) for place in places for turn in range(9)}
                single = {row_seed(how.seed(3, prompt), sample) for prompt, sample in places}
                assert len(turns) == 16 * 8 * 9 and len(single) == 16 * 8
                assert not seen & turns and not seen & single
                seen |= turns | single
    assert len(seen) == 20 * 2 * 2 * 16 * 8 * 10 > 10**5
    assert Sampling(8, 1.0, 1.0, 0, False).seed(4, 0, 0, 0) not in seen  # of another run
