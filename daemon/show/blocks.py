"""The blocks of bodies, as plain values: prose, plain text, facts, tables, notes, attachments.

A function returns no block for an empty value, so that a body is simply its blocks joined. The level bounds lists,
which then say how many items are hidden. How a block is written is the matter of a skin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from tooltap.daemon.show.render_options import Look, excerpt
from tooltap.protocol.events import Attachment

SUMMARY_ITEMS = 20
FULL_ITEMS = 500
HEADER = 100
"""Most characters of each text in a header."""
SHORT = 300
"""Most characters of a text on one line."""
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})
"""MIME types shown as images. SVG is not among them: it is a document and may contain scripts."""

Item = TypeVar("Item")


class Block(NamedTuple):
    kind: str
    """Of which template it has the values."""
    values: dict[str, Any]
    """Texts, numbers, excerpts, links, and bodies."""


Body: TypeAlias = tuple[Block, ...]


class Link(NamedTuple):
    url: str
    text: str
    """What is shown of it."""


class Limited(NamedTuple, Generic[Item]):
    shown: Sequence[Item]
    hidden: int


def limited(items: Sequence[Item], look: Look) -> Limited[Item]:
    """Return the items that the level shows, and how many it hides."""
    limit = FULL_ITEMS if look.is_full else SUMMARY_ITEMS
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


def prose(value: str | None, look: Look, pointer: str = "", *, prompt: bool = False) -> Body:
    """Show Markdown. `pointer`: its place in the event; `prompt`: a user typed it, so line breaks are kept."""
    if not value or not value.strip():
        return ()
    return block("prose", part=excerpt(value, look, pointer), prompt=prompt)


def plain(value: str | None, look: Look, pointer: str = "", *, kind: str = "") -> Body:
    """Show a tool's text with its terminal colours. `kind`: an additional CSS class."""
    if not value or not value.strip():
        return ()
    return block("plain", part=excerpt(value, look, pointer), kind=kind)


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


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], look: Look, *, name: str) -> Body:
    """Show a table without its empty columns. `name`: its label for screen readers."""
    if not rows:
        return ()
    part = limited(rows, look)
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


def attachments(attached: list[Attachment] | None, look: Look) -> Body:
    """Show stored images as images, all other attachments as links with name, type and size."""
    if not attached:
        return ()
    part = limited(attached, look)
    return block("attachments", items=[_attached(one, look) for one in part.shown], hidden=part.hidden)


class _Attached(NamedTuple):
    name: str
    facts: str
    url: str | None
    is_image: bool
    uri: str | Link


def _attached(one: Attachment, look: Look) -> _Attached:
    url = None if one.output_id is None else look.url(one.output_id)
    size = [] if one.bytes is None else [f"{one.bytes:,} bytes"]
    if one.output_id is not None and url is None:
        size.append("not available")
    uri = "" if one.uri is None else Link(one.uri, short(one.uri))
    return _Attached(
        name=short(one.name) if one.name and one.name != one.uri else "",
        facts=", ".join([short(one.mime_type), *size]),
        url=url,
        is_image=url is not None and one.mime_type.partition(";")[0].strip().lower() in IMAGES,
        uri=uri,
    )
