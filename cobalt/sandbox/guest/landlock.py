"""Landlock: a process gives up the file system, TCP ports and foreign signals without any privilege."""

import contextlib
import ctypes
import os
import struct

from cobalt.sandbox.guest import syscalls

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_WRITE_FILE, _READ_FILE, _READ_DIR, _TRUNCATE = 1 << 1, 1 << 2, 1 << 3, 1 << 14
_FS_BITS = {1: 13, 2: 14, 3: 15, 4: 15}  # rights known to each version of the interface; 16 from 5 on


def version() -> int:
    """Version of the kernel's Landlock interface; 0 if there is none."""
    return max(0, int(syscalls.libc.syscall(_CREATE, None, ctypes.c_size_t(0), 1)))


def ruleset(readable: list[str], devices: list[str]) -> int:
    """A descriptor of rules: `readable` folders and files may be read, `devices` used, nothing else."""
    abi = version()
    if abi < 1:
        raise OSError("this kernel has no Landlock, or it is not enabled")
    rights = (1 << _FS_BITS.get(abi, 16)) - 1
    network = 3 if abi >= 4 else 0  # bind and connect TCP
    scope = 3 if abi >= 6 else 0  # abstract sockets and signals
    attributes = struct.pack("QQQ", rights, network, scope)[: 24 if abi >= 6 else 16 if abi >= 4 else 8]
    fd = syscalls.libc.syscall(_CREATE, attributes, ctypes.c_size_t(len(attributes)), 0)
    syscalls.check(fd, "landlock_create_ruleset")
    for path in readable:
        if not os.path.islink(path):  # following links takes no right; what they lead to is listed too
            _allow(fd, path, _READ_FILE | (_READ_DIR if os.path.isdir(path) else 0))
    for device in devices:
        _allow(fd, device, (_READ_FILE | _WRITE_FILE | _TRUNCATE) & rights)
    return int(fd)


def _allow(fd: int, path: str, allowed: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = struct.pack("=Qi", allowed, beneath)
        syscalls.check(syscalls.libc.syscall(_ADD_RULE, fd, 1, rule, 0), f"landlock_add_rule {path}")
        os.close(beneath)


def restrict(fd: int) -> None:
    """Apply a ruleset to this process. Needs no_new_privs."""
    syscalls.check(syscalls.libc.syscall(_RESTRICT, fd, 0), "landlock_restrict_self")
