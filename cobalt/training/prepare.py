"""Checks that need a tokenizer, an evaluator or verl itself: made in the training process."""

from __future__ import annotations

import asyncio
import importlib
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from cobalt import cluster
from cobalt.errors import InputError
from cobalt.files import settings_hash
from cobalt.training import checkpoint, method, own_update, reward
from cobalt.training.attention import choose_attention, import_in_workers
from cobalt.training.config import check_own, verl_folder
from cobalt.training.data import PUBLIC, DataCheck, check_file, check_files, fit_prompts, lengths, mix
from cobalt.training.dialogue import DialogueSettings
from cobalt.training.fit import Plan, check_blocks, devices_of, fit, make_plan
from cobalt.training.offline_data import check_groups
from cobalt.training.own_recipe import load_plugins
from cobalt.training.scoring import Scorer, reward_profile, token_counter


def prepare(config: Any) -> tuple[Plan, list[str]]:
    """Check data, model, sizes and evaluator, and point ``config`` at the rows that fit.

    Returns the plan and what was decided for the user. Raises InputError for what cannot be used, InfraError
    if the evaluator does not answer.
    """
    from omegaconf import OmegaConf

    from cobalt.text import load_tokenizer

    data, settings, policy = config.data, config.cobalt, config.actor_rollout_ref
    tokenizer = load_tokenizer(policy.model.path)
    done, resumed = checkpoint.resumed(config)
    offline = settings.method == "offline"
    what = "stored groups" if offline else f"estimator {config.algorithm.adv_estimator}"
    plugins = ", ".join(settings.plugins) or "none"
    notes = [f"recipe: {settings.recipe_file or settings.recipe} ({what}, plug-ins: {plugins})"]
    if offline:
        checks, longest = _stored(config, tokenizer)
    else:
        functions = method.functions(OmegaConf.to_container(settings, resolve=True))
        checks = _rows(config, tokenizer, notes, whole_info="info" in functions["reward"].takes)
        if settings.reward is not None:
            notes += reward.try_out(functions["reward"], checks["train_files"].first)
        longest = checks["train_files"].longest_prompt + int(data.max_response_length)
        token_counter(settings.token_counter, tokenizer)
        DialogueSettings.read(config)
        notes += own_update.check_advantage(config)
        if settings.policy_loss is not None:
            from cobalt.training.losses import check_loss

            notes.append(check_loss(config))
        import_in_workers(config, list(settings.plugins))  # policy losses are looked up there
    train, actor = checks["train_files"], policy.actor
    mini = int(actor.ppo_mini_batch_size) * int(policy.rollout.n) // devices_of(config)
    actor.ppo_micro_batch_size_per_gpu = min(int(actor.ppo_micro_batch_size_per_gpu), max(1, mini))
    if not offline:
        check_blocks(settings.token_mean_over, actor, mini)
        notes += _raise_bounds(policy, longest)
    for part in (policy.rollout, policy.ref):
        # batches come in whole mini-batches, also where samples were masked, and verl wants equal passes
        part.log_prob_micro_batch_size_per_gpu = _divisor(mini, int(part.log_prob_micro_batch_size_per_gpu))
    if done:
        notes += checkpoint.check_same_data(resumed, train.sha256, own=checkpoint.is_own(config))
    if config.trainer.device != "cpu":
        notes.append(choose_attention(config))
    steps = config.trainer.total_training_steps
    plan = make_plan(config, train, checks.get("val_files"), steps, done)
    _write_back(config, checks, plan)
    notes.append(f"memory: {fit(config, longest)}")
    if offline:
        notes.append(f"objective: {settings.offline.objective}; nothing is sampled or run")
        return plan, notes
    return plan, [*notes, *_rewarding(settings), *check_own(config), _canary(settings, train.first)]


def _rewarding(settings: Any) -> list[str]:
    """Notes on what rewards are made of."""
    what = f"profile {settings.reward_profile}" if settings.reward is None else settings.reward
    notes = [f"reward: {what}, evaluator {settings.evaluator}"]
    if settings.constants:
        notes.append(f"constants: {', '.join(f'{k}={v}' for k, v in settings.constants.items())}")
    if settings.token_counter == "policy":
        notes.append("tokens in the reward are counted with the policy's tokenizer, not with o200k_base")
    return notes


