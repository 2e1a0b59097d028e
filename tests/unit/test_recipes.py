"""Built-in methods against numbers worked out by hand, and what holds for any group."""

from __future__ import annotations

import itertools
import math
import random
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cobalt import own, recipes
from cobalt.config.recipes import read
from cobalt.contexts.trajectories import Trajectories
from cobalt.errors import InputError
from cobalt.recipes.echo import clipped
from cobalt.recipes.rltf_sd import revisions, weights
from cobalt.rewards.groups import grpo, rloo
from cobalt.rewards.records import Rollout, Turn
from cobalt.training.config import choices, compose

RIVALS = (
    "rloo", "dr_grpo", "maxrl", "dynamic_sampling", "noise_corrected", "prefix_rl", "murphy", "echo", "cocos",
    "rltf_sd",
)  # fmt: skip
RECIPES_PAGE = (Path(__file__).parents[2] / "docs" / "recipes.md").read_text()
OFFERED = {
    "reward": ("completion", "result", "best", "messages", "info", "tests", "turn"),
    "contexts": ("task", "count_tokens", "draw", "validation", "max_prompt_tokens"),
    "advantage": ("group",),
    "policy_loss": (
        "log_prob", "old_log_prob", "advantages", "mask", "turns", "group", "aggregate", "config", "entropy",
        "weights",
    ),
}  # fmt: skip


def method(name, door, **constants):
    """The function of a method as its door loads it."""
    return own.load(f"cobalt.recipes.{name}:{door}", f"cobalt.{door}", OFFERED[door], constants=constants)


def dialogue(*rates, nodes=None, tests=4, reward=None):
    """A rollout whose programs pass these shares of four tests, each its reward; 10 tokens per turn."""
    places = nodes or range(len(rates))
    turns = [
        Turn(
            rate,
            (True,) * round(rate * tests) + (False,) * round((1 - rate) * tests),
            20 * i,
            20 * i + 10,
            node,
        )
        for i, (rate, node) in enumerate(zip(rates, places, strict=True))
    ]
    return Rollout(rates[-1] if reward is None else reward, tuple(turns))


def flat(values):
    return [value for row in values for value in (row if isinstance(row, list) else [row])]


# --- estimators


@pytest.mark.parametrize(
    ("name", "constants", "group", "expected"),
    [
        # one of four succeeds: (1 - 1/4) / (1/4) = 3, and -1; rewards have no say
        ("maxrl", {}, [(1.0,), (0.75,), (0.0,), (0.0,)], [3, -1, -1, -1]),
        ("maxrl", {}, [(1.0,), (1.0,), (0.0,)], [0.5, 0.5, -1]),
        ("maxrl", {}, [(0.75,), (0.0,)], [0, 0]),  # nobody succeeds
        ("maxrl", {}, [(0.0, 1.0), (1.0, 0.5)], [1, -1]),  # the last program counts
        # shares 3/4 and 1/4, mean 1/2
        ("maxrl", {"partial": True}, [(0.75,), (0.25,)], [0.5, -0.5]),
        # R: 1/2 * 1/2 + (1 - 1/2) = 3/4; 1/2 * 1/2 + 0 = 1/4; each minus the other
        ("cocos", {}, [(0.5, 1.0), (0.5, 0.5)], [[0.5, 0.5], [-0.5, -0.5]]),
        ("cocos", {"last_only": True}, [(0.5, 1.0), (0.5, 0.5)], [[0, 0.5], [0, -0.5]]),
        # R: 1/4 * 1 + 1/2 * (-1/2) + 1/2 = 1/2 over three turns; 1 with one; 0
        ("cocos", {}, [(1.0, 0.5, 1.0), (1.0,), (0.0,)], [[0, 0, 0], [0.75], [-0.75]]),
        ("cocos", {"gamma": 1.0}, [(0.5, 1.0), (0.5, 0.5)], [[0.5, 0.5], [-0.5, -0.5]]),
        ("cocos", {"gamma": 0.0}, [(0.5, 1.0), (1.0, 1.0)], [[0.5, 0.5], [-0.5, -0.5]]),
    ],
)  # fmt: skip
def test_advantages_by_hand(name, constants, group, expected):
    found = method(name, "advantage", **constants)(group=tuple(dialogue(*rates) for rates in group))
    assert flat(found) == pytest.approx(flat(expected))
    assert [isinstance(value, list) for value in found] == [isinstance(value, list) for value in expected]


