"""The workload of a configuration file."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from cobalt import prompts
from cobalt.planning.assumptions import Assumptions
from cobalt.planning.models import shape
from cobalt.planning.recipes import Settings, read
from cobalt.planning.workload import Sampling, Training, Workload

if TYPE_CHECKING:
    from cobalt.run.config import Config, EvaluationSet, Perturb

GIVEN = {"train": "collect.trajectories", "dev": "collect.dev_trajectories"}


def workload(
    config: Config,
    path: Path | None = None,
    *,
    gpu: str | None = None,
    gpus: int | None = None,
    assumptions: Assumptions | None = None,
) -> Workload:
    """What the run of a configuration does, in plain numbers.

    ``path``: the configuration's file, to find a model given by a relative path. ``gpu``, ``gpus`` replace
    the device; without them profile gpu means `train.gpus` (or as many as the profile says) of h100-80, or an
    rtx4090 where adapters are trained on one GPU. Sizes that a configuration leaves open are those of
    ``assumptions``.

    Raises InputError for a model whose shape is not known.
    """
    a = assumptions or Assumptions()
    train, tiny = config.train, config.tasks.family == "tiny"
    kind = "tiny" if tiny else "contest"
    sizes = _Sizes(config, a, path, kind)
    folder = path.parent if path else Path("configs")
    texts = prompts.load(prompts.near(config.model.prompts, folder))
    scale = train.scale or ("tiny" if train.profile == "cpu" else "published")
    settings = read(train.recipe, train.profile, scale, train.overrides)
    method = _method(sizes, settings)
    count = gpus or train.gpus or int(settings.number("trainer.n_gpus_per_node", 1))
    usual = "rtx4090" if train.lora_rank and count == 1 else "h100-80"
    if train.profile == "cpu" and gpu is None:
        usual, count = "cpu", 1  # the profile makes up one GPU
    serving = config.execution.serving
    return Workload(
        name=config.name,
        model=shape(config.model.path, folder / config.model.path),
        device=gpu or usual,
        gpus=count,
        tasks_kind=kind,
        responses="tiny" if tiny else "thinking" if config.model.thinking else "plain",
        system_characters=len(texts.system) + len(texts.instruction) - len("{statement}"),
        feedback_characters=len(texts.feedback) - len("{feedback}"),
        max_context=config.model.max_context,
        concurrency=config.execution.concurrency,
        sampling=tuple(_sampling(sizes, method)),
        training=tuple(_training(sizes, settings, method)),
        context_tasks=sizes.train if method == "contexts" else 0.0,
        judged_cases=_cases(sizes),
        skipped=skipped(config),
        tensor_parallel=serving.tensor_parallel,
        memory_share=serving.gpu_memory,
    )


def skipped(config: Config) -> tuple[tuple[str, str], ...]:
    """(stage, why) of what a run leaves out because its data are given."""
    found = []
    for split, name in config.given_trajectories.items():
        if name is not None:
            tasks = "training" if split == "train" else "development"
            for each in ("collect", "repair", "judge"):
                found.append((f"{each} ({tasks} tasks)", f"{GIVEN[split]} is given"))
    return tuple(found)


@dataclass(frozen=True)
class _Sizes:
    """Numbers of tasks: counted where there are files, else as the configuration or the assumptions say."""

    config: Config
    a: Assumptions
    path: Path | None
    kind: str

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

    def evaluated(self, given: EvaluationSet | Perturb) -> float:
        """Tasks of a set after its limit."""
        found = given.expected or self.of(given.source, getattr(given, "kind", "tasks"))
        return min(found, given.limit or found)

    def _counted(self, name: str | None) -> float | None:
        """Lines of a local JSONL file, None if it is none."""
        path = (self.path.parent if self.path else Path()) / name if name else None
        if path is None or path.suffix != ".jsonl" or not path.is_file():
            return None
        with path.open("rb") as file:
            return float(sum(1 for line in file if line.strip())) or None


def _tests(sizes: _Sizes, source: str = "tasks") -> tuple[float, float]:
    """(public, hidden) tests of a task."""
    if source == "livecodebench":
        return sizes.a["contest.lcb_public_tests"], sizes.a["contest.lcb_hidden_tests"]
    public = sizes.a["tiny.public_tests"] if sizes.kind == "tiny" else float(sizes.config.tasks.public_tests)
    return public, max(1.0, sizes.a[f"{sizes.kind}.tests"] - public)


def _method(sizes: _Sizes, settings: Settings) -> str:
    """What is trained on: contexts, stored completions, or statements (in one turn or in dialogues)."""
    if settings.text("cobalt.method") == "offline":
        return "stored"
    online = settings.number("cobalt.dialogue.turns", 1) > 1
    return "statements" if online or sizes.config.train.recipe == "single_turn_grpo" else "contexts"


def _sampling(sizes: _Sizes, method: str) -> Iterator[Sampling]:
    collect, limit, tasks = sizes.config.collect, sizes.config.sampling.max_tokens, sizes.train
    public, hidden = _tests(sizes)
    paid = sizes.config.model.engine in ("openai", "litellm")
    first = Sampling("collect", tasks, collect.samples, 1, limit, public + hidden, provider=paid, grows=True)
    repair = Sampling(
        "repair", tasks, collect.samples, collect.turns, limit, public, hidden, first_turn=2, provider=paid,
        grows=True,
    )  # fmt: skip
    # What samples for which tasks follows from the rules of a run; repair is for contexts.
    for split in sizes.config.collected:
        for each in (first, repair) if method == "contexts" else (first,):
            if split == "dev":
                each = replace(each, name=f"{each.name} (dev)", tasks=sizes.of("dev"), grows=False)
            yield each
    if method == "contexts" and sizes.config.train.recipe == "cobalt_ptb":
        yield replace(repair, name="repair on perturbed tests")
    sets = [_set(sizes, each) for each in sizes.config.evaluate.sets]
    trained = 1 + sizes.config.controls.single_turn_training
    for each in sets:
        yield from _models(each, trained, paid)
    main, controls = sets[0], sizes.config.controls
    for name, wanted in (
        ("blank feedback", controls.blank_feedback),
        ("other feedback", controls.other_feedback),
    ):
        if wanted:
            yield replace(main, name=f"control: {name}")
    if controls.best_of_turns:
        tries = main.samples * main.turns
        yield replace(main, name="control: best of turns", samples=tries, turns=1, provider=paid)
    if sizes.config.perturb is not None:
        yield from _models(_perturbed(sizes), 1, paid)


def _models(given: Sampling, trained: int, paid: bool) -> Iterator[Sampling]:
    """One stage for the reference and the trained models, or two if a provider's model is the reference."""
    if paid:
        yield replace(given, name=f"{given.name}: reference", provider=True)
        yield replace(given, name=f"{given.name}: trained", models=trained)
    else:
        yield replace(given, models=1 + trained)


