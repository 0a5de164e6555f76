"""Events as text for a terminal: what the assistant said, and, if wanted, one line per thing that happened.

Every provider's events look the same here: only canonical keys are read. What a provider printed may hold anything, so
no control character of it reaches the terminal.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from typing import Any, TextIO

import click

__all__ = ["Renderer", "harmless", "one_line", "wants_colour"]

MAX_LINE = 100
"""Code points of a marker's text."""
MAX_CALLS = 10_000
"""Open calls whose preview is remembered for their result."""

_COLOURS = re.compile(r"\x1b\[[0-9;:]*m")
_HARMLESS: dict[int, str] = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **dict.fromkeys(range(0x80, 0xA0), "\ufffd"),
    # Writing directions that could make a line show other than what it says.
    **dict.fromkeys([*range(0x202A, 0x202F), *range(0x2066, 0x206A)], "\ufffd"),
}


def harmless(text: str) -> str:
    """The text with its colours taken off and every other control character made visible."""
    return _COLOURS.sub("", text).replace("\r\n", "\n").translate(_HARMLESS)


def one_line(text: str, length: int = MAX_LINE) -> str:
    """The beginning of the text, harmless, on one line."""
    line = " ".join(harmless(text[: 4 * length]).split())
    return line if len(line) <= length else f"{line[: length - 1]}…"


def wants_colour(stream: TextIO) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


class Renderer:
    """Decoded events in, text out; "" for an event that is not shown.

    Text mode shows what assistants said; verbose also prompts, tool calls, permissions and troubles. History that an
    agent sends again has been shown before.
    """

    def __init__(self, *, verbose: bool, colour: bool) -> None:
        self._verbose = verbose
        self._colour = colour
        self._session: str | None = None
        self._calls: dict[tuple[str, str], str] = {}

    def render(self, event: dict[str, Any]) -> str:
        if event.get("partial") or event.get("replay"):
            return ""
        if not self._verbose:
            said = event.get("kind") == "message" and event.get("role") == "assistant"
            return f"{harmless(event['text'])}\n" if said else ""
        lines = self.lines(event)
        if not lines:
            return ""
        indent = "│ " if "agent" in event else ""
        return self._header(event) + "".join(f"{indent}{line}\n" for line in lines)

    def lines(self, event: dict[str, Any]) -> list[str]:
        """What verbose mode shows of one event, without saying whose it is."""
        show = _KINDS.get(event.get("kind", ""))
        return [] if show is None else list(show(self, event))

    def _header(self, event: dict[str, Any]) -> str:
        """Says whose events follow, whenever that changes."""
        session = event.get("session", "")
        if session == self._session:
            return ""
        first, self._session = self._session is None, session
        title = f"── {one_line(event.get('provider', ''), 30)} {one_line(session, 60)}"
        return f"{'' if first else chr(10)}{self._style(title, 'blue')}\n"

    def _style(self, text: str, colour: str) -> str:
        return click.style(text, fg=colour) if self._colour else text

    def _marker(self, glyph: str, colour: str, *parts: object) -> str:
        return " ".join(
            [self._style(glyph, colour), *(one_line(str(part)) for part in parts if part not in (None, ""))]
        )

    # -- one method per kind that is shown ----------------------------------------------------------------------

    def _message(self, event: dict[str, Any]) -> Iterator[str]:
        text = harmless(event.get("text", ""))
        if event.get("role") == "assistant":
            yield text
        else:
            yield from (self._style(f"> {line}", "cyan") for line in text.split("\n"))
        for attachment in event.get("attachments", ()):
            yield self._marker("▫", "cyan", attachment.get("mimeType"), attachment.get("name") or attachment.get("uri"))

    def _tool_call(self, event: dict[str, Any]) -> Iterator[str]:
        title = event.get("title", "")
        shown = event.get("preview") or (title if title.lower() != event["name"].lower() else "")
        if len(self._calls) >= MAX_CALLS:
            del self._calls[next(iter(self._calls))]
        self._calls[event["stream"], event["callId"]] = shown
        yield self._marker("▸", "yellow", event["name"], shown)

    def _tool_update(self, event: dict[str, Any]) -> Iterator[str]:
        """Nothing of its own to show, but the result may know better what the call was about."""
        key = event["stream"], event["callId"]
        if key in self._calls and "preview" in event:
            self._calls[key] = event["preview"]
        return iter(())

    def _tool_result(self, event: dict[str, Any]) -> Iterator[str]:
        output, status = event["output"], event["status"]
        shown = self._calls.pop((event["stream"], event["callId"]), "")
        facts: list[str] = []
        if event.get("async"):
            facts.append("goes on in the background")
        elif status not in ("completed", "failed"):
            facts.append(status)
        if isinstance(code := output.get("exit_code"), int):
            facts.append(f"exit {code}")
        if "durationMs" in event:
            facts.append(f"{event['durationMs'] / 1000:.1f} s")
        if isinstance(message := output.get("errorMessage"), str):
            facts.append(one_line(message))
        glyph, colour = {"completed": ("✓", "green"), "failed": ("✗", "red")}.get(status, ("■", "magenta"))
        yield self._marker(glyph, colour, event["name"], shown, f"({', '.join(facts)})" if facts else "")

    def _permission_request(self, event: dict[str, Any]) -> Iterator[str]:
        yield self._marker("?", "yellow", event.get("name") or event["type"], event.get("title"))

    def _permission_response(self, event: dict[str, Any]) -> Iterator[str]:
        by = f"by {event['by']}" if "by" in event else ""
        yield self._marker("?", "yellow", event["outcome"], by, event.get("message"))

    def _notice(self, event: dict[str, Any]) -> Iterator[str]:
        if event["level"] != "info":
            yield self._marker("!", "red" if event["level"] == "error" else "yellow", event["code"], event["text"])

    def _turn(self, event: dict[str, Any]) -> Iterator[str]:
        if event["state"] in ("failed", "cancelled"):
            yield self._marker("■", "red", "turn", event["state"], event.get("reason"))

    def _unparsed(self, event: dict[str, Any]) -> Iterator[str]:
        yield self._marker("!", "yellow", "unparsed", event["reason"], event["text"])


_KINDS: dict[str, Callable[[Renderer, dict[str, Any]], Iterator[str]]] = {
    "message": Renderer._message,
    "tool-call": Renderer._tool_call,
    "tool-update": Renderer._tool_update,
    "tool-result": Renderer._tool_result,
    "permission-request": Renderer._permission_request,
    "permission-response": Renderer._permission_response,
    "notice": Renderer._notice,
    "turn": Renderer._turn,
    "unparsed": Renderer._unparsed,
}
