"""What happens to a daemon's files while it runs: each is removed, renamed, replaced or overwritten, one row of a table
for each. The doors are the socket, HTTP and `tooltap doctor`.

In every row it is noticed, what is acknowledged afterwards is there after a restart, and when all is as it should be
again, `doctor` has no complaint left.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from structlog.testing import capture_logs

from tests.cli.command import here
from tests.daemon.constants import VARIABLE
from tests.daemon.disks import make_disk, mounting, require_disks
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import TIMEOUT, Running
from tests.daemon.taps.test_follow_machines import PRIVATE, require_machines
from tests.daemon.web.browsing import Browser, browsed
from tooltap.daemon.journal.sqlite.file import STAMP_OFFSET
from tooltap.daemon.system.listener import is_listening
from tooltap.daemon.system.paths import daemon_folders
from tooltap.daemon.taps.delivery.spool import Header, Spool
from tooltap.protocol.frames import Ingest
from tooltap.traces.recording.own_file import LINKED

# -- what happens to a file -------------------------------------------------------------------------------------------

Change = Callable[[Path, Path], None]


def removed(file: Path, kept: Path) -> None:
    """The last name of a file goes; the content of `kept` is that of a backup."""
    if not file.is_socket():
        shutil.copy(file, kept)
    file.unlink()


def renamed(file: Path, kept: Path) -> None:
    file.rename(kept)


def replaced(file: Path, kept: Path) -> None:
    """By a copy, as a restore from a backup does it."""
    file.rename(kept)
    shutil.copy(kept, file)


def linked(file: Path, kept: Path) -> None:
    """It gets a second name."""
    kept.hardlink_to(file)


def replaced_by_a_socket(file: Path, kept: Path) -> None:
    """By the socket of a program that has ended."""
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(kept))
    kept.replace(file)


def replaced_by_another(file: Path, kept: Path) -> None:
    """A token by that of another daemon."""
    kept.hardlink_to(file)
    other = file.with_name("other")
    other.touch(0o600)
    other.write_text(f"{'x' * 43}\n")
    other.replace(file)


def emptied(file: Path, kept: Path) -> None:
    file.rename(kept)
    file.touch(0o600)


def overwritten(file: Path, kept: Path) -> None:
    """In place, by a copy from before the daemon was started."""
    shutil.copyfile(file.with_name(f"older-{file.name}"), file)


def scrambled(file: Path, kept: Path) -> None:
    """In place, by as many other bytes."""
    with file.open("r+b") as opened:
        opened.write(os.urandom(file.stat().st_size))


def truncated(file: Path, kept: Path) -> None:
    os.truncate(file, 0)


# -- what then happens -------------------------------------------------------------------------------------------------


class Row(NamedTuple):
    """`{file}` in a sentence is the path of the file."""

    file: str
    """The file, relative to the daemon's folder; `record`: its record among the running daemons."""
    change: Change
    logged: str = ""
    """The event of the log that says it."""
    doctor: str = ""
    """The sentence of `doctor` until it is put right; empty if the daemon puts it right by itself."""
    refused: str = ""
    """The sentence with which a publisher is refused meanwhile; empty if lines are acknowledged."""
    search: str = ""
    """The sentence with which a search may be refused meanwhile."""


GONE = "{file} was removed, renamed or replaced in use: put it back, or restart the daemon"
OVERWRITTEN = "{file} was overwritten in use: restart the daemon, which then serves what is there now"
NO_TOKEN = "the token {file} was removed or renamed in use: put it back, or restart the daemon for a new one"
TRACE = "the trace {file} was removed or renamed in use once, and a new file begun"
REPLACED = "the search index was removed, replaced or overwritten in use"


def journal(file: str, change: Change, sentence: str = GONE) -> Row:
    doctor = f"the daemon cannot commit lines: {sentence}"
    return Row(file, change, "nothing can be stored in the journal", doctor, sentence)


def index(file: str, change: Change) -> Row:
    return Row(file, change, f"{REPLACED}; rebuilding it", search=f"{REPLACED}, and is being rebuilt; try again")


def trace(change: Change) -> Row:
    return Row(
        "trace.jsonl", change, "trace", "the trace {file} was removed or renamed in use once, and a new file begun"
    )


def token(change: Change, sentence: str) -> Row:
    return Row("token", change, "programs cannot read the token", sentence)


def other_name(file: str) -> Row:
    return Row(file, linked, f"a file {LINKED}", f"{{file}} {LINKED}")


