"""The way back: a client's payload reaches the publisher of a stream, and the publisher's answer the client."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import start
from tests.daemon.answering import answer, asking, response, result, timeless
from tests.daemon.running import TIMEOUT, Running, Wire, running
from tooltap.daemon.ingest import connection

PAYLOAD = {"answer": ["yes", None, 1.5]}


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as served:
        yield served


def publisher_of(daemon: Running, **arguments: Any) -> Wire:
    wire = daemon.connect()
    wire.send("ingest", **{"stream": "s", "framing": "tapped", "toAgent": True, **arguments})
    wire.until("ingesting")
    return wire


def ask(daemon: Running, stream: str = "s", payload: object = PAYLOAD) -> tuple[Wire, Callable[[], dict[str, Any]]]:
    """A client that has sent the request, and what waits for the reply."""
    wire = daemon.connect()
    wire.send("to-agent", id=1, stream=stream, payload=payload)

    def reply() -> dict[str, Any]:
        with wire:
            return wire.until("reply")[-1]

    return wire, reply


def refusal(reply: dict[str, Any]) -> tuple[str, str]:
    assert not reply["ok"]
    return reply["error"]["code"], reply["error"]["message"]


def test_publisher_gets_the_payload_and_answers(daemon: Running) -> None:
    with publisher_of(daemon) as publisher:
        publisher.write(b'{"line":"one"}\n')
        _, reply = ask(daemon)
        frame = publisher.until("to-agent")[-1]
        publisher.send("to-agent", id=frame["id"])

        assert frame["payload"] == PAYLOAD
        assert reply() == {"op": "reply", "id": 1, "ok": True, "result": {}}
        publisher.write(b'{"line":"two"}\n')
        publisher.send("end")
        assert publisher.until("done")[-1]["lines"] == 2  # the answer is no line


def test_answers_belong_to_their_requests(daemon: Running) -> None:
    with publisher_of(daemon) as publisher:
        replies = [ask(daemon, payload=number)[1] for number in range(3)]
        frames = [publisher.until("to-agent")[-1] for _ in replies]
        for frame in reversed(frames):
            publisher.send("to-agent", id=frame["id"], refused=f"no {frame['payload']}")
        publisher.send("to-agent", id=99)  # of no frame

        for number, reply in enumerate(replies):
            code, message = refusal(reply())
            assert (code, message) == ("refused", f"the publisher of stream 's' refused: no {number}")


def test_nobody_is_there(daemon: Running) -> None:
    with publisher_of(daemon) as publisher:
        publisher.finish()
        publisher.until("suspended")

    for stream in ("s", "unknown"):
        _, reply = ask(daemon, stream)
        assert refusal(reply()) == ("no-publisher", f"no publisher of stream '{stream}' is connected")


@pytest.mark.parametrize("arguments", [{"toAgent": False}, {"framing": "raw"}])
def test_publisher_that_did_not_ask_for_it_gets_nothing(daemon: Running, arguments: dict[str, Any]) -> None:
    with publisher_of(daemon, **arguments) as publisher:
        _, reply = ask(daemon)

        assert refusal(reply()) == ("refused", "the publisher of stream 's' sends nothing to its agent")
        publisher.finish()
        assert not [frame for frame in publisher.rest() if frame["op"] == "to-agent"]


def test_publisher_leaves_before_it_answers(daemon: Running) -> None:
    with publisher_of(daemon) as publisher:
        _, reply = ask(daemon)
        publisher.until("to-agent")
        publisher.finish()
        publisher.until("suspended")

    assert refusal(reply()) == ("no-publisher", "the publisher of stream 's' has left")


def test_publisher_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    monkeypatch.setattr(connection, "MOST_UNANSWERED", 1)
    with running(tmp_path) as daemon, publisher_of(daemon):
        _, reply = ask(daemon)
        assert refusal(reply()) == ("no-publisher", "the publisher of stream 's' has not answered in 0 s")

        monkeypatch.setattr(connection, "ANSWER_PATIENCE", TIMEOUT)
        waiting, _ = ask(daemon)
        with waiting:
            while refusal(ask(daemon)[1]())[1] != "1 frames for the agent of stream 's' wait already":
                time.sleep(0.01)


def notices(daemon: Running) -> list[tuple[str, dict[str, Any]]]:
    """Code and data of each notice."""
    with daemon.connect() as wire:
        wire.send("subscribe", after="start", follow=False, filter={"kind": ["notice"]})
        return [(one["code"], one["data"]) for one in wire.rest() if one.get("kind") == "notice"]


@pytest.mark.parametrize("why", [None, "the agent is busy"])
def test_who_has_sent_it_is_journaled_before_the_publisher_gets_it(daemon: Running, why: str | None) -> None:
    with publisher_of(daemon) as publisher, daemon.connect() as client:
        client.send("to-agent", id=1, stream="s", payload=PAYLOAD, by="ada")
        frame = publisher.until("to-agent")[-1]
        [(code, data)] = notices(daemon)
        assert (code, data["what"], data["by"]) == ("send", "raw", "ada, over the socket")
        publisher.send("to-agent", id=frame["id"], **({} if why is None else {"refused": why}))
        client.until("reply")

        end = ("send-delivered", data) if why is None else ("send-failed", {**data, "reason": why})
        assert notices(daemon) == [("send", data), end]


@pytest.mark.parametrize("more", [{}, {"answers": "rpc:101"}])
def test_question_that_was_answered_is_not_answered_past_that(
    daemon: Running, monkeypatch: pytest.MonkeyPatch, more: dict[str, str]
) -> None:
    monkeypatch.setattr(connection, "ANSWER_PATIENCE", 0.05)
    with daemon.connect() as wire, daemon.connect() as client:
        tap = asking(wire, 1, 2)
        answer(client)
        assert not result(client)["delivered"]
        tap.receive()
        line = json.dumps({"jsonrpc": "2.0", **response(1, "no")})
        client.send("to-agent", id=1, stream="s", payload={"id": "a", "line": line, **more})
        code, sentence = refusal(client.until("reply")[-1])
        assert (code, timeless(sentence)) == ("already-answered", "answered N s ago by ada, over the socket: allowed")

        other = {"id": "b", "line": line.replace("101", "102")}
        client.send("to-agent", id=1, stream="s", payload=other)
        assert tap.receive()["payload"] == {**other, "answers": "rpc:102"}


def test_acks_are_not_lost_to_a_publisher_that_reads_late(daemon: Running) -> None:
    """An ack that waits until the publisher reads again is sent, although a frame for the agent came meanwhile."""
    with publisher_of(daemon) as publisher:
        for number in range(2_000):
            publisher.write(b'{"line":"%d"}\n' % number)
        _, reply = ask(daemon)
        frames: list[dict[str, Any]] = []
        while not frames or frames[-1]["op"] != "to-agent":
            frames.append(publisher.read())
        publisher.send("to-agent", id=frames[-1]["id"])
        acked = max((frame["lines"] for frame in frames if frame["op"] == "ack"), default=0)
        while acked < 2_000:
            acked = publisher.until("ack")[-1]["lines"]

        assert reply()["ok"]


def test_nothing_reaches_the_agent_of_a_usual_tap(daemon: Running) -> None:
    program = "import sys\nprint('hello', flush=True)\nfor line in sys.stdin: print(line, end='', flush=True)"
    with start("run", "--socket", daemon.path, "--", sys.executable, "-u", "-c", program) as run:
        assert run.line() == b"hello\n"
        while not (streams := daemon.stats()["perStream"]):
            time.sleep(0.01)
        stream = streams[0]["stream"]
        _, reply = ask(daemon, stream)
        assert refusal(reply()) == ("refused", f"the publisher of stream '{stream}' sends nothing to its agent")
        run.write(b"more\n")
        assert run.line() == b"more\n"
        assert run.end()[0] == 0
