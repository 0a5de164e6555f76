"""State of a parser between two lines: turns, calls, permissions, texts. Dialects derive from `State`.

All of it is bounded: tables evict their oldest entries (Python's dicts keep the order of insertion, so the first key is
the oldest), only short strings are kept, and of a long text only the head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar

import msgspec
import orjson

from tooltap.normalizers.core.items import Context, Item, OutputChunk
from tooltap.normalizers.wire.decode import Documents
from tooltap.protocol import LATEST_MS
from tooltap.protocol.events import OutputRef

SHORT = 4_096
"""Maximum length of a name, title or path that is remembered, in characters."""

K = TypeVar("K")
V = TypeVar("V")


def make_room(table: dict[K, V], most: int) -> None:
    """Evict the oldest entries until one more fits into `most`."""
    while len(table) >= most:
        del table[next(iter(table))]


def keep_newest(table: dict[K, V], most: int) -> None:
    """Evict the oldest entries of a table that holds more than `most`."""
    while len(table) > most:
        del table[next(iter(table))]


def put(table: dict[K, V], key: K, value: V, most: int) -> None:
    """Set an entry, and evict the oldest entries beyond `most`."""
    table[key] = value
    keep_newest(table, most)


def is_short(value: Any) -> TypeGuard[str]:
    """Return whether a value is a string short enough to be remembered."""
    return isinstance(value, str) and len(value) <= SHORT


def learn(known: Any, **stated: Any) -> dict[str, Any]:
    """Set the attributes for which another short string is stated; returns them."""
    new = {key: value for key, value in stated.items() if is_short(value) and value != getattr(known, key)}
    for key, value in new.items():
        setattr(known, key, value)
    return new


class _Sink(Protocol):
    """Receiver of the chunks of a long text."""

    context: Context
    items: list[Item]

    def new_output_id(self) -> str: ...


class TextBuffer(msgspec.Struct, omit_defaults=True):
    """The whole text while it is short, else its head and the id of the output body that has all of it."""

    head: str = ""
    chars: int = 0
    bytes: int = 0
    newlines: int = 0
    ends_in_newline: bool = False
    output_id: str | None = None

    def append(self, text: str, sink: _Sink, mime_type: str) -> None:
        chars = len(text)
        size = chars if text.isascii() else len(text.encode())
        if self.output_id is not None:
            sink.items.append(OutputChunk(self.output_id, self.bytes, text.encode(), mime_type))
        elif self.bytes + size > (limit := sink.context.limits.string_bytes):
            self.output_id = sink.new_output_id()
            whole = self.head.encode() + text.encode()
            sink.items.append(OutputChunk(self.output_id, 0, whole, mime_type))
            self.head = whole[:limit].decode("utf-8", "ignore")
        else:
            self.head += text
        self.chars += chars
        self.bytes += size
        if text:
            if "\n" in text:
                self.newlines += text.count("\n")
            self.ends_in_newline = text[-1] == "\n"

    def ref(self, mime_type: str) -> OutputRef | None:
        """Reference to the output body with the whole text; None if the head is the whole text."""
        if self.output_id is None:
            return None
        lines = self.newlines + (not self.ends_in_newline)
        return OutputRef(output_id=self.output_id, bytes=self.bytes, lines=lines, mime_type=mime_type)

    def outputs(self, pointer: str, mime_type: str = "text/plain") -> dict[str, OutputRef] | None:
        """The `outputs` of an event whose field at this JSON pointer holds the head."""
        ref = self.ref(mime_type)
        return None if ref is None else {pointer: ref}


class MessageHistory(msgspec.Struct, omit_defaults=True):
    """Messages read so far, in order, as CRCs of what identifies each."""

    dropped: int = 0
    """Number of messages before the oldest remembered one."""
    crcs: list[int] = []

    def unread(self, crcs: Sequence[int], most: int) -> tuple[int, bool]:
        """Compare the remembered messages with the current conversation, then remember the latter. Returns (index of
        the first new message, whether messages that were read are missing now). `most`: how many to remember.

        Messages before the oldest remembered one count as unchanged."""
        start = min(self.dropped, len(crcs))
        common = start
        for old, new in zip(self.crcs, crcs[start:], strict=False):
            if old != new:
                break
            common += 1
        is_shorter = common < self.dropped + len(self.crcs)
        self.dropped = max(0, len(crcs) - most)
        self.crcs = list(crcs[self.dropped :])
        return common, is_shorter

    def news(self, crcs: Sequence[int], most: int) -> tuple[list[int], int | None]:
        """Like `unread`, for messages whose CRCs are unique, in a history that may be written anew with messages that
        were read before, as at a compaction. Returns (indices of the new messages, number of messages before the first
        one that is missing now, if any is)."""
        dropped, old = self.dropped, self.crcs
        start, is_shorter = self.unread(crcs, most)
        if not is_shorter:
            return list(range(start, len(crcs))), None
        moved = set(old[max(0, start - dropped) :])
        return [index for index in range(start, len(crcs)) if crcs[index] not in moved], start


MANY_RECORDS = 2_048
"""Maximum number of records of a conversation that are remembered; the oldest are dropped."""


class Conversation(msgspec.Struct, omit_defaults=True):
    """The records of a conversation whose records name their parents, from the oldest remembered one to the latest."""

    records: dict[str, bool] = {}
    """Id -> whether the record is a message."""

    def append(self, record_id: str, parent: str | None, *, is_message: bool) -> list[str]:
        """Append a record after its parent (None: at the beginning). Returns the ids of the messages after the parent,
        which the conversation has no longer. A parent that is not known changes nothing."""
        records, dropped = self.records, []
        if records and parent != next(reversed(records)) and (parent is None or parent in records):
            ids = list(records)
            for one in ids[0 if parent is None else ids.index(parent) + 1 :]:
                if records.pop(one):
                    dropped.append(one)
        put(records, record_id, is_message, MANY_RECORDS)
        return dropped


class Known(msgspec.Struct, omit_defaults=True):
    """Fields of a call that are remembered after it is done."""

    raw_name: str
    name: str
    session: str
    agent: str | None = None
    parent: str | None = None
    turn: str | None = None
    origin: tuple[str, str] | None = None
    """(protocol, provider), where it is not the stream's."""
    wire_id: str | None = None
    """The id on the wire, if it was reused and the id in events therefore differs."""
    source: str = ""
    """Kind of the line that opened the call, for dialects that distinguish them."""
    told: tuple[int, ...] = ()
    """CRCs of the canonical input, without our notes, as first and as last emitted."""
    made_up: bool = False
    """True if only the result was seen, so that the call is synthetic."""

    def shared(self) -> tuple[Any, ...]:
        """The values a call shares with its tombstone, in the order of the fields."""
        return _shared(self)


