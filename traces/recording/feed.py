"""Feeds a recording to a normalizer line by line."""

from __future__ import annotations

from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.wire.framing import LongLine
from tooltap.normalizers.wire.recording import Recording
from tooltap.protocol.tapped import Lost

__all__ = ["RecordingFeed"]


class RecordingFeed:
    """Unwraps the lines of a recording, tapped or plain, and passes them to the normalizer."""

    def __init__(self, normalizer: StreamNormalizer) -> None:
        self._normalizer = normalizer
        self._recording = Recording()

    def feed(self, line: bytes | LongLine) -> list[Output]:
        read = self._recording.read(line)
        if isinstance(read, Lost):
            return self._normalizer.lost(read.lines, read.bytes, read.reason)
        return [] if read is None else self._normalizer.feed(*read)
