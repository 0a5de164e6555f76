"""Live rows: the page's server-sent events.

    card      HTML of the card of an event at the level the reader prefers, and what else it changes (`data-patch`: see
              `patches` in `show/skins/html.py`); its `id` is the event's `seq`
    state     HTML of cards that change by an event that the filter hides, in the same form
    piece     {key, into?, stream?, role?, text, offset, end}: a partial, text that is being written or printed
    whole     {key}: the next card contains all text of the partials with this key
    sessions  HTML of the list of sessions
    head      HTML of the head of the session, to readers of one; and `asks`, what it asks
    waits     what waits in all sessions: see `asks.py`
    gap       {from, to, reason}: events that are gone
    live      the reader has all events; `at`: the cursor of an idle reader

This module decides how rows change: which card an event belongs to, what that card then shows, which rows are folded.
The browser applies the change if it has the cards. If it does not (it has emptied the section, or is elsewhere in the
timeline), the event's card is a row of its own. A reader that reconnects sends its last `id` and resumes there; the
script drops cards that it already has. The connection's copy of the rows is rebuilt from the journal.

Partials are not journaled. `offset` and `end` count the code points of the whole text, so the script drops what it
already has and marks what it missed. A partial of a message gets its own place on the page, which `whole` removes just
before the card of the message comes. If the message never comes (the turn ends first), the end of the turn removes it.
A reader that reconnects says which of these it still shows (`has`). A partial of a tool's output goes into the `live`
slot of the call (`into`) until the result replaces it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Awaitable, Callable, Sequence

import anyio
import msgspec
from markupsafe import Markup

from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.show.shown import Fragment, key_of
from tooltap.daemon.show.skins.html import Rows, patches, replacement
from tooltap.daemon.show.timeline import Growing
from tooltap.daemon.system.sanitize import sanitize
from tooltap.daemon.web.http.feed import Arrived, EventStream, message
from tooltap.daemon.web.http.requests import cursor_of
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.preferences import Preferences
from tooltap.daemon.web.page.timeline import (
    CALL_KINDS,
    CARDS,
    CARDS_BYTES,
    SEARCH_BYTES,
    Bounds,
    Selection,
    live_test,
    of_call,
    older,
    section_of,
)
from tooltap.protocol.events import WORK, CallKey, EventHead
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import At, Gap, Live, Subscribe

AT_ONCE = 0.001
"""Changes of rows are made in a thread if those before took longer than this, in seconds of processor time."""
BESIDE_PERIOD = 1.0
"""Seconds between two messages with what is beside the rows."""
MOST_ABSENT = 1_000
STATED = frozenset(["tool-call", "tool-update", "permission-request"])
"""Kinds of events whose cards show a state that later events change."""


class LiveRows:
    """The live rows of one reader. `beside`: makes the message with what is beside the rows, the list of sessions or
    the head of the session. `has`: keys of texts of which the reader already shows partials."""

    def __init__(
        self,
        services: Services,
        selection: Selection,
        fragments: Fragments,
        preferences: Preferences,
        beside: Callable[[], Awaitable[bytes]],
        has: Sequence[str],
    ) -> None:
        self._services = services
        self._selection = selection
        self._test = live_test(selection) if selection.is_searched else None
        self._subscribed = _widened(selection)
        self._is_selective = selection.is_searched or self._subscribed != selection.narrowed
        self._cache = fragments
        self._level_of = preferences.level_of
        self._growing = Growing(is_quiet=not selection.wanted.kind)
        self._rows = Rows(is_quiet=not selection.wanted.kind)
        self._is_begun = False
        self._absent: dict[CallKey, None] = {}
        """Calls that the filter hides, or that were not found."""
        self._beside = beside
        self._beside_seq = 0
        """The journal's latest `seq` when the message of `beside` was last sent."""
        self._beside_sent_at = 0.0
        self._unfinished = dict.fromkeys(has)
        """Keys of unfinished texts of which the reader shows partials."""
        self._took = math.inf
        """Processor time in seconds that the latest changes of rows took."""

    def stream(self, after: str) -> EventStream:
        """Return the response. Raises `WebError`."""
        frame = Subscribe(after=cursor_of(after), filter=self._subscribed, partials=not self._selection.is_searched)
        return EventStream(self._services.feeds, frame, self._messages, self._beside_if_new)

    async def _messages(self, arrived: Arrived) -> bytes:
        if arrived.frame is not None:
            return _control(arrived)
        events = {
            seq: StoredEvent.of(seq, event)
            for seq, event in zip(arrived.seqs, arrived.events, strict=True)
            if seq is not None
        }
        stored = [*events.values()]
        wanted = await anyio.to_thread.run_sync(self._wanted, stored) if self._is_selective else stored
        if stored and not self._is_begun:
            await self._begin(stored[0].seq)
        hidden = [events[seq] for seq in sorted(events.keys() - {event.seq for event in wanted})]
        changing = [one for one in hidden if _changes_call(one.head) or one.head.goes_on]
        await self._recall([*wanted, *(one for one in changing if _changes_call(one.head))])
        fragments = await self._cache.of_live(wanted, self._level_of)
        if self._took <= AT_ONCE:
            cards = self._changes(fragments, changing)
        else:
            cards = await anyio.to_thread.run_sync(self._changes, fragments, changing)
        out: list[bytes] = []
        for seq, event in zip(arrived.seqs, arrived.events, strict=True):
            if seq is None:
                out.append(self._partial(event.head))
                continue
            out += self._ended(event.head)
            if seq in cards:
                out.append(message(*cards[seq], seq))
        return b"".join(out)

    async def _begin(self, before: int) -> None:
        """Load the rows before the first live event, as the reader has them."""
        self._is_begun = True
        if self._selection.is_searched:
            return  # to search again would take as long as the page did
        journal = self._services.journal
        bounds = Bounds(CARDS, CARDS_BYTES, SEARCH_BYTES)
        page = await older(journal, self._selection, bounds, before)
        found = await section_of(journal, self._cache, self._selection, page, [], bounds, self._level_of)
        await anyio.to_thread.run_sync(self._growing.begin, *found)

    async def _recall(self, events: list[StoredEvent]) -> None:
        """Load the calls that these events are about and that are not remembered, if the filter lets them through."""
        if (kinds := self._selection.narrowed.kind) is not None and "tool-call" not in kinds:
            return
        calls = {one.head.key for one in events if one.head.kind == "tool-call"}
        for event in events:
            head = event.head
            key = head.key
            if head.call_id is None or key in calls or key in self._absent or self._growing.has(key_of(*key)):
                continue
            calls.add(key)
            found = [one for one in await of_call(self._services.journal, event) if one.seq < event.seq]
            kept = [one for one in found if self._selection.narrowed.matches(one.head)]
            if any(one.head.kind == "tool-call" for one in kept):
                fragments = await self._cache.of_live(kept, self._level_of)
                await anyio.to_thread.run_sync(self._growing.remember, fragments)
            else:
                self._absent[key] = None
                if len(self._absent) > MOST_ABSENT:
                    del self._absent[next(iter(self._absent))]

    def _changes(self, fragments: list[Fragment], changing: list[StoredEvent]) -> dict[int, tuple[bytes, str]]:
        """Return the changes of rows: `seq` of the event -> name and data of a message."""
        begun = time.thread_time()
        found: dict[int, tuple[bytes, str]] = {}
        shown, hidden = {one.seq: one for one in fragments}, {one.seq: one for one in changing}
        for seq in sorted([*shown, *hidden]):
            if seq in shown:
                alone = self._cache.card_of(shown[seq])
                found[seq] = b"card", alone + patches(self._growing.add(shown[seq]), self._rows)
            elif html := self._state(seq, hidden[seq].head):
                found[seq] = b"state", html
        self._took = time.thread_time() - begun
        return found

    def _state(self, seq: int, head: EventHead) -> Markup:
        is_answered = head.kind == "permission-response"
        cards = self._growing.reopen(head.stream, head.turn, seq) if head.goes_on else []
        if _changes_call(head):
            key = key_of(*head.key)
            cards += self._growing.set_state(key, head.call_state, is_end=head.is_end, is_answered=is_answered)
        return Markup().join(replacement(card, self._rows) for card in cards)

    def _wanted(self, events: list[StoredEvent]) -> list[StoredEvent]:
        """Return the events without those that only change what others show."""
        matches = self._selection.narrowed.matches
        return [event for event in events if matches(event.head) and (self._test is None or self._test(event))]

    def _partial(self, head: EventHead) -> bytes:
        if not self._selection.narrowed.matches(head):
            return b""
        if head.kind in ("message", "reasoning"):
            key, text = _text_key(head), head.text
            self._unfinished[key] = None
            role = head.role or "reasoning"
            partial = {"key": key, "role": role, "text": sanitize(text), **_extent(head.offset, text)}
        elif (chunk := head.chunk) is not None:
            into, text = key_of(*head.key), sanitize(chunk.text)
            partial = {"into": into, "stream": chunk.stream, "text": text, **_extent(chunk.offset, chunk.text)}
        else:
            return b""
        return message(b"piece", msgspec.json.encode(partial).decode())

    def _ended(self, head: EventHead) -> list[bytes]:
        """Report the unfinished texts that the event ends: a message ends its own, a turn ends all of its stream."""
        if not self._unfinished:
            return []
        if head.kind == "turn":
            ended = [key for key in self._unfinished if key.startswith(f"{head.stream} ")]
        else:
            key = _text_key(head)
            ended = [key] if key in self._unfinished else []
        for key in ended:
            del self._unfinished[key]
        return [message(b"whole", msgspec.json.encode({"key": key}).decode()) for key in ended]

    async def _beside_if_new(self) -> bytes:
        """Return the message of `beside` if there are new events; at most once per `BESIDE_PERIOD`."""
        latest, now = self._services.journal.latest, anyio.current_time()
        if latest == self._beside_seq or now - self._beside_sent_at < BESIDE_PERIOD:
            return b""
        self._beside_seq, self._beside_sent_at = latest, now
        return await self._beside()


