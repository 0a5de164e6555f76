"""Turns, messages and usage of ACP agents."""

import base64
from pathlib import Path

import orjson
import pytest

from tests.normalizers.dialects.acp.helpers import (
    AGENTS,
    CLAUDE,
    CODEX,
    FIXTURES,
    GEMINI,
    OPENCODE,
    SESSION,
    agents_side,
    answers,
    asks,
    chunk,
    events,
    line,
    only,
    prompt,
    read,
    recording,
    set_up,
    spoken,
    statistics,
    tool,
    turns,
    update,
)
from tests.normalizers.reading import of
from tooltap.normalizers.core.items import Context, OutputChunk
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Message, Notice, Reasoning, ToolCall, ToolResult, Turn, Unparsed, Usage
from tooltap.testing import Line, read_recording

ALL = sorted(FIXTURES.rglob("*.jsonl"))


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_fixtures_have_no_unparsed_lines(path: Path) -> None:
    lines = read_recording(path.read_bytes())

    for some in (lines, agents_side(lines)):
        stats = statistics(*some)
        assert stats.unparsed == 0
        assert stats.with_events + sum(stats.skipped.values()) == stats.lines == len(some)


# -- turns ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_turn_lasts_from_prompt_to_answer(agent: str) -> None:
    found = events(agent, "shell-fails")

    assert turns(found) == [("t1", "started", None), ("t1", "completed", "end_turn")]
    assert isinstance(found[-1], Turn)
    assert isinstance(found[-2], Usage)


@pytest.mark.parametrize("agent", AGENTS)
def test_interrupt_cancels_the_turn(agent: str) -> None:
    found = events(agent, "interrupted")

    assert [one.code for one in of(Notice, found)] == ["interrupt"]
    assert turns(found) == [("t1", "started", None), ("t1", "cancelled", "cancelled")]


@pytest.mark.parametrize("agent", [CLAUDE, GEMINI])
def test_error_answer_fails_the_turn(agent: str) -> None:
    found = events(agent, "api-error")

    notice = only(Notice, found)
    assert (notice.level, notice.code) == ("error", "provider-error")
    assert "scripted bad request" in notice.text
    assert turns(found) == [("t1", "started", None), ("t1", "failed", None)]


def test_codex_reports_retries_and_a_failed_thread() -> None:
    found = events(CODEX, "retries")

    retry, failed = of(Notice, found)
    assert (retry.level, retry.code) == ("warning", "retry")
    assert "Overloaded (scripted)" in retry.text
    assert (failed.level, failed.code) == ("error", "provider-error")
    assert turns(found)[-1] == ("t1", "completed", "end_turn")


@pytest.mark.parametrize(
    ("reason", "state"),
    [("max_tokens", "completed"), ("max_turn_requests", "failed"), ("refusal", "failed"), ("_new", "completed")],
)
def test_stop_reason_decides_the_outcome(reason: str, state: str) -> None:
    found = read(*set_up(), prompt(3), chunk("x"), answers(3, stopReason=reason))

    assert turns(found)[-1] == ("t1", state, reason)


def test_answer_ends_the_turn_of_its_prompt() -> None:
    found = read(*set_up(), prompt(3), prompt(4), answers(4, stopReason="end_turn"), answers(3, stopReason="cancelled"))

    assert turns(found)[2:] == [("t2", "completed", "end_turn"), ("t1", "cancelled", "cancelled")]


def test_unprompted_content_is_a_synthetic_turn() -> None:
    found = read(*set_up(), chunk("by myself"), prompt(3), chunk("asked"), answers(3, stopReason="end_turn"))

    assert [(one.turn, one.state, one.synthetic) for one in of(Turn, found)] == [
        ("t1", "started", True),
        ("t1", "completed", True),
        ("t2", "started", False),
        ("t2", "completed", False),
    ]


