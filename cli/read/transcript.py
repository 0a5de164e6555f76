"""Renders a session as text for a terminal, event by event, in order and with bounded memory. `daemon/show` decides
what is shown of each event; this module lays it out in columns. It prints nothing itself.

A call is one line with its result, so it waits for the result, and later items wait for the call. The wait is bounded:
after `HELD` items, or when a subagent begins to work for the call, it is shown as open, and its end gets a line of its
own.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, NamedTuple

import msgspec

from tooltap.cli.common.columns import columns_of, fit, fit_end, wrapped
from tooltap.cli.common.printing import Clean, joined, short, styled
from tooltap.daemon.formats import counted, dollars, is_cost_bound, rounded, spent, tool_name, without_marks
from tooltap.daemon.sessions.listing import name_of, origins_of, status_of, successors_of
from tooltap.daemon.sessions.resuming import in_shell, resume_of
from tooltap.daemon.sessions.row import first_line_of
from tooltap.daemon.show import blocks, diff
from tooltap.daemon.show.blocks import RenderContext
from tooltap.daemon.show.bodies import (
    BACKGROUND,
    error_text,
    is_bad_end,
    milliseconds_of,
    user_attachments,
    user_text,
)
from tooltap.daemon.show.diff import FileDiff, whole
from tooltap.daemon.show.facts import Fact
from tooltap.daemon.show.shown import Shown, shown_of
from tooltap.daemon.show.timeline import looks, only_looked
from tooltap.daemon.show.turn_naming import TurnNaming
from tooltap.daemon.system.sanitize import one_line, sanitize
from tooltap.daemon.views.select import ASK
from tooltap.normalizers.tools.registry import family_of
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
)

HELD = 200
"""Maximum number of items that wait behind a call for its result."""
MAX_AGENTS = 10_000
MAX_BACKGROUND = 1_000
DEEPEST = 5
"""Maximum indentation, in levels of subagents."""
MIN_NAME = 12
"""Columns reserved for the name of a turn, however long the text after it is."""
REASONING_LINES, SYSTEM_LINES, ERROR_LINES, PROMPT_LINES = 2, 3, 4, 40
"""Lines shown of each text without `full`."""
SIGNS = {"+": "green", "-": "red"}


class _Turn(NamedTuple):
    name: str
    began: int | None
    calls: int = 0


class _Lines(NamedTuple):
    lines: list[Clean]
    agent: str | None


class _Waiting:
    """A call in the queue of items."""

    def __init__(self, call: CallWithResult, agent: str | None, *, is_late: bool = False) -> None:
        self.call = call
        self.agent = agent
        self.is_opened = False
        """Whether the call's line is shown without its result."""
        self.is_late = is_late
        """Whether this is a separate line for the result, after the call's own line."""


