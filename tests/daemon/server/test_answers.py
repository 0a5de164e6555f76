"""`answer`, `send` and `interrupt`: the first answer wins, reaches the agent once, and its way is journaled."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import orjson
import pytest

from tests.daemon.answering import (
    OPENING,
    SESSION,
    Tap,
    answer,
    asking,
    question,
    refusal,
    response,
    result,
    timeless,
    told,
)
from tests.daemon.answering import turn_end as end_of_turn
from tests.daemon.running import TIMEOUT, Running, Wire, running
from tooltap.daemon.ingest import connection
from tooltap.daemon.ingest.live_stream import UNCONFIRMED
from tooltap.daemon.journal.interface import Commit, StreamInfo
from tooltap.daemon.journal.nats.place import NatsPlace
from tooltap.normalizers.core.items import Produced

MANY = 1_000
Lines: TypeAlias = list[tuple[str, dict[str, Any]]]


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as served:
        yield served


def events(daemon: Running) -> list[dict[str, Any]]:
    with daemon.connect() as wire:
        wire.send("subscribe", after="start", follow=False)
        return [one for one in wire.rest() if "kind" in one]


def waiting(daemon: Running) -> list[dict[str, Any]]:
    with daemon.connect() as wire:
        found: list[dict[str, Any]] = wire.ask("waiting")["waiting"]
        return found


def test_answer_reaches_the_agent_and_its_way_is_journaled(daemon: Running) -> None:
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = asking(publisher, 1)
        [asked] = waiting(daemon)
        assert asked["answerable"]
        answer(client)
        frame = tap.receive()
        tap.write(frame)
        given = result(client)

        assert frame["payload"]["answers"] == "rpc:101"
        assert json.loads(frame["payload"]["line"])["result"] == {"outcome": {"outcome": "selected", "optionId": "yes"}}
        assert given.pop("ts") >= asked["since"]
        assert given == {
            "session": SESSION,
            "stream": "s",
            "seq": asked["seq"],
            "permissionId": "101",
            "outcome": "allowed",
            "optionId": "yes",
            "by": "ada, over the socket",
            "delivered": True,
        }
        assert told(events(daemon)) == ["answer", "allowed", "answer-delivered"]
        assert waiting(daemon) == []
        claimed, delivered = [one for one in events(daemon) if one["kind"] == "notice"]
        assert (
            claimed["data"]
            == delivered["data"]
            == {
                "answerId": frame["payload"]["id"],
                "permissionId": "101",
                "seq": asked["seq"],
                "outcome": "allowed",
                "optionId": "yes",
                "by": "ada, over the socket",
            }
        )
        assert (claimed["text"], claimed["callId"], claimed["session"]) == (
            "allowed by ada, over the socket",
            "call-1",
            SESSION,
        )
        assert delivered["text"] == "the agent has got: allowed by ada, over the socket"
        asks = next(one for one in events(daemon) if one["kind"] == "permission-request")
        for notice in (claimed, delivered):
            assert [notice[key] for key in ("turn", "protocol", "provider", "dialect")] == [
                asks[key] for key in ("turn", "protocol", "provider", "dialect")
            ]


def test_statistics_count_the_notices(daemon: Running) -> None:
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = asking(publisher, 1)
        answer(client)
        tap.write(tap.receive())
        result(client)
        publisher.send("end")
        done = tap.until("done")

        assert done["kinds"]["notice"] == 2
        assert done["events"] == len(events(daemon))
        ids = [one["id"] for one in events(daemon)]
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("journal", ["file", "nats"])
def test_two_clients_answer_in_the_same_moment(tmp_path: Path, journal: str, request: pytest.FixtureRequest) -> None:
    """Each question gets one answer; the other client learns who was first, and when."""
    place = {} if journal == "file" else {"journal": str(request.getfixturevalue("nats_place"))}
    with running(tmp_path, **place) as daemon, daemon.connect() as publisher, ThreadPoolExecutor(2) as pool:
        tap = asking(publisher)
        names = {"ada": daemon.connect(), "bob": daemon.connect()}
        together = threading.Barrier(2)
        wins = dict.fromkeys(names, 0)

        def give(name: str, number: int) -> dict[str, Any]:
            outcome = "allowed" if name == "ada" else "denied"
            together.wait()
            answer(names[name], number, outcome, by=name)
            return names[name].until("reply")[-1]

        for number in range(MANY):
            tap.tap(("out", question(number)))
            given = {name: pool.submit(give, name, number) for name in names}
            try:
                frame = tap.receive()
            except TimeoutError:
                pytest.fail(f"question {number}: {[one.result() for one in given.values() if one.done()]}")
            tap.write(frame)
            replies = {name: one.result() for name, one in given.items()}
            [first] = [name for name, reply in replies.items() if reply["ok"]]
            [second] = names.keys() - {first}
            wins[first] += 1
            outcome = replies[first]["result"]["outcome"]
            assert json.loads(frame["payload"]["line"])["id"] == 100 + number
            error = replies[second]["error"]
            assert error["code"] == "already-answered"
            assert timeless(error["message"]) == f"answered N s ago by {first}, over the socket: {outcome}"
        assert len(tap.written) == MANY
        assert min(wins.values()) > 0
        for wire in names.values():
            wire.close()


def test_only_what_is_offered_can_be_chosen(daemon: Running) -> None:
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = asking(publisher, 1)
        wrongs: list[dict[str, Any]] = [
            {"optionId": "maybe"},
            {"outcome": "denied", "optionId": "yes"},
            {"outcome": "denied", "remember": True},
            {"outcome": "answered", "answers": {"a": "b"}},
        ]
        for wrong in wrongs:
            answer(client, 1, **wrong)
            assert refusal(client)[0] == "not-offered"
        assert told(events(daemon)) == []
        answer(client, remember=True)
        tap.write(tap.receive())
        assert result(client)["optionId"] == "always"


def test_answer_reaches_the_agent_though_its_client_has_left(daemon: Running) -> None:
    with daemon.connect() as publisher:
        tap = asking(publisher, 1)
        with daemon.connect() as client:
            answer(client)
        tap.write(tap.receive())
        publisher.send("end")
        tap.until("done")
        assert told(events(daemon)) == ["answer", "allowed", "answer-delivered"]


def test_question_that_is_settled_while_its_answer_is_journaled(
    daemon: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent: the agent has another answer."""
    journal, streams = daemon.daemon.journal, daemon.daemon._streams
    commit, may_go_on = journal.commit, anyio.Event()

    async def late_commit(one: Commit) -> None:
        if any(isinstance(output, Produced) and b'"code":"answer"' in output.body for output in one.outputs):
            await may_go_on.wait()
        await commit(one)

    monkeypatch.setattr(journal, "commit", late_commit)
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = asking(publisher, 1)
        answer(client)
        info = streams.connections["s"].live.info
        while not info.answers:
            time.sleep(0.01)
        publisher.write(
            orjson.dumps({"dir": "in", "line": json.dumps({"jsonrpc": "2.0", **response(1, "no")})}) + b"\n"
        )
        while not info.answers["101"].settled:
            time.sleep(0.01)
        daemon.call(may_go_on.set)
        assert refusal(client) == ("refused", "the publisher of stream 's' refused: the question was settled first")
        assert told(events(daemon)) == ["answer", "denied", "answer-failed"]
        publisher.send("end")
        tap.until("done")
        assert not tap.has_frames


