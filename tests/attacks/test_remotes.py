"""A hostile remote: what it sends reaches only sessions of its own, controls no terminal, and takes no more than its
bounds. And a hostile list of remotes: what another user has written is not run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.attacks.stranger import Stranger
from tests.cli.command import here as run_here
from tests.cli.tap.spooling import until
from tests.daemon.events import commit, event, message
from tests.daemon.running import Running, running
from tooltap.daemon.taps.remotes.settings import Remote, file_of, store
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import PermissionResponse, SessionEvent, Usage, with_seq

HEAD = b'{"op":"subscribed","after":0,"journal":"j","oldest":1,"latest":9}\n'


def says(folder: Path, *events: Produced, head: bytes = HEAD) -> None:
    """Add a remote that sends these events, and stays."""
    lines = [with_seq(seq, one.body) + b"\n" for seq, one in enumerate(events, 1)]
    said = folder / "said"
    said.write_bytes(head + b"".join(lines) + b'{"op":"live","seq":9}\n')
    command = ("sh", "-c", 'cat "$0"; exec sleep 1000', str(said))
    store(file_of(folder / "journal.db"), (Remote("evil", "evil", command),))


def connection(daemon: Running) -> dict[str, Any]:
    found = daemon.stats()["remotes"]["connections"]
    return found[0] if found else {}


def sessions(daemon: Running) -> dict[str, dict[str, Any]]:
    with daemon.connect() as wire:
        return {one["session"]: one for one in wire.ask("sessions", empty=True)["sessions"]}


@pytest.mark.process
def test_remote_reaches_no_session_of_this_machine(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        mine = event(Usage, scope="step", request="r", input_tokens=5, session="mine")
        daemon.commit(commit(message("my own", session="mine"), mine))
        before = sessions(daemon)["mine"]
        says(
            tmp_path,
            message("forged", session="mine"),
            event(SessionEvent, line=2, state="ended", session="mine", alias="mine", title="forged"),
            event(Usage, line=3, scope="step", request="r", input_tokens=9_999, session="mine"),
            event(PermissionResponse, line=4, permission_id="p", outcome="allowed", session="mine"),
            message("a fork", line=5, session="../mine", id="s:5:0"),
        )
        until(lambda: "since" in connection(daemon))
        after = sessions(daemon)

    assert after["mine"] == before
    assert {one for one in after if one != "mine"} == {"evil/mine", "evil/../mine"}


@pytest.mark.process
def test_remote_names_no_other_host(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        says(tmp_path, message("as another", host="build-server"), message("as itself", line=2))
        until(lambda: "since" in connection(daemon))
        found = sessions(daemon)

    assert {one["host"] for one in found.values()} == {"evil"}
    assert found["evil/session-1"]["events"] == 1


@pytest.mark.process
def test_endless_line_of_a_remote_is_given_up(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        store(file_of(tmp_path / "journal.db"), (Remote("evil", "evil", ("sh", "-c", "exec cat /dev/zero")),))
        until(lambda: "problem" in connection(daemon))

        assert "a line of more than 16,777,216 bytes" in connection(daemon)["problem"]


@pytest.mark.process
def test_what_a_remote_prints_controls_no_terminal(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        command = ("sh", "-c", r"printf 'no \033]0;owned\007\033[2J way\n' >&2; exit 1")
        store(file_of(tmp_path / "journal.db"), (Remote("evil", "evil", command),))
        until(lambda: "problem" in connection(daemon))
        listed = run_here("remote", "list", "--socket", daemon.path)

    assert listed.returncode == 0
    assert b"\x1b" not in listed.stdout + listed.stderr
    assert b"\x07" not in listed.stdout + listed.stderr


def write_list(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


@pytest.mark.process
def test_list_of_another_user_is_not_run(sticky_folder: Path, stranger: Stranger) -> None:
    marker = sticky_folder / "was-run"
    listed = {"remotes": [{"name": "x", "host": "x", "command": ["touch", str(marker)]}]}
    stranger.run(write_list, file_of(sticky_folder / "journal.db"), orjson.dumps(listed).decode())
    with running(sticky_folder) as daemon:
        daemon.call(daemon.daemon._remotes.look)
        finished = run_here("remote", "list", "--socket", daemon.path)
        state = daemon.stats()["remotes"]

    assert (state["connections"], marker.exists()) == ([], False)
    assert b"belongs to another user" in finished.stderr
