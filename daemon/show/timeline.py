"""Arranges fragments: nests those that belong to a call or a turn in its card, folds cards into rows, numbers turns.

    cards = nest(fragments)               # in the order of the journal
    rows = rows_of(cards)

Results, updates, permission requests and responses go to their call; the events of a subagent go to the call that
spawned it. That call may be in another stream of the same session, since agents keep the sessions of their subagents in
files of their own. It may then come later than the subagent's events, and so may the event that says which call it is.
Any other fragment whose call has not come before is a card of its own.

Consecutive reads and searches are folded into one row, and so is what hooks reported, unless one failed or blocked.

`Growing` updates a timeline by the same rules:

    growing = Growing(is_quiet=True)
    growing.begin(fragments, states, parents)     # what is shown already
    change = growing.add(fragment)                # what the next event changes

Rows that have grown are the same as after a reload, except that the last row is not folded, because the reader is still
looking at it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, takewhile
from pathlib import PurePosixPath
from typing import Any, Literal, NamedTuple, TypeAlias

import msgspec

from tooltap.daemon.formats import counted, spent
from tooltap.daemon.sessions.row import first_line_of
from tooltap.daemon.show.bodies import NOTABLE, is_bad_end
from tooltap.daemon.show.facts import Fact
from tooltap.daemon.show.shown import TURN, Fragment, Slot, card_key
from tooltap.daemon.show.turn_naming import TurnNaming
from tooltap.protocol.events import (
    TIMED,
    WORK,
    AnyEvent,
    Event,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    SessionEvent,
    ToolCall,
    ToolResult,
    ToolUpdate,
    Turn,
    Usage,
)

FOLDED = ("read", "search")
"""Families of calls that are folded: they change nothing."""
MAX_DEPTH = 8
"""Maximum nesting of subagents; a deeper event is a card of its own."""
OPEN = frozenset(["pending", "running", "awaiting-permission"])
"""States of a call that has not ended."""

PLACES = {"cost": 1, "context": 2, "waited": 3, "took": 4}
"""Facts that come last in a row of facts, in this order."""


class Lifted(NamedTuple):
    """A fact shown in a card's header, and the event in the card that it is from."""

    fact: Fact
    of: int
    """`seq` of the event that has the fact; 0 for the card's own event."""


_Wanted: TypeAlias = tuple[Literal["call", "agent"], str]


@dataclass(slots=True, eq=False)
class Card:
    fragment: Fragment
    status: str
    """The current status of the call or turn."""
    home: Card | None = None
    """The card that contains this one in a slot."""
    inside: dict[Slot, list[Card]] = field(default_factory=dict)

    @property
    def depth(self) -> int:
        """Return the nesting of subagents above the card."""
        above = 0 if self.home is None else self.home.depth
        return above + (self.fragment.slot == "children" and self.home is not None)

    @property
    def height(self) -> int:
        """Return the levels of subagents in the card."""
        children = self.inside.get("children", ())
        return max((1 + one.height for one in children), default=0)

    @property
    def facts(self) -> list[Lifted]:
        """Return the facts in the header: the card's own, all of its results, and the named ones of a turn's usage and
        end, the latest of each name."""
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
        """Return the number of calls in the card, at any depth."""
        return sum(isinstance(one.fragment.event, ToolCall) for one in self.below())

    def below(self) -> Iterator[Card]:
        """Yield every card in this one, at any depth."""
        stack = [one for cards in self.inside.values() for one in cards]
        while stack:
            one = stack.pop()
            yield one
            stack += [inner for cards in one.inside.values() for inner in cards]

    def take(self, card: Card, slot: Slot) -> None:
        """Put a card into a slot. An update replaces the one before, a usage that of the same scope, and a result the
        one that it names (`replaces`)."""
        card.home = self
        event = card.fragment.event
        kept = self.inside.get(slot, [])
        if isinstance(event, ToolUpdate):
            kept = [one for one in kept if not isinstance(one.fragment.event, ToolUpdate)]
            if slot == "output":  # a command's view of the result, which the user sees in its place
                for one in kept:
                    one.fragment = one.fragment._replace(body=())
        elif isinstance(event, Usage):
            kept = [one for one in kept if getattr(one.fragment.event, "scope", None) != event.scope]
        elif isinstance(event, Turn):
            kept = [one for one in kept if not isinstance(one.fragment.event, Turn)]
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


