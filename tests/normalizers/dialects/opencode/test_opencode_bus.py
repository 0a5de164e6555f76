"""OpenCode's event stream and the requests beside it: sessions, turns, messages, envelopes."""

from typing import Any

import orjson

from tests.normalizers.dialects.opencode.helpers import (
    ASSISTANT,
    SESSION,
    USER,
    bus,
    delta,
    event,
    idle,
    part,
    read_bus,
    request,
    tool,
)
from tests.normalizers.reading import lines_of, of, outline, statistics
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import (
    Message,
    Notice,
    Reasoning,
    SessionEvent,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
    Usage,
)
from tooltap.testing import Line, check_recording

# -- sessions ---------------------------------------------------------------------------------------------------------


def test_session_updates_hold_only_changes() -> None:
    started, configured, titled = of(SessionEvent, bus("shell"))

    assert (started.state, started.cwd, started.agent_version) == ("started", "/tmp/ws", "1.18.33")
    assert (configured.state, configured.model, configured.mode) == ("updated", "fake/fake-model", "build")
    assert (titled.title, titled.model) == ("Scripted session", None)


def test_placeholder_is_no_title() -> None:
    """It would be shown in place of the first prompt."""
    updates = [
        event("session.updated", info={"id": SESSION, "title": title})
        for title in ("New session - 2026-11-21T20:58:39.922Z", "New session - plans")
    ]

    assert [one.title for one in of(SessionEvent, read_bus(*updates))] == ["New session - plans"]


def test_deleted_session_ends() -> None:
    assert of(SessionEvent, read_bus(event("session.deleted", info={"id": SESSION})))[0].state == "ended"


def test_session_usage_is_the_total() -> None:
    """Lines 37 and 52 of the recording: input 300 and 600, cache 900 and 1800, output 35 and 70, reasoning 7 and 14."""
    usage = of(Usage, bus("shell"))

    assert [(one.scope, one.input_tokens, one.output_tokens) for one in usage] == [
        ("step", 1200, 42),
        ("session", 1200, 42),
        ("step", 1200, 42),
        ("session", 2400, 84),
    ]


# -- turns and messages -----------------------------------------------------------------------------------------------


def test_events_of_a_turn_are_in_order() -> None:
    assert outline([one for one in bus("shell") if not isinstance(one, SessionEvent | Usage | ToolUpdate)]) == [
        "turn started",
        "message user",
        "message assistant",
        "tool-call Bash",
        "permission-request",
        "permission-response",
        "tool-result Bash completed",
        "message assistant",
        "turn completed",
    ]
    assert [one.text for one in of(Message, bus("shell"))] == [
        "[[S4]] Run a shell command that lists src.",
        "Running it.",
        "src has app.py and util.py.",
    ]


def test_prompt_without_its_request() -> None:
    found = read_bus(*USER, *USER, idle(), event("session.status", status={"type": "idle"}))

    assert outline(found) == ["turn started", "message user", "turn completed"]
    assert (of(Message, found)[0].message_id, of(Turn, found)[0].synthetic) == ("msg_u", False)


def test_queued_prompts_end_together() -> None:
    found = read_bus(
        request(f"/session/{SESSION}/prompt_async", parts=[{"type": "text", "text": "One."}]),
        request(f"/session/{SESSION}/prompt_async", parts=[{"type": "text", "text": "Two."}]),
        *USER,
        idle(),
    )

    assert [(turn.turn, turn.state) for turn in of(Turn, found)] == [
        ("t1", "started"),
        ("t2", "started"),
        ("t1", "completed"),
        ("t2", "completed"),
    ]
    assert [one.text for one in of(Message, found)] == ["One.", "Two."]


def test_synthetic_parts_of_a_prompt_are_skipped() -> None:
    extra = part("text", "prt_x", "msg_u", text="Called the Read tool …", synthetic=True)

    assert [one.text for one in of(Message, read_bus(*USER, extra))] == ["Go."]