def tree():
    """Two first programs, of which the second fails and branches into three, one of them right.

    ::

        0 (right)    1 (1/2) -> 2 (0), 3 (1), 4 (1/2)
    """
    return (
        dialogue(1.0, nodes=[0]), dialogue(0.5, 0.0, nodes=[1, 2]), dialogue(0.5, 1.0, nodes=[1, 3]),
        dialogue(0.5, 0.5, nodes=[1, 4]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("constants", "second"),
    [
        ({"gamma": 0.9}, 0.9),  # max(1/2, 0.9 * 1)
        ({"gamma": 0.25}, 0.5),  # its own
        ({"gamma": 0.9, "by": "mean"}, (0.5 + 0.9 * 0.5) / 2),
    ],
)
def test_murphy_by_hand(constants, second):
    found = method("murphy", "advantage", **constants)(group=tree())
    # two roots: half their distance over the deviation, which is their distance over sqrt(2)
    root = (1 - second) / 2 / ((1 - second) / math.sqrt(2) + 1e-6)
    # three children 0, 1, 1/2: mean 1/2, deviation 1/2
    child = 0.5 / (0.5 + 1e-6)
    assert flat(found) == pytest.approx([root, -root, -child, -root, child, -root, 0])


def test_murphy_gives_nothing_to_an_only_child_and_passes_worth_up_from_the_leaves():
    group = dialogue(0.0, 0.0, 1.0, nodes=[0, 1, 2]), dialogue(0.25, nodes=[3])
    found = method("murphy", "advantage", gamma=0.5)(group=group)
    # 0.5 * 0.5 * 1 against 1/4: equal
    assert flat(found) == pytest.approx([0, 0, 0, 0], abs=1e-9)


@pytest.mark.parametrize("name", ["cocos", "murphy"])
@pytest.mark.parametrize(
    ("constants", "said"), [({"gamma": 1.5}, "gamma must be in"), ({}, "every_turn=true")]
)
def test_what_estimators_refuse(name, constants, said):
    unjudged = Rollout(0.0, (Turn(None, (), 0, 5, 0), Turn(1.0, (True,), 9, 12, 1)))
    with pytest.raises(ValueError, match=said):
        method(name, "advantage", **constants)(group=(unjudged, unjudged))


def test_maxrl_refuses_what_has_no_verdict():
    with pytest.raises(ValueError, match="no verdict"):
        method("maxrl", "advantage")(group=(Rollout(0.0, (Turn(None, (), 0, 5, 0),)),) * 2)


GROUPS = st.lists(
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=3), min_size=2, max_size=5
)


@given(GROUPS)
def test_what_holds_for_any_group(rates):
    count = itertools.count()
    group = tuple(dialogue(*each, nodes=[next(count) for _ in each]) for each in rates)
    maxrl = method("maxrl", "advantage")(group=group)
    assert sum(maxrl) == pytest.approx(0, abs=1e-9) and min(maxrl) >= -1
    cocos = method("cocos", "advantage")(group=group)
    assert sum(turns[0] for turns in cocos) == pytest.approx(0, abs=1e-9)
    murphy = method("murphy", "advantage")(group=group)
    assert sum(turns[0] for turns in murphy) == pytest.approx(0, abs=1e-6)
    assert [len(turns) for turns in murphy] == [len(each) for each in rates]
    equal = tuple(dialogue(*rates[0], nodes=[next(count) for _ in rates[0]]) for _ in range(3))
    for name in ("maxrl", "cocos", "murphy"):
        assert all(abs(value) < 1e-9 for value in flat(method(name, "advantage")(group=equal)))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # mean of the others of 1: 1/6; of 1/2: 1/3; of 0: 1/2
        ("rloo", [5 / 6, 1 / 6, -0.5, -0.5]),
        ("dr_grpo", [0.625, 0.125, -0.375, -0.375]),  # mean 3/8
    ],
)
def test_estimators_of_verl_by_hand(name, expected):
    from verl.trainer.config.algorithm import AlgoConfig
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn

    algorithm = compose(name, "cpu", "tiny", {}).algorithm
    rewards = torch.zeros(4, 3)
    rewards[:, -1] = torch.tensor([1.0, 0.5, 0.0, 0.0])
    given = {"norm_adv_by_std_in_grpo": algorithm.norm_adv_by_std_in_grpo} if name == "dr_grpo" else {}
    mask, index = torch.ones(4, 3), np.array(["a"] * 4, dtype=object)
    found, _ = get_adv_estimator_fn(algorithm.adv_estimator)(
        rewards, mask, index, config=AlgoConfig(), **given
    )
    assert found[:, 0].tolist() == pytest.approx(expected)


