"""Attacks on hooks, by which an agent asks: events that make no sense or are huge, a daemon of another user, settings
that are no files."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.attacks.stranger import Stranger
from tests.attacks.test_terminal import ACTING, NAME
from tests.cli.command import here, sentence, tooltap
from tests.daemon.running import Running, running
from tests.daemon.web.browsing import until

pytestmark = pytest.mark.process

ASK: dict[str, Any] = {
    "session_id": "s-1",
    "hook_event_name": "PermissionRequest",
    "tool_name": "Bash",
    "tool_input": {"command": "make"},
}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("daemon")) as one:
        yield one


def hook(place: Path, given: bytes) -> tuple[int, bytes, bytes]:
    """Run the hook of an agent that is only told, so that it does not wait for an answer."""
    done = tooltap("hook", "codex", stdin=given, TOOLTAP_SOCKET=str(place), XDG_DATA_HOME=str(place.parent))
    return done.returncode, done.stdout, done.stderr


def with_value(**changes: Any) -> bytes:
    return json.dumps({**ASK, **changes}).encode()


HOSTILE = {
    "nothing": b"",
    "zeros": bytes(10_000),
    "no UTF-8": b'{"hook_event_name": "\xff\xfe"}',
    "nested": b"[" * 200_000,
    "nested input": b'{"session_id":"s","hook_event_name":"PermissionRequest","tool_input":' + b'{"a":' * 100_000,
    "huge": b'{"session_id":"s","hook_event_name":"' + b"x" * 17_000_000 + b'"}',
    "huge call": with_value(tool_input={"command": "x" * 8_000_000}),
    "a list": b"[1]",
    "null": b"null",
    "huge number": b'{"session_id":' + b"9" * 5_000 + b',"hook_event_name":"Stop"}',
    "no name": with_value(hook_event_name=7),
    "lists": with_value(session_id=["s"], tool_name=["Bash"], tool_input=[1]),
    "surrogate": b'{"session_id":"\\ud800","hook_event_name":"PermissionRequest","tool_name":"\\udfff"}',
    "control characters": with_value(session_id=NAME, tool_name=NAME, tool_input={NAME: NAME}, cwd=f"/{NAME}"),
    "long session": with_value(session_id="s" * 100_000),
    "path as session": with_value(session_id="../../../etc/passwd\0"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_event_decides_nothing_and_breaks_nothing(what: str, daemon: Running) -> None:
    """The hook is silent, and the daemon goes on, without a fault."""
    assert hook(daemon.path, HOSTILE[what]) == (0, b"", b"")
    assert daemon.stats().get("errors", {}) == {}
    assert hook(daemon.path, with_value(session_id=f"after {what}")) == (0, b"", b"")
    with daemon.connect() as wire:
        assert f"after {what}" in [one["session"] for one in wire.ask("waiting")["waiting"]]


def test_what_waits_does_not_act_on_a_terminal(daemon: Running) -> None:
    assert hook(daemon.path, HOSTILE["control characters"])[0] == 0
    for words in (("waiting",), ("sessions",), ("calls",), ("files",), ("answer", "none", "--allow")):
        done = here(*words, "--socket", daemon.path)
        assert [one for one in ACTING if one in done.stdout + done.stderr] == []


def listen(path: str) -> str:
    """Listen as the user's daemon would, and return what one who connects says."""
    import os
    import socket

    with socket.socket(socket.AF_UNIX) as server:
        server.settimeout(60)
        server.bind(path)
        server.listen()
        os.chmod(path, 0o777)
        connection, _ = server.accept()
        with connection:
            connection.settimeout(60)
            said = b""
            try:
                connection.sendall(b'{"op":"welcome"}\n')
                while data := connection.recv(65_536):
                    said += data
            except OSError:
                pass
            return said.decode()


def test_daemon_of_another_user_is_told_nothing(lasting_stranger: Stranger, sticky_folder: Path) -> None:
    place = sticky_folder / "t.sock"
    lasting_stranger.begin(listen, place)
    until(lambda: place.exists() and stat.S_IMODE(place.stat().st_mode) == 0o777, "the stranger's socket")
    assert hook(place, with_value()) == (0, b"", b"")
    assert lasting_stranger.result() == ""


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / ".claude").mkdir()
    return tmp_path


def hooks(home: Path, *words: str) -> tuple[int, str]:
    done = tooltap("hooks", *words, HOME=str(home), XDG_DATA_HOME=str(home / "data"), CLAUDE_CONFIG_DIR="")
    return done.returncode, sentence(done) if done.returncode else done.stdout.decode()


@pytest.mark.parametrize("kind", ["pipe", "device", "folder", "loop", "link to a pipe", "link to nowhere"])
def test_settings_that_are_no_file_are_refused(kind: str, home: Path) -> None:
    """Neither read for ever, nor replaced, nor made elsewhere."""
    path, other = home / ".claude" / "settings.json", home / "other"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()
        case "loop":
            path.symlink_to(path)
        case "link to a pipe":
            os.mkfifo(other)
            path.symlink_to(other)
        case _:
            path.symlink_to(home / "missing" / "file")
    before = os.lstat(path)
    for words in (("install", "--yes", "claude"), ("uninstall", "--yes", "claude")):
        code, said = hooks(home, *words)
        assert (code, said) == (0, "no hooks are installed\n") or (code == 1 and str(home) in said), (words, said)
    assert os.lstat(path).st_ino == before.st_ino
    assert not (home / "missing").exists()
    assert sorted(one.name for one in path.parent.iterdir()) == ["settings.json"]


def test_link_to_a_file_of_another_user_is_not_written(home: Path, stranger: Stranger, sticky_folder: Path) -> None:
    """A link that another user has planted leads nowhere, and the backup does not follow one."""
    target = home / "mine"
    target.write_text("{}")
    planted = sticky_folder / "settings.json"
    stranger.run(plant, planted, target)
    (home / ".claude" / "settings.json").symlink_to(planted)

    code, _ = hooks(home, "install", "--yes", "claude")
    assert code == 1 or target.read_text() == "{}"
    assert target.read_text() == "{}"


def plant(link: str, target: str) -> None:
    import os

    os.symlink(target, link)
