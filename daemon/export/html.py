"""Exports events as one self-contained HTML file: no daemon, no script, no network. Styles and bodies are inside.

    page = ExportedPage(title, level="summary", bodies=Bodies(1 << 20, 64 << 20))
    for event in events:
        write(page.add(event))
    write("".join(page.end()))

What a level hides can be unfolded without a script. The file is written while events are added. Memory holds only the
last cards, which may still receive results and children; an event of a call that is already written becomes a card of
its own. The overview, a minimap and the turns, comes last in the file, when all events are known, and stands first
where it is shown.
"""

from __future__ import annotations

import base64
import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any, ClassVar

import msgspec
from jinja2 import Environment
from markupsafe import Markup

from tooltap.daemon.export.source import Bodies, ExportedBody, MissingRange
from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.show.blocks import IMAGES, CallOfResult, Level, RenderContext
from tooltap.daemon.show.markup import code_css, environment
from tooltap.daemon.show.minimap import KINDS, SessionHistory, drawn
from tooltap.daemon.show.shown import Fragment
from tooltap.daemon.show.skins.html import card_html, rendered
from tooltap.daemon.show.timeline import OPEN, Nesting, Turns
from tooltap.protocol.events import AnyEvent, Message, PermissionRequest, ToolCall, ToolResult, ToolUpdate, encode

HELD_CARDS = 2_000
HELD_BYTES = 33_554_432
"""Maximum bytes of cards that are held in memory before they are written; `HELD_CARDS` is their maximum number."""
HELD_CALLS = 1_000
"""Maximum calls that are remembered for the renderers of their results, and maximum results; the latest ones."""
UNKNOWN = "application/octet-stream"
STYLES = (("tokens.css", "cards.css", "content.css", "session.css", "minimap.css"), ("export.css",))
"""Style sheets of what is shown, then those of exported pages."""


