"""What comes, as the page is told of it: server-sent events with cards of HTML, each with its `seq` as id.

card      HTML of one card, at the level the reader prefers; it says itself into which card it belongs
piece     {key, into?, stream?, role?, text, offset, end}: a preview of what is being written or printed
whole     {key}: the card that follows tells all that the pieces with this key said
sessions  HTML of the list of sessions
gap       {from, to, reason}: events that were not kept
live      the reader has seen everything there is; at: how far an idle one is
"""

from __future__ import annotations

import anyio
import msgspec

from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.system.harmless import harmless
from tooltap.daemon.web.cards.cards import key_of
from tooltap.daemon.web.http.query import cursor_of
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.http.sse import EventStream
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.nesting import html_of, nest
from tooltap.daemon.web.page.preferences import Preferences
from tooltap.daemon.web.page.session_list import SessionList
from tooltap.daemon.web.page.timeline import Asked, live_test
from tooltap.protocol.events import Message, Reasoning, ToolUpdate, decode
from tooltap.protocol.frames import At, Gap, Live, Subscribe, decode_daemon_frame

__all__ = ["LiveCards"]

SESSIONS_PERIOD = 1.0
"""Seconds: the list of sessions is sent again this often, if something has happened."""
EVENT = b'{"seq":'
CONTROL = b'{"op":'


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
    """Of one reader."""

    def __init__(
        self,
        services: Services,
        asked: Asked,
        fragments: Fragments,
        preferences: Preferences,
        sessions: SessionList,
    ) -> None:
        self._services = services
        self._asked = asked
        self._test = live_test(asked) if asked.is_searched else None
        self._fragments = fragments
        self._preferences = preferences
        self._sessions = sessions
        self._told = 0
        """Up to which event the list of sessions was sent."""
        self._told_at = 0.0
        self._pieces: dict[str, str] = {}
        """Key of what the reader has pieces of -> its stream."""

    def stream(self, after: str) -> EventStream:
        """Raises `WebError`."""
        asked = self._asked
        frame = Subscribe(after=cursor_of(after), filter=asked.narrowed, partials=not asked.is_searched)
        return EventStream(self._services, frame, self._messages, self._session_list)

    async def _messages(self, chunk: bytes) -> bytes:
        lines = chunk.splitlines()
        cards = await self._cards([_stored(line) for line in lines if line.startswith(EVENT)])
        out: list[bytes] = []
        for line in lines:
            if line.startswith(CONTROL):
                out.append(_control(line))
            elif not line.startswith(EVENT):
                out.append(self._piece(line))
            else:
                out += self._whole(line)
                if (card := cards.get(seq := _seq(line))) is not None:
                    out.append(_message(b"card", card, seq))
        return b"".join(out)

    async def _cards(self, events: list[StoredEvent]) -> dict[int, str]:
        if self._test is not None:
            events = await anyio.to_thread.run_sync(list, filter(self._test, events))
        fragments = await self._fragments.of(events, self._preferences.level_of)

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
                piece = {"key": key, "role": role, "text": harmless(text), **_extent(event.offset, text)}
            case ToolUpdate(chunk=chunk) if chunk is not None:
                into = key_of(event.stream, event.call_id)
                piece = {
                    "into": into,
                    "stream": chunk.stream,
                    "text": harmless(chunk.text),
                    **_extent(chunk.offset, chunk.text),
                }
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
        """Not for each event: many may come in a second."""
        latest, now = self._services.journal.latest, anyio.current_time()
        if latest == self._told or now - self._told_at < SESSIONS_PERIOD:
            return b""
        self._told, self._told_at = latest, now
        return _message(b"sessions", (await self._sessions.part()).html)


def _stored(line: bytes) -> StoredEvent:
    return StoredEvent(_seq(line), line)


def _extent(offset: int | None, text: str) -> dict[str, int]:
    """Of a piece as it was sent."""
    return {"offset": offset or 0, "end": (offset or 0) + len(text)}


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
