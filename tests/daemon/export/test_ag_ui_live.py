"""AG-UI events of a session that is going on: valid, and the same session as in a file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import Event as AgUiEvent
from pydantic import TypeAdapter

from tests.daemon.events import call, event, message, result
from tests.daemon.export.exporting import published
from tests.daemon.export.test_atif import RECORDINGS
from tooltap.daemon.export.ag_ui_live import INTERRUPTS, STREAMED_TEXTS, LiveAgUi
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import (
    Message,
    Notice,
    OutputRef,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    Turn,
)
from tooltap.protocol.frames import Gap

VALID: TypeAdapter[Any] = TypeAdapter(AgUiEvent)


def partial(text: str, offset: int = 0, kind: type[Message | Reasoning] = Message, **fields: Any) -> Produced:
    said = {"role": "assistant"} if kind is Message else {}
    return event(kind, **{**said, "index": 900 + offset, "text": text, "offset": offset, "partial": True, **fields})


def turn(state: str, **fields: Any) -> Produced:
    return event(Turn, **{"turn": "t", "state": state, **fields})


class Read:
    """A subscriber: numbers what is read, as the journal does, and keeps what it gets."""

    def __init__(self, after: int = 0) -> None:
        self.live = LiveAgUi(after)
        self.seq = 0
        self.got: list[dict[str, Any]] = []

    def read(self, *made: Produced) -> list[dict[str, Any]]:
        """Return the AG-UI events of some events, without the cursors."""
        seqs = []
        for one in made:
            self.seq += not one.partial
            seqs.append(None if one.partial else self.seq)
        lines = self.live.read(made, seqs).splitlines()
        found = [json.loads(line) for line in lines if not line.startswith(b'{"op"')]
        for one in found:
            VALID.validate_python(one)
        self.got += found
        return found


def read(*made: Produced) -> list[dict[str, Any]]:
    return Read().read(*made)


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [one["type"] for one in events if one["type"] != "CUSTOM"]


def customs(events: list[dict[str, Any]], name: str) -> list[Any]:
    return [one["value"] for one in events if one.get("name") == name]


def texts(events: list[dict[str, Any]]) -> list[str]:
    """The texts as a client puts them together: by id, in the order in which they began."""
    found: dict[str, str] = {}
    for one in events:
        if one["type"] in ("TEXT_MESSAGE_CONTENT", "REASONING_MESSAGE_CONTENT"):
            found[one["messageId"]] = found.get(one["messageId"], "") + one["delta"]
    return [*found.values()]


def check_order(events: list[dict[str, Any]]) -> None:
    """What AG-UI's client demands: runs one after another, and in each what begins ends, with nothing outside."""
    running = False
    is_open: set[tuple[str, str]] = set()
    for one in events:
        kind, _, part = one["type"].rpartition("_")
        name = str(one.get("messageId") or one.get("toolCallId") or one.get("subagentRunId"))
        if one["type"] == "RUN_STARTED":
            assert not running, one
            running, is_open = True, set()
            continue
        assert running, one
        if one["type"] in ("RUN_FINISHED", "RUN_ERROR"):
            assert not is_open or part == "ERROR", (one, is_open)
            running = False
        elif part in ("START", "STARTED"):
            assert (kind, name) not in is_open, one
            is_open.add((kind, name))
        elif part in ("END", "FINISHED") or one["type"] == "SUBAGENT_ERROR":
            is_open.remove((kind, name))
        elif part in ("CONTENT", "ARGS"):
            assert (kind, name) in is_open, one
        if (owner := one.get("subagentRunId")) is not None and kind != "SUBAGENT":
            assert ("SUBAGENT", owner) in is_open, one


@pytest.mark.parametrize("folder", sorted({path.parts[-3] for path in RECORDINGS}))
def test_every_recording_is_in_order_and_has_its_texts(folder: str) -> None:
    for path in (one for one in RECORDINGS if one.parts[-3] == folder):
        made = published(path.read_bytes())
        for session in {one.session for one in made}:
            own = [one for one in made if one.session == session]
            got = read(*own)
            check_order(got)
            said = [one.event for one in own if one.kind in ("message", "reasoning") and not one.partial]
            expected = [one.text for one in said if isinstance(one, Message | Reasoning) and one.text]

            assert customs(got, "superseded") == [], path
            assert sorted(set(expected) - set(texts(got))) == [], path
            assert len(texts(got)) - len(expected) == UNFINISHED.get("/".join(path.parts[-3:]), 0), path


