"""`examples/cobalt_loop.py`: the method in one file is the method, and a model learns by it."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import asdict

import pytest
import torch
import yaml
from doors import ROOT, run

from cobalt.errors import InfraError
from cobalt.evaluator import LocalEvaluator

FILE = ROOT / "examples" / "cobalt_loop.py"


@pytest.fixture(scope="module")
def loop():
    spec = importlib.util.spec_from_file_location("cobalt_loop", FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture(scope="module")
def policy(loop):
    torch.manual_seed(0)
    return loop.Policy(loop.REFERENCE)


@pytest.fixture(scope="module")
def tasks(loop):
    return list(loop.tiny.draw_tasks("train", 3, 0))


def test_it_is_short_and_plain():
    text = FILE.read_text()
    assert len(text.splitlines()) <= 300
    imported = set(re.findall(r"^(?:from|import) (\w+)", text, re.M))
    assert imported - set(sys.stdlib_module_names) == {"cobalt", "torch", "transformers"}


def test_its_settings_are_those_of_the_demo(loop):
    demo = yaml.safe_load((ROOT / "configs" / "tiny.yaml").read_text())
    train, actor = demo["train"], yaml.safe_load((ROOT / "verl/config/published.yaml").read_text())
    actor = actor["actor_rollout_ref"]["actor"]
    scale = yaml.safe_load((ROOT / "verl/config/scale/tiny.yaml").read_text())["actor_rollout_ref"]["actor"]
    assert asdict(loop.Settings()) == {
        "train_tasks": demo["tasks"]["train"], "heldout_tasks": demo["tasks"]["heldout"],
        "turns": demo["collect"]["turns"], "samples": demo["collect"]["samples"],
        "heldout_samples": demo["evaluate"]["samples"],
        **{name: train[name] for name in ("steps", "contexts", "completions", "mini_batches")},
        "learning_rate": train["learning_rate"],
        "warmup": scale["optim"]["lr_warmup_steps"],
        "clip_low": actor["clip_ratio_low"], "clip_high": actor["clip_ratio_high"],
        "kl": actor["kl_loss_coef"], "max_prompt_tokens": train["max_prompt_tokens"],
        "max_tokens": demo["sampling"]["max_tokens"], "seed": 0,
    }  # fmt: skip
    assert demo["evaluate"]["turns"] == demo["collect"]["turns"] and train["reward_profile"] == "plain"


def test_log_probabilities_are_the_models_own_and_the_mask_ends_with_the_turn(loop, policy, tasks):
    """Of prompts of three lengths, padded together, against one forward pass per completion."""
    openings = [loop.TINY.messages(task["instruction"] + " Now." * i) for i, task in enumerate(tasks)]
    groups = policy.sample(openings, 4, 64)
    assert [group.prompt.tolist()[0] for group in groups] == [policy.encode(each) for each in openings]
    for group in groups:
        found = policy.log_probs(group)
        for i, text in enumerate(group.texts):
            size = int(group.mask[i].sum())
            assert group.mask[i].tolist() == [1.0] * size + [0.0] * (len(group.mask[i]) - size)
            made = group.completions[i, :size]
            assert (made == policy.tokenizer.eos_token_id).nonzero().flatten().tolist() in ([size - 1], [])
            assert policy.tokenizer.decode(made, skip_special_tokens=True) == text
            ids = torch.cat([group.prompt[0], made])
            logits = policy.model(ids[None]).logits[0, -size - 1 : -1]
            plain = logits.log_softmax(-1)[range(size), made]
            for each in (found[i, :size], group.log_probs[i, :size]):
                assert torch.allclose(each, plain, atol=1e-4)


def test_the_loss_pushes_what_is_better_and_stops_at_the_clip(loop):
    settings, old = loop.Settings(), torch.zeros(2, 3)
    advantage = torch.tensor([1.0, -2.0])

    def slopes(ratio: float, ref: float = 0.0) -> torch.Tensor:
        new = torch.full((2, 3), ratio).log().requires_grad_()
        loop.grpo_loss(new, old, torch.full((2, 3), ref), advantage, settings).sum().backward()
        return new.grad[:, 0]

    assert slopes(1.0).tolist() == pytest.approx([-1.0, 2.0])  # the policy gradient
    assert slopes(1.3)[0] == pytest.approx(-1.3, abs=1e-3)  # inside the clip, to which 1.3 of 1.4 belongs
    assert abs(slopes(1.5)[0]) < 1e-3 and slopes(1.5)[1] > 2.9  # nothing to gain any more; still to be undone
    assert slopes(0.7)[0] < -0.69 and abs(slopes(0.7)[1]) < 1e-3
    assert slopes(1.0, ref=1.0).tolist() == pytest.approx([-1.0 - 1e-4, 2.0 - 1e-4])  # towards the reference


def test_dialogues_become_contexts_as_selection_and_cutting_say(loop, policy, tasks):
    def dialogue(*rates: float) -> object:
        made = loop.Dialogue(tasks[0], loop.TINY.messages("x"), list(rates), [rate == 1.0 for rate in rates])
        for turn in range(len(rates)):
            made.messages.append({"role": "assistant", "content": f"program {turn}"})
            made.messages.append({"role": "user", "content": f"feedback {turn}"})
        return made

    learnable, flat = dialogue(0.0, 0.5, 1.0), dialogue(0.5, 0.5, 0.5)
    found = loop.cut([[learnable, flat], [dialogue(1.0, 1.0, 1.0)]], policy, loop.Settings())
    assert [(len(each.messages), each.best) for each in found] == [(2, 0.0), (4, 0.0), (6, 0.5), (8, 1.0)]
    assert found[2].messages == learnable.messages[:6]


def test_a_program_earns_by_what_its_context_has_shown_and_a_fault_ends_the_run(loop, tasks):
    task = tasks[0]
    spec, _, _ = next(loop.tiny.draw_specs("train", 1, 0))
    right = f"```python\n{loop.tiny.program(spec)}\n```"
    blank = torch.zeros(3, 1)
    group = loop.Group(blank[:1], blank, blank, blank, [right, "no program", "```\n1\n```"])
    contexts = [loop.Context(task, [], 0.5)]
    with LocalEvaluator(1) as evaluator:
        assert loop.rewards([group], contexts, evaluator).tolist()[0] == pytest.approx([1.0, -1.0, -0.2])

        def broken(programs):
            return ({"status": "infra_error", "feedback": ["Exception: no worker"]} for _ in programs)

        evaluator.evaluate_many = broken
        with pytest.raises(InfraError, match="no worker"):
            loop.rewards([group], contexts, evaluator)


def gains(*flags: str) -> list[float]:
    """Points by turn, of a run as a reader starts it."""
    said = run(FILE, *flags).stdout
    print(said)
    return [float(gain) for gain in re.findall(r"^turn \d: \S+, \S+, ([+-]\S+) ", said, re.M)]


@pytest.mark.slow
def test_it_runs_from_tasks_to_gains():
    """Two steps; so few teach nothing that could be measured, which the next test does."""
    small = {"train_tasks": 12, "samples": 2, "turns": 2, "heldout_tasks": 6, "contexts": 4, "steps": 2}
    assert len(gains(*(f"--{name}={value}" for name, value in small.items()))) == 2


@pytest.mark.slow
@pytest.mark.full
def test_it_gains_what_the_demo_gains():
    first, second, third = gains()
    assert 23.2 <= third <= 34.3  # docs/benchmarks.md, the interval at SEED=0
    assert second > first