class Added(NamedTuple):
    card: Card
    nested: list[Card]
    """All cards that became children of a call by this, maybe including that card."""
    reopened: Card | None
    """The card of a turn that was over provisionally, and goes on."""


class Nesting:
    """Nests fragments in cards, in the order of the journal. `parents`: key of a subagent -> key of the call that
    spawned it, with the session as its scope, where no added event says so."""

    def __init__(self, parents: Mapping[str, str] | None = None) -> None:
        self.cards: deque[Card] = deque()
        self._calls: dict[str, Card] = {}
        self._calls_of_session: dict[str, Card] = {}
        self._waiting: defaultdict[_Wanted, dict[int, Card]] = defaultdict(dict)
        """Top-level cards that belong to a call that has not come yet, or to a subagent whose call is not known."""
        self._parents = dict(parents or {})

    def add(self, fragment: Fragment) -> Added:
        """Add the next fragment by `seq`, and return what it changes."""
        nested: list[Card] = []
        event = fragment.event
        reopened = self.reopen(event.stream, event.turn, fragment.seq) if _goes_on(event) else None
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
        return Added(card, nested, reopened)

    def reopen(self, stream: str, turn: str | None, seq: int) -> Card | None:
        """Take back the provisional end of a turn with which the main agent goes on in the event `seq`. Return the
        turn's card; None if it does not change."""
        card = self._calls.get(f"{stream}{TURN}")
        inside = [] if card is None else card.inside.get("turn", [])
        kept = [one for one in inside if not (_settles(one.fragment.event, turn) and one.fragment.seq < seq)]
        if card is None or len(kept) == len(inside):
            return None
        card.inside["turn"] = kept
        card.status = card.fragment.status
        return card

    def find(self, key: str) -> Card | None:
        """Return the card of a call or a turn, by its key."""
        return self._calls.get(key)

    def set_states(self, states: Mapping[str, str]) -> None:
        """Set the states of calls whose results are not added, and of requests, by the keys of their cards. An update
        whose call is not here gets the state of that call."""
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
        """Remove and return the first card. Later fragments are not nested in it."""
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
        """Nest the cards that have waited for a call, or for the call of their subagent to be known, and return
        them."""
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
    """Nest the fragments of one page, in the order of `seq`. `states`: of calls whose results are not among the
    fragments; `parents`: as for `Nesting`."""
    nesting = Nesting(parents)
    for fragment in fragments:
        nesting.add(fragment)
    nesting.set_states(states or {})
    return list(nesting.cards)


def _goes_on(event: AnyEvent | Event) -> bool:
    """Return whether the main agent works, so that a turn with a provisional end has not ended."""
    return event.agent is None and event.__struct_config__.tag in WORK


def _settles(event: Event, turn: str | None) -> bool:
    return isinstance(event, Turn) and event.provisional and event.turn == turn


def _wanted_by(fragment: Fragment) -> _Wanted | None:
    if fragment.into_session is not None:
        return "call", fragment.into_session
    return None if fragment.agent is None else ("agent", fragment.agent)


def _tied(fragment: Fragment, session_key: str) -> Fragment:
    """Return a subagent's fragment with the call that spawned the subagent."""
    return fragment._replace(into=fragment.into or session_key, into_session=session_key, slot="children", agent=None)


def _is_room(home: Card, card: Card) -> bool:
    """Return whether a card may be nested in another: not too deep, and not in itself."""
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
"""Minimum calls in a fold that has any."""


class TimelineRow(NamedTuple):
    """A card, or a fold of consecutive calls that changed nothing and of messages of hooks."""

    cards: Sequence[Card]
    is_fold: bool

    @property
    def seq(self) -> int:
        return self.cards[0].fragment.seq

    @property
    def title(self) -> str:
        """Return the title of a fold; empty if only hooks have reported, which the label says."""
        return "" if all(map(_is_hook, self.cards)) else "Explored"

    @property
    def label(self) -> str:
        """Return the label of a fold."""
        return label_of(self.cards)

    @property
    def took(self) -> str | None:
        """Return the duration of a fold; None if it is unknown or too short."""
        return _time_of(self.cards)


