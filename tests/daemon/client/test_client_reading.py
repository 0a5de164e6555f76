"""The cursor of a subscription, line by line."""

from __future__ import annotations

from tooltap.daemon.client.discovery import Reading
from tooltap.protocol.frames import Live, Subscribe

SUBSCRIBED = b'{"op":"subscribed","after":4,"journal":"j","oldest":1,"latest":9}'


def read(*lines: bytes, follow: bool = True) -> Reading:
    reading = Reading(Subscribe(after="now", follow=follow))
    for line in lines:
        reading.take(line)
    return reading


def test_unconfirmed_subscription_is_repeated() -> None:
    assert (read().cursor, read().frame.after) == (None, "now")


def test_confirmed_subscription_is_resumed() -> None:
    assert read(SUBSCRIBED).frame.after == "j:4"
    assert read(SUBSCRIBED, b'{"seq":6,"v":2}').frame.after == "j:6"
    assert read(SUBSCRIBED, b'{"op":"at","seq":8}').frame.after == "j:8"


def test_partials_and_gaps_do_not_move_the_cursor() -> None:
    """Some events in a gap may still exist and follow."""
    lines = SUBSCRIBED, b'{"v":2,"kind":"message","partial":true}', b'{"op":"gap","from":5,"to":7,"reason":"retention"}'

    assert read(*lines).cursor == "j:4"


def test_only_non_following_subscription_ends() -> None:
    live = b'{"op":"live","seq":9}'

    assert Reading(Subscribe()).take(live) == Live(seq=9)
    assert not read(live).finished
    assert read(live, follow=False).finished


def test_frames_of_a_newer_daemon_are_ignored() -> None:
    assert Reading(Subscribe()).take(b'{"op":"news","seq":7}') is None