UNFINISHED = {"qwen-stream/qwen-0.24.4/api-error.jsonl": 1}
"""Recordings with texts that the agent began and took back."""


def test_text_is_sent_as_it_is_written_and_ends_with_the_message() -> None:
    subscriber = Read()
    begun = subscriber.read(turn("started"), partial("He"), partial("llo", 2))
    ended = subscriber.read(message("Hello."), turn("completed"))

    assert kinds(begun) == ["RUN_STARTED", "TEXT_MESSAGE_START", *("TEXT_MESSAGE_CONTENT",) * 2]
    assert kinds(ended) == ["TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert [one["delta"] for one in subscriber.got if "delta" in one] == ["He", "llo", "."]
    assert len({one["messageId"] for one in subscriber.got if "messageId" in one}) == 1


def test_reasoning_is_sent_as_it_is_written() -> None:
    got = read(partial("Hm", kind=Reasoning), event(Reasoning, text="Hm"))

    assert kinds(got) == [
        *("RUN_STARTED", "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT"),
        *("REASONING_MESSAGE_END", "REASONING_END"),
    ]


def test_rest_follows_with_the_message_if_a_partial_was_lost() -> None:
    got = read(partial("One, "), partial("three", 10), partial(".", 15), message("One, two, three."))

    assert [one["delta"] for one in got if "delta" in one] == ["One, ", "two, three."]


def test_text_whose_beginning_was_lost_comes_whole() -> None:
    got = read(partial("llo", 2), message("Hello"))

    assert texts(got) == ["Hello"]
    assert got[1]["messageId"] == "s:1:0"


def test_text_that_became_another_is_superseded() -> None:
    got = read(partial("Hallo"), message("Hello"))

    check_order(got)
    assert texts(got) == ["Hallo", "Hello"]
    assert customs(got, "superseded") == [{"messageId": got[1]["messageId"], "by": "s:1:0"}]


def test_text_that_begins_again_supersedes_what_was_written() -> None:
    got = read(partial("Ye", id="p1"), partial("No", id="p2"), message("No"))

    check_order(got)
    assert texts(got) == ["Ye", "No"]
    assert customs(got, "superseded") == [{"messageId": "p1", "by": "p2"}]


def test_text_that_an_interrupt_ends_goes_on_in_the_next_run() -> None:
    asked = event(PermissionRequest, permission_id="p", type="permission")
    answered = event(PermissionResponse, permission_id="p", outcome="allowed")
    got = read(turn("started"), partial("Hel"), asked, answered, partial("l", 3), message("Hello"))

    check_order(got)
    assert texts(got) == ["Hello"]


def test_text_of_a_subagent_outlives_the_run_of_the_main_agent() -> None:
    sub: dict[str, Any] = {"agent": "sub", "parent": "c"}
    got = read(turn("started"), partial("Hel", **sub), turn("completed"), message("Hello", **sub))

    check_order(got)
    assert texts(got) == ["Hello"]


def test_partials_of_a_second_tap_are_not_sent_twice() -> None:
    got = read(partial("He"), partial("He", stream="t"), partial("llo", 2), message("Hello"))

    assert texts(got) == ["Hello"]


def test_texts_of_several_agents_do_not_mix() -> None:
    subs: list[dict[str, Any]] = [{"agent": name, "parent": name} for name in ("a", "b")]
    pieces = [partial(text, at, id=f"{sub['agent']}{at}", **sub) for at, text in ((0, "x"), (1, "y")) for sub in subs]
    got = read(*pieces, *(message("xyz", **sub) for sub in subs))

    check_order(got)
    assert texts(got) == ["xyz", "xyz"]
    assert {one["messageId"] for one in got if "messageId" in one} == {"a0", "b0"}


def test_cut_text_says_where_the_whole_is() -> None:
    ref = OutputRef(output_id="s:1:o0", bytes=9, lines=1, mime_type="text/plain")
    got = read(partial("Hello"), partial(", you", 5), message("Hello", outputs={"/text": ref}))

    assert texts(got) == ["Hello, you"]
    assert customs(got, "superseded") == []
    [value] = customs(got, "outputs")
    assert (value["messageId"], value["outputs"]["/text"]["outputId"]) == (got[1]["messageId"], "s:1:o0")


def test_late_subscriber_gets_the_beginning_of_the_run_first() -> None:
    late = Read(after=3)
    got = late.read(
        *(message("before"), turn("started"), message("a", agent="sub", parent="c")),
        *(call("c2"), turn("completed")),
    )

    check_order(got)
    assert kinds(got) == [
        *("RUN_STARTED", "SUBAGENT_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END"),
        *("SUBAGENT_FINISHED", "RUN_FINISHED"),
    ]
    assert got[0]["runId"] == "session-1:2"


def test_notice_between_turns_does_not_leave_a_run_open() -> None:
    notice = event(Notice, level="info", code="send", text="sent")
    got = read(turn("started"), turn("completed"), notice, event(SessionEvent, state="updated", title="A name"))

    assert kinds(got)[2:] == ["RUN_STARTED", "RUN_FINISHED"] * 2
    assert customs(got, "title") == ["A name"]


def test_session_that_ends_ends_its_run() -> None:
    assert kinds(read(message("a"), event(SessionEvent, state="ended")))[-1] == "RUN_FINISHED"


def test_gap_is_said_in_the_run() -> None:
    subscriber = Read()
    subscriber.read(turn("started"))
    said = subscriber.live.gap(Gap(from_=2, to=4, reason="retention"))

    assert json.loads(said)["value"] == "Events between 2 and 4 were not kept."


def test_gap_that_the_subscriber_knows_is_not_said_again() -> None:
    assert LiveAgUi(after=4).gap(Gap(from_=2, to=4, reason="retention")) == ""


def test_replaced_journal_ends_the_run_and_says_so() -> None:
    subscriber = Read()
    subscriber.read(turn("started"), partial("Hel"))
    lines = [json.loads(line) for line in subscriber.live.gap(Gap(from_=1, to=0, reason="reset")).splitlines()]

    check_order(subscriber.got + lines)
    assert lines[-2]["value"].startswith("The journal was replaced")


def test_call_and_its_result_are_whole() -> None:
    got = read(call("c", input={"command": "ls"}), result("c", output={"stdout": "a"}))

    assert kinds(got)[1:] == ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]


