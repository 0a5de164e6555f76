"""Parsers of tooltap's own formats: traces, and the reports of `tooltap mcp`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tooltap.normalizers.catalog.registry import UnknownDialectError, dialects, is_recognised, parser_class, recognise
from tooltap.normalizers.core.calls import Answer
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.core.lines import UNPARSED, Line, Lines, Skip
from tooltap.normalizers.core.parser import Parser, outcome_of
from tooltap.normalizers.core.state import State
from tooltap.normalizers.core.writer import Writer
from tooltap.normalizers.tools.names import OWN_SERVER
from tooltap.normalizers.wire.decode import FRAMING, decode_line
from tooltap.normalizers.wire.framing import HEAD_BYTES, LongLine
from tooltap.normalizers.wire.values import record, string, whole
from tooltap.protocol import inputs
from tooltap.protocol.events import Display, SessionEvent
from tooltap.protocol.inputs import NotTappedError, read_record

NAME = "tooltap-trace"
BUDGET = 4 * 1024 * 1024
"""Maximum size of all traced streams' states together, in bytes; beyond it, the least recently read streams are
closed."""
CHECKED = 256
"""Number of lines between two checks of the budget."""
LONGEST_NAME = 200
LAST_LINE = 2**53
LONGEST_PREFIX = LONGEST_NAME + 20


class TracedStream(msgspec.Struct):
    """A stream of the trace."""

    dialect: str
    prefix: str
    """Prefix of its ids of calls and permissions."""
    provider: str | None = None
    n: int = 0
    """Number of its last line."""
    parser: bytes = b""
    """Dump of its parser, as of the last dump of the trace's parser."""


class TraceState(State, kw_only=True):
    streams: dict[str, TracedStream] = msgspec.field(default_factory=dict)
    """Name -> stream, the most recently read one last."""
    first: str | None = None
    ended: bool = False
    """True once a stream has ended: a stream that begins later may reuse its name and its ids."""