_shared: Callable[[Known], tuple[Any, ...]] = attrgetter(*Known.__struct_fields__)


# `gc=False`: there are many calls and tombstones, and they hold only strings and JSON, so they are in no cycle.
class OpenCall(Known, kw_only=True, omit_defaults=True, gc=False):
    """An open call."""

    id: str
    status: str
    title: str | None = None
    preview: str | None = None
    digest: int = 0
    """CRC of the canonical input last emitted, notes included."""
    memory: dict[str, Any] = {}
    """The dialect's memory of the call, needed to read later lines about it. Dropped, oldest call first, once the
    memory of all calls exceeds the limit."""
    memory_bytes: int = 0
    place: tuple[str, int | str | None] | None = None
    """Where an answer of the model has it: see `Calls.shown`."""
    ts: int | None = None
    """Time of the last event that belongs to it: its own, or one of the subagent it spawned."""
    wait_ms: int = 0
    """How long it waited for the user."""
    asked: int = 0
    """How many permission requests for it have no answer yet."""
    denied: bool = False
    acknowledged: bool = False
    """Runs in the background: the first result only stated that."""


class Tombstone(Known, kw_only=True, omit_defaults=True, gc=False):
    """Remains of a call that is done; recognises late lines about it."""

    synthetic_result: str | None = None
    """Event id of the synthetic result, while no real one has come."""


