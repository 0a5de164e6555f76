"""The overview of an exported session: its turns, with what each of them took, as links to their places.

held = Overview()
for event in events:
    held.add(event)
html = overview(held.events)
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
from markupsafe import Markup

from tooltap.daemon.web.html.markup import template
from tooltap.daemon.web.page.export.turns import Turns
from tooltap.protocol.events import AnyEvent, Message, ToolCall, ToolResult, ToolUpdate, Turn

__all__ = ["HeldEvents", "overview"]

HELD = 50_000
"""Events that are held for the overview; it covers no more."""
HELD_TEXT = 400
"""Characters of a message that are held."""
SHOWN = 500
"""Turns that it lists."""


class HeldEvents:
    """What the overview needs of events, without their payloads."""

    def __init__(self) -> None:
        self.events: list[AnyEvent] = []

    def add(self, event: AnyEvent) -> None:
        if len(self.events) < HELD and isinstance(event, Turn | Message | ToolCall | ToolUpdate | ToolResult):
            self.events.append(_without_payload(event))


def _without_payload(event: Turn | Message | ToolCall | ToolUpdate | ToolResult) -> AnyEvent:
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
    return event


def overview(events: Iterable[AnyEvent]) -> Markup:
    """Render it; nothing for a session without turns."""
    turns = Turns()
    for event in events:
        turns.add(event)
    if not turns.all:
        return Markup()
    return template("export_overview.html", turns=turns.all[:SHOWN], hidden=max(len(turns.all) - SHOWN, 0))
