"""Sessions, messages and partial events of Claude Code's stream."""

import orjson
import pytest
from syrupy.assertion import SnapshotAssertion

from tests.normalizers.dialects.claude.helpers import (
    FIXTURES,
    SESSION,
    assistant,
    events,
    init,
    read,
    recording,
    result,
    said,
    statistics,
    streamed,
    text,
    turns,
    use,
    user,
)
from tests.normalizers.reading import of
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
    Usage,
)
from tooltap.testing import Line, check_recording, read_recording

ALL = sorted(FIXTURES.rglob("*.jsonl"))


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_fixtures_have_no_unparsed_lines(path: object) -> None:
    lines = read_recording(path.read_bytes())  # type: ignore[attr-defined]
    stats = statistics(lines)

    assert stats.unparsed == 0
    assert stats.with_events + sum(stats.skipped.values()) == stats.lines == len(lines)


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_first_init_starts_session() -> None:
    session = of(SessionEvent, events("text-only"))

    assert [one.state for one in session] == ["started"]
    start = session[0]
    assert start.session == "f7396659-3e0f-4076-96e8-1e7558627031"
    assert (start.cwd, start.model, start.mode) == ("/tmp/ws", "claude-opus-5-5", "acceptEdits")
    assert start.agent_version == "2.1.330"
    assert start.mcp_servers == [{"name": "fixture", "status": "connected"}]
    assert start.tools is not None
    assert "mcp__fixture__echo" in start.tools


def test_second_init_emits_changes_only() -> None:
    same = events("subagent-async")
    changed = read(init(), result(), init(permissionMode="plan"), result())

    assert [one.state for one in of(SessionEvent, same)] == ["started"]
    updates = of(SessionEvent, changed)
    assert [(one.state, one.mode, one.cwd) for one in updates] == [
        ("started", "default", "/ws"),
        ("updated", "plan", None),
    ]
    assert turns(changed) == [("t1", "started"), ("t1", "completed"), ("t2", "started"), ("t2", "completed")]


def test_new_session_ends_open_turns() -> None:
    found = read(init(), assistant(text("hi")), init(session_id="other"), result(session_id="other"))

    assert [(turn.session, turn.state, turn.synthetic) for turn in of(Turn, found)] == [
        (SESSION, "started", False),
        (SESSION, "cancelled", True),
        ("other", "started", False),
        ("other", "completed", False),
    ]
    assert [one.session for one in of(SessionEvent, found)] == [SESSION, "other"]


def test_lines_before_init_have_session() -> None:
    first = events("compaction")[0]

    assert isinstance(first, Notice)
    assert (first.line, first.session) == (1, "2403b3b9-d1f1-4ecb-ba77-87dec87d88fb")


def test_events_have_provider_time() -> None:
    message = of(Message, events("text-only"))[0]

    assert message.ts == 1795293460747  # 2026-11-21T20:37:40.747Z


# -- messages ---------------------------------------------------------------------------------------------------------


def test_split_message_continues_block_numbers() -> None:
    """Lines 2 and 5 of the recording are blocks of one message; between them a subagent starts."""
    main = [event for event in events("subagents-parallel") if event.line in (2, 5)]
    blocks = read(
        init(),
        assistant(text("one")),
        assistant(text("other"), message_id="msg_2"),
        assistant(use("a", "Read"), message_id="msg_1"),
        assistant(text("three"), message_id="msg_1"),
    )

    assert [type(event) for event in main if event.line == 5] == [ToolCall]
    assert [(one.message_id, one.block, one.text) for one in of(Message, blocks)] == [
        ("msg_1", 0, "one"),
        ("msg_2", 0, "other"),
        ("msg_1", 2, "three"),
    ]


def test_blocks_keep_source_order() -> None:
    found = [event for event in events("control-thinking") if event.line <= 29]

    kinds = [type(event) for event in found if isinstance(event, Reasoning | Message | ToolCall)]
    assert kinds == [Message, Reasoning, Message, ToolCall]
    thought = of(Reasoning, found)[0]
    assert thought.text == "Let me think. The user wants the greeting fixed; first I should read the file."
    assert (thought.message_id, thought.block) == ("msg_0122e3447b5a3a4977bb322eb6", 0)


def test_subagent_prompt_is_user_message() -> None:
    prompts = [message for message in of(Message, events("subagents-parallel")) if message.role == "user"]

    assert [(one.agent, one.parent) for one in prompts] == [
        ("a0f54c909e02c9b1d", "toolu_01c86c6d0afbe34b8e9c9b2290"),
        ("a9ce45233075fe3af", "toolu_01caa5a9d7154a4954957efec1"),
    ]
    assert {one.text for one in prompts} == {"[[S12sub]] Find where greet is defined"}