def _text_key(head: EventHead) -> str:
    """Return the key that a message and its partials share."""
    return " ".join(str(one) for one in (head.stream, head.kind, head.agent, head.message_id, head.block))


def _extent(offset: int | None, text: str) -> dict[str, int]:
    """Return the range of a partial in the whole text, in code points."""
    return {"offset": offset or 0, "end": (offset or 0) + len(text)}


def _control(arrived: Arrived) -> bytes:
    match arrived.frame:
        case Live(seq=seq):
            return message(b"live", str(seq), seq)
        case At(seq=seq):
            return message(b"at", str(seq), seq)
        case Gap():
            return message(b"gap", arrived.data.decode().rstrip("\n"))
    return b""


def _widened(selection: Selection) -> Filter:
    """Return the filter to subscribe with: the wanted events, and those that change the states of wanted calls and
    turns."""
    wanted = selection.narrowed
    kinds = wanted.kind or ()
    changing = [*CALL_KINDS] if (wanted.tool and not kinds) or STATED & {*kinds} else []
    changing += sorted(WORK) if "turn" in kinds else []
    if not changing:
        return wanted
    return msgspec.structs.replace(wanted, kind=tuple(dict.fromkeys([*kinds, *changing])), tool=None)


def _changes_call(head: EventHead) -> bool:
    """Whether an event changes what is shown of a call."""
    is_about_call = head.kind != "tool-call" and head.call_id is not None
    return is_about_call and (head.kind == "permission-response" or head.call_state is not None)