def test_dr_grpo_divides_tokens_by_a_constant():
    from verl.trainer.ppo.core_algos import agg_loss

    actor = compose("dr_grpo", "cpu", "tiny", {}).actor_rollout_ref.actor
    mask = torch.tensor([[1.0, 1, 1, 1], [1, 0, 0, 0]])
    loss = agg_loss(
        torch.ones(2, 4),
        mask,
        actor.loss_agg_mode,
        global_batch_size=2,
        loss_scale_factor=actor.loss_scale_factor,
    )
    # four tokens and one, over two responses and 64 tokens, not over their lengths
    assert float(loss) == pytest.approx((4 + 1) / 2 / 64)


# --- reward


@pytest.mark.parametrize(
    ("passing", "info", "constants", "expected"),
    [
        ([True, True], {}, {}, 1.0),
        ([True, True], {}, {"p0": 0.1, "p1": 0.2}, 0.9 / 0.7),
        ([True, False], {}, {"p0": 0.1, "p1": 0.2}, -0.1 / 0.7),
        ([True], {"noise": [0.0, 0.5]}, {"p0": 0.1, "p1": 0.2}, 2.0),  # the row's own
        ([], {}, {"p0": 0.5}, -1.0),
    ],
)
def test_noise_corrected_by_hand(passing, info, constants, expected):
    parts = method("noise_corrected", "reward", **constants)(result={"passing": passing}, info=info)
    assert sum(parts.values()) == pytest.approx(expected)
    assert parts["verdict"] == float(bool(passing) and all(passing))


@given(st.floats(0, 0.45), st.floats(0, 0.45), st.booleans())
def test_the_corrected_reward_is_right_on_average(p0, p1, right):
    reward = method("noise_corrected", "reward", p0=p0, p1=p1)
    passes, fails = (sum(reward(result={"passing": [each]}, info={}).values()) for each in (True, False))
    chance = 1 - p1 if right else p0
    assert chance * passes + (1 - chance) * fails == pytest.approx(float(right), abs=1e-9)


def test_a_deviation_would_cancel_the_correction():
    reward = method("noise_corrected", "reward", p0=0.1, p1=0.3)
    corrected = [sum(reward(result={"passing": [each]}, info={}).values()) for each in (True, False, False)]
    assert grpo(corrected) == pytest.approx(grpo([1.0, 0.0, 0.0]), abs=1e-5)
    assert rloo(corrected) == pytest.approx([value / 0.6 for value in rloo([1.0, 0.0, 0.0])])


@pytest.mark.parametrize("rates", [(0.5, 0.5), (-0.1, 0.0)])
def test_rates_that_nothing_corrects(rates):
    with pytest.raises(ValueError, match="below 1 in sum"):
        method("noise_corrected", "reward", p0=rates[0], p1=rates[1])(result={"passing": [True]}, info={})


# --- contexts


def task(*rates):
    message = {"role": "user", "content": "word"}
    conversations = [[message] * (2 + 2 * len(each or [0])) for each in rates]
    return Trajectories("t", "easy", "{}", conversations, list(rates), False, True, True)


