"""No way to the network, to other sockets, or to other programs on this machine."""

import os
import socket
import threading

import pytest


def serve_once(address) -> tuple[socket.socket, list[bytes]]:
    """A listener on the host that notes who connected."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen()
    listener.settimeout(20)
    seen: list[bytes] = []

    def accept() -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        seen.append(b"connected")
        connection.close()

    threading.Thread(target=accept, daemon=True).start()
    return listener, seen


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_unix_sockets_of_the_host_are_out_of_reach(box, tmp_path, kind):
    address = str(tmp_path / "s") if kind == "path" else f"\0cobalt-{os.getpid()}-{box.level}"
    listener, seen = serve_once(address)
    try:
        if kind == "path":
            (tmp_path / "s").chmod(0o777)
        facts = box.run(
            f"import socket\nsocket.socket(socket.AF_UNIX).connect({address!r})\nprint('connected')"
        )
        assert (facts.returncode, facts.stdout, seen) == (1, b"", [])
    finally:
        listener.close()


def test_no_socket_but_local_ones_and_no_names_are_looked_up(box):
    """Every family is tried in test_syscalls.py."""
    for make in ("socket.socket()", "socket.create_connection(('example.com', 80), timeout=2)"):
        assert box.run(f"import socket\n{make}").returncode == 1


def test_a_datagram_pair_cannot_be_turned_outwards(landlock):
    facts = landlock.run("import socket\nsocket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)")
    assert b"PermissionError" in facts.stderr


@pytest.mark.parametrize("option", ["SO_SNDBUF", "SO_RCVBUF"])
def test_buffers_of_sockets_cannot_be_made_larger(box, option):
    code = f"""
import socket
one, other = socket.socketpair()
before = one.getsockopt(socket.SOL_SOCKET, socket.{option})
for number in (socket.{option}, socket.{option} + 25):  # the second form is for the privileged
    try: one.setsockopt(socket.SOL_SOCKET, number, 8 << 20)
    except OSError: pass
print(one.getsockopt(socket.SOL_SOCKET, socket.{option}) <= before)
"""
    assert box.output(code) == "True"
