"""Which stream has reported a request first (`sessions/repetitions.py`), in the second JetStream stream.

Daemons commit at once, so a request is claimed before the commit that reports it: the server stores the first message
for its key, and refuses others. The claim names the event. A daemon that is killed between claim and commit finds its
claim when the stream is continued, because ids of events do not depend on the daemon. A claim holds as long as its
stream has events.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

import msgspec

from tooltap.daemon.journal.nats.connection import Connection, FencedError
from tooltap.daemon.journal.nats.events import Messages
from tooltap.daemon.journal.nats.message import events_of
from tooltap.daemon.journal.nats.state import State, read_event
from tooltap.daemon.sessions.repetitions import Compared, Origin, compare, keys_of
from tooltap.normalizers.core.items import OutputChunk, Produced

CLAIMS_IN_MEMORY = 20_000
AT_ONCE = 64
"""Most claims that wait for the server's answer."""

_decoder = msgspec.json.Decoder(Origin)


class Requests:
    """The claims of all daemons. Calls raise `AwayError` and `JournalError`."""

    def __init__(self, connection: Connection, messages: Messages, state: State) -> None:
        self._connection = connection
        self._messages = messages
        self._state = state
        self._known: OrderedDict[int, Origin] = OrderedDict()
        """Claims that this daemon has made or seen, the latest last."""

    def forget(self) -> None:
        """Drop the claims in memory: streams were deleted, or the journal was replaced."""
        self._known.clear()

    async def restore(self, stream: str) -> None:
        """Claim again what a stream's messages report: the claims were lost."""
        last = await self._messages.last(stream)
        if last is None:
            return
        async for commit in self._messages.commits(stream, 1, last.seq):
            stored = [
                one for index, part in enumerate(commit.parts) for one in events_of(commit.first + index, part.events)
            ]
            events = [Produced.of(event, one.body) for one in stored if (event := read_event(one)) is not None]
            await self.compared(stream, events)

    async def compared(self, stream: str, outputs: Sequence[Produced | OutputChunk]) -> Compared:
        """Claim what a stream reports, and compare it with what other streams have claimed."""
        keys = keys_of(outputs)
        if not keys:
            return Compared(outputs, {}, {}, {})
        first: dict[int, Produced] = {}
        for output in outputs:
            key = keys.get(output.id) if isinstance(output, Produced) else None
            if isinstance(output, Produced) and key is not None and (key not in first or first[key].replay):
                first[key] = output
        known: dict[int, Origin] = {}
        wanted = list(first.items())
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            origins = await asyncio.gather(*(self._origin(stream, key, event) for key, event in some))
            known |= {key: origin for (key, _), origin in zip(some, origins, strict=True)}
        return compare(stream, outputs, keys, known)

    async def _origin(self, stream: str, key: int, event: Produced) -> Origin:
        """Return the first report of a key, which is this event if nobody has claimed it. The claim of a copy is taken
        over, and returned."""
        if (known := self._known.get(key)) is not None and (event.replay or not known.history):
            return known
        subject = self._state.request(key)
        own = Origin(stream, event.session, event.id, event.replay)
        expected, copied = 0, None
        while True:
            try:
                await self._connection.publish(subject, [msgspec.json.encode(own)], expected=expected)
            except FencedError:
                found = await self._connection.last(self._state.stream, subject)
                if found is None:
                    expected = 0
                    continue
                other = _decoder.decode(found.data)
                if other.history and not event.replay:
                    expected, copied = found.seq, other
                elif other.stream == stream or not await self._is_void(other.stream):
                    return self._remember(key, other)
                else:
                    expected = found.seq
            else:
                self._remember(key, own)
                return own if copied is None else copied

    async def _is_void(self, stream: str) -> bool:
        """Return whether a stream has no events any more."""
        stored = await self._state.get(stream)
        if stored is not None:
            return stored.row.expired
        return await self._messages.last(stream) is None

    def _remember(self, key: int, origin: Origin) -> Origin:
        self._known[key] = origin
        if len(self._known) > CLAIMS_IN_MEMORY:
            self._known.popitem(last=False)
        return origin
