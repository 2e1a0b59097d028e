"""System calls that lead out or down."""

import platform

import pytest

pytestmark = pytest.mark.skipif(platform.machine() != "x86_64", reason="call numbers of x86_64")

CALLS = {
    "user namespace": "272, 0x10000000",
    "mount namespace": "272, 0x20000",
    "network namespace": "272, 0x40000000",
    "clone into a user namespace": "56, 0x10000011, 0, 0, 0, 0",
    "clone3": "435, 0, 0",
    "setns": "308, os.open('/proc/self/ns/mnt', 0) if LEVEL == 'namespaces' else 0, 0",
    "mount": "165, b'none', b'/tmp', b'tmpfs', 0, 0",
    "umount": "166, b'/tmp', 2",
    "pivot_root": "155, b'/', b'/'",
    "chroot": "161, b'/tmp'",
    "open_tree": "428, -100, b'/', 1",
    "fsopen": "430, b'tmpfs', 0",
    "ptrace": "101, 0, 0, 0, 0",
    "process_vm_readv": "310, 1, 0, 0, 0, 0, 0",
    "kcmp": "312, 1, 1, 0, 0, 0",
    "bpf": "321, 0, 0, 0",
    "perf_event_open": "298, 0, 0, -1, -1, 0",
    "userfaultfd": "323, 0",
    "io_uring_setup": "425, 8, 0",
    "add_key": "248, b'user', b'x', b'y', 1, -3",
    "keyctl": "250, 0, -3, 0",
    "open_by_handle_at": "304, -100, 0, 0",
    "name_to_handle_at": "303, -100, b'/', 0, 0, 0",
    "init_module": "175, 0, 0, b''",
    "kexec_load": "246, 0, 0, 0, 0",
    "reboot": "169, 0xfee1dead, 672274793, 0, 0",
    "syslog": "103, 3, 0, 0",
    "sethostname": "170, b'x', 1",
    "settimeofday": "164, 0, 0",
    "personality": "135, 0x40000",
    "fanotify_init": "300, 0, 0",
    "execve": "59, b'/proc/self/exe', 0, 0",
    "execveat": "322, 0, b'', 0, 0, 0x1000",
    "memfd_create": "319, b'x', 0",
    "prlimit of another process": "302, 1, 0, 0, 0",
    "x32 entry": "0x40000000 + 39",
}


@pytest.mark.parametrize("name", CALLS)
def test_the_call_is_refused(box, name):
    code = f"""
import ctypes, os
LEVEL = {box.level!r}
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
result = libc.syscall({CALLS[name]})
print(result, ctypes.get_errno() in (1, 13, 28, 38))
"""
    assert box.output(code) == "-1 True"


def test_no_capability_is_left(namespaces):
    code = "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('Cap')])"
    assert namespaces.output(code) == str(["0" * 16] * 5)


def test_no_user_can_be_taken(box):
    code = """
import os
for work in (lambda: os.setuid(65000), lambda: os.setgid(65000), lambda: os.setgroups([1])):
    try:
        work()
    except OSError:
        print('refused')
"""
    assert box.output(code).split() == ["refused"] * 3


def test_kernel_settings_cannot_be_written(box):
    code = """
import os
for path in ('/proc/sys/kernel/hostname', '/proc/sys/vm/drop_caches', '/proc/sys/user/max_user_namespaces',
             '/proc/sysrq-trigger', '/proc/self/uid_map'):
    try:
        os.write(os.open(path, os.O_WRONLY), b'1')
    except OSError:
        continue
    print(path)
"""
    assert box.output(code) == ""
