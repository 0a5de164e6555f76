"""What comes, as the page is told of it: server-sent events with cards of HTML, each with its `seq` as id.

    card      HTML of one card, at the level the reader prefers; it says itself into which card it belongs
    piece     {key, into?, stream?, role?, text, offset}: a preview of what is being written or printed
    whole     {key}: the card that follows tells all that the pieces with this key said
    sessions  HTML of the list of sessions
    gap       {from, to, reason}: events that were not kept
    live      the reader has seen everything there is; at: how far an idle one is
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import anyio
import msgspec
from starlette.types import Receive, Scope, Send

from tooltap.daemon.harmless import harmless
from tooltap.daemon.journal import StoredEvent
from tooltap.daemon.web.cards import key_of
from tooltap.daemon.web.fragments import Fragments
from tooltap.daemon.web.nesting import html_of, nest
from tooltap.daemon.web.preferences import Preferences
from tooltap.daemon.web.services import Services
from tooltap.daemon.web.session_list import SessionList
from tooltap.daemon.web.sse import COMMENT, HEADERS, RECONNECT_MS, cursor_of, until_left
from tooltap.daemon.web.timeline import Asked, live_test
from tooltap.protocol.events import Message, Reasoning, ToolUpdate, decode
from tooltap.protocol.frames import At, Gap, Live, Subscribe, decode_daemon_frame

__all__ = ["LiveCards"]

SESSIONS_PERIOD = 1.0
"""Seconds: the list of sessions is sent again this often, if something has happened."""


class _Piece(msgspec.Struct, rename="camel"):
    """Whose text it is."""

    kind: str
    stream: str
    agent: str | None = None
    message_id: str | None = None
    block: int | None = None

    @property
    def key(self) -> str:
        return " ".join(str(one) for one in (self.stream, self.kind, self.agent, self.message_id, self.block))


_piece_decoder = msgspec.json.Decoder(_Piece)


class LiveCards:
    """An answer that goes on until either side ends it."""

    def __init__(
        self,
        services: Services,
        asked: Asked,
        after: str,
        fragments: Fragments,
        preferences: Preferences,
        sessions: SessionList,
    ) -> None:
        self._services = services
        self._asked = asked
        self._after = after
        self._fragments = fragments
        self._preferences = preferences
        self._sessions = sessions
        self._told, self._told_at = 0, 0.0
        """Up to which event, and when, the list of sessions was sent."""
        self._pieces: dict[str, str] = {}
        """Key of what the reader has pieces of -> its stream."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Raises `WebError` and `JournalError` before anything is sent."""
        asked, heartbeat = self._asked, self._services.config.web.heartbeat
        frame = Subscribe(after=cursor_of(self._after), filter=asked.narrowed, partials=not asked.is_searched)
        async with self._services.feeds.open(frame) as feed, anyio.create_task_group() as tasks:
            tasks.start_soon(until_left, receive, tasks.cancel_scope)
            await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
            await _send(send, b"retry: %d\n\n" % RECONNECT_MS)
            sent_at = time.monotonic()
            while True:
                chunk = None
                with anyio.move_on_after(min(heartbeat, SESSIONS_PERIOD)):
                    chunk = await feed.take()
                if chunk == b"":
                    break
                out = b"" if chunk is None else await self._messages(chunk.splitlines())
                out += await self._session_list()
                if not out and time.monotonic() - sent_at >= heartbeat:
                    out = COMMENT
                if out:
                    await _send(send, out)
                    sent_at = time.monotonic()
            await _send(send, b"", more=False)
            tasks.cancel_scope.cancel()

    async def _messages(self, lines: Sequence[bytes]) -> bytes:
        events = [_stored(line) for line in lines if line.startswith(b'{"seq":')]
        cards = await self._cards(events)
        out: list[bytes] = []
        for line in lines:
            if line.startswith(b'{"op":'):
                out.append(_control(line))
            elif not line.startswith(b'{"seq":'):
                out.append(self._piece(line))
            else:
                seq = _seq(line)
                out += self._whole(line)
                if seq in cards:
                    out.append(_message(b"card", cards[seq], seq))
        return b"".join(out)

    async def _cards(self, events: list[StoredEvent]) -> dict[int, str]:
        test = live_test(self._asked)
        wanted = [event for event in events if test(event)] if self._asked.is_searched else events
        fragments = await self._fragments.of(wanted, self._preferences.level_of)

        def rendered() -> dict[int, str]:
            return {one.seq: html_of(card) for one in fragments for card in nest([one])}

        return await anyio.to_thread.run_sync(rendered)

    def _piece(self, line: bytes) -> bytes:
        event = decode(line)
        match event:
            case Message(text=text) | Reasoning(text=text):
                key = _piece_decoder.decode(line).key
                self._pieces[key] = event.stream
                role = event.role if isinstance(event, Message) else "reasoning"
                piece = {"key": key, "role": role, "text": harmless(text), "offset": event.offset or 0}
            case ToolUpdate(chunk=chunk) if chunk is not None:
                into = key_of(event.stream, event.call_id)
                text = harmless(chunk.text)
                piece = {"into": into, "stream": chunk.stream, "text": text, "offset": chunk.offset}
            case _:
                return b""
        return _message(b"piece", msgspec.json.encode(piece).decode())

    def _whole(self, line: bytes) -> list[bytes]:
        """A message ends what was shown of it before, the end of a turn whatever its stream has left."""
        if not self._pieces:
            return []
        event = _piece_decoder.decode(line)
        if event.kind == "turn":
            ended = [key for key, stream in self._pieces.items() if stream == event.stream]
        else:
            ended = [event.key] if event.key in self._pieces else []
        for key in ended:
            del self._pieces[key]
        return [_message(b"whole", msgspec.json.encode({"key": key}).decode()) for key in ended]

    async def _session_list(self) -> bytes:
        latest, now = self._services.journal.latest, time.monotonic()
        if latest == self._told or now - self._told_at < SESSIONS_PERIOD:
            return b""
        self._told, self._told_at = latest, now
        return _message(b"sessions", (await self._sessions.part()).html)


def _stored(line: bytes) -> StoredEvent:
    return StoredEvent(_seq(line), line)


def _seq(line: bytes) -> int:
    return int(line[7 : line.index(b",")])


def _control(line: bytes) -> bytes:
    frame = decode_daemon_frame(line)
    match frame:
        case Live(seq=seq):
            return _message(b"live", str(seq), seq)
        case At(seq=seq):
            return _message(b"at", str(seq), seq)
        case Gap():
            return _message(b"gap", line.decode())
    return b""


def _message(name: bytes, data: str, seq: int | None = None) -> bytes:
    cursor = b"" if seq is None else b"id: %d\n" % seq
    lines = b"".join(b"data: %b\n" % line for line in data.replace("\r", "&#13;").encode().split(b"\n"))
    return b"event: %b\n%b%b\n" % (name, cursor, lines)


async def _send(send: Send, body: bytes, *, more: bool = True) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})