def _write_back(config: Any, checks: dict[str, DataCheck], plan: Plan) -> None:
    from omegaconf import open_dict

    with open_dict(config):
        for key, check in checks.items():
            config.data[key] = str(check.path)
        config.cobalt.data_sha256 = checks["train_files"].sha256
        trainer = config.trainer
        trainer.total_training_steps = plan.steps
        # verl counts epochs too, and would stop at their end
        trainer.total_epochs = max(int(trainer.total_epochs), plan.steps)
        trainer.save_freq = min(int(trainer.save_freq), plan.steps)


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


def _rows(config: Any, tokenizer: Any, notes: list[str], *, whole_info: bool = False) -> dict[str, DataCheck]:
    """The rows of training and validation that fit; perturbed contexts mixed in where asked for.
    ``whole_info``: with all fields of ``extra_info``.
    """
    data, folder = config.data, Path(config.trainer.default_local_dir).parent / "data"
    dialogues, limit = int(config.cobalt.dialogue.turns) > 1, int(config.data.max_prompt_length)
    columns = [*config.cobalt.columns, *[PUBLIC] * dialogues, *["extra_info"] * whole_info]
    tree = config.cobalt.dialogue.branches
    checks = {}
    for name, what in (("train", "training data"), ("val", "validation data")):
        key, overlong = f"{name}_files", 0
        table = check_files(data[key], what=what, validation=name == "val", dialogues=dialogues)
        where = f"{what} {data[key]}" if isinstance(data[key], str) else what
        if tree and name == "train" and "__rollout_n__" in table.column_names:
            raise InputError(f"{where}: column __rollout_n__ does not go with cobalt.dialogue.branches")
        if name == "train" and config.cobalt.ptb.file is not None:
            table, overlong = _mixed(config, table, tokenizer, notes)
        fitted = fit_prompts(table, where, tokenizer, limit, folder / f"{name}.parquet", columns)
        checks[key] = replace(fitted, overlong=fitted.overlong + overlong)
    return checks


def _mixed(config: Any, honest: Any, tokenizer: Any, notes: list[str]) -> tuple[Any, int]:
    """Honest and perturbed contexts in their shares, and how many were left out: before they are mixed, as
    the shares are of what is trained on.
    """
    path, share = Path(config.cobalt.ptb.file), float(config.cobalt.ptb.share)
    limit = int(config.data.max_prompt_length)

    def fitting(table: Any) -> Any:
        return table.filter([length <= limit for length in lengths(table, tokenizer)])

    perturbed = check_file(path, what="perturbed contexts", validation=False)
    left = fitting(honest), fitting(perturbed)
    overlong = honest.num_rows + perturbed.num_rows - sum(table.num_rows for table in left)
    mixed = mix(left[0], left[1], share, int(config.data.seed), f"perturbed contexts {path}")
    count = round(share * mixed.num_rows)
    notes.append(f"contexts: {mixed.num_rows - count} honest and {count} perturbed (share {share:g})")
    return mixed, overlong


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
    fitting = [row for group in groups if (row := encode(group, tokenizer, *limits)) is not None]
    if not fitting:
        raise InputError(f"stored groups {path}: every prompt is over data.max_prompt_length={limits[0]}")
    config.actor_rollout_ref.rollout.n = max(len(group.texts) for group in groups)
    prompts = [len(row[0][0]) for row in fitting]
    digest = settings_hash([[group.prompt, group.texts, group.weights] for group in groups])
    mean, overlong = sum(prompts) / len(prompts), len(groups) - len(prompts)
    check = DataCheck(path, len(prompts), overlong, mean, max(prompts), digest)
    longest = max(len(prompt) + len(answer) for row in fitting for prompt, answer, _ in row)
    return {"train_files": check}, longest


def missing_devices(config: Any, address: str | None) -> str | None:
    """What is wrong if there are fewer GPUs than the configuration asks for, else None.

    They are those of the Ray cluster at ``address``, or of this machine.
    """
    if config.trainer.device == "cpu":
        return None
    each, nodes = int(config.trainer.n_gpus_per_node), int(config.trainer.nnodes)
    asked = f"trainer.n_gpus_per_node={each}, trainer.nnodes={nodes}, but"
    if address is not None:
        there = cluster.amounts("GPU")
        if sum(amount >= each for amount in there) >= nodes:
            return None
        return (
            f"{asked} the nodes of the Ray cluster at {address} have "
            f"{', '.join(f'{amount:g}' for amount in there) or 'no'} GPUs: ask for fewer (GPUS=..., "
            "NODES=...), add nodes (scripts/cluster), or use --profile cpu"
        )
    if os.environ.get("VERL_PLATFORM") == "cpu":
        return None
    import torch

    found = torch.cuda.device_count()
    if found >= each and nodes == 1:
        return None
    return (
        f"{asked} this machine has {found} GPUs, and there is no Ray cluster to join: ask for fewer "
        "(GPUS=..., NODES=1), start a cluster (scripts/cluster), or use --profile cpu"
    )


