"""The values that bodies and cards are made of: how much to show (`RenderContext`), blocks of bodies, cards of tools.

A function that makes a block returns no block for an empty value, so that a body is simply its blocks joined. The level
bounds lists, which then say how many items are hidden. A skin decides how a block is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

from tooltap.protocol.events import Attachment, OutputRef
from tooltap.protocol.payloads import OpenStruct
from tooltap.protocol.tools import ToolTypes

Level: TypeAlias = Literal["title", "summary", "full"]
LEVELS: tuple[Level, ...] = ("title", "summary", "full")

HEADER = 100
"""Maximum characters of each text in a header."""
SUMMARY_LINES = 12
SUMMARY_CHARACTERS = 2_000
BRIEF = 1_000
"""Maximum characters of a text on one line, such as a path or a pattern; the raw view has all of them."""


class CallOfResult(NamedTuple):
    """The call that a result belongs to."""

    name: str
    input: dict[str, Any]
    preview: str
    ts: int | None = None
    """Time of the call, in milliseconds since the epoch."""


class RenderContext(NamedTuple):
    """Everything that a renderer needs besides the event."""

    level: Level
    url: Callable[[str], str | None]
    """Returns the URL of an output body; None if it is not available."""
    outputs: Mapping[str, OutputRef] = {}
    """JSON pointer into the event -> the output body that holds the whole of a string cut there."""
    call: CallOfResult | None = None
    """The call of a result, if it is known."""
    address: Callable[[int], str] = "/events/{}".format
    """Returns the URL of an event's page by `seq`."""
    replaces_inferred: bool | None = None
    """Whether the result that this one replaces was inferred; None if it replaces none, or if that is not known."""
    cwd: str | None = None
    """The folder that paths in previews are relative to."""
    room: int = HEADER
    """Maximum characters of the preview of a call."""
    removed: Mapping[str, str] = {}
    """Id of each output body that retention has removed -> why: `was removed on … to keep …`. They have no URL."""

    @property
    def is_full(self) -> bool:
        return self.level == "full"


class Excerpt(NamedTuple):
    """A text, or the beginning that the level shows."""

    text: str
    hidden_lines: int = 0
    hidden_characters: int = 0
    """Size of the hidden rest: in lines (`hidden_lines`), or else in characters."""
    whole: OutputRef | None = None
    """The output body with the whole text, if the text is cut in the event itself."""
    url: str | None = None
    """URL of `whole`."""
    removed: str = ""
    """How `whole` was removed; empty if it was not."""


def excerpt(value: str, context: RenderContext, pointer: str = "") -> Excerpt:
    """Cut a text to what the level shows. `pointer`: its place in the event, to find its whole if it is cut there."""
    whole = context.outputs.get(pointer)
    url = None if whole is None else context.url(whole.output_id)
    removed = "" if whole is None else context.removed.get(whole.output_id, "")
    if context.is_full:
        return Excerpt(value, whole=whole, url=url, removed=removed)
    lines = value.split("\n", SUMMARY_LINES)
    rest = lines.pop() if len(lines) > SUMMARY_LINES else ""
    shown = "\n".join(lines)
    if len(shown) > SUMMARY_CHARACTERS:
        hidden = len(value) - SUMMARY_CHARACTERS
        return Excerpt(shown[:SUMMARY_CHARACTERS], hidden_characters=hidden, whole=whole, url=url, removed=removed)
    hidden_lines = rest.count("\n") + (rest != "" and not rest.endswith("\n"))
    return Excerpt(shown, hidden_lines=hidden_lines, whole=whole, url=url, removed=removed)


def brief(value: str) -> str:
    """Cut a text that is shown on one line."""
    return value if len(value) <= BRIEF else f"{value[:BRIEF]}…"


# -- blocks: prose, typed and plain text, facts, tables, notes, attachments -------------------------------------------


SUMMARY_ITEMS = 20
FULL_ITEMS = 500
SHORT = 300
"""Maximum characters of a text on one line."""
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})
"""MIME types shown as images. SVG is not among them: it is a document and may contain scripts."""

Item = TypeVar("Item")


class Block(NamedTuple):
    kind: str
    """Name of the block's template."""
    values: dict[str, Any]
    """Texts, numbers, excerpts, links, and bodies."""


Body: TypeAlias = tuple[Block, ...]


class Link(NamedTuple):
    url: str
    text: str
    """Text of the link."""


class Limited(NamedTuple, Generic[Item]):
    shown: Sequence[Item]
    hidden: int


def limited(items: Sequence[Item], context: RenderContext) -> Limited[Item]:
    """Return the items that the level shows, and how many it hides."""
    limit = FULL_ITEMS if context.is_full else SUMMARY_ITEMS
    return Limited(items[:limit], max(len(items) - limit, 0))


