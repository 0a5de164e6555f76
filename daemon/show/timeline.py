"""Arranges fragments: nests those that belong to a call or a turn in its card, and folds cards into rows.

    cards = nest(fragments)               # in the order of the journal
    rows = rows_of(cards)

Results, updates, permission requests and responses go to their call; the events of a subagent go to the call that
spawned it. That call is in the same stream, or in another one of the same session: agents keep the sessions of their
subagents in files of their own. Then it may come later than the subagent's events, and so may the event that says which
call it is. Any other fragment whose call has not come before is a card of its own.

Runs of reads and searches are one row.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Literal, NamedTuple, TypeAlias

from tooltap.daemon.formats import counted, spent
from tooltap.daemon.show.facts import Fact
from tooltap.daemon.show.names import FOLDED
from tooltap.daemon.show.results import NOTABLE
from tooltap.daemon.show.shown import Fragment, Slot, card_key
from tooltap.protocol.events import (
    PermissionRequest,
    PermissionResponse,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Usage,
)

MAX_DEPTH = 8
"""Levels of subagents; a deeper event is a card of its own."""
OPEN = frozenset(["pending", "running", "awaiting-permission"])
"""States of a call that has not ended."""

PLACES = {"cost": 1, "context": 2, "took": 3}
"""Facts that come last in a row of facts, in this order."""


class Lifted(NamedTuple):
    """A fact that a card has of an event in one of its slots."""

    fact: Fact
    of: int
    """`seq` of that event; 0 for the card's own."""


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

    @property
    def facts(self) -> list[Lifted]:
        """The facts in its header: its own, all of its results, and of what a turn used and of its end those with
        names, the latest of each name."""
        found = [Lifted(fact, 0) for fact in self.fragment.facts]
        for one in self.inside.get("output", ()):
            found += [Lifted(fact, one.fragment.seq) for fact in one.fragment.facts]
        for one in self.inside.get("turn", ()):
            for fact in one.fragment.facts:
                if fact.name:
                    found = [other for other in found if other.fact.name != fact.name]
                    found.append(Lifted(fact, one.fragment.seq))
        return sorted(found, key=lambda one: PLACES.get(one.fact.name, 0))

    @property
    def calls(self) -> int:
        """How many calls are in it, of its subagent and theirs."""
        return sum(isinstance(one.fragment.event, ToolCall) for one in self.below())

    def below(self) -> Iterator[Card]:
        """Yield every card in it."""
        stack = [one for cards in self.inside.values() for one in cards]
        while stack:
            one = stack.pop()
            yield one
            stack += [inner for cards in one.inside.values() for inner in cards]

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

    def add(self, fragment: Fragment) -> tuple[Card, list[Card]]:
        """Add the next fragment by `seq`. Return its card, and the cards that are among the children of a call now: it
        may be one of them."""
        nested: list[Card] = []
        if fragment.agent in self._parents:
            fragment = _tied(fragment, self._parents[fragment.agent])
        card = Card(fragment, fragment.status)
        home = self._home_of(fragment)
        if home is None or fragment.slot is None or not _is_room(home, card):
            self.cards.append(card)
            self._wait(card)
        else:
            home.take(card, fragment.slot)
            nested += [card] if fragment.slot == "children" else []
        if fragment.key is not None:
            self._calls[fragment.key] = card
        if fragment.session_key is not None:
            self._calls_of_session[fragment.session_key] = card
            nested += self._collect(("call", fragment.session_key), fragment.session_key)
        if fragment.ties is not None and fragment.into_session is not None:
            self._parents[fragment.ties] = fragment.into_session
            nested += self._collect(("agent", fragment.ties), fragment.into_session)
        return card, nested

    def find(self, key: str) -> Card | None:
        """Return the card of a call or a turn, by its key."""
        return self._calls.get(key)

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

    def _collect(self, wanted: _Wanted, session_key: str) -> list[Card]:
        """Nest the cards that have waited for a call, or for the call of their agent to be known, and return them."""
        home = self._calls_of_session.get(session_key)
        moved: dict[Card, None] = {}
        for card in list(self._waiting.pop(wanted, {}).values()):
            card.fragment = _tied(card.fragment, session_key)
            if home is not None and _is_room(home, card):
                home.take(card, "children")
                moved[card] = None
            else:
                self._wait(card)
        if moved:
            self.cards = deque(card for card in self.cards if card not in moved)
        return list(moved)

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


