"""One stream from its first line to its end: recognition, parsing, bounds and accounting in one object.

This is what the daemon and `tooltap normalize` drive. With dialect `auto`, lines are held until one of them decides;
then all are parsed in order, so that ids are as if the dialect had been known from line 1. If too many lines decide
nothing, they are `unparsed`, and a later decisive line sets the dialect from there on. The objects of an array may
span any number of lines within the byte limit.

`dump` and `load` carry everything across a restart: parser state, held lines and statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Self, TypeAlias

import msgspec

from tooltap.normalizers.catalog.recognition import recognise
from tooltap.normalizers.catalog.registry import parser_class
from tooltap.normalizers.core.items import Context, Item, Limits, OutputChunk, Produced
from tooltap.normalizers.core.parser import Parser, Watch, outcome_of
from tooltap.normalizers.stream.bounds import bound
from tooltap.normalizers.stream.reset import LeftOpen, restart
from tooltap.normalizers.stream.unknown import Unknown
from tooltap.normalizers.wire.decode import decode_line
from tooltap.normalizers.wire.documents import Documents, beginning
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.stats import Statistics
from tooltap.protocol.tapped import Direction

__all__ = ["AUTO", "REPORTED_ELSEWHERE", "Output", "StreamNormalizer"]

AUTO = "auto"
REPORTED_ELSEWHERE = "told-elsewhere"
"""The reason to skip a line whose events another stream has reported; a reason of streams, not of dialects."""

Output: TypeAlias = Produced | OutputChunk


class HeldLine(msgspec.Struct):
    line: bytes
    size: int | None
    """Length of the whole line, where `line` is only its head."""
    t: int | None
    direction: Direction | None


class Held(msgspec.Struct):
    """Lines that wait for one that decides the dialect."""

    lines: list[HeldLine] = []
    size: int = 0
    documents: Documents = msgspec.field(default_factory=Documents)

    def add(self, line: HeldLine) -> None:
        self.lines.append(line)
        self.size += len(line.line)

    def may_grow(self, limits: Limits) -> bool:
        """Whether more lines may be held. An array may span any number of lines within the byte limit."""
        return (self.documents.in_array or len(self.lines) < limits.held_lines) and self.size < limits.held_bytes


class _Dump(msgspec.Struct):
    dialect: str
    parser: bytes
    held: Held
    statistics: Statistics


class StreamNormalizer:
    """Lines in, events out. `dialect`: a name, or `auto`. Raises `UnknownDialectError`."""

    def __init__(self, context: Context, dialect: str = AUTO) -> None:
        self.context = context
        self._held = Held()
        self._partials = context.partials
        self._recognising = dialect == AUTO
        self._parser: Parser = Unknown(context) if dialect == AUTO else parser_class(dialect)(context)
        self.on_line: Callable[[Sequence[Output]], object] | None = None
        """Called with the outputs of each line, after it was counted. Must not raise."""
        self.left_out = False
        """Whether the events of the last line were left out."""
        self.statistics = Statistics(
            stream=context.stream,
            dialect=AUTO if self._recognising else dialect,
            provider=self._parser.provider,
        )

    @property
    def dialect(self) -> str | None:
        """The dialect; None while it is not known."""
        return None if self._recognising else self._parser.dialect

    @property
    def lines(self) -> int:
        """Lines fed so far, including those held for recognition."""
        return int(self._parser.state.line) + len(self._held.lines)

    @property
    def holds_lines(self) -> bool:
        """Whether lines wait for recognition; they have no class yet."""
        return bool(self._held.lines)

    def want_partials(self, wanted: bool) -> None:
        """Whether to produce partial events from here on; changes nothing else."""
        self._partials = wanted
        self._parser.partials = wanted

    def watch(self, watch: Watch | None) -> None:
        """Show every object to `watch` when it is parsed; None: stop."""
        self._parser.watch = watch

    def feed(
        self,
        line: bytes | LongLine,
        t: int | None = None,
        direction: Direction | None = None,
        leave_out: Callable[[Sequence[Item]], bool] | None = None,
    ) -> list[Output]:
        """Feed one line, without its newline; returns what to store and show, in order.

        `leave_out` decides whether another stream has already reported the line's items; then the parser has read the
        line, and nothing else results from it. Only for streams whose dialect is named: lines that `auto` held are
        never left out.
        """
        if not self._recognising:
            return self._parse((line,), t, direction, leave_out)
        head, size = (line.head, line.size) if isinstance(line, LongLine) else (line, None)
        self._held.add(HeldLine(head, size, t, direction))
        chosen = self._decide(head) if size is None else None
        if chosen is not None:
            parser = parser_class(chosen)(self.context)
            parser.state.line = self._parser.state.line
            parser.partials = self._partials
            parser.watch = self._parser.watch
            self._parser = parser
            self._recognising = False
            self.statistics.dialect = chosen
        elif self._parser.state.line == 0 and self._held.may_grow(self.context.limits):
            return []
        return self._release()

    def feed_block(
        self, lines: Iterable[bytes | LongLine], t: int | None = None, direction: Direction | None = None
    ) -> list[Output]:
        """Feed lines that came together, with one time and direction; returns what to store and show, in order."""
        if not self._recognising:
            return self._parse(lines, t, direction)
        return [output for line in lines for output in self.feed(line, t, direction)]

    def lost(self, lines: int, size: int, reason: str, t: int | None = None) -> list[Output]:
        """Record that the publisher could not keep `lines` lines, `size` bytes together."""
        outputs = self._release()
        line_class, items = self._parser.lost(lines, size, reason, t)
        self.statistics.lines += lines
        self.statistics.bytes += size
        self.statistics.count_skip(str(outcome_of(line_class)), lines)
        return outputs + self._finish(items)

    def close(self, reason: str, t: int | None = None) -> list[Output]:
        """End the stream. `reason`: end, suspended-too-long, … Lines may still follow and reopen it."""
        return self._release() + self._finish(self._parser.close(reason, t))

    def restart(self, lines: int, statistics: Statistics, left: LeftOpen, t: int | None = None) -> list[Output]:
        """Replace a normalizer whose state is gone, after `lines` lines; what it left open is closed."""
        self.statistics = statistics
        statistics.provider = self._parser.provider
        return self._finish(restart(self._parser, lines, statistics, left, t))

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(_Dump(self.dialect or AUTO, self._parser.dump(), self._held, self.statistics))

    @classmethod
    def load(cls, data: bytes, context: Context) -> Self:
        """Raises `msgspec.DecodeError`, `msgspec.ValidationError` or `UnknownDialectError`."""
        dump = msgspec.msgpack.decode(data, type=_Dump)
        normalizer = cls(context, dump.dialect)
        normalizer._parser = type(normalizer._parser).load(dump.parser, context)
        normalizer._held = dump.held
        normalizer.statistics = dump.statistics
        return normalizer

    def _decide(self, line: bytes) -> str | None:
        if (name := self._recognise(line)) is not None:
            return name
        documents = self._held.documents
        if documents.is_broken_by(line):
            documents.drop()
        whole = documents.take(line, objects=True)
        if documents.in_array:
            return self._recognise(whole) if whole else None
        document = beginning([one.line for one in self._held.lines])
        name = recognise(document) if document is not None else None
        return name if name is not None and parser_class(name).DOCUMENTS else None

    def _recognise(self, line: bytes) -> str | None:
        found = map(recognise, decode_line(line, self.context.limits.depth).values)
        return next((name for name in found if name is not None), None)

    def _release(self) -> list[Output]:
        """Parse the held lines."""
        held, self._held = self._held.lines, Held()
        outputs: list[Output] = []
        for one in held:
            line = one.line if one.size is None else LongLine(one.line, one.size)
            outputs += self._parse((line,), one.t, one.direction)
        return outputs

    def _parse(
        self,
        lines: Iterable[bytes | LongLine],
        t: int | None,
        direction: Direction | None,
        leave_out: Callable[[Sequence[Item]], bool] | None = None,
    ) -> list[Output]:
        parser, statistics, on_line = self._parser, self.statistics, self.on_line
        skipped = statistics.skipped
        outputs: list[Output] = []
        self.left_out = False
        for line in lines:
            if isinstance(line, LongLine):
                line_class, items = parser.feed_long(line, t)
                skip, size = outcome_of(line_class), line.size
            else:
                skip, size = parser.take_line(line, t, direction), len(line)
                if items := parser.items:
                    parser.items = []
                if parser.repaired:
                    statistics.repaired += 1
            if leave_out is not None:
                self.left_out = bool(items) and leave_out(items)
                if self.left_out:
                    skip, items = REPORTED_ELSEWHERE, []
            statistics.lines += 1
            statistics.bytes += size
            if skip is None:
                statistics.with_events += 1
            elif skip in skipped:
                skipped[skip] += 1
            else:
                statistics.count_skip(skip)
            if items:
                items = self._finish(items)
                outputs += items
            if on_line is not None:
                statistics.provider = parser.provider
                on_line(items)
        statistics.provider = parser.provider
        return outputs

    def _finish(self, items: list[Item]) -> list[Output]:
        """Bound and count what the parser emitted."""
        longest, statistics = self.context.limits.string_bytes, self.statistics
        kinds, outputs = statistics.kinds, items
        for item in items:
            if isinstance(item, OutputChunk):
                continue
            if len(item.body) > longest and outputs is items:
                outputs = self._bounded(items)
            if not item.partial:
                kind = item.kind
                kinds[kind] = kinds.get(kind, 0) + 1
                statistics.events += 1
                if kind == "tool-call":
                    statistics.count_call(item.tool, item.raw_tool)
        return outputs

    def _bounded(self, items: list[Item]) -> list[Output]:
        outputs: list[Output] = []
        for item in items:
            if isinstance(item, Produced):
                item, chunks = bound(item, self.context.limits, self._parser.new_output_id)
                outputs += chunks
            outputs.append(item)
        return outputs
