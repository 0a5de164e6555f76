"""The `openhands-session` dialect: conversations that grow, and following the folder in which one does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.daemon.taps.following import Follower
from tests.normalizers.dialects.openhands.test_openhands_json import observation, prompt
from tests.normalizers.reading import FIXTURES, of, read
from tooltap.protocol.events import Message, Notice, Turn, Unparsed, Usage

WHOLE: dict[str, Any] = orjson.loads(
    (FIXTURES / "openhands-session" / "openhands-1.16.0" / "shell.jsonl").read_bytes(),
)
EVENTS: list[dict[str, Any]] = WHOLE["events"]
SESSION = WHOLE["base_state"]["id"]


def document(events: int, status: str = "running") -> dict[str, Any]:
    return {"base_state": {**WHOLE["base_state"], "execution_status": status}, "events": EVENTS[:events]}


def test_versions_of_a_conversation_are_read_once() -> None:
    versions = [document(events) for events in range(1, len(EVENTS) + 1)]
    found = read("openhands-session", *versions, document(len(EVENTS), "finished"), WHOLE)

    assert [one.text for one in of(Message, found)] == [
        one.text for one in of(Message, read("openhands-session", WHOLE))
    ]
    assert len(of(Usage, found)) == 2
    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "provider")]


def test_end_that_is_stated_before_the_last_answer_waits_for_it() -> None:
    found = read("openhands-session", document(len(EVENTS) - 1, "finished"), document(len(EVENTS), "finished"))

    assert [one.state for one in of(Turn, found)] == ["started", "completed"]
    assert found[-1] == of(Turn, found)[-1]


def test_next_prompt_begins_a_turn() -> None:
    found = read(
        "openhands-session", document(len(EVENTS)), {**WHOLE, "events": [*EVENTS, {**prompt("More"), "id": "n"}]}
    )

    assert [one.state for one in of(Turn, found)] == ["started", "completed", "started", "cancelled"]


def test_shortened_conversation_rewinds() -> None:
    found = read("openhands-session", WHOLE, {**WHOLE, "events": [EVENTS[0], {**prompt("Other"), "id": "n"}]})

    assert [one.code for one in of(Notice, found)] == ["rewound"]
    assert of(Message, found)[-1].text == "Other"


def test_event_of_an_unknown_kind_is_kept() -> None:
    strange = {**observation("x"), "id": "n", "kind": "StrangeEvent"}

    assert len(of(Unparsed, read("openhands-session", {**WHOLE, "events": [strange]}))) == 1


@pytest.mark.process
def test_conversation_is_followed_while_it_grows(tmp_path: Path) -> None:
    folder = tmp_path / ".openhands" / "conversations" / SESSION.replace("-", "")
    follower = Follower(tmp_path, agents=["openhands"], backfill="all")
    follower.environment["HOME"] = str(tmp_path)
    (folder / "events").mkdir(parents=True)
    with follower:
        for number, event in enumerate(EVENTS):
            (folder / "events" / f"event-{number:05}-{event['id']}.json").write_text(json.dumps(event))
            (folder / "base_state.json").write_text(json.dumps(WHOLE["base_state"]))
            _wait_for(follower, _expected(number))
        found = follower.events_when(lambda events: any(event.get("state") == "completed" for event in events))

    assert [event["text"] for event in found if event["kind"] == "message"] == [
        "[[S4]] Run a shell command that lists src.",
        "Running it.",
        "src has app.py and util.py.",
    ]
    assert {event["session"] for event in found} == {SESSION}


def _wait_for(follower: Follower, expected: int) -> None:
    """Wait until there are so many texts, calls and results."""
    kinds = ("message", "tool-call", "tool-result")
    follower.events_when(lambda events: sum(event["kind"] in kinds for event in events) >= expected)


def _expected(number: int) -> int:
    """Number of texts, calls and results in the events up to one."""
    return (0, 1, 3, 4, 5)[number]
