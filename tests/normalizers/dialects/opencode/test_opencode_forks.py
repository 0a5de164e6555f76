"""Forked sessions of OpenCode, which begin with copies of another session's messages."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from tests.normalizers.dialects.opencode.helpers import fixture
from tests.normalizers.reading import of, read, said, turns
from tooltap.normalizers.dialects.opencode.store import OpencodeStore
from tooltap.protocol.events import Event, SessionEvent, Usage

PARENT = "ses_de87b1dbaffepulvsha8AuJdBv"
TABLES = """
CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL, owner_id text);
CREATE TABLE event (
    id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, type text NOT NULL, data text NOT NULL
);
CREATE TABLE session (id text PRIMARY KEY, title text NOT NULL, time_created integer NOT NULL);
CREATE TABLE message (id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL);
"""


def live(events: list[Event]) -> list[Event]:
    return [event for event in events if not event.replay]


def totals(events: list[Event]) -> list[tuple[int | None, int | None, float | None]]:
    found = [one for one in of(Usage, events) if one.scope == "session"]
    assert {one.counter for one in found} == {"session"}
    return [(one.input_tokens, one.output_tokens, one.cost_usd) for one in found]


# -- events -----------------------------------------------------------------------------------------------------------


def test_fork_has_one_turn_and_one_request_of_its_own() -> None:
    found = fixture("opencode-db", "fork")
    steps = [one for one in of(Usage, live(found)) if one.scope == "step"]

    assert said(live(found)) == [("user", "[[S2]] third"), ("assistant", "Third.")]
    assert turns(found) == [("t1", "started", False), ("t1", "completed", False)]
    assert [(one.turn, one.input_tokens, one.output_tokens, one.cost_usd) for one in steps] == [
        ("t1", 1_200, 42, 0.00153)
    ]
    assert totals(found) == [(1_200, 42, 0.00153)]
    assert [one.forked_from for one in of(SessionEvent, found) if one.forked_from] == [PARENT]


def test_copies_are_history_in_no_turn() -> None:
    copies = [event for event in fixture("opencode-db", "fork") if event.replay]

    assert said(copies) == [
        ("user", "[[S0]] hello"),
        ("assistant", "Hello."),
        ("user", "[[S1]] again"),
        ("assistant", "Again."),
    ]
    assert {event.turn for event in copies} == {None}


def test_parent_and_fork_add_up_to_three_requests() -> None:
    parent, fork = (totals(fixture("opencode-db", name))[-1] for name in ("forked", "fork"))

    assert (parent, fork) == ((2_400, 84, 0.00306), (1_200, 42, 0.00153))
    requests = [one.request for name in ("forked", "fork") for one in of(Usage, live(fixture("opencode-db", name)))]
    assert len({one for one in requests if one}) == 3


def test_total_that_does_not_count_the_copies_is_left_as_it_is() -> None:
    def row(seq: int, kind: str, **data: Any) -> dict[str, Any]:
        return {
            "id": f"evt_{seq}",
            "aggregate_id": "s",
            "seq": seq,
            "type": f"{kind}.1",
            "data": {"sessionID": "s", **data},
        }

    def message(message_id: str, created: int) -> dict[str, Any]:
        return {"id": message_id, "sessionID": "s", "role": "assistant", "time": {"created": created}}

    def step(seq: int, message_id: str) -> dict[str, Any]:
        tokens = {"total": 110, "input": 100, "output": 10, "reasoning": 0, "cache": {"read": 0, "write": 0}}
        part = {"id": f"prt_{seq}", "messageID": message_id, "type": "step-finish", "tokens": tokens, "cost": 0.1}
        return row(seq, "message.part.updated", part=part)

    tokens = {"input": 100, "output": 10, "reasoning": 0, "cache": {"read": 0, "write": 0}}
    found = read(
        "opencode-db",
        row(0, "session.created", info={"id": "s", "time": {"created": 1_000}}),
        row(1, "message.updated", info=message("copy", 500)),
        step(2, "copy"),
        row(3, "message.updated", info=message("own", 2_000)),
        step(4, "own"),
        row(5, "session.updated", info={"id": "s", "tokens": tokens, "cost": 0.1, "time": {"created": 1_000}}),
    )

    assert totals(found) == [(100, 10, 0.1)]


# -- the database -----------------------------------------------------------------------------------------------------


class Store:
    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.executescript(TABLES)

    def add(self, session: str, title: str, created: int, *messages: int) -> None:
        """Add a session and its messages, by the times of their creation."""
        write = self.connection.execute
        write("INSERT INTO session VALUES (?, ?, ?)", (session, title, created))
        rows: list[tuple[str, dict[str, Any]]] = [("session.created.1", {"id": session})]
        for time in messages:
            write("INSERT INTO message VALUES (?, ?, ?)", (f"{session}-{time}", session, time))
            rows.append(("message.updated.1", {"id": f"{session}-{time}", "time": {"created": time}}))
        for seq, (kind, info) in enumerate(rows):
            event = (f"evt_{session}{seq}", session, seq, kind, json.dumps({"sessionID": session, "info": info}))
            write("INSERT INTO event VALUES (?, ?, ?, ?, ?)", event)
        write("INSERT INTO event_sequence VALUES (?, ?, NULL)", (session, len(rows) - 1))

    def origins(self, session: str, taken: int = 0) -> list[str | None]:
        """The origin that each row of a session states, after those already read."""
        rows = OpencodeStore().rows(self.connection.execute, session, {session: taken}, 0)
        return [json.loads(row.line).get("forked_from") for row in rows]


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    yield store
    store.connection.close()


def test_first_message_states_the_session_that_has_the_same_messages(store: Store) -> None:
    store.add("other", "Other", 50, 60)
    store.add("parent", "Parent", 100, 110, 120, 130)
    store.add("fork", "Parent (fork #1)", 200, 110, 120, 210)

    assert store.origins("fork") == [None, "parent", None, None]
    assert store.origins("fork", taken=1) == ["parent", None, None]
    assert store.origins("fork", taken=2) == [None, None]
    assert store.origins("parent") == [None, None, None, None]


def test_fork_of_a_fork_is_found_by_its_title(store: Store) -> None:
    store.add("parent", "Parent", 100, 110)
    store.add("fork", "Parent (fork #1)", 200, 110)
    store.add("again", "Parent (fork #1)", 300, 110)
    store.add("nested", "Parent (fork #2)", 400, 110)

    assert [store.origins(one)[1] for one in ("fork", "again", "nested")] == ["parent", "parent", "fork"]


def test_fork_that_was_renamed_comes_from_the_oldest_session_with_its_messages(store: Store) -> None:
    store.add("parent", "Parent", 100, 110)
    store.add("fork", "Parent (fork #1)", 200, 110)
    store.add("renamed", "Mine", 300, 110)

    assert store.origins("renamed")[1] == "parent"


def test_fork_of_a_deleted_session_has_no_origin(store: Store) -> None:
    store.add("fork", "Parent (fork #1)", 200, 110)

    assert store.origins("fork") == [None, None]