FEWEST = 2
"""Calls in a fold, at least."""


class Row(NamedTuple):
    """A card, or a fold: consecutive calls that only looked at something."""

    cards: Sequence[Card]

    @property
    def seq(self) -> int:
        return self.cards[0].fragment.seq

    @property
    def is_fold(self) -> bool:
        return len(self.cards) > 1

    @property
    def label(self) -> str:
        """What the calls of a fold looked at."""
        return label_of(self.cards)

    @property
    def took(self) -> str | None:
        """How long a fold took, if that is known and worth telling."""
        return _time_of(self.cards)


def rows_of(cards: Iterable[Card], *, is_quiet: bool = False, folds: bool = True) -> list[Row]:
    """Arrange cards as rows. `is_quiet`: leave out what turns used, and what describes sessions. Nothing that failed or
    still runs is folded away."""
    kept = [card for card in cards if not (is_quiet and is_aside(card))]
    return [Row(run) for run in (_runs(kept) if folds else ([card] for card in kept))]


def is_aside(card: Card) -> bool:
    """Whether the card only reports usage, or describes a session or a turn that begins elsewhere."""
    event = card.fragment.event
    if isinstance(event, Turn):
        return event.agent is not None or event.state != "started"
    return isinstance(event, Usage | SessionEvent)


def is_foldable(card: Card) -> bool:
    fragment = card.fragment
    return (
        isinstance(fragment.event, ToolCall)
        and fragment.family in FOLDED
        and card.status == "completed"
        and fragment.level == "title"
        and "children" not in card.inside
    )


def label_of(run: Sequence[Card]) -> str:
    """Say what a run of calls looked at: `14 files in services/ — 6 searches, 8 reads`."""
    paths = {path: None for card in run if (path := _path_of(card))}
    reads = sum(card.fragment.family == "read" for card in run)
    counts = [counted(len(run) - reads, "search", "searches")] if len(run) > reads else []
    counts += [counted(reads, "read")] if reads else []
    where = _where(list(paths))
    return f"{where} — {', '.join(counts)}" if where else ", ".join(counts)


def _where(paths: Sequence[str]) -> str:
    """`dunning.py`, `14 files in services/`; empty without paths."""
    if len(paths) < 2:
        return PurePosixPath(paths[0]).name if paths else ""
    folders = [path.split("/")[:-1] for path in paths]
    common = folders[0]
    for other in folders[1:]:
        same = 0
        while same < min(len(common), len(other)) and common[same] == other[same]:
            same += 1
        common = common[:same]
    place = f" in {common[-1]}/" if common and common[-1] else ""
    return f"{counted(len(paths), 'file')}{place}"


def _path_of(card: Card) -> str:
    event = card.fragment.event
    if not isinstance(event, ToolCall) or card.fragment.family != "read":
        return ""
    path = event.input.get("file_path") or event.input.get("path")
    return path.replace("\\", "/") if isinstance(path, str) else ""


def _time_of(run: Sequence[Card]) -> str | None:
    """Return the time from the first call to the last result, if that is known."""
    began = run[0].fragment.event.ts
    ended = [one.fragment.event.ts for card in run for one in card.inside.get("output", ())]
    known = [ts for ts in ended if ts is not None]
    return spent(max(known) - began) if began is not None and known and max(known) - began >= NOTABLE else None


def _runs(cards: Sequence[Card]) -> Iterator[list[Card]]:
    """Yield calls that are folded into one row together, and every other card alone."""
    run: list[Card] = []
    for card in cards:
        if run and can_join(card, run[0]):
            run.append(card)
            continue
        yield from _closed(run)
        run = [card] if is_foldable(card) else []
        if not run:
            yield [card]
    yield from _closed(run)


def _closed(run: list[Card]) -> Iterator[list[Card]]:
    if len(run) >= FEWEST:
        yield run
    else:
        yield from ([card] for card in run)


def can_join(card: Card, other: Card) -> bool:
    """Whether a card belongs into one fold with another one beside it, which can be folded."""
    return is_foldable(card) and _by(card) == _by(other)


def _by(card: Card) -> tuple[str, str | None]:
    return card.fragment.event.session, card.fragment.event.agent
