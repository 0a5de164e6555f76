"""Publishes a recording or another input of lines, resuming after the lines that the daemon already has."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from tooltap.daemon.client.asynchronous import OtherInputError
from tooltap.daemon.taps.delivery.outbox import Outbox, StreamOptions
from tooltap.daemon.taps.delivery.tap import BackgroundDelivery
from tooltap.normalizers.catalog.registry import UnknownDialectError
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.wire.framing import MAX_LINE_BYTES, LongLine, Splitter
from tooltap.normalizers.wire.recording import Line, Recording
from tooltap.protocol.frames import Done
from tooltap.protocol.inputs import Lost

IN_FLIGHT = 8 * 1024 * 1024
"""Most bytes read ahead of the daemon's commits."""
PATIENCE = 10.0
"""Seconds to wait for a daemon that became unreachable."""

Chunks = Callable[[], Iterable[bytes]]


def publish_recording(chunks: Chunks, options: StreamOptions, socket: Path | None, changed: int | None) -> Done:
    """Publish all of an input and return the statistics of the whole stream. Publishing it again adds nothing.
    `changed`: when the file was last changed, in ms since the epoch; None if the input is written now.

    If the daemon knows another input under this stream id (a log file was replaced by another), the input becomes a
    stream of its own. Raises `ConnectError`, `DaemonError`, and what `chunks` raises.
    """
    try:
        return publish_once(chunks(), options, socket, changed)
    except OtherInputError:
        other = f"{options.stream}~{_fingerprint(chunks())}"
        return publish_once(chunks(), options._replace(stream=other), socket, changed)


def publish_once(chunks: Iterable[bytes], options: StreamOptions, socket: Path | None, changed: int | None) -> Done:
    """As `publish_recording`, but raises `OtherInputError` if the daemon knows another input under this stream id."""
    outbox = Outbox(max_bytes=sys.maxsize)
    delivery = BackgroundDelivery(outbox, options, socket, patience=PATIENCE)
    recording = Recording()
    batches = _batches(chunks, recording)
    if changed is not None:
        batches = _dated(batches, options.dialect, changed)
    first = next(batches, [])  # an input that cannot be read does not become a stream
    delivery.start()
    try:
        for batch in chain([first], batches):
            for line in batch:
                if isinstance(line, Lost):
                    outbox.lose(line.lines, line.bytes, line.reason)
                else:
                    outbox.put([line.data], line.t, line.direction)
            delivery.wake()
            if not delivery.wait_for_room(IN_FLIGHT):
                break
        outbox.ended, outbox.process = recording.end.t, recording.end.process
        delivery.finish(PATIENCE)
        delivery.wait()
    finally:
        delivery.stop()
    if not isinstance(delivery.end, Done):
        assert delivery.failure is not None
        raise delivery.failure
    return delivery.end


def _batches(chunks: Iterable[bytes], recording: Recording) -> Iterator[list[Line | Lost]]:
    splitter = Splitter(MAX_LINE_BYTES)
    for chunk in chunks:
        yield [line for one in splitter.feed(chunk) if (line := recording.read(one)) is not None]
    last = splitter.finish()
    if last is not None and (line := recording.read(last)) is not None:
        yield [line]


def _dated(batches: Iterator[list[Line | Lost]], dialect: str, changed: int) -> Iterator[list[Line | Lost]]:
    """Date the lines of a file that have no time of receipt. Those before the first line that states a time have that
    time; the daemon knows that of later ones. If none states one, at the beginning, all have that of the last change of
    the file."""
    beginning = next(batches, [])
    dated, first = _first_time(beginning, dialect)
    for number, line in enumerate(beginning[:dated]):
        if isinstance(line, Line) and line.t is None:
            beginning[number] = line._replace(t=changed if first is None else first)
    yield beginning
    for batch in batches:
        if first is None:
            batch = [line._replace(t=changed) if isinstance(line, Line) and line.t is None else line for line in batch]
        yield batch


def _first_time(lines: Sequence[Line | Lost], dialect: str) -> tuple[int, int | None]:
    """Return how many lines come before the first one that states a time, and that time; if none does, their number and
    None."""
    if all(line.t is not None for line in lines if isinstance(line, Line)):
        return 0, None
    from tooltap.normalizers.stream.normalizer import StreamNormalizer  # takes long to import

    try:
        normalizer = StreamNormalizer(Context(stream="beginning"), dialect)
    except UnknownDialectError:  # the daemon says so
        return len(lines), None
    for number, line in enumerate(lines):
        if isinstance(line, Line):
            normalizer.feed(line.data, direction=line.direction)
        if normalizer.states_times:
            return number, normalizer.written
    return len(lines), None


def _fingerprint(chunks: Iterable[bytes]) -> str:
    """Return the CRC of the first line: it distinguishes recordings, and stays the same while one grows."""
    splitter = Splitter(MAX_LINE_BYTES)
    lines = (line for chunk in chunks for line in splitter.feed(chunk))
    first = next(lines, None) or splitter.finish() or b""
    return f"{zlib.crc32(first.head if isinstance(first, LongLine) else first):08x}"
