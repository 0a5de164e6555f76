"""`tooltap remote`: the events of another machine's daemon are here once, whatever is killed on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.attacks.conftest import open_folder as open_folder
from tests.attacks.other_user import BECOME, NOBODY, PYTHON_FOR_ALL, needs_another_user
from tests.cli.tap.spooling import until
from tests.daemon.events import commit, event, message
from tests.daemon.lives import Lives
from tests.daemon.nats_server import NatsServer
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import Running, Wire, running
from tooltap.daemon.taps.remotes.settings import Remote, RemotesError, checked, file_of, load, store
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import Notice, with_seq

LINES = 12
"""Lines that are published between two kills."""
FAST = {"remotes.pauses": (0.05,)}
STARTUP = """\
import os, sys
open(sys.argv.pop(1), "w").write(str(os.getpid()))
from tooltap.cli.main import main
main()
"""


def program(socket: str | Path, pid: Path) -> tuple[str, ...]:
    """The command that runs tooltap "there", and notes its process id."""
    return ("env", f"TOOLTAP_SOCKET={socket}", sys.executable, "-c", STARTUP, str(pid))


def said(number: int) -> bytes:
    """A line of Claude Code."""
    content = [{"type": "text", "text": f"{number}"}]
    answer = {"id": f"m{number}", "role": "assistant", "model": "m", "content": content}
    return orjson.dumps({"type": "assistant", "session_id": "one", "message": answer}) + b"\n"


def publish(lives: Lives, upto: int) -> None:
    """Publish the lines that the daemon does not have, and wait until they are durable."""
    with lives.connect() as wire:
        wire.send("ingest", stream="s", dialect="claude-stream", framing="tapped")
        have = wire.until("ingesting")[-1]["lines"]
        for number in range(have + 1, upto + 1):
            wire.write(b'{"line":%b}\n' % said(number).rstrip())
        while have < upto:
            have = wire.until("ack")[-1]["lines"]


def journaled(wire: Wire) -> list[dict[str, Any]]:
    wire.send("subscribe", after="start", follow=False)
    return [one for one in wire.until("live") if "op" not in one]


def plain(event: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The event without what differs between the two journals."""
    return {
        key: value.removeprefix(prefix) if isinstance(value, str) else value
        for key, value in event.items()
        if key not in ("seq", "host")
    }


def count(path: Path | str) -> int:
    with Wire(Path(path)) as wire:
        return len(journaled(wire))


def until_more(lives: Lives, before: int) -> None:
    until(lambda: count(lives.settings["socket"]) > before)


def kill_sender(pid: Path) -> None:
    """Kill the process that sends, and wait for the next one: by then, what the pipe held is read."""
    killed = pid.read_text()
    os.kill(int(killed), signal.SIGKILL)
    until(lambda: pid.read_text() not in ("", killed))


@pytest.mark.process
@pytest.mark.parametrize("killed", ["here", "there", "connection"])
def test_each_event_is_here_once_although_it_is_killed(tmp_path: Path, killed: str) -> None:
    folders = [tmp_path / "here", tmp_path / "there"]
    for folder in folders:
        folder.mkdir()
    pid = tmp_path / "pid"
    with Lives(folders[0], **FAST) as here, Lives(folders[1]) as there:
        here.seen, there.seen = [], []
        store(file_of(folders[0] / "journal.db"), (Remote("box", "box", program(there.settings["socket"], pid)),))
        here.start()
        there.start()
        for life in range(1, 3):
            before = count(here.settings["socket"])
            publish(there, life * LINES)
            until_more(here, before)  # it is in the middle of them
            if killed == "connection":
                kill_sender(pid)
                continue
            lives = here if killed == "here" else there
            lives.kill()
            lives.wait()
            lives.start()
        publish(there, 3 * LINES)
        with there.connect() as wire:
            sent = journaled(wire)
        until(lambda: count(here.settings["socket"]) >= len(sent))
        with here.connect() as wire:
            found = journaled(wire)

    assert len(sent) >= 3 * LINES
    assert [plain(one, "box/") for one in found] == [plain(one, "") for one in sent]
    assert {one["host"] for one in found} == {"box"}


