"""Inputs of a live stream: what its publisher sends (`protocol/inputs.py`), and what the daemon adds to it.

`LiveStream.apply` applies one. A connection keeps inputs until they are durable, so that they can be applied again, in
smaller parts (`bisect.py`), after one of them could not be committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tooltap.daemon.ingest.offload import Normalized
from tooltap.normalizers.core.items import OutputChunk
from tooltap.normalizers.stream.normalizer import Keep, Output
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.inputs import Close, Direction, Lost

RECORD_BYTES = 64
"""About what a record of the tail costs in addition to its line."""


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines that came together."""

    lines: Sequence[bytes | LongLine]
    t: int
    direction: Direction | None = None
    keep: Keep | None = None
    """Which items of a single line no other stream has reported; see `StreamNormalizer.feed`."""
    failed: str | None = None
    """Why a single line is not parsed: what it leads to could not be committed for this reason."""


@dataclass(frozen=True, slots=True)
class Portion:
    """Lines that another process has normalized."""

    portion: Normalized


@dataclass(frozen=True, slots=True)
class Views:
    """Views of an earlier result."""

    outputs: Sequence[Output]


@dataclass(frozen=True, slots=True)
class Parent:
    """Which call has started the stream's agent."""

    parent: str
    t: int


@dataclass(frozen=True, slots=True)
class Suspend:
    """The publisher has left without ending the stream."""


Input: TypeAlias = Lines | Portion | Lost | Close | Views | Parent | Suspend

DROPPABLE: Final = (Parent, Views)
"""Inputs that a stream can do without, if they cannot be committed."""


def memory_of(one: Input) -> int:
    """Bytes in flight for an input."""
    match one:
        case Lines():
            return sum(
                RECORD_BYTES + (len(line.head) if isinstance(line, LongLine) else len(line)) for line in one.lines
            )
        case Portion():
            outputs = one.portion.outputs
            return sum(len(output.data if isinstance(output, OutputChunk) else output.body) for output in outputs)
        case Lost():
            return RECORD_BYTES
        case _:
            return 0


def parts_of(one: Input) -> Sequence[Input]:
    """An input as several that can be committed one by one."""
    if isinstance(one, Lines) and len(one.lines) > 1:
        return [replace(one, lines=(line,)) for line in one.lines]
    return (one,)


def replacement_of(one: Input, reason: str) -> Input | None:
    """What takes the place of an input that could not be committed for this reason; None if nothing can."""
    return replace(one, failed=reason) if isinstance(one, Lines) and one.failed is None else None