def test_publisher_that_refuses_leaves_the_question_open(daemon: Running) -> None:
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = asking(publisher, 1)
        answer(client)
        tap.refuse(tap.receive(), "the client has answered")
        assert refusal(client) == ("refused", "the publisher of stream 's' refused: the client has answered")
        assert told(events(daemon)) == ["answer", "answer-failed"]
        assert events(daemon)[-1]["text"] == "failed: allowed by ada, over the socket; the client has answered"
        [asked] = waiting(daemon)
        assert asked["answerable"]

        answer(client, outcome="denied", by="bob")
        tap.write(tap.receive())
        assert result(client)["by"] == "bob, over the socket"
        assert told(events(daemon)) == ["answer", "answer-failed", "answer", "denied", "answer-delivered"]


def writes(tap: Tap) -> None:
    tap.write(tap.receive())


def refuses(tap: Tap) -> None:
    tap.refuse(tap.receive(), "the client has answered")


DENIED_THERE: Lines = [("in", response(1, "no"))]
TURN_ENDS: Lines = [("out", end_of_turn())]


@pytest.mark.parametrize(
    ("ada", "lines", "refused"),
    [
        (writes, [], "answered N s ago by ada, over the socket: denied"),
        (refuses, DENIED_THERE, "answered N s ago by somebody at the agent itself: denied"),
        (None, DENIED_THERE, "answered N s ago by somebody at the agent itself: denied"),
        (None, TURN_ENDS, "the question expired N s ago: the agent has gone on without an answer"),
    ],
)
def test_who_comes_too_late_learns_who_was_first(
    daemon: Running, ada: Callable[[Tap], None] | None, lines: Lines, refused: str
) -> None:
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = asking(publisher, 1)
        if ada is not None:
            answer(client, outcome="denied")
            ada(tap)
            client.until("reply")
        written = [*tap.tap(*lines).written]
        answer(client, by="bob")
        assert refusal(client) == ("already-answered", refused)
        answer(client, 3)
        assert refusal(client) == ("not-found", "there is no open question '103'")
        assert tap.written == written


