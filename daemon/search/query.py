"""Queries of the index: the newest hits, how many there are in each session, and snippets of them.

What a user typed, words and "quoted phrases", becomes an FTS5 expression: an event must have all of them. Each word is
quoted as a phrase, so nothing that was typed is taken as syntax; `journal.db` is the phrase of two adjacent words. An
identifier is also the phrase of its humps. The last word may be a prefix, since somebody may still be typing it.

The newest hit is the one that happened last, whenever it was ingested. Parts are searched in the order of their newest
documents, until no other part can have a newer hit than those found, or until the time limit. If the search was cut
off, `complete` is false.

A query without words lists the outcomes of calls, which are found by their labels alone, or everything that has a text.
The events of a call have the same key; so calls can be chosen by their outcome or their file, and then the events about
them by anything else.

The index keeps no text. To highlight, the texts of hits are extracted from their events again, and tokenized in memory
by the same tokenizer. This also drops hits whose event does not have the words.
"""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tooltap.daemon.journal.sqlite.damage import read_transaction
from tooltap.daemon.search.index import (
    SLOTS,
    TOKENIZER,
    connect,
    first_id,
    high_before,
    key_of,
    last_id,
    unbuilt_of,
)
from tooltap.daemon.search.words import SPACE, Range, folded, humps_of, ranges_in, spaced, words_of
from tooltap.normalizers.stream.searchable import PART_END

LONGEST_QUERY = 1_000
"""Maximum code points of a query."""
MOST_WORDS = 16
"""Maximum words and phrases; further ones are ignored."""
SHORTEST_PREFIX = 3
"""Minimum letters of a last word that is searched as a prefix."""

_PARTS = re.compile(r'"([^"]*)"?|([^\s"]+)')


def expression_of(query: str) -> str:
    """Return the FTS5 expression for what a user typed; empty if that has no letter and no digit."""
    phrases, is_open = _phrases(query)
    ends = [""] * len(phrases)
    if is_open and _last_word(phrases[-1]) >= SHORTEST_PREFIX:
        ends[-1] = "*"
    return " AND ".join(map(_term, phrases, ends))


def phrases_of(query: str) -> list[str]:
    """Return the words and the quoted phrases that a user typed, in their compatible form."""
    return _phrases(query)[0]


def _phrases(query: str) -> tuple[list[str], bool]:
    """Return the phrases of a query, and whether the last one may go on."""
    phrases = []
    is_open = False
    for found in _PARTS.finditer(query[:LONGEST_QUERY].replace("\0", " ")):
        text = folded(found[1] if found[2] is None else found[2])
        if any(one.isalnum() for one in text):
            phrases.append(text)
            is_open = found[2] is not None and found.end() == len(query)
    return phrases[:MOST_WORDS], is_open and len(phrases) <= MOST_WORDS


def _term(phrase: str, end: str) -> str:
    """`end`: `*` for a phrase whose last word may go on."""
    term = f'"{spaced(phrase).replace(SPACE, " ")}"{end}'
    humps = " ".join(humps_of(phrase))
    return f'({term} OR humps : "{humps}"{end})' if humps else term


def _last_word(text: str) -> int:
    """Return the number of letters and digits at the end of a text."""
    for length, one in enumerate(reversed(text)):
        if not one.isalnum():
            return length
    return len(text)


# -- hits ------------------------------------------------------------------------------------------------------------

STEPS = 2_000
"""SQLite instructions between two checks of the time limit."""


class Wanted(NamedTuple):
    """A query. A field that is None does not restrict it."""

    expression: str
    """Empty: the outcomes of calls, or `everything`."""
    sessions: Sequence[str] | None = None
    providers: Sequence[str] | None = None
    kinds: Sequence[str] | None = None
    tools: Sequence[str] | None = None
    """Canonical or raw names."""
    folders: Sequence[str] | None = None
    """Working directories: the whole path, the path of a folder around it, or the last part of its name."""
    since: int | None = None
    until: int | None = None
    """`since` and `until`: milliseconds since the epoch."""
    outcomes: Sequence[str] | None = None
    """Events about calls that ended like this."""
    file: str | None = None
    """Expression that the arguments of a call have to match."""
    phrases: Sequence[str] = ()
    """What was typed: of the hits of a page, those that have it sign for sign come first."""
    everything: bool = False
    """Without words: all events that have a text."""


