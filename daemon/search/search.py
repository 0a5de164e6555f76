"""The search of a daemon: answers queries from the index and the journal, and lists the calls of all sessions.

The index says which events have the words; the journal has the events. One that was deleted since is not in the
journal, so it is not in an answer, whatever the index still has.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
import unicodedata
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import anyio
import msgspec

from tooltap.daemon.formats import without_marks
from tooltap.daemon.journal.interface import CorruptError, Journal, StoredEvent
from tooltap.daemon.journal.open import Place
from tooltap.daemon.journal.sqlite.damage import is_corrupt
from tooltap.daemon.journal.sqlite.file import index_path, steady_place
from tooltap.daemon.search.index import ReplacedError, second_of
from tooltap.daemon.search.indexer import DAMAGED, REPLACED, Indexer
from tooltap.daemon.search.query import Highlighter, Hit, IndexReader, Snippet, Tally, Wanted
from tooltap.daemon.system.paths import indexes_folder
from tooltap.normalizers.stream.searchable import CALLS, Searchable, key_of_call, searchable
from tooltap.normalizers.tools.files import file_paths
from tooltap.protocol.events import EventHead
from tooltap.traces.recording.own_file import LockedError, lock_own, private_folder

HIT_SECONDS = 1.0
"""Time limit, in seconds, for finding the newest hits."""
COUNT_SECONDS = 0.5
"""Time limit, in seconds, for counting all hits."""
OPENING_SECONDS = 2.0
"""Seconds for which a search waits for an index that is being opened."""
NEWEST = 2**62

T = TypeVar("T")


class UnavailableError(Exception):
    """There is no index to search; the message is one sentence for the user."""


class FoundEvent(NamedTuple):
    """A hit with its event."""

    seq: int
    session: str
    event: Searchable
    snippet: Snippet
    argument: str | None
    """Name of the argument that the excerpt is of, if it is of a call, but not of its first argument."""


class FoundCall(NamedTuple):
    """A call that ended."""

    session: str
    outcome: StoredEvent
    call: StoredEvent | None
    """None if the journal does not have the event."""


class Calls(NamedTuple):
    """A page of calls."""

    calls: list[FoundCall]
    """Newest first, by when they ended."""
    complete: bool
    """False if the search was cut off."""
    next: int | None
    """Cursor: `before` for the next calls; None if there are none."""
    upto: int
    """`seq` up to which events were searched."""
    behind: int
    """Number of `seq` that are not indexed yet: newer ones, and those of parts that are being rebuilt."""
    floor: int
    """`seq` up to which events were dropped, to bound the size of the index."""


class Answer(NamedTuple):
    """The answer to a search."""

    hits: list[FoundEvent]
    """Those that have what was typed sign for sign, then the others; each newest first, by when they happened."""
    tallies: list[Tally]
    """All hits counted by session; empty if that was not asked for."""
    complete: bool
    """False if the search or the count was cut off."""
    next: int | None
    """Cursor: `before` for the next hits; None if there are none."""
    upto: int
    """`seq` up to which events were searched."""
    behind: int
    """Number of `seq` that are not indexed yet: newer ones, and those of parts that are being rebuilt."""
    floor: int
    """`seq` up to which events were dropped, to bound the size of the index."""


class Search:
    def __init__(self, journal: Journal, path_of: Callable[[str], Path], most_bytes: int) -> None:
        """The arguments are those of `Indexer`. `most_bytes`: maximum size of the index; 0: no index."""
        self._journal = journal
        self._indexer = Indexer(journal, path_of, most_bytes) if most_bytes else None
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="search-reader")
        self._reader: IndexReader | None = None
        self._generation = 0
        self._highlighter: Highlighter | None = None

    async def run(self) -> None:
        """Keep the index up to date until cancelled."""
        if self._indexer is not None:
            await self._indexer.run()

    def note_deleted(self, *, soon: bool) -> None:
        """See `Indexer.note_deleted`."""
        if self._indexer is not None:
            self._indexer.note_deleted(soon=soon)

    def statistics(self) -> dict[str, Any] | None:
        """Figures for `stats`; None if there is no index."""
        if self._indexer is None:
            return None
        return self._indexer.statistics()

    async def close(self) -> None:
        """Stop, and return when nothing is written any more."""
        if self._indexer is not None:
            await self._indexer.close()
        await asyncio.to_thread(self._pool.shutdown)
        for one in (self._reader, self._highlighter):
            if one is not None:
                one.close()

    async def find(
        self, wanted: Wanted, *, before: int | None, limit: int, most_of_session: int | None, counts: bool
    ) -> Answer:
        """Raises `UnavailableError`, `JournalError`."""
        indexer = await self._open_indexer()
        upto, floor = indexer.upto, indexer.floor
        hits, next_before, is_complete, unbuilt = await self._hits(
            indexer, wanted, NEWEST if before is None else before, limit, most_of_session
        )
        hits = _literal_first(hits, wanted.phrases)
        tallies: list[Tally] = []
        if counts:
            tallies, is_counted = await self.count(wanted, before=before)
            is_complete = is_complete and is_counted
        return Answer(hits, tallies, is_complete, next_before, upto, self._behind(upto) + unbuilt, floor)

    async def calls(self, wanted: Wanted, *, file: str | None, before: int | None, limit: int) -> Calls:
        """List calls that ended. `wanted`: without words. `file`: the path of a file that they name, or its end. Raises
        `UnavailableError`, `JournalError`."""
        indexer = await self._open_indexer()
        upto, floor = indexer.upto, indexer.floor
        found: list[FoundCall] = []
        unbuilt = 0
        before = NEWEST if before is None else before
        while True:
            room = limit - len(found)
            hits, is_complete, missed = await self._ask(
                indexer, IndexReader.hits, wanted, before, room, None, HIT_SECONDS
            )
            unbuilt = max(unbuilt, missed)
            found += await self._joined(indexer, hits, file)
            before = hits[-1].key if hits else before
            is_over = len(hits) < room or not is_complete
            if is_over or len(found) >= limit:
                more = before if hits and not (is_over and is_complete) else None
                return Calls(found, is_complete, more, upto, self._behind(upto) + unbuilt, floor)

    async def _joined(self, indexer: Indexer, hits: Sequence[Hit], file: str | None) -> list[FoundCall]:
        """Read the outcomes that are the last of their calls, each with its call."""
        outcomes = {hit: event for hit in hits if (event := await self._event(hit.seq)) is not None}
        keys = {hit: key_of_call(event.head.stream, event.head.call_id or "") for hit, event in outcomes.items()}
        first = min((hit.seq for hit in outcomes), default=0)
        documents = await self._ask(indexer, IndexReader.documents_of, list(keys.values()), first)
        begun = {one.call: one.seq for one in reversed(documents) if not one.is_outcome}
        ended = {one.call: one.seq for one in documents if one.is_outcome}
        found = []
        for hit, outcome in outcomes.items():
            key = keys[hit]
            if ended.get(key, hit.seq) != hit.seq:
                continue
            call = await self._event(begun[key]) if key in begun else None
            if file is None or (call is not None and _names(call.head, file)):
                found.append(FoundCall(hit.session, outcome, call))
        seconds = {hit.seq: second_of(hit.key) for hit in hits}
        return sorted(found, key=lambda one: _time(one.outcome, seconds[one.outcome.seq]), reverse=True)

    async def _event(self, seq: int) -> StoredEvent | None:
        """Return an event; None if it was deleted, or is damaged."""
        try:
            return await self._journal.event(seq)
        except CorruptError:
            return None

    async def count(self, wanted: Wanted, *, before: int | None) -> tuple[list[Tally], bool]:
        """Return the number of all hits by session, and whether all were counted in time. Raises `UnavailableError`."""
        return await self._ask(
            await self._open_indexer(), IndexReader.tallies, wanted, NEWEST if before is None else before, COUNT_SECONDS
        )

    async def _open_indexer(self) -> Indexer:
        if self._indexer is None:
            raise UnavailableError("this daemon has no search index: `index_bytes` is 0")
        with anyio.move_on_after(OPENING_SECONDS):  # a daemon that has just started
            while self._indexer.path is None and not self._indexer.problem:
                await anyio.sleep(0.02)
        if self._indexer.path is None:
            raise UnavailableError(self._indexer.problem or "the search index is being opened; try again")
        return self._indexer

    def _behind(self, upto: int) -> int:
        return max(0, self._journal.latest - upto)

    async def _hits(
        self, indexer: Indexer, wanted: Wanted, before: int, limit: int, most_of_session: int | None
    ) -> tuple[list[FoundEvent], int | None, bool, int]:
        """Return hits whose events are in the journal, the cursor for the next hits, whether the search was completed
        in time, and the number of `seq` that it missed because they are not indexed again yet."""
        found: list[FoundEvent] = []
        unbuilt = 0
        while True:
            room = limit - len(found)
            hits, is_complete, missed = await self._ask(
                indexer, IndexReader.hits, wanted, before, room, most_of_session, HIT_SECONDS
            )
            unbuilt = max(unbuilt, missed)
            found += _in_order(hits, await self._read(hits, wanted.expression))
            if hits:
                before = hits[-1].key
            if len(hits) < room or not is_complete:
                return found, before if hits and not is_complete else None, is_complete, unbuilt
            if len(found) >= limit:
                return found, before, True, unbuilt

    async def _read(self, hits: Sequence[Hit], expression: str) -> list[FoundEvent]:
        """Return the hits whose events still exist and match the expression."""
        events = [(hit, event.body) for hit in hits if (event := await self._event(hit.seq)) is not None]
        return await self._in_thread(self._mark, events, expression)

    def _mark(self, events: Sequence[tuple[Hit, bytes]], expression: str) -> list[FoundEvent]:
        highlighter = self._highlighter = self._highlighter or Highlighter()
        made = [(hit, about) for hit, body in events if (about := searchable(body)) is not None]
        after = [int(about.kind in CALLS) for _, about in made]
        texts = [without_marks(about.text) if about.is_prose else about.text for _, about in made]
        snippets = highlighter.snippets(texts, expression, after=after)
        if None in snippets:  # the language of a block of code is part of its marks
            whole = highlighter.snippets([about.text for _, about in made], expression, after=after)
            snippets = [one or other for one, other in zip(snippets, whole, strict=True)]
        return [
            FoundEvent(hit.seq, hit.session, about, snippet, _argument(about, snippet.part))
            for (hit, about), snippet in zip(made, snippets, strict=True)
            if snippet is not None
        ]

    async def _ask(self, indexer: Indexer, function: Callable[..., T], *arguments: Any) -> T:
        """Call a method of `IndexReader` on the file as it is now. Raises `UnavailableError`."""
        path, generation = indexer.path, indexer.generation

        def ask() -> T:
            indexer.check_file()
            if self._reader is None or self._generation != generation:
                if self._reader is not None:
                    self._reader.close()
                    self._reader = None
                assert path is not None  # of `_open_indexer`
                self._reader, self._generation = IndexReader(path), generation
            try:
                return function(self._reader, *arguments)
            finally:  # what it has read, or failed to read, may be of another file
                indexer.check_file()

        try:
            return await self._in_thread(ask)
        except ReplacedError as error:
            indexer.note_replaced()
            raise UnavailableError(f"{REPLACED}, and is being rebuilt; try again") from error
        except sqlite3.Error as error:
            if is_corrupt(error):
                indexer.note_damaged()
                raise UnavailableError(f"{DAMAGED} and is being rebuilt") from error
            raise UnavailableError(f"the search index cannot be read: {error}") from error

    async def _in_thread(self, function: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, function, *arguments)


def _argument(about: Searchable, part: int) -> str | None:
    """Return the name of the argument that a part of a text is of, if it is not the first one of a call."""
    named = [name for name in about.arguments if name]
    name = about.arguments[part] if part < len(about.arguments) else ""
    return name if name and name != named[0] else None


def _names(call: EventHead, file: str) -> bool:
    """Return whether a call names a file with this path, or with a path that ends in it."""
    wanted = file.replace("\\", "/").lstrip("/")
    payload = msgspec.json.decode(call.input_json) if call.input_json else {}
    changes = payload.get("changes")
    paths = [*file_paths(payload), *(changes if isinstance(changes, dict) else ())]
    return any(f"/{path}".replace("\\", "/").endswith(f"/{wanted}") for path in paths)


def _time(event: StoredEvent, second: int) -> tuple[int, int]:
    """Return the time of an event in ms, or that of its document, and its `seq`."""
    return second * 1000 if event.head.ts is None else event.head.ts, event.seq


def _in_order(hits: Sequence[Hit], found: Sequence[FoundEvent]) -> list[FoundEvent]:
    """Sort hits by the times of their events, newest first. The index has only seconds, and moves documents of full
    seconds."""
    seconds = {one.seq: second_of(one.key) for one in hits}
    times = {one.seq: seconds[one.seq] * 1000 if one.event.ts is None else one.event.ts for one in found}
    return sorted(found, key=lambda one: (times[one.seq], one.seq), reverse=True)


def _literal_first(hits: Sequence[FoundEvent], phrases: Sequence[str]) -> list[FoundEvent]:
    """Move hits to the front that have what was typed sign for sign: words are found whatever is between them."""
    wanted = [_compared(one) for one in phrases]

    def lacks(hit: FoundEvent) -> bool:
        text = _compared(hit.event.text)
        return not all(one in text for one in wanted)

    return sorted(hits, key=lacks)


def _compared(text: str) -> str:
    """Return a text without what makes no difference: case, accents, widths."""
    if text.isascii():
        return text.lower()
    return _ACCENTS.sub("", unicodedata.normalize("NFKD", text)).casefold()


_ACCENTS = re.compile("[\u0300-\u036f]")


# -- where the index is -----------------------------------------------------------------------------------------------

MOST_DAEMONS = 100


def place_of_index(place: Place) -> Callable[[str], Path]:
    """A function from the journal's id to the file of its index: beside a file; for a journal on a server, in the
    user's data directory. It raises `OSError` and `JournalError`."""
    if isinstance(place, Path):
        return lambda _: index_path(steady_place(place))
    return _Own().path_of


class _Own:
    """The indexes that this daemon has locked: the kernel releases them when it ends. Several daemons of a user may
    share a journal on a server; each has its own index."""

    def __init__(self) -> None:
        self._places: dict[str, Path] = {}

    def path_of(self, journal: str) -> Path:
        if journal not in self._places:
            self._places[journal] = _lock_first(indexes_folder(), re.sub(r"[^A-Za-z0-9_-]", "_", journal))
        return self._places[journal]


def _lock_first(folder: Path, name: str) -> Path:
    private_folder(folder)
    for number in range(1, MOST_DAEMONS + 1):
        path = folder / f"{name}.{number}.search"
        try:
            lock_own(f"{path}.lock")
        except LockedError:
            continue
        return path
    raise OSError(f"{MOST_DAEMONS} daemons have a search index of this journal")
