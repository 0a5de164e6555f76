"""Cards and rows as HTML.

    rows = Rows(is_quiet=True).of(nest(fragments))      # the seq of each row, and its HTML
    html = card_html(card)                              # one card with everything in it

A card of a call has four slots: `input` (which a late update replaces), `live` (what happens while the call runs),
`output`, and `children` (what its subagent does). The card of a turn has one, `turn`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from markupsafe import Markup

from tooltap.daemon.show.blocks import RenderContext, short
from tooltap.daemon.show.markup import body_html, template
from tooltap.daemon.show.shown import SLOTS, Fragment, Slot, fragment_of, key_of
from tooltap.daemon.show.timeline import OPEN, Card, Lifted, RowChanges, TimelineRow, rows_of
from tooltap.daemon.system.logs import get_logger
from tooltap.protocol.events import AnyEvent, Notice, ToolCall

_log = get_logger("show")
_ENVELOPE = ("v", "id", "stream", "line", "session", "protocol", "provider", "dialect", "seq", "ts")


class RowHtml(NamedTuple):
    seq: int
    html: Markup


class Rows(NamedTuple):
    """Options for rendering rows."""

    is_quiet: bool = False
    """Leave out usage and descriptions of sessions."""
    is_open: bool = False
    """Fold nothing at first: the reader has searched, and a fold would hide hits."""
    at: int | None = None
    """`seq` of the event that the reader was linked to; a fold that contains it is open."""
    folds: bool = True

    def of(self, cards: Iterable[Card]) -> list[RowHtml]:
        return [RowHtml(row.seq, self._row(row)) for row in rows_of(cards, is_quiet=self.is_quiet, folds=self.folds)]

    def html_of(self, card: Card, *, with_children: bool = True) -> Markup:
        """Render a card with everything in it."""
        inside: dict[Slot, list[Markup]] = {}
        for slot, cards in card.inside.items():
            if slot != "children":
                inside[slot] = [self._part(one) for one in cards]
        return article(
            card.fragment,
            inside,
            status=card.status,
            facts=card.facts,
            children=self._children(card) if with_children else None,
        )

    def _part(self, card: Card) -> Markup:
        """Render a card inside a slot of another card."""
        if card.inside or card.fragment.slot in ("live", None):
            return self.html_of(card)
        return article(card.fragment, is_inside=True)

    def _children(self, card: Card) -> _Children | None:
        children = card.inside.get("children")
        if not children:
            return None
        html = Markup().join(row.html for row in self.of(children))
        is_open = self.is_open or card.status in OPEN or any(self._is_target(one) for one in card.below())
        return _Children(html, card.calls, is_open)

    def _row(self, row: TimelineRow) -> Markup:
        if not row.is_fold:
            return self.html_of(row.cards[0])
        return self.fold_html(row, Markup().join(Markup("{}\n").format(self.html_of(card)) for card in row.cards))

    def fold_html(self, row: TimelineRow, inside: Markup) -> Markup:
        """Render a fold. `inside`: its cards."""
        return template(
            "run.html",
            key=f"e{row.seq}",
            title=row.title,
            label=row.label,
            took=row.took,
            inside=inside,
            is_open=self.is_open or any(self._is_target(card) for card in row.cards),
        )

    def _is_target(self, card: Card) -> bool:
        return self.at is not None and self.at in {card.fragment.seq, *(one.fragment.seq for one in card.below())}


def rendered(event: AnyEvent, context: RenderContext) -> Fragment | None:
    """Decide what is shown of an event, and write its body. If that fails, log it and show a notice instead: the page
    survives any event."""
    try:
        return _with_html(fragment_of(event, context))
    except Exception:
        _log.exception("an event cannot be rendered", seq=event.seq)
        envelope: dict[str, Any] = {name: getattr(event, name) for name in _ENVELOPE}
        failure = Notice(**envelope, level="error", code="not shown", text="This event cannot be shown; see it raw.")
        return _with_html(fragment_of(failure, context))


def _with_html(fragment: Fragment | None) -> Fragment | None:
    return None if fragment is None else fragment._replace(body=body_html(fragment.body))


def card_html(card: Card) -> Markup:
    """Render a card with everything in it, unfolded."""
    return Rows(is_open=True, folds=False).html_of(card)


def patches(change: RowChanges, rows: Rows) -> Markup:
    """Render the changes by an event, as elements that the browser applies in order. They name cards by element ids.

    - `replace`: the card inside replaces the card `at`, but the contents of the slots `keep` stay.
    - `children`: the cards `rows` move to the children of the card `at`, sorted by `seq`. The element inside is the
      slot, for a card without one, and has the new number of calls.
    - `fold`: the consecutive rows `rows` become the row inside.
    - `none`: the event's card has no row.
    """
    found = [replacement(card, rows) for card in change.replaced]
    for card in change.counted:
        nested = Markup(" ").join(f"e{one.fragment.seq}" for one in change.nested.get(card, ()))
        place = template("children.html", children=_Children(Markup(), card.calls, card.status in OPEN))
        found.append(_PATCH.format("children", f"e{card.fragment.seq}", nested, place))
    if change.is_left_out:
        found.append(_PATCH.format("none", "", "", ""))
    if (fold := change.fold) is not None:
        names = " ".join(f"e{card.fragment.seq}" for card in fold.cards)
        found.append(_PATCH.format("fold", "", names, rows.fold_html(fold, Markup())))
    return Markup().join(found)


def replacement(card: Card, rows: Rows) -> Markup:
    """Render a changed card, for the browser to put in place of the former one. The former one's children stay, and
    while the call runs also its live output."""
    keep = "children live" if card.status in OPEN else "children"
    return _REPLACE.format(f"e{card.fragment.seq}", keep, rows.html_of(card, with_children=False))


_PATCH = Markup('<div data-patch="{}" data-at="{}" data-rows="{}">{}</div>\n')
_REPLACE = Markup('<div data-patch="replace" data-at="{}" data-keep="{}">{}</div>\n')


class _Children(NamedTuple):
    """The rendered children of a call: the events of its subagent."""

    html: Markup
    calls: int
    is_open: bool


def article(
    fragment: Fragment,
    inside: Mapping[Slot, Sequence[Markup]] | None = None,
    *,
    status: str | None = None,
    facts: Sequence[Lifted] | None = None,
    children: _Children | None = None,
    is_inside: bool = False,
) -> Markup:
    """Return the HTML of a card. `inside`: the cards in its slots, except `children`; `status`: of the call, if it has
    changed; `facts`: if they are not only the fragment's own; `is_inside`: the card is in a slot of another one, which
    shows its facts."""
    return template(
        "card.html",
        card=fragment,
        body=body_html(fragment.body),
        slots={slot: Markup().join((inside or {}).get(slot, ())) for slot in SLOTS if slot != "children"},
        status=fragment.status if status is None else status,
        facts=Card(fragment, fragment.status).facts if facts is None else facts,
        children=children,
        is_inside=is_inside,
        target=_target(fragment),
        by=key_of(fragment.event.session, fragment.event.agent or ""),
    )


def _target(fragment: Fragment) -> str:
    """Return the path of the file that a call read; empty for other calls."""
    event = fragment.event
    if not isinstance(event, ToolCall) or fragment.family != "read":
        return ""
    path = event.input.get("file_path") or event.input.get("path")
    return short(path) if isinstance(path, str) else ""
