"""The workload of a configuration: what its run does, in plain numbers."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from cobalt import prompts
from cobalt.config import recipes
from cobalt.config.config import Config
from cobalt.config.evaluation_sections import EvaluationSet, Perturb
from cobalt.plan.assumptions import Assumptions, shape
from cobalt.plan.workload import Sampling, Training, Workload
from cobalt.training.config import is_own

_ROLLOUT, _ACTOR = "actor_rollout_ref.rollout", "actor_rollout_ref.actor"


def workload(
    config: Config,
    path: Path,
    *,
    gpu: str | None = None,
    gpus: int | None = None,
    assumptions: Assumptions | None = None,
) -> Workload:
    """What the run of a configuration, the file ``path``, does in plain numbers.

    ``gpu``, ``gpus`` replace the device; without them profile gpu means `train.gpus` (or as many as the
    profile says) of h100-80, or an rtx4090 where adapters are trained on one GPU. Sizes that a configuration
    leaves open are those of ``assumptions``.

    Raises InputError for a model whose shape is not known.
    """
    train, model, serving = config.train, config.model, config.execution.serving
    recipe = str(path.parent / train.recipe) if is_own(train.recipe) else train.recipe
    settings = recipes.read(recipe, train.profile, train.scale, train.overrides)
    work = _Work(config, assumptions or Assumptions(), path, settings)
    texts = prompts.load(prompts.near(model.prompts, path.parent))
    count = gpus or train.gpus or int(settings.number("trainer.n_gpus_per_node", 1))
    usual = "rtx4090" if train.lora_rank and count == 1 else "h100-80"
    if train.profile == "cpu" and gpu is None:
        usual, count = "cpu", 1  # the profile makes up one GPU
    responses = "tiny" if work.kind == "tiny" else "thinking" if model.thinking else "plain"
    return Workload(
        name=config.name, model=shape(model.path, path.parent / model.path), device=gpu or usual, gpus=count,
        tasks_kind=work.kind, responses=responses,
        system_characters=len(texts.system) + len(texts.instruction) - len("{statement}"),
        feedback_characters=len(texts.feedback) - len("{feedback}"), max_context=model.max_context,
        concurrency=config.execution.concurrency, sampling=tuple(work.sampling()),
        training=tuple(work.training()), context_tasks=work.train if work.method == "contexts" else 0.0,
        judged_cases=work.judged_cases(), skipped=config.skipped, tensor_parallel=serving.tensor_parallel,
        memory_share=serving.gpu_memory,
    )  # fmt: skip


@dataclass(frozen=True)
class _Work:
    """Numbers of tasks (counted where there are files, else as configuration or assumptions say) and what is
    done with them.
    """

    config: Config
    a: Assumptions
    path: Path
    settings: recipes.Settings

    @property
    def kind(self) -> str:
        """Which assumptions are about the tasks: what trains on cores is small, the user's own, too."""
        own = self.config.tasks.family == "files" and self.config.train.profile == "cpu"
        return "tiny" if own or self.config.tasks.family == "tiny" else "contest"

    @property
    def method(self) -> str:
        """What is trained on: contexts, stored completions, or statements (in one turn or in dialogues)."""
        return "stored" if self.config.on_stored else self.config.train.trains_on

    @property
    def train(self) -> float:
        """Training tasks."""
        tasks = self.config.tasks
        found = self._counted(tasks.train_file) or tasks.expected_train
        return min(tasks.train or math.inf, found or tasks.train or self.a["contest.train_tasks"])

    def of(self, source: str, kind: str = "tasks") -> float:
        """Tasks of ``dev``, ``heldout`` or another source of evaluation."""
        tasks = self.config.tasks
        if source == "heldout":
            found = self._counted(tasks.heldout_file) or tasks.heldout
            return min(tasks.heldout or math.inf, found or self.a["contest.dev_tasks"])
        if source == "dev":
            counted = self._counted(tasks.dev_file)
            return counted or tasks.dev or tasks.expected_dev or self.a["contest.dev_tasks"]
        lcb = kind == "livecodebench"
        return self._counted(source) or self.a["contest.lcb_tasks" if lcb else "contest.dev_tasks"]

    def _counted(self, name: str | None) -> float | None:
        """Lines of a local JSONL file, None if it is none."""
        path = self.path.parent / name if name else None
        if path is None or path.suffix != ".jsonl" or not path.is_file():
            return None
        with path.open("rb") as file:
            return float(sum(1 for line in file if line.strip())) or None

    def _tests(self, source: str = "tasks") -> tuple[float, float]:
        """(public, hidden) tests of a task."""
        if source == "livecodebench":
            return self.a["contest.lcb_public_tests"], self.a["contest.lcb_hidden_tests"]
        tiny = self.kind == "tiny"
        public = self.a["tiny.public_tests"] if tiny else float(self.config.tasks.public_tests)
        return public, max(1.0, self.a[f"{self.kind}.tests"] - public)

    def sampling(self) -> Iterator[Sampling]:
        """Every stage that samples; what samples for which tasks follows from the rules of a run."""
        config, collect, controls = self.config, self.config.collect, self.config.controls
        limit, (public, hidden) = config.sampling.max_tokens, self._tests()
        paid = config.model.engine in ("openai", "litellm")
        reference = {"provider": paid, "grows": True}
        first = Sampling("collect", self.train, collect.samples, 1, limit, public + hidden, **reference)
        repair = Sampling(
            "repair", self.train, collect.samples, collect.turns, limit, public, hidden, first_turn=2,
            **reference,
        )  # fmt: skip
        for split in config.collected:
            for each in (first, repair) if self.method == "contexts" or config.on_revisions else (first,):
                if split == "dev":
                    each = replace(each, name=f"{each.name} (dev)", tasks=self.of("dev"), grows=False)
                yield each
        if config.train.perturbed:
            yield replace(repair, name="repair on perturbed tests")
        sets = [self._set(f"evaluate {each.name}", each) for each in config.evaluate.sets]
        for each in sets:
            yield from _models(each, 1 + controls.single_turn_training, paid)
        if controls.blank_feedback:
            yield replace(sets[0], name="control: blank feedback")
        if controls.other_feedback:
            yield replace(sets[0], name="control: other feedback")
        if controls.best_of_turns:
            tries = sets[0].samples * sets[0].turns
            yield replace(sets[0], name="control: best of turns", samples=tries, turns=1, provider=paid)
        if config.perturb is not None:
            yield from _models(self._set("perturbed", config.perturb), 1, paid)

    def _set(self, name: str, given: EvaluationSet | Perturb) -> Sampling:
        """Dialogues of one model on a set of tasks."""
        config, kind = self.config, given.kind if isinstance(given, EvaluationSet) else "tasks"
        public, hidden = self._tests(kind)
        found = given.expected or self.of(given.source, kind)
        return Sampling(
            name, min(found, given.limit or found), given.samples or config.evaluate.samples,
            given.turns or config.evaluate.turns, config.sampling.max_tokens, public, hidden,
        )  # fmt: skip

    def judged_cases(self) -> float:
        """Turn errors that the judge is asked about, votes counted."""
        judge, perturb = self.config.hack_analysis.judge, self.config.perturb
        if perturb is None or judge is None or judge.engine == "syntactic":
            return 0.0
        given = self._set("perturbed", perturb)
        found = 2 * given.tasks * given.samples * (given.turns - 1) * self.a[f"{self.kind}.turn_errors"]
        return min(found, judge.max_cases or found) * judge.votes

    def _rows(self) -> float | None:
        """Rows to train on; None for those of the contexts."""
        config, left = self.config, 1 - self.a[f"{self.kind}.skipped_tasks"]
        if self.method == "statements":
            return self.train
        if self.method == "contexts":
            return None if config.contexts.partial else self.train * left  # an opening of each task left
        if config.tasks.family == "stored":
            return config.tasks.expected_train or self.a["contest.submitted_groups"]
        return self.train * self.a[f"{self.kind}.stored_groups"]

    def training(self) -> Iterator[Training]:
        """The recipe's training, and the single-turn control, of as many steps, on statements."""
        config, given, number, flag = self.config, self.config.train, self.settings.number, self.settings.flag
        gpu, offline, stored = given.profile == "gpu", self.method == "stored", config.tasks.has_stored
        response = given.max_response_tokens
        if not stored:
            response = min(response, config.sampling.max_tokens)
        validates, validated = gpu and not offline, 1.0
        if config.validates_on_trajectories:  # of each task left its opening and one trajectory
            validated = (1 - self.a[f"{self.kind}.skipped_tasks"]) * (1 + self.a[f"{self.kind}.slices"])
        scored = [f"{part}.log_prob_micro_batch_size_per_gpu" for part in ("actor_rollout_ref.ref", _ROLLOUT)]
        whole = given.max_prompt_tokens + given.max_response_tokens
        passes = flag(f"{_ACTOR}.use_kl_loss") + (not flag("algorithm.rollout_correction.bypass_mode"))
        one = Training(
            name="train", steps=given.steps, epochs=float(given.epochs or 1), contexts=given.contexts,
            completions=int(number("cobalt.offline.group_size", 4)) if offline else given.completions,
            mini_batches=given.mini_batches, max_prompt_tokens=given.max_prompt_tokens,
            response_tokens=response, longest=given.max_prompt_tokens + response if offline else whole,
            tests=sum(self._tests()), rows=self._rows(), turns=int(number("cobalt.dialogue.turns", 1)),
            on_statements=self.method != "contexts" or not config.contexts.partial,
            passes=0 if offline else passes, offload=gpu and flag(f"{_ACTOR}.fsdp_config.optimizer_offload"),
            lora_rank=given.lora_rank, offline=offline, submitted=stored,
            pass_sequences=int(number(f"{_ACTOR}.ppo_micro_batch_size_per_gpu", 1)),
            scored_sequences=int(max(number(name, 1) for name in scored)),
            validation_tasks=self.of("dev") if validates else 0.0, validation_contexts=validated,
            validate_every=max(0, int(number("trainer.test_freq", -1))) if validates else 0,
            save_every=max(0, int(number("trainer.save_freq", -1))),
            # cobalt.training.offline keeps the last two
            keep=2 if offline else int(number("trainer.max_actor_ckpt_to_keep", 0)) or None,
            memory_share=number(f"{_ROLLOUT}.gpu_memory_utilization", 0) or None,
        )  # fmt: skip
        yield one
        if config.controls.single_turn_training:
            yield replace(
                one, name="train_single", turns=1, on_statements=True, offline=False, validation_contexts=1.0,
                longest=whole, completions=given.completions,
            )  # fmt: skip


def _models(given: Sampling, trained: int, paid: bool) -> Iterator[Sampling]:
    """One stage for the reference and the trained models, or two if a provider's model is the reference."""
    if paid:
        yield replace(given, name=f"{given.name}: reference", provider=True)
        yield replace(given, name=f"{given.name}: trained", models=trained)
    else:
        yield replace(given, models=1 + trained)
