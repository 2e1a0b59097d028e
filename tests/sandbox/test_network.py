# ruff: noqa: E501 (programs in one line)
"""No way to the network, to other sockets, or to other programs on this machine."""

import os
import socket
import threading

import pytest


@pytest.mark.parametrize(
    "make",
    [
        "socket.socket(socket.AF_INET, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "socket.socket(socket.AF_INET6, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
        "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
        "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
        "socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
    ],
)
def test_no_socket_but_local_ones(box, make):
    facts = box.run(f"import socket\n{make}")
    assert facts.returncode == 1
    assert b"PermissionError" in facts.stderr


def serve_once(family_address) -> tuple[socket.socket, list[bytes]]:
    """A listener on the host that notes who connected."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(family_address)
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
        assert facts.returncode == 1
        assert facts.stdout == b""
        assert seen == []
    finally:
        listener.close()


def test_a_datagram_pair_cannot_be_turned_outwards(landlock):
    facts = landlock.run("import socket\nsocket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)")
    assert b"PermissionError" in facts.stderr


def test_event_loops_work(box):
    code = "import asyncio\nasync def main():\n    await asyncio.sleep(0.01)\n    print('ran')\nasyncio.run(main())"
    assert box.output(code) == "ran"


def test_name_look_ups_fail(box):
    facts = box.run("import socket\nsocket.create_connection(('example.com', 80), timeout=2)")
    assert facts.returncode == 1
