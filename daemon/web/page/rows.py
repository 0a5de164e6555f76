"""Arranges nested cards as rows: runs of reads and searches are folded into one row, what subagents did is folded when
they have ended, and what only reports usage or describes the session has no row.

    rows = Rows(is_quiet=True).of(nest(fragments))      # the seq of each row, and its HTML

`static/rows.js` applies the same rules to live events: change both together. Nothing that failed or still runs is
folded away, and a fold with what the reader came for is open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import NamedTuple

from markupsafe import Markup

from tooltap.daemon.web.cards.cards import Children, Slot, article, lifted
from tooltap.daemon.web.cards.results import NOTABLE
from tooltap.daemon.web.html.figures import spent
from tooltap.daemon.web.html.markup import template
from tooltap.daemon.web.page.nesting import OPEN, Card
from tooltap.daemon.wording import counted
from tooltap.protocol.events import SessionEvent, ToolCall, Turn, Usage

__all__ = ["Row", "Rows", "html_of"]

FOLDED = ("read", "search")
"""Families of calls that are folded."""
FEWEST = 2
"""Calls in a fold, at least."""


class Row(NamedTuple):
    seq: int
    html: Markup


class Rows(NamedTuple):
    is_quiet: bool = False
    """Leave out what turns used, and what describes sessions."""
    is_open: bool = False
    """Nothing is folded at first: the reader searched for what is here."""
    at: int | None = None
    """The event that the reader came for."""
    folds: bool = True

    def of(self, cards: Iterable[Card]) -> list[Row]:
        kept = [card for card in cards if not (self.is_quiet and is_aside(card))]
        runs = _runs(kept) if self.folds else ([card] for card in kept)
        return [self._row(run) for run in runs]

    def html_of(self, card: Card) -> Markup:
        inside: dict[Slot, list[Markup]] = {}
        for slot, cards in card.inside.items():
            if slot != "children":
                inside[slot] = [self._part(one) for one in cards]
        parts = [(slot, one.fragment) for slot, cards in card.inside.items() for one in cards]
        return article(
            card.fragment,
            inside,
            status=card.status,
            facts=lifted(card.fragment, parts),
            children=self._children(card),
        )

    def _part(self, card: Card) -> Markup:
        """Render what is in a slot of another card."""
        if card.inside or card.fragment.slot in ("live", None):
            return self.html_of(card)
        return article(card.fragment, is_inside=True)

    def _children(self, card: Card) -> Children | None:
        children = card.inside.get("children")
        if not children:
            return None
        html = Markup().join(row.html for row in self.of(children))
        is_open = self.is_open or card.status in OPEN or any(self._is_target(one) for one in _below(card))
        return Children(html, sum(isinstance(one.fragment.event, ToolCall) for one in _below(card)), is_open)

    def _row(self, run: Sequence[Card]) -> Row:
        first = run[0]
        if len(run) == 1:
            return Row(first.fragment.seq, self.html_of(first))
        html = template(
            "run.html",
            key=f"e{first.fragment.seq}",
            label=label_of(run),
            took=_time_of(run),
            rows=[self.html_of(card) for card in run],
            is_open=self.is_open or any(self._is_target(card) for card in run),
        )
        return Row(first.fragment.seq, html)

    def _is_target(self, card: Card) -> bool:
        return self.at is not None and self.at in {card.fragment.seq, *(one.fragment.seq for one in _below(card))}


def html_of(card: Card) -> Markup:
    """Render a card with everything in it, unfolded."""
    return Rows(is_open=True, folds=False).html_of(card)


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
        if run and is_foldable(card) and _by(card) == _by(run[0]):
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


def _by(card: Card) -> tuple[str, str | None]:
    return card.fragment.event.session, card.fragment.event.agent


def _below(card: Card) -> Iterator[Card]:
    """Yield every card in a card."""
    stack = [one for cards in card.inside.values() for one in cards]
    while stack:
        one = stack.pop()
        yield one
        stack += [inner for cards in one.inside.values() for inner in cards]
