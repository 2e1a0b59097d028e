"""What a training reports: its result, the metrics of every launch, the card of its model."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from cobalt.files import file_sha256
from cobalt.prompts import load

METRICS = "metrics.jsonl"
_ON_THE_CARD = (
    *("reward/pass_rate", "reward/acc", "reward/shaped", "reward/no_code"),
    *("offline/loss", "response_length/mean", "actor/entropy"),
)


@dataclass(frozen=True)
class TrainResult:
    """A finished training (or, after a dry run, only ``plan`` and ``output``).

    ``steps`` done in all (fewer than planned only if ``stopped``), ``samples`` completions drawn, ``masked``
    of them without a verdict (not trained on), ``wall_s`` seconds of this launch, ``checkpoint`` folder of
    the last step, ``model`` the exported Hugging Face folder (fp32 on CPU), ``metrics`` one mapping per step
    with verl's names and ours, earlier launches included, ``evaluator`` counters of this launch, ``notes``
    what was decided for the user. ``plan["functions"]``: those of the recipe (cobalt.training.method.check).
    """

    output: Path
    plan: dict[str, Any]
    steps: int = 0
    stopped: bool = False
    samples: int = 0
    masked: int = 0
    wall_s: float = 0.0
    first_step_s: float | None = None
    checkpoint: Path | None = None
    model: Path | None = None
    log: Path | None = None
    metrics: list[dict[str, Any]] = field(default_factory=list)
    evaluator: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """Plain values, paths as text, without ``metrics``."""
        values = asdict(self)
        del values["metrics"]
        return {key: str(value) if isinstance(value, Path) else value for key, value in values.items()}


def read_metrics(files: Iterable[Path]) -> list[dict[str, Any]]:
    """Metrics per step from the file loggers of all launches, oldest first; a later launch wins.

    A line torn by a killed process is left out. Every mapping has its ``step``.
    """
    steps: dict[int, dict[str, Any]] = {}
    for path in files:
        for line in path.read_bytes().splitlines():
            try:
                record = json.loads(line)
            except ValueError:
                continue
            steps.setdefault(record["step"], {}).update(step=record["step"], **record["data"])
    return [steps[step] for step in sorted(steps)]


def launch_folders(output: Path) -> list[Path]:
    """Folders of all launches, oldest first."""
    return sorted((output / "launches").glob("[0-9]*"))


def new_launch(output: Path) -> Path:
    """Make the folder of this launch."""
    folder = output / "launches" / f"{len(launch_folders(output)) + 1:03d}"
    folder.mkdir(parents=True)
    return folder


def card(config: Any, result: TrainResult) -> str:
    """A model card in Hugging Face's form: data, recipe, metrics of first and last step, versions."""
    cobalt, data, plan = config.cobalt, config.data, result.plan
    model, dialogue = config.actor_rollout_ref.model.path, cobalt.dialogue
    facts = {
        "starting model": f"`{model}`",
        "recipe": f"`{cobalt.recipe}`, scale `{cobalt.scale}`, seed {data.seed}",
        "steps": f"{result.steps} of {plan['steps']}{' (stopped)' if result.stopped else ''}, each "
        f"{plan['contexts_per_step']} x {plan['samples_per_context']} completions, "
        f"{plan['optimizer_steps']} optimiser steps",
        "samples": f"{result.samples:,}, {result.masked} of them without a verdict and not trained on",
        "learning rate": config.actor_rollout_ref.actor.optim.lr,
        "reward": f"profile `{cobalt.reward_profile}`, tokens by `{cobalt.token_counter}`",
    }
    for key, own in cobalt.get("functions", {}).items():
        if cobalt[key] is not None:
            constants = "".join(f", {name} {value}" for name, value in own.constants.items())
            facts[key.replace("_", " ")] = f"`{_short(own.function)}`, sha256 {own.sha256}{constants}"
    trained = [data.train_files] if isinstance(data.train_files, str) else data.train_files
    facts["training data"] = ", ".join(_file(path) for path in trained)
    if cobalt.ptb.file is not None:
        facts["perturbed contexts"] = _file(cobalt.ptb.file)
    if int(dialogue.turns) > 1:
        sha256 = load(dialogue.prompts).sha256
        facts["feedback"] = f"prompts `{Path(dialogue.prompts).name}`, sha256 {sha256}"
    versions = ", ".join(f"{name} {version(name)}" for name in ("verl", "torch", "transformers", "ray"))
    facts["versions"] = f"Python {platform.python_version()}, {versions}"
    rows = "\n".join(f"| {name} | {value} |" for name, value in facts.items())
    base = Path(model).name if Path(model).is_absolute() else model  # a folder's name, or the hub's
    return (
        f"---\nbase_model: {base}\npipeline_tag: text-generation\n"
        f"tags: [cobalt, code, reinforcement-learning]\n---\n# {Path(model).name}, trained by "
        f"`{cobalt.recipe}`\n\n| | |\n|---|---|\n{rows}\n\n{_metrics(result.metrics)}"
    )


def _short(spec: str) -> str:
    """Without the folders of this machine."""
    return spec if not spec.partition(":")[0].endswith(".py") else spec.rpartition("/")[2]


def _file(path: str) -> str:
    known = Path(path).is_file()
    return f"`{Path(path).name}`{f', sha256 {file_sha256(Path(path))}' if known else ''}"


def _metrics(metrics: list[dict[str, Any]]) -> str:
    if not metrics:
        return ""
    first, last = metrics[0], metrics[-1]
    names = [name for name in _ON_THE_CARD if first.get(name) is not None and last.get(name) is not None]
    rows = "".join(f"| `{name}` | {first[name]:.4f} | {last[name]:.4f} |\n" for name in names)
    return (
        f"| training metric | step {first['step']} | step {last['step']} |\n|---|---|---|\n{rows}\n"
        "These are of the training samples; they say nothing about held-out tasks.\n"
    )
