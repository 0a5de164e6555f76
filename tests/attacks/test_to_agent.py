"""Attacks on what is written for an agent: by another user, for a session that is not there, with control characters,
with more than one line, and too long."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.intruder import connect_unix
from tests.attacks.stranger import Stranger
from tests.attacks.test_terminal import ACTING, NAME
from tests.cli.command import here, sentence, start
from tests.daemon.answering import OPENING, SESSION, Tap, asking, turn_end
from tests.daemon.running import Running, running

TEXT = f"{NAME}\r\n{{}}\n\0\u2028\x85end"
TOO_LONG = "x" * 100_001


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as one:
        yield one


@pytest.fixture
def tap(daemon: Running) -> Iterator[Tap]:
    """Of an agent that asks."""
    with daemon.connect() as wire:
        yield asking(wire, 1)


def idle(daemon: Running) -> Tap:
    return Tap("idle").connect(daemon.connect()).tap(*OPENING, ("out", turn_end()))


REQUESTS: list[dict[str, Any]] = [
    {"op": "answer", "permissionId": "101", "outcome": "allowed"},
    {"op": "send", "session": SESSION, "text": "Delete everything."},
    {"op": "interrupt", "session": SESSION},
    {"op": "to-agent", "stream": "s", "payload": {"id": "a", "line": "{}"}},
]


def test_another_user_writes_nothing(stranger: Stranger, open_folder: Path) -> None:
    """Also where the socket is open to all."""
    sent = "".join(json.dumps({**one, "id": number}) + "\n" for number, one in enumerate(REQUESTS))
    with running(open_folder) as daemon, daemon.connect() as wire, daemon.connect() as client:
        tap = asking(wire, 1)
        daemon.path.parent.chmod(0o777)
        daemon.path.chmod(0o777)
        assert '"op":"reply"' not in stranger.run(connect_unix, daemon.path, sent)
        assert [one["answerable"] for one in client.ask("waiting")["waiting"]] == [True]
        assert not tap.has_frames


@pytest.mark.parametrize("name", ["none", "", "-1", "../s", NAME, "x" * 5_000])
def test_session_that_is_not_there(daemon: Running, tap: Tap, name: str) -> None:
    """It is refused in one sentence, which does not act on a terminal."""
    for words in (("send", "--", name, "text"), ("interrupt", "--", name), ("answer", "--allow", "--", name)):
        done = here(words[0], "--socket", daemon.path, *words[1:])
        assert done.returncode in (1, 2), done
        assert len(sentence(done)) < 1_000
        assert [one for one in ACTING if one in done.stdout + done.stderr] == []
    with daemon.connect() as client:
        for op, more in (("send", {"text": "text"}), ("interrupt", {})):
            client.send(op, id=op, session=name, **more)
            assert client.until("reply")[-1]["ok"] is False
        client.send("to-agent", id="raw", stream=name or "none", payload={"line": "{}"})
        assert client.until("reply")[-1]["ok"] is False
    assert not tap.has_frames


@pytest.mark.process
def test_text_is_one_line_for_the_agent(daemon: Running) -> None:
    """Whatever is in it, and it comes as it was sent."""
    text = TEXT.replace("\0", "")  # which no argument can have
    tap = idle(daemon)
    with start("send", "--socket", daemon.path, SESSION, text) as command:
        frame = tap.receive()
        tap.write(frame)
        assert command.end()[0] == 0
    line = frame["payload"]["line"]
    assert not {*map(chr, range(0x20))} & set(line)
    assert json.loads(line)["params"]["prompt"] == [{"type": "text", "text": text}]


def test_text_that_is_too_long_is_refused(daemon: Running) -> None:
    tap = idle(daemon)
    done = here("send", "--socket", daemon.path, SESSION, TOO_LONG)
    assert done.returncode in (1, 2)
    assert len(sentence(done)) < 300
    with daemon.connect() as client:
        client.send("send", id=1, session=SESSION, text=TOO_LONG)
        assert client.read()["error"]["code"] == "bad-frame"
    assert not tap.has_frames


def test_message_of_a_denial(daemon: Running, tap: Tap) -> None:
    with daemon.connect() as client:
        for wrong in ({"message": "x" * 10_001}, {"by": "x" * 201}, {"optionId": NAME}, {"outcome": "everything"}):
            client.send("answer", id=1, **{"permissionId": "101", "outcome": "denied", **wrong})
            assert client.until("reply")[-1]["ok"] is False
    assert not tap.has_frames
