"""The overview of an exported session: its minimap, and its turns with their figures. Both link to events in the file.

overview = Overview()
for event in events:            # masked, with a `seq`
    overview.add(event)
html = overview.minimap(), overview.outline()
"""

from __future__ import annotations

import msgspec
from markupsafe import Markup

from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.web.page.export.turns import Turns
from tooltap.daemon.web.page.overview.history import KINDS, History
from tooltap.daemon.web.page.overview.session_map import drawn
from tooltap.daemon.web.templating import template
from tooltap.protocol.events import (
    AnyEvent,
    Message,
    PermissionRequest,
    ToolCall,
    ToolResult,
    ToolUpdate,
    encode,
)

__all__ = ["LINK", "Overview"]

LINK = "#e{0}"
"""Where a bar leads, by the `seq` of its event."""
HELD = 20_000
"""Turns that are held; the outline covers no more."""
HELD_TEXT = 400
"""Characters of a message that are looked at."""
SHOWN = 500
"""Turns that it lists."""


class Overview:
    """Holds only what it shows of the events, so its memory is bounded."""

    def __init__(self) -> None:
        self._turns = Turns()
        self._history = History()

    def add(self, event: AnyEvent) -> None:
        if event.__struct_config__.tag not in KINDS:
            return
        brief = _without_payload(event)
        if len(self._turns.all) < HELD:
            self._turns.add(brief)
        self._history.add([StoredEvent(event.seq or 0, encode(brief))])

    def minimap(self) -> Markup:
        """Render the map; nothing for a session without calls."""
        if not self._history.calls:
            return Markup()
        return template("minimap.html", map=drawn(self._history, is_live=False), link=LINK)

    def outline(self) -> Markup:
        """Render the turns; nothing for a session without turns."""
        turns = self._turns.all
        if not turns:
            return Markup()
        return template("export_overview.html", turns=turns[:SHOWN], hidden=max(len(turns) - SHOWN, 0))


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