def rows_of(cards: Iterable[Card], *, is_quiet: bool = False, folds: bool = True) -> list[TimelineRow]:
    """Arrange cards as rows. `is_quiet`: leave out usage and descriptions of sessions. A call that failed or still runs
    is not folded."""
    kept = [card for card in cards if not (is_quiet and is_aside(card))]
    if not folds:
        return [TimelineRow([card], is_fold=False) for card in kept]
    return [TimelineRow(run, len(run) > 1 or (_is_hook(run[0]) and is_foldable(run[0]))) for run in _runs(kept)]


def is_aside(card: Card) -> bool:
    """Return whether the card only reports usage, or describes a session or a turn that begins elsewhere."""
    event = card.fragment.event
    if isinstance(event, SessionEvent):
        return not is_bad_end(event)
    if isinstance(event, Turn):
        return not event.starts
    return isinstance(event, Usage)


def only_looked(family: str, status: str) -> bool:
    """Return whether a call was a read or a search and completed, so that it may be folded."""
    return family in FOLDED and status == "completed"


def is_quiet_hook(event: AnyEvent | Event) -> bool:
    """Return whether an event is the message of a hook that neither failed nor blocked."""
    return isinstance(event, Notice) and event.code == "hook" and event.level == "info"


def _is_hook(card: Card) -> bool:
    return is_quiet_hook(card.fragment.event)


def is_foldable(card: Card) -> bool:
    fragment = card.fragment
    looked = isinstance(fragment.event, ToolCall) and only_looked(fragment.family, card.status)
    return (looked or _is_hook(card)) and fragment.level == "title" and "children" not in card.inside


def label_of(run: Sequence[Card]) -> str:
    """Return the label of a fold: `14 files in services/ — 6 searches, 8 reads, 2 hook messages`."""
    paths = {path: None for card in run if (path := _path_of(card))}
    calls = [card.fragment.family for card in run if not _is_hook(card)]
    hooks = len(run) - len(calls)
    counts = ", ".join(([looks(calls)] if calls else []) + ([counted(hooks, "hook message")] if hooks else []))
    where = _where(list(paths))
    return f"{where} — {counts}" if where else counts


def looks(families: Sequence[str]) -> str:
    """Count the calls of a fold, by their families: `6 searches, 8 reads`."""
    reads = families.count("read")
    counts = [counted(len(families) - reads, "search", "searches")] if len(families) > reads else []
    return ", ".join([*counts, counted(reads, "read")] if reads else counts)


def _where(paths: Sequence[str]) -> str:
    """Return the file, or the number of files and their folder: `dunning.py`, `14 files in services/`; empty without
    paths."""
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
    """Return the time from the first call to the last result; None if it is unknown or too short."""
    began = run[0].fragment.event.ts
    ended = [one.fragment.event.ts for card in run for one in card.inside.get("output", ())]
    known = [ts for ts in ended if ts is not None]
    return spent(max(known) - began) if began is not None and known and max(known) - began >= NOTABLE else None


def _runs(cards: Sequence[Card]) -> Iterator[list[Card]]:
    """Yield runs of calls that are folded into one row, and every other card alone."""
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
    """Yield the folds of a run. A call that is alone stays visible between the messages of hooks."""
    if sum(not _is_hook(card) for card in run) >= FEWEST:
        yield run
    else:
        yield from (list(cards) for _, cards in groupby(run, _is_hook))


def can_join(card: Card, other: Card) -> bool:
    """Return whether a card can be in one fold with `other`, a foldable neighbor."""
    return is_foldable(card) and _by(card) == _by(other)


def _by(card: Card) -> tuple[str, str | None]:
    return card.fragment.event.session, card.fragment.event.agent


# -- what the next event changes -------------------------------------------------------------------------------------


MOST_CARDS = 500
MOST_BYTES = 1_048_576
"""Maximum rows (`MOST_CARDS`) and bytes of their bodies that are remembered. What belongs to an older row is shown as a
separate one."""
PATHS = ("file_path", "path")
"""Keys of an input that a remembered row needs."""
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
"""Fields of events that may be long -> their replacement in a remembered row."""
ANSWERED = "answered"
"""The state of a request that no longer waits."""