def tombstone_of(call: OpenCall, synthetic_result: str | None) -> Tombstone:
    """The tombstone of a call that is done. Naming the fields is three times as fast as `shared`."""
    return Tombstone(
        call.raw_name,
        call.name,
        call.session,
        call.agent,
        call.parent,
        call.turn,
        call.origin,
        call.wire_id,
        call.source,
        call.told,
        call.made_up,
        synthetic_result=synthetic_result,
    )


Unfinished: TypeAlias = Callable[[OpenCall], tuple[Any, dict[str, OutputRef] | None]]
"""Returns the known output of a call that ends without a result: (value, output bodies by JSON pointer)."""

Restore: TypeAlias = Callable[[str, dict[str, Any], OpenCall], dict[str, Any]]
"""Callback that replaces a payload by its stored version: (`input` or `output`, canonical payload, call) -> payload.
May rename the call."""


class CallsState(msgspec.Struct, omit_defaults=True):
    open: dict[str, OpenCall] = {}
    done: dict[str, Tombstone] = {}
    renamed: dict[str, str] = {}
    """`<session>/<id on the wire>` -> id of the newest call, if the wire reused the id. Behind a newline, an agent: its
    newest call, if calls of several agents have the id; behind `^`: the call that spawned it."""
    reused: int = 0
    """Number of reuses of ids."""
    children: dict[str, dict[str, None]] = {}
    """Call id -> ids of the open calls of the subagent it spawned."""
    remembered: dict[str, None] = {}
    """Ids of the open calls that have a memory, oldest first."""
    memory_bytes: int = 0


class OpenTurn(msgspec.Struct, omit_defaults=True):
    id: str
    session: str
    agent: str | None = None
    origin: tuple[str, str] | None = None
    """(protocol, provider), where it is not the stream's."""
    answered: bool = False
    """True if the last item of the turn is a whole message of its agent: the answer, if nothing follows."""
    ts: int | None = None
    """Time of the last event of its work, or of its start."""
    settled: bool = False
    """True after a provisional end, until the turn goes on."""
    failed: str | None = None
    """Reason of a failed request, with which the turn ends unless its client makes the request again."""

    def worked(self, ts: int | None) -> None:
        """Note when its agent worked."""
        if ts is not None and (self.ts is None or ts > self.ts):
            self.ts = ts


class PendingPermission(msgspec.Struct, omit_defaults=True):
    session: str
    call_id: str | None = None
    turn: str | None = None
    agent: str | None = None
    origin: tuple[str, str] | None = None
    allowing: list[str] = []
    """Ids of the options that allow."""
    ts: int | None = None
    """When it was asked."""
    waits: bool = False
    """Its call waits for the answer."""
    event: str = ""
    """Id of the event that asks: ids of requests may be used again."""
    reply_to: dict[str, Any] = {}
    """What the dialect needs to word an answer. Dropped, oldest request first, once all of it together exceeds the
    limit."""


class PermissionsState(msgspec.Struct, omit_defaults=True):
    pending: dict[str, PendingPermission] = {}
    kept: dict[str, int] = {}
    """Id of a pending request that can be answered -> size of its `reply_to` in bytes, oldest first."""
    kept_bytes: int = 0
    """The sum of these sizes."""


class OpenText(msgspec.Struct, omit_defaults=True):
    """A block of text that is being received."""

    role: str
    """user, assistant, system, or `reasoning`."""
    session: str
    buffer: TextBuffer
    agent: str | None = None
    parent: str | None = None
    turn: str | None = None
    ts: int | None = None
    """Time of the first chunk."""
    message_id: str | None = None
    block: int | None = None
    replay: bool = False
    preview: bool = False
    """True if a later line was expected to bring the whole block. If the block is emitted from its chunks instead, the
    event is synthetic."""
    last: int | None = None
    """Time of the last chunk."""
    part: str = "text"
    """Of an answer, which may begin with a thought: `start` (its first characters, which decide), `thought`, `gap` (the
    white space behind it) or `text`."""
    held: str = ""
    """What may be a part of a mark."""
    thought: OpenText | None = None
    """The thought that the answer begins with."""

    @property
    def told(self) -> str:
        """The role of its chunks."""
        return "assistant" if self.part == "thought" else self.role