def _set(sizes: _Sizes, given: EvaluationSet) -> Sampling:
    public, hidden = _tests(sizes, given.kind)
    return Sampling(
        f"evaluate {given.name}", sizes.evaluated(given), given.samples or sizes.config.evaluate.samples,
        given.turns or sizes.config.evaluate.turns, sizes.config.sampling.max_tokens, public, hidden,
    )  # fmt: skip


def _perturbed(sizes: _Sizes) -> Sampling:
    given = sizes.config.perturb
    assert given is not None
    public, hidden = _tests(sizes)
    return Sampling(
        "perturbed", sizes.evaluated(given), given.samples or sizes.config.evaluate.samples,
        given.turns or sizes.config.evaluate.turns, sizes.config.sampling.max_tokens, public, hidden,
    )  # fmt: skip


def _cases(sizes: _Sizes) -> float:
    """Turn errors that the judge is asked about, votes counted."""
    judge = sizes.config.hack_analysis.judge
    if sizes.config.perturb is None or judge is None:
        return 0.0
    given = _perturbed(sizes)
    found = 2 * given.tasks * given.samples * (given.turns - 1) * sizes.a[f"{sizes.kind}.turn_errors"]
    return min(found, judge.max_cases or found) * judge.votes


def _training(sizes: _Sizes, settings: Settings, method: str) -> Iterator[Training]:
    given, tasks = sizes.config.train, sizes.train
    gpu, offline = given.profile == "gpu", method == "stored"
    statements = method != "contexts" or not sizes.config.contexts.partial
    rows = tasks if method == "statements" else None
    if statements and rows is None:
        rows = tasks * (1 - sizes.a[f"{sizes.kind}.skipped_tasks"])  # an opening of each task left
    if method == "stored":
        rows = tasks * sizes.a[f"{sizes.kind}.stored_groups"]
        if sizes.config.tasks.family == "stored":
            rows = sizes.config.tasks.expected_train or sizes.a["contest.submitted_groups"]
    group = int(settings.number("cobalt.offline.group_size", given.completions))
    validates = gpu and not offline
    each = 1.0
    if sizes.config.validates_on_trajectories:  # of each task left its opening and one trajectory
        each = (1 - sizes.a[f"{sizes.kind}.skipped_tasks"]) * (1 + sizes.a[f"{sizes.kind}.slices"])
    keep = settings.number("trainer.max_actor_ckpt_to_keep", 0)
    one = Training(
        name="train",
        steps=given.steps,
        epochs=float(given.epochs or 1),
        contexts=given.contexts,
        completions=group if offline else given.completions,
        mini_batches=given.mini_batches,
        max_prompt_tokens=given.max_prompt_tokens,
        response_tokens=given.max_response_tokens
        if sizes.config.tasks.has_stored
        else min(given.max_response_tokens, sizes.config.sampling.max_tokens),
        tests=sum(_tests(sizes)),
        rows=rows,
        turns=int(settings.number("cobalt.dialogue.turns", 1)),
        on_statements=statements,
        reference=settings.flag("actor_rollout_ref.actor.use_kl_loss") and not offline,
        old_log_probs=not settings.flag("algorithm.rollout_correction.bypass_mode") and not offline,
        offload=gpu and settings.flag("actor_rollout_ref.actor.fsdp_config.optimizer_offload"),
        lora_rank=given.lora_rank,
        offline=offline,
        submitted=sizes.config.tasks.has_stored,
        pass_sequences=int(settings.number("actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu", 1)),
        scored_sequences=int(
            max(
                settings.number(f"actor_rollout_ref.{part}.log_prob_micro_batch_size_per_gpu", 1)
                for part in ("ref", "rollout")
            )
        ),
        longest=0 if offline else given.max_prompt_tokens + given.max_response_tokens,
        validation_tasks=sizes.of("dev") if validates else 0.0,
        validation_contexts=each,
        validate_every=max(0, int(settings.number("trainer.test_freq", -1))) if validates else 0,
        save_every=max(0, int(settings.number("trainer.save_freq", -1))),
        keep=2 if offline else int(keep) or None,  # cobalt.training.offline keeps the last two
        memory_share=settings.number("actor_rollout_ref.rollout.gpu_memory_utilization", 0) or None,
    )
    yield one
    if sizes.config.controls.single_turn_training:
        # As many steps as the other training, on statements.
        single = replace(
            one,
            name="train_single",
            turns=1,
            on_statements=True,
            offline=False,
            validation_contexts=1.0,
            longest=given.max_prompt_tokens + given.max_response_tokens,
        )
        yield replace(single, completions=given.completions)