class Hit(NamedTuple):
    """An event that matches."""

    key: int
    """Position in the order of time."""
    seq: int
    session: str
    """Current name of the session; the event may have an earlier one."""


class _Row(NamedTuple):
    """A document that matches."""

    key: int
    seq: int
    source: int


class _Part(NamedTuple):
    """A part that may have hits."""

    id: int
    low: int
    high: int
    """`low` to `high`: the ids that are wanted."""


class _Count(NamedTuple):
    """Hits of one source."""

    hits: int
    key: int
    id: int
    part: int
    """`id` and `part` of the newest hit."""


class Tally(NamedTuple):
    """Hits in one session."""

    session: str
    provider: str
    cwd: str | None
    hits: int
    latest: int
    """`seq` of the newest hit."""


class _Scope(NamedTuple):
    """The restrictions of a query other than its words, resolved to ids."""

    labels: str | None
    """Ids of the labels, joined by commas; None: any."""
    sources: frozenset[int] | None
    first: int
    last: int
    """`first` to `last`: the `seq` of the wanted sources' events; unbounded if all sources are wanted."""
    low: int
    high: int
    """`low` to `high`: the ids of documents in the wanted time."""
    has_words: bool
    is_chosen: bool
    """Whether only the events about chosen calls are wanted."""


class CallDocument(NamedTuple):
    """A document that is about a call."""

    call: int
    """Key of the call."""
    seq: int
    is_outcome: bool


