"""What is found, compared with reading every event; by which words, and by which filters."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.search.searching import all_events, events_of_fixtures, fill, has, humps, searched, tokens
from tooltap.daemon.journal.interface import StoredEvent
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.search import index as index_module
from tooltap.daemon.search import indexer as indexer_module
from tooltap.daemon.search.index import SLOTS, SPARE, Index
from tooltap.daemon.search.query import IndexReader, Wanted, expression_of, phrases_of
from tooltap.daemon.search.search import Answer
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.stream.searchable import searchable
from tooltap.protocol.events import Message, Reasoning, SessionEvent, ToolResult

pytestmark = pytest.mark.anyio


async def test_words_and_phrases_are_found_wherever_they_are(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    """Hits by session are those of a search that reads every event of the recordings."""
    await fill(sqlite_journal, events_of_fixtures())
    read = [(one.seq, searchable(one.body)) for one in await all_events(sqlite_journal)]
    found = [(seq, about.text) for seq, about in read if about is not None and about.text]
    columns = {seq: (tokens(text), humps(text)) for seq, text in found}
    texts = [(seq, words) for seq, (words, _) in columns.items()]
    assert len(texts) > 1_000
    chosen = random.Random(1)
    words = chosen.sample(sorted({word for _, text in texts for word in text}), 60)
    queries = [[[word]] for word in words] + [[["no"], ["such", "word"]]]
    for _, text in chosen.sample(texts, 60):
        if text:
            start = chosen.randrange(len(text))
            queries.append([text[start : start + chosen.randint(2, 4)], [chosen.choice(text)]])
    async with searched(sqlite_journal, tmp_path / "search") as index:
        for phrases in queries:
            answer = await index.find(" ".join(f'"{" ".join(one)}"' for one in phrases))
            assert sorted(seqs(answer)) == [seq for seq, text in columns.items() if has(text, phrases)], phrases
            times = [one.event.ts // 1000 for one in answer.hits if one.event.ts is not None]
            assert times == sorted(times, reverse=True), phrases
            assert Counter({one.session: one.hits for one in answer.tallies}) == Counter(
                one.session for one in answer.hits
            )
            assert (answer.complete, answer.behind) == (True, 0)


def seqs(answer: Answer) -> list[int]:
    return [one.seq for one in answer.hits]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("search_upto", [1]),
        ("SEARCH_UPTO", [1]),
        ("upto search", [1]),
        ('"upto search"', []),
        ("daemon/search/indexer.py", [2]),
        ("indexer.py", [2]),
        ("inde", [2, 1]),
        ("in", [2]),
        ("ca", []),
        ("inde daemon", []),
        ("cafe", [3]),
        ("Café", [3]),
        ("検索", [4]),
        ("索検", []),
        ("全文検索です", [4]),
        ("한국", [5]),
        ('"NOT" -daemon', [2]),
        ("text:daemon OR NEAR(a b)", []),
        ('unclosed "of a phra', []),
        ('"of a phrase', [6]),
    ],
)
async def test_how_words_are_found(sqlite_journal: SqliteJournal, tmp_path: Path, query: str, found: list[int]) -> None:
    texts = (
        "the column search_upto of the index",
        "NOT in daemon/search/indexer.py",
        "the café is open",
        "これは全文検索ですか",
        "한국어 문장",
        "an end of a phrase",
    )
    await sqlite_journal.commit(commit(*[message(text) for text in texts], state="ended"))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        assert seqs(await index.find(query)) == found


async def test_a_hit_shows_where_the_words_are(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    text = "before " * 30 + "the 検索 of\nwords" + " after" * 40
    await sqlite_journal.commit(commit(message(text), state="ended"))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        (hit,) = (await index.find("検索 words")).hits
    shown = hit.snippet.text
    assert [shown[start:end] for start, end in hit.snippet.ranges] == ["検索", "words"]
    assert shown.startswith("…before ")
    assert "the 検索 of words after" in shown
    assert shown.endswith("…")
    assert len(shown) <= 162


@pytest.mark.parametrize(
    ("text", "queries"),
    [
        ("ﾊﾝｶｸ ｶﾞｷﾞ", ["ハンカク", "カク", "ﾊﾝｶｸ", "ガギ"]),
        ("ハンカク", ["ﾊﾝｶｸ"]),
        ("ＡＰＩキー１２３", ["APIキー", "キー", "123", "ＡＰＩ"]),
        ("the ﬁle ① is here™", ["file", "1", "here"]),
        (
            "an HTTPServerError in camelCaseIdentifier",
            ["ServerError", "httpserver", "Identifier", "servererr", "http", "caseIdentifier"],
        ),
        ("file", ["ｆｉｌｅ"]),
    ],
)
async def test_the_form_of_a_word_makes_no_difference(
    sqlite_journal: SqliteJournal, tmp_path: Path, text: str, queries: list[str]
) -> None:
    await sqlite_journal.commit(commit(message(text), state="ended"))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        found = {query: seqs(await index.find(query)) for query in queries}
    assert {query for query, hits in found.items() if hits} == set(queries) - {"servererr"}


@pytest.mark.parametrize(
    ("query", "text", "found"),
    [
        ("ハンカク", "no ﾊﾝｶｸ here", ["ﾊﾝｶｸ"]),
        ("ガ", "a ｶﾞｷﾞ", ["ｶﾞ"]),
        ("file 3", "ﬁle ③", ["ﬁle", "③"]),
        ("cafe", "un cafe\u0301", ["cafe\u0301"]),
        ("ServerError", "an HTTPServerError, HTTPServerError", ["ServerError"]),
        ("identifier ServerError", "camelIdentifier, HTTPServerError", ["Identifier", "ServerError"]),
        ("error case", "ServerError camelCase error", ["Error", "Case", "error"]),
    ],
)
async def test_the_text_is_marked_as_it_is(
    sqlite_journal: SqliteJournal, tmp_path: Path, query: str, text: str, found: list[str]
) -> None:
    await sqlite_journal.commit(commit(message(text), state="ended"))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        (hit,) = (await index.find(query)).hits
    assert hit.snippet.text == text
    assert [text[start:end] for start, end in hit.snippet.ranges] == found


async def test_hits_that_have_what_was_typed_come_first(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    texts = ["use C++", "fixed in #123", "C:\\ is full", "test 123", "C# is not it"]
    await sqlite_journal.commit(commit(*[message(text) for text in texts], state="ended"))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        for query, found in {"C++": [1, 5, 3], "c#": [5, 3, 1], "#123": [2, 4], "123": [4, 2]}.items():
            assert seqs(await index.find(query, phrases=phrases_of(query))) == found


async def test_the_end_of_an_output_and_what_was_written_is_found(
    sqlite_journal: SqliteJournal, tmp_path: Path
) -> None:
    output = {"stdout": "tests ....\n" * 200 + "E   ZebraError: quagga mismatch\n1 failed"}
    await sqlite_journal.commit(
        commit(
            call("c1", input={"file_path": "okapi.py", "content": "def wombat_handler():\n"}),
            event(ToolResult, call_id="c2", name="Bash", output=output, status="completed", is_error=False),
            message("x " * 5_000 + "numbat"),
            state="ended",
        )
    )
    async with searched(sqlite_journal, tmp_path / "search") as index:
        assert [seqs(await index.find(query)) for query in ("wombat", "quagga", "numbat")] == [[1], [2], [3]]


async def test_an_index_of_an_older_version_is_rebuilt(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    path = tmp_path / "search"
    await sqlite_journal.commit(commit(message("an HTTPServerError"), state="ended"))
    async with searched(sqlite_journal, path) as index:
        await index.settle()
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DROP TABLE text_1")
        connection.execute("CREATE VIRTUAL TABLE text_1 USING fts5(text, content='', columnsize=0)")
        connection.execute("UPDATE meta SET value='2.2' WHERE key='format'")
    async with searched(sqlite_journal, path) as index:
        assert seqs(await index.find("error")) == [1]


@pytest.mark.parametrize(
    ("query", "text", "found", "argument"),
    [
        ("mise test", "mise run test", ["mise", "test"], None),
        ("test", "mise run test", ["test"], None),  # the description has it as often
        ("full suite", "Run the full suite", ["full", "suite"], "description"),
        ("mise suite", "mise run test", ["mise"], None),
        ("bash", "mise run test", [], None),
        ('"test run"', "mise run test", ["test"], None),  # a phrase over two parts
    ],
)
async def test_an_excerpt_is_of_one_argument(
    sqlite_journal: SqliteJournal, tmp_path: Path, query: str, text: str, found: list[str], argument: str | None
) -> None:
    """So no excerpt looks like a command that was not run."""
    arguments = {"command": "mise run test", "description": "Run the full suite"}
    await sqlite_journal.commit(commit(call("c1", input=arguments), state="ended"))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        (hit,) = (await index.find(query)).hits
    assert (hit.snippet.text, hit.argument) == (text, argument)
    assert [text[start:end] for start, end in hit.snippet.ranges] == found


async def test_an_excerpt_of_prose_has_no_marks(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    """What a person typed, and a block's language, stay."""
    text = "## Plan\n**MERGE** the `main` branch\n```python\nx = 1\n```"
    made = [message(text), event(Message, role="user", text=text, line=2), event(Reasoning, text="**Merge**", line=3)]
    await sqlite_journal.commit(commit(*made, state="ended", lines=3))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        merge = [(hit.snippet.text, hit.snippet.ranges) for hit in (await index.find("merge")).hits]
        [_, language] = (await index.find("python")).hits
    assert sorted(merge) == [
        ("## Plan **MERGE** the `main` branch ```python x = 1 ```", [(10, 15)]),
        ("Merge", [(0, 5)]),
        ("Plan MERGE the main branch x = 1 ", [(5, 10)]),
    ]
    assert "```python" in language.snippet.text