def test_files_of_a_prompt_are_attached() -> None:
    picture = {"type": "file", "mime": "image/png", "url": "data:image/png;base64,AAAA", "filename": "a.png"}
    link = {"type": "file", "mime": "text/plain", "url": "file:///w/a.txt", "filename": "a.txt"}
    text = {"type": "text", "text": "Look."}
    (sent,) = of(Message, read_bus(request(f"/session/{SESSION}/message", parts=[text, picture, link])))

    assert sent.attachments is not None
    assert [(one.mime_type, one.bytes, one.uri) for one in sent.attachments] == [
        ("image/png", 3, None),
        ("text/plain", None, "file:///w/a.txt"),
    ]


def test_text_in_pieces_is_emitted_once() -> None:
    start = part("text", "prt_1", "msg_a", text="", time={"start": 1})
    end = part("text", "prt_1", "msg_a", text="Hello you.", time={"start": 1, "end": 2})
    lines = lines_of((*USER, ASSISTANT, start, delta("prt_1", "msg_a", "Hello"), delta("prt_1", "msg_a", " you."), end))
    normalizer = StreamNormalizer(Context(stream="s", partials=True), "opencode-bus")
    found: list[Any] = [out.event for line in lines for out in normalizer.feed(line.data)]  # type: ignore[union-attr]
    texts = [(one.text, one.partial, one.offset) for one in of(Message, found) if one.role == "assistant"]

    assert texts == [("Hello", True, 0), (" you.", True, 5), ("Hello you.", False, None)]
    assert normalizer.statistics.skipped == {"message": 2, "partial": 3}


def test_text_that_continues_after_a_tool() -> None:
    found = read_bus(
        ASSISTANT,
        part("text", "prt_1", "msg_a", text="", time={"start": 1}),
        delta("prt_1", "msg_a", "First. "),
        tool("bash", "c1", status="pending", input={}, raw=""),
        delta("prt_1", "msg_a", "Then."),
        part("text", "prt_1", "msg_a", text="First. Then.", time={"start": 1, "end": 2}),
    )

    assert [(one.text, one.synthetic) for one in of(Message, found)] == [("First. ", False), ("Then.", False)]


def test_text_without_an_end_is_emitted_with_its_turn() -> None:
    found = read_bus(
        *USER,
        ASSISTANT,
        part("reasoning", "prt_1", "msg_a", text="", time={"start": 1}),
        delta("prt_1", "msg_a", "Hm, so"),
        idle(),
    )

    assert [(one.text, one.synthetic) for one in of(Reasoning, found)] == [("Hm, so", True)]
    assert outline(found)[-1] == "turn completed"


def test_growing_parts_of_older_streams() -> None:
    def grown(text: str, piece: str) -> dict[str, Any]:
        line = part("text", "prt_1", "msg_a", text=text, time={"start": 1})
        return {**line, "properties": {**line["properties"], "delta": piece}}

    end = part("text", "prt_1", "msg_a", text="Hello you.", time={"start": 1, "end": 2})
    found = read_bus(ASSISTANT, grown("Hello", "Hello"), grown("Hello you.", " you."), end)

    assert [one.text for one in of(Message, found)] == ["Hello you."]


def test_api_error_fails_the_turn() -> None:
    found = bus("api-error")

    (notice,) = of(Notice, found)
    assert (notice.code, notice.text) == ("provider-error", "scripted bad request")
    assert (notice.data or {})["statusCode"] == 400
    assert [(turn.state, turn.reason) for turn in of(Turn, found)] == [("started", None), ("failed", "APIError")]


def test_abort_cancels_turn_and_calls() -> None:
    aborted = {"name": "MessageAbortedError", "data": {"message": "aborted"}}
    running = tool("bash", "c1", status="running", input={"command": "sleep 9"}, metadata={"output": "one\n"})
    found = read_bus(
        *USER, running, request(f"/session/{SESSION}/abort"), event("session.error", error=aborted), idle()
    )

    assert [(one.code, one.text) for one in of(Notice, found)] == [("interrupt", "abort")]
    assert [(one.status, one.output["stdout"]) for one in of(ToolResult, found)] == [("cancelled", "one\n")]
    assert (of(Turn, found)[-1].state, of(Turn, found)[-1].reason) == ("cancelled", "abort")


