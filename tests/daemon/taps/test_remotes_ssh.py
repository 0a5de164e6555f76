"""`tooltap remote` through a real ssh: each event once, and one sentence that says why there is no connection."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest

from tests.cli.command import here as command
from tests.cli.tap.spooling import until
from tests.daemon.events import commit, message
from tests.daemon.lives import Lives
from tests.daemon.running import running
from tests.daemon.taps.ssh_server import LINUX, SshServer, children, has_ended
from tests.daemon.taps.test_remotes import FAST, LINES, count, journaled, plain, problem, publish, texts, until_more
from tooltap.daemon.taps.remotes.settings import Remote, checked, file_of, store

pytestmark = [pytest.mark.process, LINUX]
BOX = Remote("box", "box")


@pytest.fixture
def folders(tmp_path: Path) -> dict[str, Path]:
    """Folders of the two daemons, of sshd, and of the programs on the other machine."""
    made = {name: tmp_path / name for name in ("here", "there", "ssh", "programs")}
    for folder in made.values():
        folder.mkdir()
    return made


def install(folder: Path, socket: Path | str) -> None:
    """Install tooltap "there", with a daemon at this socket."""
    program = folder / "tooltap"
    program.write_text(f'#!/bin/sh\nTOOLTAP_SOCKET={socket} exec {sys.executable} -m tooltap.cli "$@"\n')
    program.chmod(0o755)


@pytest.mark.parametrize("killed", ["sshd", "ssh", "there"])
def test_each_event_is_here_once_although_a_part_of_the_way_is_killed(folders: dict[str, Path], killed: str) -> None:
    install(folders["programs"], folders["there"] / "run" / "t.sock")
    with (
        SshServer(folders["ssh"], folders["programs"]) as server,
        Lives(folders["here"], **FAST) as here,
        Lives(folders["there"]) as there,
    ):
        here.seen, there.seen = [], []
        here.environment = server.environment
        store(file_of(folders["here"] / "journal.db"), (BOX,))
        here.start()
        there.start()
        before = count(here.settings["socket"])
        publish(there, LINES)
        until_more(here, before)  # it is in the middle of them
        sending = [pid for session in server.sessions() for pid in children(session)]
        if killed == "there":
            there.kill()
            there.wait()
            there.start()
        else:
            for pid in server.sessions() if killed == "sshd" else children(here.pid):
                os.kill(pid, signal.SIGKILL)
        publish(there, 2 * LINES)
        with there.connect() as wire:
            sent = journaled(wire)
        until(lambda: count(here.settings["socket"]) >= len(sent))
        with here.connect() as wire:
            found = journaled(wire)
        accepted = server.accepted()
        until(lambda: all(map(has_ended, sending)))  # although nobody has ended it where sshd was killed

    assert len(sent) >= 2 * LINES
    assert accepted > 1
    assert sending
    assert [plain(one, "box/") for one in found] == [plain(one, "") for one in sent]


def test_address_with_a_port_is_reached(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        SshServer(folders["ssh"], folders["programs"]) as server,
        running(folders["there"]) as there,
        running(folders["here"], **FAST) as here,
    ):
        install(folders["programs"], there.path)
        monkeypatch.setenv("PATH", server.environment["PATH"])
        added = command("remote", "add", server.address, "--name", "box", "--socket", here.path)
        there.commit(commit(message("theirs")))
        until(lambda: texts(here) == ["theirs"])

    assert added.stdout.startswith(b"box is added")


@pytest.mark.parametrize("host", ["ssh://me@box:2222", "ssh://box", "ssh://me@box/", "me@box"])
def test_machine_bears_the_name_in_its_address(host: str) -> None:
    assert checked(host, None, ()).name == "box"


@pytest.mark.parametrize(
    ("key", "known", "sentence"),
    [
        ("stranger", "known", "Permission denied (publickey): ssh has to log in without a password, so set up a key"),
        ("user", "mistaken", "Host key verification failed: log in once by hand, and confirm the key if it is the"),
        ("user", "unknown", "Host key verification failed: log in once by hand, and confirm the key if it is the"),
        ("user", "known", "tooltap is not found there: sh: 1: tooltap: not found"),
    ],
    ids=["refused-key", "other-host-key", "unknown-host", "no-tooltap"],
)
def test_why_ssh_makes_no_connection_is_one_sentence(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch, key: str, known: str, sentence: str
) -> None:
    with SshServer(folders["ssh"], folders["programs"]) as server, running(folders["here"]) as daemon:
        server.use(key, known)
        monkeypatch.setenv("PATH", server.environment["PATH"])
        store(file_of(folders["here"] / "journal.db"), (BOX,))
        assert sentence in problem(daemon)


def test_greeting_of_a_shell_there_is_named_and_nothing_is_stored(
    folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        SshServer(folders["ssh"], folders["programs"], first="echo Welcome") as server,
        running(folders["there"]) as there,
        running(folders["here"]) as here,
    ):
        install(folders["programs"], there.path)
        there.commit(commit(message("theirs")))
        monkeypatch.setenv("PATH", server.environment["PATH"])
        store(file_of(folders["here"] / "journal.db"), (BOX,))
        said = problem(here)
        stored = texts(here)

    assert said == (
        "the remote has sent a line that is not tooltap's: 'Welcome'; the files with which a shell starts there must"
        " print nothing"
    )
    assert stored == []
