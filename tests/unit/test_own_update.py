"""Functions of the user's own in the update: when they are chosen, called, refused; trees of dialogues."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from cobalt.errors import InfraError, InputError
from cobalt.own import load
from cobalt.rewards.records import Rollout, Turn
from cobalt.training import own_update, tree
from cobalt.training.config import compose
from cobalt.training.dialogue import Dialogue, DialogueSettings
from cobalt.training.method import OFFERED
from cobalt.training.scoring import Score

HOWTO = Path(__file__).parents[2] / "docs" / "howto" / "estimator_and_loss.md"
ESTIMATOR, MODE = "algorithm.adv_estimator", "actor_rollout_ref.actor.policy_loss.loss_mode"
VERPO = "cobalt.recipes.verpo:advantage"


def composed(*overrides, recipe="mt_grpo"):
    return compose(recipe, "cpu", "tiny", {}, overrides)


@pytest.mark.parametrize(
    ("recipe", "overrides", "estimator", "spec"),
    [
        ("mt_grpo", [], "grpo", None),
        ("mt_grpo", [f"{ESTIMATOR}=rloo"], "rloo", None),
        ("mt_grpo", ["cobalt.advantage=own:f"], "cobalt_own", "own:f"),
        ("mt_grpo", ["cobalt.advantage=own:f", f"{ESTIMATOR}=cobalt_own"], "cobalt_own", "own:f"),
        ("mt_grpo", [f"{ESTIMATOR}=cobalt_verpo"], "cobalt_own", VERPO),
        ("verpo", [], "cobalt_own", VERPO),
        ("verpo", [f"{ESTIMATOR}=cobalt_verpo"], "cobalt_own", VERPO),
        ("verpo", [f"{ESTIMATOR}=grpo"], "grpo", None),  # what is given wins over what is built in
        ("verpo", ["cobalt.advantage=own:f"], "cobalt_own", "own:f"),
    ],
)
def test_verl_is_pointed_at_the_function(recipe, overrides, estimator, spec):
    config = composed(*overrides, recipe=recipe)
    assert (config.algorithm.adv_estimator, config.cobalt.advantage) == (estimator, spec)
    constants = dict(config.cobalt.get("constants") or {})
    assert constants == (dict(config.cobalt.verpo) if spec == VERPO else {})


def test_a_loss_is_one_loss_mode():
    loss = composed("cobalt.policy_loss=own:f").actor_rollout_ref.actor.policy_loss
    assert loss.loss_mode == "cobalt_own"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            ["cobalt.advantage=own:f", f"{ESTIMATOR}=rloo"],
            f"cobalt.advantage=own:f and {ESTIMATOR}=rloo: give",
        ),
        (["cobalt.advantage=own:f", f"{ESTIMATOR}=cobalt_verpo"], f"{ESTIMATOR}=cobalt_verpo: give one"),
        (["cobalt.policy_loss=own:f", f"{MODE}=gspo"], f"{MODE}=gspo: give one"),
        ([f"{ESTIMATOR}=cobalt_own"], "cobalt.advantage names no function"),
        ([f"{MODE}=cobalt_own"], "cobalt.policy_loss names no function"),
        (["cobalt.advantage=own:f", "algorithm.use_kl_in_reward=true"], "set actor.use_kl_loss"),
    ],
)
def test_two_choices_are_refused(overrides, said):
    with pytest.raises(InputError, match=re.escape(said)):
        composed(*overrides)


@pytest.fixture(scope="module")
def plain():
    return composed()


def changed(config, *overrides):
    """A copy, whose settings need not be composed again."""
    return OmegaConf.merge(config, OmegaConf.from_dotlist(list(overrides)))


GROUP = (
    Rollout(1.0, (Turn(0.0, (False,), 0, 2, 0), Turn(1.0, (True,), 3, 5, 1))),
    Rollout(0.0, (Turn(0.0, (False,), 0, 4, 2),)),
)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("[each.reward - 0.5 for each in group]", [[0.5, 0.5], [-0.5]]),
        ("[[turn.pass_rate for turn in each.turns] for each in group]", [[0.0, 1.0], [0.0]]),
        ("__import__('numpy').array([1.0, 2.0])", [[1.0, 1.0], [2.0]]),
        ("(each.reward for each in group)", [[1.0, 1.0], [0.0]]),
        ("[1.0]", "returned a list of length 1 for a group of 2 rollouts"),
        ("None", "returned a NoneType for a group of 2"),
        ("[[1.0], [1.0]]", "1 numbers for 2 turns"),
        ("['ab', 'a']", "returned a list of length 2"),
        ("[float('nan'), 0]", "returned NaN or infinity: .*nan"),
        ("1 / (len(group) - 2)", "ZeroDivisionError"),
    ],
)
def test_what_an_advantage_returns_is_spread_or_named(tmp_path, body, found):
    file = tmp_path / "own.py"
    file.write_text(f"def f(group):\n    return {body}\n")
    own = load(f"{file}:f", "cobalt.advantage", ("group",))
    if isinstance(found, list):
        assert own_update.advantages(own, GROUP) == found
        return
    with pytest.raises(InfraError, match=found) as error:
        own_update.advantages(own, GROUP)
    assert str(error.value).startswith(f"{file}:{2 if 'Zero' in found else 1}: cobalt.advantage={file}:f: ")


@pytest.mark.parametrize(
    ("body", "settings", "said"),
    [
        ("[each.reward for each in group]", (), None),
        ("[each.reward / sum(e.reward for e in group) for each in group]", (), r"ZeroDivisionError.*\[\[0\]"),
        ("[[0.0] * 3 for each in group]", (), r"3 numbers for 1 turns.*\[\[2\], \[1\]\]"),
        ("[each.turns[0].reward + 1 for each in group]", (), "TypeError.*None, None, 2"),
        ("[each.turns[0].reward + 1 for each in group]", ("cobalt.dialogue.every_turn=true",), None),
        ("[1 / (len(group) - 8) for each in group]", ("cobalt.dialogue.branches=[4,2,1]",), "ZeroDivision"),
    ],
)
def test_an_advantage_is_tried_before_the_start(tmp_path, plain, body, settings, said):
    file = tmp_path / "own.py"
    file.write_text(f"def f(group):\n    return {body}\n")
    config = changed(plain, f"cobalt.advantage={file}:f", *settings)
    if said is None:
        (note,) = own_update.check_advantage(config)
        assert re.match(r"advantage: .*own.py:1, sha256 [0-9a-f]{64}\)$", note)
        return
    with pytest.raises(InputError, match=said):
        own_update.check_advantage(config)


def test_made_up_groups_have_the_shape_of_the_trees(plain):
    (*_, group) = own_update.made_up(changed(plain, "cobalt.dialogue.branches=[2,2,2]"))
    assert [[turn.node for turn in each.turns] for each in group] == [
        [6 * (leaf // 4) * 2, 6 * (leaf // 2) + 1, 3 * leaf + 2] for leaf in range(8)
    ]
    assert [each.turns[1].shared for each in group] == [False, True] * 4


@pytest.mark.parametrize(
    ("branches", "said"),
    [
        ("[4,2,1]", None),
        ("null", None),
        ("[4,2]", "has 2 numbers for cobalt.dialogue.turns=3"),
        ("[4,2,2]", "makes 16 rollouts of a prompt, and actor_rollout_ref.rollout.n=8"),
        ("[8,1,0]", "whole numbers from 1"),
        ("[4,2,'1']", "whole numbers from 1"),
        ("8", "whole numbers from 1"),
        ("abc", "whole numbers from 1"),
        ("[]", "whole numbers from 1"),
    ],
)
def test_sizes_of_trees_are_checked(plain, branches, said):
    config = changed(plain, f"cobalt.dialogue.branches={branches}")
    if said is None:
        read = DialogueSettings.read(config)
        assert (read.branches, read.every_turn) == (((4, 2, 1), True) if branches != "null" else ((), False))
        return
    with pytest.raises(InputError, match=rf"cobalt.dialogue.branches=.*{said}"):
        DialogueSettings.read(config)


def test_a_program_is_in_the_loss_of_the_first_leaf_that_is_not_masked():
    settings = SimpleNamespace(response_length=99)
    first = Dialogue([1, 2])
    first.add_response([5, 6], [-0.1, -0.2], "a")
    first.add_feedback([7], settings)
    leaves = [first, *[first] * 3]
    tree.fork(leaves, 0, 4)
    assert [leaf.leaf for leaf in leaves] == [0, 1, 2, 3]
    for leaf in (0, 2):
        leaves[leaf].add_response([8], [-0.3], "b")
        tree.fork(leaves, leaf, 2)
    scores = [Score(0.0, masked, {}) for masked in (True, False, False, False)]
    tree.in_loss_once(list(zip(leaves, scores, strict=True)))
    assert [leaf.mask for leaf in leaves[1:]] == [[1, 1, 0, 1], [0, 0, 0, 1], [0, 0, 0, 0]]
    assert [leaf.response_ids for leaf in leaves] == [[5, 6, 7, 8]] * 4
    turns = [leaf.record(score, {}, 2).turns for leaf, score in zip(leaves, scores, strict=True)]
    assert [[turn.node for turn in each] for each in turns] == [[0, 1], [0, 1], [0, 5], [0, 5]]
    assert [[turn.shared for turn in each] for each in turns[1:]] == [[False] * 2, [True, False], [True] * 2]
    assert tree.leaves_below((4, 2, 1), 3) == [2, 1, 1] and tree.leaves_below((), 2) == [1, 1]


@pytest.fixture
def howto(tmp_path):
    """The functions of the page's files, by file and name."""
    for name, text in re.findall(r"```python\n# (\w+\.py)\n(.*?)```", HOWTO.read_text(), re.DOTALL):
        (tmp_path / name).write_text(text)
        assert len(text.splitlines()) <= 40

    def get(spec, setting="cobalt.advantage"):
        offered = OFFERED[setting.removeprefix("cobalt.")]
        return load(f"{tmp_path}/{spec}", setting, offered)

    return get


