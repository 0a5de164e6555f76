"""Subscriptions to sessions that have had another id: by the present id, by an earlier one, and while it changes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import commit, event, message
from tests.daemon.running import Running, Wire, running
from tooltap.daemon.journal.interface import Commit
from tooltap.protocol.events import SessionEvent

EARLIER = "s"
"""The id of both sessions until theirs were known."""


def session(name: str, base: int) -> Commit:
    """A message before the id is known, and one after it."""
    return commit(
        message(f"early {name}", line=base + 1, session=EARLIER),
        event(SessionEvent, line=base + 1, index=1, state="updated", alias=EARLIER, session=name),
        message(f"late {name}", line=base + 1, index=2, session=name),
        base=base,
    )


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as daemon:
        yield daemon


@pytest.fixture
def two(daemon: Running) -> Running:
    daemon.commit(session("first", 0), session("second", 1))
    return daemon


def texts(lines: list[dict[str, Any]]) -> list[str]:
    return [line["text"] for line in lines if line.get("kind") == "message"]


def watch(daemon: Running, *names: str, **arguments: Any) -> Wire:
    return daemon.subscribe(**{"after": "start", "filter": {"session": names}, **arguments})


def next_text(wire: Wire) -> str:
    while (line := wire.read()).get("kind") != "message":
        pass
    return str(line["text"])


@pytest.mark.parametrize("follow", [True, False])
@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["first"], ["early first", "late first"]),
        (["second"], ["early second", "late second"]),
        ([EARLIER], ["early first", "late first", "early second", "late second"]),
        (["first", EARLIER], ["early first", "late first", "early second"]),
        (["nobody"], []),
    ],
)
def test_replay_has_what_is_stored_under_earlier_ids(
    two: Running, names: list[str], found: list[str], follow: bool
) -> None:
    assert texts(watch(two, *names, follow=follow).until("live")) == found


def test_replay_from_a_cursor_has_what_follows(two: Running) -> None:
    assert texts(watch(two, "second", after=4).until("live")) == ["late second"]


@pytest.mark.parametrize("name", ["first", EARLIER])
def test_a_session_goes_on_under_its_present_id(two: Running, name: str) -> None:
    live = watch(two, name, after="now")
    live.until("live")
    two.commit(commit(message("more", line=3, session="first"), base=2))

    assert next_text(live) == "more"


def test_the_earlier_id_of_another_session_is_not_of_this_one(two: Running) -> None:
    live = watch(two, "second", after="now")
    live.until("live")
    two.commit(session("third", 2), commit(message("more", line=4, session="second"), base=3))

    assert next_text(live) == "more"
    assert texts(watch(two, "second").until("live")) == ["early second", "late second", "more"]


@pytest.mark.parametrize("arguments", [{}, {"as": "display"}, {"as": "ag-ui"}], ids=str)
def test_a_session_that_gets_another_id_is_followed(daemon: Running, arguments: dict[str, str]) -> None:
    daemon.commit(commit(message("early", session=EARLIER)))
    live = watch(daemon, EARLIER, after="now", **arguments)
    live.until("live")
    daemon.commit(
        commit(
            event(SessionEvent, line=2, state="updated", alias=EARLIER, session="first"),
            message("in the same commit", line=2, index=1, session="first"),
            base=1,
        ),
    )
    daemon.commit(commit(message("later", line=3, session="first"), base=2))

    for text in ("in the same commit", "later"):
        while text not in live.line().decode():
            pass
