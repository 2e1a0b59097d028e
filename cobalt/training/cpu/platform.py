"""The CPU platform.

verl imports this module in the middle of ``import verl``, in every process
(``VERL_USE_EXTERNAL_MODULES=cobalt.training.cpu.platform``), so it stays light. ``VERL_PLATFORM=cpu`` selects
it.
"""

from __future__ import annotations

import os
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

from cobalt.training.verl_compat import check_version, use_gloo


class _CpuDevice:
    """``torch.cpu`` plus the names of ``torch.cuda`` that verl calls and ``torch.cpu`` lacks."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch.cpu, name)

    def _zero(self, *_: Any, **__: Any) -> int:
        return 0

    memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = _zero
    empty_cache = ipc_collect = reset_peak_memory_stats = set_device = _zero
    get_rng_state = staticmethod(torch.get_rng_state)
    set_rng_state = staticmethod(torch.set_rng_state)  # reached only when a checkpoint is loaded

    def get_device_name(self, *_: Any) -> str:
        return "CPU"  # a key of verl's table of peak FLOPS

    def mem_get_info(self, *_: Any) -> tuple[int, int]:
        """Free and total bytes of main memory."""
        page = os.sysconf("SC_PAGE_SIZE")
        return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")


class _DeviceId(str):
    """verl passes it to ``Tensor.to()`` as it is, and to ``torch.device`` as ``f"{device_name}:{id}"``."""

    def __format__(self, spec: str) -> str:
        return "0"


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """One CPU device; profiling and device memory do not exist."""

    device_name = "cpu"
    vendor_name = "generic"
    device_module = _CpuDevice()

    def _nothing(self, *_: Any) -> None:
        pass

    set_device: Any = _nothing
    synchronize = set_allocator_settings = empty_cache = cudart = set_device
    profiler_start = profiler_stop = set_device

    def is_available(self) -> bool:
        return True

    def current_device(self) -> str:
        return _DeviceId("cpu")

    def device_count(self) -> int:
        return 1

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def nvtx_range(self, msg: str) -> AbstractContextManager[None]:
        return nullcontext()

    def ray_resource_name(self) -> str:
        return "GPU"  # verl's resource pools count only GPU or NPU: Ray is told of one made-up GPU

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False


if os.environ.get("VERL_PLATFORM") == "cpu":
    check_version()
    use_gloo()
