"""State of the ACP parser between lines, all of it bounded."""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.state import State, TextBuffer


class PendingRequest(msgspec.Struct, omit_defaults=True):
    """A JSON-RPC request that was not answered yet."""

    method: str
    session: str | None = None
    turn: str | None = None
    """The turn that a prompt began."""
    params: dict[str, Any] = {}
    """Parameters that the answer confirms; short ones only."""


class AcpSession(msgspec.Struct, omit_defaults=True):
    """A session of the connection."""

    cwd: str | None = None
    model: str | None = None
    mode: str | None = None
    title: str | None = None
    commands: int | None = None
    """CRC of their names."""
    usage: tuple[int | None, int | None, float | None] = (None, None, None)
    """Context used, context size, cost in dollars, as last reported."""
    state: str | None = None
    """The session's state in the agent's word, as last reported."""
    own_turn: str | None = None
    """The open turn that no prompt began."""
    loading: bool = False
    """The agent replays the session's history."""
    stopping: bool = False
    """The client asked to stop the turn, and has sent no prompt since."""
    cutting: bool = False
    """The client asked to stop while a call was running."""
    todos: int | None = None
    """CRC of the to-do list that was last shown."""
    last_message: str | None = None
    """Id of the last message that arrived in chunks."""


class Terminal(msgspec.Struct, omit_defaults=True):
    """A terminal that the client or the agent runs for a call."""

    call_id: str | None = None
    """The call whose content embeds it."""
    printed: TextBuffer = msgspec.field(default_factory=TextBuffer)
    exit_code: int | None = None
    signal: str | None = None


class AcpState(State, kw_only=True):
    sessions: dict[str, AcpSession] = msgspec.field(default_factory=dict)
    children: dict[str, str] = msgspec.field(default_factory=dict)
    """Session of a subagent -> root session."""
    agents: dict[str, str] = msgspec.field(default_factory=dict)
    """Subagent -> id of the call that spawned it, where the wire states only the subagent."""
    requests: dict[str, PendingRequest] = msgspec.field(default_factory=dict)
    """`<side that asked>:<JSON-RPC id>` -> request."""
    shells: dict[str, str] = msgspec.field(default_factory=dict)
    """`<session>/<shell>` of a command that runs in the background -> id of its call."""
    terminals: dict[str, Terminal] = msgspec.field(default_factory=dict)
    servers: list[str] = msgspec.field(default_factory=list)
    """Names of the MCP servers that sessions were set up with."""
    client_seen: bool = False
    """The client's side is on the wire, too."""
    agent_version: str | None = None
    protocol_version: int = 1
    plans: int = 0
    """Number of plans that came without a call."""