class TextsState(msgspec.Struct, omit_defaults=True):
    open: dict[str, OpenText] = {}
    """Key (session, agent and the block, if the dialect interleaves blocks) -> the block being received."""


LATE = 60_000
"""How much later than it was written a line of a live stream may be received, in milliseconds."""


class Times(msgspec.Struct, omit_defaults=True):
    """Times of a stream's lines, in milliseconds since the epoch.

    A line was written at the time that it states, or else when it was received. But the time of receipt means nothing
    if a stream is read after it was written, as a stored file is. There, a line that states no time has the latest
    stated one. A stream counts as such until a line states a time after the reading began.
    """

    past: bool = False
    """Whether the lines are read after they were written."""
    stated: int | None = None
    """The latest time that a line states."""
    latest: int | None = None
    """When the last line was written."""
    received: int | None = None
    """When the first line was received that states a time."""

    def note(self, stated: Any, received: int | None, *, always: bool) -> None:
        """Note the time that a line states, and when it was received. `always`: all of the stream's times are
        stated."""
        if type(stated) is not int or not 0 <= stated < LATEST_MS:
            return
        if self.stated is None:
            self.received = received
        if self.stated is None or stated > self.stated:
            self.stated = stated
        self.past = always or self.received is None or self.stated + LATE < self.received
        self.latest = self.stated if self.past else stated


class Fragment(msgspec.Struct, array_like=True):
    """A line that is held back because a record may go on behind it."""

    line: bytes
    t: int | None
    number: int
    """Number of the line in the ids of events."""


class BrokenRecord(msgspec.Struct, omit_defaults=True):
    """A record that ends before its end, and the lines behind it: a raw newline in a string breaks a record into
    several lines. They are held back until the record is whole, or a line shows that it never will be."""

    fragments: list[Fragment] = []
    size: int = 0
    tries: int = 0
    """How often it was tried to decode all of them."""

    def add(self, fragment: Fragment) -> None:
        self.fragments.append(fragment)
        self.size += len(fragment.line) + 1

    def may_go_on_with(self, line: bytes) -> bool:
        """Whether the line is no record of its own, and there is room for it."""
        if self.size + len(line) > BROKEN_BYTES or self.tries >= BROKEN_TRIES or line.startswith(b'{"'):
            return False
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError:
            return True
        return not isinstance(value, dict) and not (
            isinstance(value, list) and any(isinstance(item, dict) for item in value)
        )

    @property
    def text(self) -> bytes:
        return b"\n".join(fragment.line for fragment in self.fragments)


BROKEN_BYTES = 65_536
"""Maximum size of a record that is joined from several lines."""
BROKEN_TRIES = 16


class State(msgspec.Struct, kw_only=True):
    line: int = 0
    times: Times = msgspec.field(default_factory=Times)
    session: str | None = None
    """The provider's own id of the root session, once seen."""
    named: bool = False
    """Events were emitted under the publisher's name for the session, before the provider's id was seen."""
    provider: str | None = None
    """The provider stated by the stream."""
    turns: list[OpenTurn] = []
    """Oldest first; turns may overlap."""
    turn_count: int = 0
    cwd: str | None = None
    """The session's working directory, where the stream states it; previews show paths relative to it."""
    calls: CallsState = msgspec.field(default_factory=CallsState)
    permissions: PermissionsState = msgspec.field(default_factory=PermissionsState)
    texts: TextsState = msgspec.field(default_factory=TextsState)
    documents: Documents = msgspec.field(default_factory=Documents)
    broken: BrokenRecord = msgspec.field(default_factory=BrokenRecord)


class SessionState(State, kw_only=True):
    """State of a dialect whose lines state that a session begins: see `Parser.begin_session`."""

    started: str | None = None
    """The most recently started session."""
