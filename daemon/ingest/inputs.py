"""What a stream was given since its last durable commit, so that it can be given again, in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tooltap.daemon.ingest.live_stream import RECORD_BYTES, LiveStream
from tooltap.daemon.ingest.masking import masked_input
from tooltap.daemon.ingest.offload import Normalized
from tooltap.daemon.ingest.resume import load_normalizer
from tooltap.normalizers.core.items import OutputChunk
from tooltap.normalizers.stream.normalizer import Keep, Output
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.tapped import Direction, Lost

__all__ = ["Close", "Input", "Lines", "Loss", "Parent", "Portion", "Suspend", "Views"]


class Input:
    """One of the below."""

    @property
    def memory(self) -> int:
        """Bytes in flight for it."""
        return 0

    def feed(self, live: LiveStream) -> None:
        raise NotImplementedError

    def parts(self) -> Sequence[Input]:
        return (self,)

    may_be_dropped = False
    """Whether the stream can do without it."""

    def without(self, reason: str) -> Input | None:
        """What is given in its place if it cannot be committed for this reason; None: nothing can be."""
        return None


@dataclass(frozen=True, slots=True)
class Lines(Input):
    """Lines that came together. `failed`: why they are not parsed."""

    lines: Sequence[bytes | LongLine]
    t: int
    direction: Direction | None = None
    keep: Keep | None = None
    failed: str | None = None

    @property
    def memory(self) -> int:
        return sum(RECORD_BYTES + (len(one.head) if isinstance(one, LongLine) else len(one)) for one in self.lines)

    def feed(self, live: LiveStream) -> None:
        lines = masked_input(self.lines) if live.masks else self.lines
        if self.failed is not None:
            live.feed_failed(lines[0], self.failed, self.t, self.direction)
        elif self.keep is not None:
            live.feed(lines[0], self.t, self.direction, self.keep)
        else:
            live.feed_block(lines, self.t, self.direction)
        if lines is not self.lines and isinstance(last := self.lines[-1], bytes):
            live.last_line = last  # its publisher has the original line

    def parts(self) -> Sequence[Input]:
        return [replace(self, lines=(line,)) for line in self.lines] if len(self.lines) > 1 else (self,)

    def without(self, reason: str) -> Input | None:
        return replace(self, failed=reason) if self.failed is None else None


@dataclass(frozen=True, slots=True)
class Loss(Input):
    lost: Lost
    t: int

    @property
    def memory(self) -> int:
        return RECORD_BYTES

    def feed(self, live: LiveStream) -> None:
        live.lost(self.lost, self.t)


@dataclass(frozen=True, slots=True)
class Close(Input):
    reason: str
    t: int

    def feed(self, live: LiveStream) -> None:
        live.close(self.reason, self.t)


@dataclass(frozen=True, slots=True)
class Suspend(Input):
    def feed(self, live: LiveStream) -> None:
        live.suspend()


@dataclass(frozen=True, slots=True)
class Parent(Input):
    """Which call has started the stream's agent."""

    parent: str
    t: int
    may_be_dropped = True

    def feed(self, live: LiveStream) -> None:
        if live.info.parent is None:
            live.set_parent(self.parent, self.t)


@dataclass(frozen=True, slots=True)
class Views(Input):
    """A view of an earlier result."""

    outputs: Sequence[Output]
    may_be_dropped = True

    def feed(self, live: LiveStream) -> None:
        live.add_view(self.outputs)


@dataclass(frozen=True, slots=True)
class Portion(Input):
    """Lines that another process has normalized."""

    portion: Normalized

    @property
    def memory(self) -> int:
        return sum(len(one.data if isinstance(one, OutputChunk) else one.body) for one in self.portion.outputs)

    def feed(self, live: LiveStream) -> None:
        live.adopt(load_normalizer(self.portion.state, live.normalizer.context), self.portion)
