"""Events as pages of JSON: forwards from a cursor, like a subscription, or backwards from one."""

from __future__ import annotations

from typing import Literal

import msgspec

from tooltap.daemon.show.skins.display import display_body
from tooltap.daemon.web.http.errors import WebError, status_of
from tooltap.daemon.web.http.services import Services
from tooltap.protocol.events import with_seq
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import ErrorFrame, Form, Gap, Live, Subscribe, decode_daemon_frame

PAGE_EVENTS = 1_000
"""Events in one response, at most and by default."""
PAGE_BYTES = 1_048_576
"""Bytes of events in one response, which has at least one event, however long."""


class _Page:
    """The events collected so far, within the limits."""

    def __init__(self, limit: int, max_bytes: int) -> None:
        self.lines: list[bytes] = []
        self.gap: Gap | None = None
        self._limit = limit
        self._room = max_bytes

    @property
    def full(self) -> bool:
        return len(self.lines) >= self._limit or self._room <= 0

    @property
    def left(self) -> int:
        return self._limit - len(self.lines)

    def add(self, line: bytes) -> None:
        self.lines.append(line)
        self._room -= len(line)

    def add_gap(self, first: int, last: int, reason: Literal["retention", "reset", "corrupt"]) -> None:
        if self.gap is None:
            self.gap = Gap(from_=first, to=last, reason=reason)
        else:
            self.gap.from_, self.gap.to = min(first, self.gap.from_), max(last, self.gap.to)

    def encode(self, after: int, *, more: bool, journal: str) -> bytes:
        encode = msgspec.json.encode
        gap = b"" if self.gap is None else b'"gap":%b,' % encode(_without_op(self.gap))
        about = b'"next":%d,"more":%b,"journal":%b' % (after, encode(more), encode(journal))
        return b'{"events":[%b],%b%b}' % (b",".join(self.lines), gap, about)


async def page_after(services: Services, frame: Subscribe, limit: int | None) -> bytes:
    """Return the events after `frame.after`, oldest first. Raises `WebError` and `JournalError`."""
    page = _new_page(services, limit)
    after = 0
    async with services.feeds.open(frame) as feed:
        while not page.full:
            chunk = (await feed.take()).data
            if not chunk:
                raise WebError(503, "stopping", "the daemon is stopping")
            for line in chunk.splitlines():
                if not line.startswith(b'{"op":'):
                    page.add(line)
                    after = int(line[7 : line.index(b",")])
                    if page.full:
                        break
                    continue
                match decode_daemon_frame(line):
                    case Live(seq=seq):
                        return page.encode(seq, more=False, journal=services.journal.id)
                    case Gap() if page.lines:  # the next page begins with it
                        return page.encode(after, more=True, journal=services.journal.id)
                    case Gap() as gap:
                        page.add_gap(gap.from_, gap.to, gap.reason)
                    case ErrorFrame(code=code, message=message):
                        raise WebError(status_of(code), code, message)
    return page.encode(after, more=True, journal=services.journal.id)


async def page_before(services: Services, before: int, wanted: Filter, form: Form, limit: int | None) -> bytes:
    """Return the events before a `seq`, newest first. Raises `JournalError`."""
    page = _new_page(services, limit)
    journal = services.journal
    while True:
        end = before - 1
        found, before = await journal.read_back(before, wanted, limit=page.left)
        for first, last in journal.corrupt.within(before, min(end, journal.latest)):
            page.add_gap(first, last, "corrupt")
        for stored in found:
            body = display_body(stored.body) if form == "display" else stored.body
            if body is not None:
                page.add(with_seq(stored.seq, body))
                if page.full:
                    return page.encode(stored.seq, more=stored.seq > journal.oldest, journal=journal.id)
        if before <= journal.oldest:
            return page.encode(before, more=False, journal=journal.id)


def _new_page(services: Services, limit: int | None) -> _Page:
    return _Page(min(limit or PAGE_EVENTS, PAGE_EVENTS), PAGE_BYTES)


def _without_op(gap: Gap) -> dict[str, object]:
    return {"from": gap.from_, "to": gap.to, "reason": gap.reason}
