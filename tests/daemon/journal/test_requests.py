"""What several streams report counts once in a journal: requests, and what a subagent says and does."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.journal.on_nats import opened
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.nats.rebuild import rebuild_rows
from tooltap.daemon.journal.sqlite.check import check_schema
from tooltap.daemon.journal.sqlite.file import connect
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.journal.sqlite.sessions import rebuild_sessions
from tooltap.daemon.sessions.repetitions import as_history
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Message, SessionEvent, Usage, decode
from tooltap.protocol.frames import UsageRequest
from tooltap.traces.replay import Covered, EventDiff

pytestmark = pytest.mark.anyio


def usage(request: str | None, stream: str, session: str, line: int = 1, **fields: Any) -> Produced:
    values = {"scope": "step", "input_tokens": 100, "output_tokens": 10, **fields}
    return event(Usage, stream, line, session=session, request=request, **values)


def prompt(text: str, stream: str, line: int, **fields: Any) -> Produced:
    return event(Message, stream, line, role="user", text=text, **fields)


async def stored(journal: Journal) -> list[tuple[str, bool, str | None]]:
    """Return id, `replay` and turn of every event."""
    found, _ = await journal.read(0)
    return [(one.id, one.replay, one.turn) for one in (decode(each.body) for each in found)]


async def counted(journal: Journal) -> dict[str | None, int]:
    """Return session -> input tokens, as `usage` has them."""
    return {row.key: row.input_tokens for row in (await journal.usage(UsageRequest(by="session"))).rows}


async def test_request_of_a_second_session_is_history(journal: Journal) -> None:
    await journal.commit(commit(usage("m1/r1", "a", "parent", turn="t1"), stream="a"))
    await journal.commit(
        commit(
            message("hi", "b", session="fork"),
            usage("m1/r1", "b", "fork", 2, turn="t1"),
            usage("m2/r2", "b", "fork", 3, turn="t2"),
            stream="b",
            lines=3,
        )
    )
    assert await stored(journal) == [
        ("a:1:0", False, "t1"),
        ("b:1:0", False, None),
        ("b:2:0", True, None),
        ("b:3:0", False, "t2"),
    ]
    assert await counted(journal) == {"parent": 100, "fork": 100}
    assert {one["session"]: one.get("forkedFrom") for one in await journal.sessions()} == {
        "parent": None,
        "fork": "parent",
    }


async def test_session_with_requests_of_its_own_is_no_fork(journal: Journal) -> None:
    await journal.commit(commit(usage("m1/r1", "a", "other"), stream="a"))
    await journal.commit(commit(usage("m2/r2", "b", "own"), stream="b"))
    await journal.commit(commit(usage("m1/r1", "b", "own", 2), stream="b", base=1))
    assert [one.get("forkedFrom") for one in await journal.sessions()] == [None, None]
    assert await counted(journal) == {"other": 100, "own": 100}


async def test_session_that_continues_another_is_no_fork(journal: Journal) -> None:
    await journal.commit(commit(usage("m1/r1", "a", "first"), stream="a"))
    continues = event(SessionEvent, "b", session="second", state="started", resumes="first")
    repeated, new = usage("m1/r1", "b", "second", 2), usage("m2/r2", "b", "second", 3)
    await journal.commit(commit(continues, repeated, new, stream="b", lines=3))

    assert {one["session"]: (one.get("forkedFrom"), one.get("resumes")) for one in await journal.sessions()} == {
        "first": (None, None),
        "second": (None, "first"),
    }
    assert await counted(journal) == {"first": 100, "second": 100}


async def test_request_of_another_provider_is_another(journal: Journal) -> None:
    await journal.commit(commit(usage("1", "a", "s1"), stream="a"))
    await journal.commit(commit(usage("1", "b", "s2", provider="codex"), stream="b"))
    assert await counted(journal) == {"s1": 100, "s2": 100}


async def test_request_repeated_in_its_stream_is_history_unless_it_corrects(journal: Journal) -> None:
    await journal.commit(commit(usage("1", "a", "s"), usage("1", "a", "s", 2), stream="a", lines=2))
    corrected = usage("1", "a", "s", 3, input_tokens=300, replaces="a:1:0")
    await journal.commit(commit(corrected, stream="a", base=2))
    assert [replay for _, replay, _ in await stored(journal)] == [False, True, False]


async def test_correction_of_history_is_history(journal: Journal) -> None:
    await journal.commit(commit(usage("1", "a", "s1"), stream="a"))
    await journal.commit(commit(usage("1", "b", "s2"), stream="b"))
    await journal.commit(commit(usage("1", "b", "s2", 2, replaces="b:1:0"), stream="b", base=1))
    assert [replay for _, replay, _ in await stored(journal)] == [False, True, True]
    assert await counted(journal) == {"s1": 100}


async def test_history_that_a_stream_states_claims_no_request(journal: Journal) -> None:
    copied = usage("1", "b", "fork", 2, replay=True)
    await journal.commit(commit(message("hi", "b", session="fork"), copied, stream="b", lines=2))
    await journal.commit(commit(usage("2", "b", "fork", 3), stream="b", base=2))
    await journal.commit(commit(usage("1", "a", "parent"), stream="a"))
    await journal.commit(commit(usage("1", "c", "other"), stream="c"))
    assert await counted(journal) == {"parent": 100, "fork": 100}


async def parent_after_its_fork(journal: Journal) -> None:
    copied = usage("1", "b", "fork", 2, replay=True)
    await journal.commit(commit(message("hi", "b", session="fork"), copied, stream="b", lines=2))
    await journal.commit(commit(usage("2", "b", "fork", 3), stream="b", base=2))
    await journal.commit(commit(usage("1", "a", "parent"), stream="a"))


async def forks(journal: Journal) -> dict[str, str | None]:
    return {one["session"]: one.get("forkedFrom") for one in await journal.sessions()}


async def test_parent_is_found_after_its_fork(journal: Journal) -> None:
    await parent_after_its_fork(journal)
    assert await forks(journal) == {"parent": None, "fork": "parent"}
    await journal.commit(commit(usage("3", "b", "fork", 4), stream="b", base=3))
    assert await forks(journal) == {"parent": None, "fork": "parent"}
    assert await counted(journal) == {"parent": 100, "fork": 200}


async def test_parent_is_found_after_a_session_that_continues_it(journal: Journal) -> None:
    continues = event(SessionEvent, "b", session="second", state="started", resumes="first")
    await journal.commit(commit(continues, usage("1", "b", "second", 2, replay=True), stream="b", lines=2))
    await journal.commit(commit(usage("1", "a", "first"), stream="a"))
    assert await forks(journal) == {"first": None, "second": None}


async def test_forks_are_found_again_in_rows_that_are_rebuilt(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal:
        await parent_after_its_fork(journal)
        copied = usage("2", "c", "third", 2)
        await journal.commit(commit(message("hi", "c", session="third"), copied, stream="c", lines=2))
        was = {"parent": None, "fork": "parent", "third": "fork"}
        assert await forks(journal) == was
        for row in await journal._state.rows():
            await journal._state.forget(row.info.stream)
    async with opened(nats_place) as other:
        await rebuild_rows(other._connection, other._messages, other._state, other._requests)
        assert await forks(other) == was


async def test_subagent_on_two_streams_of_its_session(journal: Journal) -> None:
    def told(stream: str, session: str) -> list[Produced]:
        place = {"session": session, "agent": "a1", "turn": "t"}
        return [
            prompt("Look.", stream, 1, **place),
            message("I look.", stream, line=2, message_id="m1", block=0, **place),
            call("c1", stream, line=3, **place),
            result("c1", stream, line=4, **place),
            usage("m1/r1", stream, line=5, **place),
        ]

    await journal.commit(commit(*told("a", "s"), stream="a", lines=5))
    await journal.commit(commit(*told("b", "s"), stream="b", lines=5))
    assert [replay for _, replay, _ in await stored(journal)] == [False] * 5 + [True] * 5
    [session] = await journal.sessions()
    assert (session["calls"], session["inputTokens"], session["outputTokens"]) == (1, 100, 10)
    assert (await journal.open_calls())["calls"] == []
    # The ids of calls are unique in a session only.
    await journal.commit(commit(*told("c", "other"), stream="c", lines=5))
    assert [replay for _, replay, _ in await stored(journal)][10:] == [False] * 4 + [True]


async def test_the_same_words_twice_in_one_stream(journal: Journal) -> None:
    twice = [prompt("Go on.", "a", line, agent="a1") for line in (1, 2)]
    await journal.commit(commit(*twice, stream="a", lines=2))
    assert [replay for _, replay, _ in await stored(journal)] == [False, False]


async def test_requests_of_deleted_streams_count_again(journal: Journal) -> None:
    await journal.commit(commit(usage("1", "a", "s1"), stream="a", state="ended"))
    await journal.remove_session("s1")
    await journal.commit(commit(usage("1", "b", "s2"), stream="b"))
    assert await counted(journal) == {"s2": 100}


async def test_rebuilt_requests(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(usage("1", "a", "parent"), stream="a"))
    fork = [message("hi", "b", session="fork"), usage("1", "b", "fork", 2), usage("2", "b", "fork", 3)]
    await journal.commit(commit(*fork, stream="b", lines=3))
    was = await journal.sessions()
    await journal.close()
    with closing(connect(path, "process")) as connection:
        requests = connection.execute("SELECT * FROM requests ORDER BY key").fetchall()
        assert len(requests) == 2
        connection.execute("BEGIN")
        connection.execute("DELETE FROM requests")
        rebuild_sessions(connection)
        connection.execute("COMMIT")
        assert connection.execute("SELECT * FROM requests ORDER BY key").fetchall() == requests
    journal = await SqliteJournal.open(path)
    assert await journal.sessions() == was
    await journal.close()


async def test_journal_of_an_older_version_gets_the_table(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await (await SqliteJournal.open(path)).close()
    with closing(connect(path, "process")) as connection:
        connection.execute("DROP TRIGGER requests_unused")
        connection.execute("DROP TABLE requests")
        assert list(check_schema(connection)) == []
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(usage("1", "a", "s1"), stream="a"))
    await journal.commit(commit(usage("1", "b", "s2"), stream="b"))
    assert await counted(journal) == {"s1": 100}
    await journal.close()
    with closing(connect(path, "process")) as connection:
        assert list(check_schema(connection)) == []


async def test_daemon_killed_between_claim_and_commit(nats_place: NatsPlace) -> None:
    first = commit(usage("1", "a", "s1"), stream="a")
    async with opened(nats_place) as killed:
        await killed._requests.compared("a", first.outputs)
    async with opened(nats_place) as successor:
        await successor.commit(commit(usage("1", "a", "s1"), stream="a"))
        await successor.commit(commit(usage("1", "b", "s2"), stream="b"))
        assert await counted(successor) == {"s1": 100}


async def test_two_daemons_that_commit_at_once(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as one, opened(nats_place) as other, anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(one.commit, commit(usage(str(number), f"a{number}", "s1"), stream=f"a{number}"))
            tasks.start_soon(other.commit, commit(usage(str(number), f"b{number}", "s2"), stream=f"b{number}"))
    async with opened(nats_place) as reader:
        await reader.suspend_all()  # as a daemon that starts: those that stop have little time to write their rows
        assert sum((await counted(reader)).values()) == 2_000


async def test_lost_claims_are_made_again(nats_place: NatsPlace) -> None:
    async with opened(nats_place) as journal:
        await journal.commit(commit(usage("1", "a", "s1"), stream="a"))
        await journal._connection.api(
            f"STREAM.PURGE.{journal._state.stream}", filter=journal._state.request(0)[:-16] + "*"
        )
    async with opened(nats_place) as other:
        await rebuild_rows(other._connection, other._messages, other._state, other._requests)
        await other.commit(commit(usage("1", "b", "s2"), stream="b"))
        assert await counted(other) == {"s1": 100}


def test_replay_of_history() -> None:
    """An event that the journal has marked does not differ from what its line gives."""
    own = usage("1", "b", "s2", turn="t")
    covered = {"b": Covered(first=1, last=1, start=0)}
    diff = EventDiff(covered, iter([own.body]))
    diff.take(as_history(own).body)
    diff.finish()
    assert diff.changes == []