def test_reconnecting_publisher_gets_the_answer_again_with_the_same_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    with running(tmp_path) as daemon, daemon.connect() as client:
        with daemon.connect() as publisher:
            tap = asking(publisher, 1)
            answer(client)
            first = tap.receive()
            assert not result(client)["delivered"]
            [asked] = waiting(daemon)
            assert "answerable" not in asked
            assert timeless(asked["whyNot"]) == "answered N s ago by ada, over the socket: allowed"
            answer(client, by="bob")
            assert refusal(client)[0] == "already-answered"
        with daemon.connect() as publisher:
            again = tap.connect(publisher).receive()
            assert again["payload"] == first["payload"]
            tap.ids.clear()  # it had not written the first
            tap.ids.append(again["payload"]["id"])
            tap.write(again)
            publisher.send("end")
            tap.until("done")
        assert told(events(daemon)) == ["answer", "allowed", "answer-delivered"]


@pytest.mark.parametrize(
    ("lines", "leaves", "then", "way", "reason"),
    [
        ([], False, writes, ["allowed", "answer-delivered"], None),
        # It says whose answer was the first.
        (DENIED_THERE, True, refuses, ["denied", "answer-failed"], "the client has answered"),
        # Ids are used again: a late answer could allow something else.
        (TURN_ENDS, True, None, ["expired", "answer-failed"], connection.EXPIRED),
        # The agent has an answer, but perhaps another one.
        ([("in", response(1))], False, Tap.receive, ["allowed", "answer-failed"], UNCONFIRMED),
    ],
)
def test_answer_that_is_not_delivered_in_time(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lines: Lines,
    leaves: bool,
    then: Callable[[Tap], object] | None,
    way: list[str],
    reason: str | None,
) -> None:
    """The tap publishes lines, perhaps comes back, and then does something about the answer before the stream ends."""
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    with running(tmp_path) as daemon, daemon.connect() as publisher, daemon.connect() as client:
        tap = asking(publisher, 1)
        answer(client)
        assert not result(client)["delivered"]
        tap.tap(*lines)
        if leaves:
            publisher.close()
            tap.connect(daemon.connect())
        if then is not None:
            then(tap)
        tap.wire.send("end")
        tap.until("done")
        assert not tap.has_frames
        assert told(events(daemon)) == ["answer", *way]
        [last] = [one for one in events(daemon) if one.get("code") == way[-1]]
        assert last["data"].get("reason") == reason


def test_answer_that_nobody_has_written_when_the_stream_ends_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    with running(tmp_path) as daemon, daemon.connect() as client:
        with daemon.connect() as publisher:
            asking(publisher, 1)
            answer(client)
            assert not result(client)["delivered"]
        assert client.ask("end", stream="s")["kinds"]["notice"] == 2
        assert sorted(told(events(daemon))) == ["answer", "answer-failed", "expired"]
        [failed] = [one for one in events(daemon) if one.get("code") == "answer-failed"]
        assert failed["data"]["reason"] == "the stream ended first"


def test_id_that_is_used_again_is_another_question(daemon: Running) -> None:
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = asking(publisher, 1)
        answer(client)
        tap.write(tap.receive())
        result(client)
        tap.tap(("out", question(1)))
        answer(client, outcome="denied")
        tap.write(tap.receive())
        assert result(client)["outcome"] == "denied"
        assert told(events(daemon)) == ["answer", "allowed", "answer-delivered", "answer", "denied", "answer-delivered"]


def test_stream_has_to_be_named_where_several_ask_the_same(daemon: Running) -> None:
    with daemon.connect() as one, daemon.connect() as other, daemon.connect() as client:
        asking(one, 1, stream="a")
        tap = asking(other, 1, stream="b")
        answer(client)
        assert refusal(client) == ("ambiguous", "several streams ask '101': name one of 'a', 'b'")
        answer(client, stream="b")
        tap.write(tap.receive())
        assert result(client)["stream"] == "b"


