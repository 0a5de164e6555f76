"""`tooltap remote`: the list of other machines, with a daemon and without one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.command import here, serving, start
from tests.cli.hostile.runs import on_a_terminal
from tests.daemon.changing import edited
from tests.daemon.events import commit, event, message
from tests.daemon.running import TIMEOUT, Running, running
from tooltap.daemon.taps.remotes.settings import load
from tooltap.protocol.events import Usage

COMMAND = ("--", "sh", "-c", "echo it is asleep >&2; exit 3")


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.process
def test_remote_is_added_listed_and_removed(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        at = ("--socket", daemon.path)
        empty = here("remote", "list", *at)
        assert b"add one with `tooltap remote add HOST`" in empty.stderr

        added = here("remote", "add", "me@box", *at, *COMMAND)
        assert added.stdout == b"box is added; `tooltap remote list` says how it goes\n"
        until(lambda: b"it is asleep" in here("remote", "list", *at).stdout)
        row = json.loads(here("remote", "list", "--json", *at).stdout)
        assert (row["name"], row["host"], row["command"]) == ("box", "me@box", list(COMMAND[1:]))

        again = here("remote", "add", "box", *at)
        assert (again.returncode, b"already" in again.stderr) == (1, True)
        assert here("remote", "remove", "box", *at).stdout == b"box is removed; its sessions stay\n"
        unknown = here("remote", "remove", "box", *at)
        assert (unknown.returncode, unknown.stderr) == (1, b"tooltap: there is no remote 'box'; there is none\n")
        until(lambda: not daemon.stats()["remotes"]["connections"])


@pytest.mark.process
def test_host_without_a_name_is_given_one(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        refused = here("remote", "add", "me@[fe80::1]", "--socket", daemon.path)
        assert b"choose another one with --name" in refused.stderr
        named = here("remote", "add", "me@[fe80::1]", "--name", "lab", "--socket", daemon.path, *COMMAND)
        assert named.returncode == 0


@pytest.fixture(scope="module")
def two_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A daemon with a session of a remote, which used more, and one of its own machine. Both change the same path."""
    with running(tmp_path_factory.mktemp("hosts")) as daemon:
        theirs = {"host": "box", "session": "box/theirs", "stream": "box/s"}
        used = event(Usage, line=1, index=1, scope="session", input_tokens=700, **theirs)
        changes = edited("1", "/srv/app.py", "x", "y", **theirs)
        daemon.commit(commit(message("said there", **theirs), used, *changes, stream="box/s"))
        own = event(Usage, "t", line=1, index=1, scope="session", input_tokens=10, session="mine")
        changes = edited("1", "/srv/app.py", "x", "y", stream="t", session="mine")
        daemon.commit(commit(message("said here", "t", session="mine"), own, *changes, stream="t"))
        with daemon.connect() as wire:
            until(lambda: wire.ask("search", query="")["behind"] == 0)
        yield daemon


HOSTS = [("box", ["box/theirs"], 700), (".", ["mine"], 10)]


@pytest.mark.parametrize(("host", "sessions", "tokens"), HOSTS)
def test_what_a_host_has_is_listed_found_summed_up_and_exported(
    two_hosts: Running, tmp_path: Path, host: str, sessions: list[str], tokens: int
) -> None:
    at = ("--host", host, "--socket", two_hosts.path)
    listed = [json.loads(one)["session"] for one in here("sessions", "--json", *at).stdout.splitlines()]
    found = json.loads(here("search", "said", "--json", *at).stdout)
    calls = json.loads(here("calls", "--file", "app.py", "--json", *at).stdout)["calls"]
    files = json.loads(here("files", "--json", *at).stdout)["files"]
    used = json.loads(here("usage", "--json", *at).stdout)["total"]["inputTokens"]
    exported = here("export", "--format", "jsonl", "-o", tmp_path, *at)
    written = {json.loads(line)["session"] for file in tmp_path.iterdir() for line in file.read_text().splitlines()}

    assert listed == sessions
    assert ([one["session"] for one in found["hits"]], found["total"]) == (sessions, 1)
    assert [one["session"] for one in calls] == sessions
    assert [[by["session"] for by in one["changedBy"]] for one in files] == [sessions]
    assert used == tokens
    assert (exported.returncode, sorted(written)) == (0, sessions)


def test_the_same_path_on_two_hosts_is_two_files(two_hosts: Running) -> None:
    found = json.loads(here("files", "--json", "--socket", two_hosts.path).stdout)["files"]
    printed = here("files", "--socket", two_hosts.path).stdout.splitlines()[1:]

    assert {one.get("host"): one["changes"] for one in found} == {"box": 1, None: 1}
    shown = on_a_terminal("files", "--socket", two_hosts.path).output
    cells = [one.split(b"\t") for one in printed]
    assert sorted((one[0], one[-1]) for one in cells) == [(b"/srv/app.py", b""), (b"/srv/app.py", b"box")]
    assert b"  /srv/app.py (on box)\n" in shown
    assert b"  /srv/app.py\n" in shown


def test_hits_and_calls_name_their_hosts(two_hosts: Running) -> None:
    with two_hosts.connect() as wire:
        hits, calls = wire.ask("search", query="said")["sessions"], wire.ask("ended-calls")["calls"]

    for named in (hits, calls):
        assert {one["session"]: one.get("host") for one in named} == {"box/theirs": "box", "mine": None}


@pytest.mark.parametrize("command", [("sessions",), ("search", "said"), ("calls",), ("files",), ("usage",)])
def test_an_unknown_host_has_nothing(two_hosts: Running, command: tuple[str, ...]) -> None:
    done = here(*command, "--host", "lab", "--socket", two_hosts.path)

    assert b"box" not in done.stdout
    assert b"no session matches these filters" in done.stderr + done.stdout or b"without" in done.stderr + done.stdout


@pytest.mark.process
def test_remote_added_without_a_daemon_is_read_by_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("TOOLTAP_SOCKET", str(tmp_path / "none"))
    added = here("remote", "add", "box", *COMMAND)
    assert added.stdout == b"box is added; it is read when a daemon runs: `tooltap up`\n"
    assert b"no daemon runs" in here("remote", "list").stdout

    assert [one.name for one in load(tmp_path / "tooltap" / "journal.db.remotes.json")] == ["box"]
    with running(tmp_path, journal=str(tmp_path / "tooltap" / "journal.db")) as daemon:
        until(lambda: "problem" in (daemon.stats()["remotes"]["connections"] or [{}])[0])


def test_host_that_could_be_an_option_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        refused = here("remote", "add", "--socket", daemon.path, "--", "-oProxyCommand=touch x")

    assert (refused.returncode, refused.stderr) == (
        1,
        b"tooltap: '-oProxyCommand=touch x' is not the name of a host\n",
    )


def test_cursor_that_is_none_is_refused(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        refused = here("remote", "send", "--after", "yesterday", "--socket", daemon.path)

    assert refused.returncode == 2
    assert refused.stderr.startswith(b"tooltap: ")


@pytest.mark.process
def test_what_is_sent_ends_with_the_daemon(tmp_path: Path) -> None:
    socket = tmp_path / "run" / "t.sock"
    with serving(socket, tmp_path) as daemon, start("remote", "send", "--after", "start", "--socket", socket) as sent:
        while b'"live"' not in (line := sent.line()):
            assert line
        daemon.kill()
        code, _, errors = sent.end()

    assert (code, errors) == (1, b"tooltap: the daemon has closed the connection\n")
