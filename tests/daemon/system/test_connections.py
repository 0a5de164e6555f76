"""Connections: who is at the other end, and that nobody shuts others out."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

import pytest

from tooltap.daemon.system import connections
from tooltap.daemon.system.connections import Peer, Shares, peer_of, user_of_tcp

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


US = Peer(os.geteuid(), "127.0.0.1")


class Taken:
    def __init__(self, shares: Shares, peer: Peer) -> None:
        self.was_given = shares.take(self, peer)
        self.gave_way = False

    def give_way(self) -> None:
        self.gave_way = True


def other(number: int) -> Peer:
    return Peer(os.geteuid() + number, "127.0.0.1")


def test_each_has_its_limit() -> None:
    shares = Shares(10, 2)
    taken = [Taken(shares, one) for one in (other(1), other(1), other(1), other(2))]

    assert [one.was_given for one in taken] == [True, True, False, True]


def test_place_is_free_when_its_connection_has_ended() -> None:
    shares = Shares(1, 1)
    first, refused = Taken(shares, other(1)), Taken(shares, other(1))
    shares.leave(refused)
    assert not Taken(shares, other(1)).was_given
    shares.leave(first)

    assert Taken(shares, other(2)).was_given


def test_newest_of_the_largest_gives_way() -> None:
    shares = Shares(5, 4)
    many = [Taken(shares, other(1)) for _ in range(3)]
    few = [Taken(shares, other(2)) for _ in range(2)]
    newcomer = Taken(shares, other(3))

    assert newcomer.was_given
    assert [one.gave_way for one in (*many, *few)] == [False, False, True, False, False]
    shares.leave(many[2])
    assert not Taken(shares, other(3)).was_given  # all have equally many, or one more


def test_largest_gets_no_more() -> None:
    shares = Shares(3, 3)
    taken = [Taken(shares, other(number)) for number in (1, 1, 2)]

    assert not Taken(shares, other(1)).was_given
    assert not any(one.gave_way for one in taken)


def test_own_user_is_never_shut_out_by_others() -> None:
    shares = Shares(3, 3)
    others = [Taken(shares, other(number)) for number in (1, 2, 3)]
    ours = [Taken(shares, US) for _ in range(3)]

    assert all(one.was_given and not one.gave_way for one in ours)
    assert all(one.gave_way for one in others)
    assert not Taken(shares, US).was_given
    assert not Taken(shares, other(1)).gave_way


@pytest.mark.parametrize(
    ("peer", "name"),
    [
        (Peer(7, "127.0.0.1"), "user 7"),
        (Peer(7, ""), "user 7"),
        (Peer(None, "127.0.0.1"), "this machine"),
        (Peer(None, "127.99.0.1"), "this machine"),
        (Peer(None, "::1"), "this machine"),
        (Peer(None, "192.0.2.7"), "192.0.2.7"),
        (Peer(None, "2001:db8:1:2:3::4"), "2001:db8:1:2::/64"),
        (Peer(None, "fe80::1%eth0"), "fe80::/64"),
        (Peer(None, ""), ""),
    ],
)
def test_one_user_or_machine_has_one_name(peer: Peer, name: str) -> None:
    assert peer.name == name