@pytest.mark.parametrize("agent", AGENTS)
def test_turns_without_the_clients_side(agent: str) -> None:
    both = events(agent, "shell-fails")
    alone = read(*agents_side(recording(agent, "shell-fails")))

    assert [(one.state, one.synthetic) for one in of(Turn, alone)] == [("started", True), ("completed", False)]
    assert [one.status for one in of(ToolResult, alone)] == [one.status for one in of(ToolResult, both)]
    assert spoken(alone) == spoken(both)[1:]
    assert only(Turn, [found for found in alone if isinstance(found, Turn) and found.reason]).reason == "end_turn"


def test_undirected_lines_with_equal_request_ids() -> None:
    lines = recording(GEMINI, "edit")
    undirected = [line._replace(direction=None) for line in lines]

    assert turns(read(*undirected)) == turns(read(*lines))
    assert [(one.call_id, one.status) for one in of(ToolResult, read(*undirected))] == [
        (one.call_id, one.status) for one in of(ToolResult, read(*lines))
    ]


def test_error_without_its_request_fails_the_running_turn() -> None:
    error = line(None, id=4, error={"code": 400, "message": "bad request"})

    assert [one.code for one in of(Notice, read(error))] == ["provider-error"]
    assert turns(read(chunk("so far"), error)) == [("t1", "started", None), ("t1", "failed", None)]


# -- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("agent", AGENTS)
def test_chunks_become_one_message(agent: str) -> None:
    assert spoken(events(agent, "shell-fails")) == [
        ("user", "[[S5]] Run the failing command."),
        ("assistant", "The command failed with exit code 3."),
    ]


def test_echo_of_a_prompt_is_skipped() -> None:
    stats = statistics(*set_up(), prompt(3), chunk("go", "user_message_chunk"), answers(3, stopReason="end_turn"))

    assert stats.skipped["echo"] == 1
    assert stats.kinds["message"] == 1


def test_echo_without_its_prompt_is_a_message() -> None:
    assert spoken(read(chunk("go", "user_message_chunk"), chunk("yes"))) == [("user", "go"), ("assistant", "yes")]


def test_messages_thoughts_and_calls_end_a_block() -> None:
    found = read(
        chunk("a", messageId="m1"),
        chunk("b", messageId="m1"),
        chunk("c", messageId="m2"),
        chunk("hm", "agent_thought_chunk", messageId="m2"),
        chunk("d", messageId="m3"),
        tool("c1", title="t", kind="read"),
        chunk("e", messageId="m3"),
    )

    blocks = [one for one in found if isinstance(one, Message | Reasoning | ToolCall)]
    assert [getattr(one, "text", "call") for one in blocks] == ["ab", "c", "hm", "d", "call", "e"]


def test_usage_does_not_split_a_message() -> None:
    """Vibe 3.0.2 reports the usage between the pieces of a message."""
    pieces = [update("agent_message_chunk", content={"type": "text", "text": text}, messageId="m1") for text in "ab"]
    assert spoken(read(pieces[0], update("usage_update", used=1, size=10), pieces[1])) == [("assistant", "ab")]


def test_usage_ends_a_text_without_a_message_id() -> None:
    """codex-acp 0.16.0 has no message ids, and reports the usage after each answer of the model."""
    found = read(chunk("a"), update("usage_update", used=1, size=10), chunk("b"))
    assert spoken(found) == [("assistant", "a"), ("assistant", "b")]


def test_an_empty_chunk_with_the_usage_ends_a_text() -> None:
    """Qwen Code 0.24.4."""
    ended = update("agent_message_chunk", content={"type": "text", "text": ""}, _meta={"usage": {"inputTokens": 1}})
    assert spoken(read(chunk("a"), ended, chunk("b"))) == [("assistant", "a"), ("assistant", "b")]