class RowChanges(NamedTuple):
    """The changes by an event, to be applied in this order."""

    card: Card
    """Card of the event. It is a row of its own, unless another field places it."""
    replaced: Sequence[Card]
    """Cards whose header or slots have changed, other than `children`."""
    nested: Mapping[Card, Sequence[Card]]
    """Call -> cards that have become its children."""
    counted: Sequence[Card]
    """Calls whose number of nested calls has changed."""
    fold: TimelineRow | None
    """A fold that is new or has grown."""
    is_left_out: bool
    """True if the card has no row."""


class Growing:
    """A timeline that events are added to. `is_quiet`: leave out usage and descriptions of sessions."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_quiet = is_quiet
        self._nesting = Nesting()
        self._about: defaultdict[str, list[Card]] = defaultdict(list)
        """Key of a call -> requests and updates about it."""
        self._folded: tuple[int, int] | None = None
        """`seq` of the last fold that was reported, and its number of calls."""
        self._bytes = 0

    def begin(self, fragments: Iterable[Fragment], states: Mapping[str, str], parents: Mapping[str, str]) -> None:
        """Take the fragments that are already shown. The arguments are those of `nest`."""
        self._nesting = Nesting(parents)
        for fragment in fragments:
            self._take(fragment)
        self._nesting.set_states(states)

    def has(self, key: str) -> bool:
        """Return whether the card of a call is remembered."""
        return self._nesting.find(key) is not None

    def remember(self, fragments: Iterable[Fragment]) -> None:
        """Add the events of an earlier call, before all other rows."""
        before = len(self._nesting.cards)
        for fragment in fragments:
            self._take(fragment)
        self._nesting.cards.rotate(len(self._nesting.cards) - before)

    def add(self, fragment: Fragment) -> RowChanges:
        """Add the next event by `seq`, and return what it changes."""
        card, nested, reopened = self._take(fragment)
        homes = {one.home: None for one in nested if one.home is not None}
        by_home = {home: [one for one in nested if one.home is home] for home in homes}
        replaced = [] if card.home is None or card in nested else [card.home]
        if isinstance(fragment.event, PermissionResponse):
            replaced = list(dict.fromkeys([*replaced, *self._answer(fragment.into or "")]))
        if reopened is not None:
            replaced.append(reopened)
        counted = list(dict.fromkeys(above for home in homes for above in _upwards(home)))
        left_out = self._is_quiet and is_aside(card)
        change = RowChanges(card, replaced, by_home, counted, None if left_out else self._fold(card), left_out)
        self._forget()
        return change

    def set_state(self, key: str, state: str | None, *, is_end: bool, is_answered: bool) -> list[Card]:
        """Set the state of a call by an event that is not shown; return the cards that have changed. `is_end`: the
        event is the result, which alone changes the state of a call that has ended. `is_answered`: the call's request
        no longer waits."""
        call = self._nesting.find(key)
        about = [call] if call is not None else [one for one in self._about[key] if _is_update(one)]
        changed = []
        for one in about:
            if state is not None and state != one.status and (is_end or one.status in OPEN):
                one.status = state
                changed.append(one)
        return list(dict.fromkeys([*changed, *(self._answer(key) if is_answered else ())]))

    def reopen(self, stream: str, turn: str | None, seq: int) -> list[Card]:
        """Take a provisional end back by an event that is not shown, as `Nesting.reopen`; return the cards that have
        changed."""
        card = self._nesting.reopen(stream, turn, seq)
        return [] if card is None else [card]

    # -- internals ----------------------------------------------------------------------------------------------

    def _take(self, fragment: Fragment) -> Added:
        added = self._nesting.add(fragment._replace(event=_without_payload(fragment.event)))
        self._bytes += len(fragment.body)
        if fragment.into is not None and isinstance(fragment.event, PermissionRequest | ToolUpdate):
            self._about[fragment.into].append(added.card)
        return added

    def _answer(self, key: str) -> list[Card]:
        """Mark the requests of a call as answered; return the cards that show them."""
        asked = [one for one in self._about[key] if one.status == "asked"]
        for one in asked:
            one.status = ANSWERED
        return [one.home or one for one in asked]

    def _fold(self, card: Card) -> TimelineRow | None:
        """Return the fold that the rows before this card form, if the card is the last row and the fold is new or has
        grown."""
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
    """Return the event without the fields that only its body shows, to be remembered with its row."""
    emptied = {name: value for name, value in PAYLOADS.items() if name in event.__struct_fields__}
    if isinstance(event, ToolCall):
        emptied["input"] = {key: event.input[key] for key in PATHS if key in event.input}
    return msgspec.structs.replace(event, **emptied)


def _is_update(card: Card) -> bool:
    return isinstance(card.fragment.event, ToolUpdate) and card.home is None


def _upwards(card: Card) -> Iterable[Card]:
    """Yield a card and those above it that have children."""
    above: Card | None = card
    while above is not None:
        if "children" in above.inside:
            yield above
        above = above.home


# -- the turns of a session, numbered: what was asked, how many calls and errors it took, and how long ---------------


ERRORS = 5
"""Maximum failed calls of a turn that are named."""


@dataclass(slots=True)
class TurnOfSession:
    number: int
    first: int
    """`seq` of its first event."""
    anchor: int
    """`seq` of its prompt, else of its first event."""
    words: str = ""
    """The first line of the prompt; empty if the stream has none."""
    calls: int = 0
    failed: int = 0
    errors: list[tuple[int, str]] = field(default_factory=list)
    """`seq` and tool of the first failed calls."""
    state: str = "started"
    settled: str | None = None
    """Its id, after a provisional end."""
    stated: int | None = None
    """Duration in milliseconds, as stated by the agent."""
    began: int | None = None
    ended: int | None = None

    @property
    def name(self) -> str:
        return self.words or f"Turn {self.number}"

    @property
    def duration(self) -> int | None:
        if self.stated is not None or self.began is None or self.ended is None:
            return self.stated
        return self.ended - self.began

    def note_time(self, event: AnyEvent) -> None:
        """Note when it began or ended. While no event states the end, that is its last work."""
        if event.ts is None:
            return
        if self.began is None:
            self.began = self.ended = event.ts
        elif isinstance(event, Turn) and event.agent is None:
            self.ended = event.ts
        elif self.state == "started" and self.ended is not None and event.__struct_config__.tag in TIMED:
            self.ended = max(self.ended, event.ts)


class Turns:
    """Divides the events of a session, added in order, into turns (`all`)."""

    def __init__(self) -> None:
        self.all: list[TurnOfSession] = []
        self._naming = TurnNaming[Message]()

    @property
    def is_named(self) -> bool:
        """Whether the latest turn keeps its name."""
        return self._naming.is_settled

    def add(self, event: AnyEvent) -> TurnOfSession | None:
        """Add an event. Return the turn that begins with it, if any."""
        if event.replay:
            return None
        begun = self._begun(event)
        if self.all and self.all[-1].settled is not None:
            self._reopen(self.all[-1], event)
        is_open = bool(self.all) and self.all[-1].state == "started"
        if isinstance(event, Message) and event.role == "user" and event.agent is None and first_line_of(event.text):
            self._name(self._naming.say(event, in_turn=is_open))
        if not self.all:
            return None
        turn = self.all[-1]
        turn.note_time(event)
        match event:
            case ToolCall():
                turn.calls += 1
                self._naming.act()
            case Message(role="assistant", agent=None):
                self._naming.act()
            case ToolResult(is_error=True):
                turn.failed += 1
                if len(turn.errors) < ERRORS:
                    turn.errors.append((event.seq or 0, event.name))
            case Turn(agent=None) if not event.starts:
                turn.state = event.state
                turn.settled = event.turn if event.provisional else None
                turn.stated = event.duration_ms
            case _:
                pass
        return begun

    def _reopen(self, turn: TurnOfSession, event: AnyEvent) -> None:
        """Take a provisional end back if the turn goes on with this event."""
        if _goes_on(event) and event.turn == turn.settled:
            turn.state, turn.settled = "started", None

    def _begun(self, event: AnyEvent) -> TurnOfSession | None:
        if not (isinstance(event, Turn) and event.starts):
            return None
        seq = event.seq or 0
        self.all.append(TurnOfSession(len(self.all) + 1, seq, seq))
        self._name(self._naming.start())
        return self.all[-1]

    def _name(self, message: Message | None) -> None:
        """Name the last turn by a message, if there is one."""
        if message is not None:
            turn = self.all[-1]
            turn.words, turn.anchor = first_line_of(message.text), message.seq or 0
