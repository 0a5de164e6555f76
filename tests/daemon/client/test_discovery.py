"""Programs find a daemon whose socket they do not know, and wait for one that is not there yet."""

from __future__ import annotations

import json
import os
import select
import socket
import stat
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.cli.command import serving, tooltap
from tests.daemon.events import commit, message
from tests.daemon.running import TIMEOUT, running
from tooltap import client
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.client.discovery import NoDaemonError, connect, find_socket, pauses
from tooltap.daemon.system.running_daemons import recorded


@pytest.fixture(autouse=True)
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An environment that names no socket, and in which none is at the usual place. Where daemons are recorded. A busy
    machine hides none of them."""
    monkeypatch.setattr("tooltap.daemon.client.discovery.PATIENCE", TIMEOUT)
    (tmp_path / "runtime").mkdir(mode=0o700)
    monkeypatch.delenv("TOOLTAP_SOCKET", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "runtime"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path / "data" / "tooltap" / "daemons"


def usual(tmp_path: Path) -> str:
    return str(tmp_path / "runtime" / "tooltap.sock")


def written(records: Path) -> dict[str, Any]:
    [path] = records.iterdir()
    content: dict[str, Any] = json.loads(path.read_bytes())
    return content


def test_recorded_daemon_is_found(tmp_path: Path, records: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.commit(commit(message("one")))

        assert find_socket() == daemon.path
        assert ask("event", seq=1)["event"]["text"] == "one"
        assert [str(one) for one in client.subscribe(after="start", follow=False)]

        async def asynchronously() -> int:
            return len((await client.request("sessions"))["sessions"])

        assert anyio.run(asynchronously) == 1
    assert list(records.iterdir()) == []
    with pytest.raises(NoDaemonError, match=usual(tmp_path)):
        ask("ping")


def test_record_is_private_and_says_who_runs(tmp_path: Path, records: Path) -> None:
    web = {"enabled": True, "listen": "127.0.0.1:0", "token_file": str(tmp_path / "token")}
    with running(tmp_path, web=web) as daemon:
        [path] = records.iterdir()

        assert (stat.S_IMODE(path.stat().st_mode), stat.S_IMODE(records.stat().st_mode)) == (0o600, 0o700)
        statistics = daemon.stats()
        assert written(records) == {
            "socket": str(daemon.path),
            "page": statistics["web"]["url"],
            "pid": os.getpid(),
            "started": written(records)["started"],
            "journal": statistics["journal"]["id"],
            "version": statistics["version"],
        }


def test_usual_socket_wins_then_the_newest_record(tmp_path: Path) -> None:
    with running(tmp_path / "old") as old:
        with running(tmp_path / "new") as new:
            assert find_socket() == new.path
            with running(tmp_path / "usual", socket=usual(tmp_path)) as at_its_place:
                assert find_socket() == at_its_place.path
        assert find_socket() == old.path


def test_named_socket_is_not_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path):
        with pytest.raises(NoDaemonError):
            ask("ping", path=tmp_path / "none")
        monkeypatch.setenv("TOOLTAP_SOCKET", str(tmp_path / "none"))
        with pytest.raises(NoDaemonError):
            ask("ping")


def test_other_home_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user's home is known without the environment."""
    home = tmp_path / "home"
    with running(tmp_path) as daemon:
        (home / ".local").mkdir(parents=True)
        (home / ".local" / "share").symlink_to(tmp_path / "data")
        monkeypatch.delenv("XDG_DATA_HOME")
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setattr("pwd.getpwuid", lambda _: type("Entry", (), {"pw_dir": str(home)}))

        assert find_socket() == daemon.path


def test_record_of_a_killed_daemon_is_removed(tmp_path: Path, records: Path) -> None:
    with serving(tmp_path / "t.sock", tmp_path) as daemon:
        assert [one.pid for one in recorded()] == [daemon.process.pid]
        daemon.kill()

        assert find_socket() == Path(usual(tmp_path))
        assert list(records.iterdir()) == []


