"""Checks that need a tokenizer, an evaluator or verl itself: made in the training process."""

from __future__ import annotations

import asyncio
import importlib
import os
from pathlib import Path
from typing import Any

from cobalt import cluster
from cobalt.errors import InputError
from cobalt.files import settings_hash
from cobalt.rewards.verpo import Constants
from cobalt.training import outcome
from cobalt.training.attention import settle
from cobalt.training.data import PUBLIC, DataCheck, check_file, check_files, fit_prompts
from cobalt.training.dialogue import DialogueSettings
from cobalt.training.memory import fit
from cobalt.training.mix import write_mix
from cobalt.training.phases import memory
from cobalt.training.plan import Plan, make_plan
from cobalt.training.plugins import load_plugins
from cobalt.training.scoring import Scorer, reward_profile, token_counter
from cobalt.training.settings import verl_folder
from cobalt.training.stored import check_groups


def prepare(config: Any) -> tuple[Plan, list[str]]:
    """Check data, model, sizes and evaluator, and point ``config`` at the rows that fit.

    Returns the plan and what was decided for the user. Raises InputError for what cannot be used, InfraError
    if the evaluator does not answer.
    """
    from omegaconf import open_dict

    from cobalt.contexts.tokens import load_tokenizer

    data, settings = config.data, config.cobalt
    tokenizer = load_tokenizer(config.actor_rollout_ref.model.path)
    done, checkpoint = resumed(config)
    notes: list[str] = []
    if settings.method == "offline":
        checks, longest = _stored(config, tokenizer)
    else:
        checks = _rows(config, tokenizer, notes)
        longest = checks["train_files"].longest_prompt + int(data.max_response_length)
        token_counter(settings.token_counter, tokenizer)
        DialogueSettings.read(config)
        Constants(**settings.verpo)
    actor = config.actor_rollout_ref.actor
    devices = int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)
    mini = int(actor.ppo_mini_batch_size) * int(config.actor_rollout_ref.rollout.n) // devices
    actor.ppo_micro_batch_size_per_gpu = min(int(actor.ppo_micro_batch_size_per_gpu), max(1, mini))
    if settings.method == "verl":
        _check_blocks(settings.token_mean_over, actor, mini)
        notes += _raise_bounds(config.actor_rollout_ref, longest)
    for part in (config.actor_rollout_ref.rollout, config.actor_rollout_ref.ref):
        # batches come in whole mini-batches, also where samples were masked, and verl wants equal passes
        part.log_prob_micro_batch_size_per_gpu = _divisor(mini, int(part.log_prob_micro_batch_size_per_gpu))
    if done:
        notes += outcome.check_same_data(checkpoint, checks["train_files"].sha256, own=own(config))
    if config.trainer.device != "cpu":
        notes.append(settle(config))
    steps = config.trainer.total_training_steps
    plan = make_plan(config, checks["train_files"], checks.get("val_files"), steps, done)
    with open_dict(config):
        for key, check in checks.items():
            data[key] = str(check.path)
        settings.data_sha256 = checks["train_files"].sha256
        config.trainer.total_training_steps = plan.steps
        # verl counts epochs too, and would stop at their end
        config.trainer.total_epochs = max(int(config.trainer.total_epochs), plan.steps)
        if config.trainer.save_freq > plan.steps:
            config.trainer.save_freq = plan.steps
    if settings.method == "offline":
        notes.append(f"memory: {fit(config, longest)}")
        notes.append(f"objective: {settings.offline.objective}; nothing is sampled or run")
        return plan, notes
    notes.append(f"memory: {memory(config, longest)}")
    notes.append(f"reward: profile {settings.reward_profile}, evaluator {settings.evaluator}")
    if settings.token_counter == "policy":
        notes.append("tokens in the reward are counted with the policy's tokenizer, not with o200k_base")
    notes.append(_canary(settings))
    return plan, notes


def _check_blocks(rows: Any, actor: Any, mini: int) -> None:
    """Blocks of the loss lie within the rows of a mini-batch on a device, so they must fill them."""
    number = rows is None or (isinstance(rows, int) and rows > 0)
    if not number or (rows and actor.loss_agg_mode == "token-mean" and mini % rows):
        raise InputError(
            f"cobalt.token_mean_over={rows}: must be null or a number of sequences that divides the {mini} "
            "of a mini-batch on each device (actor.ppo_mini_batch_size x rollout.n / devices)"
        )


