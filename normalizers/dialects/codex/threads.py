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
from tooltap.protocol.events import QuotaWindow

MANY_THREADS = 32
"""Maximum number of threads; each may hold a diff of `string_bytes`. The least recently used one is evicted first."""
MANY_TEXTS = 256
"""Maximum number of texts of a turn that are remembered because other forms of them may still arrive."""


class SeenText(msgspec.Struct):
    """A block of text that was emitted, and the forms in which it has arrived so far."""

    role: str
    digest: int
    forms: list[str]


class Thread(msgspec.Struct, omit_defaults=True):
    """One Codex thread: a session, or a subagent."""

    ended: str | None = None
    """The most recently ended turn."""
    failed: str | None = None
    """Reason for which the running turn will fail, once an error has been reported."""
    texts: list[SeenText] = []
    """Texts of the running turn; newest last."""
    receiving: dict[str, str] = {}
    """Key of a text that arrives in deltas -> its role."""
    total: list[int | None] = []
    """The thread's counter as last stated (`items.counter_of`); empty if its next value may be of one request."""
    context: list[int | None] = []
    """Tokens in the context window, and its size, as last emitted."""
    spent: dict[str, int] = {}
    """Tokens of the session up to now, as far as the stream knows, by the names of our fields."""
    has_earlier: bool = False
    """True if `spent` includes requests that are not in this stream."""
    is_fork: bool = False
    """True if the counter goes on from that of another thread."""
    rate_limit: str | None = None
    """The limit that was reported as reached."""
    quota: list[QuotaWindow] = []
    """The account's quota, as last emitted."""
    mcp_failures: list[str] = []
    """MCP servers whose failure to start was reported."""
    settings: dict[str, str] = {}
    """Last emitted `cwd`, `model` and `mode`."""
    script: str | None = None
    """The newest call of code mode's tool, whose script runs other tools."""
    plan_call: str | None = None
    """The newest `update_plan` call."""
    plan: Line | None = None
    """A reported plan, held until its call arrives."""
    searches: int = 0
    """Number of web searches that ended and whose response item, which repeats them without an id in 0.120, is still to
    come."""
    diff: TextBuffer | None = None
    """Latest diff of the running turn."""
    diff_digest: int = 0

    def spend(self, figures: dict[str, int | None]) -> None:
        """Add token counts, by the names of our fields, to what the session has spent."""
        for name, count in figures.items():
            if count is not None:
                self.spent[name] = self.spent.get(name, 0) + count

    def is_new(self, role: str, text: str, form: str) -> bool:
        """Return whether this is the first form of a text, and remember that this form has arrived.

        A raw item may still hold parts that were removed from the message (citations), so its text differs: it then
        matches the oldest text of its role that has no raw form yet."""
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
    """A reported result, held until a later line states the call's output for the model."""

    answer: Answer
    raw: Any
    ts: int | None = None
    size: int = 0


class Asked(msgspec.Struct):
    """A JSON-RPC request to the client, which asks for a permission."""

    permission: str
    key: str
    """The key that its answer must have: Codex takes an answer without it for a refusal."""


class CodexState(State, kw_only=True):
    agent_version: str | None = None
    threads: dict[str, Thread] = msgspec.field(default_factory=dict)
    running: LiveOutputState = msgspec.field(default_factory=LiveOutputState)
    synthetic_counts: dict[str, int] = msgspec.field(default_factory=dict)
    """Kind of call (plan, diff, search without an id) -> number of synthetic ids."""
    has_raw: bool = False
    """True if the stream has the model's own items, and therefore the output that the model gets of each call."""
    raw_first: bool = False
    """Whether the model's item is the first line of its call (since 0.63); before, it comes after the call's result."""
    held: dict[str, HeldResult] = msgspec.field(default_factory=dict)
    """Call id -> result, held until the line with the output for the model, or the end of the turn."""
    exited: dict[str, Answer] = msgspec.field(default_factory=dict)
    """Call id of a background command -> its result, while only a poll (such as `write_stdin`) has stated its end."""
    processes: dict[str, str] = msgspec.field(default_factory=dict)
    """`<thread>/<id of a process in the background>` -> id of the call that started it."""
    spawned: dict[str, str] = msgspec.field(default_factory=dict)
    """`<session>/<thread of a subagent>` -> id of the call that started it."""
    picture: str | None = None
    """The held call whose picture may be in the next item."""


class Threads:
    """Threads of a connection, and the thread-related scope of the current line."""

    OF_LINE = frozenset({"event_turn", "begins", "request"})

    def __init__(self, parser: Parser, state: CodexState, before_content: Callable[[bool], None]) -> None:
        """`before_content`: callback that prepares for a message or call, which may be the first line of its turn. Its
        argument: True for a prompt."""
        self._parser = parser
        self._state = state
        self._before_content = before_content
        self.event_turn: str | None = None
        """The turn stated by the line. Scope of the line, like `session`: dialects set it for each line."""
        self.begins = ""
        """Form in which the current object begins a call: `item`, `event`, `model` or `asked`; empty if it begins none.
        One call may begin in several forms. Part of the line's scope."""
        self.request: Line = {}
        """The request of the app-server that the line is, if a person answers it. Part of the line's scope."""

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