async def test_an_excerpt_is_centred_on_the_hit(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    await sqlite_journal.commit(commit(message("a " * 200 + "word" + " b" * 200), state="ended"))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        (hit,) = (await index.find("word")).hits
    assert hit.snippet.text == f"…{'a ' * 38}word{' b' * 40}…"


def _edit(number: int, path: str, status: str, stream: str = "s", **fields: Any) -> list[Produced]:
    """A call of `Edit` at `number` seconds, and its result a second later."""
    name = f"c{number}"
    ended = event(
        ToolResult,
        stream,
        call_id=name,
        name="Edit",
        output={"errorMessage": "not unique"} if status == "failed" else {},
        status=status,
        is_error=status == "failed",
        ts=number * 1000 + 1000,
        **fields,
    )
    return [call(name, stream, "Edit", input={"file_path": path}, ts=number * 1000, **fields), ended]


async def test_calls_of_all_sessions(
    sqlite_journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Newest first by when they ended, whenever they were ingested; over several parts of the index."""
    monkeypatch.setattr(index_module, "PART_DOCUMENTS", 4)
    monkeypatch.setattr(indexer_module, "BATCH", 3)
    new: dict[str, Any] = {"session": "new", "provider": "claude"}
    await sqlite_journal.commit(
        commit(
            event(SessionEvent, "a", state="started", cwd="/home/ann/shop", **new),
            *_edit(50, "src/app.py", "failed", "a", **new),
            *_edit(60, "/home/ann/shop/src/app.py", "completed", "a", **new),
            *_edit(70, "src/map.py", "denied", "a", **new),
            call("b1", "a", **new, ts=80_000),
            stream="a",
            state="ended",
        )
    )
    await sqlite_journal.commit(
        commit(
            *_edit(10, "src/app.py", "failed", "b"),
            call("b2", "b", ts=20_000),
            result("b2", "b", status="interrupted", ts=21_000),
            result("b2", "b", status="completed", replaces="b:1:0", ts=22_000),
            call("b3", "b", ts=30_000),
            result("b3", "b", status="completed", async_=True, ts=31_000),
            result("b3", "b", status="failed", is_error=True, final=True, ts=32_000),
            stream="b",
            state="ended",
        )
    )
    async with searched(sqlite_journal, tmp_path / "search") as index:
        await index.settle()

        async def found(file: str | None = None, limit: int = 100, **filters: object) -> list[tuple[int | None, int]]:
            expression = None if file is None else expression_of(f'"{file}"')
            wanted = Wanted("", kinds=("tool-result",), file=expression, **filters)  # type: ignore[arg-type]
            calls: list[tuple[int | None, int]] = []
            before = None
            while True:
                page = await index.search.calls(wanted, file=file, before=before, limit=limit)
                assert page.complete
                calls += [(one.call and one.call.seq, one.outcome.seq) for one in page.calls]
                before = page.next
                if before is None:
                    return calls

        everything = [(6, 7), (4, 5), (2, 3), (14, 16), (11, 13), (9, 10)]
        assert await found() == await found(limit=1) == await found(limit=4) == everything
        assert await found(outcomes=["failed"]) == [(2, 3), (14, 16), (9, 10)]
        assert await found(outcomes=["failed"], tools=["Edit"]) == [(2, 3), (9, 10)]
        assert await found(outcomes=["denied", "completed"]) == [(6, 7), (4, 5), (11, 13)]
        assert await found(outcomes=["cancelled"]) == []
        assert await found(outcomes=["interrupted"]) == []  # a later result replaces it
        assert await found(providers=["claude"], outcomes=["failed"]) == [(2, 3)]
        assert await found(folders=["shop"], outcomes=["failed"]) == [(2, 3)]
        assert await found(sessions=["session-1"], tools=["Edit"]) == [(9, 10)]
        assert await found(since=11_000, until=32_000) == [(14, 16), (11, 13), (9, 10)]
        assert await found("src/app.py") == await found("app.py", limit=1) == [(4, 5), (2, 3), (9, 10)]
        assert await found("app.py", outcomes=["failed"]) == [(2, 3), (9, 10)]
        assert await found("/home/ann/shop/src/app.py") == [(4, 5)]
        assert await found("pp.py") == []
        assert await found("p.py") == []
        # The same filter for the events about calls: the call, whose result failed, and the result.
        assert seqs(await index.find("edit", outcomes=["failed"])) == [2, 9]
        assert seqs(await index.find("unique", outcomes=["failed"])) == [3, 10]
        assert seqs(await index.find("unique", outcomes=["completed"])) == []
        tallies = (await index.find("edit", outcomes=["failed"])).tallies
        assert [(one.session, one.hits) for one in tallies] == [("new", 1), ("session-1", 1)]


async def test_calls_whose_events_are_gone(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    await sqlite_journal.commit(commit(*_edit(1, "a.py", "failed"), state="ended"))
    await sqlite_journal.commit(commit(*_edit(2, "a.py", "failed", "t", session="two"), stream="t", state="ended"))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        await index.settle()
        await sqlite_journal.remove_session("session-1")  # the index does not know it yet
        page = await index.search.calls(Wanted("", kinds=("tool-result",)), file=None, before=None, limit=10)
    assert [(one.session, one.outcome.seq) for one in page.calls] == [("two", 4)]


async def test_filters(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    await sqlite_journal.commit(
        commit(
            event(
                *(SessionEvent, "a"),
                session="one",
                provider="claude",
                state="started",
                cwd="/home/ann/shop",
                ts=500_000,
            ),
            message("word one", "a", session="one", provider="claude", ts=1_000_000),
            call("c1", "a", session="one", provider="claude", ts=2_000_000, input={"command": "word two"}),
            result("c1", "a", session="one", provider="claude", ts=3_000_000, output={"stdout": "word three"}),
            stream="a",
            state="ended",
        )
    )
    await sqlite_journal.commit(
        commit(
            event(SessionEvent, "b", session="two", state="started", cwd="/home/ann/work/api", ts=3_500_000),
            message("word four", "b", session="two", ts=4_000_000),
            stream="b",
            state="ended",
        )
    )
    async with searched(sqlite_journal, tmp_path / "search") as index:

        async def found(**filters: object) -> list[int]:
            return seqs(await index.find("word", **filters))

        assert await found() == [6, 4, 3, 2]
        assert await found(sessions=["one"]) == [4, 3, 2]
        assert await found(sessions=["three"]) == []
        assert await found(providers=["claude", "codex"]) == [4, 3, 2]
        assert await found(kinds=["message"]) == [6, 2]
        assert await found(tools=["Bash"]) == [4, 3]
        assert await found(tools=["sh"]) == []  # neither call says its raw name
        assert await found(tools=["Edit"]) == []
        assert await found(since=2_000_000, until=3_000_000) == [4, 3]
        assert await found(folders=["shop"]) == await found(folders=["/home/ann/shop/"]) == [4, 3, 2]
        assert await found(folders=["/home/ann"]) == [6, 4, 3, 2]
        assert await found(folders=["/home/an", "hop", "work"]) == []
        # Without words, everything that has a text is found.
        everything = await index.find("")
        assert [(one.seq, one.snippet.text, one.snippet.ranges) for one in everything.hits] == [
            (6, "word four", []),
            (5, "/home/ann/work/api", []),
            (4, "word three", []),
            (3, "word two", []),
            (2, "word one", []),
            (1, "/home/ann/shop", []),
        ]
        assert seqs(await index.find("", tools=["Bash"], until=2_000_000)) == [3]
        assert seqs(await index.find("", outcomes=["completed"])) == [4, 3]
        assert seqs(await index.find("", outcomes=["failed"])) == []
        tallies = (await index.find("word")).tallies
        assert [one.hits for one in everything.tallies] == [2, 4]
        assert [(one.session, one.hits, one.latest, one.cwd) for one in tallies] == [
            ("two", 1, 6, "/home/ann/work/api"),
            ("one", 3, 4, "/home/ann/shop"),
        ]


async def test_one_session_does_not_take_all_the_places(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    for number, count in enumerate((2, 30, 1, 30)):
        texts = [message("word", f"s{number}", session=f"session-{number}") for _ in range(count)]
        await sqlite_journal.commit(commit(*texts, stream=f"s{number}", state="ended"))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        answer = await index.find("word")
        assert len(answer.hits) == 63
        wanted = index.wanted("word")
        answer = await index.search.find(wanted, before=None, limit=20, most_of_session=3, counts=False)
        assert seqs(answer) == [63, 62, 61, 33, 32, 31, 30, 2, 1]
        assert (answer.tallies, answer.next, answer.complete) == ([], None, True)
        answer = await index.search.find(wanted, before=None, limit=5, most_of_session=3, counts=False)
        assert seqs(answer) == [63, 62, 61, 33, 32]
        answer = await index.search.find(wanted, before=answer.next, limit=5, most_of_session=3, counts=True)
        assert seqs(answer) == [31, 30, 29, 2, 1]
        assert {one.session: one.hits for one in answer.tallies} == {"session-1": 29, "session-0": 2}


@pytest.mark.parametrize("part", [7, 1_000])
async def test_newest_is_what_happened_last(
    sqlite_journal: SqliteJournal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, part: int
) -> None:
    """Whenever it was ingested: old sessions are read while new ones run. `part`: documents of a part."""
    monkeypatch.setattr(index_module, "PART_DOCUMENTS", part)
    monkeypatch.setattr(indexer_module, "BATCH", 5)
    chosen = random.Random(2)
    expected: list[tuple[int, int]] = []
    for number in range(12):
        first = chosen.randrange(40) * 1_000
        times = [first + 500 * chosen.randrange(1, 4) * one for one in range(6)]
        texts = [message("word", f"s{number}", session=f"session-{number}", ts=ts) for ts in times]
        await sqlite_journal.commit(commit(*texts, stream=f"s{number}", state="ended"))
        expected += [(ts, seq) for seq, ts in enumerate(times, number * 6 + 1)]
    newest = [seq for _, seq in sorted(expected, reverse=True)]
    async with searched(sqlite_journal, tmp_path / "search") as index:
        answer = await index.find("word")
        assert [one.event.ts for one in answer.hits] == sorted((ts for ts, _ in expected), reverse=True)
        assert sorted(seqs(answer)) == sorted(newest)
        sessions = list(dict.fromkeys(one.session for one in answer.hits))
        seconds = {one.session: one.event.ts // 1000 for one in reversed(answer.hits) if one.event.ts is not None}
        assert [one.hits for one in answer.tallies] == [6] * 12
        latest = [seconds[one.session] for one in answer.tallies]
        assert latest == sorted(latest, reverse=True)
        assert {one.session for one in answer.tallies} == set(sessions)
        # Page by page it is the same, without a hit twice.
        for limit in (1, 5):
            pages: list[int] = []
            before: int | None = None
            while True:
                page = await index.search.find(
                    index.wanted("word"), before=before, limit=limit, most_of_session=None, counts=False
                )
                pages += seqs(page)
                before = page.next
                if before is None:
                    break
            assert sorted(pages) == sorted(newest)
            found = {seq: ts // 1000 for ts, seq in expected}
            assert [found[seq] for seq in pages] == sorted(found.values(), reverse=True)
        assert seqs(await index.find("")) == seqs(answer)
        found_since = await index.find("word", since=20_000, until=30_000)
        assert sorted(seqs(found_since)) == sorted(seq for ts, seq in expected if 20_000 <= ts < 31_000)


def _index(path: Path, texts: Sequence[Produced]) -> IndexReader:
    index = Index(path, "journal")
    index.add([StoredEvent(seq, one.body) for seq, one in enumerate(texts, 1)], len(texts))
    index.close()
    return IndexReader(path)


def test_more_in_one_second_than_a_part_has_slots(tmp_path: Path) -> None:
    """A recording without times is ingested in a moment."""
    finding = _index(tmp_path / "search", [message("word", ts=5_000_000)] * (SLOTS + 900))
    found: list[int] = []
    before = 2**62
    while page := finding.hits(Wanted('"word"'), before, 1_000, None, 60.0)[0]:
        found += [one.seq for one in page]
        before = page[-1].key
    assert found == list(range(SLOTS + 900, 0, -1))
    finding.close()


def test_more_sources_than_a_part_has_slots(tmp_path: Path) -> None:
    names = [f"s{number}" for number in range(SLOTS - SPARE + 10)]
    finding = _index(tmp_path / "search", [message("word", name, session=name, ts=5_000_000) for name in names])
    tallies, is_complete = finding.tallies(Wanted('"word"'), 2**62, 60.0)
    assert is_complete
    assert {one.session: (one.hits, one.latest) for one in tallies} == {
        name: (1, seq) for seq, name in enumerate(names, 1)
    }
    assert len(finding.hits(Wanted('"word"'), 2**62, len(names) + 1, None, 60.0)[0]) == len(names)
    finding.close()
    with closing(sqlite3.connect(tmp_path / "search")) as connection:
        assert connection.execute("SELECT docs FROM parts").fetchall() == [(SLOTS - SPARE,), (10,)]


async def test_the_name_that_a_session_gets_late(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    await sqlite_journal.commit(
        commit(
            message("word", session="s"),
            event(SessionEvent, session="known", state="started", alias="s"),
            message("word", session="known"),
            state="ended",
        )
    )
    async with searched(sqlite_journal, tmp_path / "search") as index:
        assert seqs(await index.find("word", sessions=["known"])) == [3, 1]
        assert [(one.session, one.hits) for one in (await index.find("word")).tallies] == [("known", 2)]


async def test_history_that_was_sent_again_is_found_once(sqlite_journal: SqliteJournal, tmp_path: Path) -> None:
    await sqlite_journal.commit(commit(message("word"), message("word", replay=True), state="ended"))
    async with searched(sqlite_journal, tmp_path / "search") as index:
        assert seqs(await index.find("word")) == [1]