class Transcript:
    """Renders the events of a session as lines. `columns`: width of the terminal. `full`: show outputs, changes and
    whole texts. `cwd`: the folder to which paths are relative."""

    def __init__(self, *, columns: int, colour: bool, full: bool, cwd: str | None) -> None:
        self._columns = columns
        self._colour = colour
        self._full = full
        self._cwd = cwd
        self._items: deque[_Lines | _Waiting] = deque()
        self._open: dict[tuple[str, str], _Waiting] = {}
        self._folded: list[_Waiting] = []
        self._agents: dict[str, tuple[int, str]] = {}
        """Subagent -> its nesting level and name."""
        self._shown_agent: str | None = None
        self._background: dict[tuple[str, str], _Waiting] = {}
        """Calls that continue in the background after their first result."""
        self._turns: dict[str | None, _Turn] = {}
        """Open turns of the main agent."""
        self._settled: dict[str | None, Turn] = {}
        """Provisional ends of turns, shown only where no other end follows."""
        self._turns_begun = 0
        self._naming = TurnNaming[str]()
        self._latest_turn: str | None = None

    def add(self, event: Event) -> Iterator[Clean]:
        """Add the next event, and yield the lines that can be shown now."""
        show = _KINDS.get(type(event))
        if show is None or getattr(event, "partial", False) or event.replay:
            return
        if event.agent is not None and event.agent not in self._agents:
            self._meet(event)
        if self._settled and event.agent is None and isinstance(event, Message | Reasoning | ToolCall):
            self._settled.pop(event.turn, None)
        self._name_turn(event)
        show(self, event)
        while len(self._items) > HELD:
            yield from self._first()
        yield from self._ready()

    def end(self) -> Iterator[Clean]:
        """Yield all remaining lines, without waiting for results."""
        for event in self._settled.values():
            self._end_turn(event)
        while self._items:
            yield from self._first()
        yield from self._unfold()

    # -- one method per kind ----------------------------------------------------------------------

    def _message(self, event: Message) -> None:
        room = self._room(event)
        if event.role == "assistant":
            self._put(event, self._prose(prose(event.text, room)))
        elif event.role == "user":
            most = None if self._full else PROMPT_LINES
            lines = plain_lines(event.text, room - 2, most)
            self._put(event, [joined([]), *(self._styled(f"> {line}", "cyan") for line in lines)])
        else:
            most = None if self._full else SYSTEM_LINES
            self._put(event, [self._styled(line, "dim") for line in plain_lines(event.text, room, most)])
        for one in event.attachments or ():
            about = one_line(f"{one.mime_type} {one.name or one.uri or ''}")
            self._put(event, [self._styled(fit(f"▫ {about}", room), "cyan")])

    def _reasoning(self, event: Reasoning) -> None:
        most = None if self._full else REASONING_LINES
        text = without_marks(event.text)
        text = text if self._full else " ".join(text.split())
        lines = plain_lines(text, self._room(event) - 2, most)
        self._put(event, [self._styled(f"{' ' if number else '∴'} {line}", "dim") for number, line in enumerate(lines)])

    def _call(self, event: ToolCall) -> None:
        if (turn := self._turns.get(event.turn)) is not None:
            self._turns[event.turn] = turn._replace(calls=turn.calls + 1)
        waiting = _Waiting(CallWithResult.of(event, self._cwd), event.agent)
        self._open[event.stream, event.call_id] = waiting
        if event.hidden:
            waiting.is_opened = True  # a result that is shown gets a line of its own
        else:
            self._items.append(waiting)

    def _update(self, event: ToolUpdate) -> None:
        """Update a call's input, preview and title: some agents announce a call before its arguments are known."""
        waiting = self._open.get((event.stream, event.call_id))
        if waiting is None or (event.input is None and event.preview is None and event.title is None):
            return
        before = waiting.call.call
        call = msgspec.structs.replace(
            before,
            input=before.input if event.input is None else event.input,
            preview=event.preview or before.preview,
            title=event.title or before.title,
        )
        waiting.call = CallWithResult.of(call, self._cwd)

    def _result(self, event: ToolResult) -> None:
        key = event.stream, event.call_id
        waiting = self._open.pop(key, None)
        if event.hidden:
            return
        if waiting is None:  # its call is not here, or this corrects a result
            if event.replaces is None and not event.final:
                return
            waiting = self._background.pop(key, None) or _without_call(event)
            waiting.is_opened = True
        elif event.async_ and len(self._background) < MAX_BACKGROUND:
            self._background[key] = waiting
        ended = waiting.call.ended(event)
        if waiting.is_opened:
            self._items.append(_Waiting(ended, waiting.agent, is_late=True))
        else:
            waiting.call = ended

    def _permission(self, event: PermissionRequest) -> None:
        shown = _shown(event)
        name = tool_name(event.name) if event.name else shown.title
        about = "" if shown.preview == name else shown.preview
        what = one_line(f"{one_line(name, 60)} {about}", 400)
        self._put(event, [self._styled(fit(f"{shown.icon} asks: {what}", self._room(event)), "yellow")])

    def _answer(self, event: PermissionResponse) -> None:
        shown = _shown(event)
        text = one_line(f"{shown.icon} {shown.title} {shown.preview} {event.message or ''}", 400)
        self._put(event, [self._styled(fit(text, self._room(event)), "yellow")])

    def _notice(self, event: Notice) -> None:
        if event.level != "info":
            shown = _shown(event)
            style = "red" if event.level == "error" else "yellow"
            text = f"{shown.icon} {shown.title}: {shown.preview}"
            lines = plain_lines(text, self._room(event), ERROR_LINES)
            self._put(event, [self._styled(line, style) for line in lines])

    def _unparsed(self, event: Unparsed) -> None:
        shown = _shown(event)
        text = one_line(f"{shown.icon} {shown.title}: {shown.preview}: {event.text}", 400)
        self._put(event, [self._styled(fit(text, self._room(event)), "dim")])

    def _turn(self, event: Turn) -> None:
        if event.agent is not None:
            return
        if event.state == "started":
            self._turns_begun += 1
            name = self._naming.start() or f"turn {self._turns_begun}"
            self._latest_turn = event.turn
            if len(self._turns) < MAX_BACKGROUND:
                self._turns[event.turn] = _Turn(name, event.ts)
        elif event.provisional:
            self._settled = {event.turn: event}
        else:
            self._settled.pop(event.turn, None)
            self._end_turn(event)

    def _name_turn(self, event: Event) -> None:
        """Name the latest turn by what the user says in it, or said before it."""
        if isinstance(event, ToolCall) or (isinstance(event, Message) and event.role == "assistant"):
            self._naming.act()
        elif isinstance(event, Message) and event.role == "user" and event.agent is None:
            said = first_line_of(event.text)
            is_over = self._latest_turn in self._settled
            turn = None if is_over else self._turns.get(self._latest_turn)
            if said and self._naming.say(said, in_turn=turn is not None) and turn is not None:
                self._turns[self._latest_turn] = turn._replace(name=said)

    def _end_turn(self, event: Turn) -> None:
        shown = _shown(event)
        turn = self._turns.pop(event.turn, None) or _Turn(f"turn {max(self._turns_begun, 1)}", None)
        took = event.duration_ms
        if took is None and turn.began is not None and event.ts is not None:
            took = event.ts - turn.began
        facts = [(event.state == "failed" and shown.preview) or shown.status]
        facts += [shown_time] if (shown_time := spent(took)) else []
        facts += [counted(turn.calls, "call")] if turn.calls else []
        rest = f" · {one_line(' · '.join(facts), 200)}"
        name = fit(one_line(turn.name, 200), max(self._columns - len(rest) - 5, MIN_NAME))
        head = fit(f"── {name}{rest} ", self._columns)
        self._put(event, [self._styled(head + "─" * (min(self._columns, 100) - len(head)), "blue")])

    def _session(self, event: SessionEvent) -> None:
        if is_bad_end(event):
            shown = _shown(event)
            self._put(
                event, [self._styled(fit(f"{shown.icon} {shown.title}: {shown.preview}", self._columns), "yellow")]
            )

    # -- the order of items ---------------------------------------------------------------------

    def _put(self, event: Event, lines: Iterable[Clean]) -> None:
        self._items.append(_Lines(list(lines), event.agent))

    def _ready(self) -> Iterator[Clean]:
        """Yield the items before the first call that waits for its result."""
        while self._items:
            first = self._items[0]
            if isinstance(first, _Waiting) and first.call.result is None and not first.is_opened:
                return
            yield from self._first()

    def _first(self) -> Iterator[Clean]:
        item = self._items.popleft()
        if isinstance(item, _Waiting):
            if item.call.result is None:
                item.is_opened = True
            elif item.call.is_quiet and not self._full:
                if self._folded and self._folded[0].agent != item.agent:
                    yield from self._unfold()
                self._folded.append(item)
                return
            yield from self._unfold()
            yield from self._indented(item.agent, self._lines_of(item))
        elif item.lines:
            yield from self._unfold()
            yield from self._indented(item.agent, item.lines)

    def _unfold(self) -> Iterator[Clean]:
        run, self._folded = self._folded, []
        if not run:
            return
        agent = run[0].agent
        if len(run) == 1:
            yield from self._indented(agent, self._lines_of(run[0]))
            return
        names = dict.fromkeys(one.call.argument for one in run if one.call.argument)
        head = f"✓ {looks([one.call.family for one in run])}"
        shown = fit(f"{head}  {', '.join(names)}", self._columns - 2 * self._level(agent))
        line = [self._styled("✓", "green"), self._styled(head[1:], "bold"), self._styled(shown[len(head) :], "dim")]
        yield from self._indented(agent, [joined(line)])

    # -- lines ----------------------------------------------------------------------------------

    def _lines_of(self, item: _Waiting) -> Iterator[Clean]:
        room = self._columns - 2 * self._level(item.agent)
        call, result = item.call, item.call.result
        yield call_line(call, room, colour=self._colour)
        if self._full and not item.is_late:
            yield from self._changes(call.call, room)
        if result is None:
            return
        changes = self._full and not item.is_late and bool(changes_of(call.call))
        output = user_text(result, has_change=changes) if self._full else ""
        if (error := error_text(result)) and error not in output:
            most = None if self._full else ERROR_LINES
            yield from (self._styled(f"    {line}", "red") for line in plain_lines(error, room - 4, most))
        if output:
            yield from (self._styled(f"    {line}", "dim") for line in plain_lines(output, room - 4))
            if result.outputs:
                yield self._styled(fit(f"    … the whole: tooltap show {result.seq} --view assistant", room), "yellow")
        if self._full and result.ask and not result.silent:
            yield self._styled(fit(f"    {ASK} tooltap show {result.seq}", room), "yellow")
        for one in user_attachments(result) if self._full else ():
            about = one_line(f"{one.mime_type} {one.name or one.uri or ''}")
            yield self._styled(fit(f"    ▫ {about}: tooltap show {result.seq}", room), "cyan")

    def _changes(self, call: ToolCall, room: int) -> Iterator[Clean]:
        for change in changes_of(call):
            if change.path:
                yield self._styled(fit(f"    {one_line(change.path, 400)}", room), "blue")
            for hunk in change.hunks:
                for line in hunk.lines:
                    for part in plain_lines(f"{line.sign}{line.text}", room - 4):
                        yield self._styled(f"    {part}", SIGNS.get(line.sign, "dim"))

    def _indented(self, agent: str | None, lines: Iterable[Clean]) -> Iterator[Clean]:
        level = self._level(agent)
        if agent is not None and agent != self._shown_agent:
            name = self._agents.get(agent, (1, agent))[1]
            bars = "│ " * (level - 1)
            yield self._styled(fit(f"{bars}┌ {name}", self._columns), "magenta")
        self._shown_agent = agent
        bars = "│ " * level
        for line in lines:
            yield joined([bars, line]) if bars else line

    def _prose(self, lines: Iterator[TextLine]) -> Iterator[Clean]:
        for text, style in lines:
            yield self._styled(text, style) if style else joined([text])

    def _styled(self, text: str, style: str) -> Clean:
        return styled(text, style) if self._colour else joined([text])

    # -- subagents ------------------------------------------------------------------------------

    def _meet(self, event: Event) -> None:
        """Register a subagent at its first event; the call that spawned it is shown without its result."""
        key = event.stream, event.parent or ""
        spawned_by = self._open.get(key) or self._background.get(key)
        level, name = 0, event.agent or ""
        if spawned_by is not None:
            spawned_by.is_opened = True
            level, name = self._level(spawned_by.agent), spawned_by.call.argument or name
        if len(self._agents) < MAX_AGENTS:
            self._agents[str(event.agent)] = min(level + 1, DEEPEST), one_line(name, 100)

    def _level(self, agent: str | None) -> int:
        return 0 if agent is None else self._agents.get(agent, (1, ""))[0]

    def _room(self, event: Event) -> int:
        return self._columns - 2 * self._level(event.agent)


