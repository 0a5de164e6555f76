"""Reads a file for an exported page: events and their output bodies, from a recording or from event lines."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from tooltap.daemon.web.page.export.bodies import Bodies, Body, body_ids
from tooltap.daemon.web.page.export.redaction import masked_event
from tooltap.normalizers.core.items import Context, OutputChunk
from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.wire.framing import LongLine, Splitter
from tooltap.protocol.events import AnyEvent, decode
from tooltap.traces.recording.feed import RecordingFeed

__all__ = ["FileSource"]


class FileSource:
    """Iterates over `(event, its output bodies)`. Events are numbered from 1; bodies are held on disk until needed.

    `stream`: the stream id of a recording. `chunks`: the bytes of the file; whatever they raise passes through. `mask`:
    removes secrets from the bytes of an event or a body; its second argument says which.
    """

    def __init__(
        self, stream: str, chunks: Iterable[bytes], bodies: Bodies, mask: Callable[[bytes, str], bytes]
    ) -> None:
        self._chunks = chunks
        self._bodies = bodies
        self._mask = mask
        self._seq = 0
        self._normalizer = StreamNormalizer(Context(stream=stream))
        self._feed = RecordingFeed(self._normalizer)
        self._directory = tempfile.TemporaryDirectory(prefix="tooltap-export-")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._directory.cleanup()

    def __iter__(self) -> Iterator[tuple[AnyEvent, dict[str, Body]]]:
        for event in self._events():
            self._seq += 1
            event.seq = self._seq
            yield event, self._bodies_of(event)

    def _events(self) -> Iterator[AnyEvent]:
        splitter = Splitter(self._normalizer.context.limits.line_bytes)
        lines = self._lines(splitter)
        first = next(lines, None)
        if first is None:
            return
        event = self._event(first)
        if event is not None:
            yield event
            yield from (event for line in lines if (event := self._event(line)) is not None)
            return
        yield from self._store_bodies(self._feed.feed([first]))
        for line in lines:
            yield from self._store_bodies(self._feed.feed([line]))
        yield from self._store_bodies(self._normalizer.close("end"))

    def _lines(self, splitter: Splitter) -> Iterator[bytes | LongLine]:
        for chunk in self._chunks:
            yield from splitter.feed(chunk)
        last = splitter.finish()
        if last is not None:
            yield last

    def _store_bodies(self, produced: Iterable[Output]) -> Iterator[AnyEvent]:
        """Write all output bodies to disk, then yield the events."""
        events: list[AnyEvent] = []
        for output in produced:
            if isinstance(output, OutputChunk):
                with self._body_file(output.output_id).open("r+b" if output.offset else "wb") as file:
                    file.seek(output.offset)
                    file.write(output.data)
            else:
                events.append(self._masked(output.body, self._seq + len(events) + 1))
        yield from events

    def _bodies_of(self, event: AnyEvent) -> dict[str, Body]:
        found: dict[str, Body] = {}
        for output_id, size, mime_type in body_ids(event):
            path = self._body_file(output_id)
            length = path.stat().st_size if path.exists() else None
            if self._bodies.has_room(size if length is None else length) and length is not None:
                found[output_id] = Body(self._mask(path.read_bytes(), f"output {output_id}"), mime_type)
        return found

    def _body_file(self, output_id: str) -> Path:
        return Path(self._directory.name) / hashlib.sha256(output_id.encode()).hexdigest()

    def _event(self, line: bytes | LongLine) -> AnyEvent | None:
        """The line as an event; None if it is not one."""
        if isinstance(line, LongLine) or not line.strip():
            return None
        try:
            decode(line)
        except (msgspec.ValidationError, msgspec.DecodeError):
            return None
        return self._masked(line, self._seq + 1)

    def _masked(self, body: bytes, number: int) -> AnyEvent:
        return masked_event(body, lambda masked: self._mask(masked, f"event {number}"))