class ExportedPage:
    """Writes events as an HTML file, in parts. `level`: how much of a card is open at first."""

    ENDING: ClassVar = "html"
    HAS_BODIES: ClassVar = True

    def __init__(self, title: str, *, bodies: Bodies, level: Level = "summary") -> None:
        self._title = title
        self._level = level
        self._bodies = bodies
        self._nesting = Nesting()
        self._held = 0
        self._calls: OrderedDict[tuple[str, str], CallOfResult] = OrderedDict()
        self._inferred: OrderedDict[str, bool] = OrderedDict()
        """Id of a result -> whether it was inferred."""
        self._events = 0
        self._gaps = Markup()
        """Those before the first event."""
        self._overview = Overview()

    def add(self, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> str:
        """Add an event with a `seq` and return the HTML to write next. `bodies`: the output bodies to include in the
        file."""
        begun = Markup() if self._events else self._begin(event) + self._gaps
        self._events += 1
        self._overview.add(event)
        fragment = self._fragment(event, bodies)
        if fragment is not None:
            self._nesting.add(fragment)
            self._held += len(fragment.body)
        return str(begun + self._written(HELD_CARDS, HELD_BYTES))

    def add_gap(self, gap: MissingRange) -> str:
        """Note that events are missing, and return the HTML to write next."""
        note = _template("gap.html", sentence=gap.sentence)
        if not self._events:
            self._gaps += note
            return ""
        return str(self._written(0, 0) + note)

    def end(self, *remarks: str) -> Iterator[str]:
        """Yield the rest of the HTML. Without events there is no page. `remarks`: remarks on the file."""
        end = _template(
            "export_end.html",
            events=self._events,
            bodies=self._bodies,
            remarks=remarks,
            minimap=self._overview.minimap(),
            outline=self._overview.outline(),
        )
        yield str(self._written(0, 0) + end)

    def _begin(self, event: AnyEvent) -> Markup:
        style = _style()
        digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
        return _template("export_begin.html", title=self._title, event=event, style=Markup(style), digest=digest)

    def _written(self, max_cards: int, max_bytes: int) -> Markup:
        """Return the HTML of the first cards, so many that at most `max_cards` and `max_bytes` are held."""
        cards, written = self._nesting.cards, []
        while cards and (len(cards) > max_cards or self._held > max_bytes):
            card = self._nesting.pop()
            if max_cards and card.status in OPEN:
                card.status = ""  # its result may follow, as a card of its own
            written.append(card_html(card))
            self._held = max(self._held - len(written[-1]), 0) if cards else 0
        return Markup().join(written)

    def _fragment(self, event: AnyEvent, bodies: Mapping[str, ExportedBody]) -> Fragment | None:
        urls = {output_id: _data_url(body) for output_id, body in bodies.items()}
        replaced = self._replaced(event) if isinstance(event, ToolResult) else None
        context = RenderContext(self._level, urls.get, event.outputs or {}, self._call(event), "#e{}".format, replaced)
        full = rendered(event, context._replace(level="full"))
        # A card with bodies is not included twice.
        if full is None or self._level == "full" or urls:
            return full
        brief = rendered(event, context)
        if brief is None:
            return None
        if brief.key is not None:  # a card of level `title` has no slots for results and children
            brief = brief._replace(level="summary")
        if brief.is_minor or brief.body == full.body:
            return brief
        return brief._replace(body=_template("export_body.html", brief=brief.body, full=full.body))

    def _replaced(self, event: ToolResult) -> bool | None:
        """Return whether the result replaces an inferred one; None if that is not known."""
        self._inferred[event.id] = event.synthetic
        if len(self._inferred) > HELD_CALLS:
            self._inferred.popitem(last=False)
        return None if event.replaces is None else self._inferred.get(event.replaces)

    def _call(self, event: AnyEvent) -> CallOfResult | None:
        call_id: str | None = getattr(event, "call_id", None)
        if call_id is None:
            return None
        key = (event.stream, call_id)
        if isinstance(event, ToolCall | ToolUpdate) and event.input is not None:
            known = self._calls.pop(key, None)
            began = event.ts if isinstance(event, ToolCall) else known and known.ts
            self._calls[key] = CallOfResult(
                event.name, event.input, event.preview or (known.preview if known else ""), began
            )
            if len(self._calls) > HELD_CALLS:
                self._calls.popitem(last=False)
        return self._calls.get(key)


def _data_url(body: ExportedBody) -> str:
    mime = body.mime_type if body.mime_type in IMAGES else UNKNOWN
    return f"data:{mime};base64,{base64.b64encode(body.data).decode()}"


@cache
def _style() -> str:
    folders = [files("tooltap.daemon.show") / "static", files("tooltap.daemon.export") / "static"]
    found = [
        (folder / name).read_text("utf-8") for folder, names in zip(folders, STYLES, strict=True) for name in names
    ]
    return "\n".join([*found, code_css()])


@cache
def _environment() -> Environment:
    return environment("tooltap.daemon.export", "tooltap.daemon.show")


def _template(name: str, **values: Any) -> Markup:
    return Markup(_environment().get_template(name).render(**values))


LINK = "#e{0}"
"""Link of a bar, to be formatted with the `seq` of its event."""
HELD = 20_000
"""Maximum turns held in memory; the outline covers no more."""
HELD_TEXT = 400
"""Maximum characters of a message that are read for the overview."""
SHOWN = 500
"""Maximum turns listed in the outline."""


class Overview:
    """Collects the overview from events. It keeps only what it shows, so its memory is bounded."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._history = SessionHistory()

    def add(self, event: AnyEvent) -> None:
        if event.__struct_config__.tag not in KINDS:
            return
        brief = _without_payload(event)
        if len(self._turns.all) < HELD:
            self._turns.add(brief)
        self._history.add([StoredEvent(event.seq or 0, encode(brief))])

    def minimap(self) -> Markup:
        """Render the minimap; empty for a session without calls."""
        if not self._history.calls:
            return Markup()
        return _template("minimap.html", map=drawn(self._history, is_live=False), link=LINK)

    def outline(self) -> Markup:
        """Render the outline; empty for a session without turns."""
        turns = self._turns.all
        if not turns:
            return Markup()
        return _template("export_overview.html", turns=turns[:SHOWN], hidden=max(len(turns) - SHOWN, 0))


def _without_payload(event: AnyEvent) -> AnyEvent:
    match event:
        case Message():
            return msgspec.structs.replace(event, text=event.text[:HELD_TEXT], attachments=None, outputs=None)
        case ToolCall():
            return msgspec.structs.replace(event, input={}, outputs=None)
        case ToolUpdate():
            return msgspec.structs.replace(event, input=None, progress=None, display=None, outputs=None)
        case ToolResult():
            return msgspec.structs.replace(
                event, output={}, display=None, model_view=None, attachments=None, outputs=None
            )
        case PermissionRequest():
            return msgspec.structs.replace(event, input=None, options=None, questions=None)
    return event
