# ruff: noqa: E501 (programs in one line)
"""Host files, kernel settings, and writes that outlive their test."""

import os
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "/proc/1/environ",
        "/root/.profile",
        "/sys/kernel",
        str(Path(__file__).resolve().parents[2]),
    ],
)
def test_host_files_cannot_be_read(box, path):
    code = f"""
import os
try:
    found = os.listdir({path!r}) if os.path.isdir({path!r}) else open({path!r}, 'rb').read()
except OSError as error:
    print('refused')
"""
    assert box.output(code) == "refused"


def test_a_file_of_the_user_cannot_be_read_written_or_changed(box, tmp_path):
    kept = tmp_path / "kept.txt"
    kept.write_text("kept")
    os.chmod(kept, 0o666)
    before = kept.stat()
    code = f"""
import os
path = {str(kept)!r}
for work in (lambda: open(path), lambda: open(path, 'w'), lambda: os.truncate(path, 0), lambda: os.unlink(path),
             lambda: os.chmod(path, 0), lambda: os.utime(path, (0, 0)), lambda: os.rename(path, path + 'x'),
             lambda: os.setxattr(path, 'user.x', b'1'), lambda: os.link(path, path + 'y')):
    try:
        work()
    except OSError:
        continue
    print('done')
"""
    assert box.output(code) == ""
    after = kept.stat()
    assert kept.read_text() == "kept"
    assert (before.st_mode, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_mode, after.st_mtime_ns, after.st_ctime_ns)  # fmt: skip


def test_the_library_and_settings_of_the_kernel_cannot_be_written(box):
    code = """
import json, os
for path in (json.__file__, os.path.dirname(json.__file__) + '/new.py', '/proc/sys/kernel/hostname',
             '/proc/sys/vm/drop_caches', '/proc/sys/user/max_user_namespaces', '/proc/sysrq-trigger'):
    try:
        os.write(os.open(path, os.O_WRONLY | os.O_CREAT), b'1')
    except OSError:
        continue
    print('opened', path)
"""
    assert box.output(code) == ""


SETTINGS = ("oom_score_adj", "oom_adj", "timerslack_ns", "coredump_filter", "autogroup", "clear_refs", "sched", "setgroups", "uid_map", "gid_map", "projid_map", "timens_offsets", "loginuid", "make-it-fail", "attr/current")  # fmt: skip


def test_settings_of_a_process_cannot_be_written(box):
    """So it stays the first to go when memory runs out."""
    code = f"""
import os
for pid in ('self', os.getpid(), 'self/task/%d' % os.getpid()):
    for setting in {SETTINGS!r}:
        for way in (os.O_WRONLY, os.O_RDWR):
            try: os.close(os.open(f'/proc/{{pid}}/{{setting}}', way))
            except OSError: continue
            print('opened', setting)
try: print(open('/proc/self/oom_score_adj').read())
except OSError: print(1000)
"""
    assert box.output(code) == "1000"


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_nothing_written_is_there_for_the_next_test_of_the_same_program(namespaces, folder):
    code = f"""
import os
print(sorted(os.listdir({folder!r})))
for n in range(1000):
    try:
        with open(f'{folder}/{{n}}', 'wb') as file: file.write(bytes(1 << 19))
    except OSError as error:
        print('full at', n, error.errno)
        break
"""
    for facts in namespaces.runs(code, ["", "", ""]):
        assert facts.stdout.startswith(b"[]\nfull at 12") and facts.returncode == 0, facts


def test_no_place_can_be_written_without_mounts_of_its_own(landlock, tmp_path):
    code = f"""
import os, tempfile
for folder in ('/tmp', '/dev/shm', '/var/tmp', '.', {str(tmp_path)!r}):
    for work in (lambda: open(folder + '/x', 'w'), lambda: os.mkdir(folder + '/y'), lambda: os.mkfifo(folder + '/z')):
        try:
            work()
        except OSError:
            continue
        print('wrote in', folder)
"""
    assert landlock.output(code) == ""
    assert not list(tmp_path.iterdir())


def test_the_devices_that_there_are(namespaces):
    code = """
import os
assert open('/dev/null', 'rb').read() == b'' and len(open('/dev/urandom', 'rb').read(4)) == 4
open('/dev/null', 'w').write('x')
assert open('/dev/zero', 'rb', 0).read(3) == bytes(3)
print(open('/dev/stdin').read(), sorted(os.listdir('/dev')))
"""
    expected = "hello ['fd', 'full', 'null', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'urandom', 'zero']"
    assert namespaces.output(code, "hello") == expected


def test_stdin_can_be_opened_by_name(box):
    assert box.output("import sys\nsys.stdin = open('/dev/stdin')\nprint(input())", "line\n") == "line"
