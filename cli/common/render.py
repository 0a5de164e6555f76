"""Renders display events as text for a terminal: the assistant's texts and, in verbose mode, a line per event.

All glyphs, colours and layout are defined here. Text from a provider may contain anything, so control characters are
removed before it reaches the terminal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import click

from tooltap.daemon.system.harmless import harmless
from tooltap.protocol.display import (
    DisplayEvent,
    DisplayNotice,
    DisplayPermission,
    DisplayPrompt,
    DisplayText,
    DisplayToolResult,
    DisplayToolUpdate,
    DisplayToolUse,
)
from tooltap.protocol.events import Attachment, Display

__all__ = ["Renderer", "one_line", "wants_colour"]

MAX_LINE = 100
"""Code points of each part of a marker line."""
MAX_CALLS = 10_000
"""Open calls for which the preview is remembered until the result arrives."""


def one_line(text: str, length: int = MAX_LINE) -> str:
    """The beginning of the text on one line, without control characters."""
    line = " ".join(harmless(text[: 4 * length]).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _brief(display: Display | None) -> str:
    """The display view if it is a single line; `tooltap show` prints longer ones."""
    text = (display.text or "").strip() if display is not None else ""
    return "" if "\n" in text else one_line(text)


class Renderer:
    """Turns display events into text; an event that is not shown becomes "".

    Text mode shows the assistants' texts. Verbose mode also shows prompts, tool calls, permissions, warnings and
    errors.
    """

    def __init__(self, *, verbose: bool, colour: bool) -> None:
        self._verbose = verbose
        self._colour = colour
        self._session: str | None = None
        self._calls: dict[tuple[str, str], str] = {}

    def render(self, event: DisplayEvent) -> str:
        if event.partial:
            return ""
        if not self._verbose:
            return f"{harmless(event.text)}\n" if isinstance(event, DisplayText) else ""
        lines = self.lines(event)
        if not lines:
            return ""
        indent = "│ " if event.agent is not None else ""
        return self._header(event) + "".join(f"{indent}{line}\n" for line in lines)

    def lines(self, event: DisplayEvent) -> list[str]:
        """The lines that verbose mode shows for one event, without the session header."""
        show = _KINDS.get(type(event))
        return [] if show is None else list(show(self, event))

    def _header(self, event: DisplayEvent) -> str:
        """A header with provider and session, whenever the session changes."""
        if event.session == self._session:
            return ""
        first, self._session = self._session is None, event.session
        title = f"── {one_line(event.provider, 30)} {one_line(event.session, 60)}"
        return f"{'' if first else chr(10)}{self._style(title, 'blue')}\n"

    def _style(self, text: str, colour: str) -> str:
        return click.style(text, fg=colour) if self._colour else text

    def _marker(self, glyph: str, colour: str, *parts: str | None) -> str:
        return " ".join([self._style(glyph, colour), *(one_line(part) for part in parts if part)])

    def _attachments(self, attachments: list[Attachment] | None) -> Iterator[str]:
        for one in attachments or ():
            yield self._marker("▫", "cyan", one.mime_type, one.name or one.uri)

    # -- one method per kind ----------------------------------------------------------------------

    def _text(self, event: DisplayText) -> Iterator[str]:
        yield harmless(event.text)
        yield from self._attachments(event.attachments)

    def _prompt(self, event: DisplayPrompt) -> Iterator[str]:
        yield from (self._style(f"> {line}", "cyan") for line in harmless(event.text).split("\n"))
        yield from self._attachments(event.attachments)

    def _tool_use(self, event: DisplayToolUse) -> Iterator[str]:
        if len(self._calls) >= MAX_CALLS:
            del self._calls[next(iter(self._calls))]
        self._calls[event.stream, event.call_id] = event.arg
        yield self._marker("▸", "yellow", event.name, event.arg)

    def _tool_update(self, event: DisplayToolUpdate) -> Iterator[str]:
        """An update may carry a new preview before the result, or the display of the result after it."""
        key = event.stream, event.call_id
        if key in self._calls and event.arg is not None:
            self._calls[key] = event.arg
        if view := _brief(event.display):
            yield self._marker("▫", "cyan", event.name, view)

    def _tool_result(self, event: DisplayToolResult) -> Iterator[str]:
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
        if event.duration_ms is not None:
            facts.append(f"{event.duration_ms / 1000:.1f} s")
        if view := _brief(event.display):
            facts.append(view)
        if event.error is not None:
            facts.append(one_line(event.error))
        glyph, colour = {"completed": ("✓", "green"), "failed": ("✗", "red")}.get(event.status, ("■", "magenta"))
        yield self._marker(glyph, colour, event.name, arg, f"({', '.join(facts)})" if facts else "")

    def _permission(self, event: DisplayPermission) -> Iterator[str]:
        if event.state == "requested":
            yield self._marker("?", "yellow", event.name, event.title)
        else:
            yield self._marker("?", "yellow", event.state, event.by and f"by {event.by}", event.message)

    def _notice(self, event: DisplayNotice) -> Iterator[str]:
        if event.level != "info":
            yield self._marker("!", "red" if event.level == "error" else "yellow", event.code, event.text)


_KINDS: dict[type[DisplayEvent], Callable[[Renderer, Any], Iterator[str]]] = {
    DisplayText: Renderer._text,
    DisplayPrompt: Renderer._prompt,
    DisplayToolUse: Renderer._tool_use,
    DisplayToolUpdate: Renderer._tool_update,
    DisplayToolResult: Renderer._tool_result,
    DisplayPermission: Renderer._permission,
    DisplayNotice: Renderer._notice,
}
