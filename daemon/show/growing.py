"""A timeline that grows: what each new event changes in the rows that are shown already.

    growing = Growing(is_quiet=True)
    growing.begin(fragments, states, parents)     # what is shown
    change = growing.add(fragment)                # what the next event changes

The rules are those of `timeline.py`, so that rows which have grown are the same as after a reload, but for one thing:
the last row is not folded, because it is still being looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from tooltap.daemon.show.shown import Fragment
from tooltap.daemon.show.timeline import OPEN, Card, Nesting, Row, can_join, is_aside, rows_of
from tooltap.protocol.events import Event, PermissionRequest, PermissionResponse, ToolCall, ToolUpdate

MOST_CARDS = 500
MOST_BYTES = 1_048_576
"""Rows that are remembered, and the bytes of their bodies. What belongs to an earlier one is a row of its own."""
PATHS = ("file_path", "path")
"""Keys of an input that are needed of a row."""
PAYLOADS: dict[str, Any] = {
    "input": {},
    "output": {},
    "text": "",
    "display": None,
    "model_view": None,
    "attachments": None,
    "progress": None,
    "outputs": None,
    "questions": None,
    "options": None,
    "answers": None,
    "data": None,
    "tools": None,
    "commands": None,
    "mcp_servers": None,
    "models": None,
}
"""Fields of events that may be long, and what is in their place."""
ANSWERED = "answered"
"""The state of a request that does not wait any more."""


class Change(NamedTuple):
    """What an event changes, in this order."""

    card: Card
    """Its card, which is a row of its own unless the others say where it is."""
    replaced: Sequence[Card]
    """Cards whose header or slots have changed, other than `children`."""
    nested: Mapping[Card, Sequence[Card]]
    """Call -> the cards that are among its children now."""
    counted: Sequence[Card]
    """Calls in which there are more calls now."""
    fold: Row | None
    """Rows that have become one, or were one and are more now."""
    is_left_out: bool
    """The card has no row."""


class Growing:
    """`is_quiet`: leave out what turns used, and what describes sessions."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._nesting = Nesting()
        self._about: defaultdict[str, list[Card]] = defaultdict(list)
        """Key of a call -> requests and updates about it."""
        self._folded: tuple[int, int] | None = None
        """`seq` of the last fold and how many calls it had."""
        self._bytes = 0

    def begin(self, fragments: Iterable[Fragment], states: Mapping[str, str], parents: Mapping[str, str]) -> None:
        """Take what is shown already, as for `nest`."""
        self._nesting = Nesting(parents)
        for fragment in fragments:
            self._take(fragment)
        self._nesting.set_states(states)

    def has(self, key: str) -> bool:
        """Whether the card of a call is here."""
        return self._nesting.find(key) is not None

    def remember(self, fragments: Iterable[Fragment]) -> None:
        """Take events of an earlier call, whose row is before all others."""
        before = len(self._nesting.cards)
        for fragment in fragments:
            self._take(fragment)
        self._nesting.cards.rotate(len(self._nesting.cards) - before)

    def add(self, fragment: Fragment) -> Change:
        """Take the next event by `seq`."""
        card, nested = self._take(fragment)
        homes = {one.home: None for one in nested if one.home is not None}
        by_home = {home: [one for one in nested if one.home is home] for home in homes}
        replaced = [] if card.home is None or card in nested else [card.home]
        if isinstance(fragment.event, PermissionResponse):
            replaced = list(dict.fromkeys([*replaced, *self._answer(fragment.into or "")]))
        counted = list(dict.fromkeys(above for home in homes for above in _upwards(home)))
        left_out = self._is_quiet and is_aside(card)
        change = Change(card, replaced, by_home, counted, None if left_out else self._fold(card), left_out)
        self._forget()
        return change

    def set_state(self, key: str, state: str | None, *, is_end: bool, is_answered: bool) -> list[Card]:
        """Set the state of a call by an event that is not shown. Return the cards that have changed. `is_end`: by its
        result; nothing else changes the state of a call that has ended. `is_answered`: its request does not wait any
        more."""
        call = self._nesting.find(key)
        about = [call] if call is not None else [one for one in self._about[key] if _is_update(one)]
        changed = []
        for one in about:
            if state is not None and state != one.status and (is_end or one.status in OPEN):
                one.status = state
                changed.append(one)
        return list(dict.fromkeys([*changed, *(self._answer(key) if is_answered else ())]))

    # -- internals ----------------------------------------------------------------------------------------------

    def _take(self, fragment: Fragment) -> tuple[Card, list[Card]]:
        added = self._nesting.add(fragment._replace(event=_without_payload(fragment.event)))
        self._bytes += len(fragment.body)
        if fragment.into is not None and isinstance(fragment.event, PermissionRequest | ToolUpdate):
            self._about[fragment.into].append(added[0])
        return added

    def _answer(self, key: str) -> list[Card]:
        """Note that the requests of a call do not wait any more. Return the cards that show it."""
        asked = [one for one in self._about[key] if one.status == "asked"]
        for one in asked:
            one.status = ANSWERED
        return [one.home or one for one in asked]

    def _fold(self, card: Card) -> Row | None:
        """Return the row that the calls before the last one have become."""
        rows = self._nesting.cards if card.home is None else card.home.inside.get("children", ())
        if not rows or card is not rows[-1]:
            return None
        before = (one for one in reversed(rows) if one is not card and not (self._is_quiet and is_aside(one)))
        last = next(before, None)
        if last is None:
            return None
        run = [last, *takewhile(lambda one: can_join(one, last), before)][::-1]
        folded = [row for row in rows_of(run) if row.is_fold]
        if not folded or (mark := (folded[-1].seq, len(folded[-1].cards))) == self._folded:
            return None
        self._folded = mark
        return folded[-1]

    def _forget(self) -> None:
        cards = self._nesting.cards
        while len(cards) > 1 and (len(cards) > MOST_CARDS or self._bytes > MOST_BYTES):
            gone = self._nesting.pop()
            for one in (gone, *gone.below()):
                self._bytes -= len(one.fragment.body)
                self._about.pop(one.fragment.into or "", None)


def _without_payload(event: Event) -> Event:
    """An event without what only its body shows: it is remembered as long as its row."""
    emptied = {name: value for name, value in PAYLOADS.items() if name in event.__struct_fields__}
    if isinstance(event, ToolCall):
        emptied["input"] = {key: event.input[key] for key in PATHS if key in event.input}
    return msgspec.structs.replace(event, **emptied)


def _is_update(card: Card) -> bool:
    return isinstance(card.fragment.event, ToolUpdate) and card.home is None


def _upwards(card: Card) -> Iterable[Card]:
    """Yield a call, and those that have spawned it."""
    above: Card | None = card
    while above is not None:
        if "children" in above.inside:
            yield above
        above = above.home
