"""Exports events as one self-contained HTML file: no daemon, no script, no network. Styles and bodies are inside.

    page = ExportedPage(title, level="summary", bodies=Bodies(1 << 20, 64 << 20))
    for event in events:
        write(page.add(event))
    write(page.end())

What a level hides can be unfolded without a script. The file is written while events are added. Memory holds only the
last cards, which may still receive results and children; an event of a call that is already written becomes a card of
its own.
"""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from markupsafe import Markup

from tooltap.daemon.web.cards.blocks import IMAGES
from tooltap.daemon.web.cards.cards import Fragment
from tooltap.daemon.web.html.code_css import code_css
from tooltap.daemon.web.html.look import Call, Level, Look
from tooltap.daemon.web.html.markup import template
from tooltap.daemon.web.page.fragments import rendered
from tooltap.daemon.web.page.nesting import OPEN, Nesting
from tooltap.daemon.web.page.rows import html_of
from tooltap.protocol.events import AnyEvent, Message, ToolCall, ToolResult, ToolUpdate

__all__ = ["Bodies", "Body", "ExportedPage", "body_ids"]

HELD_CARDS = 2_000
HELD_BYTES = 33_554_432
"""Limits of the cards that are held in memory before they are written."""
HELD_CALLS = 1_000
"""Latest calls that are remembered for the renderers of their results, and latest results."""
UNKNOWN = "application/octet-stream"
STYLES = ("tokens.css", "cards.css", "content.css", "export.css")


class Body(NamedTuple):
    data: bytes
    mime_type: str


class Bodies:
    """Decides which output bodies go into the file, within limits, and counts the others."""

    def __init__(self, max_each: int, max_all: int) -> None:
        self._max_each = max_each
        self._left = max_all
        self.left_out = 0
        self.left_out_bytes = 0

    def has_room(self, size: int) -> bool:
        """Say whether a body of this size goes into the file; if not, count it as left out."""
        if size <= min(self._max_each, self._left):
            self._left -= size
            return True
        self.left_out += 1
        self.left_out_bytes += size
        return False


def body_ids(event: AnyEvent) -> Iterator[tuple[str, int, str]]:
    """Yield `(output id, bytes, MIME type)` of each body that the event refers to; 0 bytes if it does not say."""
    for ref in (event.outputs or {}).values():
        yield ref.output_id, ref.bytes, ref.mime_type
    for one in (event.attachments or []) if isinstance(event, Message | ToolResult) else []:
        if one.output_id is not None:
            yield one.output_id, one.bytes or 0, one.mime_type
    display = event.display if isinstance(event, ToolResult | ToolUpdate) else None
    if display is not None and display.output_id is not None:
        yield display.output_id, display.bytes or 0, display.mime_type or "text/plain"


class ExportedPage:
    """`level`: how much of a card is open at first."""

    def __init__(self, title: str, *, level: Level, bodies: Bodies) -> None:
        self._title = title
        self._level = level
        self._bodies = bodies
        self._nesting = Nesting()
        self._held = 0
        self._calls: OrderedDict[tuple[str, str], Call] = OrderedDict()
        self._inferred: OrderedDict[str, bool] = OrderedDict()
        """Id of a result -> whether it was inferred."""
        self._events = 0

    def add(self, event: AnyEvent, bodies: dict[str, Body]) -> str:
        """Add an event with a `seq` and return the HTML to write next. `bodies`: those that go into the file."""
        begun = Markup() if self._events else self._begin(event)
        self._events += 1
        fragment = self._fragment(event, bodies)
        if fragment is not None:
            self._nesting.add(fragment)
            self._held += len(fragment.body)
        return str(begun + self._written(HELD_CARDS, HELD_BYTES))

    def add_gap(self, first: int, last: int) -> str:
        """Note that events are damaged, and return the HTML to write next."""
        if not self._events:
            return ""
        return str(self._written(0, 0) + template("gap.html", first=first, last=last))

    def end(self) -> str:
        """Return the rest of the HTML. Without events there is no page."""
        end = template("export_end.html", events=self._events, bodies=self._bodies)
        return str(self._written(0, 0) + end)

    def _begin(self, event: AnyEvent) -> Markup:
        style = _style()
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        return template("export_begin.html", title=self._title, event=event, style=Markup(style), digest=digest)

    def _written(self, max_cards: int, max_bytes: int) -> Markup:
        """Return the HTML of the first cards, until no more than that are held."""
        cards, written = self._nesting.cards, []
        while cards and (len(cards) > max_cards or self._held > max_bytes):
            card = self._nesting.pop()
            if max_cards and card.status in OPEN:
                card.status = ""  # its result may follow, as a card of its own
            written.append(html_of(card))
            self._held = max(self._held - len(written[-1]), 0) if cards else 0
        return Markup().join(written)

    def _fragment(self, event: AnyEvent, bodies: dict[str, Body]) -> Fragment | None:
        urls = {output_id: _data_url(body) for output_id, body in bodies.items()}
        replaced = self._replaced(event) if isinstance(event, ToolResult) else None
        look = Look(self._level, urls.get, event.outputs or {}, self._call(event), "#e{}".format, replaced)
        full = rendered(event, look._replace(level="full"))
        # A card with bodies is not included twice.
        if full is None or self._level == "full" or urls:
            return full
        brief = rendered(event, look)
        if brief is None:
            return None
        if brief.key is not None:  # a card of level `title` has no slots for results and children
            brief = brief._replace(level="summary")
        if brief.is_minor or brief.body == full.body:
            return brief
        return brief._replace(body=template("export_body.html", brief=brief.body, full=full.body))

    def _replaced(self, event: ToolResult) -> bool | None:
        """Say whether the result replaces an inferred one; None if that is not known."""
        self._inferred[event.id] = event.synthetic
        if len(self._inferred) > HELD_CALLS:
            self._inferred.popitem(last=False)
        return None if event.replaces is None else self._inferred.get(event.replaces)

    def _call(self, event: AnyEvent) -> Call | None:
        call_id: str | None = getattr(event, "call_id", None)
        if call_id is None:
            return None
        key = (event.stream, call_id)
        if isinstance(event, ToolCall | ToolUpdate) and event.input is not None:
            known = self._calls.pop(key, None)
            began = event.ts if isinstance(event, ToolCall) else known and known.ts
            self._calls[key] = Call(event.name, event.input, event.preview or (known.preview if known else ""), began)
            if len(self._calls) > HELD_CALLS:
                self._calls.popitem(last=False)
        return self._calls.get(key)


def _data_url(body: Body) -> str:
    mime = body.mime_type if body.mime_type in IMAGES else UNKNOWN
    return f"data:{mime};base64,{base64.b64encode(body.data).decode()}"


@cache
def _style() -> str:
    static = files("tooltap.daemon.web") / "static"
    return "\n".join([*((static / name).read_text("utf-8") for name in STYLES), code_css()])
