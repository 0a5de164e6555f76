"""Feeds a recording to a normalizer, chunk by chunk."""

from __future__ import annotations

from collections.abc import Iterable

from tooltap.normalizers.stream.normalizer import Output, StreamNormalizer
from tooltap.normalizers.stream.reset import reason_of
from tooltap.normalizers.wire.framing import LongLine, Recording
from tooltap.protocol.inputs import Direction, Lost


class RecordingFeed:
    """Unwraps the lines of a recording, tapped or plain, and passes them to the normalizer."""

    def __init__(self, normalizer: StreamNormalizer) -> None:
        self._normalizer = normalizer
        self._recording = Recording()

    def feed(self, lines: Iterable[bytes | LongLine]) -> list[Output]:
        """Feed lines that follow each other. Those with one time and direction are a block for the normalizer."""
        normalizer = self._normalizer
        outputs: list[Output] = []
        block: list[bytes | LongLine] = []
        stamp: tuple[int | None, Direction | None] = None, None
        for line in lines:
            try:
                read = self._recording.read(line)
            except Exception as error:  # costs the line, like an error of its reader
                outputs += normalizer.feed_block(block, *stamp)
                outputs += normalizer.feed_failed(line, reason_of(error), *stamp)
                block = []
                continue
            if read is None:
                continue
            if isinstance(read, Lost):
                outputs += normalizer.feed_block(block, *stamp)
                outputs += normalizer.lost(read.lines, read.bytes, read.reason)
                block = []
                continue
            if (read.t, read.direction) != stamp:
                outputs += normalizer.feed_block(block, *stamp)
                block, stamp = [], (read.t, read.direction)
            block.append(read.data)
        return outputs + normalizer.feed_block(block, *stamp)
