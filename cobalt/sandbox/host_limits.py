"""What the host's own resource limits leave of what programs are promised."""

import resource

from cobalt.sandbox.policy import Limits

_OURS = 8  # processes of a worker itself, its test apart
_CPU_SLACK_S = 2  # the kernel's limit lies that much above the one that the supervisor strikes for


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