def test_record_of_another_journal_is_not_believed(tmp_path: Path, records: Path) -> None:
    with running(tmp_path):
        [path] = records.iterdir()
        path.write_text(json.dumps({**written(records), "journal": "another"}))

        assert find_socket() == Path(usual(tmp_path))


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"socket": 5}', "x" * 100_000])
def test_what_is_no_record_is_skipped(content: str, tmp_path: Path, records: Path) -> None:
    with running(tmp_path) as daemon:
        (records / "9-9.json").write_text(content)

        assert find_socket() == daemon.path


def test_folder_that_others_may_write_to_is_not_read(tmp_path: Path, records: Path) -> None:
    with running(tmp_path):
        records.chmod(0o777)

        assert find_socket() == Path(usual(tmp_path))


def test_socket_that_says_nothing_is_left(tmp_path: Path, records: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.client.discovery.PATIENCE", 0.05)
    with running(tmp_path), socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        [path] = records.iterdir()
        path.write_text(json.dumps({**written(records), "socket": str(tmp_path / "silent")}))

        assert find_socket() == Path(usual(tmp_path))


def test_commands_find_the_daemon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`run` with the environment that an editor leaves it, and the commands that read."""
    monkeypatch.setenv("TOOLTAP_SPOOL", str(tmp_path / "spool"))
    with running(tmp_path, drain_interval=0.1) as daemon:
        finished = tooltap("run", "--dialect", "claude-stream", "--", "echo", '{"type":"system"}')
        assert finished.returncode == 0
        while not daemon.stats()["perStream"]:  # from the tap, or on a busy machine from its spool
            time.sleep(0.05)
        statistics = json.loads(tooltap("stats", "--json").stdout)

        assert statistics["socket"] == str(daemon.path)
        assert [one["dialect"] for one in statistics["perStream"]] == ["claude-stream"]


COMMANDS = (("sessions",), ("search", "word"), ("top",))


def test_clients_wait_for_a_daemon(tmp_path: Path) -> None:
    found: list[object] = []

    async def asynchronously() -> None:
        found.append(await client.request("ping", path=tmp_path / "run" / "t.sock", wait=TIMEOUT))

    def command(words: tuple[str, ...]) -> None:
        finished = tooltap(*words, "--wait", TIMEOUT)
        found.append((words[0], finished.returncode))

    waiting = [
        threading.Thread(target=lambda: found.append(ask("ping", wait=TIMEOUT))),
        threading.Thread(target=lambda: anyio.run(asynchronously)),
        threading.Thread(target=lambda: found.extend(client.subscribe(after="now", follow=False, wait=TIMEOUT))),
        *(threading.Thread(target=command, args=(words,)) for words in COMMANDS),
    ]
    for thread in waiting:
        thread.start()
    with running(tmp_path):
        for thread in waiting:
            thread.join()

    assert sorted(map(str, found)) == sorted(["{}", "{}", *(str((words[0], 0)) for words in COMMANDS)])


@pytest.mark.timing
def test_waiting_ends(tmp_path: Path) -> None:
    begun = time.monotonic()
    with pytest.raises(NoDaemonError):
        ask("ping", wait=0.15)

    assert time.monotonic() - begun >= 0.15
    assert list(pauses(0.0)) == []
    finished = tooltap("tail", "--wait", "0.1", "--socket", tmp_path / "none")
    assert (finished.returncode, finished.stdout) == (1, b"")
    assert b"no daemon is listening" in finished.stderr


def test_full_queue_is_waited_for(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    with socket.socket(socket.AF_UNIX) as listening, ExitStack() as waiting:
        listening.bind(path)
        listening.listen(0)

        def new(timeout: float) -> socket.socket:
            one = waiting.enter_context(socket.socket(socket.AF_UNIX))
            one.settimeout(timeout)
            return one

        connect(new(0.02), path)
        with suppress(BlockingIOError):  # how many fit into the shortest queue, the system decides
            connect(new(0.02), path)
        with pytest.raises(BlockingIOError):
            connect(new(0.02), path)
        late = new(10.0)
        thread = threading.Thread(target=connect, args=(late, path))
        thread.start()
        while thread.is_alive():
            if select.select([listening], [], [], 0.01)[0]:
                waiting.enter_context(listening.accept()[0])
        thread.join()
        assert late.getpeername() == path