class TooltapTrace(Parser):
    """The `tooltap-trace` dialect: tooltap's traces (`v` 1), with the raw lines of several streams in arrival order.

        {"v", "t"?, "stream", "dialect"?, "provider"?, "agentVersion"?, "n", "dir"?, "line" | "b64",
         "bytes"?, "masked"?}
        {"v", "t"?, "stream", …, "n", "op": "lost" | "close" | "settle", "lines"?, "bytes"?, "reason"?}

    Each traced stream has a separate parser of its dialect, whose events are passed on: session, agent, turn, provider
    and dialect are those of the traced stream; event ids and line numbers are those of the trace. The first stream of
    the trace keeps its ids of calls and permissions; those of other streams get the stream's name as a prefix, because
    two agents may use the same ids. A stream that begins after another has ended may reuse that one's name, so its
    prefix also contains the line number.
    """

    dialect = NAME
    protocol = default_provider = "tooltap"
    SKIPS = frozenset({"repeated", "mark", FRAMING})
    state_type = TraceState

    def __init__(self, context: Context, state: TraceState | None = None) -> None:
        super().__init__(context, state)
        self._parsers: dict[str | None, Parser] = {
            name: parser_class(traced.dialect).load(traced.parser, self._context_of(name, traced.provider))
            for name, traced in self.state.streams.items()
        }

    @classmethod
    def skip_reasons(cls) -> frozenset[str]:
        """The reasons of this dialect and of every other."""
        others = (parser_class(name).skip_reasons() for name in dialects() if name != NAME)
        return super().skip_reasons().union(*others)

    def dump(self) -> bytes:
        for name, parser in self._parsers.items():
            self.state.streams[name].parser = parser.dump()
        return super().dump()

    def read(self, value: Line) -> Skip:
        name, n = value.get("stream"), whole(value.get("n"))
        if value.get("v") != 1 or "kind" in value or not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
            return self.unparsed("unknown-type", value)
        if n is None or not 0 < n < LAST_LINE:
            return self.unparsed("unknown-type", value)
        if "op" in value:
            return self._read_mark(name, n, value)
        try:
            line = read_record(value)
        except NotTappedError:
            return self.unparsed("no-line", value)
        dialect = self._dialect_of(value, name, line)
        if dialect is None:
            return self.unparsed("unknown-dialect", value)
        return self._read_traced(name, n, dialect, value.get("provider"), line)

    def finish(self, reason: str) -> None:
        for name in self.state.streams:
            self.items += self._at(name).close(reason, self.ts)

    def inner_parsers(self) -> Iterable[Parser]:
        return self._parsers.values()

    def forget_inner(self) -> None:
        self.state.ended = True  # so their ids are not used again

    def renew_inner(self, old: TooltapTrace) -> Iterable[tuple[Parser, Parser, str]]:
        self.forget_inner()  # in case that what is known of them is damaged
        self.state.first = old.state.first
        for name, was in old.state.streams.items():
            self.state.streams[name] = TracedStream(was.dialect, n=was.n, provider=was.provider, prefix=was.prefix)
            self._parsers[name] = parser_class(was.dialect)(self._context_of(name, was.provider))
            yield old._parsers[name], self._parsers[name], was.prefix
        self.state.ended = old.state.ended

    def inner_has_call(self, call_id: str, besides: Writer | None) -> bool:
        names = {self.state.first}
        head, end = call_id[:LONGEST_PREFIX], -1
        while (end := head.find("/", end + 1)) >= 0:
            names |= {head[:end], head[:end].rpartition("@")[0]}
        for name in names:
            inner = self._parsers.get(name)
            if inner is None or inner is besides:
                continue
            prefix = self.state.streams[name].prefix
            if call_id.startswith(prefix) and inner.has_call(call_id[len(prefix) :]):
                return True
        return False

    # -- traced streams -----------------------------------------------------------------------------------------------

    def _read_traced(self, name: str, n: int, dialect: str, provider: Any, line: inputs.Line) -> Skip:
        streams: dict[str, TracedStream] = self.state.streams
        before = len(self.items)
        traced = streams.get(name)
        if traced is not None and 1 < n <= traced.n:
            return "repeated"
        if traced is not None and (n == 1 or dialect != traced.dialect):  # another stream with this name
            self._end(name)
            traced = None
        if traced is None:
            traced = self._begin_stream(name, dialect)
        elif len(streams) > 1:
            traced, self._parsers[name] = streams.pop(name), self._parsers.pop(name)
        streams[name] = traced
        if isinstance(provider, str) and provider != traced.provider:
            traced.provider = provider
            parser = self._parsers[name]
            self._parsers[name] = parser.load(parser.dump(), self._context_of(name, provider))
        parser = self._at(name)
        t = self.ts if line.t is None else line.t
        if traced.n and n > traced.n + 1:
            self.items += parser.lost(n - traced.n - 1, 0, "not in the trace", t)[1]
        traced.n = n
        self._keep_within_budget()
        emitted = len(self.items) > before  # about other streams
        if line.size is not None:
            line_class, items = parser.feed_long(LongLine(line.line[:HEAD_BYTES], line.size), t)
        else:
            line_class, items = parser.feed(line.line, t, line.direction)
            self.extensions += parser.extensions
            parser.extensions = []
        self.repaired = self.repaired or parser.repaired
        self.items += items
        return None if emitted and line_class != UNPARSED else outcome_of(line_class)

    def _read_mark(self, name: str, n: int, value: Line) -> Skip:
        """Read a mark: lines of a stream were lost, or the stream was closed. Skipped if no line of the stream was
        seen."""
        op, reason = value["op"], str(value.get("reason", "unknown"))
        lines, size = whole(value.get("lines")), whole(value.get("bytes"))
        if op not in ("lost", "close", "settle") or (op == "lost" and not 0 < (lines or 0) <= n):
            return self.unparsed("unknown-type", value)
        if (traced := self.state.streams.get(name)) is None:
            return "mark"
        if op == "lost" and n <= traced.n:
            return "repeated"
        parser = self._at(name)
        t = whole(value.get("t")) or self.ts
        if op == "settle":
            items = parser.settle_all(0)
        elif op == "close":
            items = parser.close(reason, t, inputs.process_end(value))
        else:
            items = parser.lost(lines or 0, size or 0, reason, t)[1]
        traced.n = max(traced.n, n)
        self.items += items
        return None if items else "mark"

    def _dialect_of(self, record: dict[str, Any], name: str, line: inputs.Line) -> str | None:
        """The record's dialect. A record without one was written before recognition; its line may decide."""
        stated = record.get("dialect")
        if isinstance(stated, str) and stated != "auto":
            try:
                return parser_class(stated).dialect
            except UnknownDialectError:
                return None
        if name in self.state.streams:
            return str(self.state.streams[name].dialect)
        found = map(recognise, decode_line(line.line, self.context.limits.depth, is_recognised).values)
        return next((dialect for dialect in found if dialect is not None), None)

    def _context_of(self, name: str, provider: str | None) -> Context:
        return msgspec.structs.replace(self.context, session=name, provider=self.context.provider or provider)

    def _begin_stream(self, name: str, dialect: str) -> TracedStream:
        first = self.state.first = self.state.first or name
        self._parsers[name] = parser_class(dialect)(self._context_of(name, None))
        if self.state.ended:
            return TracedStream(dialect, prefix=f"{name}@{self.state.line}/")
        return TracedStream(dialect, prefix="" if name == first else f"{name}/")

    def _at(self, name: str) -> Parser:
        """The stream's parser, set to the trace's line."""
        parser = self._parsers[name]
        parser.nest_in(self)
        parser.earlier = self.earlier
        parser.id_prefix += self.state.streams[name].prefix
        return parser

    def _end(self, name: str) -> None:
        self.items += self._at(name).close("end", self.ts)
        del self.state.streams[name], self._parsers[name]
        self.state.ended = True

    def _keep_within_budget(self) -> None:
        if self.state.line % CHECKED:
            return
        sizes = {name: len(self._parsers[name].dump()) for name in self.state.streams}
        total = sum(sizes.values())
        for name in list(sizes)[:-1]:
            if total <= BUDGET:
                return
            total -= sizes[name]
            self._end(name)


