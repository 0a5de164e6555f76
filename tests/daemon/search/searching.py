"""A journal with its search, and a naive search to compare with: it reads every event."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import unicodedata
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import anyio

from tests.daemon.events import commit
from tooltap.daemon.journal.interface import Journal, StoredEvent
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.search.index import SLOTS
from tooltap.daemon.search.query import Wanted, expression_of
from tooltap.daemon.search.search import Answer, Search
from tooltap.daemon.search.words import SPACE, spaced
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import decode

__all__ = ["Searched", "all_events", "contents", "events_of_fixtures", "fill", "has", "humps", "searched", "tokens"]

FIXTURES = Path(__file__).parents[2] / "fixtures"


class Searched:
    def __init__(self, journal: Journal, search: Search) -> None:
        self.journal = journal
        self.search = search

    async def find(self, query: str, **filters: object) -> Answer:
        """Return the hits of a query once everything is indexed."""
        await self.settle()
        return await self.find_now(query, **filters)

    async def find_now(self, query: str, **filters: object) -> Answer:
        return await self.search.find(
            self.wanted(query, **filters), before=None, limit=1_000, most_of_session=None, counts=True
        )

    def wanted(self, query: str, **filters: object) -> Wanted:
        return Wanted(expression_of(query), everything=not query, **filters)  # type: ignore[arg-type]

    async def settle(self) -> None:
        """Wait until all events are indexed, and deleted ones are removed."""
        indexer = self.search._indexer
        assert indexer is not None
        with anyio.fail_after(60):
            while not (indexer.is_idle and indexer.upto >= self.journal.latest):
                await anyio.sleep(0.02)


@asynccontextmanager
async def searched(journal: Journal, path: Path, most_bytes: int = 2**40) -> AsyncIterator[Searched]:
    search = Search(journal, lambda _: path, most_bytes)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(search.run)
        try:
            yield Searched(journal, search)
        finally:
            tasks.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await search.close()


def events_of_fixtures() -> list[bytes]:
    """Return the encoded events of all recordings."""
    words = [sys.executable, "-m", "tooltap.cli", "normalize", str(FIXTURES)]
    return subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout.splitlines()


async def fill(journal: SqliteJournal, bodies: Iterable[bytes]) -> None:
    """Commit events, one commit for each stream."""
    streams: dict[str, list[Produced]] = {}
    for body in bodies:
        event = decode(body)
        streams.setdefault(event.stream, []).append(Produced.of(event))
    for stream, produced in streams.items():
        await journal.commit(commit(*produced, stream=stream, state="ended"))


async def all_events(journal: Journal) -> list[StoredEvent]:
    found, after = [], 0
    while after < journal.latest:
        events, after = await journal.read(after)
        found += events
    return found


# -- the naive search ---------------------------------------------------------------------------------------------


def tokens(text: str) -> list[str]:
    """Split a text into the index's words, by other means than SQLite's tokenizer."""
    same = spaced(unicodedata.normalize("NFKC", text.replace("™", " ")))
    plain = "".join(one for one in unicodedata.normalize("NFD", same) if not _is_mark(one))
    return [one.lower() for one in re.findall(r"[^\W_]+", plain.replace(SPACE, " "))]


def _is_mark(one: str) -> bool:
    return "\u0300" <= one <= "\u036f"


def humps(text: str) -> list[str]:
    """Split the identifiers of a text where capitals begin."""
    found: dict[str, None] = {}
    for word in re.split("[^A-Za-z0-9]", unicodedata.normalize("NFKC", text.replace("™", " "))):
        parts = re.sub("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", " ", word)
        is_humped = re.search("[a-z0-9] [A-Z]", parts) or re.search("[A-Z] [A-Z][a-z]{2}", parts)
        if 4 <= len(word) <= 64 and is_humped:
            found[parts] = None
    return " ".join(found).lower().split()


def has(columns: Sequence[Sequence[str]], phrases: Sequence[Sequence[str]]) -> bool:
    """Whether the words of a text contain all phrases, each in one of its columns."""
    return all(
        any(
            list(text[start : start + len(one)]) == list(one)
            for text in columns
            for start in range(len(text) - len(one) + 1)
        )
        for one in phrases
    )


# -- all that an index has ----------------------------------------------------------------------------------------


def contents(path: Path) -> tuple[list[Any], list[Any]]:
    """Return all words and all documents of an index, sorted, so that parts and segments make no difference."""
    with closing(sqlite3.connect(path)) as connection:
        words: list[Any] = []
        documents: list[Any] = []
        for (part,) in connection.execute("SELECT id FROM parts ORDER BY id").fetchall():
            connection.execute(f"CREATE VIRTUAL TABLE temp.words_{part} USING fts5vocab(main, text_{part}, instance)")
            words += connection.execute(
                f"SELECT seq, term, offset FROM temp.words_{part} JOIN docs_{part} ON id=doc"
            ).fetchall()
            documents += connection.execute(
                f"SELECT seq, stream, named, session, provider, kind, tool, raw_tool FROM docs_{part} AS docs"
                f" JOIN slots ON part={part} AND slot=docs.id % {SLOTS} JOIN sources ON sources.id=source"
                " JOIN labels ON labels.id=label"
            ).fetchall()
        assert connection.execute("SELECT coalesce(sum(docs), 0) FROM parts").fetchone() == (len(documents),)
    return sorted(words), sorted(documents, key=lambda one: one[0])