def test_repeated_retries_are_skipped() -> None:
    def retry(attempt: int) -> dict[str, Any]:
        return event("session.status", status={"type": "retry", "attempt": attempt, "message": "Overloaded", "next": 1})

    found = of(Notice, read_bus(*USER, retry(1), retry(1), retry(2), idle()))

    assert [(one.code, one.text, (one.data or {})["attempt"]) for one in found] == [
        ("retry", "Overloaded", 1),
        ("retry", "Overloaded", 2),
    ]


def test_half_answer_before_a_retry_is_dropped() -> None:
    status = event("session.status", status={"type": "retry", "attempt": 1, "message": "Overloaded", "next": 1})
    found = read_bus(
        *USER,
        ASSISTANT,
        part("text", "prt_1", "msg_a", text="", time={"start": 1}),
        delta("prt_1", "msg_a", "Half an"),
        status,
        part("text", "prt_2", "msg_a", text="", time={"start": 3}),
        delta("prt_2", "msg_a", "Whole."),
        part("text", "prt_2", "msg_a", text="Whole.", time={"start": 3, "end": 4}),
        idle(),
    )

    assert [one.text for one in of(Message, found) if one.role == "assistant"] == ["Whole."]


def test_removed_messages_and_compaction_are_notices() -> None:
    found = read_bus(event("message.removed", messageID="msg_a"), event("session.compacted"))

    assert [(one.code, one.data) for one in of(Notice, found)] == [
        ("rewound", {"messageID": "msg_a"}),
        ("compaction", None),
    ]


# -- envelopes, lines -------------------------------------------------------------------------------------------------


def in_envelope(value: dict[str, Any]) -> dict[str, Any]:
    return {"directory": "/w", "project": "p", "payload": value}


def in_sync(value: dict[str, Any]) -> dict[str, Any]:
    inner = {"type": f"{value['type']}.1", "id": "evt_1", "seq": 1, "aggregateID": SESSION, "data": value["properties"]}
    return {"type": "sync", "syncEvent": inner}


def test_sync_envelopes_are_deduplicated() -> None:
    end = part("text", "prt_1", "msg_a", text="Hello.", time={"start": 1, "end": 2})
    done = tool("bash", "c1", status="completed", input={"command": "ls"}, output="a", metadata={"exit": 0})
    step = part("step-finish", "prt_s", "msg_a", reason="stop", tokens={"input": 5, "output": 1}, cost=0.5)
    created = event("session.created", info={"id": SESSION, "directory": "/w", "title": "T"})
    plain = [created, *USER, ASSISTANT, end, done, step, event("message.removed", messageID="m")]
    both = [one for value in plain for one in (in_envelope(value), in_envelope(in_sync(value)))]

    wanted = outline(read_bus(*plain, idle()))
    assert outline(read_bus(*both, idle())) == wanted
    assert outline(read_bus(*(in_sync(value) for value in plain), idle())) == wanted
    check_recording("opencode-bus", lines_of(tuple(both)))


def test_server_answers_are_skipped_unless_they_refuse() -> None:
    refusal = {"name": "NotFoundError", "data": {"message": "Session not found"}}
    answers = [Line(orjson.dumps(value), None, "reply") for value in (None, True, {"id": SESSION}, refusal)]

    (notice,) = of(Notice, read_bus(*answers))
    assert (notice.code, notice.text) == ("request-failed", "Session not found")
    assert statistics("opencode-bus", answers).skipped == {"answer": 3}


def test_environment_events_are_skipped() -> None:
    lines = lines_of(
        (
            {"type": "server.connected", "properties": {}},
            {"type": "server.heartbeat", "properties": {}},
            {"type": "lsp.updated", "properties": {}},
            {"type": "pty.exited", "properties": {"id": "p", "exitCode": 0}},
            {"type": "file.edited", "properties": {"file": "a"}},
            {"GET": "/session"},
        )
    )

    skipped = {"connection": 1, "heartbeat": 1, "environment": 1, "terminal": 1, "files": 1, "request": 1}
    assert statistics("opencode-bus", lines).skipped == skipped


def test_unknown_events_and_parts_are_unparsed() -> None:
    found = read_bus(event("session.novelty"), part("novelty", "p", "m"))

    assert [one.reason for one in of(Unparsed, found)] == ["unknown-type", "unknown-type"]