@pytest.mark.parametrize("killed", ["here", "there", "server"])
def test_each_event_is_here_once_in_journals_on_nats(tmp_path: Path, killed: str) -> None:
    folders = [tmp_path / name for name in ("here", "there", "server", "data")]
    for folder in folders:
        folder.mkdir()
    with (
        NatsServer(folders[2]) as server,
        Lives(folders[0], journal=f"{server.url}/here", **FAST) as here,
        Lives(folders[1], journal=f"{server.url}/there") as there,
    ):
        here.seen, there.seen = [], []
        here.environment = {"XDG_DATA_HOME": str(folders[3])}
        listed = (Remote("box", "box", program(there.settings["socket"], tmp_path / "pid")),)
        store(folders[3] / "tooltap" / "remotes.json", listed)
        here.start()
        there.start()
        publish(there, LINES)
        until_more(here, 0)  # it is in the middle of them
        if killed == "server":
            server.kill()
            server.start()
        else:
            lives = here if killed == "here" else there
            lives.kill()
            lives.wait()
            lives.start()
        publish(there, 2 * LINES)
        with there.connect() as wire:
            sent = journaled(wire)
        until(lambda: count(here.settings["socket"]) >= len(sent))
        with here.connect() as wire:
            found = journaled(wire)

    assert len(sent) >= 2 * LINES
    assert [plain(one, "box/") for one in found] == [plain(one, "") for one in sent]


@contextmanager
def two(tmp_path: Path, **settings: Any) -> Iterator[tuple[Running, Running]]:
    """A daemon that reads another one."""
    with running(tmp_path / "there") as there, running(tmp_path / "here", **FAST, **settings) as here:
        store(file_of(tmp_path / "here" / "journal.db"), (Remote("box", "box", program(there.path, tmp_path / "pid")),))
        yield here, there


def texts(daemon: Running) -> list[str]:
    with daemon.connect() as wire:
        return [one.get("text", "") for one in journaled(wire)]


def problem(daemon: Running) -> str:
    """Wait until the remote has a problem: it is connected again soon, and has none."""
    found: list[str] = []

    def look() -> bool:
        found.extend(one["problem"] for one in daemon.stats()["remotes"]["connections"] if "problem" in one)
        return bool(found)

    until(look)
    return found[0]


def said_by(events: list[Produced]) -> str:
    """What a remote says that has these events."""
    head = b'{"op":"subscribed","after":0,"journal":"j","oldest":1,"latest":2}'
    numbered = [with_seq(seq, one.body) for seq, one in enumerate(events, 1)]
    return b"\n".join([head, *numbered, b'{"op":"live","seq":2}', b""]).decode()


@pytest.mark.process
def test_connection_that_is_silent_is_made_again(tmp_path: Path) -> None:
    events = [message("before"), message("after", line=2)]
    (tmp_path / "first").write_text(said_by(events[:1]))
    (tmp_path / "second").write_text(said_by(events))
    talk = 'cd "$0"; cat first; test -e silent && cat second; touch silent; exec sleep 1000'
    with running(tmp_path / "here", **FAST, **{"remotes.silence": 1.0}) as here:
        store(file_of(tmp_path / "here" / "journal.db"), (Remote("box", "box", ("sh", "-c", talk, str(tmp_path))),))
        until(lambda: texts(here) == ["before", "after"])
        assert problem(here) == "it has been silent for 1 seconds"


