"""The model card of an exported model."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from cobalt.files import file_sha256
from cobalt.prompts import load
from cobalt.training.outcome import TrainResult

_PACKAGES = ("verl", "torch", "transformers", "ray", "peft", "accelerate", "vllm")
_SHOWN = (
    "reward/pass_rate",
    "reward/acc",
    "reward/shaped",
    "reward/no_code",
    "offline/loss",
    "response_length/mean",
    "actor/entropy",
)


def card(config: Any, result: TrainResult) -> str:
    """A README in Hugging Face's form: data, recipe, metrics of first and last step, versions."""
    cobalt, data, plan = config.cobalt, config.data, result.plan
    lines = [
        "---",
        f"base_model: {Path(config.actor_rollout_ref.model.path).name}",
        "pipeline_tag: text-generation",
        "tags: [cobalt, code, reinforcement-learning]",
        "---",
        f"# {Path(config.actor_rollout_ref.model.path).name}, trained by `{cobalt.recipe}`",
        "",
        "| | |",
        "|---|---|",
        f"| starting model | `{config.actor_rollout_ref.model.path}` |",
        f"| recipe | `{cobalt.recipe}`, scale `{cobalt.scale}`, seed {data.seed} |",
        f"| steps | {result.steps} of {plan['steps']}"
        f"{' (stopped)' if result.stopped else ''}, each {plan['contexts_per_step']} x "
        f"{plan['samples_per_context']} completions, {plan['optimizer_steps']} optimiser steps |",
        f"| samples | {result.samples:,}, {result.masked} of them without a verdict and not trained on |",
        f"| learning rate | {config.actor_rollout_ref.actor.optim.lr} |",
        f"| reward | profile `{cobalt.reward_profile}`, tokens by `{cobalt.token_counter}` |",
        *(_data_row(what, path) for what, path in _files(config)),
        *_prompts(cobalt.dialogue),
        f"| versions | Python {platform.python_version()}, {', '.join(_versions())} |",
        "",
        *_metrics(result),
    ]
    return "\n".join(lines) + "\n"


def _files(config: Any) -> list[tuple[str, str]]:
    given = config.data.train_files
    trained = [given] if isinstance(given, str) else given
    found = [*(("training data", path) for path in trained), ("perturbed contexts", config.cobalt.ptb.file)]
    return [(what, path) for what, path in found if path is not None]


def _data_row(what: str, path: str) -> str:
    known = Path(path).is_file()
    return f"| {what} | `{Path(path).name}`{f', sha256 {file_sha256(Path(path))}' if known else ''} |"


def _prompts(dialogue: Any) -> list[str]:
    if int(dialogue.turns) < 2:
        return []
    return [f"| feedback | prompts `{Path(dialogue.prompts).name}`, sha256 {load(dialogue.prompts).sha256} |"]


def _versions() -> list[str]:
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found


def _metrics(result: TrainResult) -> list[str]:
    if not result.metrics:
        return []
    first, last = result.metrics[0], result.metrics[-1]
    names = [name for name in _SHOWN if first.get(name) is not None and last.get(name) is not None]
    return [
        f"| training metric | step {first['step']} | step {last['step']} |",
        "|---|---|---|",
        *(f"| `{name}` | {first[name]:.4f} | {last[name]:.4f} |" for name in names),
        "",
        "These are of the training samples; they say nothing about held-out tasks.",
    ]
