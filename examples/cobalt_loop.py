"""The method of Cobalt (arXiv 2602.03806) in one file: plain torch, one process, no trainer, no cluster.

    .venv/bin/python examples/cobalt_loop.py            # minutes on two cores; --help lists every setting

Multi-turn code generation is treated as a contextual bandit. Instead of sampling whole dialogues while it
trains, it takes dialogues of a *reference* model once, cuts them into *contexts*, and trains the policy on
the one program that comes next, whatever was written before:

    maximise over pi    E over contexts s [ E over a ~ pi(.|s) [ r(s, a) ] ] - beta KL(pi || reference)

Read it from top to bottom. Tasks, sandbox, selection, cutting and reward are the package's own; what this
file does without, the package has: resuming, clusters, vLLM, FSDP, other recipes. It draws other random
numbers than `cobalt run configs/tiny.yaml`: the two agree within their intervals and not to the digit.
"""

from __future__ import annotations

import argparse
import copy
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from cobalt.contexts.select import select
from cobalt.contexts.slice import slices
from cobalt.errors import InfraError
from cobalt.evaluation.format import interval, percent
from cobalt.evaluator import LocalEvaluator
from cobalt.prompts import TINY
from cobalt.rewards.cobalt import PLAIN, shaped_reward
from cobalt.stats import Interval, paired_bootstrap
from cobalt.tasks import tiny
from cobalt.text import extract_code

REFERENCE = Path(__file__).parents[1] / "models" / "tiny-reference"
Messages = list[dict[str, str]]


@dataclass(frozen=True)
class Settings:
    """The tiny scale, as in configs/tiny.yaml; the paper's values are in verl/config/published.yaml."""

    train_tasks: int = 150  # tasks that the reference is asked to solve
    heldout_tasks: int = 300  # tasks of other structures, for the evaluation
    turns: int = 3  # programs per dialogue
    samples: int = 8  # dialogues per training task
    heldout_samples: int = 2  # dialogues per held-out task
    steps: int = 60  # of training
    contexts: int = 16  # per step
    completions: int = 8  # per context: the group in which rewards are compared
    mini_batches: int = 2  # updates per step
    learning_rate: float = 4e-4
    warmup: int = 5  # steps until the learning rate is reached
    clip_low: float = 0.2
    clip_high: float = 0.4
    kl: float = 1e-4  # beta
    max_prompt_tokens: int = 320
    max_tokens: int = 64  # of a completion
    seed: int = 0


# (1) The policy: a causal language model that answers a conversation.
@dataclass
class Group:
    """n completions, of at most T tokens, of one prompt of P.

    ``prompt`` [1, P] and ``completions`` [n, T]: token ids; ``mask`` [n, T]: 1.0 on what was sampled, the end
    of the turn among it, 0.0 on the padding; ``log_probs`` [n, T] of the policy that sampled; ``texts`` [n].
    """

    prompt: torch.Tensor
    completions: torch.Tensor
    mask: torch.Tensor
    log_probs: torch.Tensor
    texts: list[str]


class Policy:
    """A model and its tokenizer."""

    def __init__(self, folder: Path) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
        self.model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def encode(self, conversation: Sequence[Any]) -> list[int]:
        """Token ids up to where the policy's turn begins."""
        return self.tokenizer.apply_chat_template(conversation, add_generation_prompt=True, return_dict=False)

    @torch.no_grad()
    def sample(self, conversations: Sequence[Messages], n: int, max_tokens: int) -> list[Group]:
        """``n`` completions of each conversation, at temperature 1; each prompt is read once."""
        prompts = [self.encode(each) for each in conversations]
        padded = self.tokenizer.pad({"input_ids": prompts}, return_tensors="pt")
        seen = padded["attention_mask"]
        places = (seen.cumsum(1) - 1).clamp(min=0)
        made = self.model(**padded, position_ids=places, use_cache=True, logits_to_keep=1)
        cache, logits = made.past_key_values, made.logits.repeat_interleave(n, 0)
        cache.batch_repeat_interleave(n)
        seen, live = seen.repeat_interleave(n, 0), torch.ones(n * len(prompts), 1, dtype=torch.bool)
        columns: list[tuple[torch.Tensor, ...]] = []  # token, mask and log-probability, each [rows, 1]
        while live.any() and len(columns) < max_tokens:
            log_p = logits[:, -1].log_softmax(-1)
            token = log_p.exp().multinomial(1).where(live, self.tokenizer.pad_token_id)
            columns.append((token, live.float(), log_p.gather(1, token)))
            live = live & (token != self.tokenizer.eos_token_id)
            places = seen.sum(1, keepdim=True)
            seen = torch.cat([seen, torch.ones_like(token)], 1)
            logits = self.model(token, attention_mask=seen, position_ids=places, past_key_values=cache).logits
        parts = [torch.cat(each, 1).split(n) for each in zip(*columns, strict=True)]
        texts = [self.tokenizer.batch_decode(each, skip_special_tokens=True) for each in parts[0]]
        rows = zip(prompts, *parts, texts, strict=True)
        return [Group(torch.tensor([prompt]), *of_prompt) for prompt, *of_prompt in rows]

    def log_probs(self, group: Group) -> torch.Tensor:
        """log pi(token | all before it), [n, T], of use where the mask is 1.

        The prompt is computed once for all its completions, which attend to its keys and values.
        """
        prompt = self.model(group.prompt, use_cache=True, logits_to_keep=1)
        cache, n = prompt.past_key_values, len(group.completions)
        cache.batch_repeat_interleave(n)
        rest = self.model(group.completions[:, :-1], past_key_values=cache).logits
        logits = torch.cat([prompt.logits.expand(n, -1, -1), rest], 1)
        return logits.log_softmax(-1).gather(2, group.completions.unsqueeze(2)).squeeze(2)


