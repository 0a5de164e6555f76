"""Nests fragments: puts those that belong to a call into the slots of its card.

    cards = nest(fragments)               # in the order of the journal
    html = [html_of(card) for card in cards]

Results, updates, permission requests and responses go to their call; the events of a subagent go to the call that
spawned it. A fragment whose call has not come before is a card of its own. `static/cards.js` applies the same rules to
live events: change both together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from markupsafe import Markup

from tooltap.daemon.web.cards.cards import Fragment, Slot, article
from tooltap.protocol.events import PermissionRequest, PermissionResponse, ToolResult, ToolUpdate

__all__ = ["MAX_DEPTH", "Card", "Nesting", "html_of", "nest"]

MAX_DEPTH = 8
"""Levels of subagents; a deeper event is a card of its own."""


@dataclass(slots=True)
class Card:
    fragment: Fragment
    status: str
    """The status of the call now."""
    depth: int = 0
    inside: dict[Slot, list[Card]] = field(default_factory=dict)

    def take(self, card: Card, slot: Slot) -> None:
        """Put a card into a slot. Only the latest update stays, and a result removes the one that it replaces."""
        event = card.fragment.event
        kept = self.inside.get(slot, [])
        if isinstance(event, ToolUpdate):
            kept = [one for one in kept if not isinstance(one.fragment.event, ToolUpdate)]
        elif isinstance(event, ToolResult) and event.replaces is not None:
            kept = [one for one in kept if one.fragment.event.id != event.replaces]
        self.inside[slot] = [*kept, card]
        if card.fragment.preview and not self.fragment.preview and slot == "input":
            self.fragment = self.fragment._replace(preview=card.fragment.preview)
        if isinstance(event, ToolResult):
            self.status = event.status
        elif not any(isinstance(one.fragment.event, ToolResult) for one in self.inside.get("output", ())):
            self.status = _status_after(card.fragment) or self.status


class Nesting:
    """Builds cards from fragments in the order of the journal."""

    def __init__(self) -> None:
        self.cards: deque[Card] = deque()
        self._calls: dict[str, Card] = {}

    def add(self, fragment: Fragment) -> None:
        """Add the next fragment by `seq`."""
        card = Card(fragment, fragment.status)
        home = None if fragment.into is None else self._calls.get(fragment.into)
        if home is None or fragment.slot is None or (fragment.slot == "children" and home.depth == MAX_DEPTH):
            self.cards.append(card)
        else:
            if fragment.slot == "children":
                card.depth = home.depth + 1
            home.take(card, fragment.slot)
        if fragment.key is not None:
            self._calls[fragment.key] = card

    def pop(self) -> Card:
        """Remove and return the first card. Nothing is nested in it any more."""
        card = self.cards.popleft()
        self._forget(card)
        return card

    def _forget(self, card: Card) -> None:
        key = card.fragment.key
        if key is not None and self._calls.get(key) is card:
            del self._calls[key]
        for cards in card.inside.values():
            for one in cards:
                self._forget(one)


def nest(fragments: Iterable[Fragment]) -> list[Card]:
    """Nest the fragments of one page, which are in the order of `seq`."""
    nesting = Nesting()
    for fragment in fragments:
        nesting.add(fragment)
    return list(nesting.cards)


def html_of(card: Card) -> Markup:
    inside = {slot: [html_of(one) for one in cards] for slot, cards in card.inside.items()}
    return article(card.fragment, inside, status=card.status)


def _status_after(fragment: Fragment) -> str:
    """Return the new status of a call without a result; empty if it does not change."""
    match fragment.event:
        case ToolUpdate(status=status):
            return status or ""
        case PermissionRequest():
            return "awaiting-permission"
        case PermissionResponse(outcome="allowed" | "answered"):
            return "running"
    return ""
