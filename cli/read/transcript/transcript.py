"""Turns the events of one session into lines, in their order, with bounded memory.

A call is one line, so it waits for its result, and later items wait for the call. It does not wait for long:
after `HELD` items, or when a subagent begins to work for it, the call is shown as open, and its end gets a line of its
own.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from tooltap.cli.common.columns import fit
from tooltap.cli.common.printing import Clean, joined, styled
from tooltap.cli.read.transcript.calls import Call, call_line, changes_of, error_of, output_of, tool_name
from tooltap.cli.read.transcript.prose import Line, plain_lines, prose
from tooltap.daemon.formats import counted, duration
from tooltap.daemon.system.sanitize import one_line
from tooltap.normalizers.tools.registry import family_of
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Unparsed,
)

HELD = 200
"""Items that wait for the result of a call before them."""
MAX_AGENTS = 10_000
MAX_BACKGROUND = 1_000
DEEPEST = 5
"""Levels of subagents that are indented."""
REASONING_LINES, SYSTEM_LINES, ERROR_LINES, PROMPT_LINES = 2, 3, 4, 40
"""Lines of each that are shown without `full`."""
SIGNS = {"+": "green", "-": "red"}


class _Turn(NamedTuple):
    number: int
    began: int | None
    calls: int = 0


class _Lines(NamedTuple):
    lines: list[Clean]
    agent: str | None


class _Waiting:
    """A call in its place."""

    def __init__(self, call: Call, agent: str | None, *, is_late: bool = False) -> None:
        self.call = call
        self.agent = agent
        self.is_opened = False
        """Whether its line has been shown, or is to be, without its result."""
        self.is_late = is_late
        """Whether this is the line of the result, behind that of the call."""


class Transcript:
    """`columns`: of the terminal. `full`: show outputs, changes and whole texts. `cwd`: where paths are relative to."""

    def __init__(self, *, columns: int, colour: bool, full: bool, cwd: str | None) -> None:
        self._columns = columns
        self._colour = colour
        self._full = full
        self._cwd = cwd
        self._items: deque[_Lines | _Waiting] = deque()
        self._open: dict[tuple[str, str], _Waiting] = {}
        self._folded: list[_Waiting] = []
        self._agents: dict[str, tuple[int, str]] = {}
        """Subagent -> its level and what it is called."""
        self._shown_agent: str | None = None
        self._background: dict[tuple[str, str], _Waiting] = {}
        """Calls whose first result said that they continue."""
        self._turns: dict[str | None, _Turn] = {}
        """Turns that have not ended, of the main agent and of subagents."""
        self._turns_begun = 0

    def add(self, event: Event) -> Iterator[Clean]:
        """The lines that can be shown now."""
        show = _KINDS.get(type(event))
        if show is None or getattr(event, "partial", False) or event.replay:
            return
        if event.agent is not None and event.agent not in self._agents:
            self._meet(event)
        show(self, event)
        while len(self._items) > HELD:
            yield from self._first()
        yield from self._ready()

    def end(self) -> Iterator[Clean]:
        """The lines of what still waits."""
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
        text = event.text if self._full else " ".join(event.text.split())
        lines = plain_lines(text, self._room(event) - 2, most)
        self._put(event, [self._styled(f"{' ' if number else '∴'} {line}", "dim") for number, line in enumerate(lines)])

    def _call(self, event: ToolCall) -> None:
        if (turn := self._turns.get(event.turn)) is not None:
            self._turns[event.turn] = turn._replace(calls=turn.calls + 1)
        waiting = _Waiting(Call.of(event, self._cwd), event.agent)
        self._open[event.stream, event.call_id] = waiting
        self._items.append(waiting)

    def _update(self, event: ToolUpdate) -> None:
        """Some agents announce a call before its arguments are known."""
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
        waiting.call = Call.of(call, self._cwd)

    def _result(self, event: ToolResult) -> None:
        key = event.stream, event.call_id
        waiting = self._open.pop(key, None)
        if waiting is None:  # its call is not here, or this corrects a result
            if event.replaces is None and not event.final:
                return
            waiting = self._background.pop(key, None) or _without_call(event)
            waiting.is_opened = True
        elif event.async_ and len(self._background) < MAX_BACKGROUND:
            self._background[key] = waiting
        ended = waiting.call._replace(result=event)
        if waiting.is_opened:
            self._items.append(_Waiting(ended, waiting.agent, is_late=True))
        else:
            waiting.call = ended

    def _permission(self, event: PermissionRequest) -> None:
        what = one_line(f"{tool_name(event.name or event.type)} {event.title or ''}", 400)
        self._put(event, [self._styled(fit(f"? asks: {what}", self._room(event)), "yellow")])

    def _answer(self, event: PermissionResponse) -> None:
        by = f" by {event.by}" if event.by else ""
        text = one_line(f"? {event.outcome}{by} {event.message or ''}", 400)
        self._put(event, [self._styled(fit(text, self._room(event)), "yellow")])

    def _notice(self, event: Notice) -> None:
        if event.level != "info":
            style = "red" if event.level == "error" else "yellow"
            lines = plain_lines(f"! {event.code}: {event.text}", self._room(event), ERROR_LINES)
            self._put(event, [self._styled(line, style) for line in lines])

    def _unparsed(self, event: Unparsed) -> None:
        text = fit(one_line(f"! unparsed: {event.reason}: {event.text}", 400), self._room(event))
        self._put(event, [self._styled(text, "dim")])

    def _turn(self, event: Turn) -> None:
        if event.agent is not None:
            return
        if event.state == "started":
            self._turns_begun += 1
            if len(self._turns) < MAX_BACKGROUND:
                self._turns[event.turn] = _Turn(self._turns_begun, event.ts)
            return
        turn = self._turns.pop(event.turn, None) or _Turn(max(self._turns_begun, 1), None)
        took = event.duration_ms
        if took is None and turn.began is not None and event.ts is not None:
            took = event.ts - turn.began
        facts = [f"turn {turn.number}", event.reason if event.state == "failed" and event.reason else event.state]
        facts += [duration(took)] if took is not None else []
        facts += [counted(turn.calls, "call")] if turn.calls else []
        head = fit(f"── {one_line(' · '.join(facts), 200)} ", self._columns)
        self._put(event, [self._styled(head + "─" * (min(self._columns, 100) - len(head)), "blue")])

    # -- the order of items ---------------------------------------------------------------------

    def _put(self, event: Event, lines: Iterable[Clean]) -> None:
        self._items.append(_Lines(list(lines), event.agent))

    def _ready(self) -> Iterator[Clean]:
        """The items up to the first that waits."""
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
        reads = sum(family_of(one.call.call.name) == "read" for one in run)
        what = [counted(reads, "read")] if reads else []
        what += [counted(len(run) - reads, "search", "searches")] if len(run) > reads else []
        names = dict.fromkeys(one.call.argument for one in run if one.call.argument)
        head = f"✓ {', '.join(what)}"
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
        output = output_of(result) if self._full else ""
        if (error := error_of(result)) and error not in output:
            most = None if self._full else ERROR_LINES
            yield from (self._styled(f"    {line}", "red") for line in plain_lines(error, room - 4, most))
        if output:
            yield from (self._styled(f"    {line}", "dim") for line in plain_lines(output, room - 4))
            if result.outputs:
                yield self._styled(fit(f"    … the whole: tooltap show {result.seq} --view assistant", room), "yellow")

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

    def _prose(self, lines: Iterator[Line]) -> Iterator[Clean]:
        for text, style in lines:
            yield self._styled(text, style) if style else joined([text])

    def _styled(self, text: str, style: str) -> Clean:
        return styled(text, style) if self._colour else joined([text])

    # -- subagents ------------------------------------------------------------------------------

    def _meet(self, event: Event) -> None:
        """A subagent begins: the call that spawned it is shown without its result."""
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
    """In place of a call that is not among the events."""
    envelope = {name: getattr(event, name) for name in Event.__struct_fields__}
    call = ToolCall(**envelope, call_id=event.call_id, name=event.name, input={}, status="running")
    return _Waiting(Call.of(call, None), event.agent)


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
}
