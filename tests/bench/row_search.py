"""Searching a million events, in processor time, and what the index costs: on disk, and a commit while it is written.

The events are those of sessions that were backfilled, the newest first: four at a time, each of a few hundred events,
with words as frequent as in a natural language and one word in every fifth event. Commits of 100 events are timed with
the index and without it, alternately.
"""

from __future__ import annotations

import itertools
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import anyio

from tests.bench.harness import Figure, Options, alternate, median
from tests.daemon.events import commit, message
from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.search.index import Index
from tooltap.daemon.search.query import IndexReader, Wanted, expression_of
from tooltap.daemon.search.search import Search

__all__ = ["TITLE", "measure"]

TITLE = "search: a million events, in processor time; and commits with the index and without it"
EVENTS = 1_000_000
BATCH = 2_000
GROUP = 2_000
"""Events of four sessions that run at the same time."""
WORDS = 12
COMMITS = 150
COMMIT = 100
"""Events per commit."""
SECONDS = 10.0
NEWEST = 2**62


class Commits(NamedTuple):
    milliseconds: float
    """Milliseconds of the median commit."""
    processor: float
    """Processor time of the process per commit, in milliseconds."""


def measure(options: Options) -> list[Figure]:
    events = max(BATCH, round(EVENTS * options.scale))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        begun = time.thread_time()
        size = _fill(path, events)
        spent = 1e6 * (time.thread_time() - begun) / events
        finding = IndexReader(path)
        asked: dict[str, Callable[[], object]] = {
            "newest 20 of a word in every fifth event": partial(_hits, finding, "frequent "),
            "newest 20 of a rare word": partial(_hits, finding, "seldom "),
            "newest 20 of two words": partial(_hits, finding, "frequent bac "),
            "newest 20 of a beginning": partial(_hits, finding, "fre"),
            "counts by session of a word in every fifth event": partial(_counts, finding, "frequent "),
        }
        runs = alternate({name: partial(_timed, ask) for name, ask in asked.items()}, options.runs)
        finding.close()
        commits = max(2, round(COMMITS * options.scale))
        sides = {has: partial(_commits, Path(folder), commits, has) for has in (True, False)}
        committed = alternate(sides, options.runs)
    figures = [
        median(name, samples, "ms", better="less", target=100.0 if name.startswith("counts") else 10.0)
        for name, samples in runs.items()
    ]
    figures.append(median("to make an event and index it", [spent] * options.runs, "µs", better="less"))
    figures.append(median("on disk, each event", [size / events] * options.runs, "bytes", better="less", target=80.0))
    for has, samples in committed.items():
        name = f"commit of {COMMIT} events, {'with the index' if has else 'without'}"
        figures.append(median(name, [one.milliseconds for one in samples], "ms", better="less"))
        figures.append(median(name, [one.processor for one in samples], "ms cpu", better="less"))
    return figures


def _fill(path: Path, events: int) -> int:
    """Make an index; return its bytes."""
    index = Index(path, "bench")
    made = _events(events)
    for first in range(0, events, BATCH):
        batch = list(itertools.islice(made, BATCH))
        index.add(batch, first + len(batch))
    size = index.statistics()["bytes"]
    index.close()
    return size


def _events(count: int) -> Iterator[StoredEvent]:
    chosen = random.Random(5)
    vocabulary = ["".join(one) for one in itertools.product("abcdefghijklmnopqrstuvwxyz", repeat=3)]
    weights = list(itertools.accumulate(1 / (place + 1) for place in range(len(vocabulary))))
    groups = -(-count // GROUP)
    for seq in range(1, count + 1):
        group, place = divmod(seq - 1, GROUP)
        words = chosen.choices(vocabulary, cum_weights=weights, k=WORDS)
        words += ["frequent"] * (chosen.random() < 0.2) + ["seldom"] * (chosen.random() < 0.0001)
        name = f"s{4 * group + chosen.randrange(4)}"
        ts = 1_790_000_000_000 + ((groups - group) * GROUP + place) * 3_000
        text = " ".join(words)
        yield StoredEvent(
            seq,
            f'{{"kind":"message","stream":"{name}","session":"{name}","provider":"claude","ts":{ts},'
            f'"text":"{text if seq % 10 < 7 else ""}"}}'.encode(),
        )


def _hits(finding: IndexReader, words: str) -> None:
    finding.hits(Wanted(expression_of(words)), NEWEST, 20, None, SECONDS)


def _counts(finding: IndexReader, words: str) -> None:
    finding.tallies(Wanted(expression_of(words)), NEWEST, SECONDS)


def _timed(ask: Callable[[], object]) -> float:
    begun = time.thread_time()
    ask()
    return 1e3 * (time.thread_time() - begun)


def _commits(folder: Path, count: int, has_index: bool) -> Commits:
    return anyio.run(partial(_commit_all, folder, count, has_index))


async def _commit_all(folder: Path, count: int, has_index: bool) -> Commits:
    with tempfile.TemporaryDirectory(dir=folder) as own:
        journal = await SqliteJournal.open(Path(own) / "journal.db")
        search = Search(journal, lambda _: Path(own) / "index", 2**40 if has_index else 0)
        made = _events(count * COMMIT)
        texts = [message(body.body.decode(), ts=1_790_000_000_000 + body.seq) for body in made]
        took = []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(search.run)
            spent = time.process_time()
            for number in range(count):
                part = texts[number * COMMIT : (number + 1) * COMMIT]
                begun = time.perf_counter()
                await journal.commit(commit(*part, base=number))
                took.append(1e3 * (time.perf_counter() - begun))
            spent = time.process_time() - spent
            tasks.cancel_scope.cancel()
        await search.close()
        await journal.close()
    return Commits(sorted(took)[len(took) // 2], 1e3 * spent / count)
