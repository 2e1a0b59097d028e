"""What is checked before the first stage: lengths, tasks against batches, the model's files, the services,
the training put together; and what this machine lacks for the stages that are left to do.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any

from cobalt import cluster
from cobalt.config.load import check_stored
from cobalt.config.recipes import CONTROL
from cobalt.errors import CobaltError, InfraError, InputError
from cobalt.models import check_model
from cobalt.plan.estimate import estimate
from cobalt.plan.from_config import workload
from cobalt.rows import Row
from cobalt.run.given import check_given, local_trajectories
from cobalt.run.job import Job
from cobalt.run.task_files import known_tasks, local_sources, sources
from cobalt.run.trainings import check_composed, rows_at_most, trainings
from cobalt.text import o200k_counter
from cobalt.training.method import OFFERED

MODEL_STAGES = frozenset({"collect", "repair", "ptb_contexts", "evaluate", "perturb", "controls"})
_TRAINING = frozenset({"train", "train_single"})
_ENOUGH = 2000  # prompts that are measured


@dataclass
class Findings:
    """In words: what was ``checked`` and ``unchecked``; what is ``lacking`` here, without which a run cannot
    end; ``doubts``, with which it may.
    """

    checked: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For people."""
        parts = {"checked": self.checked, "not checked": self.unchecked, "doubtful": self.doubts,
                 "lacking here": self.lacking}  # fmt: skip
        return [line for name, found in parts.items() if found
                for line in (f"{name}:", *(f"  - {each}" for each in found))]  # fmt: skip


def check(job: Job, to_do: Collection[str], *, dry: bool) -> Findings:
    """Check all that stages ``to_do`` need. A dry run leaves out the hub, and puts the training together in a
    process of its own, as does a run on GPUs (seconds against hours) or with functions of the user's own.

    Raises InputError for what would be wrong on any machine.
    """
    stages, found = {*to_do}, Findings([f"every key of {job.file}, and that the files it names are there"])
    found.lacking, found.doubts = check_given(job, stages, local_only=dry)
    try:
        check_stored(job.config, job.file)
    except InputError as error:
        if not dry:
            raise
        found.lacking.append(str(error))
    _model(job, found)
    _lengths(job)
    rows = known_tasks(job) if "data" in stages or stages & _TRAINING else None
    if "data" in stages and (local_sources(job) or local_trajectories(job)):
        found.checked.append(
            "rows of ready tasks and trajectories in local files, and the first of each source that tasks "
            "are made of; training tasks against the others of such files"
        )
    if dry and "data" in stages and (hub := [name for name, path in sources(job).items() if path is None]):
        found.unchecked.append(f"tasks on the hub: {', '.join(hub)}")
    if stages & _TRAINING:
        _training(job, rows, found, stages, whole=dry or job.config.train.profile == "gpu")
    _services(job, stages, found, rows)
    _machine(job, stages, found)
    return found


def _lengths(job: Job) -> None:
    """The lengths that a configuration asks for, against the lengths of the model where those are known."""
    train, context, sampled = job.config.train, job.config.model.max_context, job.config.sampling.max_tokens
    config = json.loads((job.model / "config.json").read_text("utf-8")) if isinstance(job.model, Path) else {}
    made = config.get("max_position_embeddings") if not config.get("rope_scaling") else None
    least = context if made is None else int(made)
    trained = train.max_prompt_tokens + train.max_response_tokens
    for name, tokens, most in (
        ("'sampling.max_tokens' and a token of the prompt", sampled + 1, context),
        ("'model.max_context'", context, least),
        ("'train.max_prompt_tokens' + 'train.max_response_tokens'", trained, least),
    ):
        if tokens > most:
            whose = "'model.max_context'" if most == context else f"what {job.model} was made for"
            raise InputError(f"{job.file}: {name}: {tokens} tokens, and {whose} is {most} tokens")


def _model(job: Job, found: Findings) -> None:
    local = isinstance(job.model, Path)
    try:
        check_model(job.model, flag=f"{job.file}: 'model.path'")
    except InputError as error:
        if local:
            raise
        found.lacking.append(f"{error} (hf download {job.model})")
        return
    said = "there, whole, of the sizes in its config.json" if local else "cached here, or known to the hub"
    found.checked.append(f"the model's files: {said}")