def _without_call(event: ToolResult) -> _Waiting:
    """Stand-in for a call that is not among the events."""
    envelope = {name: getattr(event, name) for name in Event.__struct_fields__}
    call = ToolCall(**envelope, call_id=event.call_id, name=event.name, input={}, status="running")
    return _Waiting(CallWithResult.of(call, None), event.agent)


_KINDS: dict[type[Event], Callable[[Transcript, Any], None]] = {
    Message: Transcript._message,
    Reasoning: Transcript._reasoning,
    ToolCall: Transcript._call,
    ToolUpdate: Transcript._update,
    ToolResult: Transcript._result,
    PermissionRequest: Transcript._permission,
    PermissionResponse: Transcript._answer,
    Notice: Transcript._notice,
    Unparsed: Transcript._unparsed,
    Turn: Transcript._turn,
    SessionEvent: Transcript._session,
}


# -- calls: one line each, and what they changed ---------------------------------------------------------------------


MARKS = {"completed": ("✓", "green"), "failed": ("✗", "red")}
MAX_ARGUMENT = 400
MIN_ARGUMENT = 12
"""Columns reserved for the argument, however long the text after it is."""
CONTEXT = RenderContext("title", lambda output_id: None, room=MAX_ARGUMENT)


class CallWithResult(NamedTuple):
    """A call and, once it has ended, its result."""

    call: ToolCall
    title: str
    argument: str
    result: ToolResult | None = None
    facts: tuple[Fact, ...] = ()
    """Facts about the result."""
    took: float | None = None
    """Duration of the call in milliseconds."""

    @classmethod
    def of(cls, call: ToolCall, cwd: str | None) -> CallWithResult:
        shown = _shown(call, CONTEXT._replace(cwd=cwd))
        return cls(call, one_line(shown.title, 60), one_line(shown.preview, MAX_ARGUMENT))

    def ended(self, result: ToolResult) -> CallWithResult:
        context = CONTEXT._replace(
            call=blocks.CallOfResult(self.call.name, self.call.input, self.argument, self.call.ts)
        )
        return self._replace(
            result=result, facts=_shown(result, context).facts, took=milliseconds_of(result, self.call.ts)
        )

    @property
    def family(self) -> str:
        return family_of(self.call.name)

    @property
    def is_quiet(self) -> bool:
        """Whether the call only read or searched, and succeeded; such calls share a line."""
        return self.result is not None and only_looked(self.family, self.result.status)


