"""The workload of a configuration file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from cobalt import prompts
from cobalt.planning.assumptions import Assumptions
from cobalt.planning.models import shape
from cobalt.planning.recipes import Settings, read
from cobalt.planning.workload import Sampling, Training, Workload

if TYPE_CHECKING:
    from cobalt.run.config import Config, EvaluationSet


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
    texts = prompts.load(config.model.prompts)
    scale = train.scale or ("tiny" if train.profile == "cpu" else "published")
    settings = read(train.recipe, train.profile, scale, train.overrides)
    count = gpus or train.gpus or int(settings.number("trainer.n_gpus_per_node", 1))
    usual = "rtx4090" if train.lora_rank and count == 1 else "h100-80"
    if train.profile == "cpu" and gpu is None:
        usual, count = "cpu", 1  # the profile makes up one GPU
    folder = (path.parent if path else Path("configs")) / config.model.path
    serving = config.execution.serving
    return Workload(
        name=config.name,
        model=shape(config.model.path, folder),
        device=gpu or usual,
        gpus=count,
        tasks_kind=kind,
        responses="tiny" if tiny else "thinking" if config.model.thinking else "plain",
        system_characters=len(texts.system) + len(texts.instruction) - len("{statement}"),
        feedback_characters=len(texts.feedback) - len("{feedback}"),
        max_context=config.model.max_context,
        concurrency=config.execution.concurrency,
        sampling=tuple(_sampling(config, a, kind)),
        training=tuple(_training(config, a, kind, settings)),
        context_tasks=_train_tasks(config, a),
        judged_cases=_cases(config, a, kind),
        tensor_parallel=serving.tensor_parallel,
        memory_share=serving.gpu_memory,
    )


def _train_tasks(config: Config, a: Assumptions) -> float:
    return config.tasks.train or config.tasks.expected_train or a["contest.train_tasks"]


def _tasks(config: Config, a: Assumptions, source: str, kind: str = "tasks") -> float:
    """How many tasks a source of evaluation tasks has, before its own `limit` and `expected`."""
    tasks = config.tasks
    if source == "heldout" and tasks.heldout:
        return tasks.heldout
    if kind == "livecodebench":
        return a["contest.lcb_tasks"]
    return tasks.dev or tasks.expected_dev or a["contest.dev_tasks"]


def _tests(config: Config, a: Assumptions, kind: str, source: str = "tasks") -> tuple[float, float]:
    """(public, hidden) tests of a task."""
    if source == "livecodebench":
        return a["contest.lcb_public_tests"], a["contest.lcb_hidden_tests"]
    public = a["tiny.public_tests"] if kind == "tiny" else float(config.tasks.public_tests)
    return public, max(1.0, a[f"{kind}.tests"] - public)


def _sampling(config: Config, a: Assumptions, kind: str) -> Iterator[Sampling]:
    collect, limit, tasks = config.collect, config.sampling.max_tokens, _train_tasks(config, a)
    public, hidden = _tests(config, a, kind)
    paid = config.model.engine in ("openai", "litellm")
    yield Sampling("collect", tasks, collect.samples, 1, limit, public + hidden, provider=paid)
    yield Sampling(
        "repair", tasks, collect.samples, collect.turns, limit, public, hidden, first_turn=2, provider=paid
    )
    sets = [_set(config, a, kind, each) for each in config.evaluate.sets]
    trained = 1 + config.controls.single_turn_training
    for each in sets:
        yield from _models(each, trained, paid)
    main, controls = sets[0], config.controls
    for name, wanted in (
        ("blank feedback", controls.blank_feedback),
        ("other feedback", controls.other_feedback),
    ):
        if wanted:
            yield replace(main, name=f"control: {name}")
    if controls.best_of_turns:
        tries = main.samples * main.turns
        yield replace(main, name="control: best of turns", samples=tries, turns=1, provider=paid)
    if config.perturb is not None:
        yield from _models(_perturbed(config, a, kind), 1, paid)


def _models(given: Sampling, trained: int, paid: bool) -> Iterator[Sampling]:
    """One stage for the reference and the trained models, or two if a provider's model is the reference."""
    if paid:
        yield replace(given, name=f"{given.name}: reference", provider=True)
        yield replace(given, name=f"{given.name}: trained", models=trained)
    else:
        yield replace(given, models=1 + trained)