# -- display tools ------------------------------------------------------------------------------------------------

_STATUSES = ("completed", "failed", "denied", "cancelled")


class DisplayTools(Parser):
    """The `display-tools` dialect: what `tooltap mcp` reports to the daemon about its display tools.

        {"type": "display/session", "client"?: {"name", "version"}, "cwd"}
        {"type": "display/call", "callId", "tool", "arguments"}
        {"type": "display/result", "callId", "tool", "status", "text", "exitCode"?, "durationMs", "display"?}

    `text` is the line for the model; `display` has the keys of `Display` and names the output body for the user. A call
    without a result, because the server was killed, is closed with the stream.
    """

    dialect = "display-tools"
    protocol = default_provider = "tooltap"
    line = Lines("type")

    @line("display/session")
    def _session(self, value: Line) -> None:
        client = record(value.get("client"))
        self.state.cwd = string(value.get("cwd"))
        name, version = string(client.get("name")), string(client.get("version"))
        title = " ".join(part for part in ("display tools of", name, version) if part) if name else None
        self.set_session(self.session)
        self.emit(SessionEvent, state="started", cwd=self.state.cwd, title=title)

    @line("display/call", callId=str, tool=str)
    def _call(self, value: Line) -> Skip:
        call_id, tool = value["callId"], value["tool"]
        if not call_id or not tool:
            return self.unparsed("unknown-type", value)
        self.calls.open(call_id, tool, record(value.get("arguments")), raw=value, name=_canonical(tool))
        return None

    @line("display/result", callId=str, tool=str)
    def _result(self, value: Line) -> Skip:
        call_id, tool = value["callId"], value["tool"]
        if not call_id or not tool or value.get("status") not in _STATUSES:
            return self.unparsed("unknown-type", value)
        if self.calls.is_over(call_id):
            return "duplicate-result"
        if not self.calls.is_known(call_id):
            self.calls.open(call_id, tool, {}, raw=None, name=_canonical(tool), synthetic=True)
        text = string(value.get("text"))
        stated = {"text": text, "exit_code": whole(value.get("exitCode"))}
        answer = Answer(
            {key: item for key, item in stated.items() if item is not None},
            value["status"],
            text,
            duration_ms=whole(value.get("durationMs")),
            display=_display(value.get("display")),
            model=msgspec.UNSET if text is None else text,
        )
        return self.calls.answer(call_id, answer, raw=value)


def _canonical(tool: str) -> str:
    """The tool's name in agents that configure this server as `tooltap`."""
    return f"mcp__{OWN_SERVER}__{tool}"


def _display(value: Any) -> Display | None:
    try:
        return None if value is None else msgspec.convert({**record(value), "origin": "provider"}, Display)
    except msgspec.ValidationError:
        return None
