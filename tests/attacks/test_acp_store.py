"""Attacks of an ACP agent whose stored sessions are read: on the terminal, on other sessions, and with secrets."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.attacks.masked import FAKES
from tests.cli.tap.test_ingest_acp import CAPABLE, QUESTION, Agent, events_of
from tests.daemon.running import Running, running

pytestmark = pytest.mark.process


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as one:
        yield one


def test_refusal_cannot_control_the_terminal(daemon: Running, tmp_path: Path) -> None:
    finished = Agent(tmp_path, refused=["s-1"], message="\x1b]52;c;ZXZpbA==\x07\nno\x9b2J").ingest(daemon)

    assert b"refuses session/load" in finished.stderr
    assert not {0x1B, 0x07, 0x9B} & set(finished.stderr.decode().encode("latin-1", "replace"))


def test_secret_in_a_refusal_is_masked(daemon: Running, tmp_path: Path) -> None:
    for fake in FAKES[:3]:
        finished = Agent(tmp_path, refused=["s-1"], message=f"not with {fake.text}").ingest(daemon)
        assert b"refuses session/load: not with" in finished.stderr
        assert fake.secret.encode() not in finished.stderr


def test_agent_cannot_write_into_a_session_that_it_was_not_asked_for(daemon: Running, tmp_path: Path) -> None:
    agent = Agent(tmp_path, says_of="s-9", initialize={**CAPABLE, "agentInfo": {"name": "claude-code"}})
    agent.ingest(daemon)

    assert {event["session"] for event in events_of(daemon)} <= {"s-1"}


def test_names_of_sessions_are_no_paths(daemon: Running, tmp_path: Path) -> None:
    name = "../../etc/x\n\x1b[31m"
    finished = Agent(tmp_path, pages=[{"sessions": [{"sessionId": name}]}], histories={name: QUESTION}).ingest(daemon)

    assert b"\x1b" not in finished.stderr
    assert {event["session"] for event in events_of(daemon)} == {name}
    assert list(tmp_path.rglob("x*")) == []
