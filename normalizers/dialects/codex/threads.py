"""State of Codex's threads, and of the connection that they share."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import msgspec

from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State, TextBuffer, make_room
from tooltap.normalizers.core.texts import LiveOutputState

MANY_THREADS = 32
"""Each may hold a diff of `string_bytes`; the one used longest ago is evicted first."""
MANY_TEXTS = 256
"""Texts of one turn whose other forms may still arrive."""


class SeenText(msgspec.Struct):
    """A block of text that was emitted, and the forms in which it has arrived so far."""

    role: str
    digest: int
    forms: list[str]


class Thread(msgspec.Struct, omit_defaults=True):
    """One Codex thread: a session, or a subagent."""

    ended: str | None = None
    """The turn that ended last."""
    failed: str | None = None
    """Reason for which the running turn will fail, once an error has been reported."""
    texts: list[SeenText] = []
    """Texts of the running turn; newest last."""
    receiving: dict[str, str] = {}
    """Key of a text that arrives in deltas -> its role."""
    usage: list[int | None] = []
    """The figures emitted last."""
    rate_limit: str | None = None
    """The limit that was reported as reached."""
    mcp_failures: list[str] = []
    """MCP servers whose failure to start was reported."""
    settings: dict[str, str] = {}
    """The `cwd`, `model` and `mode` that were emitted last."""
    script: str | None = None
    """The newest call of the tool that runs tools (code mode)."""
    plan_call: str | None = None
    """The newest `update_plan` call."""
    plan: Line | None = None
    """A plan that was reported, until the call of it comes."""
    searches: int = 0
    """Web searches that ended and were not yet repeated as a response item, which has no id in 0.120."""
    diff: TextBuffer | None = None
    """The running turn's accumulated diff."""
    diff_digest: int = 0

    def is_new(self, role: str, text: str, form: str) -> bool:
        """Whether no other form of this text was emitted; remembers that it has arrived in this one.

        A raw item may still hold what was taken out of the message (citations): it then repeats the oldest text of its
        role that has not come raw."""
        digest, seen = zlib.crc32(text.encode()), self.texts
        oldest = None
        for one in seen:
            if one.role == role and form not in one.forms:
                if one.digest == digest:
                    one.forms.append(form)
                    return False
                if oldest is None and form == "raw":
                    oldest = one
        if oldest is not None:
            oldest.forms.append(form)
            return False
        seen.append(SeenText(role, digest, [form]))
        if len(seen) > MANY_TEXTS:
            del seen[:-MANY_TEXTS]
        return True


class HeldResult(msgspec.Struct, omit_defaults=True):
    """A result that was reported, of a call whose output for the model is still to come on a line of its own."""

    answer: Answer
    raw: Any
    ts: int | None = None
    size: int = 0


class CodexState(State, kw_only=True):
    agent_version: str | None = None
    threads: dict[str, Thread] = msgspec.field(default_factory=dict)
    running: LiveOutputState = msgspec.field(default_factory=LiveOutputState)
    synthetic_counts: dict[str, int] = msgspec.field(default_factory=dict)
    """Kind of call -> how many of them got a synthetic id: plans, diffs, searches without one."""
    has_raw: bool = False
    """Whether the stream has the model's own items, and so what the model gets of each result."""
    raw_first: bool = False
    """Whether the model's item is the first line of its call (since 0.63); before, it comes after the call's result."""
    held: dict[str, HeldResult] = msgspec.field(default_factory=dict)
    """Call id -> its result, until the line with what the model gets of it, or the end of the turn."""
    exited: dict[str, Answer] = msgspec.field(default_factory=dict)
    """Call id of a background command -> its result, while only `write_stdin` has said that it ended."""
    processes: dict[str, str] = msgspec.field(default_factory=dict)
    """Id of a process in the background -> id of the call that started it."""
    picture: str | None = None
    """The held call whose picture may come next."""


class Threads:
    """The threads of a connection, and what the line being read says of its own."""

    OF_LINE = frozenset({"event_turn", "begins"})

    def __init__(self, parser: Parser, state: CodexState, before_content: Callable[[bool], None]) -> None:
        """`before_content`: prepares for a message or call, which may be the first line that is seen of its turn; it
        is told whether that is a prompt."""
        self._parser = parser
        self._state = state
        self._before_content = before_content
        self.event_turn: str | None = None
        """The turn the line says it belongs to. Scope of the line, like `session`: dialects set it for each."""
        self.begins = ""
        """The form in which the object being read begins a call: `item`, `event` or `model`; empty if it is not the
        beginning of one. One call may begin in all three forms. Scope of the line, too."""

    @property
    def current(self) -> Thread:
        """State of the thread that the line belongs to: a session's, or a subagent's own."""
        threads, key = self._state.threads, self._parser.agent or self._parser.session
        if next(reversed(threads), None) == key:  # nearly always
            return threads[key]
        thread = threads.pop(key, None) or Thread()
        make_room(threads, MANY_THREADS)
        threads[key] = thread
        return thread

    def before_content(self, *, prompt: bool = False) -> None:
        """Prepare for a message or call."""
        self._before_content(prompt)

    def synthetic_id(self, kind: str) -> str:
        """An id for a call that has none on the wire: `plan-1`, `plan-2`, …"""
        counts = self._state.synthetic_counts
        counts[kind] = counts.get(kind, 0) + 1
        return f"{kind}-{counts[kind]}"
