"""Limits of a test and of a suite, what the host leaves of them, and the levels of isolation."""

import importlib.util
import os
import resource
from collections.abc import Iterable
from dataclasses import dataclass

LEVELS = ("namespaces", "landlock", "none")

# The whole environment of a worker and of the programs in it.
ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONUTF8": "1",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",  # numpy: a thread per core would count against the limits of each test
}

_OURS = 8  # processes of a worker itself, its test apart
_CPU_SLACK_S = 2  # the kernel's limit lies that much above the one that the supervisor strikes for

# What a sandbox shows besides the standard library unless told otherwise, where it is installed.
PACKAGES = ("numpy",)


def package_paths(names: Iterable[str] = PACKAGES) -> list[str]:
    """Folders of those packages that are installed here, with the folders of libraries they come with.

    Nothing is imported. Packages without a folder of their own (single files) are not supported.
    """
    found = []
    for name in names:
        spec = importlib.util.find_spec(name)
        for folder in (spec.submodule_search_locations or ()) if spec else ():
            found += [path for path in (folder, f"{folder}.libs") if os.path.isdir(path)]
    return found


@dataclass(frozen=True)
class Limits:
    """What one test may use. CPU time decides; the wall limit behind it is there for programs that wait.

    Published: 4 s per test and 27 s per suite, both of wall time, 1 GiB of address space (arXiv 2602.03806).
    The published evaluator runs four tests of a suite at once, so its 27 s hold up to 4 x 27 s of their CPU
    time. Here tests run one after another, and `suite_s` is that product: what passes there passes here.
    Raises ValueError for values that cannot work together.
    """

    cpu_s: float = 4.0
    wall_s: float | None = None  # None: 3 x cpu_s + 2
    suite_s: float = 108.0  # CPU seconds of all tests of a program together
    memory_bytes: int = 1 << 30
    stack_bytes: int | None = None  # the main thread's; None: memory_bytes
    output_bytes: int = 16 << 20  # stdout and stderr each
    tmp_bytes: int = 64 << 20  # /tmp and /dev/shm each
    source_bytes: int = 16 << 20
    processes: int = 64  # threads included
    files: int = 128
    exit_and_quit: bool = True  # False: they are None, as in the published code, and calling them fails
    packages: tuple[str, ...] = ()  # that a program may import; published: the standard library only

    def __post_init__(self) -> None:
        for name in ("cpu_s", "wall_limit_s", "suite_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"limits: {name} must be positive")
        if self.wall_limit_s < self.cpu_s:
            raise ValueError("limits: wall_s must not be below cpu_s")
        if self.suite_s < self.cpu_s:
            raise ValueError("limits: suite_s must not be below cpu_s")
        for name in self.packages:
            if not name.isidentifier() or not package_paths([name]):
                raise ValueError(f"limits: there is no package {name!r} here that programs could import")
        if self.memory_bytes < 128 << 20:
            raise ValueError("limits: memory_bytes must be at least 128 MiB, Python itself needs some")
        if self.stack_limit_bytes < 1 << 20:
            raise ValueError("limits: stack_bytes must be at least 1 MiB, Python itself needs some")

    @property
    def wall_limit_s(self) -> float:
        return 3 * self.cpu_s + 2 if self.wall_s is None else self.wall_s

    @property
    def suite_wall_s(self) -> float:
        """Wall seconds of all tests together, without those in which the host gave the program no CPU.

        Little more than the CPU limit, so that a suite of sleepers ends; never below the limit of one test.
        """
        return max(self.wall_limit_s, 1.25 * self.suite_s + 2)

    @property
    def stack_limit_bytes(self) -> int:
        """Stack of the main thread. It counts as memory too, so a larger one than that is never filled."""
        return self.memory_bytes if self.stack_bytes is None else self.stack_bytes


def host_obstacles(limits: Limits) -> list[str]:
    """A sentence for each hard limit of this process that is below what `limits` promise; [] if none is.

    Children inherit hard limits and cannot raise them, so a test would get less than its task was promised.
    """
    memory = limits.memory_bytes
    cpu_s = int(limits.cpu_s) + _CPU_SLACK_S
    wanted = (
        ("RLIMIT_STACK", limits.stack_limit_bytes, "-Hs", "stack_bytes"),
        ("RLIMIT_NOFILE", limits.files, "-Hn", "files"),
        ("RLIMIT_FSIZE", max(limits.output_bytes, limits.source_bytes), "-Hf", "output_bytes, source_bytes"),
        ("RLIMIT_AS", memory, "-Hv", "memory_bytes"),
        ("RLIMIT_DATA", memory, "-Hd", "memory_bytes"),
        ("RLIMIT_CPU", cpu_s, "-Ht", "cpu_s"),
        ("RLIMIT_NPROC", limits.processes + _OURS, "-Hu", "processes"),
    )
    found = []
    for name, need, flag, field in wanted:
        hard = resource.getrlimit(getattr(resource, name))[1]
        if hard != resource.RLIM_INFINITY and hard < need:
            ask = ", ".join(f"{each}=..." for each in field.split(", "))
            found.append(
                f"{name}: the hard limit is {hard}, {need} are promised "
                f"(ulimit {flag}; raise it, or ask for Limits({ask}))"
            )
    return found
