"""Nobody shuts others out: connections are limited for each user and each address."""

from __future__ import annotations

import os

import pytest

from tooltap.daemon.system.connections import Peer, Shares

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
