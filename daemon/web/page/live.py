"""Live cards: the page's server-sent events.

    card      HTML of one card, at the level the reader prefers; its `id` is the event's `seq`
    state     {into, state, end, answered}: what an event that the filter hides makes of its call: the new state, null
              if it is as before; `end`: it is its result; `answered`: its request does not wait any more
    piece     {key, into?, stream?, role?, text, offset, end}: a partial, text that is being written or printed
    whole     {key}: the next card contains all text of the partials with this key
    sessions  HTML of the list of sessions
    head      HTML of the head of the session, to readers of one
    gap       {from, to, reason}: events that are gone
    live      the reader has all events; `at`: the cursor of an idle reader

A card is sent as soon as its event is committed and names the card and slot into which it belongs (`data-into`,
`data-for`). The server does not know which cards a browser holds: the script nests the card, or leaves it on its own
(`static/cards.js`, the same rules as `nesting.py`). A reader that reconnects sends its last `id` and resumes there; the
script drops cards that it already has. So no state of a reader survives its connection.

Partials are not journaled. `offset` and `end` count the code points of the whole text, so the script drops what it has
and marks what it missed. A partial of a message gets its own place on the page, which `whole` removes just before the
card of the message comes. If the message never comes (the turn ends first), the end of the turn removes it. A reader
that reconnects says which of these it still shows (`has`). A partial of a tool's output goes into the `live` slot of
the call (`into`) until the result replaces it.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

import anyio
import msgspec

from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.show.shown import key_of
from tooltap.daemon.show.skins.html import card_html
from tooltap.daemon.show.timeline import nest
from tooltap.daemon.system.sanitize import sanitize
from tooltap.daemon.web.http.feed import Arrived
from tooltap.daemon.web.http.query import cursor_of
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.http.sse import EventStream, message
from tooltap.daemon.web.page.calls import CALL_KINDS
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.preferences import Preferences
from tooltap.daemon.web.page.session_head import SessionHead
from tooltap.daemon.web.page.session_list import SessionList
from tooltap.daemon.web.page.timeline import Selection, live_test
from tooltap.daemon.web.page.turns import numbered, turn_numbers
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import At, Gap, Live, Subscribe
from tooltap.protocol.heads import EventHead

__all__ = ["LiveCards"]

SESSIONS_PERIOD = 1.0
"""Seconds between two lists of sessions."""
STATED = frozenset(["tool-call", "tool-update", "permission-request"])
"""Kinds of events whose cards show a state that later events change."""


class LiveCards:
    """The live cards of one reader. `sessions`: None for a reader of one session, who gets its head. `has`: keys of the
    texts of which it has partials already."""

    def __init__(
        self,
        services: Services,
        selection: Selection,
        fragments: Fragments,
        preferences: Preferences,
        sessions: SessionList | None,
        has: Sequence[str],
    ) -> None:
        self._services = services
        self._selection = selection
        self._test = live_test(selection) if selection.is_searched else None
        self._subscribed = _widened(selection)
        self._is_selective = selection.is_searched or self._subscribed != selection.narrowed
        self._fragments = fragments
        self._preferences = preferences
        self._sessions = sessions
        self._sessions_seq = 0
        """The journal's latest event when the list of sessions was last sent."""
        self._sessions_sent_at = 0.0
        self._unfinished = dict.fromkeys(has)
        """Keys of the texts that the reader has partials of."""

    def stream(self, after: str) -> EventStream:
        """Return the response. Raises `WebError`."""
        frame = Subscribe(after=cursor_of(after), filter=self._subscribed, partials=not self._selection.is_searched)
        return EventStream(self._services, frame, self._messages, self._overview)

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
        cards = await self._cards(wanted)
        states = _states(events.keys() - {event.seq for event in wanted}, stored)
        out: list[bytes] = []
        for seq, event in zip(arrived.seqs, arrived.events, strict=True):
            if seq is None:
                out.append(self._partial(event.head))
                continue
            out += self._ended(event.head)
            if (card := cards.get(seq)) is not None:
                out.append(message(b"card", card, seq))
            elif (state := states.get(seq)) is not None:
                out.append(message(b"state", state, seq))
        return b"".join(out)

    def _wanted(self, events: list[StoredEvent]) -> list[StoredEvent]:
        """Leave out the events that only change the states of calls."""
        matches = self._selection.narrowed.matches
        return [event for event in events if matches(event.head) and (self._test is None or self._test(event))]

    async def _cards(self, events: list[StoredEvent]) -> dict[int, str]:
        found = await self._fragments.of(events, self._preferences.level_of)
        fragments = numbered(found, await turn_numbers(self._services.journal, events))

        def rendered() -> dict[int, str]:
            return {one.seq: card_html(card) for one in fragments for card in nest([one])}

        return await anyio.to_thread.run_sync(rendered)

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
        """Report which unfinished texts the event ends: a message its own, a turn all of its stream."""
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

    async def _overview(self) -> bytes:
        """Return the list of sessions, or the head of the one, if there are new events; at most once per
        `SESSIONS_PERIOD`."""
        latest, now = self._services.journal.latest, anyio.current_time()
        if latest == self._sessions_seq or now - self._sessions_sent_at < SESSIONS_PERIOD:
            return b""
        self._sessions_seq, self._sessions_sent_at = latest, now
        if self._sessions is not None:
            return message(b"sessions", (await self._sessions.part()).html)
        names = self._selection.wanted.session or ()
        head = await SessionHead.of(self._services.journal, self._fragments, names[0]) if len(names) == 1 else None
        return b"" if head is None else message(b"head", head.html)


def _text_key(head: EventHead) -> str:
    """Return the key of the text that a message, or a partial of it, is of."""
    return " ".join(str(one) for one in (head.stream, head.kind, head.agent, head.message_id, head.block))


def _extent(offset: int | None, text: str) -> dict[str, int]:
    """Return where the text of a partial begins and ends."""
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
    """Return what to subscribe to: the wanted events, and those that change the states of wanted calls."""
    wanted = selection.narrowed
    kinds = wanted.kind
    if not (kinds or wanted.tool) or (kinds and not STATED & {*kinds}):
        return wanted
    all_kinds = tuple(dict.fromkeys([*(kinds or ()), *CALL_KINDS]))
    return msgspec.structs.replace(wanted, kind=all_kinds, tool=None)


def _states(hidden: Set[int], events: list[StoredEvent]) -> dict[int, str]:
    """Return messages with the states of calls that changed by events the filter hides."""
    found: dict[int, str] = {}
    for event in events:
        if event.seq not in hidden:
            continue
        head = event.head
        answered = head.kind == "permission-response"
        if head.kind != "tool-call" and head.call_id is not None and (answered or head.call_state is not None):
            state = {"into": key_of(*head.key), "state": head.call_state, "end": head.is_end, "answered": answered}
            found[event.seq] = msgspec.json.encode(state).decode()
    return found