def asks(permission_id: str) -> Produced:
    return event(PermissionRequest, permission_id=permission_id, type="permission")


def interrupts(got: list[dict[str, Any]]) -> list[list[str]]:
    ended = [one["outcome"] for one in got if one["type"] == "RUN_FINISHED"]
    return [[asked["id"] for asked in one["interrupts"]] for one in ended if one["type"] == "interrupt"]


def test_end_of_a_run_asks_all_that_has_no_answer() -> None:
    answered = event(PermissionResponse, permission_id="a", outcome="allowed")
    got = read(turn("started"), asks("a"), asks("b"), answered, asks("c"), turn("completed"), asks("d"))

    assert interrupts(got) == [["a"], ["a", "b"], ["b", "c"], ["d"]]


def test_questions_and_texts_without_an_end_are_bounded() -> None:
    got = read(*(asks(str(number)) for number in range(INTERRUPTS + 10)))
    begun = read(*(partial("x", id=f"p{n}", message_id=f"m{n}") for n in range(STREAMED_TEXTS + 10)))

    assert max(map(len, interrupts(got))) == INTERRUPTS
    assert kinds(begun).count("TEXT_MESSAGE_START") == STREAMED_TEXTS


def test_partials_of_what_the_subscriber_has_are_not_sent() -> None:
    """Its cursor may be ahead of what the daemon has published."""
    late = Read(after=2)
    got = late.read(turn("started"), partial("Hel"), message("Hello"), turn("completed"), message("More."))

    check_order(got)
    assert texts(got) == ["More."]


def test_subscriber_that_is_not_there_yet_gets_no_beginning() -> None:
    late = Read(after=3)
    late.read(turn("started"), message("Hello"))

    assert late.live.reach(2) == ""
    assert kinds([json.loads(line) for line in late.live.reach(3).splitlines()]) == ["RUN_STARTED"]


def test_gap_after_the_cursor_is_said_when_what_came_before_is_read() -> None:
    """A session that is pinned has events before those that are missing."""
    late = Read(after=2)
    said = late.live.gap(Gap(from_=3, to=5, reason="retention"))
    late.read(turn("started"), message("Hello"))
    late.seq = 5
    got = late.read(message("More."))

    check_order(got)
    assert said == ""
    assert customs(got, "gap") == ["Events between 3 and 5 were not kept."]