SOCKET_MADE_AGAIN = (removed, renamed, replaced_by_a_socket)
SPOOL = "spool/s.spool"
HARMLESS = ["journal.db.lock", "journal.db.tip", "journal.db.search", "run/t.sock", "token", "logins", "record"]
"""Files of which another name endangers nothing: they are made again, or hold nothing that is kept."""
ROWS = [
    *(journal(file, change) for file in ("journal.db", "journal.db-wal") for change in (removed, renamed, replaced)),
    journal("journal.db", overwritten, OVERWRITTEN),
    *(Row("journal.db.lock", change) for change in (removed, renamed, replaced)),
    *(Row("journal.db.tip", change) for change in (removed, renamed, replaced, emptied, overwritten, truncated)),
    *(Row("run/t.sock", change, "the socket was removed, and is there again") for change in SOCKET_MADE_AGAIN),
    *(index("journal.db.search", change) for change in (removed, renamed, replaced, emptied, truncated, overwritten)),
    index("journal.db.search-wal", removed),
    *(trace(change) for change in (removed, renamed, replaced, emptied)),
    *(token(change, NO_TOKEN) for change in (removed, renamed)),
    Row("token", replaced),
    token(replaced_by_another, "the token in {file} was replaced in use: restart the daemon, which has another"),
    token(emptied, "there is no token in {file}; remove the file to get a new one"),
    *(
        Row("logins", change, "the logins were removed or replaced in use; writing them again")
        for change in (removed, renamed, replaced)
    ),
    *(Row("record", change) for change in (removed, renamed)),
    *(Row(file, linked) for file in HARMLESS),
    *(other_name(file) for file in ("journal.db", "journal.db-wal", "trace.jsonl", SPOOL)),
]


# -- the doors --------------------------------------------------------------------------------------------------------


def line(text: str) -> bytes:
    said = {"type": "assistant", "message": {"content": [{"type": "text", "text": text}]}, "session_id": "one"}
    return json.dumps({"t": 1_700_000_000_000, "line": json.dumps(said)}).encode() + b"\n"


def publish(daemon: Running | DaemonProcess, text: str, stream: str = "") -> str:
    """Publish a line of a new stream. Returns the error if it is refused; empty once it is acknowledged."""
    with daemon.connect() as wire:
        wire.send("ingest", stream=stream or text.replace(" ", "-"), framing="tapped", dialect="claude-stream")
        frame = wire.read()
        if frame["op"] == "ingesting":
            with suppress(ConnectionError):  # it is refused already
                wire.write(line(text))
            while (frame := wire.read())["op"] not in ("ack", "error"):
                pass
        return "" if frame["op"] == "ack" else str(frame["message"])


def texts(daemon: Running | DaemonProcess) -> list[str]:
    with daemon.connect() as wire:
        wire.send("subscribe", after="start", follow=False, filter={"kind": ["message"]})
        return [one["text"] for one in wire.rest() if one.get("kind") == "message"]


def found_by_search(browser: Browser, word: str, refused: str) -> int | None:
    """Return the number of hits; None if the search was refused, or says that it has not searched everything."""
    answer = browser.get(f"/api/search?query={word}")
    if answer.status == 503:
        assert answer.error[2] == refused
        return None
    assert answer.status == 200, answer.body
    return None if answer.json["behind"] else len(answer.json["hits"])