def _set(config: Config, a: Assumptions, kind: str, given: EvaluationSet) -> Sampling:
    public, hidden = _tests(config, a, kind, given.kind)
    found = given.expected or _tasks(config, a, given.source, given.kind)
    return Sampling(
        f"evaluate {given.name}", min(found, given.limit or found), given.samples or config.evaluate.samples,
        given.turns or config.evaluate.turns, config.sampling.max_tokens, public, hidden,
    )  # fmt: skip


def _perturbed(config: Config, a: Assumptions, kind: str) -> Sampling:
    given = config.perturb
    assert given is not None
    public, hidden = _tests(config, a, kind)
    found = given.expected or _tasks(config, a, given.source)
    return Sampling(
        "perturbed", min(found, given.limit or found), given.samples or config.evaluate.samples,
        given.turns or config.evaluate.turns, config.sampling.max_tokens, public, hidden,
    )  # fmt: skip


def _cases(config: Config, a: Assumptions, kind: str) -> float:
    """Turn errors that the judge is asked about, votes counted."""
    judge = config.hack_analysis.judge
    if config.perturb is None or judge is None:
        return 0.0
    given = _perturbed(config, a, kind)
    found = 2 * given.tasks * given.samples * (given.turns - 1) * a[f"{kind}.turn_errors"]
    return min(found, judge.max_cases or found) * judge.votes


def _training(config: Config, a: Assumptions, kind: str, settings: Settings) -> Iterator[Training]:
    given, tasks = config.train, _train_tasks(config, a)
    gpu, offline = given.profile == "gpu", settings.text("cobalt.method") == "offline"
    statements = given.recipe == "single_turn_grpo" or settings.number("cobalt.dialogue.turns", 1) > 1
    rows = tasks if statements else None
    if not statements and not config.contexts.partial:
        rows = tasks * (1 - a[f"{kind}.skipped_tasks"])
    validates = gpu and not offline
    keep = settings.number("trainer.max_actor_ckpt_to_keep", 0)
    one = Training(
        name="train",
        steps=given.steps,
        epochs=float(given.epochs or 1),
        contexts=given.contexts,
        completions=given.completions,
        mini_batches=given.mini_batches,
        max_prompt_tokens=given.max_prompt_tokens,
        response_tokens=min(given.max_response_tokens, config.sampling.max_tokens),
        tests=sum(_tests(config, a, kind)),
        rows=rows,
        turns=int(settings.number("cobalt.dialogue.turns", 1)),
        on_statements=statements or not config.contexts.partial,
        reference=settings.flag("actor_rollout_ref.actor.use_kl_loss") and not offline,
        old_log_probs=not settings.flag("algorithm.rollout_correction.bypass_mode") and not offline,
        offload=gpu and settings.flag("actor_rollout_ref.actor.fsdp_config.optimizer_offload"),
        lora=given.lora_rank > 0,
        offline=offline,
        validation_tasks=_tasks(config, a, "dev") if validates else 0.0,
        validate_every=max(0, int(settings.number("trainer.test_freq", -1))) if validates else 0,
        save_every=max(0, int(settings.number("trainer.save_freq", -1))),
        keep=int(keep) or None,
        memory_share=settings.number("actor_rollout_ref.rollout.gpu_memory_utilization", 0) or None,
    )
    yield one
    if config.controls.single_turn_training:
        yield replace(one, name="train_single", rows=tasks, turns=1, on_statements=True, offline=False)