def test_tap_that_writes_nothing_says_what_helps(daemon: Running) -> None:
    with daemon.connect() as publisher, daemon.connect() as client:
        Tap().connect(publisher, toAgent=False).tap(*OPENING, ("out", question(1)))
        [asked] = waiting(daemon)
        answer(client)
        code, message = refusal(client)
        assert (code, message, "answerable" in asked) == ("refused", asked["whyNot"], False)
        assert "start the agent with `tooltap proxy --answers -- COMMAND`" in message
        publisher.finish()
        publisher.until("suspended")
        answer(client)
        assert refusal(client)[0] == "no-publisher"


def test_too_much_that_waits_for_a_publisher_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    monkeypatch.setattr(connection, "MOST_UNANSWERED", 2)
    with running(tmp_path) as daemon, daemon.connect() as publisher, daemon.connect() as client:
        tap = asking(publisher, 1, 2, 3)
        for number in (1, 2):
            answer(client, number)
            assert not result(client)["delivered"]
        answer(client, 3)
        assert refusal(client) == ("refused", "too much for the agent of stream 's' waits already")
        tap.write(tap.receive())
        tap.tap(("in", {"method": "x"}))
        monkeypatch.setattr(connection, "MOST_UNDELIVERED_BYTES", 10)
        answer(client, 3)
        assert refusal(client)[0] == "refused"
        assert told(events(daemon)) == ["answer", "answer", "allowed", "answer-delivered"]


# -- prompts and interrupts -------------------------------------------------------------------------------------------


def idle(wire: Wire) -> Tap:
    return Tap().connect(wire).tap(*OPENING, ("out", end_of_turn()))


def test_prompt_with_a_key_is_sent_once(daemon: Running) -> None:
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = idle(publisher)
        client.send("send", id=1, session=SESSION, text="Go on", key="k", by="ada")
        frame = tap.receive()
        tap.write(frame)
        sent = result(client)
        assert sent == {"session": SESSION, "stream": "s", "id": frame["payload"]["id"], "delivered": True}
        assert client.ask("send", session=SESSION, text="Go on", key="k") == sent

        assert [json.loads(line)["params"]["prompt"][0]["text"] for line in tap.written] == ["Go on"]
        assert told(events(daemon)) == ["send", "send-delivered"]
        notice = next(one for one in events(daemon) if one.get("code") == "send-delivered")
        assert notice["data"] == {"sendId": sent["id"], "what": "prompt", "by": "ada, over the socket"}
        assert notice["text"] == "the agent has got: a prompt by ada, over the socket"


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ({"result": {"stopReason": "end_turn"}}, "send-accepted"),
        ({"error": {"code": -32600, "message": "busy"}}, "send-refused"),
    ],
)
def test_agent_shows_whether_it_has_accepted_a_prompt(daemon: Running, outcome: dict[str, Any], code: str) -> None:
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = idle(publisher)
        client.send("send", id=1, session=SESSION, text="Go on")
        tap.write(tap.receive())
        sent = result(client)["id"]
        tap.tap(("out", {"id": f"tooltap-{sent}", **outcome}))

        found = [one for one in events(daemon) if one.get("data", {}).get("sendId") == sent]
    assert [one["code"] for one in found] == ["send", "send-delivered", code]
    assert [one["session"] for one in found] == [SESSION] * 3
    assert found[-1]["data"].get("reason") == (None if code == "send-accepted" else "busy")


def test_response_of_an_agents_server_accepts_a_prompt(daemon: Running) -> None:
    """The tap of OpenCode posts it, and says whether the server has taken it."""
    session = {"id": "ses_1", "directory": "/w", "title": "t", "version": "1.18.33"}
    created = {"type": "session.created", "properties": {"info": session}}
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = Tap().connect(publisher, dialect="opencode-bus").tap(("out", created))
        client.send("send", id=1, session="ses_1", text="Go on")
        tap.write(tap.receive())
        assert result(client)["delivered"]
        assert told(events(daemon)) == ["send", "send-delivered", "send-accepted"]
        assert events(daemon)[-1]["text"].startswith("the agent has accepted: a prompt by ")


def test_prompt_is_sent_again_to_a_publisher_that_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    with running(tmp_path) as daemon, daemon.connect() as client:
        with daemon.connect() as publisher:
            tap = idle(publisher)
            first = client.ask("send", session=SESSION, text="Go on", key="k")
            assert not first["delivered"]
            assert client.ask("send", session=SESSION, text="Go on", key="k") == first
        with daemon.connect() as publisher:
            frame = tap.connect(publisher).receive()
            assert frame["payload"]["id"] == first["id"]
            tap.write(frame)
            publisher.send("end")
            tap.until("done")
        assert len(tap.written) == 1
        assert told(events(daemon)) == ["send", "send-delivered"]


