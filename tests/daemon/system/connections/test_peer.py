"""Who is at the other end of a connection."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from tooltap.daemon.system import connections
from tooltap.daemon.system.connections import Peer, peer_of, user_of_tcp

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="only Linux names the user of a TCP connection")


def accepted(host: str) -> tuple[socket.socket, socket.socket, socket.socket]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"there is no {host}")
    client = socket.create_connection(listening.getsockname()[:2])
    return listening, client, listening.accept()[0]


@LINUX
@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "::1"])
def test_tcp_of_this_machine_has_a_user(host: str) -> None:
    listening, client, connection = accepted(host)
    with listening, client, connection:
        assert peer_of(connection) == Peer(os.geteuid(), client.getsockname()[0])
        assert peer_of(connection).is_us


@LINUX
def test_client_that_reads_only_has_a_user() -> None:
    listening, client, connection = accepted("127.0.0.1")
    with listening, client, connection:
        client.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""

        assert peer_of(connection).is_us


def test_closed_connection_is_nobodys() -> None:
    listening, client, connection = accepted("127.0.0.1")
    with listening, connection:
        client.close()
        assert connection.recv(1) == b""

        assert peer_of(connection).user is None


@LINUX
def test_program_that_listens_at_the_port_is_not_the_peer() -> None:
    """Asked for a connection that there is no more, the kernel names a socket that listens at its port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        assert user_of_tcp(socket.AF_INET, listening.getsockname(), ("127.0.0.1", 9)) is None


def test_system_that_does_not_say_leaves_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise PermissionError

    monkeypatch.setattr(connections, "user_of_tcp", refuse)
    listening, client, connection = accepted("127.0.0.1")
    with listening, client, connection:
        assert peer_of(connection) == Peer(None, "127.0.0.1")


def test_unix_socket_has_a_user(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(str(tmp_path / "s"))
        listening.listen()
        client.connect(str(tmp_path / "s"))
        with listening.accept()[0] as connection:
            assert peer_of(connection) == Peer(os.geteuid(), "")
