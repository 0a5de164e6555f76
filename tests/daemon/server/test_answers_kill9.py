"""The daemon is killed while an answer is on its way: the agent never gets two, and none is lost without a word."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.answering import OPENING, SESSION, Tap, answer, question, read, told
from tests.daemon.ingest.test_kill9 import KILLED
from tests.daemon.lives import Gone, Lives
from tests.daemon.running import Wire

pytestmark = pytest.mark.process

STAGES = ("claimed", "sent-to-agent", "written-for-agent")
"""Failpoints on the way of an answer."""
COMMITS = 9
"""More commits than the whole way has, from the opening of the stream to the receipt."""


def reply_to(wire: Wire) -> dict[str, Any]:
    while (frame := read(wire))["op"] != "reply":
        pass
    return frame


def until_back(wire: Wire) -> None:
    """Wait until the journal says that the stream has its publisher again, or has ended."""
    state = ""
    while state not in ("open", "ended"):
        wire.send("stats", id=0)
        [stream] = reply_to(wire)["result"]["perStream"]
        state = stream["state"]


def open_question(wire: Wire) -> dict[str, Any] | None:
    wire.send("waiting", id=0)
    found = reply_to(wire)["result"]["waiting"]
    assert len(found) <= 1
    return found[0] if found else None


class Way:
    """One question, one tap and a client that goes on until the question has its answer."""

    def __init__(self, lives: Lives, writes_before_it_dies: bool) -> None:
        self.lives = lives
        self.tap = Tap()
        self._writes = writes_before_it_dies

    def go(self) -> None:
        """Do what is left. Raises `Gone`."""
        try:
            with self.lives.connect() as publisher, self.lives.connect() as client:
                tap = self.tap.connect(publisher)
                if not tap.lines:
                    tap.tap(*OPENING, ("out", question(1)))
                until_back(client)
                if told(ends(self.lives)) in (["answer"], ["answer", "allowed"]):  # an earlier life sent it
                    self._take(tap.receive)
                    while told(ends(self.lives))[-1] != "answer-delivered":
                        pass
                elif open_question(client) is not None:
                    answer(client)
                    self._take(tap.receive)
                    assert reply_to(client)["ok"]
                publisher.send("end")
                tap.until("done")
        except ConnectionError as error:
            raise Gone from error

    def _take(self, receive: Callable[[], dict[str, Any]]) -> None:
        frame = receive()
        if not self._writes:
            self._writes = True
            raise Gone
        self.tap.write(frame)


def run(lives: Lives, way: Way, failpoint: str) -> None:
    """Run the way with a daemon that dies at a failpoint, and then with one that does not."""
    try:
        for armed in (failpoint, ""):
            lives.start(armed)
            try:
                way.go()
            except Gone:
                assert armed
                lives.wait()
            else:
                break
        lives.until_seen(len(ends(lives)))
    finally:
        lives.stop()
        lives.wait()


def ends(lives: Lives) -> list[dict[str, Any]]:
    with lives.connect() as wire:
        wire.send("subscribe", after="start", follow=False)
        return [one for one in map(json.loads, wire.lines()) if "kind" in one]


def seen(lives: Lives) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lives.seen[0]]


def lives_of(tmp_path: Path, journal: str, request: pytest.FixtureRequest) -> Lives:
    return Lives(tmp_path, **({} if journal == "file" else {"journal": str(request.getfixturevalue("nats_place"))}))


@pytest.mark.parametrize("journal", ["file", "nats"])
@pytest.mark.parametrize("failpoint", STAGES)
def test_killed_between_claim_and_receipt(
    tmp_path: Path, failpoint: str, journal: str, request: pytest.FixtureRequest
) -> None:
    with lives_of(tmp_path, journal, request) as lives:
        way = Way(lives, writes_before_it_dies=True)
        run(lives, way, failpoint)

        assert lives.died[0] == KILLED
        assert lives.hits() == [failpoint]
        assert len(way.tap.written) == 1
        assert len(set(way.tap.ids)) == 1
        assert told(seen(lives)) == ["answer", "allowed", "answer-delivered"]


@pytest.mark.parametrize("point", ["before-commit", "after-commit", "before-ack"])
@pytest.mark.parametrize("nth", range(1, COMMITS))
def test_killed_at_any_commit(tmp_path: Path, point: str, nth: int) -> None:
    with Lives(tmp_path) as lives:
        way = Way(lives, writes_before_it_dies=True)
        run(lives, way, f"{point}:{nth}")

        assert lives.hits() == [point] or nth > 4  # how many commits follow depends on what comes together
        assert len(way.tap.written) == 1
        assert told(seen(lives)) == ["answer", "allowed", "answer-delivered"]


def test_tap_and_daemon_die_together_before_the_agent_has_it(tmp_path: Path) -> None:
    """The tap that comes back has not written the frame, and gets it again."""
    with Lives(tmp_path) as lives:
        way = Way(lives, writes_before_it_dies=False)
        lives.start()
        with pytest.raises(Gone):
            way.go()
        lives.kill()
        lives.wait()
        way.tap.ids.clear()
        run(lives, way, "")
        assert len(way.tap.written) == 1
        assert told(seen(lives)) == ["answer", "allowed", "answer-delivered"]


@pytest.mark.parametrize("failpoint", STAGES)
def test_prompt_with_a_key_survives(tmp_path: Path, failpoint: str) -> None:
    """A client that hears nothing sends its prompt again, with the same key."""
    with Lives(tmp_path) as lives:
        tap = Tap()
        end = {"id": 2, "result": {"stopReason": "end_turn"}}
        ids = set()
        for armed in (failpoint, ""):
            lives.start(armed)
            try:
                with lives.connect() as publisher, lives.connect() as client:
                    tap.connect(publisher)
                    if not tap.lines:
                        tap.tap(*OPENING, ("out", end))
                    until_back(client)
                    client.send("send", id=1, session=SESSION, text="Go on", key="k")
                    frame = tap.receive()
                    ids.add(frame["payload"]["id"])
                    tap.write(frame)
                    ids.add(reply_to(client)["result"]["id"])
                    publisher.send("end")
                    tap.until("done")
            except (Gone, ConnectionError):
                assert armed
            lives.stop()
            lives.wait()
        assert lives.died[0] == KILLED
        assert len(tap.written) == len(ids) == 1
        assert told(seen(lives)) == ["send", "send-delivered"]
