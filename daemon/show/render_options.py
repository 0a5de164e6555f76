"""What a renderer needs besides the payload: the level (how much to show), links, and the call of a result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from tooltap.protocol.events import OutputRef

Level: TypeAlias = Literal["title", "summary", "full"]
LEVELS: tuple[Level, ...] = ("title", "summary", "full")

SUMMARY_LINES = 12
SUMMARY_CHARACTERS = 2_000
BRIEF = 1_000
"""Most characters of a text on one line, such as a path or a pattern; the raw view has all of them."""


class Call(NamedTuple):
    """The call that a result belongs to."""

    name: str
    input: dict[str, Any]
    preview: str
    ts: int | None = None
    """When it was made, in milliseconds since the epoch."""


class Look(NamedTuple):
    level: Level
    url: Callable[[str], str | None]
    """Returns the URL of an output body; None if it is not available."""
    outputs: Mapping[str, OutputRef] = {}
    """JSON pointer into the event -> the output body that holds the whole of a string cut there."""
    call: Call | None = None
    """For results: the call, if it is known."""
    address: Callable[[int], str] = "/events/{}".format
    """Returns the URL of an event's page by `seq`."""
    replaces_inferred: bool | None = None
    """For results that replace another one: whether that was inferred, if it is known."""

    @property
    def is_full(self) -> bool:
        return self.level == "full"


class Excerpt(NamedTuple):
    """A text, or the beginning that the level shows."""

    text: str
    hidden_lines: int = 0
    hidden_characters: int = 0
    """How much of the event's text is hidden, in lines or else in characters."""
    whole: OutputRef | None = None
    """The output body with the whole text, if the text is cut in the event itself."""
    url: str | None = None
    """URL of `whole`."""


def excerpt(value: str, look: Look, pointer: str = "") -> Excerpt:
    """Cut a text to what the level shows. `pointer`: its place in the event, to find its whole if it is cut there."""
    whole = look.outputs.get(pointer)
    url = None if whole is None else look.url(whole.output_id)
    if look.is_full:
        return Excerpt(value, whole=whole, url=url)
    lines = value.split("\n", SUMMARY_LINES)
    rest = lines.pop() if len(lines) > SUMMARY_LINES else ""
    shown = "\n".join(lines)
    if len(shown) > SUMMARY_CHARACTERS:
        hidden = len(value) - SUMMARY_CHARACTERS
        return Excerpt(shown[:SUMMARY_CHARACTERS], hidden_characters=hidden, whole=whole, url=url)
    hidden_lines = rest.count("\n") + (rest != "" and not rest.endswith("\n"))
    return Excerpt(shown, hidden_lines=hidden_lines, whole=whole, url=url)


def brief(value: str) -> str:
    """Cut a text that is shown on one line."""
    return value if len(value) <= BRIEF else f"{value[:BRIEF]}…"
