"""What the OpenCode dialects remember from line to line, and the words they share for reading objects."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import msgspec

from tooltap.normalizers.core.running import RunningState
from tooltap.normalizers.core.state import State
from tooltap.normalizers.core.text_buffer import TextBuffer

__all__ = [
    "MESSAGES",
    "BusState",
    "MessageInfo",
    "Msg",
    "OpencodeState",
    "PartInfo",
    "SessionInfo",
    "int_of",
    "keep_newest",
    "object_of",
    "text_of",
]

MESSAGES = 1_024
"""Messages, and parts of them, that are remembered: the newest."""

Msg: TypeAlias = dict[str, Any]
"""An event, a message, a part of one, a session: an object out of OpenCode's API."""

V = TypeVar("V")


class PartInfo(msgspec.Struct, omit_defaults=True):
    """A text or a thought."""

    block: int
    role: str = "assistant"
    """Pieces do not say whether they are text or thought; the part's announcement does."""
    received: int = 0
    """Code points of it that came so far."""
    digest: int = 0
    """CRC of them."""
    told: int = 0
    """Code points of it that went out when the agent went on to something else."""
    told_digest: int = 0
    done: bool = False


class MessageInfo(msgspec.Struct, omit_defaults=True):
    role: str | None = None
    blocks: int = 0
    echo: bool | None = None
    """Of a prompt: whether the request that sent it was seen; None until its first part comes."""


class OpencodeState(State, kw_only=True):
    messages: dict[str, MessageInfo] = msgspec.field(default_factory=dict)
    parts: dict[str, PartInfo] = msgspec.field(default_factory=dict)
    receiving: dict[str, str | None] = msgspec.field(default_factory=dict)
    """Id of a part that is coming in pieces -> the agent whose it is."""
    running: RunningState = msgspec.field(default_factory=RunningState)
    servers: list[str] = msgspec.field(default_factory=list)
    """MCP servers the stream named."""


class SessionInfo(msgspec.Struct, omit_defaults=True):
    """A session of the bus, perhaps a subagent's."""

    root: str | None = None
    """Of a subagent's: the session of the user."""
    call: str | None = None
    """Of a subagent's: the call that spawned it."""
    started: bool = False
    cwd: str | None = None
    title: str | None = None
    mode: str | None = None
    model: str | None = None
    agent_version: str | None = None
    usage: list[Any] = []
    """The session's figures told last."""
    prompts: int = 0
    """Prompts that were sent and have not come back as messages."""
    outcome: list[str] = []
    """How the running turn will end, once something said so: outcome, reason."""
    step_reason: str | None = None
    """Why the last step ended."""
    retry: int = 0
    """The attempt told last."""
    todos: int = 0
    """CRC of the to-do list shown last."""
    diff: TextBuffer | None = None
    """The running turn's accumulated diff."""
    diff_digest: int = 0


class BusState(OpencodeState, kw_only=True):
    sessions: dict[str, SessionInfo] = msgspec.field(default_factory=dict)
    told: dict[str, None] = msgspec.field(default_factory=dict)
    """Ids of steps, answers and removals that were told: events may come twice, plain and in `sync` envelopes."""
    questions: dict[str, list[str]] = msgspec.field(default_factory=dict)
    """Id of a request -> what it asks."""
    made_up: dict[str, int] = msgspec.field(default_factory=dict)
    """Kind of call -> how many of them got an id of ours: plans, diffs."""
    reasoning_apart: bool = False
    """The output of a step does not count its reasoning."""

    def is_told(self, thing_id: str | None) -> bool:
        """Whether this was told before; from here on it was."""
        if thing_id is None:
            return False
        if thing_id in self.told:
            return True
        self.told[thing_id] = None
        keep_newest(self.told)
        return False


def text_of(msg: Msg, *keys: str) -> str | None:
    """The first of the keys that holds a string which is not empty."""
    for key in keys:
        if (value := msg.get(key)) and isinstance(value, str):
            return value
    return None


def object_of(msg: Msg, key: str) -> Msg:
    """The object under a key, empty where there is none."""
    value = msg.get(key)
    return value if isinstance(value, dict) else {}


def int_of(msg: Msg, key: str) -> int | None:
    value = msg.get(key)
    return value if type(value) is int else None


def keep_newest(table: dict[str, V], limit: int = MESSAGES) -> None:
    while len(table) > limit:
        del table[next(iter(table))]
