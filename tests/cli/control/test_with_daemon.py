"""`answer`, `send` and `interrupt` with a daemon, and an ACP agent behind a tap."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import Child, here, sentence, start
from tests.daemon.answering import SESSION, Tap, asking, turn_end
from tests.daemon.running import Running, running


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as one:
        yield one


@pytest.fixture
def tap(daemon: Running) -> Iterator[Tap]:
    """Of an agent that asks two questions."""
    with daemon.connect() as wire:
        yield asking(wire, 1, 2)


def given(tap: Tap, command: Child) -> tuple[int, list[str], bytes]:
    """Write the frame that a command has the daemon send, and return how the command ends."""
    tap.write(tap.receive())
    code, output, errors = command.end()
    return code, output.decode().splitlines(), errors


def test_answer_is_delivered_and_accepted(daemon: Running, tap: Tap) -> None:
    with start("answer", "--socket", daemon.path, "101", "--always", "--accepted", 60) as command:
        code, lines, errors = given(tap, command)
    assert (code, errors) == (0, b"")
    assert [lines[0], *lines[-2:]] == ["allowed: Bash rm -r build", "delivered", "accepted: the agent shows allowed"]
    assert json.loads(tap.written[0])["result"]["outcome"]["optionId"] == "always"


def test_loser_hears_who_was_first(daemon: Running, tap: Tap) -> None:
    with start("answer", "--socket", daemon.path, "101", "--deny") as command:
        assert given(tap, command)[0] == 0
    late = here("answer", "--socket", daemon.path, "101", "--allow")
    assert late.returncode == 3
    assert "denied" in sentence(late)


def test_only_what_is_offered(daemon: Running, tap: Tap) -> None:
    refused = here("answer", "--socket", daemon.path, "101", "--option", "all")
    assert refused.returncode == 1
    assert "'yes', 'always', 'no'" in sentence(refused)
    several = here("answer", "--socket", daemon.path, SESSION, "--allow")
    assert sentence(several) == f"several questions wait, so name one by its id: 101 of {SESSION}, 102 of {SESSION}"
    assert not tap.has_frames


def test_unknown_question(daemon: Running, tap: Tap) -> None:
    finished = here("answer", "--socket", daemon.path, "none", "--allow")
    assert (finished.returncode, sentence(finished)) == (1, "there is no open question 'none'")


def test_interrupt(daemon: Running, tap: Tap) -> None:
    with start("interrupt", "--socket", daemon.path, SESSION) as command:
        assert given(tap, command) == (0, ["delivered"], b"")
    assert json.loads(tap.written[0])["method"] == "session/cancel"


def test_prompt(daemon: Running, tap: Tap) -> None:
    busy = here("send", "--socket", daemon.path, SESSION, "Use Postgres")
    assert (busy.returncode, "interrupt it first" in sentence(busy)) == (1, True)
    tap.tap(("out", turn_end()))
    with start("send", "--socket", daemon.path, SESSION, "Use Postgres") as command:
        assert given(tap, command) == (0, ["delivered"], b"")
    assert json.loads(tap.written[0])["params"]["prompt"] == [{"type": "text", "text": "Use Postgres"}]