def test_prompt_blocks_other_than_text_are_attached() -> None:
    picture = base64.b64encode(b"\x89PNG").decode()
    normalizer = StreamNormalizer(Context(stream="s"), "acp")
    request = prompt(
        3,
        {"type": "text", "text": "look"},
        {"type": "image", "data": picture, "mimeType": "image/png"},
        {"type": "resource_link", "uri": "file:///a.py", "name": "a.py", "mimeType": "text/x-python"},
        {"type": "resource", "resource": {"uri": "file:///b.md", "text": "# b", "mimeType": "text/markdown"}},
    )

    outputs = normalizer.feed(request.data, None, "in")

    bodies = {one.output_id: one.data for one in outputs if isinstance(one, OutputChunk)}
    message = next(one.event for one in outputs if not isinstance(one, OutputChunk) and isinstance(one.event, Message))
    assert message.text == "look"
    assert message.attachments is not None
    assert [(one.mime_type, one.uri or bodies[str(one.output_id)]) for one in message.attachments] == [
        ("image/png", b"\x89PNG"),
        ("text/x-python", "file:///a.py"),
        ("text/markdown", b"# b"),
    ]


def test_subagent_of_claude_has_its_call_as_parent() -> None:
    inner = {"_meta": {"claudeCode": {"toolName": "Read", "parentToolUseId": "toolu_1"}}}
    found = read(
        *set_up(),
        prompt(3),
        tool("toolu_1", name="Agent", kind="think", rawInput={"prompt": "find it"}),
        tool("toolu_2", name="Read", kind="read", rawInput={"file_path": "/ws/a"}, **inner),
        answers(3, stopReason="end_turn"),
    )

    outer, child = of(ToolCall, found)
    assert (outer.name, outer.agent) == ("Task", None)
    assert (child.name, child.agent, child.parent) == ("Read", "toolu_1", "toolu_1")


def test_subagent_session_belongs_to_its_root() -> None:
    found = read(
        *set_up(),
        prompt(3),
        update("subagent_update", sessionId="child", title="Explorer", state={"state": "running"}),
        update("agent_message_chunk", session="child", content={"type": "text", "text": "hi"}),
        answers(3, stopReason="end_turn"),
    )

    notice = only(Notice, found)
    assert (notice.code, notice.text, notice.data) == ("subagent", "Explorer", {"session": "child", "state": "running"})
    message = of(Message, found)[-1]
    assert (message.session, message.agent, message.text) == (SESSION, "child", "hi")


# -- usage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("agent", "tokens"),
    [
        # claude-agent-acp: 2400 + 1800 + 600 is the prompt, 84 the output, 4884 the stated total.
        (CLAUDE, (4800, 84, 1800, 600, None)),
        # codex-acp: 600 + 1800, 84 of which 14 are thoughts, 2484.
        (CODEX, (2400, 84, 1800, 0, 14)),
        # Gemini states no cache.
        (GEMINI, (2400, 84, None, None, None)),
        # OpenCode: 300 + 900, 35 + 7 thoughts, 1242, of the turn's last request.
        (OPENCODE, (1200, 42, 900, None, 7)),
    ],
)
def test_tokens_add_up_to_the_stated_total(agent: str, tokens: tuple[int | None, ...]) -> None:
    (turn,) = [one for one in of(Usage, events(agent, "shell-fails")) if one.scope in ("step", "turn")]

    assert tokens == (
        turn.input_tokens,
        turn.output_tokens,
        turn.cache_read_tokens,
        turn.cache_write_tokens,
        turn.reasoning_tokens,
    )


def test_context_and_cost_are_session_usage() -> None:
    session = [one for one in of(Usage, events(CLAUDE, "two-turns")) if one.scope == "session"]

    assert [one.context_used for one in session] == [2401, 2442, 2442, 2401, 2442, 2401, 2442, 2442]
    assert [one.cost_usd for one in session][-1] == pytest.approx(0.02928)
    assert {one.context_size for one in session} == {1_000_000}