# (2) Verdicts: programs run in the sandbox, on all tests of their task.
def judge(evaluator: LocalEvaluator, texts: Sequence[str], tasks: Sequence[Any]) -> list[Any]:
    """``passing`` and ``feedback`` of each test, for the program in each text; without a program none passes.

    A wrong program is data. A fault of the evaluator would be learnt from all the same, so it ends the run.
    """
    tests = (task["test_cases"] for task in tasks)
    results = list(evaluator.evaluate_many(zip(map(extract_code, texts), tests, strict=True)))
    for result in results:
        if result["status"] == "infra_error":
            raise InfraError(f"the evaluator has no verdict: {result['feedback'][0]}")
    return results


def pass_rate(result: Any) -> float:
    return sum(result["passing"]) / len(result["passing"])


# (3) Dialogues: a first program, and repairs on the feedback of the first public test that fails.
@dataclass
class Dialogue:
    """``messages``: system, user, then (assistant, user) per turn."""

    task: dict[str, Any]
    messages: Messages
    rates: list[float] = field(default_factory=list)  # of each program, the share of all tests passed
    solved: list[bool] = field(default_factory=list)  # whether it passed the tests that no message shows


def converse(
    policy: Policy, evaluator: LocalEvaluator, tasks: Sequence[Any], n: int, settings: Settings
) -> list[list[Dialogue]]:
    """``n`` dialogues on each task, by task; none ends early."""
    groups = [[Dialogue(task, TINY.messages(task["instruction"])) for _ in range(n)] for task in tasks]
    dialogues = [dialogue for group in groups for dialogue in group]
    for _ in range(settings.turns):
        texts: list[str] = []
        for start in range(0, len(dialogues), 128):
            asked = [each.messages for each in dialogues[start : start + 128]]
            texts += [group.texts[0] for group in policy.sample(asked, 1, settings.max_tokens)]
        results = judge(evaluator, texts, [each.task for each in dialogues])
        for dialogue, text, result in zip(dialogues, texts, results, strict=True):
            public = zip(result["passing"][: tiny.N_PUBLIC], result["feedback"], strict=False)
            failed = next((feedback for passed, feedback in public if not passed), None)
            told = TINY.feedback_message(TINY.no_code if result["status"] == "no_code" else failed)
            dialogue.messages.append({"role": "assistant", "content": text})
            dialogue.messages.append({"role": "user", "content": told})
            dialogue.rates.append(pass_rate(result))
            dialogue.solved.append(all(result["passing"][tiny.N_PUBLIC :]))
    return groups


# (4) Contexts: of the dialogues from which something can be learnt, the parts after which a program is due.
@dataclass(frozen=True)
class Context:
    """A dialogue so far, and the best pass rate among the programs it shows."""

    task: dict[str, Any]
    messages: Messages
    best: float


def cut(groups: Sequence[list[Dialogue]], policy: Policy, settings: Settings) -> list[Context]:
    """The opening of every task, and what `slices` leaves of the dialogues that `select` keeps.

    A task whose first programs are all right teaches nothing. A dialogue is kept if its pass rates differ and
    one program passes everything; of more than four, those whose differences vary most.
    """
    contexts: list[Context] = []
    for group in groups:
        if all(dialogue.rates[0] == 1.0 for dialogue in group):
            continue
        contexts.append(Context(group[0].task, group[0].messages[:2], 0.0))
        for dialogue in (group[i] for i in select([each.rates for each in group])):
            found, _ = slices(
                dialogue.messages, dialogue.rates, max_prompt_tokens=settings.max_prompt_tokens,
                count_prompt_tokens=lambda shown: len(policy.encode(shown)),
            )  # fmt: skip
            for each in found:
                shown = dialogue.messages[: each.messages]
                contexts.append(Context(dialogue.task, shown, each.prev_best_pass_rate))
    return contexts


