"""Sessions of ACP agents: how they begin, change, are replayed and end."""

import pytest

from tests.normalizers.dialects.acp.helpers import (
    CLAUDE,
    CODEX,
    GEMINI,
    OPENCODE,
    SESSION,
    answers,
    asks,
    chunk,
    events,
    line,
    only,
    prompt,
    read,
    set_up,
    spoken,
    statistics,
    tool,
    turns,
    update,
)
from tests.normalizers.reading import of
from tooltap.normalizers.dialects.acp.sessions import provider_name
from tooltap.protocol.events import Message, Notice, SessionEvent, ToolCall, ToolResult, Turn


@pytest.mark.parametrize(
    ("agent", "provider"),
    [
        ("@agentclientprotocol/claude-agent-acp", "claude"),
        ("@agentclientprotocol/codex-acp", "codex"),
        ("gemini-cli", "gemini"),
        ("OpenCode", "opencode"),
        ("Some New Agent", "some-new-agent"),
    ],
)
def test_provider_name(agent: str, provider: str) -> None:
    assert provider_name(agent) == provider


@pytest.mark.parametrize(
    ("agent", "version", "model", "mode"),
    [
        (CLAUDE, "0.100.0", "default", "default"),
        (CODEX, "2.6.0", "gpt-5.5", "agent"),
        (GEMINI, "0.61.0", "gemini-2.5-flash", "default"),
        (OPENCODE, "1.18.33", "fake/fake-model", "build"),
    ],
)
def test_session_starts_with_its_setup(agent: str, version: str, model: str, mode: str) -> None:
    started = of(SessionEvent, events(agent, "shell-fails"))[0]

    assert started.state == "started"
    assert (started.cwd, started.model, started.mode) == ("/tmp/ws", model, mode)
    assert started.agent_version == version
    assert started.mcp_servers == [{"name": "fixture"}]


def test_session_updates_hold_only_changes() -> None:
    """codex-acp, read-only: the client sets a mode, the agent reports all options again, and answers."""
    changes = of(SessionEvent, events(CODEX, "mcp"))[1:]

    assert [one.mode for one in changes if one.mode is not None] == ["read-only"]
    assert all(one.model is None and one.cwd is None for one in changes)


def test_repeated_commands_are_skipped() -> None:
    commands = update("available_commands_update", availableCommands=[{"name": "plan", "description": "x"}])
    stats = statistics(
        *set_up(),
        commands,
        commands,
        update("current_mode_update", currentModeId="plan"),
        update("session_info_update", title="A title"),
    )

    assert stats.skipped["unchanged"] == 1
    assert stats.kinds["session"] == 4


def test_answer_confirms_a_change() -> None:
    found = read(*set_up(), asks(3, "session/set_model", sessionId=SESSION, modelId="large"), answers(3))

    assert [(one.state, one.model) for one in of(SessionEvent, found)] == [("started", None), ("updated", "large")]


def test_several_sessions_on_one_connection() -> None:
    found = read(
        *set_up(),
        asks(3, "session/new", cwd="/other", mcpServers=[]),
        answers(3, sessionId="sess-2"),
        prompt(4),
        prompt(5, session="sess-2"),
        chunk("one"),
        update("agent_message_chunk", session="sess-2", content={"type": "text", "text": "two"}),
        answers(4, stopReason="end_turn"),
        answers(5, stopReason="cancelled"),
    )

    assert [(one.session, one.cwd) for one in of(SessionEvent, found)] == [(SESSION, "/ws"), ("sess-2", "/other")]
    assert [(one.session, one.text, one.turn) for one in of(Message, found) if one.role == "assistant"] == [
        (SESSION, "one", "t1"),
        ("sess-2", "two", "t2"),
    ]
    assert [(one.session, one.state) for one in of(Turn, found)][2:] == [
        (SESSION, "completed"),
        ("sess-2", "cancelled"),
    ]


@pytest.mark.parametrize("agent", [CLAUDE, OPENCODE])
def test_loaded_session_is_replayed_outside_of_turns(agent: str) -> None:
    found = events(agent, "session-load")
    resumed = next(index for index, one in enumerate(found) if isinstance(one, SessionEvent))
    old, new = found[:resumed], found[resumed:]

    assert of(SessionEvent, new)[0].state == "resumed"
    assert all(one.replay and one.turn is None for one in old)
    assert not any(one.replay for one in new)
    assert spoken(old)[0] == ("user", "[[S16]] Think carefully, then fix the greeting.")
    assert [call.name for call in of(ToolCall, old)] == ["Read", "Edit", "Bash"]
    assert [one.status for one in of(ToolResult, old)] == ["completed"] * 3
    assert spoken(new)[0] == ("user", "[[S4]] and now run a command")
    assert turns(new) == [("t1", "started", None), ("t1", "completed", "end_turn")]


def test_history_after_the_answer_to_its_request_is_history() -> None:
    """Hermes sends it then. Without a prompt of the client's, what a user said can only be history."""
    found = read(
        asks(1, "session/load", sessionId=SESSION, cwd="/ws", mcpServers=[]),
        answers(1),
        update("user_message_chunk", content={"type": "text", "text": "Old."}),
        tool("c1", title="ls", kind="execute", rawInput={"command": "ls"}),
        update("agent_message_chunk", content={"type": "text", "text": "Done."}),
        asks(2, "session/prompt", sessionId=SESSION, prompt=[{"type": "text", "text": "New."}]),
        update("user_message_chunk", content={"type": "text", "text": "New."}),
        update("agent_message_chunk", content={"type": "text", "text": "Yes."}),
        answers(2, stopReason="end_turn"),
    )

    shown = [(one.text, one.replay) for one in of(Message, found)]
    assert shown == [("Old.", True), ("Done.", True), ("New.", False), ("Yes.", False)]
    assert turns(found) == [("t1", "started", None), ("t1", "completed", "end_turn")]
    assert [(one.status, one.replay) for one in of(ToolResult, found)] == [("interrupted", True)]


def test_open_call_ends_with_the_replay() -> None:
    found = read(
        asks(1, "session/load", sessionId=SESSION, cwd="/ws", mcpServers=[]),
        tool("c1", title="ls", kind="execute", rawInput={"command": "ls"}),
        answers(1),
    )

    result = only(ToolResult, found)
    assert (result.status, result.synthetic, result.replay) == ("interrupted", True, True)


def test_failed_load_is_a_provider_error() -> None:
    found = read(
        asks(1, "session/load", sessionId=SESSION, cwd="/ws", mcpServers=[]),
        line("out", id=1, error={"code": -32603, "message": "Internal error", "data": {"details": "none found"}}),
    )

    notice = only(Notice, found)
    assert (notice.code, notice.text) == ("provider-error", "Internal error")
    assert notice.data == {"code": -32603, "data": {"details": "none found"}}


def test_closed_session_ends() -> None:
    found = read(*set_up(), asks(3, "session/close", sessionId=SESSION), answers(3))

    assert of(SessionEvent, found)[-1].state == "ended"
