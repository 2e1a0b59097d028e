"""Messages between host and worker on a SEQPACKET socket: a byte that says what it is, then its content.

    host -> zygote      PROGRAM, `pack_program`      [source, code] or [source, code, files]
    host -> supervisor  RUN, `ORDER`                 [stdin, stdout, stderr(, fetched)]; then END
    supervisor -> host  for each run DONE, `FACTS` and `USAGE`
    zygote -> host      READY, once; IDLE after each program; FAILED, a text

`files` are marshalled: a mode, path to content, and the paths to fetch; `fetched` receives these in base64,
as a JSON object. Of a function task `stdout` receives the answer: eight bytes that say its length (0:
none), then its JSON text.

Layouts are fixed because the worker's processes fork all the time: after a fork every object that Python
touches costs a page fault, and the machinery of JSON touches a hundred pages.
"""

import socket
import struct
from typing import NamedTuple

PROGRAM, RUN, END = b"P", b"R", b"E"
READY, DONE, IDLE, FAILED = b"r", b"d", b"i", b"f"

# Environment of a worker's own start: functions of libraries are looked up once, not by every test.
LOADER = {"LD_BIND_NOW": "1"}

MESSAGE_BYTES = 1 << 16
ORDER_BYTES = 1 << 8  # of what a supervisor is sent

ORDER = struct.Struct("<dd?")  # of a run: CPU seconds, wall seconds, whether only to compile
# Place in WHY; COMPILES or RUNNING; wall seconds, queued seconds, CPU seconds of processes left behind.
FACTS = struct.Struct("<BB3d")
WHY = ("", "cpu", "wall", "memory", "processes")  # the limit that was struck
COMPILES, RUNNING = 1, 2  # how far a run came
# As wait4 fills it: status; user time, system time (s, us each); peak KiB; the rest.
USAGE = struct.Struct("=i4x4qq104x")
SET_UP_FAILED, COMPILING, COMPILED = b"f", b"c", b"k"  # what a test tells its supervisor before it starts
ANSWER = struct.Struct("<Q")

_LIMITS = struct.Struct("<ddQQQQQ?")
_FDS = {count * 4: struct.Struct(f"={count}i") for count in (2, 3, 4)}
_ROOM = socket.CMSG_SPACE(4 * 4)


class GuestLimits(NamedTuple):
    """Limits of every test of a program, as `cobalt.sandbox.limits.Limits` means them."""

    cpu_s: float
    wall_s: float
    memory_bytes: int
    output_bytes: int
    tmp_bytes: int
    processes: int
    files: int
    exit_and_quit: bool


def pack_program(limits: GuestLimits, fn_name: str | None) -> bytes:
    """Content of PROGRAM. `fn_name`: the function that tests call; None: tests run the program."""
    name = "" if fn_name is None else "=" + fn_name
    return _LIMITS.pack(*limits) + name.encode("utf-8", "surrogatepass")


def unpack_program(content: bytes) -> tuple[GuestLimits, str | None]:
    """Inverse of `pack_program`."""
    name = content[_LIMITS.size :]
    limits = GuestLimits._make(_LIMITS.unpack_from(content))
    return limits, name[1:].decode("utf-8", "surrogatepass") if name else None


def receive(control: socket.socket, size: int = MESSAGE_BYTES) -> tuple[bytes, bytes, tuple[int, ...]]:
    """The next message: what it is (empty: the other side is gone), its content, its descriptors."""
    data, attached, _, _ = control.recvmsg(size, _ROOM)
    descriptors = _FDS[len(attached[0][2])].unpack(attached[0][2]) if attached else ()
    return data[:1], data[1:], descriptors
