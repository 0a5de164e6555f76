"""Attacks on those who are called: titles, texts, folders and options of an agent that are to become a command, a
header, or what a terminal or a chat acts on."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from email.header import decode_header, make_header
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import commit, event
from tests.daemon.notifications.test_notifier import server
from tests.daemon.running import Running, running
from tests.daemon.web.browsing import until
from tooltap.daemon.config import ConfigError, load_config
from tooltap.daemon.system.clock import wall_clock
from tooltap.protocol.events import PermissionRequest, SessionEvent

pytestmark = pytest.mark.process

ACTING = {*map(chr, range(0x20)), *map(chr, range(0x7F, 0xA0)), "\u2028", "\u202e"}
"""What a terminal, a log or a header acts on."""


def hostile(mark: Path) -> str:
    """A text that would make a file if anything ran it, and end a line or a header if it were written as it is."""
    acting = "\r\nX-Injected: 1\r\n\r\n<!channel>\x1b]0;x\x07\x1b[2J\x9b2J\x7f\u2028\u202e\x00{link}{text}"
    return f"-{acting}'\"$(touch {mark})`touch {mark}`;touch {mark}|touch {mark}&&touch {mark}"


@contextmanager
def called(folder: Path, **rule: Any) -> Iterator[Running]:
    """A daemon that calls for a question of a hostile agent."""
    text = hostile(folder / "mark")
    where: dict[str, Any] = {"session": text, "provider": "claude", "ts": wall_clock()}
    with running(folder, notify=[{"after": 0.0, **rule}], look_period=0.02, webhook_pauses=(0.02,) * 3) as daemon:
        until(lambda: daemon.daemon._notifier.has_looked, "the first look")
        options = [{"id": "a", "name": text}]
        asked = event(PermissionRequest, permission_id="p", type="permission", name=text, options=options, **where)
        daemon.commit(commit(event(SessionEvent, state="started", title=text, cwd=f"/{text}", **where), asked))
        until(lambda: daemon.stats()["notifying"]["sent"] == 1, "the call")
        yield daemon
    assert not (folder / "mark").exists()


def test_command_gets_words_and_a_message(tmp_path: Path) -> None:
    """No shell sees them, none is an option, and none has a control character."""
    program = "import json, sys; json.dump([sys.argv[2:], sys.stdin.read()], open(sys.argv[1], 'w'))"
    words = [sys.executable, "-c", program, str(tmp_path / "out"), "{title}", "{text}", "{session}", "{reason}"]
    with called(tmp_path, command=words):
        pass
    given, message = json.loads((tmp_path / "out").read_text())
    assert len(given) == 4
    assert not ACTING & set("".join(given))
    assert [one for one in given if one.startswith("-")] == []
    assert "{link}" in given[1]
    assert message.count("\n") == 1
    assert "X-Injected" in json.loads(message)["text"]


def test_words_after_a_script_are_not_run(tmp_path: Path) -> None:
    with called(tmp_path, command=["sh", "-c", f'printf "%s" "$1" >{tmp_path}/out', "sh", "{text}"]):
        pass
    assert "$(touch" in (tmp_path / "out").read_text()


@pytest.mark.parametrize(
    "command",
    [
        ["sh", "-c", "echo {title}"],
        ["/bin/bash", "-l", "-c", "echo '{text}'"],
        ["bash", "-lc", 'notify "{session}"'],
        ["env", "sh", "-c", "echo {reason}"],
        ["osascript", "-e", 'display notification "{text}"'],
        ["python3.12", "-c", "print('{title}')"],
        ["node", "--eval", "console.log('{link}')"],
    ],
)
def test_script_with_a_text_from_outside_is_refused(command: list[str]) -> None:
    with pytest.raises(ConfigError, match="would be run as a part of the script"):
        load_config(notify=[{"command": command}])


@pytest.mark.parametrize(
    "command",
    [["sh", "-c", 'echo "$1"', "sh", "{title}"], ["sh", "call.sh", "-c", "{title}"], ["notify-send", "{text}"]],
)
def test_words_of_a_command_are_taken(command: list[str]) -> None:
    assert load_config(notify=[{"command": command}]).notify[0].command == tuple(command)


@pytest.mark.parametrize("form", ["json", "ntfy", "slack"])
def test_webhook_has_one_request_and_our_headers(tmp_path: Path, form: str) -> None:
    with server() as (url, received):
        with called(tmp_path, url=url, format=form, secret="key"):
            headers = received.get(timeout=30).headers
        assert received.empty()
    assert {name.lower() for name in headers} <= {
        *("host", "content-length", "content-type", "accept-encoding", "connection", "user-agent"),
        *("x-tooltap-signature", "title", "click", "priority"),
    }
    assert not ACTING & set("".join(headers.values()))
    if form == "ntfy":
        assert headers["Priority"] == "high"


@pytest.mark.parametrize("form", ["ntfy", "slack"])
def test_what_a_person_reads_of_a_webhook_is_a_title_and_a_line(tmp_path: Path, form: str) -> None:
    with server() as (url, received), called(tmp_path, url=url, format=form):
        body, headers = received.get(timeout=30)
    title = str(make_header(decode_header(headers["Title"]))) if form == "ntfy" else ""
    lines = [title, body.decode()] if form == "ntfy" else json.loads(body)["text"].split("\n")

    assert len(lines) == 2
    assert "X-Injected" in lines[1], "the attack is not there"
    assert not ACTING & set("".join(lines))
    if form == "slack":
        assert "<!channel>" not in "".join(lines)