def _shown(event: Event, context: RenderContext = CONTEXT) -> Shown:
    return shown_of(event, context) or Shown("", "")


def call_line(call: CallWithResult, columns: int, *, colour: bool) -> Clean:
    result = call.result
    glyph, style = ("▸", "yellow") if result is None else MARKS.get(result.status, ("■", "magenta"))
    name = fit(call.title, max(columns // 3, 10))
    facts = " · ".join(_call_facts(call))
    room = columns - columns_of(name) - 3
    facts = fit(facts, max(room - MIN_ARGUMENT - 2, 8))
    left = room - (columns_of(facts) + 2 if facts else 0)
    argument = fit_end(call.argument, left) if call.family == "read" else fit(call.argument, left)
    line = [_styled(glyph, style, colour), " ", _styled(name, "bold", colour)]
    if argument:
        line += [" ", argument]
    if facts:
        line += ["  ", _styled(facts, "dim", colour)]
    return joined(line)


def _call_facts(call: CallWithResult) -> Iterator[str]:
    if changed := [fact.text for fact in call.facts if fact.name in ("added", "removed")]:
        yield " ".join(changed)
    if call.result is None:
        return
    if call.result.async_:
        yield BACKGROUND
    elif call.result.status != "completed":
        yield call.result.status
    yield from (fact.text for fact in call.facts if fact.name == "exit")
    yield from (fact.text for fact in call.facts if fact.name == "waited")
    if took := spent(call.took or None):
        yield took


def _styled(text: str, style: str, colour: bool) -> str:
    return styled(text, style) if colour else text


def changes_of(call: ToolCall) -> list[FileDiff]:
    """Return the file changes that the call's input states; a file that is written counts all its lines as added."""
    if call.name == "Write":
        path, content = (call.input.get(key) for key in ("file_path", "content"))
        lines = whole(content if isinstance(content, str) else "", "+")
        return [FileDiff.of(path if isinstance(path, str) else "", "", lines)]
    return diff.changes_of(call.name, call.input)


# -- above a session: its title, and what is known of it -------------------------------------------------------------


def head_lines(
    session: dict[str, Any], successors: Sequence[dict[str, Any]], columns: int, *, colour: bool
) -> Iterator[Clean]:
    """Yield the header of a session: its title, and facts about it. `session`: its row; `successors`: those of the
    sessions that come from it."""
    for line in wrapped(short(name_of(session), 200), columns):
        yield styled(line, "bold") if colour else joined([line])
    facts = [*wrapped(" · ".join(_head_facts(session, successors)), columns)]
    if (words := resume_of(session)) is not None:  # whole, on a line of its own, to be copied: a terminal wraps it
        facts.append(in_shell(words, session.get("cwd")))
    for line in facts:
        yield styled(line, "dim") if colour else joined([line])


def _head_facts(session: dict[str, Any], successors: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield short(" ".join(str(one) for one in (session.get("provider"), session.get("agentVersion")) if one), 60)
    models = session.get("models") or [session.get("model")]
    yield from (short(one, 60) for one in models if isinstance(one, str))
    if where := session.get("project") or session.get("cwd"):
        branch = session.get("branch")
        yield short(f"{where} ({branch})" if branch else where, 100)
    yield from (short(f"{one.words} {one.session}", 100) for one in origins_of(session))
    for words, found in successors_of(session["session"], successors):
        yield f"{words} {', '.join(short(one['session'], 100) for one in found)}"
    yield short(status_of(session), 20)
    first, last = session.get("firstTs"), session.get("lastTs")
    if isinstance(first, int) and isinstance(last, int):
        if began := _date(first):
            yield began
        took = session.get("durationMs")
        yield spent(max(took if isinstance(took, int) else last - first, 0)) or ""
    for key, one in (("turns", "turn"), ("calls", "call"), ("errors", "error")):
        if isinstance(number := session.get(key), int) and number:
            yield counted(number, one)
    tokens = [session.get(key) for key in ("inputTokens", "outputTokens")]
    if any(isinstance(number, int) for number in tokens):
        is_bound = "estimatedOutputTokens" in session
        given, written = (rounded(number, is_bound=is_bound) if isinstance(number, int) else "?" for number in tokens)
        yield f"{given} in, {'at least ' if is_bound else ''}{written} out"
    cost = session.get("costUsd")
    is_bound = is_cost_bound(session)
    if isinstance(cost, int | float) and (shown := dollars(cost, is_bound=is_bound)):
        yield f"{'at least ' if is_bound else ''}{shown}"
    yield short(session["session"], 100)


def _date(milliseconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(milliseconds / 1_000):%Y-%m-%d %H:%M}"
    except (ValueError, OverflowError, OSError):
        return ""


# -- texts of people and models as lines that fit: Markdown without its marks, code as it is -------------------------


_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6} ")
_ITEM = re.compile(r" {0,12}(?:[-*+]|[0-9]{1,3}[.)]) ")
_STRONG = re.compile(r"\*\*([^*\n]{1,300})\*\*")
_CODE = re.compile(r"`([^`\n]{1,300})`")
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\(([^()\s]{1,500})\)")


class TextLine(NamedTuple):
    text: str
    style: str = ""
    """A style of `printing.py`, or empty."""


def prose(text: str, columns: int) -> Iterator[TextLine]:
    """Render Markdown as lines of at most `columns` columns."""
    is_code = False
    for line in sanitize(text).expandtabs(4).strip("\n").split("\n"):
        if _FENCE.match(line):
            is_code = not is_code
        elif is_code:
            yield from (TextLine(part, "cyan") for part in wrapped(f"    {line}", columns, hanging=4))
        elif heading := _HEADING.match(line):
            yield from (TextLine(part, "bold") for part in wrapped(_bare(line[heading.end() :]), columns))
        else:
            item = _ITEM.match(line)
            hanging = item.end() if item else len(line) - len(line.lstrip())
            yield from map(TextLine, wrapped(_bare(line.rstrip()), columns, hanging=min(hanging, columns // 2)))


def plain_lines(text: str, columns: int, most: int | None = None) -> Iterator[str]:
    """Wrap a text without interpreting it. `most`: maximum number of lines; a further line then counts the rest."""
    lines = (part for line in _lines(text) for part in wrapped(line, columns))
    if most is None:
        yield from lines
        return
    yield from islice(lines, most)
    if rest := sum(1 for _ in lines):
        yield f"… {counted(rest, 'more line')}"


def _lines(text: str) -> list[str]:
    return sanitize(text).expandtabs(4).strip("\n").split("\n")


def _bare(line: str) -> str:
    """Strip the inline marks of Markdown: bold, code and links."""
    return _LINK.sub(r"\1 (\2)", _CODE.sub(r"\1", _STRONG.sub(r"\1", line)))
