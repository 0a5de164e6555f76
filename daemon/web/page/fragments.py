"""Fragments of stored events, rendered once for each level and kept for all clients.

Rendering is Python at work, so it is done in a thread; what has been rendered is kept as long as it fits, the least
recently used goes first. The call of a result, whose input its renderer may want, is remembered for a while, and else
looked for in the journal, not far before the result.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote

import anyio

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.system.logs import get_logger
from tooltap.daemon.web.cards.cards import Fragment, fragment_of
from tooltap.daemon.web.html.look import Call, Level, Look
from tooltap.daemon.web.page.heads import CallKey, Head, head_of
from tooltap.protocol.events import AnyEvent, Notice, ToolCall, ToolUpdate, decode
from tooltap.protocol.filters import Filter

__all__ = ["Fragments", "Kept", "LevelOf", "rendered"]

LOOK_BACK = 400
"""Calls and updates of a stream among which the call of a result is looked for."""
LOOK_BACK_BYTES = 1_048_576
OF_ITS_EVENT = 4
"""Memory that a decoded event takes, in lengths of its JSON; roughly."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
_log = get_logger("web")


LevelOf: TypeAlias = Callable[[Head], Level]


class Kept(Generic[Key, Value]):
    """As many values as fit into `max_bytes`; the least recently used go first. For use in many threads."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> tuple[Value] | None:
        """A tuple, since a value may be None."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[:1]

    def put(self, key: Key, value: Value, size: int) -> None:
        with self._lock:
            _, former = self._values.pop(key, (None, 0))
            self._values[key] = (value, size)
            self.bytes += size - former
            while self.bytes > self._max_bytes:
                _, (_, gone) = self._values.popitem(last=False)
                self.bytes -= gone


class _Asked(NamedTuple):
    stored: StoredEvent
    head: Head
    level: Level


class Fragments:
    """`max_bytes`: of what is kept."""

    def __init__(self, journal: Journal, max_bytes: int) -> None:
        self._journal = journal
        self._kept: Kept[tuple[int, Level], Fragment | None] = Kept(max_bytes)
        self._calls: Kept[CallKey, Call] = Kept(max_bytes // 4)

    async def of(self, stored: Sequence[StoredEvent], level_of: LevelOf) -> list[Fragment]:
        """Of those events that the level has something to show of. Raises `JournalError`."""
        asked = await anyio.to_thread.run_sync(_ask, stored, level_of)
        earlier = [event for stream, before in self._missing(asked) for event in await self._look_back(stream, before)]
        return await anyio.to_thread.run_sync(self._render, asked, earlier)

    def _missing(self, asked: list[_Asked]) -> list[tuple[str, int]]:
        """Streams of results whose call is neither remembered nor among what is asked for, and the last such
        result."""
        found: dict[str, int] = {}
        calls: set[CallKey] = set()
        for stored, head, level in asked:
            if head.call_id is None:
                continue
            key = head.key
            if head.kind == "tool-call":
                calls.add(key)
            elif (
                head.kind == "tool-result"
                and key not in calls
                and self._kept.get((stored.seq, level)) is None
                and self._calls.get(key) is None
            ):
                found[head.stream] = stored.seq
        return list(found.items())

    async def _look_back(self, stream: str, before: int) -> list[StoredEvent]:
        """Oldest first."""
        wanted = Filter(stream=(stream,), kind=("tool-call", "tool-update"))
        events, _ = await self._journal.read_back(before, wanted, limit=LOOK_BACK, max_bytes=LOOK_BACK_BYTES)
        return events[::-1]

    def _render(self, asked: list[_Asked], earlier: list[StoredEvent]) -> list[Fragment]:
        unknown = {one.head.key for one in asked if one.head.kind == "tool-call" and not self._calls.get(one.head.key)}
        for stored in [*earlier, *(one.stored for one in asked if one.head.key in unknown)]:
            self._remember(decode(stored.body), len(stored.body))
        fragments = [self._fragment(*one) for one in asked]
        return [fragment for fragment in fragments if fragment is not None]

    def _fragment(self, stored: StoredEvent, head: Head, level: Level) -> Fragment | None:
        key = (stored.seq, level)
        if (kept := self._kept.get(key)) is not None:
            return kept[0]
        event = decode(stored.body)
        event.seq = stored.seq
        self._remember(event, len(stored.body))
        call = None if head.call_id is None else self._calls.get(head.key)
        fragment = rendered(event, Look(level, _output_url, event.outputs or {}, call and call[0]))
        size = OF_ITS_EVENT * len(stored.body) + (0 if fragment is None else 2 * len(fragment.body))
        self._kept.put(key, fragment, size)
        return fragment

    def _remember(self, event: AnyEvent, size: int) -> None:
        if isinstance(event, ToolCall):
            call = Call(event.name, event.input, event.preview or "")
        elif isinstance(event, ToolUpdate) and event.input is not None:
            known = self._calls.get((event.stream, event.call_id))
            call = Call(event.name, event.input, event.preview or (known[0].preview if known else ""))
        else:
            return
        self._calls.put((event.stream, event.call_id), call, OF_ITS_EVENT * size)


def _ask(stored: Sequence[StoredEvent], level_of: LevelOf) -> list[_Asked]:
    heads = [head_of(one) for one in stored]
    return [_Asked(one, head, level_of(head)) for one, head in zip(stored, heads, strict=True)]


def rendered(event: AnyEvent, look: Look) -> Fragment | None:
    """Whatever an agent wrote, the page is there; an event that a renderer fails at is said to be one."""
    try:
        return fragment_of(event, look)
    except Exception:
        _log.exception("an event cannot be rendered", seq=event.seq)
        envelope: dict[str, Any] = {name: getattr(event, name) for name in _ENVELOPE}
        sorry = Notice(**envelope, level="error", code="not shown", text="This event cannot be shown; see it raw.")
        return fragment_of(sorry, look)


_ENVELOPE = ("v", "id", "stream", "line", "session", "protocol", "provider", "dialect", "seq", "ts")


def _output_url(output_id: str) -> str:
    return f"/api/outputs/{quote(output_id, safe='')}"