def test_repeated_usage_is_skipped() -> None:
    again = update("usage_update", used=5, size=10, cost={"amount": 0.5, "currency": "USD"})

    assert statistics(again, again).skipped["unchanged"] == 1


# -- v2 ---------------------------------------------------------------------------------------------------------------


def test_idle_ends_the_turn_in_v2() -> None:
    found = read(
        *set_up("agent", version=2),
        prompt(3),
        answers(3, messageId="u1"),
        update("user_message", messageId="u1", content=[{"type": "text", "text": "go"}]),
        update("state_update", state="running"),
        chunk("par", messageId="m1"),
        chunk("tial", messageId="m1"),
        update("agent_message", messageId="m1", content=[{"type": "text", "text": "partial"}]),
        update("agent_message", messageId="m2", content=[{"type": "text", "text": "whole"}]),
        update("state_update", state="idle", stopReason="end_turn", usage={"inputTokens": 1, "outputTokens": 2}),
    )

    assert spoken(found) == [("user", "go"), ("assistant", "partial"), ("assistant", "whole")]
    assert turns(found) == [("t1", "started", None), ("t1", "completed", "end_turn")]
    assert only(Usage, found).output_tokens == 2


def test_notices_and_compactions() -> None:
    found = read(
        update("notice", severity="warning", title="Slow", description="network"),
        update("compaction_update", compactionId="k", status="completed", summary=[{"type": "text", "text": "short"}]),
    )

    assert [(one.level, one.code, one.text) for one in of(Notice, found)] == [
        ("warning", "agent", "Slow: network"),
        ("info", "compaction", "short"),
    ]


# -- unknown messages -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "unknown",
    [
        update("brand_new_update", text="x"),
        asks(1, "session/brand_new"),
        line("out", nothing=True),
        line("out", method="session/update", params={"sessionId": SESSION, "update": []}),
    ],
)
def test_unknown_messages_are_unparsed(unknown: object) -> None:
    found = read(unknown)  # type: ignore[arg-type]

    assert only(Unparsed, found).reason == "unknown-type"


def test_answer_to_an_unknown_request_is_unparsed() -> None:
    assert statistics(asks(1, "session/brand_new"), answers(1, something=1)).unparsed == 2


def test_requests_to_the_client_are_skipped() -> None:
    stats = statistics(
        *set_up(),
        asks(0, "fs/read_text_file", "out", sessionId=SESSION, path="/ws/a"),
        answers(0, "in", content="text"),
        asks(5, "authenticate", methodId="key"),
        answers(5),
        asks(6, "session/list"),
        answers(6, sessions=[]),
    )

    assert stats.skipped == {"handshake": 1, "client-fs": 2, "auth": 2, "administration": 2}


# -- what others print on the agent's output --------------------------------------------------------------------------


@pytest.mark.parametrize("result", [{"result": "cache miss"}, {"error": {"message": "cache miss"}}])
def test_line_of_a_log_is_no_answer(result: dict[str, object]) -> None:
    """benchflow issue 236: a JSON log on standard output, with the `id` of the open prompt, but no `jsonrpc`."""
    logged = Line(orjson.dumps({"level": "info", "id": 3, **result}), direction="out")
    found = read(prompt(3), chunk("Hel"), logged, chunk("lo."), answers(3, stopReason="end_turn"))

    assert turns(found) == [("t1", "started", None), ("t1", "completed", "end_turn")]
    assert [one.bytes for one in of(Unparsed, found)] == [len(logged.data)]


def test_message_behind_escape_sequences_is_read() -> None:
    message = chunk("Hello.")
    assert isinstance(message.data, bytes)
    dirty = Line(b"\x1b]0;agent\x07\x1b[?25h" + message.data, direction="out")
    found = read(prompt(3), dirty, answers(3, stopReason="end_turn"))

    assert spoken(found) == [("user", "go"), ("assistant", "Hello.")]
    assert of(Unparsed, found) == []