def _canary(settings: Any, row: dict[str, Any]) -> str:
    from cobalt.evaluator import connect

    try:
        with connect(settings.evaluator, workers=1, environment=settings.environment) as evaluator:
            if settings.environment is not None:
                evaluator.trial(row)
            scorer = Scorer(evaluator, profile=reward_profile(settings.reward_profile), count_tokens=len)
            asyncio.run(scorer.ready())
            return f"evaluator answers (isolation: {evaluator.isolation})"
    finally:
        cluster.leave()  # verl would not connect again, with the settings that its workers need


def check_parts(config: Any) -> None:
    """Assert that verl resolves to our reward manager, rollout and replay buffer.

    Raises InputError where the configuration replaces one of them or verl refuses it.
    """
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.import_utils import import_external_libs

    import verl

    if Path(verl.__file__).resolve().parent != verl_folder():
        raise InputError(f"'import verl' gave {verl.__file__}, not the installed library")
    libraries = config.actor_rollout_ref.model.external_lib
    import_external_libs(libraries if isinstance(libraries, str | None) else list(libraries))
    importlib.import_module("cobalt.training.trainer")  # registers the trainer and the estimators
    load_plugins(config)
    for setting, found, name in _parts(config):
        if found.__name__ != name or not found.__module__.startswith("cobalt."):
            raise InputError(f"{setting} resolves to {found.__module__}.{found.__name__}, not to our {name}")
    critic, reference = need_critic(config), need_reference_policy(config)
    try:
        validate_config(config=config, use_reference_policy=reference, use_critic=critic)
    except (AssertionError, ValueError) as error:
        raise InputError(f"verl refuses the configuration: {error}") from error


def _parts(config: Any) -> list[tuple[str, Any, str]]:
    """(setting, the class that verl resolves it to, the name of ours)."""
    from omegaconf import OmegaConf
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn, get_policy_loss_fn
    from verl.trainer.ppo.reward import resolve_reward_manager_cls
    from verl.trainer.ppo.v1 import get_trainer_cls
    from verl.utils.import_utils import load_class_from_fqn, load_extern_type
    from verl.workers.rollout.base import get_rollout_class

    rollout, sampler = config.actor_rollout_ref.rollout, config.trainer.v1.sampler.custom_sampler
    try:
        trainer_class = get_trainer_cls(config.trainer.v1.trainer_mode)
        get_adv_estimator_fn(config.algorithm.adv_estimator)
        get_policy_loss_fn(config.actor_rollout_ref.actor.policy_loss.loss_mode)
    except ValueError as error:
        raise InputError(f"verl refuses the configuration: {error}") from None
    buffer = load_extern_type(sampler.path, sampler.name)
    parts: list[tuple[str, Any, str]] = [
        ("reward.reward_manager", resolve_reward_manager_cls(config), "CobaltReward"),
        ("trainer.v1.sampler.custom_sampler", buffer, "LoudReplayBuffer"),
        ("trainer.v1.trainer_mode", trainer_class, "CobaltTrainer"),
    ]
    agent, loops = rollout.agent, rollout.agent.agent_loop_config_path
    if int(config.cobalt.dialogue.turns) > 1 and loops:
        named = {loop.name: loop["_target_"] for loop in OmegaConf.load(loops)}
        if agent.default_agent_loop not in named:
            raise InputError(
                f"rollout.agent.default_agent_loop={agent.default_agent_loop}: not one of "
                f"{', '.join(named)} ({loops}), which dialogues need"
            )
        loop = load_class_from_fqn(named[agent.default_agent_loop])
        parts.append(("rollout.agent.default_agent_loop", loop, "DialogueLoop"))
    if config.trainer.device == "cpu":
        parts.append(("rollout.name", get_rollout_class(rollout.name, rollout.mode), "CpuRollout"))
        batch = load_class_from_fqn(agent.agent_loop_manager_class or "builtins.object")
        parts.append(("rollout.agent.agent_loop_manager_class", batch, "BatchManager"))
    return parts
