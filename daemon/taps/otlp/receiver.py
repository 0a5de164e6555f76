"""The receiver of log records: each becomes a line of the stream of its session, acknowledged when it is durable.

An exporter sends a batch again if it gets no answer, or one that says so. A record that is stored already is then known
by its id (`normalizers/dialects/otlp`), and counts once. Streams have no publisher between two batches: they are
suspended after each, and end like those whose publisher does not come back.

If session files are followed, the first batch of a session that nothing has reported yet waits a while for its file: an
agent writes that before it sends anything, but it may be read later. Of a file that comes even later, see
`daemon/sessions/joining.py`.

Records that name no session belong to nothing that agents do (Codex sends some of its own log), and are counted and
left out. Of spans, those that say what no record does (`records.py`) become lines as well; nothing is read of metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import anyio
from anyio.to_thread import run_sync

from tooltap.daemon.ingest.streams import Streams
from tooltap.daemon.system.clock import Clock
from tooltap.daemon.taps.otlp.protobuf import read_logs, read_spans
from tooltap.daemon.taps.otlp.records import BodyError, LogRecord, log_records, read_json, spans
from tooltap.normalizers.wire.framing import Splitter
from tooltap.normalizers.wire.protobuf import ProtobufError
from tooltap.protocol.frames import DaemonFrame, ErrorFrame, Ingest, Suspended

__all__ = ["BodyError", "BusyError", "NotStoredError", "Receiver", "Signal"]

DIALECT = "otlp"
WAITING = 8
"""Most batches that wait for their turn, or for files."""

Signal: TypeAlias = Literal["logs", "traces", "metrics"]


class BusyError(Exception):
    """Too many batches wait already; the message is a sentence."""


class NotStoredError(Exception):
    """A batch is not durable, at least in part; the message is a sentence."""


class Receiver:
    """Takes in batches, one after the other. `line_bytes`: longest line that is read whole; `patience`: seconds for
    which the first batch of a session waits for the session's file."""

    def __init__(self, streams: Streams, clock: Clock, line_bytes: int, patience: float) -> None:
        self._streams = streams
        self._patience = patience
        self._clock = clock
        self._line_bytes = line_bytes
        self._turn = anyio.Lock()
        self._waiting = 0
        self._requests: Counter[Signal] = Counter()
        self._records = self._sessionless = 0

    def statistics(self) -> dict[str, Any]:
        return {
            "requests": dict(self._requests),
            "waiting": self._waiting,
            "records": self._records,
            "withoutSession": self._sessionless,
        }

    def pass_over(self, signal: Signal) -> None:
        """Count a request of which nothing is read."""
        self._requests[signal] += 1

    async def take_in(self, signal: Signal, body: bytes, *, is_json: bool) -> None:
        """Store the log records or the spans of a request; returns when they are durable. Raises `BodyError`,
        `BusyError`, `NotStoredError`, `FrameError` and `JournalError`."""
        if self._waiting >= WAITING:
            raise BusyError(f"{WAITING} batches wait already")
        self._waiting += 1
        try:
            batch = await run_sync(_read, signal, body, is_json)
            with anyio.move_on_after(self._patience):
                for session in {one[0].session for one in batch.streams.values()}:
                    await self._streams.wait_for_session(session)
            async with self._turn:
                with anyio.CancelScope(shield=True):  # a client that has left sends the batch again
                    for stream, records in batch.streams.items():
                        await self._store(stream, records)
        finally:
            self._waiting -= 1
        self._requests[signal] += 1
        self._records += sum(map(len, batch.streams.values()))
        self._sessionless += batch.sessionless

    async def _store(self, stream: str, records: Sequence[LogRecord]) -> None:
        frames: list[DaemonFrame] = []
        request = Ingest(stream=stream, framing="tapped", dialect=DIALECT)
        connection = await self._streams.open(request, frames.append)
        try:
            now = self._clock()
            for record in records:
                t = now if record.t is None else min(record.t, now)
                await connection.take(Splitter(self._line_bytes).feed(record.line + b"\n"), t, None)
        finally:
            await connection.finish()
        if not any(isinstance(frame, Suspended) for frame in frames):
            problem = next((frame.message for frame in frames if isinstance(frame, ErrorFrame)), "the daemon stops")
            raise NotStoredError(problem)


class _Batch:
    def __init__(self) -> None:
        self.streams: dict[str, list[LogRecord]] = {}
        self.sessionless = 0


def _read(signal: Signal, body: bytes, is_json: bool) -> _Batch:
    """Read a request. Blocks. Raises `BodyError`."""
    read, lines = (read_logs, log_records) if signal == "logs" else (read_spans, spans)
    try:
        request = read_json(body) if is_json else read(body)
    except ProtobufError as error:
        raise BodyError(str(error)) from None
    batch = _Batch()
    for record in lines(request):
        if record is None:
            batch.sessionless += 1
        else:
            batch.streams.setdefault(record.stream, []).append(record)
    return batch
