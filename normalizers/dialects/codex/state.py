"""What the Codex dialects remember from line to line, and the words they share for reading objects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias

import msgspec

from tooltap.normalizers.core.running import RunningState
from tooltap.normalizers.core.state import State
from tooltap.normalizers.core.text_buffer import TextBuffer

__all__ = [
    "CodexReader",
    "CodexState",
    "ITEM",
    "Handler",
    "Handlers",
    "Msg",
    "Said",
    "Thread",
    "call_id_of",
    "details",
    "duration_of",
    "int_of",
    "item_of",
    "knowing",
    "object_of",
    "text_of",
    "type_word",
]

ITEM = "<item>"
"""Under which an object that was put into the words of the core's events holds the provider's own."""

Msg: TypeAlias = dict[str, Any]
"""An event (`msg`), a turn item or a response item: an object told apart by `type`."""

Handler: TypeAlias = Callable[[Any, Msg], str]
"""A reader's method: reads an object and gives its line's class."""

Handlers: TypeAlias = dict[str, Handler]
"""`type` -> what reads such an object."""


class CodexReader:
    """Reads the objects of one subject. A class has one set of tables, so that a parser costs little to be made."""

    EVENTS: ClassVar[Handlers] = {}
    STARTS: ClassVar[Handlers] = {}
    """Of items; so are `ENDS`."""
    ENDS: ClassVar[Handlers] = {}
    RAW_ITEMS: ClassVar[Handlers] = {}


class Said(msgspec.Struct):
    """A block of text that was emitted, and in which forms the wire has said it so far."""

    role: str
    digest: int
    forms: list[str]


class Thread(msgspec.Struct, omit_defaults=True):
    """One Codex thread: a session."""

    ended: str | None = None
    """The turn that ended last."""
    failed: str | None = None
    """Why the running turn is failing, once an error said so."""
    said: list[Said] = []
    """Of the running turn; newest last."""
    receiving: dict[str, str] = {}
    """Key of a text that arrives in deltas -> its role."""
    usage: list[int | None] = []
    """The figures emitted last."""
    rate_limit: str | None = None
    """The limit that was reported as reached."""
    mcp_failures: list[str] = []
    """MCP servers whose failure to start was told."""
    settings: dict[str, str] = {}
    """What was told of how the session runs: `cwd`, `model`, `mode`."""
    script: str | None = None
    """The newest call of the tool that runs tools (code mode)."""
    plan_call: str | None = None
    """The newest `update_plan` call."""
    searches: int = 0
    """Web searches that ended and were not yet repeated as a response item, which has no id in 0.120."""
    diff: TextBuffer | None = None
    """The running turn's accumulated diff."""
    diff_digest: int = 0


class CodexState(State, kw_only=True):
    agent_version: str | None = None
    threads: dict[str, Thread] = msgspec.field(default_factory=dict)
    running: RunningState = msgspec.field(default_factory=RunningState)
    made_up: dict[str, int] = msgspec.field(default_factory=dict)
    """Kind of call -> how many of them got an id of ours: plans, diffs, searches without one."""


def knowing(read: Callable[..., str], *words: str) -> Handler:
    """A method that is told `words` before the object it reads."""
    return lambda reader, msg: read(reader, *words, msg)


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


def call_id_of(msg: Msg) -> str:
    """The id of the call an object is about; without one, all that is known of it is that it is a call."""
    return text_of(msg, "call_id", "callId", "id") or "unknown"


def details(msg: Msg, *keys: str) -> Msg:
    """What of the keys is there and says something."""
    return {key: msg[key] for key in keys if msg.get(key) not in (None, "", [], {})}


def duration_of(msg: Msg) -> int | None:
    """Milliseconds: a number of them, or Rust's `Duration`, `{secs, nanos}`."""
    if (stated := int_of(msg, "duration_ms")) is not None:
        return stated
    duration = object_of(msg, "duration")
    secs, nanos = int_of(duration, "secs"), int_of(duration, "nanos")
    return None if secs is None or nanos is None else round(secs * 1000 + nanos / 1e6)


def item_of(msg: Any) -> Any:
    """The provider's own object."""
    return msg.get(ITEM, msg) if isinstance(msg, dict) else msg


def type_word(msg: Msg, event_name: str) -> str:
    """How the wire calls a tool that it gives no name: by the item's type; events have names for it."""
    return text_of(object_of(msg, ITEM), "type", "item_type") or event_name