def test_the_pages_advantage_by_turn(howto):
    def rollout(*passed):
        turns = (Turn(0.0, (each > 0, each > 1), 0, 1, 0) for each in passed)
        return Rollout(0.0, tuple(turns))

    # returns 0.5 + 0.9 x 1, 1 and 0 + 0.9 x 0, 0 and 0.5: means 1.9 / 3 and 0.5
    found = own_update.advantages(howto("by_turn.py:advantage"), [rollout(1, 2), rollout(0, 0), rollout(1)])
    assert found[0] == pytest.approx([1.4 - 1.9 / 3, 0.5])
    assert found[1] == pytest.approx([-1.9 / 3, -0.5]) and found[2] == pytest.approx([0.5 - 1.9 / 3])


def test_the_pages_rewards_go_up_the_tree(howto):
    def leaf(first, rewards, nodes):
        turns = zip((first, *rewards), nodes, strict=True)
        return Rollout(0.0, tuple(Turn(reward, (True,), 0, 1, node) for reward, node in turns))

    group = [leaf(0.2, [1.0], [0, 1]), leaf(0.2, [0.0], [0, 3]), leaf(0.5, [0.1], [4, 5])]
    # worth: max(0.2, 0.9 x 1) = 0.9 and max(0.5, 0.09) = 0.5; below 1, 0 and 0.1
    found = own_update.advantages(howto("handed_up.py:advantage"), group)
    assert [each[0] for each in found] == pytest.approx([0.2, 0.2, -0.2])
    assert [each[1] for each in found] == pytest.approx([1 - 1.1 / 3, -1.1 / 3, 0.1 - 1.1 / 3])


def test_the_pages_loss(howto):
    import torch

    log_prob = torch.tensor([[0.1, 0.3, -2.0, 0.5]], requires_grad=True)
    turns = torch.tensor([[1, 1, -1, 2]])
    term, said = howto("by_turn.py:loss", own_update.LOSS)(
        log_prob=log_prob,
        old_log_prob=torch.zeros(1, 4),
        advantages=torch.tensor([[1.0, 1.0, 0.0, -1.0]]),
        mask=(turns > 0).int(),
        turns=turns,
        group=GROUP[:1],
        aggregate=lambda values, mask: (values * mask).sum() / 3,
        config=None,
    )
    # turn 1: ratio exp(0.2), clipped to 1.2; turn 2: exp(0.5), not clipped as its advantage is negative
    assert float(term) == pytest.approx((-2 * 1.2 + 2.718281828**0.5) / 3 + 0.01 * 2 / 3, abs=1e-6)
    assert said == {"feedback": pytest.approx(2 / 3)}