@needs_another_user
@pytest.mark.process
def test_daemon_of_another_user_in_another_network_is_read(open_folder: Path, tmp_path: Path) -> None:
    become = ["unshare", "--mount", "--net", "sh", "-euc", f'{PYTHON_FOR_ALL}exec "$@"', "sh", *BECOME, "--"]
    folder = open_folder / "there"
    folder.mkdir()
    os.chown(folder, NOBODY.pw_uid, NOBODY.pw_gid)
    homes = {name: str(folder) for name in ("HOME", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "TOOLTAP_SPOOL")}
    with DaemonProcess(folder, within=become, **homes) as there, running(tmp_path, **FAST) as here:
        there.wait_ready()
        with Wire(there.path) as stranger:  # root is another user to it
            assert stranger.until("error")[-1]["code"] == "forbidden"
        reached = (*become, "env", f"TOOLTAP_SOCKET={there.path}", sys.executable, "-m", "tooltap.cli")
        lines = b"".join(map(said, range(1, 4)))
        ingest = [*reached, "ingest", "--stream", "s", "--dialect", "claude-stream", "-"]
        subprocess.run(ingest, input=lines, check=True)
        store(file_of(tmp_path / "journal.db"), (Remote("lab", "lab", reached),))
        until(lambda: len([one for one in texts(here) if one]) == 3)
        with here.connect() as wire:
            (session,) = wire.ask("sessions")["sessions"]

    assert (session["session"], session["host"]) == ("lab/one", "lab")


@pytest.mark.process
def test_what_the_remote_has_deleted_meanwhile_is_named(tmp_path: Path) -> None:
    listed = file_of(tmp_path / "here" / "journal.db")
    with two(tmp_path) as (here, there):
        there.commit(commit(message("read"), state="ended"))
        until(lambda: texts(here) == ["read"])
        known = load(listed)
        store(listed, ())
        until(lambda: not here.stats()["remotes"]["connections"])
        there.commit(commit(message("gone", "t", session="t"), stream="t", state="ended", updated=2))
        there.commit(commit(message("still there", "u", session="u"), stream="u", updated=1 << 45))
        there.expire(before=10)
        store(listed, known)
        until(lambda: len(texts(here)) == 3)
        with here.connect() as wire:
            read, notice, there_still = journaled(wire)

    assert (read["text"], there_still["text"]) == ("read", "still there")
    assert (notice["code"], notice["data"]["reason"]) == ("lost", "retention")


@pytest.mark.process
def test_what_a_session_file_has_replaced_there_is_replaced_here(tmp_path: Path) -> None:
    told = [message("said", f"otlp-{name}", session=name, dialect="otlp") for name in ("one", "two")]
    replaced = event(Notice, "f", session="one", level="info", code="replaced", text="Its file reports it.")
    said_again = message("said", "f", session="one", line=2)
    talk = 'cat "$0/first"; test -e "$0/read" && cat "$0/second"; exec sleep 1000'
    (tmp_path / "first").write_text(said_by(told))
    (tmp_path / "second").write_text(said_by([*told, replaced, said_again]).partition("\n")[2])
    with running(tmp_path / "here", **FAST) as here:
        store(file_of(tmp_path / "here" / "journal.db"), (Remote("box", "box", ("sh", "-c", talk, str(tmp_path))),))
        until(lambda: texts(here) == ["said", "said"])
        with here.connect() as wire:
            wire.ask("pin", session="box/one")
        (tmp_path / "read").touch()
        store(file_of(tmp_path / "here" / "journal.db"), ())
        until(lambda: not here.stats()["remotes"]["connections"])
        store(file_of(tmp_path / "here" / "journal.db"), (Remote("box", "box", ("sh", "-c", talk, str(tmp_path))),))
        until(lambda: len(texts(here)) == 3)
        with here.connect() as wire, here.connect() as other:
            found = journaled(wire)
            listed = {one["session"]: one.get("pinned", False) for one in other.ask("sessions")["sessions"]}

    assert [(one["session"], one.get("code") or one["text"]) for one in found] == [
        ("box/two", "said"),
        ("box/one", "replaced"),
        ("box/one", "said"),
    ]
    assert listed == {"box/one": True, "box/two": False}