def block(kind: str, /, **values: Any) -> Body:
    """Return a body of one block."""
    return (Block(kind, values),)


def joined(*bodies: Body) -> Body:
    return tuple(one for body in bodies for one in body)


def short(value: str, length: int = SHORT) -> str:
    """Return the beginning of a text, on one line."""
    line = " ".join(value[: 4 * length].split())
    return line if len(line) <= length and len(value) <= 4 * length else f"{line[: length - 1]}…"


def prose(value: str | None, context: RenderContext, pointer: str = "") -> Body:
    """Show Markdown, which models write. `pointer`: its place in the event."""
    if not value or not value.strip():
        return ()
    return block("prose", part=excerpt(value, context, pointer))


def typed(value: str | None, context: RenderContext, pointer: str = "") -> Body:
    """Show what a person typed, to the character: it is no Markdown. `pointer`: its place in the event."""
    if not value or not value.strip():
        return ()
    return block("typed", part=excerpt(value, context, pointer))


def plain(value: str | None, context: RenderContext, pointer: str = "", *, kind: str = "") -> Body:
    """Show a tool's text with its terminal colours. `kind`: an additional CSS class."""
    if not value or not value.strip():
        return ()
    return block("plain", part=excerpt(value, context, pointer), kind=kind)


def facts(pairs: Iterable[tuple[str, Any]]) -> Body:
    """Show labels with their values, one per line, without empty values. Addresses are links."""
    shown = [(label, _value(value)) for label, value in pairs if value is not None and value != "" and value != []]
    return block("facts", pairs=shown) if shown else ()


def _value(value: Any) -> str | Link:
    if isinstance(value, Link) or hasattr(value, "__html__"):  # a page's own
        return value  # type: ignore[no-any-return]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        shown = ", ".join(short(str(one), 100) for one in value[:SUMMARY_ITEMS])
        return shown if len(value) <= SUMMARY_ITEMS else f"{shown} and {len(value) - SUMMARY_ITEMS:,} more"
    shown = short(str(value))
    return Link(shown, shown) if shown else ""


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], context: RenderContext, *, name: str) -> Body:
    """Show a table without its empty columns. `name`: its label for screen readers."""
    if not rows:
        return ()
    part = limited(rows, context)
    cells = [["" if value is None else _value(value) for value in row] for row in part.shown]
    kept = [index for index in range(len(head)) if any(row[index] for row in cells)]
    return block(
        "table",
        head=[head[index] for index in kept],
        rows=[[row[index] for index in kept] for row in cells],
        hidden=part.hidden,
        label=name,
    )


def note(sentence: str) -> Body:
    """Show a remark of tooltap about the card."""
    return block("note", sentence=sentence)


def folded(summary: str, body: Body) -> Body:
    """Show a body that is folded at first."""
    return block("folded", summary=summary, body=body) if body else ()


def attachments(attached: list[Attachment] | None, context: RenderContext) -> Body:
    """Show stored images as images, all other attachments as links with name, type and size."""
    if not attached:
        return ()
    part = limited(attached, context)
    return block("attachments", items=[_attached(one, context) for one in part.shown], hidden=part.hidden)


class _Attached(NamedTuple):
    name: str
    facts: str
    url: str | None
    is_image: bool
    uri: str | Link


def _attached(one: Attachment, context: RenderContext) -> _Attached:
    url = None if one.output_id is None else context.url(one.output_id)
    size = [] if one.bytes is None else [f"{one.bytes:,} bytes"]
    if one.output_id is not None and url is None:
        size.append(context.removed.get(one.output_id, "not available"))
    uri = "" if one.uri is None else Link(one.uri, short(one.uri))
    return _Attached(
        name=short(one.name) if one.name and one.name != one.uri else "",
        facts=", ".join([short(one.mime_type), *size]),
        url=url,
        is_image=url is not None and one.mime_type.partition(";")[0].strip().lower() in IMAGES,
        uri=uri,
    )


# -- tools -----------------------------------------------------------------------------------------------------------


def nothing(payload: OpenStruct, context: RenderContext) -> Body:
    """Return no body: the registry then shows the payload as a tree."""
    return ()


class ToolCard(NamedTuple):
    icon: str
    input: Callable[[Any, RenderContext], Body] = nothing
    """Called with the struct of the input."""
    output: Callable[[Any, RenderContext], Body] = nothing
    """Called with the struct of the result."""
    types: ToolTypes | None = None
    """The structs, where they are not those of `protocol.tools.TOOLS`: the tool has none there, or some providers send
    further keys."""