def _cached(model: str) -> str | None:
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(model, "tokenizer_config.json")
    return path if isinstance(path, str) else None


def _training(
    job: Job, rows: list[dict[str, Any]] | None, found: Findings, stages: set[str], *, whole: bool
) -> None:
    """Batches against tasks; the configuration composed; where it can be, the training put together."""
    config, batch, tasks = job.config, job.config.train.contexts, job.config.tasks
    given = config.given_trajectories["train"] is not None
    count = len(rows) if rows is not None else tasks.train or tasks.expected_train
    if count is not None and not given:
        _batches(job, count, found, control="train_single" in stages)
    try:
        metadata.version("verl")
    except metadata.PackageNotFoundError:
        found.lacking.append("verl is not installed here: train.overrides were not checked")
        return
    composed, said = check_composed(job), "names, types, memory of weights and optimiser"
    found.checked.append(
        f"the training's configuration as verl composes it (recipe {config.train.recipe}): {said}"
    )
    if "train_single" in stages:
        check_composed(job, CONTROL)
    if config.train.profile == "gpu":
        _devices(composed, found)
    counted, more = composed.cobalt, list[str]()
    if counted.token_counter == "o200k_base" and counted.method != "offline":
        try:
            o200k_counter()
        except InputError as error:
            found.lacking.append(str(error))
            more.append("cobalt.token_counter=policy")
    functions = [composed.cobalt[key] for key in OFFERED if composed.cobalt[key] is not None]
    if not whole and all(spec.startswith("cobalt.") for spec in functions):
        return  # one of the user's own is tried before hours of other stages
    model = job.model if isinstance(job.model, Path) else _cached(job.model)
    if model is None or rows is None:
        found.unchecked.append(
            "prompts in tokens, reward and plug-ins in verl: tokenizer or tasks are not here"
        )
        return
    times = -(-batch // len(rows)) if config.on_contexts else 1  # as many as there may be
    each = next(each for each in trainings(job) if each.name in stages)
    try:
        with tempfile.TemporaryDirectory(prefix="cobalt-check-") as folder:
            tried = each.try_out([*islice(rows, _ENOUGH)] * times, Path(folder), *more)
    except InfraError as error:
        found.lacking.append(f"the {each.label}: {str(error).splitlines()[0]}")
        return
    except InputError as error:
        said = str(error).replace(f"{folder}/", "")
        raise InputError(
            f"{job.file}: the {each.label}, put together on its tasks' openings: {said}"
        ) from None
    found.checked.append(
        f"the {each.label} put together in verl (reward, plug-ins, sizes) on the openings of "
        f"{min(len(rows), _ENOUGH)} tasks, the longest of {tried.plan['longest_prompt_tokens']} tokens"
    )


def _batches(job: Job, count: int, found: Findings, *, control: bool) -> None:
    """Whether ``count`` training tasks can fill a batch."""
    batch, (most, what) = job.config.train.contexts, rows_at_most(job, count)
    asked = [(most, f"{what} at most", "")]
    if control:
        asked.append((count, "statements to 'controls.single_turn_training'", ", or switch the control off"))
    for has, said, more in asked:
        if has < batch:
            raise InputError(
                f"{job.file}: 'train.contexts' is {batch}, one batch, and {count} training tasks give {has} "
                f"{said}: name more tasks ('tasks'), or make the batch smaller{more}"
            )
    if count < batch:
        found.doubts.append(
            f"{count} training tasks must give the {batch} {what} of a batch ('train.contexts'), and give "
            f"{most} at most: the training is refused if they are fewer"
        )
    found.checked.append(f"{count} training tasks against batches of {batch}")


def _devices(composed: Any, found: Findings) -> None:
    from cobalt.training.prepare import missing_devices

    try:
        lacking = missing_devices(composed, cluster.to_join())
    except InputError as error:
        lacking = str(error)
    if lacking:
        found.lacking.append(f"GPUs for the training ('train.profile' gpu): {lacking}")
    if composed.cobalt.method != "offline":
        _vllm(found)


def _vllm(found: Findings) -> None:
    said = "vllm is not installed, which samples on GPUs: pip install -r requirements-gpu.txt"
    with contextlib.suppress(metadata.PackageNotFoundError):
        version = metadata.version("vllm")
        said = f"vllm {version} is the CPU build, which no GPU can use" if "cpu" in version else ""
    if said and said not in found.lacking and os.environ.get("VERL_PLATFORM") != "cpu":  # GPUs are played
        found.lacking.append(said)


def _services(job: Job, stages: set[str], found: Findings, rows: list[Row] | None) -> None:
    """The evaluator's verdict on a program that is right; the reference's server; the judge's key."""
    config, model = job.config, job.config.model
    runs = stages & (MODEL_STAGES | {"judge"} | _TRAINING)
    if runs or ("data" in stages and config.tasks.family == "taco"):
        from cobalt.rewards.cobalt import PLAIN
        from cobalt.training.scoring import Scorer

        try:
            job.wait(Scorer(job.evaluator, profile=PLAIN, count_tokens=len).ready())
            for row in (rows or ())[:1]:
                job.evaluator.trial(row)
            found.checked.append("the evaluator: it gave a right program its verdict")
        except InputError:
            raise
        except CobaltError as error:
            found.lacking.append(f"the evaluator ('execution.evaluator', 'execution.isolation'): {error}")
    if stages & MODEL_STAGES:
        if model.base_url or model.engine == "litellm":
            try:
                with job.engine(job.model, shared_first=False):  # which asks it for the model
                    found.checked.append(f"the reference's engine ({model.engine}): it knows the model")
            except CobaltError as error:
                found.lacking.append(f"the reference's engine ({model.engine}): {error}")
        local = [model.trained_engine or model.engine, model.engine if not model.base_url else None]
        if "vllm" in local:
            _server(job, found)
    judge = config.hack_analysis.judge
    if judge and judge.key and not os.environ.get(judge.key):
        found.doubts.append(f"{judge.key} is not set: the judge ({judge.said}) will not be asked")


def _server(job: Job, found: Findings) -> None:
    """The program that serves models here, and the GPUs that it takes."""
    given = job.config.execution.serving
    if given.command is not None:
        if shutil.which(given.command[0]) is None:
            found.lacking.append(f"'execution.serving.command': {given.command[0]} is no program here")
        return
    _vllm(found)
    import torch

    there = torch.cuda.device_count()
    if given.replicas * given.tensor_parallel > there:
        found.lacking.append(
            f"GPUs for sampling: 'execution.serving' asks for {given.replicas} x {given.tensor_parallel}, "
            f"this machine has {there}"
        )


def _machine(job: Job, stages: set[str], found: Findings) -> None:
    """Free disk against the plan, memory against the state of the training."""
    from cobalt.training.gpu_doctor import host_memory
    from cobalt.training.memory import sizes

    disk_gb = estimate(workload(job.config, job.file)).disk_gb
    there = next(each for each in (job.out.absolute(), *job.out.absolute().parents) if each.exists())
    made = sum(path.stat().st_size for path in job.out.rglob("*") if path.is_file()) / 1e9
    free, left = shutil.disk_usage(there).free / 1e9, max(0.0, disk_gb - made)
    if stages and free < left:
        found.lacking.append(f"disk: the plan writes {left:,.0f} GB more, {there} has {free:,.0f} GB free")
    else:
        found.checked.append(f"disk: {left:,.2f} GB by the plan, {free:,.0f} GB free")
    of = sizes(job.model)
    if stages & _TRAINING and of is not None:
        has = host_memory() / 1e9
        copies = len(stages & _TRAINING) if job.config.train.profile == "cpu" else 1
        need = 16e-9 * of.parameters * copies  # weights, gradients and both moments in fp32
        said = f"memory: {need:,.1f} GB for weights, gradients and optimiser, {has:,.0f} GB here"
        if need <= has or job.config.train.lora_rank:
            found.checked.append(said)
        else:  # on GPUs they hold it, or a part
            (found.lacking if job.config.train.profile == "cpu" else found.doubts).append(said)