def test_media_blocks_become_attachments() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AAECAwQ="}
    found = read(
        init(),
        user({"type": "image", "source": source}, text("what is this?")),
        user({"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}),
        user({"type": "image", "source": {"type": "base64", "data": "not base64!"}}),
    )

    picture, question, document = of(Message, found)
    assert picture.attachments is not None
    assert (picture.attachments[0].mime_type, picture.attachments[0].bytes, picture.text) == ("image/png", 5, "")
    assert question.text == "what is this?"
    assert document.attachments is not None
    assert document.attachments[0].uri == "https://example.com/a.pdf"
    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"]


def test_harness_text_is_not_a_prompt() -> None:
    found = read(
        init(),
        user(text("continued from before"), isSynthetic=True),
        user(text("[Request interrupted by user]")),
        user(text("<local-command-stdout>Total cost: $1</local-command-stdout>"), isReplay=True),
    )

    assert said(found) == [("system", "Total cost: $1")]
    assert [notice.code for notice in of(Notice, found)] == ["interrupt"]


def test_echoed_prompt_counts_without_input() -> None:
    found = read(init(), user(text("hello"), isReplay=True))

    assert said(found) == [("user", "hello")]


def test_unknown_kinds_are_unparsed() -> None:
    found = read(
        init(),
        {"type": "brand_new"},
        {"type": "system", "subtype": "brand_new"},
        streamed({"type": "brand_new"}),
        assistant({"type": "brand_new"}),
        assistant({"type": "brand_new"}, text("hi")),
    )

    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type"] * 5
    assert said(found) == [("assistant", "hi")]


# -- partials ---------------------------------------------------------------------------------------------------------


def test_partials_leave_other_events_unchanged() -> None:
    lines = recording("text-only")
    normalizer = StreamNormalizer(Context(stream="s"), "claude-stream")
    normalizer.want_partials(True)
    seen = [one.event for line in lines for one in normalizer.feed(line.data) if hasattr(one, "event")]

    messages = of(Message, seen)
    assert [(one.text, one.offset) for one in messages if one.partial] == [
        ("Hello from the scr", 0),
        ("ipted model.", 18),
    ]
    assert [event for event in seen if not getattr(event, "partial", False)] == events("text-only")


def test_incomplete_text_is_emitted_at_turn_end() -> None:
    begun = [
        init(),
        streamed({"type": "message_start", "message": {"id": "msg_1"}}),
        streamed({"type": "content_block_start", "index": 0, "content_block": {"type": "thinking", "thinking": "Hm"}}),
        streamed({"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "m."}}),
        streamed({"type": "content_block_stop", "index": 0}),
        streamed({"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}}),
        streamed({"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "Hel"}}),
    ]

    for found in (read(*begun, result()), read(*begun)):
        whole = [event for event in found if isinstance(event, Message | Reasoning)]
        assert [(one.text, one.block, one.synthetic) for one in whole] == [("Hmm.", 0, True), ("Hel", 1, True)]
        assert isinstance(found[-1], Turn)


def test_whole_blocks_replace_deltas() -> None:
    """One line per block while it is streamed (Claude Code), or one for all afterwards; with and without a start."""
    start = streamed({"type": "message_start", "message": {"id": "msg_1"}})

    def block(index: int, said: str) -> list[dict[str, object]]:
        return [
            streamed({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}),
            streamed({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": said}}),
        ]

    stop = streamed({"type": "content_block_stop", "index": 0})
    stepwise = [*block(3, "a"), assistant(text("a")), stop, *block(4, "b"), assistant(text("b")), stop]
    together = [start, *block(0, "a"), stop, *block(1, "b"), stop, assistant(text("a"), text("b"))]

    for lines, first in (([start, *stepwise], 3), (stepwise, 3), (together, 0)):
        messages = of(Message, read(init(), *lines, result()))
        assert [(one.text, one.block, one.synthetic) for one in messages] == [
            ("a", first, False),
            ("b", first + 1, False),
        ]


def test_number_of_a_block_that_no_state_holds_is_none() -> None:
    """The blocks of the message are counted from it."""
    start = {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}
    for number in (2**64 - 1, 2**63, -(2**63)):
        lines = [Line(orjson.dumps(one)) for one in (streamed({**start, "index": number}), assistant(text("a")))]
        messages = of(Message, check_recording("claude-stream", lines, Context(stream="s")))
        assert [(one.text, one.block) for one in messages] == [("a", 0)]


def test_overlapping_turn_keeps_streamed_text() -> None:
    found = read(
        init(),
        assistant(text("first"), message_id="msg_1"),
        init(),
        streamed({"type": "message_start", "message": {"id": "msg_2"}}),
        streamed({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "sec"}}),
        result(begun_message_ids=["msg_1"]),
        assistant(text("second"), message_id="msg_2"),
        result(begun_message_ids=["msg_2"]),
    )

    assert [(one.text, one.turn, one.synthetic) for one in of(Message, found)] == [
        ("first", "t1", False),
        ("second", "t2", False),
    ]


# -- whole streams ----------------------------------------------------------------------------------------------------


def outline(found: list[Event]) -> str:
    return "\n".join(f"{event.id.removeprefix('s:'):7}{event.turn or '-':4}{_gist(event)}" for event in found)


def _gist(event: Event) -> str:
    who = f" of {event.agent}" if event.agent else ""
    match event:
        case SessionEvent() | Turn():
            return f"{type(event).__name__} {event.state}"
        case Message() | Reasoning():
            return f"{type(event).__name__} {event.text!r}{who}"
        case ToolCall():
            return f"ToolCall {event.name}{who}"
        case ToolUpdate():
            return f"ToolUpdate {event.name} {(event.progress or {}).get('text')}{who}"
        case ToolResult():
            flags = "".join(f" {flag}" for flag in ("async_", "final", "synthetic") if getattr(event, flag))
            return f"ToolResult {event.name} {event.status}{flags}{who}"
        case PermissionResponse():
            return f"PermissionResponse {event.outcome} by {event.by}"
        case Usage():
            return f"Usage {event.scope}"
        case Notice():
            return f"Notice {event.code}"
    return type(event).__name__


@pytest.mark.parametrize("name", ["subagent-async", "background-shell", "denied"])
def test_outline(name: str, snapshot: SnapshotAssertion) -> None:
    assert outline(events(name)) == snapshot