@pytest.fixture(autouse=True)
def own_spools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`doctor` does not find what other tests have left."""
    monkeypatch.setenv("TOOLTAP_SPOOL", str(tmp_path / "spool"))


def complaints(daemon: Running | DaemonProcess) -> list[str]:
    """Return the notes and problems of `doctor` about the daemon and its files."""
    reported = json.loads(here("doctor", "--json", "--timeout", 60, "--socket", daemon.path).stdout)
    areas = ("daemon", "socket", "journal", "spool", "traces", "record", "web", "search")
    found = [one for one in reported["findings"] if one["area"] in areas and one["level"] != "ok"]
    return [one["text"] for one in found if " left for " not in one["text"]]  # the disk of the machine


def until_doctor_says(daemon: Running, *wanted: str) -> None:
    deadline = time.monotonic() + TIMEOUT
    while (found := complaints(daemon)) != [*wanted]:
        assert time.monotonic() < deadline, found


def until(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, "it does not come to that"
        time.sleep(0.02)


# -- each row ---------------------------------------------------------------------------------------------------------


def place_of(row: Row, folder: Path, browser: Browser) -> Path:
    match row.file:
        case "record":
            [record] = Path(daemon_folders()[0]).glob(f"{os.getpid()}-*.json")
            return record
        case "logins":
            return folder / f"token-logins-{browser.port}"
        case name:
            return folder / name


@pytest.mark.parametrize("row", ROWS, ids=[f"{row.file} {row.change.__name__}" for row in ROWS])
def test_row(row: Row, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLTAP_TRACE", "1")
    monkeypatch.setenv("TOOLTAP_TRACE_FILE", str(tmp_path / "trace.jsonl"))
    kept = tmp_path / "kept"
    with browsed(tmp_path):
        pass
    for one in tmp_path.glob("journal.db*"):
        shutil.copyfile(one, tmp_path / f"older-{one.name}")
    periods: dict[str, Any] = {"files_period": 0.05, "drain_interval": 0.05}
    spool = Spool.create(tmp_path / "spool", Header(socket="elsewhere", ingest=Ingest(stream="s")))  # and it is in use
    with closing(spool), capture_logs() as log, browsed(tmp_path, **periods) as (daemon, browser):
        login = browser.log_in()
        assert publish(daemon, "word before") == ""
        daemon.until_indexed()
        until(lambda: (daemon.stats()["trace"] or {})["records"])
        assert found_by_search(browser, "word", "") == 1
        assert complaints(daemon) == []
        file = place_of(row, tmp_path, browser)
        row.change(file, kept)

        acknowledged = ["word before"]
        refusal = row.refused.format(file=file)
        error = publish_when_possible(daemon, "word meanwhile")
        assert refusal in error if refusal else error == ""
        acknowledged += ["word meanwhile"] if not error else []
        if row.logged:
            until(lambda: row.logged in [one["event"] for one in log])
        if row.search:
            until(lambda: found_by_search(browser, "word", row.search) == len(acknowledged))
        if row.doctor:
            until_doctor_says(daemon, row.doctor.format(file=file))
            problem = {str(file): f"it {LINKED}"} if row.change is linked else {}
            assert daemon.stats()["hardLinks"] == browser.get("/api/stats").json["hardLinks"] == problem
        else:
            until(file.exists)
            until_doctor_says(daemon)
        assert browser.get("/api/stats", login).status == 200
        assert browser.get("/api/stats").status == 200
        if row.refused == OVERWRITTEN:  # what was in the file is gone; what is in it now is served
            acknowledged = []
        elif row.change is linked:
            kept.unlink(missing_ok=True)
        elif refusal or row.file == "token":
            (shutil.copy if row.change is removed and not refusal else os.replace)(kept, file)
            if row.change is removed and refusal:
                return  # nobody can put back a file without a name
        if row.refused != OVERWRITTEN:
            assert publish(daemon, "word after") == ""
            acknowledged.append("word after")
        if (row.file != "trace.jsonl" or row.change is linked) and row.refused != OVERWRITTEN:
            until_doctor_says(daemon)
        if row.file == "logins":
            assert json.loads(file.read_bytes())
        if row.logged and (row.file != "trace.jsonl" or row.change is linked):
            assert [one["event"] for one in log].count(row.logged) == 1
    with browsed(tmp_path) as (daemon, browser):
        assert texts(daemon) == acknowledged
        assert publish(daemon, "word at last") == ""
        assert texts(daemon) == [*acknowledged, "word at last"]
        assert browser.get("/api/stats").status == 200


def test_other_name_from_before_the_start_is_reported_once(tmp_path: Path) -> None:
    name = "journal.db"
    with browsed(tmp_path):
        pass
    linked(tmp_path / name, tmp_path / "kept")
    with DaemonProcess(tmp_path, **{VARIABLE: '{"files_period": 0.02}'}) as daemon:
        daemon.wait_ready()
        until(lambda: statistics(daemon)["hardLinks"] == {str(tmp_path / name): f"it {LINKED}"})
        assert complaints(daemon) == [f"{tmp_path / name} {LINKED}"]
        printed = here("stats", "--socket", daemon.path).stdout.decode().replace("\n  ", " ")
        assert f"another name (a hard link) leads to {tmp_path / name}; see `tooltap doctor`" in printed
        daemon.process.terminate()
        assert daemon.wait() == 0
    assert [one["file"] for one in daemon.log if one["event"] == f"a file {LINKED}"] == [str(tmp_path / name)]


OTHER_PROGRAM = """
import os, socket, sys
with socket.socket(socket.AF_UNIX) as other:
    other.bind(sys.argv[1] + ".new")
    other.listen()
    os.replace(sys.argv[1] + ".new", sys.argv[1])
    print("listening", flush=True)
    while True:
        other.accept()[0].close()