def test_interrupt_reaches_the_agent(daemon: Running) -> None:
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = asking(publisher)
        client.send("interrupt", id=1, session=SESSION)
        tap.write(tap.receive())
        assert result(client)["delivered"]
        assert [json.loads(line)["method"] for line in tap.written] == ["session/cancel"]
        assert told(events(daemon)) == ["send", "send-delivered"]


def test_interrupt_cancels_what_is_asked_where_a_client_has_to(daemon: Running) -> None:
    """Gemini CLI does not end its turn before."""
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = asking(publisher, 1)
        client.send("interrupt", id=1, session=SESSION)
        tap.write(tap.receive())
        tap.write(tap.receive())
        assert result(client)["delivered"]
        [cancel, response] = map(json.loads, tap.written)
        assert cancel["method"] == "session/cancel"
        assert response == {"jsonrpc": "2.0", "id": 101, "result": {"outcome": {"outcome": "cancelled"}}}
        assert told(events(daemon)) == ["send", "send-delivered", "answer", "cancelled", "answer-delivered"]


def test_old_interrupt_is_not_sent_to_a_publisher_that_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was for what the agent did then."""
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    with running(tmp_path) as daemon, daemon.connect() as client:
        with daemon.connect() as publisher:
            tap = asking(publisher)
            assert not client.ask("interrupt", session=SESSION)["delivered"]
        monkeypatch.setattr(connection, "INTERRUPT_MS", 0)
        with daemon.connect() as publisher:
            tap.connect(publisher)
            publisher.send("end")
            tap.until("done")
        assert not tap.has_frames
        assert told(events(daemon)) == ["send", "send-failed"]


def test_keys_are_remembered_within_bounds(daemon: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    from tooltap.daemon.ingest import live_stream

    monkeypatch.setattr(live_stream, "KEYS_KEPT", 2)
    with daemon.connect() as publisher, daemon.connect() as client:
        tap = idle(publisher)
        ids: list[str] = []
        for number in (1, 2, 3, 3, 2, 1):
            client.send("send", id=1, session=SESSION, text=f"Prompt {number}", key=str(number))
            if number == 1 or len(ids) < 3:
                frame = tap.receive()
                tap.write(frame)
                tap.tap(
                    ("out", {"id": json.loads(frame["payload"]["line"])["id"], "result": {"stopReason": "end_turn"}})
                )
            ids.append(result(client)["id"])
        assert ids[2:5] == [ids[2], ids[2], ids[1]]
        assert ids[5] != ids[0]  # forgotten
        assert len(tap.written) == 4


def test_session_that_cannot_be_prompted(daemon: Running) -> None:
    with daemon.connect() as publisher, daemon.connect() as client:
        client.send("send", id=1, session="unknown", text="Go on")
        assert refusal(client) == ("not-found", "there is no session 'unknown'")
        Tap().connect(publisher, toAgent=False).tap(*OPENING)
        client.send("interrupt", id=1, session=SESSION)
        assert "`tooltap proxy --answers" in refusal(client)[1]
        publisher.finish()
        publisher.until("suspended")
        client.send("send", id=1, session=SESSION, text="Go on")
        assert refusal(client)[0] == "no-publisher"


# -- several daemons --------------------------------------------------------------------------------------------------


def test_another_daemon_forwards_to_the_one_that_has_the_publisher(tmp_path: Path, nats_place: NatsPlace) -> None:
    place = str(nats_place)
    with (
        running(tmp_path / "a", journal=place) as one,
        running(tmp_path / "b", journal=place) as other,
        one.connect() as publisher,
        other.connect() as client,
    ):
        tap = asking(publisher, 1, 2)
        while not (found := client.ask("waiting")["waiting"]):
            time.sleep(0.01)
        assert [row["answerable"] for row in found] == [True, True]
        answer(client)
        tap.write(tap.receive())
        assert result(client)["delivered"]
        answer(client, by="bob")
        assert refusal(client) == ("already-answered", "answered N s ago by ada, over the socket: allowed")
        answer(client, 2, optionId="maybe")
        assert refusal(client)[0] == "not-offered"
        client.send("interrupt", id=1, session=SESSION)
        tap.write(tap.receive())
        assert result(client)["delivered"]
        assert told(events(one)) == told(events(other))


@contextmanager
def moved(tmp_path: Path, place: NatsPlace, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Running, Running, Tap]]:
    """Two daemons, and a tap that has moved from the first to the second without a word, and has asked again."""
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", TIMEOUT)
    with (
        running(tmp_path / "a", journal=str(place)) as one,
        running(tmp_path / "b", journal=str(place)) as other,
        one.connect() as dead,
        other.connect() as publisher,
    ):
        tap = asking(dead, 1).connect(publisher).tap(("out", question(2)))
        assert "s" in one.daemon._streams.connections
        yield one, other, tap


def test_publisher_has_moved_to_another_daemon(
    tmp_path: Path, nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the first daemon has of the stream is old, and its connection is dead."""
    with moved(tmp_path, nats_place, monkeypatch) as (one, other, tap), one.connect() as client:
        answer(client, 2, stream="s")
        tap.write(tap.receive())
        assert result(client)["delivered"]
        answer(client, 1, "denied")
        tap.write(tap.receive())
        assert result(client)["delivered"]
        client.send("interrupt", id=1, session=SESSION)
        tap.write(tap.receive())
        assert result(client)["delivered"]
        for daemon in (one, other):
            with daemon.connect() as late:
                answer(late, 2, "denied", by="bob", stream="s")
                assert refusal(late) == ("already-answered", "answered N s ago by ada, over the socket: allowed")
        assert len(tap.written) == len(set(tap.ids)) == 3
        assert told(events(one)) == told(events(other))