@pytest.mark.parametrize(
    ("rates", "constants", "expected"),
    [
        # sample 1 solves with its third program: cut after the first or second; sample 0 never does
        ([[0.0, 0.5, 0.0], [0.0, 0.5, 1.0]], {}, [(0, 0), (1, 1), (1, 2)]),
        ([[0.0, 0.5], [0.0, 1.0]], {}, [(0, 0), (1, 1)]),
        ([None, [0.0, 1.0]], {}, [(0, 0), (1, 1)]),  # a sample without verdicts
        ([[0.0, 0.5], [0.0, 0.0]], {}, []),  # no success
        ([[1.0, 1.0], [0.0, 1.0]], {"max_solved": 0.4}, []),  # too easy
        ([[1.0, 1.0], [0.0, 1.0]], {}, [(0, 0), (1, 1)]),  # what the first program solves has no prefix
        ([[0.0, 1.0]] * 5, {"prefixes": 0}, [(0, 0)]),
        ([None], {}, []),
    ],
)  # fmt: skip
def test_prefixes_by_hand(rates, constants, expected):
    given = {"count_tokens": len, "draw": random.Random(0), "max_prompt_tokens": 100}
    rule = method("prefix_rl", "contexts", **constants)
    assert list(rule(task=task(*rates), validation=False, **given)) == expected
    assert list(rule(task=task(*rates), validation=True, **given)) == [(0, 0)]


def test_prefixes_are_drawn_and_fit():
    solving = task(*[[0.0, 0.0, 1.0]] * 4)
    rule = method("prefix_rl", "contexts")

    def found(seed, limit=100):
        given = {"count_tokens": len, "draw": random.Random(seed), "max_prompt_tokens": limit}
        return list(rule(task=solving, validation=False, **given))

    assert found(1) == found(1) and len({tuple(found(seed)) for seed in range(9)}) > 1
    assert all(len(set(found(seed))) == 4 for seed in range(9))
    assert {shown for _, shown in found(0, limit=4)} == {0, 1}  # two programs are six messages
    assert found(0, limit=3) == []


# --- stored completions


def test_rltf_sd_by_hand():
    given = task([0.5, 1.0], [0.0, 0.25], [1.0], None)
    for sample, conversation in enumerate(given.conversations):
        conversation[4:5] = [{"role": "assistant", "content": f"second of {sample}"}] * (
            len(conversation) > 4
        )
    found = revisions(given)
    # first programs: (1/2 + 0 + 1) / 3 = 1/2, that of the dialogue without a second one included
    assert found == [
        {"text": "second of 0", "pass_rate": 1.0, "baseline": 0.5},
        {"text": "second of 1", "pass_rate": 0.25, "baseline": 0.5},
    ]
    assert weights(found) == [0.5, -0.25]
    assert revisions(task(None)) == []
    with pytest.raises(ValueError, match="--revisions"):
        weights([{"text": "", "pass_rate": 1.0}])


# --- loss

ACTOR = SimpleNamespace(clip_ratio_low=0.2, clip_ratio_high=0.4, clip_ratio_c=3.0)


def mean(values, mask):
    return (values * mask).sum() / 4  # four tokens of the policy below


def echo(log_prob, advantages, weight, turns=((1, 1, -1, -1, 2), (1, 0, 0, 0, 0)), weights=None):
    turns = torch.tensor(turns)
    old = torch.full_like(log_prob, -1.0)
    return method("echo", "policy_loss", weight=weight)(
        log_prob=log_prob, old_log_prob=old, advantages=advantages, mask=(turns > 0).float(), turns=turns,
        aggregate=mean, config=ACTOR, group=[], entropy=None, weights=weights,
    )  # fmt: skip


