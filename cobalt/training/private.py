"""Every private or undocumented name of verl 0.9.1 that this package touches, each with a guard.

Nothing in verl is edited. Where a public setting exists it is used; what is left stands here, so that raising
the version means reading one file. Subclassed classes whose underscore methods are overridden:
``ReplayBuffer._sampleable_terminal_keys`` (cobalt.training.replay),
``FSDPEngineWithLMHead._build_fsdp_module`` (cobalt.training.cpu.engine), and ``PPOTrainer._save_checkpoint``,
``_compute_old_log_prob``, ``_compute_advantage``, ``_compute_metrics`` (cobalt.training.trainer).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from cobalt.errors import InputError

TESTED_VERL = "0.9.1"


def check_version() -> None:
    """Raises InputError unless the tested version of verl is installed."""
    try:
        found = version("verl")
    except PackageNotFoundError:
        raise InputError('training needs verl, which is not installed: pip install "cobalt[train]"') from None
    if found != TESTED_VERL:
        raise InputError(
            f"verl {found} is installed, but this version of Cobalt works with {TESTED_VERL} only "
            f"(it touches private parts of it): pip install verl=={TESTED_VERL}"
        )


def use_gloo() -> None:
    """Make plain gloo the default backend: torch refuses the ``cpu:gloo,cpu:gloo`` that verl would build."""
    from verl.utils.distributed import initialize_global_process_group_ray as init

    parameters = inspect.signature(init).parameters
    _expect(list(parameters) == ["timeout_second", "backend"], "initialize_global_process_group_ray")
    init.__defaults__ = (None, "gloo")


def register_rollout(name: str, path: str) -> None:
    """Enter a rollout class (``module.Class``) into the only table that ``get_rollout_class`` reads."""
    from verl.workers.rollout import base

    registry = base._ROLLOUT_REGISTRY
    _expect(("vllm", "async") in registry, "verl.workers.rollout.base._ROLLOUT_REGISTRY")
    registry[(name, "async")] = path


@contextmanager
def offload_without_pinning(transformer_impl: Any) -> Iterator[None]:
    """While open, ``CPUOffloadPolicy`` in that module does not pin memory, which only CUDA can."""
    original = transformer_impl.CPUOffloadPolicy
    transformer_impl.CPUOffloadPolicy = lambda pin_memory=False: original(pin_memory=False)
    try:
        yield
    finally:
        transformer_impl.CPUOffloadPolicy = original


def plain_task_runner() -> type[Any]:
    """verl's TaskRunnerV1 without its Ray actor shell, to be run in this process."""
    from verl.trainer.main_ppo import TaskRunnerV1

    metadata = getattr(TaskRunnerV1, "__ray_metadata__", None)
    runner: type[Any] | None = getattr(metadata, "modified_class", None)
    _expect(runner is not None and callable(getattr(runner, "run", None)), "TaskRunnerV1.__ray_metadata__")
    assert runner is not None
    return runner


def check_trainer(trainer: Any) -> None:
    """Guard the underscore methods that our trainer calls or extends."""
    for name, parameters in (
        ("_save_checkpoint", ["self"]),
        ("_compute_old_log_prob", ["self", "batch", "metrics"]),
        ("_compute_advantage", ["self", "batch", "metrics"]),
        ("_compute_metrics", ["self", "batch", "metrics", "timing_raw", "global_steps", "epoch"]),
    ):
        method = getattr(trainer, name, None)
        found = list(inspect.signature(method).parameters) if method is not None else None
        _expect(found == parameters, f"PPOTrainer.{name}")


def _expect(holds: bool, what: str) -> None:
    if not holds:
        raise ImportError(f"{what} is not as it is in verl {TESTED_VERL}")
