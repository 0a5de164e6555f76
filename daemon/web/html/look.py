"""What a renderer is told beside the payload: how much to show, and what belongs to the event."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeAlias

from tooltap.protocol.events import OutputRef

__all__ = ["LEVELS", "Call", "Excerpt", "Level", "Look", "brief", "excerpt"]

Level: TypeAlias = Literal["title", "summary", "full"]
LEVELS: tuple[Level, ...] = ("title", "summary", "full")

SUMMARY_LINES = 12
SUMMARY_CHARACTERS = 2_000
BRIEF = 1_000
"""Characters of what has one line, such as a path or a pattern; more is nonsense, and in the raw view."""


class Call(NamedTuple):
    """The call a result belongs to."""

    name: str
    input: dict[str, Any]
    preview: str


class Look(NamedTuple):
    level: Level
    url: Callable[[str], str | None]
    """Where the body with this output id is to be had; None where it is not."""
    outputs: Mapping[str, OutputRef] = {}
    """JSON pointer into the event -> the whole of a string that was cut there."""
    call: Call | None = None
    """For results: what was called, where that is known."""
    address: Callable[[int], str] = "/events/{}".format
    """Of the event with this `seq`, for its header."""

    @property
    def is_full(self) -> bool:
        return self.level == "full"


class Excerpt(NamedTuple):
    """Text, or as much of its beginning as the level shows."""

    text: str
    hidden_lines: int = 0
    hidden_characters: int = 0
    """What is not shown of the event's own text; one of the two is said."""
    whole: OutputRef | None = None
    """The text was cut in the event already: where it is whole."""
    url: str | None = None
    """Of the whole."""


def excerpt(value: str, look: Look, pointer: str = "") -> Excerpt:
    """`pointer`: where in the event the text stands, for the whole of what was cut there."""
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
    """What has one line, as much of it as anybody reads."""
    return value if len(value) <= BRIEF else f"{value[:BRIEF]}…"
