"""Checks that need a tokenizer, an evaluator or verl itself: made in the training process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from cobalt.errors import InputError
from cobalt.training import outcome
from cobalt.training.data import check_file, fit_prompts
from cobalt.training.plan import Plan, make_plan
from cobalt.training.scoring import Scorer, reward_profile, token_counter
from cobalt.training.settings import verl_folder


def prepare(config: Any) -> tuple[Plan, list[str]]:
    """Check data, model, sizes and evaluator, and point ``config`` at the rows that fit.

    Returns the plan and what was decided for the user. Raises InputError for what cannot be used, InfraError
    if the evaluator does not answer.
    """
    from omegaconf import open_dict

    from cobalt.contexts.tokens import load_tokenizer

    data, settings = config.data, config.cobalt
    tokenizer = load_tokenizer(config.actor_rollout_ref.model.path)
    checks = {}
    for key, what, validation in (
        ("train_files", "training data", False),
        ("val_files", "validation data", True),
    ):
        path = Path(data[key])
        filtered = Path(config.trainer.default_local_dir).parent / "data" / f"{key.split('_')[0]}.parquet"
        table = check_file(path, what=what, validation=validation)
        checks[key] = fit_prompts(table, path, tokenizer, int(data.max_prompt_length), filtered, what)
    token_counter(settings.token_counter, tokenizer)
    actor = config.actor_rollout_ref.actor
    devices = int(config.trainer.n_gpus_per_node) * int(config.trainer.nnodes)
    mini = int(actor.ppo_mini_batch_size) * int(config.actor_rollout_ref.rollout.n) // devices
    actor.ppo_micro_batch_size_per_gpu = min(int(actor.ppo_micro_batch_size_per_gpu), max(1, mini))
    done = outcome.checkpoint_step(Path(config.trainer.default_local_dir))
    steps = config.trainer.total_training_steps
    plan = make_plan(config, checks["train_files"], checks["val_files"], steps, done)
    with open_dict(config):
        for key, check in checks.items():
            data[key] = str(check.path)
        config.trainer.total_training_steps = plan.steps
        # verl counts epochs too, and would stop at their end
        config.trainer.total_epochs = max(int(config.trainer.total_epochs), plan.steps)
        if config.trainer.save_freq > plan.steps:
            config.trainer.save_freq = plan.steps
    notes = [f"reward: profile {settings.reward_profile}, evaluator {settings.evaluator}"]
    if settings.token_counter == "policy":
        notes.append("tokens in the reward are counted with the policy's tokenizer, not with o200k_base")
    notes.append(_canary(settings))
    return plan, notes


def _canary(settings: Any) -> str:
    from cobalt.evaluator import connect

    with connect(settings.evaluator, workers=1) as evaluator:
        scorer = Scorer(evaluator, profile=reward_profile(settings.reward_profile), count_tokens=len)
        asyncio.run(scorer.ready())
        return f"evaluator answers (isolation: {evaluator.isolation})"


def check_parts(config: Any) -> None:
    """Assert that verl resolves to our reward manager, rollout and replay buffer.

    Raises InputError where the configuration replaces one of them or verl refuses it.
    """
    from verl.trainer.ppo.reward import resolve_reward_manager_cls
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config
    from verl.utils.import_utils import import_external_libs, load_extern_type
    from verl.workers.rollout.base import get_rollout_class

    import verl

    if Path(verl.__file__).resolve().parent != verl_folder():
        raise InputError(f"'import verl' gave {verl.__file__}, not the installed library")
    rollout = config.actor_rollout_ref.rollout
    import_external_libs(config.actor_rollout_ref.model.external_lib)
    sampler = config.trainer.v1.sampler.custom_sampler
    wanted: list[tuple[str, Any, str]] = [
        ("reward.reward_manager", resolve_reward_manager_cls(config), "CobaltReward"),
        (
            "trainer.v1.sampler.custom_sampler",
            load_extern_type(sampler.path, sampler.name),
            "LoudReplayBuffer",
        ),
    ]
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
