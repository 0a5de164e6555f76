"""Nests fragments: puts those that belong to a call into the slots of its card.

    cards = nest(fragments)               # in the order of the journal

Results, updates, permission requests and responses go to their call; the events of a subagent go to the call that
spawned it. That call is in the same stream, or in another one of the same session: agents keep the sessions of their
subagents in files of their own. Then it may come later than the subagent's events, and so may the event that says which
call it is. Any other fragment whose call has not come before is a card of its own. `static/cards.js` applies the same
rules to live events: change both together.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from tooltap.daemon.web.cards.cards import Fragment, Slot, card_key
from tooltap.protocol.events import PermissionRequest, PermissionResponse, ToolResult, ToolUpdate, Turn, Usage

__all__ = ["MAX_DEPTH", "OPEN", "Card", "Nesting", "nest"]

MAX_DEPTH = 8
"""Levels of subagents; a deeper event is a card of its own."""
OPEN = frozenset(["pending", "running", "awaiting-permission"])
"""States of a call that has not ended."""

_Wanted: TypeAlias = tuple[Literal["call", "agent"], str]


@dataclass(slots=True, eq=False)
class Card:
    fragment: Fragment
    status: str
    """The status of the call now."""
    home: Card | None = None
    """The card whose slot it is in."""
    inside: dict[Slot, list[Card]] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """How many calls have spawned the subagent whose event it is."""
        above = 0 if self.home is None else self.home.depth
        return above + (self.fragment.slot == "children" and self.home is not None)

    @property
    def height(self) -> int:
        """Levels of subagents in it."""
        children = self.inside.get("children", ())
        return max((1 + one.height for one in children), default=0)

    def take(self, card: Card, slot: Slot) -> None:
        """Put a card into a slot. Only the latest update stays, and the latest usage of each scope; a result removes
        the one that it replaces."""
        card.home = self
        event = card.fragment.event
        kept = self.inside.get(slot, [])
        if isinstance(event, ToolUpdate):
            kept = [one for one in kept if not isinstance(one.fragment.event, ToolUpdate)]
        elif isinstance(event, Usage):
            kept = [one for one in kept if getattr(one.fragment.event, "scope", None) != event.scope]
        elif isinstance(event, ToolResult) and event.replaces is not None:
            kept = [one for one in kept if one.fragment.event.id != event.replaces]
        self.inside[slot] = [*kept, card]
        if slot == "children":
            self.inside[slot].sort(key=lambda one: one.fragment.seq)
        if card.fragment.preview and not self.fragment.preview and slot == "input":
            self.fragment = self.fragment._replace(preview=card.fragment.preview)
        if isinstance(event, ToolResult) and not event.async_:
            self.status = event.status
        elif isinstance(event, Turn) and slot == "turn":
            self.status = card.fragment.status
        elif self.status in OPEN:
            self.status = _status_after(card.fragment) or self.status


class Nesting:
    """Builds cards from fragments in the order of the journal. `parents`: key of a subagent -> key by the session of
    the call that spawned it, where no event that is added says so."""

    def __init__(self, parents: Mapping[str, str] | None = None) -> None:
        self.cards: deque[Card] = deque()
        self._calls: dict[str, Card] = {}
        self._calls_of_session: dict[str, Card] = {}
        self._waiting: defaultdict[_Wanted, dict[int, Card]] = defaultdict(dict)
        """Cards of their own that belong to a call that has not come, or to an agent whose call is not known."""
        self._parents = dict(parents or {})

    def add(self, fragment: Fragment) -> None:
        """Add the next fragment by `seq`."""
        if fragment.agent in self._parents:
            fragment = _tied(fragment, self._parents[fragment.agent])
        card = Card(fragment, fragment.status)
        home = self._home_of(fragment)
        if home is None or fragment.slot is None or not _is_room(home, card):
            self.cards.append(card)
            self._wait(card)
        else:
            home.take(card, fragment.slot)
        if fragment.key is not None:
            self._calls[fragment.key] = card
        if fragment.session_key is not None:
            self._calls_of_session[fragment.session_key] = card
            self._collect(("call", fragment.session_key), fragment.session_key)
        if fragment.ties is not None and fragment.into_session is not None:
            self._parents[fragment.ties] = fragment.into_session
            self._collect(("agent", fragment.ties), fragment.into_session)

    def set_states(self, states: Mapping[str, str]) -> None:
        """Set the states of calls whose results are not added, and of requests, by the keys of their cards. What is
        about a call that is not here has the state of that call."""
        for key, state in states.items():
            if key in self._calls:
                self._calls[key].status = state
        stack = list(self.cards) if states else []
        while stack:
            card = stack.pop()
            stack += [one for cards in card.inside.values() for one in cards]
            fragment = card.fragment
            state = states.get(card_key(fragment.seq), "")
            if isinstance(fragment.event, ToolUpdate) and card.home is None:
                state = states.get(fragment.into or "", "")
            card.status = state or card.status

    def pop(self) -> Card:
        """Remove and return the first card. Nothing is nested in it any more."""
        card = self.cards.popleft()
        self._forget(card)
        return card

    def _home_of(self, fragment: Fragment) -> Card | None:
        home = self._calls.get(fragment.into or "")
        return home or self._calls_of_session.get(fragment.into_session or "")

    def _wait(self, card: Card) -> None:
        if (wanted := _wanted_by(card.fragment)) is not None:
            self._waiting[wanted][card.fragment.seq] = card

    def _collect(self, wanted: _Wanted, session_key: str) -> None:
        """Nest the cards that have waited for a call, or for the call of their agent to be known."""
        home = self._calls_of_session.get(session_key)
        moved: set[Card] = set()
        for card in list(self._waiting.pop(wanted, {}).values()):
            card.fragment = _tied(card.fragment, session_key)
            if home is not None and _is_room(home, card):
                home.take(card, "children")
                moved.add(card)
            else:
                self._wait(card)
        if moved:
            self.cards = deque(card for card in self.cards if card not in moved)

    def _forget(self, card: Card) -> None:
        fragment = card.fragment
        for key, calls in ((fragment.key, self._calls), (fragment.session_key, self._calls_of_session)):
            if key is not None and calls.get(key) is card:
                del calls[key]
        if (wanted := _wanted_by(fragment)) is not None and wanted in self._waiting:
            self._waiting[wanted].pop(fragment.seq, None)
            if not self._waiting[wanted]:
                del self._waiting[wanted]
        for cards in card.inside.values():
            for one in cards:
                self._forget(one)


def nest(
    fragments: Iterable[Fragment],
    states: Mapping[str, str] | None = None,
    parents: Mapping[str, str] | None = None,
) -> list[Card]:
    """Nest the fragments of one page, which are in the order of `seq`. `states`: of calls whose results are not among
    them; `parents`: as for `Nesting`."""
    nesting = Nesting(parents)
    for fragment in fragments:
        nesting.add(fragment)
    nesting.set_states(states or {})
    return list(nesting.cards)


def _wanted_by(fragment: Fragment) -> _Wanted | None:
    if fragment.into_session is not None:
        return "call", fragment.into_session
    return None if fragment.agent is None else ("agent", fragment.agent)


def _tied(fragment: Fragment, session_key: str) -> Fragment:
    """A fragment of a subagent, with its call."""
    return fragment._replace(into=fragment.into or session_key, into_session=session_key, slot="children", agent=None)


def _is_room(home: Card, card: Card) -> bool:
    """Whether the card may be in that one: not too deep, and not in itself."""
    above: Card | None = home
    while above is not None:
        if above is card:
            return False
        above = above.home
    return card.fragment.slot != "children" or home.depth + 1 + card.height <= MAX_DEPTH


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
