"""What comes from another machine's daemon is committed once, in streams of its own, and what is missing is named."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.daemon.events import call, commit, event, message, result
from tooltap.daemon.journal.interface import Journal, StreamConflictError
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.daemon.journal.open import open_journal
from tooltap.daemon.sessions.listing import SessionFilter
from tooltap.daemon.taps.remotes.reading import BadRemoteError, Reader
from tooltap.daemon.taps.remotes.settings import Bounds
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import PermissionRequest, SessionEvent, Turn, Usage, with_seq

pytestmark = pytest.mark.anyio

BOUNDS = Bounds()
LIVE = b'{"op":"live","seq":1}\n'


@pytest.fixture(params=["sqlite", "nats"])
async def journal(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Journal]:
    place = request.getfixturevalue("nats_place") if request.param == "nats" else tmp_path / "journal.db"
    journal = await open_journal(place, "process")
    yield journal
    await journal.close()


def subscribed(journal: str = "j1", latest: int = 0) -> bytes:
    return orjson.dumps({"op": "subscribed", "after": 0, "journal": journal, "oldest": 1, "latest": latest}) + b"\n"


def gap(first: int, last: int, reason: str) -> bytes:
    return orjson.dumps({"op": "gap", "from": first, "to": last, "reason": reason}) + b"\n"


def working(*streams: str) -> bytes:
    return orjson.dumps({"op": "working", "streams": streams}) + b"\n"


def numbered(*events: Produced, first: int = 1) -> bytes:
    return b"".join(with_seq(seq, one.body) + b"\n" for seq, one in enumerate(events, first))


def lines_of(count: int, stream: str = "s", first: int = 1) -> list[Produced]:
    return [message(f"{stream} {line}", stream, line=line) for line in range(first, first + count)]


async def read(journal: Journal, *parts: bytes, masks: bool = False, bounds: Bounds = BOUNDS) -> str:
    """Feed one connection; returns the cursor with which it began."""
    reader = Reader(journal, "box", bounds, masks=masks)
    after = await reader.open()
    try:
        for part in parts:
            await reader.feed(part)
    finally:
        await reader.close()
    return after


async def events(journal: Journal) -> list[dict[str, Any]]:
    found, _ = await journal.read(0, max_bytes=1 << 30)
    return [orjson.loads(one.body) for one in found]


async def texts(journal: Journal) -> list[str]:
    return [one["text"] for one in await events(journal)]


async def test_first_connection_reads_from_the_start_and_the_next_after_what_is_committed(journal: Journal) -> None:
    assert await read(journal, subscribed(), numbered(*lines_of(3))) == "start"
    assert await read(journal) == "j1:3"


async def test_events_that_come_again_are_left_out(journal: Journal) -> None:
    streams = [*lines_of(2), *lines_of(2, "t"), *lines_of(1, first=3)]
    await read(journal, subscribed(), numbered(*streams[:3]))
    await read(journal, subscribed(), numbered(*streams))

    assert await texts(journal) == ["s 1", "s 2", "t 1", "t 2", "s 3"]


async def test_streams_know_what_they_have_though_the_position_of_the_whole_was_not_committed(journal: Journal) -> None:
    await read(journal, subscribed(), numbered(*lines_of(2)))
    own = await journal.load_stream("box/")
    assert own is not None
    assert own.info.remote is not None
    own.info.remote.seq = 0  # as after a kill between the two commits
    await journal.commit(commit(stream="box/", lines=0)._replace(info=own.info))

    assert await read(journal, subscribed(), numbered(*lines_of(3))) == "start"
    assert await texts(journal) == ["s 1", "s 2", "s 3"]


async def test_ids_get_the_name_of_the_remote_and_content_stays(journal: Journal) -> None:
    sent = [
        event(SessionEvent, state="started", alias="earlier", forked_from="other", cwd="/w"),
        event(Usage, line=2, scope="step", request="r1", input_tokens=5, replaces="s:1:0"),
        call("c1", line=3, input={"outputId": "s", "command": "ls"}),
    ]
    await read(journal, subscribed(), numbered(*sent))

    started, used, called = await events(journal)
    assert (started["stream"], started["session"], started["host"]) == ("box/s", "box/session-1", "box")
    assert (started["alias"], started["forkedFrom"], started["cwd"]) == ("box/earlier", "box/other", "/w")
    assert (used["id"], used["request"], used["replaces"]) == ("box/s:2:0", "box/r1", "box/s:1:0")
    assert called["callId"] == "c1"
    assert called["input"] == {"outputId": "s", "command": "ls"}


async def test_session_names_its_host(journal: Journal) -> None:
    await journal.commit(commit(message("here")))
    await read(journal, subscribed(), numbered(message("there")))

    assert {one["session"]: one.get("host") for one in await journal.sessions()} == {
        "session-1": None,
        "box/session-1": "box",
    }


async def test_sessions_of_a_host_are_found(journal: Journal) -> None:
    await journal.commit(commit(message("here"), message("here", session="box/mine", index=1)))
    await read(journal, subscribed(), numbered(message("there")))
    wanted = SessionFilter(host=("lab", "box"))

    assert [one["session"] for one in await journal.sessions(wanted=wanted)] == ["box/session-1"]
    assert (await journal.count_sessions(SessionFilter(host=("lab",))))["provider"] == {}


async def test_output_body_comes_with_its_event(journal: Journal) -> None:
    ref = {"outputId": "s:1:o1", "bytes": 5, "lines": 1, "mimeType": "text/plain"}
    ended = orjson.loads(result("c1").body) | {"outputs": {"/output/stdout": ref}}
    body = [
        {"op": "output", "outputId": "s:1:o1", "offset": at, "total": 5, "mimeType": "text/plain", "text": text}
        for at, text in ((0, "abc"), (3, "de"))
    ]
    parts = b"".join(orjson.dumps(one) + b"\n" for one in body)
    line = b'{"seq":1,' + orjson.dumps(ended)[1:] + b"\n"
    await read(journal, subscribed(), parts)  # the connection ends before the event
    await read(journal, subscribed(), parts + line)
    await read(journal, subscribed(), parts + line)

    (found,) = await events(journal)
    named = found["outputs"]["/output/stdout"]["outputId"]
    stored = await journal.output(named, 0, 100, "bytes")
    assert named == "box/s:1:o1"
    assert stored is not None
    assert stored.data == b"abcde"


def output(text: str) -> bytes:
    part = {"op": "output", "outputId": "s:2:o1", "offset": 0, "total": len(text), "mimeType": "t", "text": text}
    return orjson.dumps(part) + b"\n"


@pytest.mark.parametrize(
    ("sent", "bounds", "sentence"),
    [
        (numbered(message("x" * 3_000, line=2), first=2), Bounds(line_bytes=3_000), "a line of more than 3,000 bytes"),
        (b"x" * 3_001, Bounds(line_bytes=3_000), "a line of more than 3,000 bytes"),
        (output("12345678"), Bounds(body_bytes=7), "outputs of one event of more than 7 bytes"),
    ],
    ids=["line", "endless-line", "outputs"],
)
async def test_what_is_beyond_a_bound_names_the_event_and_the_setting(
    journal: Journal, sent: bytes, bounds: Bounds, sentence: str
) -> None:
    with pytest.raises(BadRemoteError) as refused:
        await read(journal, subscribed(), numbered(*lines_of(1)), sent, bounds=bounds)

    name = "body_bytes" if bounds.body_bytes < BOUNDS.body_bytes else "line_bytes"
    assert str(refused.value) == (
        f"after event 1, the remote has sent {sentence}: raise `{name}` in the table `remotes` of the configuration,"
        " and restart the daemon"
    )
    assert await read(journal, subscribed(), numbered(*lines_of(2))) == "j1:1"
    assert await texts(journal) == ["s 1", "s 2"]


async def test_gap_is_named_once(journal: Journal) -> None:
    for _ in range(2):
        await read(journal, subscribed(), gap(1, 4, "retention"), numbered(message("five", line=5), first=5))

    notice, five = await events(journal)
    assert (notice["code"], notice["host"], five["text"]) == ("lost", "box", "five")
    assert notice["data"] == {"from": 1, "to": 4, "reason": "retention"}


@pytest.mark.parametrize("journal_id", ["j2", "j1"], ids=["replaced", "set-back"])
async def test_journal_that_begins_anew_is_said_and_nothing_is_read_twice(journal: Journal, journal_id: str) -> None:
    await read(journal, subscribed(), numbered(*lines_of(3)))
    anew = [*lines_of(1, "new"), *lines_of(4)]
    for _ in range(2):
        await read(journal, subscribed(journal_id), gap(1, 0, "reset"), numbered(*anew))
        assert await read(journal, subscribed(journal_id)) == f"{journal_id}:5"

    said = [one for one in await events(journal) if one["kind"] == "message"]
    assert [one["text"] for one in said] == ["s 1", "s 2", "s 3", "new 1", "s 4"]


async def test_file_that_the_remote_reads_again_is_here_once(journal: Journal) -> None:
    """As it does where it has deleted the session of a file that grows. The connection is cut off meanwhile."""
    await read(journal, subscribed(), numbered(*lines_of(3)))
    await read(journal, subscribed(), numbered(*lines_of(2), first=4))
    await read(journal, subscribed(), numbered(*lines_of(3, first=3), first=6))
    await read(journal, subscribed(), numbered(*lines_of(6), first=9))

    assert await texts(journal) == [f"s {line}" for line in range(1, 7)]
    assert await read(journal) == "j1:14"


async def test_file_that_the_remote_reads_again_is_read_here_if_it_was_deleted_here_too(journal: Journal) -> None:
    await read(journal, subscribed(), numbered(*lines_of(3)), LIVE, working(), working())
    (session,) = await journal.sessions()
    await journal.remove_session(session["session"])
    assert await texts(journal) == []
    await read(journal, subscribed(), numbered(*lines_of(2), first=4))
    await read(journal, subscribed(), numbered(*lines_of(2, first=3), first=6))
    await read(journal, subscribed(), numbered(*lines_of(5), first=8))

    assert await texts(journal) == [f"s {line}" for line in range(1, 6)]


async def test_event_that_cannot_be_read_is_named_and_the_next_is_read(journal: Journal) -> None:
    strange = b'{"seq":1,"kind":"of-tomorrow","v":2,"id":"s:1:0","stream":"s"}\n'
    await read(journal, subscribed(), strange + numbered(message("next", line=2), first=2))

    notice, following = await events(journal)
    assert (notice["data"], following["text"]) == ({"from": 1, "to": 1}, "next")


async def test_waiting_session_waits_here_while_it_is_connected(journal: Journal) -> None:
    asks = event(PermissionRequest, line=2, permission_id="p", type="permission")
    sent = numbered(event(Turn, state="started"), asks)
    reader = Reader(journal, "box", BOUNDS, masks=False)
    await reader.open()
    await reader.feed(subscribed() + sent)
    await reader.feed(LIVE + working("s"))
    (session,) = await journal.sessions()
    assert session["status"] == "waiting"

    await reader.close()
    (session,) = await journal.sessions()
    assert (session["status"], session["state"]) == ("interrupted", "suspended")

    await read(journal, subscribed() + LIVE + working())  # by then it was answered, and has ended
    (session,) = await journal.sessions()
    assert session["state"] == "ended"


async def test_new_stream_stays_open_until_the_second_list_of_what_works(journal: Journal) -> None:
    reader = Reader(journal, "box", BOUNDS, masks=False)
    await reader.open()
    await reader.feed(subscribed() + LIVE + numbered(event(Turn, state="started")))
    states = []
    for _ in range(2):
        await reader.feed(working())
        states.append((await journal.sessions())[0]["state"])

    assert states == ["open", "ended"]


async def test_journal_that_is_masked_has_no_secret_of_a_remote(journal: Journal) -> None:
    secret = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0dF3hJ6"
    await read(journal, subscribed(), numbered(message(f"token {secret}")), masks=True)

    (found,) = await texts(journal)
    assert secret not in found
    assert "[masked" in found


BAD = {
    "greeting": b"Last login: Mon Nov 30\n",
    "no-object": b"[1]\n",
    "no-text": b"\xff\xfe\n",
    "no-journal": numbered(message("no journal is named")),
    "path": subscribed("../../etc"),
    "stream": subscribed() + numbered(message("m", "s\x00")),
    "id": subscribed() + numbered(message("m", "s", id="other:1:0")),
    "hole": subscribed() + b'{"op":"output","outputId":"s:1:o1","offset":7,"mimeType":"t","text":"x"}\n',
    "output": subscribed() + b'{"op":"output","outputId":"none","offset":0,"mimeType":"t","text":"x"}\n',
    "other-output": subscribed()
    + b'{"op":"output","outputId":"other:1:o1","offset":0,"mimeType":"t","text":"x"}\n'
    + numbered(message("m")),
    "endless": b"x" * (BOUNDS.line_bytes + 1),
    "error": b'{"op":"error","code":"journal","message":"the journal is damaged"}\n',
}


@pytest.mark.parametrize("sent", BAD.values(), ids=BAD)
async def test_what_no_tooltap_sends_ends_the_connection_and_is_not_stored(journal: Journal, sent: bytes) -> None:
    with pytest.raises(BadRemoteError):
        await read(journal, sent)

    assert await events(journal) == []


async def test_what_a_remote_has_from_remotes_of_its_own_is_left_out(journal: Journal) -> None:
    of_another = message("mine, which it has read", "me/s", id="me/s:1:0", host="me")
    await read(journal, subscribed(), numbered(of_another, message("its own")))

    assert await texts(journal) == ["its own"]


async def test_frame_of_a_newer_release_is_ignored(journal: Journal) -> None:
    await read(journal, subscribed(), b'{"op":"of-tomorrow"}\n', numbered(message("m")))

    assert await texts(journal) == ["m"]


async def test_remote_cannot_write_into_a_stream_of_this_machine(journal: Journal) -> None:
    await journal.commit(commit(message("mine", "box/s", session="mine"), stream="box/s"))
    with pytest.raises(BadRemoteError, match="of this machine"):
        await read(journal, subscribed(), numbered(message("theirs")))

    assert await texts(journal) == ["mine"]


async def test_two_daemons_with_one_journal_read_each_event_once(nats_place: NatsPlace) -> None:
    journals = [await open_journal(nats_place, "process") for _ in range(2)]
    readers = [Reader(one, "box", BOUNDS, masks=False) for one in journals]
    try:
        for reader in readers:
            await reader.open()
        await readers[0].feed(subscribed() + numbered(*lines_of(3)))
        with pytest.raises(StreamConflictError):
            await readers[1].feed(subscribed() + numbered(*lines_of(3)))
        after = await read(journals[1], subscribed(), numbered(*lines_of(4)))  # it is connected again
        found = await texts(journals[1])
    finally:
        for one in journals:
            await one.close()

    assert after == "j1:3"
    assert found == ["s 1", "s 2", "s 3", "s 4"]
