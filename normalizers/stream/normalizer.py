"""Normalizer of one stream: recognition of the dialect, parsing, size limits and statistics in one object.

`StreamNormalizer` is what the daemon and `tooltap normalize` drive. With dialect `auto`, lines are held until one of
them decides; then all are parsed in order, so that ids are the same as if the dialect had been known from line 1. If
too many lines decide nothing, they become `unparsed`, and a later decisive line sets the dialect from there on. The
objects of an array may span any number of lines within the byte limit.

`dump` and `load` carry everything across a restart: parser state, held lines and statistics.

`feed`, `feed_block`, `lost` and `close` never raise; `reset.py` defines how an error is contained.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Self, TypeAlias

import msgspec

from tooltap.normalizers.catalog.registry import builtin, is_recognised, parser_class, recognise, recognise_text
from tooltap.normalizers.core.answers import Chosen, choose
from tooltap.normalizers.core.items import Context, Item, Limits, OutputChunk, Produced
from tooltap.normalizers.core.lines import UNPARSED, Line, Skip
from tooltap.normalizers.core.parser import JOINED, Parser, Watch
from tooltap.normalizers.core.state import State
from tooltap.normalizers.stream.bounds import bounded
from tooltap.normalizers.stream.reset import LeftOpen, may_have_changed, place_of, reason_of, replace, restart
from tooltap.normalizers.tools.registry import ASKING
from tooltap.normalizers.wire.decode import Documents, beginning, decode_line
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol import SCHEMA_VERSION
from tooltap.protocol.answers import ForAgent
from tooltap.protocol.events import Message, SessionEvent
from tooltap.protocol.inputs import Direction, ProcessEnd
from tooltap.protocol.stats import Statistics


class HeldLine(msgspec.Struct):
    line: bytes
    size: int | None
    """Length of the whole line, where `line` is only its head."""
    t: int | None
    direction: Direction | None
    failed: str | None = None
    """Reason why the line is not parsed: something raised when it was inspected."""


class Undecided(msgspec.Struct):
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

    def decide(self, line: bytes, depth: int) -> str | None:
        """Return the dialect that `line`, the last of the held lines, decides; None if it decides none."""
        if (name := _recognise(line, depth)) is not None:
            return name
        documents = self.documents
        if documents.is_broken_by(line):
            documents.drop()
        whole = documents.take(line, objects=True)
        if documents.in_array:
            return _recognise(whole, depth) if whole else None
        document = beginning([one.line for one in self.lines])
        name = recognise(document) if document is not None else None
        return name if name is not None and parser_class(name).DOCUMENTS else None


def _recognise(line: bytes, depth: int) -> str | None:
    values = decode_line(line, depth, is_recognised).values
    if not values:
        return recognise_text(line)
    return next((name for name in map(recognise, values) if name is not None), None)


class UnknownState(State):
    unread: int = 0
    """Number of lines that are `unparsed`."""
    is_stated: bool = False
    """Whether a notice has said that no line is read."""


class Unknown(Parser):
    """Reads streams that no dialect recognises: every line is `unparsed`, with its text, and at the end a notice says
    it of the whole stream."""

    dialect = "unknown"
    protocol = "unknown"
    default_provider = "unknown"
    state_type = UnknownState
    ARRAYS = False
    state: UnknownState

    def read(self, value: Line) -> Skip:
        return self.unparsed("unknown-dialect", value)

    def unreadable(self, reason: str, line: bytes, size: int) -> str:
        self.state.unread += 1
        return super().unreadable(reason, line, size)

    def finish(self, reason: str) -> None:
        if self.state.unread and not self.state.is_stated and reason != "reset":
            self.state.is_stated = True
            lines = f"{self.state.line} line{'' if self.state.line == 1 else 's'}"
            self.notice("unknown-format", f"none of {lines} is in a format that tooltap knows", "warning")


_BEFORE = frozenset({"session", "notice", "unparsed"})
"""Kinds of events that may come before the prompt."""


class GivenPrompt(msgspec.Struct, omit_defaults=True):
    """The prompt that the publisher knows because it started the agent with it; emitted as a message of the user.

    If the dialect's streams never show such a prompt (`Dialect.shows_prompts`), it follows the start of the first turn.
    Otherwise it is emitted only if the stream begins without a prompt, before the first other content.
    """

    stage: Literal["due", "said", "over"] = "due"
    """`due`: not emitted yet; `said`: emitted, but the stream may still show it itself; `over`: nothing left to do."""
    digest: int = 0
    """CRC-32 of the emitted prompt."""

    def place(self, items: list[Item], parser: Parser, prompt: str | None, *, is_end: bool = False) -> list[Item]:
        """Insert the prompt into a line's items. `is_end`: the items are those of the end of the stream."""
        if prompt is None:
            self.stage = "over" if self.stage == "due" else self.stage
        shown = builtin()[parser.dialect].shows_prompts if parser.dialect in builtin() else True
        for at, item in enumerate(items):
            if not isinstance(item, Produced) or item.partial or item.replay or item.kind in _BEFORE:
                continue
            is_start = item.kind == "turn" and item.fields.state == "started"
            if item.kind == "message" and item.fields.role == "user" and item.agent is None:
                return self._stated(items, at, item.fields.text)
            if self.stage == "said" and not is_start:
                self.stage = "over"
                return items
            if self.stage == "due" and prompt is not None and (not is_start or not shown):
                return self._say(items, at + is_start, parser, prompt, item)
        if self.stage == "due" and prompt is not None and is_end:
            return self._say(items, len(items), parser, prompt, None)
        return items

    def _stated(self, items: list[Item], at: int, text: str) -> list[Item]:
        """Handle a prompt that the stream shows: remove it if it repeats the one emitted here."""
        repeats = self.stage == "said" and zlib.crc32(text.encode()) == self.digest
        self.stage = "over"
        return items[:at] + items[at + 1 :] if repeats else items

    def _say(self, items: list[Item], at: int, parser: Parser, prompt: str, beside: Produced | None) -> list[Item]:
        if any(_is_prompt(item) for item in items[at:]):
            self.stage = "over"
            return items
        self.stage, self.digest = "said", zlib.crc32(prompt.encode())
        place = {} if beside is None else {"session": beside.session, "turn": beside.turn, "ts": beside.ts}
        before = len(parser.items)
        parser.emit(Message, role="user", text=prompt, agent=None, parent=None, replay=False, **place)
        said = parser.items[before:]
        del parser.items[before:]
        return [*items[:at], *said, *items[at:]]