class IndexReader:
    """A reading connection, which one thread uses at a time."""

    def __init__(self, path: Path) -> None:
        self._connection = connect(path)
        self._connection.execute("PRAGMA query_only=ON")
        self._deadline = 0.0
        self._chosen: set[int] = set()
        """Keys of the calls whose events are wanted."""
        self._connection.create_function("chosen", 1, self._chosen.__contains__)
        self._connection.set_progress_handler(lambda: time.monotonic() > self._deadline, STEPS)

    def close(self) -> None:
        self._connection.close()

    def hits(
        self, wanted: Wanted, before: int, limit: int, most_of_session: int | None, seconds: float
    ) -> tuple[list[Hit], bool, int]:
        """Return the newest hits with a key less than `before`, newest first; whether the search was completed in time;
        and the number of `seq` that it missed, in parts that are being rebuilt."""
        found: list[_Row] = []
        full: frozenset[int] = frozenset()
        unbuilt = 0
        with self._limited(seconds) as limited:
            unbuilt = unbuilt_of(self._connection)
            scope = self._scope(wanted)
            while scope is not None and (room := limit - len(found)) > 0:
                added = self._next_hits(wanted.expression, scope, before, room, full)
                found += added
                if most_of_session is not None:
                    found, full = self._thinned(found, most_of_session)
                if len(added) < room:
                    break
                before = added[-1].key
        self._deadline = float("inf")
        sessions = self._sessions_of(found)
        hits = [Hit(one.key, one.seq, sessions[one.source]) for one in found if one.source in sessions]
        return hits, not limited.is_over, unbuilt

    def tallies(self, wanted: Wanted, before: int, seconds: float) -> tuple[list[Tally], bool]:
        """Return the number of all hits with a key less than `before` by session, the session with the newest hit
        first; and whether all were counted in time."""
        counts: dict[int, _Count] = {}
        with self._limited(seconds) as limited:
            scope = self._scope(wanted)
            if scope is not None:
                for part in self._parts(scope, before):
                    self._count(wanted.expression, scope, part, counts)
        is_complete = not limited.is_over
        return self._by_session(counts), is_complete

    def documents_of(self, calls: Sequence[int], first: int) -> list[CallDocument]:
        """Return the documents that have the beginning or an outcome of these calls, in the order of their `seq`.
        `first`: the lowest `seq` of an outcome that is known."""
        self._deadline = float("inf")
        found: list[CallDocument] = []
        keys = json.dumps(list(calls))
        labels = self._labels(["(kind='tool-call' OR outcome<>'')"], {})
        outcomes = set(self._labels(["outcome<>''"], {}))
        parts = self._connection.execute("SELECT id, last FROM parts WHERE docs>0 ORDER BY last DESC").fetchall()
        for part, last_of_part in parts:
            if last_of_part < first and {one.call for one in found if not one.is_outcome} >= set(calls):
                break
            rows = self._connection.execute(
                f"SELECT call, seq, label FROM docs_{part} WHERE call IN (SELECT value FROM json_each(?))"
                f" AND label IN ({_joined(labels)})",
                (keys,),
            ).fetchall()
            found += [CallDocument(call, seq, label in outcomes) for call, seq, label in rows]
        return sorted(found, key=lambda one: one.seq)

    def _count(self, expression: str, scope: _Scope, part: _Part, counts: dict[int, _Count]) -> None:
        """Add the hits of a part, grouped by the slots in their ids: half the work of looking up each document."""
        slots, is_whole = self._slots(part.id, scope)
        where, values = _matching(part, scope, None if is_whole else slots)
        for slot, hits, newest in self._connection.execute(
            f"SELECT text_{part.id}.rowid % {SLOTS}, count(*), max(text_{part.id}.rowid) {where} GROUP BY 1",
            {**values, "match": expression},
        ).fetchall():
            one = _Count(hits, key_of(newest, part.id), newest, part.id)
            counts[slots[slot]] = _sum(counts.get(slots[slot]), one)

    def _by_session(self, counts: dict[int, _Count]) -> list[Tally]:
        self._deadline = float("inf")
        found: dict[str, tuple[_Count, str, str | None]] = {}
        rows = self._connection.execute(
            "SELECT id, session, provider, cwd FROM sources WHERE id IN (SELECT value FROM json_each(?))",
            (json.dumps(list(counts)),),
        )
        for source, session, provider, cwd in rows.fetchall():
            earlier = found.get(session, (None, provider, None))
            found[session] = _sum(earlier[0], counts[source]), provider, cwd or earlier[2]
        newest = sorted(found.items(), key=lambda one: -one[1][0].key)
        seqs = self._seqs_of([(count.part, count.id) for _, (count, _, _) in newest])
        return [
            Tally(session, provider, cwd, count.hits, seqs[count.part, count.id])
            for session, (count, provider, cwd) in newest
        ]

    def _seqs_of(self, documents: Sequence[tuple[int, int]]) -> dict[tuple[int, int], int]:
        by_part: dict[int, list[int]] = {}
        for part, number in documents:
            by_part.setdefault(part, []).append(number)
        return {
            (part, number): seq
            for part, numbers in by_part.items()
            for number, seq in self._connection.execute(
                f"SELECT id, seq FROM docs_{part} WHERE id IN (SELECT value FROM json_each(?))", (json.dumps(numbers),)
            ).fetchall()
        }

    def _sessions_of(self, found: Sequence[_Row]) -> dict[int, str]:
        """Return the session of each source."""
        return dict(
            self._connection.execute(
                "SELECT id, session FROM sources WHERE id IN (SELECT value FROM json_each(?))",
                (json.dumps([one.source for one in found]),),
            ).fetchall()
        )

    # -- one query ----------------------------------------------------------------------------------------------

    def _next_hits(
        self, expression: str, scope: _Scope, before: int, limit: int, without: frozenset[int]
    ) -> list[_Row]:
        found: list[_Row] = []
        for part in self._parts(scope, before):
            low = part.low
            if len(found) >= limit:
                low = max(low, high_before(found[-1].key, part.id) + 1)
            if low > part.high:
                continue
            slots, is_whole = self._slots(part.id, scope, without)
            where, values = _matching(part._replace(low=low), scope, None if is_whole else slots)
            rows = self._connection.execute(
                f"SELECT text_{part.id}.rowid, (SELECT seq FROM docs_{part.id} WHERE id=text_{part.id}.rowid) {where}"
                f" ORDER BY text_{part.id}.rowid DESC LIMIT :limit",
                {**values, "match": expression, "limit": limit},
            ).fetchall()
            added = [_Row(key_of(number, part.id), seq, slots[number % SLOTS]) for number, seq in rows]
            found = sorted([*found, *added], key=lambda one: -one.key)[:limit]
        return found

    def _thinned(self, found: list[_Row], most: int) -> tuple[list[_Row], frozenset[int]]:
        """Return the first `most` hits of each session, and the sources of the sessions that have so many."""
        sessions = self._sessions_of(found)
        counts: Counter[str | None] = Counter()
        kept = []
        for row in found:
            session = sessions.get(row.source)
            counts[session] += 1
            if counts[session] <= most:
                kept.append(row)
        full = [session for session, count in counts.items() if count >= most and session is not None]
        rows = self._connection.execute(
            "SELECT id FROM sources WHERE session IN (SELECT value FROM json_each(?))", (json.dumps(full),)
        )
        return kept, frozenset(source for (source,) in rows.fetchall())

    def _parts(self, scope: _Scope, before: int) -> Iterator[_Part]:
        """Yield the parts that may have hits, those with the newest documents first."""
        for number, low, high in self._connection.execute(
            "SELECT id, low, high FROM parts WHERE docs>0 AND first<=? AND last>=? AND low<=? AND high>=?"
            " ORDER BY high DESC, id DESC",
            (scope.last, scope.first, scope.high, scope.low),
        ).fetchall():
            self._check_time()
            part = _Part(number, max(low, scope.low), min(high, scope.high, high_before(before, number)))
            if part.low <= part.high:
                yield part

    def _slots(self, part: int, scope: _Scope, without: frozenset[int] = frozenset()) -> tuple[dict[int, int], bool]:
        """Return the wanted slots of a part (slot -> source), and whether all slots are wanted."""
        rows = dict(self._connection.execute("SELECT slot, source FROM slots WHERE part=?", (part,)).fetchall())
        wanted = {
            slot: source
            for slot, source in rows.items()
            if (scope.sources is None or source in scope.sources) and source not in without
        }
        return wanted, len(wanted) == len(rows)

    def _scope(self, wanted: Wanted) -> _Scope | None:
        """Resolve the names of a query; None if no event can match."""
        first, last = 0, 2**63 - 1
        sources = labels = None
        of_source: list[str] = []
        names: dict[str, str] = {}
        for name, column in (("sessions", "session"), ("providers", "provider")):
            if (given := getattr(wanted, name)) is not None:
                of_source.append(f"{column} IN (SELECT value FROM json_each(:{name}))")
                names[name] = json.dumps(list(given))
        if wanted.folders is not None:
            of_source.append(f"session IN (SELECT session FROM sources JOIN json_each(:folders) WHERE {_IN_FOLDER})")
            names["folders"] = json.dumps([one.rstrip("/") for one in wanted.folders])
        if of_source:
            rows = self._connection.execute(
                f"SELECT id, first, last FROM sources WHERE {' AND '.join(of_source)}", names
            ).fetchall()
            if not rows:
                return None
            sources = frozenset(row[0] for row in rows)
            first, last = min(row[1] for row in rows), max(row[2] for row in rows)
        of_label, names = [], {}
        if wanted.kinds is not None:
            of_label.append("kind IN (SELECT value FROM json_each(:kinds))")
            names["kinds"] = json.dumps(list(wanted.kinds))
        if wanted.tools is not None:
            of_label.append("EXISTS (SELECT 1 FROM json_each(:tools) WHERE value IN (tool, raw_tool))")
            names["tools"] = json.dumps(list(wanted.tools))
        if not (wanted.expression or wanted.everything):
            of_label.append("outcome<>''")
            if wanted.outcomes is not None:
                of_label.append("outcome IN (SELECT value FROM json_each(:outcomes))")
                names["outcomes"] = json.dumps(list(wanted.outcomes))
        if of_label:
            found = self._labels(of_label, names)
            if not found:
                return None
            labels = _joined(found)
        low = 0 if wanted.since is None else first_id(-(-wanted.since // 1000))
        high = 2**62 if wanted.until is None else last_id(wanted.until // 1000)
        is_chosen = self._choose(wanted)
        return _Scope(labels, sources, first, last, low, high, bool(wanted.expression), is_chosen)

    def _labels(self, conditions: Sequence[str], names: Mapping[str, str]) -> list[int]:
        rows = self._connection.execute(f"SELECT id FROM labels WHERE {' AND '.join(conditions)}", names)
        return [label for (label,) in rows.fetchall()]

    def _choose(self, wanted: Wanted) -> bool:
        """Find the calls with the wanted file, or the wanted outcomes; return whether either is given."""
        self._chosen.clear()
        if wanted.file is not None:
            labels = self._labels(["kind='tool-call'"], {})
            query = (
                "SELECT call FROM text_{0} CROSS JOIN docs_{0} AS docs ON docs.id=text_{0}.rowid"
                " WHERE text_{0} MATCH :wanted AND docs.call IS NOT NULL"
            )
        elif wanted.outcomes is not None and (wanted.expression or wanted.everything):
            labels = self._labels(
                ["outcome IN (SELECT value FROM json_each(:wanted))"], {"wanted": json.dumps(list(wanted.outcomes))}
            )
            query = "SELECT call FROM docs_{0} AS docs WHERE call IS NOT NULL"
        else:
            return False
        for (part,) in self._connection.execute("SELECT id FROM parts WHERE docs>0").fetchall():
            rows = self._connection.execute(
                f"{query.format(part)} AND docs.label IN ({_joined(labels)})", {"wanted": wanted.file}
            )
            self._chosen.update(call for (call,) in rows.fetchall())
        return True

    @contextmanager
    def _limited(self, seconds: float) -> Iterator[_Limited]:
        """Read one state of the index: a part may be emptied meanwhile."""
        limited = _Limited()
        self._deadline = time.monotonic() + seconds
        try:
            with read_transaction(self._connection):
                yield limited
        except _TimeIsOverError:
            limited.is_over = True
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_INTERRUPT:
                raise
            limited.is_over = True

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise _TimeIsOverError


class _TimeIsOverError(Exception):
    pass


class _Limited:
    is_over = False


_IN_FOLDER = (
    "cwd=value OR substr(cwd, 1, length(value) + 1)=value||'/'"
    " OR (instr(value, '/')=0 AND substr(cwd, -length(value) - 1)='/'||value)"
)


def _joined(labels: Sequence[int]) -> str:
    return ",".join(map(str, labels))


def _matching(part: _Part, scope: _Scope, slots: Mapping[int, int] | None) -> tuple[str, dict[str, Any]]:
    """Return an SQL query from `FROM` on, and its parameters. `slots`: the wanted ones; None: any."""
    text = f"text_{part.id}"
    docs = "docs" if scope.has_words else text
    conditions = [] if scope.labels is None else [f"{docs}.label IN ({scope.labels})"]
    if scope.is_chosen:
        conditions.append(f"chosen({docs}.call)")
    values: dict[str, Any] = {"low": part.low, "high": part.high}
    if not scope.has_words:
        source = f"docs_{part.id} AS {text} WHERE {' AND '.join(conditions) or 'TRUE'}"
    elif conditions:  # CROSS: the words are looked up first, whatever the planner thinks
        joined = " AND ".join([f"docs.id={text}.rowid", *conditions])
        source = f"{text} CROSS JOIN docs_{part.id} AS docs ON {joined} WHERE {text} MATCH :match"
    else:
        source = f"{text} WHERE {text} MATCH :match"
    condition = ""
    if slots is not None:
        condition = f" AND {text}.rowid % {SLOTS} IN (SELECT value FROM json_each(:slots))"
        values["slots"] = json.dumps(list(slots))
    return f"FROM {source} AND {text}.rowid BETWEEN :low AND :high{condition}", values


def _sum(one: _Count | None, other: _Count) -> _Count:
    if one is None:
        return other
    newest = max(one, other, key=lambda count: count.key)
    return newest._replace(hits=one.hits + other.hits)


# -- snippets ---------------------------------------------------------------------------------------------------------

LENGTH = 160
"""Maximum code points of a snippet."""
BEGIN, END = "\x02", "\x03"
"""Marks around a match; no text contains them."""


class Snippet(NamedTuple):
    """An excerpt of one part of a text."""

    text: str
    """One line; `…` where something is left out."""
    ranges: list[tuple[int, int]]
    """Matches in `text`: start and end, in code points."""
    part: int
    """Index of the part."""


class Highlighter:
    """Makes snippets of texts."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.execute(f"CREATE VIRTUAL TABLE texts USING fts5(text, humps, tokenize='{TOKENIZER}')")

    def close(self) -> None:
        self._connection.close()

    def snippets(self, texts: Sequence[str], expression: str, *, after: Sequence[int]) -> list[Snippet | None]:
        """Return a snippet of each text; None for one that does not match the expression. It is of the part with most
        matches, and without an expression the beginning. `after`: for each text, how many parts at its beginning are
        shown only if there is no other."""
        if not expression:
            return [_snippet(text, [], least) for text, least in zip(texts, after, strict=True)]
        execute = self._connection.execute
        self._connection.executemany(
            "INSERT INTO texts (rowid, text, humps) VALUES (?, ?, ?)",
            [(number, *words_of(text)) for number, text in enumerate(texts)],
        )
        marks = {"begin": BEGIN, "end": END, "expression": expression}
        try:
            marked = {
                number: (words, humps)
                for number, words, humps in execute(
                    "SELECT rowid, highlight(texts, 0, :begin, :end), highlight(texts, 1, :begin, :end) FROM texts"
                    " WHERE texts MATCH :expression",
                    marks,
                ).fetchall()
            }
        finally:
            execute("DELETE FROM texts")
        found: list[Snippet | None] = []
        for number, (text, least) in enumerate(zip(texts, after, strict=True)):
            words, humps = marked.get(number, (None, None))
            ranges = None if words is None else ranges_in(text, _ranges(words.replace(SPACE, "")), _ranges(humps))
            found.append(None if ranges is None else _snippet(text, ranges, least))
        return found


def _snippet(text: str, ranges: Sequence[Range], after: int) -> Snippet:
    parts = _parts(text, ranges)
    shown = range(min(after, len(parts) - 1), len(parts))
    best = max(shown, key=lambda number: (len(parts[number][1]), -number))
    text, ranges = parts[best]
    first, last = _most(ranges)
    lead = max(0, min((first + last - LENGTH) // 2, len(text) - LENGTH))
    if lead:  # begin with a word
        space = text.find(" ", lead, first)
        lead = lead if space < 0 else space + 1
    end = min(len(text), lead + LENGTH)
    before, behind = "…" if lead else "", "…" if end < len(text) else ""
    shift = len(before) - lead
    within = [
        (max(start, lead) + shift, min(stop, end) + shift) for start, stop in ranges if start < end and stop > lead
    ]
    return Snippet(f"{before}{text[lead:end]}{behind}", within, best)


def _parts(text: str, ranges: Sequence[Range]) -> list[tuple[str, list[Range]]]:
    """Split a text into its parts, each on one line and with its ranges. A range that goes on from one part to the next
    is in both."""
    parts: list[tuple[str, list[Range]]] = []
    start, left = 0, deque(ranges)
    for part in text.split(PART_END):
        end = start + len(part)
        within: list[Range] = []
        while left and left[0][0] < end:
            first, last = left[0]
            within.append((max(first, start) - start, min(last, end) - start))
            if last > end:
                break
            left.popleft()
        parts.append(("".join([" " if one.isspace() else one for one in part]), within))
        start = end + 1
    return parts


def _ranges(marked: str) -> list[Range]:
    """Return the ranges that were marked, in the text without marks."""
    ranges: list[Range] = []
    head, *rest = marked.split(BEGIN)
    at = len(head)
    for one in rest:
        found, _, after = one.partition(END)
        ranges.append((at, at + len(found)))
        at += len(found) + len(after)
    return ranges


def _most(ranges: Sequence[Range]) -> Range:
    """Return the start and the end of the most ranges that fit into a snippet together; 0 and 0 if there are none."""
    best, count, last = (0, 0) if not ranges else ranges[0], 0, 0
    for first, (start, _) in enumerate(ranges):
        while last < len(ranges) and ranges[last][1] <= start + LENGTH:
            last += 1
        if last - first > count:
            best, count = (start, ranges[last - 1][1]), last - first
    return best
