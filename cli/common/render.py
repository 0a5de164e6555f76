"""Prints events for people: the assistants' texts and, in verbose mode, a line per event.

`Renderer` makes text of display lines, and `Printer` prints the items of a subscription. What a display line says is
decided by the daemon (`daemon/show/skins/display.py`); glyphs, colours and layout are defined here. Text from a
provider may contain anything, so what could control a terminal is made visible.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
import msgspec

from tooltap.cli.common.columns import fit, terminal_columns, wrapped
from tooltap.cli.common.printing import (
    Clean,
    at_terminal,
    cleaned,
    flush,
    joined,
    lines_of,
    short,
    styled,
    wants_colour,
    warn,
    write_events,
    write_text,
)
from tooltap.daemon.client.discovery import Received
from tooltap.daemon.formats import spent, tool_name
from tooltap.daemon.system.sanitize import one_line, sanitize
from tooltap.protocol.display import (
    DisplayEvent,
    DisplayNotice,
    DisplayPermission,
    DisplayPrompt,
    DisplayText,
    DisplayToolResult,
    DisplayToolUpdate,
    DisplayToolUse,
    decode_display,
)
from tooltap.protocol.events import Attachment, Display
from tooltap.protocol.frames import Gap, Live

MARGIN = 4
"""Columns reserved for a mark and the bar of a subagent."""
MAX_CALLS = 10_000
"""Open calls for which the preview is remembered until the result arrives."""


def _brief(display: Display | None) -> str:
    """The display view if it is a single line, else empty: `tooltap show` prints longer ones."""
    text = (display.text or "").strip() if display is not None else ""
    return "" if "\n" in text else one_line(text)


class Renderer:
    """Turns display events into text; an event that is not shown becomes "".

    Text mode shows the assistants' texts; `Printer` says on standard error that a turn has failed. Verbose mode also
    shows prompts, tool calls, permissions, warnings and errors.
    """

    def __init__(self, *, verbose: bool, colour: bool, columns: int | None = None) -> None:
        """`columns`: width of the terminal, which no line exceeds; None: lines keep their length."""
        self._verbose = verbose
        self._colour = colour
        self._columns = columns
        self._session: str | None = None
        self._calls: dict[tuple[str, str], str] = {}

    def render(self, event: DisplayEvent) -> Clean:
        if event.partial:
            return lines_of()
        if not self._verbose:
            return lines_of(*self._whole(event.text, 0)) if isinstance(event, DisplayText) else lines_of()
        lines = self.lines(event)
        if not lines:
            return lines_of()
        indent = "│ " if event.agent is not None else ""
        return lines_of(*self._header(event), *(joined([indent, line]) for line in lines))

    def lines(self, event: DisplayEvent) -> list[Clean]:
        """The lines that verbose mode shows for one event, without the session header."""
        show = _KINDS.get(type(event))
        return [] if show is None else list(show(self, event))

    def _header(self, event: DisplayEvent) -> list[Clean]:
        """Return a header with provider and session if the session has changed, else nothing."""
        if event.session == self._session:
            return []
        first, self._session = self._session is None, event.session
        title = f"── {one_line(event.provider, 30)} {one_line(event.session, 60)}"
        header = joined([self._style(title if self._columns is None else fit(title, self._columns), "blue")])
        return [header] if first else [joined([]), header]

    def _style(self, text: str, colour: str) -> str:
        return styled(text, colour) if self._colour else text

    def _marker(self, glyph: str, colour: str, *parts: str | None) -> Clean:
        text = " ".join(one_line(part) for part in parts if part)
        if self._columns is not None:
            text = fit(text, self._columns - MARGIN)
        return joined([self._style(glyph, colour), text], " ")

    def _whole(self, text: str, indent: int) -> Iterator[Clean]:
        """Yield the whole text: on a terminal it is wrapped, not cut."""
        if self._columns is None:
            yield cleaned(text)
            return
        for line in sanitize(text).expandtabs(4).split("\n"):
            yield from (joined([part]) for part in wrapped(line, self._columns - indent))

    def _attachments(self, attachments: list[Attachment] | None) -> Iterator[Clean]:
        for one in attachments or ():
            yield self._marker("▫", "cyan", one.mime_type, one.name or one.uri)

    # -- one method per kind ----------------------------------------------------------------------

    def _text(self, event: DisplayText) -> Iterator[Clean]:
        yield from self._whole(event.text, 2 if event.agent else 0)
        yield from self._attachments(event.attachments)

    def _prompt(self, event: DisplayPrompt) -> Iterator[Clean]:
        if event.role == "system":  # the agent's own words, which may be as long as a summary of the session
            yield self._marker("⚙", "blue", event.text)
            return
        for line in self._whole(event.text, 4 if event.agent else 2):
            yield from (joined([self._style(f"> {part}", "cyan")]) for part in line.split("\n"))
        yield from self._attachments(event.attachments)

    def _tool_use(self, event: DisplayToolUse) -> Iterator[Clean]:
        if len(self._calls) >= MAX_CALLS:
            del self._calls[next(iter(self._calls))]
        self._calls[event.stream, event.call_id] = event.arg
        yield self._marker("▸", "yellow", tool_name(event.name), event.arg)

    def _tool_update(self, event: DisplayToolUpdate) -> Iterator[Clean]:
        """An update may carry a new preview before the result, or the display of the result after it."""
        key = event.stream, event.call_id
        if key in self._calls and event.arg is not None:
            self._calls[key] = event.arg
        if view := _brief(event.display):
            yield self._marker("▫", "cyan", tool_name(event.name), view)

    def _tool_result(self, event: DisplayToolResult) -> Iterator[Clean]:
        arg = self._calls.pop((event.stream, event.call_id), "")
        if event.silent:
            return
        facts: list[str] = []
        if event.async_:
            facts.append("continues in the background")
        elif event.status not in ("completed", "failed"):
            facts.append(event.status)
        if event.exit_code is not None:
            facts.append(f"exit {event.exit_code}")
        if took := spent(event.duration_ms):
            facts.append(took)
        if view := _brief(event.display):
            facts.append(view)
        if event.error is not None:
            facts.append(one_line(event.error))
        glyph, colour = {"completed": ("✓", "green"), "failed": ("✗", "red")}.get(event.status, ("■", "magenta"))
        yield self._marker(glyph, colour, tool_name(event.name), arg, f"({', '.join(facts)})" if facts else "")

    def _permission(self, event: DisplayPermission) -> Iterator[Clean]:
        if event.state == "requested":
            yield self._marker("?", "yellow", tool_name(event.name or ""), event.title)
        else:
            yield self._marker("?", "yellow", event.state, event.by and f"by {event.by}", event.message)

    def _notice(self, event: DisplayNotice) -> Iterator[Clean]:
        if event.level != "info":
            yield self._marker("!", "red" if event.level == "error" else "yellow", event.code, event.text)


_KINDS: dict[type[DisplayEvent], Callable[[Renderer, Any], Iterator[Clean]]] = {
    DisplayText: Renderer._text,
    DisplayPrompt: Renderer._prompt,
    DisplayToolUse: Renderer._tool_use,
    DisplayToolUpdate: Renderer._tool_update,
    DisplayToolResult: Renderer._tool_result,
    DisplayPermission: Renderer._permission,
    DisplayNotice: Renderer._notice,
}


_REASONS = {
    "retention": "they were too old",
    "reset": "this is another journal",
    "corrupt": "they are damaged in the journal",
}


MAX_SORTED = 268_435_456
"""Bytes of events that are sorted by time, at most."""


class _Time(msgspec.Struct):
    ts: int | None = None


_decoder = msgspec.json.Decoder(_Time)


class Printer:
    """Prints the items of a subscription. `mode`: text, verbose or json. `oldest`: milliseconds since the epoch; older
    replayed events are not printed. `by_time`: replayed events are sorted by when they happened."""

    def __init__(self, mode: str, oldest: int | None, *, by_time: bool = False) -> None:
        self._oldest = oldest
        self._sorted: list[tuple[int, bytes]] | None = [] if by_time else None
        """Replayed events with their times, to be sorted."""
        self._sorted_bytes = 0
        self._json = mode == "json"
        self._text = mode == "text"
        self._renderer = Renderer(
            verbose=mode == "verbose",
            colour=wants_colour(),
            columns=terminal_columns() if at_terminal() else None,
        )
        self._live = False
        self._failed: tuple[str, str | None] | None = None
        """The turn of the last warning, as stream and id: after a provisional end it has another one."""
        self.has_printed = False
        """Whether any event was shown."""
        self.hidden = 0
        """Number of events that this mode does not show."""

    def print_all(self, items: Iterable[Received]) -> None:
        """Raises `click.ClickException` if there are too many events to sort."""
        for item in items:
            if isinstance(item, bytes):
                self._take(item)
            elif isinstance(item, Live):
                self._live = True
                self._print_sorted()
            elif isinstance(item, Gap):
                warn(f"events {item.from_} to {item.to} are gone: {_REASONS[item.reason]}")
            if self._live:
                flush()
        flush()

    def _take(self, line: bytes) -> None:
        if self._live or (self._oldest is None and self._sorted is None):
            self._print(line)
            return
        ts = _decoder.decode(line).ts
        if self._oldest is not None and (ts or 0) < self._oldest:
            return
        if self._sorted is None:
            self._print(line)
            return
        self._sorted_bytes += len(line)
        if self._sorted_bytes > MAX_SORTED:
            raise click.ClickException(
                f"there are more than {MAX_SORTED >> 20} MiB of events to sort; name fewer with --since or a filter"
            )
        if ts is None:  # it happened after what is before it
            ts = self._sorted[-1][0] if self._sorted else 0
        self._sorted.append((ts, line))

    def _print_sorted(self) -> None:
        if self._sorted is not None:
            events, self._sorted = self._sorted, None
            for _, line in sorted(events, key=lambda one: one[0]):
                self._print(line)

    def _print(self, line: bytes) -> None:
        if self._json:
            self.has_printed = True
            write_events(line + b"\n")
        elif (shown := decode_display(line)) is not None:
            if text := self._renderer.render(shown):
                self.has_printed = True
                write_text(text)
            elif self._text and isinstance(shown, DisplayNotice) and shown.state == "failed":
                self._warn_of_failure(shown)
            else:
                self.hidden += 1

    def _warn_of_failure(self, shown: DisplayNotice) -> None:
        turn = shown.stream, shown.turn
        if turn != self._failed:
            self._failed = turn
            self.has_printed = True
            flush()
            warn(f"{shown.provider} {short(shown.session)}: the turn {shown.text}")
