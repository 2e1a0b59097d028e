"""Every private or undocumented name of verl 0.9.1 that this package touches, each with a guard.

Those of torch and vLLM that the GPU profile needs where there are no GPUs stand here too. Nothing is
edited. Where a public setting exists it is used; what is left stands here, so that raising the version
means reading one file. Subclassed classes whose underscore methods are overridden:
``ReplayBuffer._sampleable_terminal_keys`` (cobalt.training.trainer),
``FSDPEngineWithLMHead._build_fsdp_module`` (cobalt.training.cpu.engine and stock), and
``PPOTrainer._save_checkpoint``, ``_compute_old_log_prob``, ``_compute_advantage``, ``_compute_metrics``
(cobalt.training.trainer).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from cobalt.errors import InputError

TESTED_VERL = "0.9.1"
RUNNER = "cobalt-training"  # name of the runner in a cluster, in namespace "cobalt"


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
    from verl.utils import distributed

    name = "initialize_global_process_group_ray"
    expect_signature(distributed, name, ["timeout_second", "backend"])
    getattr(distributed, name).__defaults__ = (None, "gloo")


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


@contextmanager
def fsdp1_in_main_memory() -> Iterator[None]:
    """While open, FSDP1 broadcasts rank 0's weights from main memory, which gloo can and its check refuses,
    and does not offload the reference model, which lives there anyway (and would be pinned).
    """
    from torch.distributed import fsdp
    from torch.distributed.fsdp import _init_utils

    check = "_check_module_states_for_sync_module_states"
    expect_signature(_init_utils, check, ["module_states"], "torch")
    names = [(_init_utils, check), (fsdp, "CPUOffload")]
    originals = [getattr(module, name) for module, name in names]
    setattr(_init_utils, check, lambda module_states: None)
    fsdp.CPUOffload = lambda offload_params=False: originals[1](offload_params=False)
    try:
        yield
    finally:
        for (module, name), original in zip(names, originals, strict=True):
            setattr(module, name, original)


def export_in_place() -> None:
    """FSDP1 frees full weights that it was told to move to main memory, also if they are there already."""
    from verl.utils.checkpoint import fsdp_checkpoint_manager as manager

    name = "get_fsdp_full_state_dict"
    expect_signature(manager, name, ["model", "offload_to_cpu", "rank0_only"])
    original = getattr(manager, name)

    def in_place(model: Any, offload_to_cpu: bool = True, rank0_only: bool = True) -> Any:
        return original(model, offload_to_cpu=False, rank0_only=rank0_only)

    setattr(manager, name, in_place)


def let_cpu_engines_sleep() -> None:
    """vLLM's CPU worker has sleep and wake_up, its platform says that it has not."""
    from vllm.platforms.cpu import CpuPlatform

    expect_signature(CpuPlatform, "is_sleep_mode_available", ["self"], "vLLM 0.24.0")
    CpuPlatform.is_sleep_mode_available = lambda self: True


def plain_task_runner() -> type[Any]:
    """verl's TaskRunnerV1 without its Ray actor shell, to be run in this process."""
    from verl.trainer.main_ppo import TaskRunnerV1

    metadata = getattr(TaskRunnerV1, "__ray_metadata__", None)
    runner: type[Any] | None = getattr(metadata, "modified_class", None)
    _expect(runner is not None and callable(getattr(runner, "run", None)), "TaskRunnerV1.__ray_metadata__")
    assert runner is not None
    return runner


def training_job() -> dict[str, Any] | None:
    """The training in the connected Ray cluster, by the actors that it must have: what Ray knows of its job.

    ``Entrypoint``, ``DriverPid``, ``DriverIPAddress``, ``IsDead``; None where no training runs.
    """
    import ray
    from ray._private import state

    for name, namespace in ((RUNNER, "cobalt"), ("TransferQueueController", "transfer_queue")):
        try:
            actor = ray.get_actor(name, namespace=namespace)
        except ValueError:
            continue
        expect_signature(state, "jobs", [], "Ray 2.60")
        job_id = actor._actor_id.job_id.hex()
        found: dict[str, Any] = next(job for job in state.jobs() if job["JobID"] == job_id)
        return found
    return None


def balance_by_numbers() -> None:
    """verl's trainer divides a batch among devices by comparing elements of a tensor, even for one device:
    0.03 s for 128 rows. As numbers they take a tenth of that.
    """
    from verl.trainer.ppo.v1 import trainer_base

    name = "calculate_workload"
    expect_signature(trainer_base, name, ["seqlen_list"])
    original = getattr(trainer_base, name)
    setattr(trainer_base, name, lambda lengths: original(lengths).tolist())


def check_trainer(trainer: Any) -> None:
    """Guard the underscore methods that our trainer calls or extends."""
    for name, parameters in (
        ("step", ["self", "metrics", "timing_raw"]),  # after which verl saves
        ("_add_prompts_to_generate", ["self", "num_prompts"]),  # what refill_fn of the replay buffer is
        ("_save_checkpoint", ["self"]),
        ("_compute_old_log_prob", ["self", "batch", "metrics"]),
        ("_compute_advantage", ["self", "batch", "metrics"]),
        ("_compute_metrics", ["self", "batch", "metrics", "timing_raw", "global_steps", "epoch"]),
    ):
        expect_signature(trainer, name, parameters)


def expect_signature(
    owner: Any, name: str, parameters: list[str], library: str = f"verl {TESTED_VERL}"
) -> None:
    """Raises ImportError unless ``owner.name`` is there with these parameters."""
    found = getattr(owner, name, None)
    given = None if found is None else list(inspect.signature(found).parameters)
    _expect(given == parameters, f"{getattr(owner, '__name__', owner)}.{name}", library)


def _expect(holds: bool, what: str, library: str = f"verl {TESTED_VERL}") -> None:
    if not holds:
        raise ImportError(f"{what} is not as it is in {library}")