"""


@contextmanager
def taking(what: str, place: Path) -> Iterator[str]:
    """Something takes the place of the socket. Yields what the doctor says of it."""
    if what == "a file":
        new = place.with_name("new")
        new.touch(0o600)
        new.replace(place)
        yield f"the daemon (pid {os.getpid()}) runs, but its socket {place} was removed or replaced"
    else:
        with subprocess.Popen([sys.executable, "-c", OTHER_PROGRAM, place], stdout=subprocess.PIPE) as other:
            assert other.stdout is not None
            other.stdout.readline()
            try:
                program = f"another program (pid {other.pid}) listens at {place}"
                yield f"{program}, in place of the daemon (pid {os.getpid()})"
            finally:
                other.kill()
    place.unlink()


@pytest.mark.parametrize("what", ["a file", "another program"])
def test_place_of_the_socket_that_is_taken_is_noticed_until_it_is_free(what: str, tmp_path: Path) -> None:
    taken = "the socket was removed or replaced, and no client can connect"
    free = "the place of the socket is free again"
    with capture_logs() as log, browsed(tmp_path, files_period=0.05) as (daemon, browser):
        assert publish(daemon, "word before") == ""
        with taking(what, daemon.path) as sentence:
            until(lambda: taken in [one["event"] for one in log])
            assert sentence in complaints(daemon)
            assert str(daemon.path) in browser.get("/api/stats").json["connections"]["problem"]
        until(lambda: free in [one["event"] for one in log])
        assert publish(daemon, "word after") == ""
        assert complaints(daemon) == []
        assert texts(daemon) == ["word before", "word after"]
    assert [one["event"] for one in log if one["event"] in (taken, free)] == [taken, free]


def publish_when_possible(daemon: Running, text: str) -> str:
    """As `publish`; a socket that was removed or replaced is waited for."""
    until(lambda: is_listening(str(daemon.path)))
    return publish(daemon, text)


@pytest.mark.parametrize("change", [scrambled, truncated])
def test_garbled_log_takes_nothing_more(change: Change, tmp_path: Path) -> None:
    """What was in the log alone is gone, and named; nothing is acknowledged that would be lost as well."""
    journal, file = tmp_path / "journal.db", tmp_path / "journal.db-wal"
    sentence = OVERWRITTEN.format(file=file)
    with DaemonProcess(tmp_path) as daemon:
        daemon.wait_ready()
        until(lambda: journal.read_bytes()[STAMP_OFFSET:][:4] != bytes(4))  # it does not copy its log just then
        assert publish(daemon, "word before") == ""
        lost = statistics(daemon)["journal"]["latest"]
        change(file, tmp_path / "kept")
        assert publish(daemon, "word meanwhile") == sentence
        while daemon.next_log()["event"] != "nothing can be stored in the journal":
            pass
        assert daemon.log[-1]["reason"] == sentence
        assert any(sentence in one for one in complaints(daemon))
        assert publish(daemon, "word meanwhile") == sentence
        daemon.process.terminate()
        assert daemon.wait() == 0
    assert Path(f"{file}.overwritten").exists()
    with DaemonProcess(tmp_path) as daemon:
        daemon.wait_ready()
        assert publish(daemon, "word after") == ""
        assert f"events that the journal records as lost: {lost}" in complaints(daemon)
        daemon.process.kill()
        daemon.wait()
    with DaemonProcess(tmp_path) as daemon:
        daemon.wait_ready()
        assert texts(daemon) == ["word after"]


# -- a full disk ------------------------------------------------------------------------------------------------------

DISK = 'mount -t tmpfs -o size=4m,mode=700 tmpfs "$0" && exec "$@"'
FULL = "disk is full"


def test_full_disk_is_noticed_and_the_daemon_goes_on_when_it_is_freed(tmp_path: Path) -> None:
    """Journal, search index and trace lie on one disk, which is mounted for the daemon alone."""
    require_machines()
    disk, long = tmp_path / "disk", f"word meanwhile {os.urandom(300_000).hex()}"
    disk.mkdir()
    within = [*PRIVATE, "sh", "-c", DISK, str(disk)]
    settings = {"TOOLTAP_TRACE": "1", "TOOLTAP_TRACE_FILE": str(disk / "trace.jsonl")}
    with DaemonProcess(tmp_path, journal=disk / "journal.db", within=within, **settings) as daemon:
        daemon.wait_ready()
        filler = Path(f"/proc/{daemon.process.pid}/root{disk}/filler")
        assert publish(daemon, "word before") == ""
        until(lambda: texts(daemon) == ["word before"])
        with filler.open("wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4_096))
        with ThreadPoolExecutor() as pool:
            meanwhile = pool.submit(publish, daemon, long, "meanwhile")
            until(lambda: FULL in statistics(daemon)["journal"].get("problem", ""))
            problem = statistics(daemon)["journal"]["problem"]
            assert any(f"the daemon cannot commit lines: {problem}" in one for one in complaints(daemon))
            assert texts(daemon) == ["word before"]
            filler.unlink()
            waited = meanwhile.result(TIMEOUT)
        assert waited == "" or FULL in waited
        until(lambda: complaints(daemon) == [])  # as `doctor` advised, before anything else is committed
        assert publish(daemon, "word after") == ""
        assert complaints(daemon) == []
        acknowledged = ["word before", *([] if waited else [long]), "word after"]
        assert texts(daemon) == acknowledged


@pytest.mark.lab  # where machines may make loop devices
def test_disk_that_fails_and_becomes_read_only_keeps_what_was_acknowledged(tmp_path: Path) -> None:
    """The kernel makes a file system read-only when it finds an error. (An administrator cannot: the daemon has files
    open there.) What was acknowledged is there once it is mounted again, with `--durability power`."""
    require_disks()
    disk, image = tmp_path / "disk", tmp_path / "image"
    disk.mkdir()
    make_disk(image, 16)
    options: dict[str, Any] = {"journal": disk / "journal.db", "within": [*PRIVATE, *mounting(image, disk)]}
    with DaemonProcess(tmp_path, "--durability", "power", **options) as daemon:
        daemon.wait_ready()
        assert publish(daemon, "word before") == ""
        inside = ["nsenter", f"--target={daemon.process.pid}", "--mount", "--"]
        subprocess.run([*inside, "mount", "-o", "remount,abort", disk], check=True)
        refused = publish(daemon, "word meanwhile")
        assert refused.startswith("the journal cannot be written: its file system has become read-only (")
        assert f"the daemon cannot commit lines: {refused}" in complaints(daemon)
        assert statistics(daemon)["journal"]["problem"] == refused
        assert texts(daemon) == ["word before"]
        daemon.process.terminate()
        assert daemon.wait() == 0
        assert [one["reason"] for one in daemon.log if one["area"] == "streams"] == [refused]
    with DaemonProcess(tmp_path, **options) as daemon:
        daemon.wait_ready()
        assert texts(daemon) == ["word before"]
        assert publish(daemon, "word after") == ""
        assert texts(daemon) == ["word before", "word after"]
        daemon.process.terminate()
        assert daemon.wait() == 0


def statistics(daemon: DaemonProcess) -> dict[str, Any]:
    with daemon.connect() as wire:
        found: dict[str, Any] = wire.ask("stats")
        return found


# -- restored while no daemon runs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tip", ["older", "removed"])
def test_older_journal_is_noticed_by_the_search_index(tmp_path: Path, tip: str) -> None:
    """Neither the log nor the high-water mark says that anything is lost, but the index is ahead of the journal."""
    journal, mark, older = tmp_path / "journal.db", tmp_path / "journal.db.tip", tmp_path / "older"
    with browsed(tmp_path) as (daemon, _):
        assert publish(daemon, "word kept") == ""
    older.mkdir()
    for file in (journal, mark):
        shutil.copy(file, older)
    with browsed(tmp_path) as (daemon, _):
        first = daemon.stats()["journal"]["latest"] + 1
        assert publish(daemon, "word lost") == ""
        daemon.until_indexed()
        last = daemon.stats()["journal"]["latest"]
    assert last >= first
    shutil.copy(older / journal.name, journal)
    if tip == "older":
        shutil.copy(older / mark.name, mark)
    else:
        mark.unlink()

    with browsed(tmp_path) as (daemon, _):
        assert publish(daemon, "word after") == ""
        with daemon.connect() as wire:
            wire.send("subscribe", after="start", follow=False)
            found = wire.rest()
        gaps = [(one["from"], one["to"], one["reason"]) for one in found if one.get("op") == "gap"]
        assert gaps == [(first, last, "corrupt")]
        assert texts(daemon) == ["word kept", "word after"]
        assert any("lost" in one or "damage" in one or "missing" in one for one in complaints(daemon))


def test_search_index_with_a_damaged_end_makes_no_gap(tmp_path: Path) -> None:
    with browsed(tmp_path) as (daemon, _):
        assert publish(daemon, "word kept") == ""
        daemon.until_indexed()
    with closing(sqlite3.connect(tmp_path / "journal.db.search")) as index, index:
        (end,) = index.execute("SELECT value FROM meta WHERE key='end'").fetchone()
        index.execute("UPDATE meta SET value=? WHERE key='end'", (f"9{end}",))
    with browsed(tmp_path) as (daemon, _):
        assert publish(daemon, "word after") == ""
        assert texts(daemon) == ["word kept", "word after"]
        assert complaints(daemon) == []
