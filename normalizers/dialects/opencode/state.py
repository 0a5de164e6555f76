"""State of the OpenCode parsers between lines."""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.normalizers.core.state import State, TextBuffer
from tooltap.normalizers.core.texts import LiveOutputState

MESSAGES = 1_024
"""Messages, and parts of messages, that are remembered: the newest."""


class OpencodePart(msgspec.Struct, omit_defaults=True):
    """A part that is text or reasoning."""

    block: int
    role: str = "assistant"
    """Deltas do not state whether they are text or reasoning; the first line of the part does."""
    received: int = 0
    """Code points received so far."""
    digest: int = 0
    """CRC of the text received so far."""
    emitted: int = 0
    """Code points that were emitted before the end of the part, when the agent called a tool."""
    emitted_digest: int = 0
    done: bool = False


class OpencodeMessage(msgspec.Struct, omit_defaults=True):
    """A message whose parts are being read."""

    role: str | None = None
    blocks: int = 0
    echo: bool | None = None
    """For prompts: whether the request that sent the prompt was seen; None until the first part arrives."""
    model: str | None = None
    """The model that writes it, as `provider/model`."""


class OpencodeState(State, kw_only=True):
    messages: dict[str, OpencodeMessage] = msgspec.field(default_factory=dict)
    parts: dict[str, OpencodePart] = msgspec.field(default_factory=dict)
    receiving: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Id of a part that is being received -> its agent."""
    running: LiveOutputState = msgspec.field(default_factory=LiveOutputState)
    servers: list[str] = msgspec.field(default_factory=list)
    """MCP servers that the stream named."""


class OpencodeSession(msgspec.Struct, omit_defaults=True):
    """A session of the bus, perhaps a subagent's."""

    root: str | None = None
    """For a subagent: the user's session."""
    call: str | None = None
    """For a subagent: the call that spawned it."""
    started: bool = False
    cwd: str | None = None
    title: str | None = None
    mode: str | None = None
    model: str | None = None
    agent_version: str | None = None
    usage: list[Any] = []
    """The session's total as last emitted."""
    prompts: int = 0
    """Prompts that were sent and have not come back as messages."""
    outcome: list[str] = []
    """Outcome and reason of the running turn, once a line stated them; else empty."""
    step_reason: str | None = None
    """Reason of the last step's end."""
    retry: int = 0
    """The attempt that was last reported."""
    todos: int = 0
    """CRC of the to-do list that was last shown."""
    diff: TextBuffer | None = None
    """The diff of the running turn."""
    diff_digest: int = 0


class BusState(OpencodeState, kw_only=True):
    sessions: dict[str, OpencodeSession] = msgspec.field(default_factory=dict)
    emitted: dict[str, None] = msgspec.field(default_factory=dict)
    """Ids of steps, answers and removals that were emitted: events may come twice, plain and in `sync` envelopes."""
    questions: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Request id -> the questions it asks."""
    synthetic_counts: dict[str, int] = msgspec.field(default_factory=dict)
    """Kind of synthetic call (plan, diff) -> how many there were."""
    reasoning_apart: bool = False
    """The output tokens of a step exclude its reasoning."""
