"""Attacks on the files that tooltap writes: what another user has put in their place is neither followed nor changed.

Folders are shared without the sticky bit, in which Linux would refuse some of this by itself.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.attacks.loops import in_a_loop
from tests.attacks.stranger import Stranger
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.nats.identity import Memory
from tooltap.daemon.journal.sqlite.backup import backup
from tooltap.daemon.journal.sqlite.file import HighWaterFile, JournalLock, high_water_path
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.system.listener import Listener, ListenError
from tooltap.daemon.taps.delivery.announcement import Announced, announce, announced
from tooltap.daemon.taps.delivery.spool import Header, QuarantineLimits, Spool, SpoolError, quarantine
from tooltap.daemon.taps.follow.stores import Root, look_at, read_head, scan
from tooltap.daemon.web.http.token import load_token
from tooltap.normalizers.catalog.registry import stores
from tooltap.protocol.frames import Ingest
from tooltap.traces.recording import own_file
from tooltap.traces.recording.own_file import NotOursError, lock_own, open_own, without_planted_links
from tooltap.traces.recording.whole_file import whole_file, write_whole
from tooltap.traces.recording.writer import RotatingFile

MINE = b"mine\n"
LINK = "is a link of another user"


def plant_link(target: str, place: str) -> None:
    import os

    os.symlink(target, place)


def plant_file(place: str) -> None:
    import os

    with open(place, "w"):
        os.chmod(place, 0o666)


def plant_pipe(place: str) -> None:
    import os

    os.mkfifo(place)
    os.chmod(place, 0o666)


def plant_folder(place: str) -> None:
    import os

    os.mkdir(place)


def plant_held_note(place: str) -> None:
    import fcntl
    import os
    import sys

    file = sys.__dict__["held"] = open(place, "w")  # noqa: SIM115
    print("claude\n0\n", end="", file=file, flush=True)
    os.chmod(place, 0o666)
    fcntl.flock(file, fcntl.LOCK_EX)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    """A private folder with a file, as `~/.ssh`."""
    folder = tmp_path / "mine"
    folder.mkdir(mode=0o700)
    (folder / "file").write_bytes(MINE)
    return folder


def trace(path: Path) -> None:
    RotatingFile(path, 1_000, 10_000).write(b"{}\n")


def private(path: Path) -> None:
    """Into a new file with a mode of its own, as tokens are written."""
    with whole_file(path, 0o600, replace=False) as file:
        file.write(b"secret")


WRITERS: dict[str, Callable[[Path], object]] = {
    "trace": trace,
    "file of a command": lambda path: write_whole(path, "text"),
    "token": load_token,
    "private file": private,
    "lock": lock_own,
    "journal's lock": lambda path: JournalLock(path.with_suffix("")),
    "output body": lambda path: open_own(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("target", ["file", "missing"])
def test_planted_link_is_not_followed(writer: str, target: str, mine: Path, shared: Path, stranger: Stranger) -> None:
    place = shared / "place.lock"
    stranger.run(plant_link, mine / target, place)

    with pytest.raises(Exception, match=LINK):
        WRITERS[writer](place)
    assert [(one.name, one.read_bytes()) for one in mine.iterdir()] == [("file", MINE)]
    assert place.is_symlink()


@pytest.mark.parametrize("writer", [name for name in WRITERS if name != "private file"])
@pytest.mark.parametrize("plant", [plant_file, plant_pipe], ids=["file", "pipe"])
def test_what_others_can_read_is_not_written_to(
    writer: str, plant: Callable[[str], None], shared: Path, stranger: Stranger
) -> None:
    place = shared / "place.lock"
    stranger.run(plant, place)
    before = place.lstat()
    problem = ""
    try:
        WRITERS[writer](place)
    except (OSError, ListenError, JournalError) as error:
        problem = str(error)

    if os.path.samestat(place.lstat(), before):
        assert any(text in problem for text in ("belongs to another user", "is not a file", "No such device"))
    else:  # it was replaced
        assert place.lstat().st_uid == os.geteuid()
    if plant is plant_file and os.path.samestat(place.lstat(), before):
        assert place.read_bytes() == b""


@pytest.mark.parametrize("folder", ["socket", "journal", "spool", "trace", "memory", "announcement", "output"])
def test_planted_folder_is_not_followed(folder: str, mine: Path, shared: Path, stranger: Stranger) -> None:
    place = shared / "folder"
    stranger.run(plant_link, mine, place)
    before = mine.stat()
    makers: dict[str, Callable[[], object]] = {
        "socket": lambda: Listener(place / "t.sock"),
        "journal": lambda: JournalLock(place / "journal.db"),
        "spool": lambda: spool(place),
        "trace": lambda: trace(place / "deeper" / "trace.jsonl"),
        "memory": lambda: Memory(place).write("j", 1, "c"),
        "announcement": lambda: announce(str(place), Announced("s", "claude", 0, "")),
        "output": lambda: write_whole(place / "new", "text"),
    }
    if folder in ("memory", "announcement"):  # they do without
        makers[folder]()
    else:
        with pytest.raises((ListenError, JournalError, SpoolError, NotOursError), match=LINK):
            makers[folder]()
    assert [one.name for one in mine.iterdir()] == ["file"]
    assert mine.stat().st_mtime_ns == before.st_mtime_ns


def spool(folder: Path) -> Spool:
    return Spool.create(folder, Header(socket="/s", ingest=Ingest(stream="s")))


@in_a_loop
async def test_journal_in_a_shared_folder_is_refused(shared: Path) -> None:
    with pytest.raises(JournalError, match=r"other users may write to it \(mode 0777\); run chmod go-w"):
        await SqliteJournal.open(shared / "journal.db")
    assert list(shared.iterdir()) == []


def test_hard_link_to_another_file_is_not_emptied(mine: Path) -> None:
    """A file of ours that seems to be a lock, and has another name."""
    (mine / "file").write_bytes(b"12\n")
    os.link(mine / "file", mine / "journal.db.lock")

    with pytest.raises(JournalError, match="the file has another name"):
        JournalLock(mine / "journal.db")
    assert (mine / "file").read_bytes() == b"12\n"


@pytest.mark.parametrize("content", [b"notes of mine\n", b"1" * 1_000])
def test_file_in_place_of_a_lock_is_not_emptied(content: bytes, mine: Path) -> None:
    (mine / "journal.db.lock").write_bytes(content)

    with pytest.raises(JournalError, match="it is not a daemon's lock; move it away"):
        JournalLock(mine / "journal.db")
    assert (mine / "journal.db.lock").read_bytes() == content


def test_file_in_place_of_the_tip_is_not_overwritten(mine: Path) -> None:
    place = high_water_path(mine / "journal.db")
    place.write_bytes(MINE * 100)

    with pytest.raises(NotOursError, match=r"journal\.db\.tip is too long to belong to the journal; move it away"):
        HighWaterFile(mine / "journal.db")
    assert place.read_bytes() == MINE * 100


def test_folder_exchanged_for_a_link_is_not_followed(
    mine: Path, shared: Path, stranger: Stranger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After it was looked at, and before anything is opened in it."""
    (shared / "sub").mkdir()

    def exchange(folder: str, target: str) -> None:
        import os

        os.rename(folder, folder + ".away")
        os.symlink(target, folder)

    def look(path: Path) -> str:
        found = without_planted_links(path)
        stranger.run(exchange, shared / "sub", mine)
        return found

    monkeypatch.setattr(own_file, "without_planted_links", look)
    with pytest.raises(OSError, match=r"symbolic links|Not a directory"):
        open_own(shared / "sub" / "new", os.O_WRONLY | os.O_CREAT)
    assert [one.name for one in mine.iterdir()] == ["file"]