@pytest.mark.process
def test_state_of_each_remote_is_in_the_statistics(tmp_path: Path) -> None:
    with two(tmp_path) as (here, _):
        listed = file_of(tmp_path / "here" / "journal.db")
        store(listed, (*load(listed), Remote("gone", "gone", ("sh", "-c", "echo no route to it >&2; exit 255"))))
        until(lambda: any("problem" in one for one in here.stats()["remotes"]["connections"]))
        until(lambda: any("since" in one for one in here.stats()["remotes"]["connections"]))
        states = {one["name"]: one for one in here.stats()["remotes"]["connections"]}

    assert states["gone"]["problem"] == "no route to it"
    assert states["box"]["behind"] == 0


@pytest.mark.process
@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (("no-such-program",), "no-such-program cannot be started: No such file or directory"),
        (("sh", "-c", "nowhere-installed"), "tooltap is not found there: "),
        (("sh", "-c", "echo \"tooltap: No such command 'remote'\" >&2; exit 2"), "the tooltap there is too old"),
        (("sh", "-c", "kill -9 $$"), "the command that connects was killed by SIGKILL"),
        (("sh", "-c", "exit 7"), "the connection has ended with exit code 7"),
        (("echo", "Welcome to Debian"), "the remote has sent a line that is not tooltap's: 'Welcome to Debian"),
    ],
    ids=["no-ssh", "no-tooltap", "old-tooltap", "killed", "silent-end", "greeting"],
)
def test_why_there_is_no_connection_is_one_sentence(tmp_path: Path, command: tuple[str, ...], sentence: str) -> None:
    with running(tmp_path) as daemon:
        store(file_of(tmp_path / "journal.db"), (Remote("box", "box", command),))
        assert problem(daemon).startswith(sentence)


@pytest.mark.process
def test_stream_of_a_remote_has_no_other_publisher_and_cannot_be_ended(tmp_path: Path) -> None:
    with two(tmp_path) as (here, there):
        there.commit(commit(message("theirs")))
        until(lambda: texts(here) == ["theirs"])
        with here.connect() as wire:
            wire.send("end", id=1, stream="box/s")
            ended = wire.until("reply")[-1]
            wire.send("ingest", stream="box/s")
            published = wire.until("error")[-1]

    assert (ended["error"]["code"], published["code"]) == ("stream-exists", "stream-exists")


@pytest.mark.parametrize("host", ["-oProxyCommand=x", "a b", "a\nb", "a\x1b[m", "", "h" * 300])
def test_host_that_may_be_something_else_is_refused(host: str) -> None:
    with pytest.raises(RemotesError):
        checked(host, "name", ())


def test_host_is_one_word_of_the_command() -> None:
    assert checked("me@host;reboot", "box", ()).program[-3:] == ("--", "me@host;reboot", "tooltap")
    assert checked("me@host", None, ()).name == "host"


def test_list_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "remotes.json"
    store(path, (Remote("box", "box"),))
    assert load(path) == (Remote("box", "box"),)
    path.chmod(0o666)
    with pytest.raises(RemotesError, match="others may write to it"):
        load(path)


@pytest.mark.parametrize("text", ["", "{", '{"remotes":[{"name":"../x","host":"h"}]}', '{"remotes":[{"name":"x"}]}'])
def test_list_that_is_damaged_is_one_sentence(tmp_path: Path, text: str) -> None:
    path = tmp_path / "remotes.json"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(RemotesError):
        load(path)


def test_list_is_readable_json(tmp_path: Path) -> None:
    path = tmp_path / "remotes.json"
    store(path, (Remote("box", "box", ("docker", "exec", "x", "tooltap")),))
    assert json.loads(path.read_text())["remotes"][0]["command"][0] == "docker"
