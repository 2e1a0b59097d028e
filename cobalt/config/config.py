"""What a configuration file may say as a whole: its sections, and the rules across them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import field
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from cobalt.config import evaluation_sections as after
from cobalt.config import recipes
from cobalt.config import sections as of
from cobalt.config.sections import KNOWN_KEYS, SPLITS, Count, Text
from cobalt.engines import ENGINES, OWN
from cobalt.engines import is_own as is_own_engine
from cobalt.errors import InputError
from cobalt.evaluator.client import check_spec
from cobalt.rewards.cobalt import PROFILES
from cobalt.training.method import STORED

GROUP_SIZE = 4  # completions of a stored group
_NAME = re.compile(r"[A-Za-z0-9][\w.\-]*")
_RESERVED = ("reference", "perturbed")


@dataclass(frozen=True, config=KNOWN_KEYS, kw_only=True)
class Config:
    """One run: a name, and sections that may all be left out."""

    name: Text
    """Of the run, in its report and plan."""
    schema: Annotated[Count, Field(le=1)] = 1
    """Version of this format."""
    tasks: of.Tasks = field(default_factory=of.Tasks)
    model: of.Model = field(default_factory=of.Model)
    sampling: of.Sampling
    collect: of.Collect = field(default_factory=of.Collect)
    contexts: of.Contexts = field(default_factory=of.Contexts)
    train: of.Train
    evaluate: after.Evaluate = field(default_factory=after.Evaluate)
    perturb: after.Perturb | None = field(default_factory=after.Perturb)
    """Null leaves out the stages perturb and hack_analysis."""
    hack_analysis: after.HackAnalysis = field(default_factory=after.HackAnalysis)
    controls: after.Controls = field(default_factory=after.Controls)
    execution: of.Execution = field(default_factory=of.Execution)

    def __post_init__(self) -> None:
        for part in (_tasks, _model, _training, _sets, _services):
            wrong = next(part(self), None)
            if wrong is not None:
                raise ValueError(wrong)

    @property
    def on_contexts(self) -> bool:
        """Whether the recipe trains on contexts."""
        return self.train.trains_on == "contexts"

    @property
    def on_stored(self) -> bool:
        """Whether the recipe trains on stored groups."""
        return self.train.trains_on in STORED

    @property
    def on_revisions(self) -> bool:
        """Whether the groups are of second programs, so that trajectories are collected."""
        return self.train.trains_on == "revisions"

    @property
    def validates_on_trajectories(self) -> bool:
        """Whether validation uses contexts cut from trajectories of development tasks."""
        usual = "openings" if self.train.profile == "cpu" else "trajectories"
        return self.on_contexts and (self.contexts.validation or usual) == "trajectories"

    @property
    def given_trajectories(self) -> dict[str, str | None]:
        """Ready trajectories that the run uses, by split; None where it collects, or needs none."""
        train = self.collect.trajectories if self.on_contexts else None
        dev = self.collect.dev_trajectories if self.validates_on_trajectories else None
        return {"train": train, "dev": dev}

    @property
    def collected(self) -> list[str]:
        """Splits whose tasks the reference answers before training."""
        given, stored = self.given_trajectories, self.on_stored and not self.tasks.has_stored
        splits = ["train"] if stored or (self.on_contexts and given["train"] is None) else []
        return splits + (["dev"] if self.validates_on_trajectories and given["dev"] is None else [])

    @property
    def skipped(self) -> tuple[tuple[str, str], ...]:
        """(stage, why) of what a run leaves out because its data are given."""
        names = {"train": ("training", "trajectories"), "dev": ("development", "dev_trajectories")}
        given = [names[split] for split, source in self.given_trajectories.items() if source is not None]
        stages = ("collect", "repair", "judge")
        return tuple((f"{stage} ({a} tasks)", f"collect.{b} is given") for a, b in given for stage in stages)


def _tasks(config: Config) -> Iterator[str]:
    tasks, family = config.tasks, config.tasks.family
    if family == "taco" and tasks.source is None:
        yield "'tasks.source' is missing: family taco reads a file or hub name (likaixin/TACO-verified)"
    if family == "stored" and tasks.source is None:
        yield "'tasks.source' is missing: family stored reads a folder of CodeNet's layout, or stored groups"
    if tasks.version != 1 and (family != "tiny" or tasks.submissions is not None):
        yield "'tasks.version' 2 belongs to family tiny, without 'tasks.submissions'"
    if tasks.submissions is not None and family != "tiny":
        yield f"'tasks.submissions' are made up for family tiny, not for {family}"
    if tasks.has_stored and config.train.trains_on != "stored":
        known = " or ".join(recipes.that_train_on("stored"))
        yield f"stored programs ('tasks.family', 'tasks.submissions') need 'train.recipe' {known}"
    if family == "stored" and config.controls.single_turn_training:
        yield "'controls.single_turn_training' needs tasks to train on, which family stored has not"
    if family == "taco" and tasks.heldout is not None:
        yield "'tasks.heldout': family taco has no held-out split; name its data in 'evaluate.sets'"
    if family not in ("taco", "stored") and tasks.source is not None:
        yield f"'tasks.source' belongs to family taco or stored, not to {family}"
    for split in SPLITS:
        file = getattr(tasks, f"{split}_file")
        if family == "files" and file is None and split != "heldout":
            yield f"'tasks.{split}_file' is missing, which family files needs"
        if family != "files" and file is not None and (family != "stored" or split == "train"):
            yield f"'tasks.{split}_file' belongs to family files, not to {family}"
    if family == "files" and tasks.heldout is not None and tasks.heldout_file is None:
        yield "'tasks.heldout' without 'tasks.heldout_file'"


def _model(config: Config) -> Iterator[str]:
    model, serving = config.model, config.execution.serving
    remote, own = model.engine in ("openai", "litellm"), is_own_engine(model.engine)
    if model.engine not in ENGINES and not own:
        yield f"'model.engine' must be one of {', '.join(ENGINES)}, or {OWN}; got '{model.engine}'"
    runs = "'model.trained_engine' is missing: {} the trained models; choose transformers or vllm"
    if model.engine == "openai" and not model.base_url:
        yield "'model.base_url' is missing, which engine openai needs"
    if model.engine == "transformers" and model.base_url:
        yield "'model.base_url' does not go with engine transformers, which runs in this process"
    if remote and model.trained_engine is None:
        yield runs.format(f"engine {model.engine} cannot run")
    if not (remote or own) and model.served_name is not None and model.base_url is None:
        yield "'model.served_name' is the model's name at 'model.base_url', which is missing"
    if model.engine == "vllm" and model.base_url and model.trained_engine is None:
        yield runs.format("the server at 'model.base_url' does not serve")
    if serving.command is None:
        asked = model.trained_engine or model.engine, model.engine if not model.base_url else None
        if "vllm" in asked and config.train.profile == "cpu":
            yield (
                "engine vllm reserves GPUs, but 'train.profile' is cpu: choose engine transformers, or give "
                "'execution.serving.command'"
            )
        return
    words = " ".join(serving.command)
    try:
        words.format(model="m", port=1, replicas=1, tensor_parallel=1, max_context=1)
    except (KeyError, IndexError, ValueError) as error:
        yield f"'execution.serving.command': cannot fill in {error}"
    if "{port}" not in words:
        yield "'execution.serving.command' must name {port}, where it is asked"


def _training(config: Config) -> Iterator[str]:
    train, recipe = config.train, config.train.recipe
    if train.contexts % train.mini_batches:
        yield (
            f"'train.contexts' ({train.contexts}) must be a multiple of "
            f"'train.mini_batches' ({train.mini_batches})"
        )
    if train.steps is not None and train.epochs is not None:
        yield "give either 'train.steps' or 'train.epochs' (the other null)"
    for name, usual in (("perturbed_share", None), ("perturbed_kind", "swap")):
        if getattr(train, name) != usual and not train.perturbed:
            yield f"'train.{name}' belongs to recipes that mix them in (cobalt.ptb.mix), not to {recipe}"
    if train.perturbed and not config.on_contexts:
        yield "'train.perturbed' belongs to recipes that train on contexts"
    if config.on_revisions and config.collect.turns < 2:
        yield f"recipe {recipe} trains on second programs: 'collect.turns' must be at least 2"
    if config.on_stored and not config.tasks.has_stored and config.collect.samples < GROUP_SIZE:
        yield (
            f"recipe {recipe} needs 'collect.samples' of at least {GROUP_SIZE}, the size of a stored group, "
            f"got {config.collect.samples}"
        )
    if train.reward_profile not in PROFILES:
        known = ", ".join(sorted(PROFILES))
        yield f"'train.reward_profile' must be one of {known}, got '{train.reward_profile}'"
    if train.profile == "cpu" and train.gpus is not None:
        yield "'train.gpus' does not go with 'train.profile' cpu"
    if train.profile == "cpu" and train.lora_rank and not config.on_stored:
        yield "'train.lora_rank' needs 'train.profile' gpu: the CPU engine trains all weights"
    if config.controls.single_turn_training and recipe == recipes.CONTROL:
        yield f"'controls.single_turn_training' is what recipe {recipe} does anyway: switch the control off"
    if config.contexts.rule is not None and (other := config.contexts.beside_rule):
        yield f"'contexts.rule' takes the place of 'contexts.{other}': leave that out"
    if not config.contexts.partial and config.contexts.selection != "max_variance":
        yield "'contexts.selection' has no effect when 'contexts.partial' is false"


def _sets(config: Config) -> Iterator[str]:
    sets, splits = config.evaluate.sets, config.tasks.splits
    none = f"there is no split {{}} (tasks: {', '.join(splits) or 'none'})"
    if not sets:
        yield "'evaluate.sets' must name at least one set of tasks"
    for number, each in enumerate(sets):
        at = f"'evaluate.sets.{number}"
        if not _NAME.fullmatch(each.name) or each.name in _RESERVED:
            yield f"{at}.name' must be letters, digits, '.', '-', '_' and no reserved word; got '{each.name}'"
        if each.name in [other.name for other in sets[:number]]:
            yield f"{at}.name': two sets are named '{each.name}'"
        if each.source in ("dev", "heldout") and each.source not in splits:
            yield f"{at}.source': {none.format(each.source)}"
        if each.kind == "livecodebench" and each.source in ("dev", "heldout"):
            yield f"{at}.kind' livecodebench needs a release file or hub name as source"
    perturb = config.perturb
    if perturb is not None and perturb.source in ("dev", "heldout") and perturb.source not in splits:
        yield f"'perturb.source': {none.format(perturb.source)}"


def _services(config: Config) -> Iterator[str]:
    judge = config.hack_analysis.judge
    try:
        check_spec(config.execution.evaluator, "'execution.evaluator'")
    except InputError as error:
        yield str(error)
    if judge is not None and judge.engine != "syntactic" and judge.model is None:
        yield f"'hack_analysis.judge.model' is missing, which engine {judge.engine} needs"
    if judge is not None and judge.engine == "openai" and judge.base_url is None:
        yield "'hack_analysis.judge.base_url' is missing, which engine openai needs"
