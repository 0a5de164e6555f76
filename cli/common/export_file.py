"""Events out of a file, with the bodies that were cut out of them: of a recording, or of event lines."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from tooltap.cli.common.inputs import read_chunks
from tooltap.daemon.taps.stream_ids import stream_name
from tooltap.normalizers.core.items import Context, OutputPiece
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.wire.framing import LongLine, Splitter
from tooltap.normalizers.wire.recording import Recording
from tooltap.protocol.events import AnyEvent, decode
from tooltap.protocol.tapped import Lost

if TYPE_CHECKING:
    from tooltap.daemon.web.page.export import Bodies, Body

__all__ = ["FileSource"]


class FileSource:
    """An iterator of events, numbered from 1, and of the bodies each speaks of. Bodies wait on disk until then.

    Raises `UnreadableError` when iterated.
    """

    def __init__(self, path: str, bodies: Bodies) -> None:
        self._path = path
        self._bodies = bodies
        self._normalizer = StreamNormalizer(Context(stream=stream_name(path)))
        self._recording = Recording()
        self._directory = tempfile.TemporaryDirectory(prefix="tooltap-export-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._directory.cleanup()

    def __iter__(self) -> Iterator[tuple[AnyEvent, dict[str, Body]]]:
        for seq, event in enumerate(self._events(), 1):
            event.seq = seq
            yield event, self._found(event)

    def _events(self) -> Iterator[AnyEvent]:
        splitter = Splitter(self._normalizer.context.limits.line_bytes)
        lines = self._lines(splitter)
        first = next(lines, None)
        if first is None:
            return
        event = _event(first)
        if event is not None:
            yield event
            yield from (event for line in lines if (event := _event(line)) is not None)
            return
        yield from self._kept(self._read(first))
        for line in lines:
            yield from self._kept(self._read(line))
        yield from self._kept(self._normalizer.close("end"))

    def _lines(self, splitter: Splitter) -> Iterator[bytes | LongLine]:
        for chunk in read_chunks(self._path):
            yield from splitter.feed(chunk)
        last = splitter.finish()
        if last is not None:
            yield last

    def _read(self, line: bytes | LongLine) -> list[Output]:
        read = self._recording.read(line)
        if isinstance(read, Lost):
            return self._normalizer.lost(read.lines, read.bytes, read.reason)
        return [] if read is None else self._normalizer.feed(*read)

    def _kept(self, produced: Iterable[Output]) -> Iterator[AnyEvent]:
        """The events, when the bodies that came with them are kept."""
        events = []
        for output in produced:
            if isinstance(output, OutputPiece):
                with self._body(output.output_id).open("r+b" if output.offset else "wb") as file:
                    file.seek(output.offset)
                    file.write(output.data)
            else:
                events.append(decode(output.body))
        yield from events

    def _found(self, event: AnyEvent) -> dict[str, Body]:
        from tooltap.daemon.web.page.export import Body, body_ids

        found: dict[str, Body] = {}
        for output_id, size, mime_type in body_ids(event):
            path = self._body(output_id)
            length = path.stat().st_size if path.exists() else None
            if self._bodies.has_room(size if length is None else length) and length is not None:
                found[output_id] = Body(path.read_bytes(), mime_type)
        return found

    def _body(self, output_id: str) -> Path:
        return Path(self._directory.name) / hashlib.sha256(output_id.encode()).hexdigest()


def _event(line: bytes | LongLine) -> AnyEvent | None:
    """The line as an event, if it is one."""
    if isinstance(line, LongLine) or not line.strip():
        return None
    try:
        return decode(line)
    except (msgspec.ValidationError, msgspec.DecodeError):
        return None