def _raise_bounds(policy: Any, longest: int) -> list[str]:
    """Raise bounds on the tokens of a pass that are below the longest sequence, which verl does not cut."""
    apart = int(policy.actor.fsdp_config.ulysses_sequence_parallel_size)
    least, notes = -(-longest // apart), []
    for part, name, dynamic in (
        ("actor", "ppo_max_token_len_per_gpu", "use_dynamic_bsz"),
        ("rollout", "log_prob_max_token_len_per_gpu", "log_prob_use_dynamic_bsz"),
        ("ref", "log_prob_max_token_len_per_gpu", "log_prob_use_dynamic_bsz"),
    ):
        given = int(policy[part][name])
        if policy[part][dynamic] and given < least:
            policy[part][name] = least
            notes.append(f"{part}.{name} raised from {given} to {least}, the longest sequence")
    return notes


def _divisor(number: int, bound: int) -> int:
    """The largest divisor of ``number`` that is at most ``bound``; 1 for a number below 1."""
    return next((d for d in range(min(number, bound), 0, -1) if number % d == 0), 1)


def _rows(config: Any, tokenizer: Any, notes: list[str]) -> dict[str, DataCheck]:
    """The rows of training and validation that fit; perturbed contexts mixed in where asked for."""
    data, folder = config.data, Path(config.trainer.default_local_dir).parent / "data"
    dialogues = int(config.cobalt.dialogue.turns) > 1
    checks = {}
    for key, what, validation in (
        ("train_files", "training data", False),
        ("val_files", "validation data", True),
    ):
        table = check_files(data[key], what=what, validation=validation, dialogues=dialogues)
        path = Path(data[key]) if isinstance(data[key], str) else None
        if config.cobalt.ptb.file is not None and not validation:
            perturbed = check_file(Path(config.cobalt.ptb.file), what="perturbed contexts", validation=False)
            path = folder / "mixed.parquet"
            notes.append(write_mix(config, table, perturbed, path))
            table = check_file(path, what=what, validation=False)
        target = folder / f"{key.split('_')[0]}.parquet"
        where = what if path is None else f"{what} {path}"
        columns = [*config.cobalt.columns, *([PUBLIC] if dialogues else [])]
        checks[key] = fit_prompts(table, where, tokenizer, int(data.max_prompt_length), target, columns)
    return checks


def _stored(config: Any, tokenizer: Any) -> tuple[dict[str, DataCheck], int]:
    """The stored groups whose prompts fit, and the tokens of the longest sequence; sets ``rollout.n`` to the
    size of a group.
    """
    from cobalt.training.offline import encode

    if int(config.trainer.nnodes) != 1:
        raise InputError(f"recipe {config.cobalt.recipe} trains on one node: trainer.nnodes must be 1")

    data, path = config.data, Path(config.data.train_files)
    groups = check_groups(path, config)
    limits = int(data.max_prompt_length), int(data.max_response_length)
    rows = [encode(group, tokenizer, *limits) for group in groups]
    fitting = [row for row in rows if row is not None]
    lengths = [len(row[0][0]) for row in fitting]
    if not lengths:
        raise InputError(f"stored groups {path}: every prompt is over data.max_prompt_length={limits[0]}")
    n = max(len(group.texts) for group in groups)
    config.actor_rollout_ref.rollout.n = n
    digest = settings_hash([[group.prompt, group.texts, group.weights] for group in groups])
    mean, overlong = sum(lengths) / len(lengths), len(rows) - len(lengths)
    check = DataCheck(path, len(lengths), overlong, mean, max(lengths), digest)
    longest = max(len(prompt) + len(answer) for row in fitting for prompt, answer, _ in row)
    return {"train_files": check}, longest


def own(config: Any) -> bool:
    """Whether a run goes on from its own checkpoint, if from any, and not from one that was named."""
    return bool(config.trainer.resume_mode != "resume_path")


def resumed(config: Any) -> tuple[int, Path]:
    """Steps in the checkpoint to go on from, 0 for none, and its folder.

    Raises InputError for a checkpoint of another model or recipe, one that is damaged, or one that cannot be
    loaded here.
    """
    trainer = config.trainer
    if not own(config):
        checkpoint = Path(trainer.resume_from_path)
        done = outcome.step_of(checkpoint) or 0
    else:
        done = outcome.checkpoint_step(Path(trainer.default_local_dir))
        checkpoint = Path(trainer.default_local_dir) / f"global_step_{done}"
    if done:
        outcome.check_same_model(checkpoint, Path(config.actor_rollout_ref.model.path))
        outcome.check_same_recipe(Path(trainer.default_local_dir), config.cobalt.recipe)
        outcome.check_loads(checkpoint, config)
    return done, checkpoint


def missing_devices(config: Any, address: str | None) -> str | None:
    """What is wrong if there are fewer GPUs than the configuration asks for, else None.

    They are those of the Ray cluster at ``address``, or of this machine.
    """
    wanted = int(config.trainer.n_gpus_per_node), int(config.trainer.nnodes)
    if config.trainer.device == "cpu":
        return None
    if address is not None:
        there = cluster.amounts("GPU")
        if sum(amount >= wanted[0] for amount in there) >= wanted[1]:
            return None
        return (
            f"trainer.n_gpus_per_node={wanted[0]}, trainer.nnodes={wanted[1]}, but the nodes of the Ray "
            f"cluster at {address} have {', '.join(f'{each:g}' for each in there) or 'no'} GPUs: ask "
            "for fewer (GPUS=..., NODES=...), add nodes (scripts/cluster), or use --profile cpu"
        )
    if os.environ.get("VERL_PLATFORM") == "cpu":
        return None
    import torch

    found = torch.cuda.device_count()
    if found >= wanted[0] and wanted[1] == 1:
        return None
    return (
        f"trainer.n_gpus_per_node={wanted[0]}, trainer.nnodes={wanted[1]}, but this machine has {found} "
        "GPUs, and there is no Ray cluster to join: ask for fewer (GPUS=..., NODES=1), start a cluster "
        "(scripts/cluster), or use --profile cpu"
    )


def _canary(settings: Any) -> str:
    from cobalt.evaluator import connect

    try:
        with connect(settings.evaluator, workers=1) as evaluator:
            scorer = Scorer(evaluator, profile=reward_profile(settings.reward_profile), count_tokens=len)
            asyncio.run(scorer.ready())
            return f"evaluator answers (isolation: {evaluator.isolation})"
    finally:
        cluster.leave()  # verl would not connect again, with the settings that its workers need


def check_parts(config: Any) -> None:
    """Assert that verl resolves to our reward manager, rollout and replay buffer.

    Raises InputError where the configuration replaces one of them or verl refuses it.
    """
    from omegaconf import OmegaConf
    from verl.trainer.ppo.reward import resolve_reward_manager_cls
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.import_utils import import_external_libs, load_class_from_fqn, load_extern_type
    from verl.workers.rollout.base import get_rollout_class

    import verl

    if Path(verl.__file__).resolve().parent != verl_folder():
        raise InputError(f"'import verl' gave {verl.__file__}, not the installed library")
    rollout = config.actor_rollout_ref.rollout
    libraries = config.actor_rollout_ref.model.external_lib
    import_external_libs(libraries if isinstance(libraries, str | None) else list(libraries))
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    from verl.trainer.ppo.v1 import get_trainer_cls

    importlib.import_module("cobalt.training.trainer")  # registers the trainer and the estimators
    load_plugins(config)
    sampler = config.trainer.v1.sampler.custom_sampler
    wanted: list[tuple[str, Any, str]] = [
        ("reward.reward_manager", resolve_reward_manager_cls(config), "CobaltReward"),
        (
            "trainer.v1.sampler.custom_sampler",
            load_extern_type(sampler.path, sampler.name),
            "LoudReplayBuffer",
        ),
    ]
    try:
        trainer_class = get_trainer_cls(config.trainer.v1.trainer_mode)
        get_adv_estimator_fn(config.algorithm.adv_estimator)
    except ValueError as error:
        raise InputError(f"verl refuses the configuration: {error}") from None
    wanted.append(("trainer.v1.trainer_mode", trainer_class, "CobaltTrainer"))
    loops = rollout.agent.agent_loop_config_path
    if int(config.cobalt.dialogue.turns) > 1 and loops:
        named = {loop.name: loop for loop in OmegaConf.load(loops)}
        if rollout.agent.default_agent_loop not in named:
            raise InputError(
                f"rollout.agent.default_agent_loop={rollout.agent.default_agent_loop}: not one of "
                f"{', '.join(named)} ({loops}), which dialogues need"
            )
        target = named[rollout.agent.default_agent_loop]["_target_"]
        wanted.append(("rollout.agent.default_agent_loop", load_class_from_fqn(target), "DialogueLoop"))
    if config.trainer.device == "cpu":
        wanted.append(("rollout.name", get_rollout_class(rollout.name, rollout.mode), "CpuRollout"))
    for setting, found, name in wanted:
        if found.__name__ != name or not found.__module__.startswith("cobalt."):
            raise InputError(f"{setting} resolves to {found.__module__}.{found.__name__}, not to our {name}")
    try:
        validate_config(
            config=config,
            use_reference_policy=need_reference_policy(config),
            use_critic=need_critic(config),
        )
    except (AssertionError, ValueError) as error:
        raise InputError(f"verl refuses the configuration: {error}") from error
