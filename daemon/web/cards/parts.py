"""What the bodies of cards are put together of: prose, plain text, facts, tables, notes, attachments.

Each gives nothing for nothing, so that a body is the pieces that are there, joined. Lists are bounded by the level,
and say how much of them is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from markupsafe import Markup

from tooltap.daemon.web.html.look import Look, excerpt
from tooltap.daemon.web.html.markup import ansi, link, template, text
from tooltap.protocol.events import Attachment

__all__ = [
    "HEADER",
    "IMAGES",
    "attachments",
    "few",
    "facts",
    "folded",
    "joined",
    "note",
    "plain",
    "prose",
    "short",
    "table",
]

SUMMARY_ITEMS = 20
FULL_ITEMS = 500
HEADER = 100
"""Characters of each thing a header says."""
SHORT = 300
"""Characters of what has one line."""
IMAGES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif", "image/bmp"})
"""Shown as images. An SVG is a document, which may have scripts where it is opened."""

Item = TypeVar("Item")


class Few(NamedTuple, Generic[Item]):
    shown: Sequence[Item]
    hidden: int


def few(items: Sequence[Item], look: Look) -> Few[Item]:
    """As many of them as the level shows."""
    limit = FULL_ITEMS if look.is_full else SUMMARY_ITEMS
    return Few(items[:limit], max(len(items) - limit, 0))


def joined(*parts: Markup) -> Markup:
    return Markup().join(parts)


def short(value: str, length: int = SHORT) -> str:
    """The beginning of a text, on one line."""
    line = " ".join(value[: 4 * length].split())
    return line if len(line) <= length and len(value) <= 4 * length else f"{line[: length - 1]}…"


def prose(value: str | None, look: Look, pointer: str = "", *, prompt: bool = False) -> Markup:
    """Markdown. `pointer`: where in the event it stands; `prompt`: somebody typed it, line breaks and all."""
    if not value or not value.strip():
        return Markup()
    return template("prose.html", part=excerpt(value, look, pointer), prompt=prompt)


def plain(value: str | None, look: Look, pointer: str = "", *, kind: str = "") -> Markup:
    """Text of a tool as it is, with the colours it has for a terminal. `kind`: a further class."""
    if not value or not value.strip():
        return Markup()
    part = excerpt(value, look, pointer)
    shown = ansi(part.text) if "\x1b" in part.text else text(part.text)
    return template("plain.html", part=part, shown=shown, kind=kind)


def facts(pairs: Iterable[tuple[str, Any]]) -> Markup:
    """Words and their values, one a line; those without a value are left out. Addresses are links."""
    shown = [(word, _value(value)) for word, value in pairs if value is not None and value != "" and value != []]
    return template("facts.html", pairs=shown) if shown else Markup()


def _value(value: Any) -> Markup:
    if isinstance(value, Markup):
        return value
    if isinstance(value, bool):
        return Markup("yes" if value else "no")
    if isinstance(value, int):
        return Markup(f"{value:,}")
    if isinstance(value, list):
        shown = ", ".join(short(str(one), 100) for one in value[:SUMMARY_ITEMS])
        return text(shown if len(value) <= SUMMARY_ITEMS else f"{shown} and {len(value) - SUMMARY_ITEMS:,} more")
    return link(short(str(value)))


def table(head: Sequence[str], rows: Sequence[Sequence[Any]], look: Look, *, name: str) -> Markup:
    """`name`: what it is a table of, for who does not see it. Columns without a value are left out."""
    if not rows:
        return Markup()
    part = few(rows, look)
    cells = [[Markup() if value is None else _value(value) for value in row] for row in part.shown]
    kept = [index for index in range(len(head)) if any(row[index] for row in cells)]
    return template(
        "table.html",
        head=[head[index] for index in kept],
        rows=[[row[index] for index in kept] for row in cells],
        hidden=part.hidden,
        label=name,
    )


def note(sentence: str) -> Markup:
    """Something about the card, in our words."""
    return Markup('<p class="note">{}</p>\n').format(text(sentence))


def folded(summary: str, body: Markup) -> Markup:
    """To be unfolded by who wants it."""
    return template("folded.html", summary=summary, body=body) if body else Markup()


def attachments(attached: list[Attachment] | None, look: Look) -> Markup:
    """Images as images, of bodies that we keep; everything else as a link with name, type and size."""
    if not attached:
        return Markup()
    part = few(attached, look)
    return template("attachments.html", items=[_attached(one, look) for one in part.shown], hidden=part.hidden)


class _Attached(NamedTuple):
    name: str
    facts: str
    url: str | None
    is_image: bool
    uri: Markup


def _attached(one: Attachment, look: Look) -> _Attached:
    url = None if one.output_id is None else look.url(one.output_id)
    size = [] if one.bytes is None else [f"{one.bytes:,} bytes"]
    if one.output_id is not None and url is None:
        size.append("not available")
    uri = Markup() if one.uri is None else link(one.uri, short(one.uri))
    return _Attached(
        name=short(one.name) if one.name and one.name != one.uri else "",
        facts=", ".join([short(one.mime_type), *size]),
        url=url,
        is_image=url is not None and one.mime_type.partition(";")[0].strip().lower() in IMAGES,
        uri=uri,
    )