def test_echo_by_hand():
    log_prob = torch.full((2, 5), -1.0, requires_grad=True)
    advantages = torch.tensor([[1.0], [-2.0]]).expand(2, 5)
    with torch.no_grad():
        log_prob[0, 2:4] = torch.tensor([-0.5, -1.5])
    plain, _ = echo(log_prob, advantages, 0.0)
    assert plain.item() == pytest.approx(-(3 * 1 - 2) / 4)  # ratios of 1
    loss, metrics = echo(log_prob, advantages, 0.1)
    # the first row's feedback has 1 nat on average, and weighs as its three tokens do: 3 * 1 / 4
    assert loss.item() - plain.item() == pytest.approx(0.1 * 0.75)
    assert metrics == {"actor/feedback_nats": pytest.approx(1.0)}
    loss.backward()
    # of each of two feedback tokens: -0.1 * (3 / 2) / 4; the policy's: -A / 4
    assert log_prob.grad[0].tolist() == pytest.approx([-0.25, -0.25, -0.0375, -0.0375, -0.25])
    assert log_prob.grad[1].tolist() == pytest.approx([0.5, 0, 0, 0, 0])


def test_echo_corrects_the_policys_term_only():
    given = torch.full((2, 5), -1.0), torch.ones(2, 5)
    (plain, _), (feedback, _) = echo(*given, 0.0), echo(*given, 1.0)
    half, _ = echo(*given, 1.0, weights=torch.full((2, 5), 0.5))
    assert half.item() == pytest.approx((feedback - plain / 2).item())


def test_echo_without_feedback_is_finite():
    loss, metrics = echo(torch.full((2, 5), -1.0), torch.ones(2, 5), 1.0, turns=[[1] * 5, [0] * 5])
    assert torch.isfinite(loss) and metrics == {"actor/feedback_nats": 0.0}


@given(st.lists(st.tuples(st.floats(-4, 4), st.floats(-3, 3)), min_size=1, max_size=6))
def test_echos_first_term_is_verls_loss(values):
    from verl.trainer.ppo.core_algos import compute_policy_loss_vanilla
    from verl.workers.config import FSDPActorConfig

    change, advantages = (torch.tensor([column], dtype=torch.float64) for column in zip(*values, strict=True))
    config = FSDPActorConfig(strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1,
                             clip_ratio_low=0.2, clip_ratio_high=0.4, clip_ratio_c=3.0)  # fmt: skip
    mask = torch.ones_like(change)
    verls, _ = compute_policy_loss_vanilla(torch.zeros_like(change), change, advantages, mask, config=config)
    ours = clipped(change, torch.zeros_like(change), advantages, ACTOR).mean()
    assert ours.item() == pytest.approx(verls.item(), abs=1e-12)


# --- all of them


@pytest.mark.parametrize("name", choices("recipe"))
def test_a_method_has_at_most_eighty_lines(name):
    path = Path(recipes.__file__).with_name(f"{name}.py")
    assert not path.exists() or len(path.read_text().splitlines()) <= 80


@pytest.mark.parametrize("name", RIVALS)
def test_what_a_recipe_names_is_there_with_its_constants(name):
    said = read(name, "cpu", "tiny").values
    doors = {door: said[f"cobalt.{door}"] for door in OFFERED if said.get(f"cobalt.{door}")}
    named = [own.load(spec, f"cobalt.{door}", OFFERED[door]) for door, spec in doors.items()]
    constants = {key.removeprefix("cobalt.constants."): value for key, value in said.items()
                 if key.startswith("cobalt.constants.")}  # fmt: skip
    known = own.constants_of(named)
    assert constants == known  # all of them, and the functions' own defaults
    assert bool(named) == (name not in ("rloo", "dr_grpo", "dynamic_sampling", "rltf_sd"))
    assert f"### {name}\n" in RECIPES_PAGE and f"[`{name}`](#{name})" in RECIPES_PAGE


def test_a_constant_that_a_method_lacks_is_no_parameter():
    with pytest.raises(InputError, match="there is no 'result'"):
        own.load("cobalt.recipes.noise_corrected:reward", "cobalt.advantage", OFFERED["advantage"])
    assert own.constants_of([method("cocos", "advantage")]) == {"gamma": 0.5, "last_only": False}
