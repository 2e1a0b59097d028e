# ruff: noqa: E501 (programs in one line)
"""Host files, and writes that outlive their test."""

import os
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "/etc/hostname", "/proc/1/environ", "/root/.profile", "/sys/kernel"]
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


def test_a_file_of_the_user_cannot_be_read(box, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("secret")
    os.chmod(secret, 0o666)
    facts = box.run(f"print(open({str(secret)!r}).read())")
    assert facts.returncode == 1
    assert b"secret\n" not in facts.stdout


def test_a_file_of_the_user_cannot_be_written_or_changed(box, tmp_path):
    kept = tmp_path / "kept.txt"
    kept.write_text("kept")
    os.chmod(kept, 0o666)
    before = kept.stat()
    code = f"""
import os
path = {str(kept)!r}
for work in (lambda: open(path, 'w'), lambda: os.truncate(path, 0), lambda: os.unlink(path),
             lambda: os.chmod(path, 0), lambda: os.utime(path, (0, 0)), lambda: os.rename(path, path + 'x'),
             lambda: os.setxattr(path, 'user.x', b'1'), lambda: os.link(path, path + 'y')):
    try:
        work()
    except OSError:
        continue
    print('changed')
"""
    assert box.output(code) == ""
    after = kept.stat()
    assert kept.read_text() == "kept"
    assert (before.st_mode, before.st_mtime_ns, before.st_ctime_ns) == (
        after.st_mode, after.st_mtime_ns, after.st_ctime_ns)  # fmt: skip


def test_the_repository_is_out_of_sight(box):
    root = str(Path(__file__).resolve().parents[2])
    code = f"""
import os
try:
    print(os.listdir({root!r}))
except OSError:
    print('refused')
"""
    assert box.output(code) == "refused"


def test_the_standard_library_is_read_only(box):
    code = """
import json, os
for path in (json.__file__, os.path.dirname(json.__file__) + '/new.py'):
    try:
        open(path, 'a')
    except OSError:
        continue
    print('opened', path)
"""
    assert box.output(code) == ""


def test_the_standard_library_can_be_imported(box):
    modules = (
        "array bisect cmath collections copy dataclasses datetime decimal enum fractions functools heapq"
    )
    modules += (
        " hashlib itertools json math numbers operator queue random re statistics string struct typing zlib"
    )
    modules += " unittest asyncio concurrent.futures multiprocessing sqlite3 ssl zoneinfo"
    known = [each for each in modules.split() if each != "sqlite3" or "sqlite3" in sys.modules]
    assert box.output(f"import {', '.join(known)}\nprint('ok')") == "ok"


@pytest.mark.parametrize("folder", ["/tmp", "/dev/shm"])
def test_nothing_written_is_there_for_the_next_test_of_the_same_program(namespaces, folder):
    code = f"""
import os
print(sorted(os.listdir({folder!r})))
open({folder!r} + '/left', 'w').write('x')
os.mkdir({folder!r} + '/more')
print(sorted(os.listdir({folder!r})))
"""
    for facts in namespaces.runs(code, ["", "", ""]):
        assert facts.stdout == b"[]\n['left', 'more']\n"


def test_a_full_disk_is_gone_with_its_test(namespaces):
    fill = """
import os
for n in range(1000):
    try:
        with open(f'/dev/shm/{n}', 'wb') as file:
            file.write(bytes(1 << 19))
    except OSError as error:
        print('full at', n, error.errno)
        break
"""
    first, second = namespaces.runs(fill, ["", ""])
    assert first.stdout.startswith(b"full at 1")
    assert first.stdout == second.stdout


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


def test_there_is_no_system_v_memory(box):
    code = """
import ctypes
libc = ctypes.CDLL(None)
print(libc.shmget(4242, 4096, 0), libc.shmget(4242, 4096, 0o1666))
"""
    assert box.output(code) == "-1 -1"


def test_the_program_has_no_file_of_its_own_to_change(box):
    code = "import os\nprint(__file__, os.path.exists(__file__))"
    assert box.output(code) == "solution.py False"


def test_devices_work(namespaces):
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