def _is_prompt(item: Item) -> bool:
    if not isinstance(item, Produced) or item.partial:  # whoever asks for partials gets the same events
        return False
    return item.kind == "message" and item.fields.role == "user" and item.agent is None


def can_answer(dialect: str) -> bool:
    """Whether a dialect can word answers for its agent. Raises `UnknownDialectError`."""
    return parser_class(dialect).word_answer is not Parser.word_answer


AUTO = "auto"
REPORTED_ELSEWHERE = "told-elsewhere"
"""The reason to skip a line whose events another stream has reported; a reason of streams, not of dialects."""

SETTLED_INDEX = 2_000_000
"""First index in the ids of events that `settle` emits between lines; `PARENT_INDEX` and resets use lower ones."""

Output: TypeAlias = Produced | OutputChunk
Keep: TypeAlias = Callable[[list[Item]], list[Item]]


class _Dump(msgspec.Struct):
    dialect: str
    parser: bytes
    held: Undecided
    statistics: Statistics
    prompt: GivenPrompt = msgspec.field(default_factory=lambda: GivenPrompt("over"))


class StreamNormalizer:
    """Lines in, events out. `dialect`: a name, or `auto`. Raises `UnknownDialectError`."""

    def __init__(self, context: Context, dialect: str = AUTO) -> None:
        self.context = context
        self._held = Undecided()
        self._prompt = GivenPrompt("over" if context.prompt is None else "due")
        self._partials = context.partials
        self._recognising = dialect == AUTO
        self._parser: Parser = Unknown(context) if dialect == AUTO else parser_class(dialect)(context)
        self.on_line: Callable[[Sequence[Output]], object] | None = None
        """Called with the outputs of each line, after it was counted."""
        self.on_failure: Callable[[Exception], object] | None = None
        """Called with what was raised at a line, or at the end of the stream."""
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
    def written(self) -> int | None:
        """When the last line was written, in ms since the epoch: as stated, else as received; see `Times`."""
        latest: int | None = self._parser.state.times.latest
        return latest

    @property
    def states_times(self) -> bool:
        """Whether a line has stated when it was written."""
        return self._parser.state.times.stated is not None

    @property
    def cwd(self) -> str | None:
        """The folder in which the agent works, as far as the lines have stated it."""
        cwd: str | None = self._parser.state.cwd
        return cwd

    @property
    def needs_prompt(self) -> bool:
        """Whether no event has the prompt of the context yet."""
        return self._prompt.stage == "due"

    @property
    def lines(self) -> int:
        """Lines fed so far, including those held for recognition."""
        return int(self._parser.state.line) + len(self._held.lines)

    @property
    def holds_lines(self) -> bool:
        """Whether lines wait for recognition; they have no class yet."""
        return bool(self._held.lines)

    def want_partials(self, wanted: bool) -> None:
        """Switch partial events on or off from here on; other events do not change."""
        self._partials = wanted
        self._parser.partials = wanted

    def set_parent(self, parent: str, index: int, t: int) -> list[Output]:
        """Set the call that started this stream's agent; called between two lines. Later events state it themselves;
        the returned event states it for the earlier ones. `index`: number of this event between the lines."""
        self.context = msgspec.structs.replace(self.context, parent=parent)
        parser = self._parser
        parser.context = self.context
        parser.begin_between_lines(index, t)
        parser.emit(SessionEvent, state="updated", turn=None, synthetic=True)
        items, parser.items = parser.items, []
        return self._finish(items)

    def watch(self, watch: Watch | None) -> None:
        """Show every object to `watch` when it is parsed; None: stop."""
        self._parser.watch = watch

    def feed(
        self,
        line: bytes | LongLine,
        t: int | None = None,
        direction: Direction | None = None,
        keep: Keep | None = None,
    ) -> list[Output]:
        """Feed one line, without its newline; returns what to store and show, in order.

        `keep` filters the line's items: it returns those that no other stream has reported. The others are dropped,
        although the parser has read them. Only for streams whose dialect is named: of lines that `auto` held,
        everything is kept.
        """
        outputs: list[Output] = []
        self._feed(line, t, direction, keep, outputs)
        return outputs

    def feed_failed(
        self, line: bytes | LongLine, reason: str, t: int | None = None, direction: Direction | None = None
    ) -> list[Output]:
        """Take a line as `unparsed` without parsing it, because inspecting it raised elsewhere."""
        head, size = (line.head, line.size) if isinstance(line, LongLine) else (line, None)
        held = HeldLine(head, size, t, direction, reason)
        if not self._recognising:
            return self._fail(held)
        self._held.add(held)
        outputs: list[Output] = []
        if self._parser.state.line or not self._held.may_grow(self.context.limits):
            self._release(outputs)
        return outputs

    def feed_block(
        self,
        lines: Iterable[bytes | LongLine],
        t: int | None = None,
        direction: Direction | None = None,
        outputs: list[Output] | None = None,
    ) -> list[Output]:
        """Feed lines that came together, with one time and direction; returns what to store and show, in order.

        `outputs`: the list to which that is appended, and which is returned. If the parser cannot go on at a line, the
        outputs of the lines before it are there.
        """
        outputs = [] if outputs is None else outputs
        if not self._recognising:
            self._parse(lines, t, direction, None, outputs)
        else:
            for line in lines:
                self._feed(line, t, direction, None, outputs)
        return outputs

    def lost(self, lines: int, size: int, reason: str, t: int | None = None) -> list[Output]:
        """Record that the publisher could not keep `lines` lines, `size` bytes together."""
        outputs: list[Output] = []
        self._release(outputs)
        after = self._parser.state.line + lines
        try:
            _, items = self._parser.lost(lines, size, reason, t)
            self._recount(self._parser)
        except Exception as error:
            items = self._reset(error, after, t)
        self.statistics.lines += lines
        self.statistics.bytes += size
        self.statistics.count_skip("lost", lines)
        return outputs + self._finish(items)

    @property
    def is_unsettled(self) -> bool:
        """Whether `settle` has something to emit, because the parser holds something back, or a turn may have ended."""
        return not self._recognising and self._parser.is_unsettled

    @property
    def is_asking(self) -> bool:
        """Whether the agent waits for an answer: a request is pending, or a call of a tool that asks is open."""
        if self._recognising:
            return False
        state = self._parser.state
        return bool(state.permissions.pending) or any(call.name in ASKING for call in state.calls.open.values())

    @property
    def envelope(self) -> dict[str, Any]:
        """What events of the stream itself say of where they come from: `v`, `protocol`, `provider`, `dialect`."""
        parser = self._parser
        return {
            "v": SCHEMA_VERSION,
            "protocol": parser.protocol,
            "provider": parser.provider,
            "dialect": parser.dialect,
        }

    def is_pending(self, permission_id: str) -> bool:
        """Whether a permission request has neither an answer nor an end."""
        return permission_id in self._parser.state.permissions.pending

    def answer(self, request: dict[str, Any], chosen: Chosen) -> ForAgent:
        """Word an answer to a pending `permission-request`, given as a JSON object. Raises `NotOfferedError`,
        `CannotWriteError`."""
        return self.word_answer(request, chosen, choose(request, chosen))

    def word_answer(self, request: dict[str, Any], chosen: Chosen, option: dict[str, Any] | None) -> ForAgent:
        """Word an answer with one of the request's options, whatever is offered. Raises `NotOfferedError`,
        `CannotWriteError`."""
        return self._parser.word_answer(request, chosen, option)

    def prompt(self, session: str, text: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        """Word a prompt for the agent of a session. `id`: that of the frame. Raises `CannotWriteError`."""
        return self._parser.word_prompt(session, text, id)

    def interrupt(self, session: str, id: str) -> ForAgent:  # noqa: A002 -- the schema's word
        """Word an interrupt of a session's turn. `id`: that of the frame. Raises `CannotWriteError`."""
        return self._parser.word_interrupt(session, id)

    @property
    def interrupt_cancels(self) -> bool:
        """Whether a client that interrupts a turn also cancels what the agent asks in it."""
        return self._parser.INTERRUPT_CANCELS

    def joined(self, session: str) -> int | None:
        """Return the start of the turn in whose middle this stream has joined a session, in ms since the epoch; None if
        it was there from the start of each turn."""
        return self._parser.joined(session)

    def settle(self, t: int | None = None, keep: Keep | None = None) -> list[Output]:
        """Emit what is held back, and provisional ends of turns: the stream has been silent for a while. `keep`: as in
        `feed`."""
        parser = self._parser
        try:
            items = parser.settle_all(SETTLED_INDEX)
            return self._finish(items if keep is None else keep(items))
        except Exception as error:
            return self._finish(self._reset(error, parser.state.line, t))

    def close(self, reason: str, t: int | None = None, process: ProcessEnd | None = None) -> list[Output]:
        """End the stream. `reason`: end, suspended-too-long, … Lines may still follow and reopen it. `process`: how the
        agent's process ended, if its tap states it."""
        outputs: list[Output] = []
        self._release(outputs)
        prompt = self._prompt
        before = prompt.stage, prompt.digest
        items: list[Item] = []
        try:
            items = self._parser.close(reason, t, process)
            self._recount(self._parser)
            if prompt.stage != "over":
                items = prompt.place(items, self._parser, self.context.prompt, is_end=True)
            return outputs + self._finish(items)
        except Exception as error:
            prompt.stage, prompt.digest = before
            self._parser.items = items or self._parser.items
            return outputs + self._finish(self._reset(error, self._parser.state.line, t, at_end=True))

    def reset(self, error: Exception, t: int | None) -> list[Output]:
        """Continue with a fresh state after the last line, because the state cannot be dumped."""
        return self._finish(self._reset(error, self._parser.state.line, t))

    def restart(self, lines: int, statistics: Statistics, left: LeftOpen, t: int | None = None) -> list[Output]:
        """Continue after `lines` lines with a fresh state, because the stored one is lost; closes what it left open."""
        self.statistics = statistics
        statistics.provider = self._parser.provider
        self._parser.forget_inner()
        return self._finish(restart(self._parser, lines, statistics, left, t))

    def dump(self) -> bytes:
        return msgspec.msgpack.encode(
            _Dump(self.dialect or AUTO, self._parser.dump(), self._held, self.statistics, self._prompt)
        )

    @classmethod
    def load(cls, data: bytes, context: Context) -> Self:
        """Restore a normalizer from a dump. Raises `msgspec.DecodeError`, `msgspec.ValidationError` or
        `UnknownDialectError`."""
        dump = msgspec.msgpack.decode(data, type=_Dump)
        normalizer = cls(context, dump.dialect)
        normalizer._parser = type(normalizer._parser).load(dump.parser, context)
        normalizer._held = dump.held
        normalizer.statistics = dump.statistics
        normalizer._prompt = dump.prompt
        return normalizer

    def _feed(
        self,
        line: bytes | LongLine,
        t: int | None,
        direction: Direction | None,
        keep: Keep | None,
        outputs: list[Output],
    ) -> None:
        """See `feed`. Appends to `outputs`."""
        if not self._recognising:
            self._parse((line,), t, direction, keep, outputs)
            return
        head, size = (line.head, line.size) if isinstance(line, LongLine) else (line, None)
        held = HeldLine(head, size, t, direction)
        self._held.add(held)
        try:
            if size is None and (chosen := self._held.decide(head, self.context.limits.depth)) is not None:
                self._choose(chosen)
        except Exception as error:
            self._note(error)
            held.failed = reason_of(error)
        if not self._recognising or self._parser.state.line or not self._held.may_grow(self.context.limits):
            self._release(outputs)

    def _release(self, outputs: list[Output]) -> None:
        """Parse the held lines. Appends to `outputs`."""
        held, self._held = self._held.lines, Undecided()
        for one in held:
            if one.failed is not None:
                outputs += self._fail(one)
                continue
            line = one.line if one.size is None else LongLine(one.line, one.size)
            self._parse((line,), one.t, one.direction, None, outputs)

    def _choose(self, dialect: str) -> None:
        """Set the dialect from here on."""
        parser = parser_class(dialect)(self.context)
        parser.state.line, parser.state.broken = self._parser.state.line, self._parser.state.broken
        parser.partials = self._partials
        parser.watch = self._parser.watch
        self._parser = parser
        self._recognising = False
        self.statistics.dialect = dialect

    def _parse(
        self,
        lines: Iterable[bytes | LongLine],
        t: int | None,
        direction: Direction | None,
        keep: Keep | None,
        outputs: list[Output],
    ) -> None:
        """Parse lines. Appends to `outputs`."""
        statistics, prompt = self.statistics, self._prompt
        skipped = statistics.skipped
        for line in lines:
            earlier = self._let_go(line, t, keep) if self._parser.state.broken.fragments else None
            if earlier:
                outputs += earlier
            parser = self._parser
            number = parser.state.line + 1
            before = prompt.stage, prompt.digest
            try:
                if isinstance(line, LongLine):
                    skip, size = parser.take_long(line, t), line.size
                else:
                    skip, size = parser.take_line(line, t, direction), len(line)
                items = parser.items  # until the line is done, so that they can be taken back
                if keep is not None and items and not (items := keep(items)) and skip != UNPARSED:
                    skip = REPORTED_ELSEWHERE
                if items and prompt.stage != "over":
                    items = prompt.place(items, parser, self.context.prompt)
                    skip = skip if items else REPORTED_ELSEWHERE
                if items:
                    items = self._within_bounds(items)
                if parser.repaired:
                    statistics.repaired += 1 + parser.earlier.count(JOINED)
            except Exception as error:
                prompt.stage, prompt.digest = before
                head, size = (line.head, line.size) if isinstance(line, LongLine) else (line, len(line))
                items, skip = self._contain(error, head, size, number, t), UNPARSED
                self._recount(parser, skip)
                parser = self._parser
            # Nothing raises from here on: each line is counted once.
            if parser.items:
                parser.items = []
            if parser.extensions:
                for method in parser.extensions:
                    statistics.count_extension(method)
                parser.extensions = []
            if parser.earlier:
                self._recount(parser, skip)
            statistics.lines += 1
            statistics.bytes += size
            if skip is None:
                statistics.with_events += 1
            elif skip == UNPARSED:
                statistics.unparsed += 1
            elif skip in skipped:
                skipped[skip] += 1
            else:
                statistics.count_skip(skip)
            if items:
                self._count(items)
                outputs += items
            if self.on_line is not None:
                statistics.provider = parser.provider
                self._show(earlier + items if earlier else items)
        statistics.provider = self._parser.provider

    def _let_go(self, line: bytes | LongLine, t: int | None, keep: Keep | None) -> list[Output]:
        """Return the outputs of lines that the parser held back, unless `line` may go on with them."""
        parser = self._parser
        try:
            items = parser.let_go(line)
            if keep is not None and items:
                items = keep(items)
        except Exception as error:
            items = self._reset(error, parser.state.line, t)
        self._recount(parser)
        return self._finish(items)

    def _recount(self, parser: Parser, skip: Skip = None) -> None:
        """Count the lines that were held back, and were counted as lines with events until now. `skip`: outcome of the
        record that they were joined to."""
        statistics = self.statistics
        for outcome in parser.earlier:
            outcome = skip if outcome == JOINED else outcome
            if outcome is not None:
                statistics.with_events -= 1
                statistics.count_skip(outcome)
        parser.earlier.clear()

    def _show(self, outputs: Sequence[Output]) -> None:
        """Show the outputs of a line to `on_line`; if that raises, it is not called again."""
        try:
            if self.on_line is not None:
                self.on_line(outputs)
        except Exception as error:
            self.on_line = None
            self._note(error)

    def _fail(self, line: HeldLine) -> list[Output]:
        """Take a held line as `unparsed`, because inspecting it raised."""
        size = len(line.line) if line.size is None else line.size
        number = self._parser.state.line + 1
        items = self._failed(str(line.failed), line.line, size, number, line.t)
        statistics = self.statistics
        statistics.lines += 1
        statistics.bytes += size
        statistics.unparsed += 1
        self._count(items)
        return items

    def _note(self, error: Exception) -> None:
        if self.on_failure is not None:
            self.on_failure(error)

    def _contain(self, error: Exception, head: bytes, size: int, number: int, t: int | None) -> list[Output]:
        """Return the outputs of line `number`, at which something raised: an `unparsed` event, and those of a reset."""
        parser = self._parser
        self._note(error)
        reason = reason_of(error)
        taken_back = parser.take_back()
        reset: list[Item] = []
        if not taken_back and not may_have_changed(error):
            try:  # the next line finds nothing of this one but what the state has of it
                self._go_on_with(type(parser).load(parser.dump(), self.context))
            except Exception:
                taken_back = []
            else:
                return self._failed(reason, head, size, number, t)
        text = f"line {number} raised an error, so what was open is closed, and the stream continues with a fresh state"
        fresh, reset = replace(parser, number, self.statistics, taken_back, t, text)
        self._go_on_with(fresh)
        return self._failed(reason, head, size, number, t) + self._within_bounds(reset)

    def _go_on_with(self, parser: Parser) -> None:
        parser.partials, parser.watch = self._partials, self._parser.watch
        self._parser = parser

    def _failed(self, reason: str, head: bytes, size: int, number: int, t: int | None) -> list[Item]:
        parser = self._parser
        parser.state.line = number - 1
        parser.fail(reason, head, size, t)
        self._recount(parser)
        items, parser.items = parser.items, []
        return items

    def _reset(self, error: Exception, lines: int, t: int | None, *, at_end: bool = False) -> list[Item]:
        """Replace a parser that raised between lines, or at the end; returns what closes everything that was open."""
        self._note(error)
        parser = self._parser
        taken_back = parser.take_back()
        where = "the end of the stream" if at_end else f"line {lines}"
        text = f"{type(error).__name__} at {place_of(error)}, at {where}: the stream continues with a fresh state"
        fresh, items = replace(parser, lines, self.statistics, taken_back, t, text)
        self._recount(parser)
        self._go_on_with(fresh)
        return items

    def _finish(self, items: list[Item]) -> list[Output]:
        """Apply size limits to the parser's items, and count them."""
        items = self._within_bounds(items)
        self._count(items)
        return items

    def _count(self, items: Iterable[Output]) -> None:
        statistics = self.statistics
        kinds = statistics.kinds
        for item in items:
            if isinstance(item, OutputChunk) or item.partial:
                continue
            kind = item.kind
            kinds[kind] = kinds.get(kind, 0) + 1
            statistics.events += 1
            if kind == "tool-call":
                statistics.count_call(item.tool, item.raw_tool)

    def _within_bounds(self, items: list[Item]) -> list[Output]:
        longest = self.context.limits.string_bytes
        for item in items:
            if isinstance(item, Produced) and len(item.body) > longest:
                return bounded(items, self.context.limits, self._parser.new_output_id)
        return items