@pytest.mark.parametrize("op", ["answer", "interrupt"])
def test_publisher_moves_while_the_first_daemon_decides(
    tmp_path: Path, nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch, op: str
) -> None:
    """The journal refuses its claim. What has no key that is remembered is not sent again: it might be sent twice."""
    with moved(tmp_path, nats_place, monkeypatch) as (one, other, tap), one.connect() as client:
        journal = one.daemon.journal

        async def not_yet(info: StreamInfo) -> bool:
            return True

        monkeypatch.setattr(journal, "is_current", not_yet)
        if op == "interrupt":
            client.send("interrupt", id=1, session=SESSION)
            assert refusal(client)[0] == "no-publisher"
            assert not tap.has_frames
            return
        answer(client)
        tap.write(tap.receive())
        assert result(client)["delivered"]
        assert told(events(other)) == ["answer", "allowed", "answer-delivered"]


def test_both_daemons_answer_for_a_publisher_that_has_moved(
    tmp_path: Path, nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    with moved(tmp_path, nats_place, monkeypatch) as (one, other, tap), one.connect() as ada, other.connect() as bob:
        answer(ada, 2, stream="s")
        answer(bob, 2, "denied", by="bob", stream="s")
        tap.write(tap.receive())
        replies = [wire.until("reply")[-1] for wire in (ada, bob)]
        assert sorted(reply["ok"] for reply in replies) == [False, True]
        [error] = [reply["error"] for reply in replies if not reply["ok"]]
        assert error["code"] == "already-answered"
        assert not tap.has_frames
        assert [one for one in told(events(one)) if one.startswith("answer")] == ["answer", "answer-delivered"]


def test_publisher_moves_before_it_has_written_the_answer(
    tmp_path: Path, nats_place: NatsPlace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second daemon sends what the first one has journaled."""
    place = str(nats_place)
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    with (
        running(tmp_path / "a", journal=place) as one,
        running(tmp_path / "b", journal=place) as other,
        one.connect() as dead,
        one.connect() as client,
        other.connect() as publisher,
    ):
        tap = asking(dead, 1)
        answer(client)
        assert not result(client)["delivered"]
        first = tap.receive()
        again = tap.connect(publisher).receive()
        assert again["payload"] == first["payload"]
        tap.ids.pop()  # it had not written the first
        tap.write(again)
        publisher.send("end")
        tap.until("done")
        assert told(events(one)) == ["answer", "allowed", "answer-delivered"]


def test_daemon_that_had_the_publisher_is_gone(tmp_path: Path, nats_place: NatsPlace) -> None:
    place = str(nats_place)
    with running(tmp_path / "b", journal=place) as other, other.connect() as client:
        with running(tmp_path / "a", journal=place) as one, one.connect() as publisher:
            asking(publisher, 1)
            journal = one.daemon.journal
        assert journal.daemon != other.daemon.journal.daemon
        answer(client)
        assert refusal(client)[0] == "no-publisher"