# (5) Reward: all tests of the task, against the best that the context has shown.
def rewards(groups: Sequence[Group], contexts: Sequence[Context], evaluator: LocalEvaluator) -> torch.Tensor:
    """r(s, a) in [-1, 1], [contexts, n]. The profile without terms on format and length counts no tokens."""
    texts = [text for group in groups for text in group.texts]
    asked = [context for context, group in zip(contexts, groups, strict=True) for _ in group.texts]
    results = judge(evaluator, texts, [context.task for context in asked])
    shaped = [
        shaped_reward(text, pass_rate(result), prev_best_pass_rate=s.best, count_tokens=len, profile=PLAIN)
        for text, result, s in zip(texts, results, asked, strict=True)
    ]
    return torch.tensor([each.total for each in shaped]).view(len(contexts), -1)


# (6) Training: one program per context, so a step is one round of generation.
def grpo_loss(
    new: torch.Tensor, old: torch.Tensor, ref: torch.Tensor, advantage: torch.Tensor, settings: Settings
) -> torch.Tensor:
    """The clipped objective, negated, plus beta times half the squared log-ratio to the reference: [n, T].

    ``new``, ``old``, ``ref`` [n, T]: log-probabilities under the policy, the policy that sampled, and the
    reference; ``advantage`` [n].
    """
    ratio = (new - old).exp()
    clipped = ratio.clamp(1 - settings.clip_low, 1 + settings.clip_high)
    gain = torch.minimum(ratio * advantage[:, None], clipped * advantage[:, None])
    return settings.kl * 0.5 * (new - ref).square() - gain


def train(policy: Policy, evaluator: LocalEvaluator, contexts: Sequence[Context], settings: Settings) -> None:
    """Change the policy's weights in place; its reference is what it was before."""
    reference, draw, left = copy.deepcopy(policy), random.Random(settings.seed), list[Context]()
    optimizer = torch.optim.AdamW(policy.model.parameters(), betas=(0.9, 0.95), weight_decay=0.0)
    for step in range(1, settings.steps + 1):
        optimizer.param_groups[0]["lr"] = settings.learning_rate * min(1.0, step / settings.warmup)
        if len(left) < settings.contexts:
            left = draw.sample(list(contexts), len(contexts))  # the next epoch
        chosen, left = left[: settings.contexts], left[settings.contexts :]
        groups = policy.sample([s.messages for s in chosen], settings.completions, settings.max_tokens)
        reward = rewards(groups, chosen, evaluator)
        # Against the group's mean, in its standard deviations: 0 where all of a group earn the same.
        advantage = (reward - reward.mean(1, keepdim=True)) / (reward.std(1, keepdim=True) + 1e-6)
        for places in torch.arange(len(groups)).chunk(settings.mini_batches):
            tokens = sum(groups[i].mask.sum() for i in places)  # each weighs the same in a mini-batch
            optimizer.zero_grad()
            for i in places:
                with torch.no_grad():
                    ref = reference.log_probs(groups[i])
                new, old = policy.log_probs(groups[i]), groups[i].log_probs
                loss = grpo_loss(new, old, ref, advantage[i], settings)
                ((loss * groups[i].mask).sum() / tokens).backward()
            torch.nn.utils.clip_grad_norm_(policy.model.parameters(), 1.0)
            optimizer.step()
        if step % 10 == 0:
            print(f"step {step}: mean reward of its completions {reward.mean():+.2f}", flush=True)


# (7) Evaluation: dialogues on held-out tasks; a turn counts if its program passes every hidden test.
def run(settings: Settings) -> list[Interval]:
    """Train, and return the gain in pass@1 over the reference at each turn, in [-1, 1], by task."""
    torch.manual_seed(settings.seed)
    torch.set_num_threads(1)  # matrices this small gain nothing from a second core that others use too
    tasks = list(tiny.draw_tasks("train", settings.train_tasks, 0))
    heldout = list(tiny.draw_tasks("heldout", settings.heldout_tasks, 0))
    policy, gains = Policy(REFERENCE), []
    with LocalEvaluator() as evaluator:
        before = converse(policy, evaluator, heldout, settings.heldout_samples, settings)
        contexts = cut(converse(policy, evaluator, tasks, settings.samples, settings), policy, settings)
        print(f"{len(contexts)} contexts of {len(tasks)} tasks x {settings.samples} dialogues", flush=True)
        train(policy, evaluator, contexts, settings)
        after = converse(policy, evaluator, heldout, settings.heldout_samples, settings)
    print("pass@1 on held-out tasks, in %: reference, trained, gain [95 % interval]")
    for turn in range(settings.turns):
        old, new = ([sum(d.solved[turn] for d in g) / len(g) for g in groups] for groups in (before, after))
        gains.append(paired_bootstrap(new, old))
        gain = f"{100 * gains[turn].mean:+.1f} {interval(gains[turn][1:3], 100, sign=True)}"
        print(f"turn {turn + 1}: {percent(sum(old) / len(old))}, {percent(sum(new) / len(new))}, {gain}")
    return gains


if __name__ == "__main__":
    flags = argparse.ArgumentParser(description="Cobalt on the tiny tasks, in one file.")
    for each in fields(Settings):
        flags.add_argument(f"--{each.name}", type=type(each.default), default=each.default)
    run(Settings(**vars(flags.parse_args())))
