"""The live board of one reader: server-sent events, at most one a second for each column.

    column   {id, html}: a column that the browser does not have in this version
    columns  {order, summary}: the ids of all columns in their order, and how many agents there are, in words
    output   {call, text}: the last lines that a running call has printed

What a call prints while it runs is not journaled, so its lines are known only from when the reader came.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import anyio
import msgspec

from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.show.ansi import final_screen
from tooltap.daemon.show.shown import key_of
from tooltap.daemon.system.sanitize import sanitize, visible
from tooltap.daemon.web.http.feed import Arrived
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.http.sse import EventStream
from tooltap.daemon.web.page.board.columns import Board, Columns
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import Subscribe

__all__ = ["LiveBoard"]

PERIOD = 1.0
"""Seconds between two versions of a column."""
MOST_CALLS = 64
"""Running calls whose output is remembered."""
TAIL = 4_096
"""Code points of a call's output that are remembered."""
LINES = 5
LINE = 200
"""Code points of a line that are shown."""


class Tail:
    """The end of what a call has printed."""

    def __init__(self) -> None:
        self._text = ""
        self._ends: dict[str, int] = {}
        """Stream -> how much of it has come, in code points."""

    def add(self, stream: str, text: str, offset: int) -> None:
        end = self._ends.get(stream, 0)
        self._ends[stream] = max(end, offset + len(text))
        self._text = (self._text + text[max(end - offset, 0) :])[-TAIL:]

    def lines(self) -> str:
        """Return the last lines as a terminal shows them."""
        shown = sanitize(final_screen(self._text)).rstrip().split("\n")[-LINES:]
        return "\n".join(line if len(line) <= LINE else f"{line[: LINE - 1]}…" for line in shown)


class LiveBoard:
    """`has`: the versions of the columns that the browser shows."""

    def __init__(self, services: Services, board: Board, has: Sequence[str]) -> None:
        self._services = services
        self._board = board
        self._has = has
        self._versions: dict[str, str] | None = None
        """Id of a column -> the version that the browser has; None before the first look."""
        self._order: list[str] | None = None
        self._summary = ""
        self._tails: OrderedDict[str, Tail] = OrderedDict()
        self._changed: set[str] = set()
        """Calls that have printed more than the browser has."""
        self._looked_at = -PERIOD

    def stream(self) -> EventStream:
        """Return the response. Raises `WebError`."""
        frame = Subscribe(after="now", filter=Filter(kind=("tool-update",)), partials=True)
        return EventStream(self._services, frame, self._note, self._news)

    async def _note(self, arrived: Arrived) -> bytes:
        """Remember what calls print. Everything else the board reads from the journal."""
        partials = [event for event, seq in zip(arrived.events, arrived.seqs, strict=True) if seq is None]
        if partials:
            await anyio.to_thread.run_sync(self._remember, partials)
        return b""

    def _remember(self, partials: list[Produced | StoredEvent]) -> None:
        for head in (one.head for one in partials):
            if (chunk := head.chunk) is not None:
                key = key_of(*head.key)
                tail = self._tails.setdefault(key, Tail())
                self._tails.move_to_end(key)
                tail.add(chunk.stream, chunk.text, chunk.offset)
                self._changed.add(key)
        while len(self._tails) > MOST_CALLS:
            self._changed.discard(self._tails.popitem(last=False)[0])

    async def _news(self) -> bytes:
        now = anyio.current_time()
        if now - self._looked_at < PERIOD:
            return b""
        self._looked_at = now
        columns = await self._board.columns()
        return b"".join(self._of_columns(columns)) + await anyio.to_thread.run_sync(self._of_outputs, columns)

    def _of_columns(self, columns: Columns) -> list[bytes]:
        if self._versions is None:
            self._versions = {one.id: one.version for one in columns.columns if one.version in self._has}
        fresh = [one for one in columns.columns if self._versions.get(one.id) != one.version]
        self._versions = {one.id: one.version for one in columns.columns}
        out = [_message(b"column", {"id": one.id, "html": str(one.html)}) for one in fresh]
        order = [one.id for one in columns.columns]
        if (order, columns.summary) != (self._order, self._summary):
            self._order, self._summary = order, columns.summary
            out.append(_message(b"columns", {"order": order, "summary": str(columns.summary)}))
        return out

    def _of_outputs(self, columns: Columns) -> bytes:
        shown = self._changed & {one.call for one in columns.columns if one.call is not None}
        self._changed -= shown
        return b"".join(
            _message(b"output", {"call": visible(key), "text": self._tails[key].lines()}) for key in sorted(shown)
        )


def _message(name: bytes, value: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (name, msgspec.json.encode(value))