def test_links_of_our_own_are_followed(mine: Path, shared: Path) -> None:
    (shared / "link").symlink_to(mine / "file")
    (shared / "folder").symlink_to(mine)
    write_whole(shared / "link", "new")
    trace(shared / "folder" / "trace.jsonl")

    assert (mine / "file").read_text() == "new"
    assert (shared / "link").is_symlink()
    assert (mine / "trace.jsonl").read_text() == "{}\n"


@pytest.mark.parametrize("path", ["{0}/a/../b/./c", "{0}//link/c", "{0}/link/../b/c", "/dev/stdout", "/proc/self/exe"])
def test_links_are_resolved_as_the_system_does(path: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    (tmp_path / "link").symlink_to("b")
    named = path.format(tmp_path)

    assert without_planted_links(named) == os.path.realpath(named)


def test_endless_links_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    with pytest.raises(OSError, match="symbolic links"):
        without_planted_links(tmp_path / "a")


def test_pipe_of_another_user_blocks_nobody(mine: Path, shared: Path, stranger: Stranger) -> None:
    """In the place of a file that a killed writer left, and of a trace that was rotated."""
    stranger.run(plant_pipe, shared / ".page.html.1-0.part")
    stranger.run(plant_pipe, shared / "trace.0001.jsonl")
    (shared / "trace.0002.jsonl").write_bytes(b"x" * 20_000)
    write_whole(shared / "page.html", "text")
    trace(shared / "trace.jsonl")

    assert (shared / "page.html").read_text() == "text"
    assert not (shared / "trace.0002.jsonl").exists()


def test_mode_of_a_planted_file_is_not_taken(shared: Path, stranger: Stranger) -> None:
    stranger.run(plant_file, shared / "page.html")
    write_whole(shared / "page.html", "text")

    assert stat.S_IMODE((shared / "page.html").stat().st_mode) & 0o022 == 0


def test_private_file_is_created_private(shared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not changed to be: who has opened it before could read it later."""
    modes = []
    create = os.open

    def opened(path: Path, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_CREAT:
            modes.append(mode)
        return create(path, flags, mode)

    monkeypatch.setattr(os, "open", opened)
    private(shared / "token")

    assert modes == [0o600]


def test_notes_of_another_user_are_no_announcements(shared: Path, lasting_stranger: Stranger) -> None:
    """They would make the daemon wait for an agent that does not exist."""
    lasting_stranger.run(plant_held_note, shared / "s.tap")

    assert announced(str(shared), "/s") == []


def test_planted_quarantine_is_not_followed(mine: Path, tmp_path: Path) -> None:
    directory = tmp_path / "spool"
    spool(directory).close()
    (directory / "quarantined").symlink_to(mine)
    directory.chmod(0o777)
    os.lchown(directory / "quarantined", 65_534, 65_534)

    with pytest.raises(NotOursError, match=LINK):
        quarantine(directory / "s.spool", QuarantineLimits(10, 1_000_000))
    assert [one.name for one in mine.iterdir()] == ["file"]


# -- a copy of the journal --------------------------------------------------------------------------------------------


@in_a_loop
async def test_nothing_stands_beside_a_backup(tmp_path: Path, shared: Path, stranger: Stranger) -> None:
    """In a shared folder, others could prepare a log that SQLite would take for the copy's own."""
    journal = await SqliteJournal.open(tmp_path / "journal.db")
    await journal.close()
    target = shared / "copy.db"
    for suffix in ("-wal", "-journal"):
        stranger.run(plant_file, f"{target}.partial{suffix}")
    before = {one.name for one in shared.iterdir()}
    backup(tmp_path / "journal.db", target)

    assert {one.name for one in shared.iterdir()} == {*before, "copy.db"}
    assert stat.S_IMODE(target.stat().st_mode) == 0o600
    stranger.run(plant_folder, shared / "other.db.partial")
    with pytest.raises(JournalError, match=r"other\.db\.partial cannot be created: File exists"):
        backup(tmp_path / "journal.db", shared / "other.db")


def test_planted_link_in_a_store_is_not_read(mine: Path, shared: Path, stranger: Stranger) -> None:
    """Neither to a file nor to a folder. A link of our own beside them is."""
    root = Root("claude", stores()["claude"][0], str(shared))
    (mine / "a.jsonl").write_bytes(MINE)
    stranger.run(plant_link, mine / "file", shared / "planted.jsonl")
    stranger.run(plant_link, mine, shared / "planted")
    (shared / "own").symlink_to(mine)
    troubles: list[OSError] = []

    assert [one.path for one in scan(root, root.path, troubles.append)] == [str(shared / "own" / "a.jsonl")]
    for place in ("planted.jsonl", "planted", "planted/a.jsonl"):
        assert list(look_at(root, str(shared / place), troubles.append)) == []
    with pytest.raises(OSError, match="symbolic links"):
        read_head(str(shared / "planted.jsonl"), 100)
    assert troubles == []
