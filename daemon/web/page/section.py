"""The fragments of a section of the timeline: of a page's events, and of those that complete its calls and turns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.show.shown import Fragment
from tooltap.daemon.web.page.calls import calls_of_page, parents_of
from tooltap.daemon.web.page.fragments import Fragments, LevelOf
from tooltap.daemon.web.page.timeline import Bounds, Page, Selection
from tooltap.daemon.web.page.turns import numbered, turns_of


class Section(NamedTuple):
    """What `nest` takes."""

    fragments: Sequence[Fragment]
    states: Mapping[str, str]
    """Key of a card -> the state of its call or turn, of those whose end is not among the fragments."""
    parents: Mapping[str, str]
    """Key of a subagent -> key of the call that spawned it, where no fragment says so."""


async def section_of(
    journal: Journal,
    cache: Fragments,
    selection: Selection,
    page: Page,
    also: Sequence[StoredEvent],
    bounds: Bounds,
    level_of: LevelOf,
) -> Section:
    """`also`: later events that belong into cards of the page. Raises `JournalError`."""
    calls = await calls_of_page(journal, selection, page, also, bounds.search_bytes)
    turns = await turns_of(journal, page.events)
    events = sorted({*page.events, *calls.events, *turns.events, *also})
    parents = await parents_of(journal, events)
    fragments = numbered(await cache.of(events, level_of), turns.numbers)
    return Section(fragments, {**calls.states, **turns.states}, parents)
