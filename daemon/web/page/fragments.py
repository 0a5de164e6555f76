"""The cache of fragments: stored events, rendered once per level for all readers.

Rendering takes CPU time, so it runs in a thread. The cache is bounded in bytes and drops what was used least recently.
The renderer of a result may need the input of its call. Calls are cached as well; one that is not in the cache is
searched in the journal, not far before the result.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from contextlib import suppress
from typing import Generic, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote
from weakref import WeakValueDictionary

import anyio
from markupsafe import Markup

from tooltap.daemon.journal.interface import CorruptError, Journal, StoredEvent, output_ids
from tooltap.daemon.show.blocks import CallOfResult, Level, RenderContext
from tooltap.daemon.show.shown import Fragment
from tooltap.daemon.show.skins.html import card_html, rendered
from tooltap.daemon.show.timeline import nest
from tooltap.protocol.events import AnyEvent, CallKey, EventHead, ToolCall, ToolUpdate, decode
from tooltap.protocol.filters import Filter

LOOK_BACK = 400
"""Maximum calls and updates of the stream that are searched for the call of a result."""
LOOK_BACK_BYTES = 1_048_576
DECODED_FACTOR = 4
"""Approximate memory of a decoded event, as a multiple of its JSON."""

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


LevelOf: TypeAlias = Callable[[EventHead], Level]


class Cache(Generic[Key, Value]):
    """A thread-safe cache of `max_bytes`; it drops the least recently used values."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._values: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Key) -> tuple[Value] | None:
        """Return the value in a tuple, since it may be None; None if it is not cached."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                return None
            self._values.move_to_end(key)
            return found[:1]

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self.bytes = 0

    def put(self, key: Key, value: Value, size: int) -> None:
        with self._lock:
            _, former = self._values.pop(key, (None, 0))
            self._values[key] = (value, size)
            self.bytes += size - former
            while self.bytes > self._max_bytes:
                _, (_, gone) = self._values.popitem(last=False)
                self.bytes -= gone


class _Request(NamedTuple):
    stored: StoredEvent
    head: EventHead
    level: Level


class Fragments:
    """`max_bytes`: size of the cache; `signed_url`: returns an address with a signature, for browsers to open it."""

    def __init__(self, journal: Journal, max_bytes: int, signed_url: Callable[[str], str]) -> None:
        self._journal = journal
        self._signed_url = signed_url
        self._cached: Cache[tuple[int, Level], Fragment | None] = Cache(max_bytes)
        self._calls: Cache[CallKey, CallOfResult] = Cache(max_bytes // 4)
        self._cards: Cache[tuple[int, str], Markup] = Cache(max_bytes // 16)
        """`seq` and level of a fragment -> its card."""
        self._removed_bodies = 0
        """`removals` of the journal when the cached fragments were rendered."""
        self._rendering: WeakValueDictionary[tuple[int, int], anyio.Lock] = WeakValueDictionary()
        """First and last `seq` of live events that are being rendered."""

    async def of(self, stored: Sequence[StoredEvent], level_of: LevelOf) -> list[Fragment]:
        """Render events; those without anything to show are left out. Raises `JournalError`."""
        requests = await anyio.to_thread.run_sync(_requests, stored, level_of)
        earlier = [
            event for stream, before in self._missing(requests) for event in await self._look_back(stream, before)
        ]
        inferred = await self._inferred(requests)
        removed = await self._removed(stored)
        return await anyio.to_thread.run_sync(self._render, requests, earlier, inferred, removed)

    async def _removed(self, stored: Sequence[StoredEvent]) -> dict[str, str]:
        """Return the ids of the events' output bodies that retention has removed, and why. Forget what was rendered
        before it had removed them."""
        count = self._journal.removals
        if count != self._removed_bodies:
            self._removed_bodies = count
            self._cached.clear()
            self._cards.clear()
        if not count:
            return {}
        ids = await anyio.to_thread.run_sync(lambda: [name for one in stored for name in output_ids(one.body)])
        found = await self._journal.removed_bodies(ids) if ids else {}
        return {name: one.reason for name, one in found.items()}

    async def of_live(self, stored: Sequence[StoredEvent], level_of: LevelOf) -> list[Fragment]:
        """Like `of`, for events that have just been committed and whose heads are decoded: one of the readers that want
        the same renders them, and the others wait for it. Raises `JournalError`."""
        if not stored:
            return []
        place = stored[0].seq, stored[-1].seq
        lock = self._rendering.get(place)
        if lock is None:
            lock = self._rendering[place] = anyio.Lock()
        async with lock:
            requests = _requests(stored, level_of)
            cached = [self._cached.get((one.stored.seq, one.level)) for one in requests]
            if None in cached:
                return await self.of(stored, level_of)
        return [fragment for one in cached if one is not None and (fragment := one[0]) is not None]

    async def in_full(self, seqs: Iterable[int]) -> list[Fragment]:
        """Render events in full; deleted and damaged ones are left out. Raises `JournalError`."""
        return await self.of(await events_at(self._journal, seqs), lambda _: "full")

    def card_of(self, fragment: Fragment) -> Markup:
        """Render the card of a fragment alone, as if no other event were shown."""
        key = fragment.seq, fragment.level
        if (found := self._cards.get(key)) is not None:
            return found[0]
        html = Markup().join(card_html(card) for card in nest([fragment]))
        self._cards.put(key, html, 2 * len(html))
        return html

    def _missing(self, requests: list[_Request]) -> list[tuple[str, int]]:
        """Return the streams with results whose call is neither cached nor among the requested events, and the `seq` of
        the last such result of each."""
        found: dict[str, int] = {}
        calls: set[CallKey] = set()
        for stored, head, level in requests:
            if head.call_id is None:
                continue
            key = head.key
            if head.kind == "tool-call":
                calls.add(key)
            elif (
                head.kind == "tool-result"
                and key not in calls
                and self._cached.get((stored.seq, level)) is None
                and self._calls.get(key) is None
            ):
                found[head.stream] = stored.seq
        return list(found.items())

    async def _look_back(self, stream: str, before: int) -> list[StoredEvent]:
        """Read the calls and updates before a result, oldest first."""
        wanted = Filter(stream=(stream,), kind=("tool-call", "tool-update"))
        events, _ = await self._journal.read_back(before, wanted, limit=LOOK_BACK, max_bytes=LOOK_BACK_BYTES)
        return events[::-1]

    async def _inferred(self, requests: list[_Request]) -> dict[str, bool]:
        """Return the ids of results that may have been replaced by a requested one, and whether each was inferred."""
        last = {
            head.stream: stored.seq
            for stored, head, level in requests
            if head.kind == "tool-result"
            and head.replaces is not None
            and self._cached.get((stored.seq, level)) is None
        }
        found: dict[str, bool] = {}
        for stream, before in last.items():
            wanted = Filter(stream=(stream,), kind=("tool-result",))
            events, _ = await self._journal.read_back(before, wanted, limit=LOOK_BACK, max_bytes=LOOK_BACK_BYTES)
            found |= {head.id: head.synthetic for head in (one.head for one in events)}
        return found

    def _render(
        self,
        requests: list[_Request],
        earlier: list[StoredEvent],
        inferred: dict[str, bool],
        removed: dict[str, str],
    ) -> list[Fragment]:
        unknown = {
            one.head.key for one in requests if one.head.kind == "tool-call" and not self._calls.get(one.head.key)
        }
        for stored in [*earlier, *(one.stored for one in requests if one.head.key in unknown)]:
            self._remember(decode(stored.body), len(stored.body))
        fragments = [self._fragment(one, inferred, removed) for one in requests]
        return [fragment for fragment in fragments if fragment is not None]

    def _fragment(self, request: _Request, inferred: dict[str, bool], removed: dict[str, str]) -> Fragment | None:
        stored, head, level = request
        key = (stored.seq, level)
        if (found := self._cached.get(key)) is not None:
            return found[0]
        event = decode(stored.body)
        event.seq = stored.seq
        self._remember(event, len(stored.body))
        call = None if head.call_id is None else self._calls.get(head.key)
        replaced = None if head.replaces is None else inferred.get(head.replaces)
        context = RenderContext(
            level,
            lambda output_id: None if output_id in removed else self.output_url(output_id),
            event.outputs or {},
            call and call[0],
            replaces_inferred=replaced,
            removed=removed,
        )
        fragment = rendered(event, context)
        size = DECODED_FACTOR * len(stored.body) + (0 if fragment is None else 2 * len(fragment.body))
        self._cached.put(key, fragment, size)
        return fragment

    def output_url(self, output_id: str) -> str:
        """Return the signed address of an output body."""
        return self._signed_url(f"/api/outputs/{quote(output_id, safe='')}")

    def _remember(self, event: AnyEvent, size: int) -> None:
        if isinstance(event, ToolCall):
            call = CallOfResult(event.name, event.input, event.preview or "", event.ts)
        elif isinstance(event, ToolUpdate) and event.input is not None:
            known = self._calls.get((event.stream, event.call_id))
            before = known[0] if known else CallOfResult(event.name, {}, "")
            call = CallOfResult(event.name, event.input, event.preview or before.preview, before.ts)
        else:
            return
        self._calls.put((event.stream, event.call_id), call, DECODED_FACTOR * size)


async def events_at(journal: Journal, seqs: Iterable[int]) -> list[StoredEvent]:
    """Read these events; deleted and damaged ones are left out. Raises `JournalError`."""
    found = []
    for seq in seqs:
        with suppress(CorruptError):
            found.append(await journal.event(seq))
    return [event for event in found if event is not None]


def _requests(stored: Sequence[StoredEvent], level_of: LevelOf) -> list[_Request]:
    heads = [one.head for one in stored]
    return [_Request(one, head, level_of(head)) for one, head in zip(stored, heads, strict=True)]
