"""Attacks where everybody may create files, but exchange none of others, as in `/tmp`: a journal, a socket and a trace
there are served, and nothing of others beside them is taken for their own."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path

import pytest

from tests.attacks.loops import in_a_loop
from tests.attacks.stranger import Stranger
from tests.attacks.test_files import plant_file, plant_link
from tests.daemon.events import commit, message
from tests.daemon.running import running
from tooltap.daemon.client.blocking import ask
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.file import format_of, open_read_only
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.journal.sqlite.repair import repair
from tooltap.daemon.system.listener import Listener, ListenError
from tooltap.traces.recording.writer import RotatingFile

SIDE_FILES = ("-wal", "-shm", "-journal")


def take_over(folder: str) -> list[str]:
    """Try to read, move, link and remove every file; return those with which anything worked."""
    import os

    taken = []
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        for attempt, *arguments in (
            (os.open, path, os.O_RDONLY),
            (os.rename, path, path + ".away"),
            (os.open, path, os.O_WRONLY),
            (os.unlink, path),
        ):
            try:
                attempt(*arguments)
            except OSError:
                continue
            taken.append(name)
    return taken


def written(place: Path) -> bytes:
    RotatingFile(place, 1_000, 10_000).write(b"{}\n")
    return place.read_bytes()


def test_all_is_served_and_stays_ours(sticky_folder: Path, stranger: Stranger) -> None:
    with running(sticky_folder, socket=str(sticky_folder / "t.sock")) as daemon:
        daemon.commit(commit(message("mine")))
        assert ask("stats", path=sticky_folder / "t.sock")["journal"]["latest"] == 1
        assert written(sticky_folder / "trace.jsonl") == b"{}\n"
        names = {f"journal.db{suffix}" for suffix in ("", ".lock", ".tip", *SIDE_FILES)}

        assert names | {"t.sock", "t.sock.lock", "trace.jsonl"} <= set(os.listdir(sticky_folder))
        assert stranger.run(take_over, sticky_folder) == []
    with running(sticky_folder) as daemon:
        assert daemon.stats()["journal"]["latest"] == 1


def test_traces_of_another_user_take_no_room(sticky_folder: Path, stranger: Stranger) -> None:
    def fill(path: str) -> None:
        with open(path, "wb") as file:
            file.truncate(1_000_000)

    stranger.run(fill, sticky_folder / "trace.0001.jsonl")
    (sticky_folder / "trace.0002.jsonl").write_text("{}\n")

    assert written(sticky_folder / "trace.jsonl") == b"{}\n"
    assert (sticky_folder / "trace.0002.jsonl").exists()


@pytest.mark.parametrize("is_new", [True, False], ids=["new", "existing"])
@pytest.mark.parametrize("suffix", SIDE_FILES)
@in_a_loop
async def test_nothing_is_written_to_or_read_from_a_planted_log(
    suffix: str, is_new: bool, sticky_folder: Path, stranger: Stranger
) -> None:
    place = sticky_folder / "journal.db"
    if not is_new:
        await (await SqliteJournal.open(place)).close()
        Path(f"{place}{suffix}").unlink(missing_ok=True)
    stranger.run(plant_file, f"{place}{suffix}")

    with pytest.raises(JournalError, match=rf"journal\.db{suffix} (cannot be|is not) the journal's: "):
        await SqliteJournal.open(place)
    assert Path(f"{place}{suffix}").read_bytes() == b""
    if is_new:
        assert not place.exists()
        return
    for reading in (format_of, open_read_only, repair):
        with pytest.raises(JournalError, match=rf"journal\.db{suffix} (cannot be|is not) the journal's: "):
            reading(place)
    assert Path(f"{place}{suffix}").read_bytes() == b""


@pytest.mark.parametrize("suffix", ["", ".swap", ".lock", ".tip"])
@in_a_loop
async def test_file_of_another_user_is_no_part_of_a_journal(
    suffix: str, sticky_folder: Path, stranger: Stranger
) -> None:
    place = sticky_folder / "journal.db"
    stranger.run(plant_file, f"{place}{suffix}")

    with pytest.raises(JournalError, match="it belongs to another user"):
        await SqliteJournal.open(place)
    assert Path(f"{place}{suffix}").stat().st_uid == stranger.uid


@in_a_loop
async def test_planted_link_names_no_journal(sticky_folder: Path, stranger: Stranger, tmp_path: Path) -> None:
    stranger.run(plant_link, tmp_path / "journal.db", sticky_folder / "journal.db")

    with pytest.raises(JournalError, match=r"journal\.db is a link of another user"):
        await SqliteJournal.open(sticky_folder / "journal.db")
    assert list(tmp_path.iterdir()) == []


@in_a_loop
async def test_journals_of_others_can_be_read(sticky_folder: Path, stranger: Stranger) -> None:
    """By root: its owner has written what is beside it."""
    place = sticky_folder / "journal.db"
    await (await SqliteJournal.open(place)).close()
    for one in sticky_folder.iterdir():
        os.chown(one, stranger.uid, stranger.gid)

    with closing(open_read_only(place)):
        pass


@pytest.mark.parametrize("owner", ["stranger", "root"])
def test_folder_of_another_user_is_refused(owner: str, sticky_folder: Path, stranger: Stranger) -> None:
    """The owner of a sticky folder may exchange what is in it; root may do so everywhere."""
    os.chown(sticky_folder, stranger.uid if owner == "stranger" else 0, -1)
    if owner == "root":
        with Listener(sticky_folder / "t.sock"):
            return
    with pytest.raises(ListenError, match="it belongs to another user"):
        Listener(sticky_folder / "t.sock")


def test_group_with_others_may_not_exchange_anything(open_folder: Path, stranger: Stranger) -> None:
    """A group for one user alone may: many systems give each user one, and make folders writable by it."""
    open_folder.chmod(0o770)
    with Listener(open_folder / "t.sock"):
        pass
    os.chown(open_folder, -1, stranger.gid)
    with pytest.raises(ListenError, match=r"other users may write to it \(mode 0770\)"):
        Listener(open_folder / "t.sock")
