"""`tooltap journal`: damages by seed, and what the commands do to a journal that is whole, or used, or none."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.daemon.events import call, commit, message
from tests.daemon.journal.damages import Template, compare_events, copy, make, rows_of, try_damage
from tests.daemon.journal.recorded import records
from tests.daemon.journal.test_journal_damage import damage, everything, fill
from tests.daemon.publishing import daemon, events, journal_of, publish
from tests.daemon.taps.test_follow_machines import PRIVATE, require_machines
from tooltap.cli.manage.journal import command
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.journal.sqlite.backup import backup
from tooltap.daemon.journal.sqlite.check import Damage, check_file
from tooltap.daemon.journal.sqlite.file import COPY_IT, connect, copy_log, high_water_path, swap_path
from tooltap.daemon.journal.sqlite.journal import SqliteJournal
from tooltap.daemon.journal.sqlite.repair import repair
from tooltap.daemon.journal.sqlite.tables import set_meta
from tooltap.protocol.frames import Ingesting

SEEDS = 60


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Template:
    return asyncio.run(make(tmp_path_factory.mktemp("template")))


@pytest.mark.parametrize("part", range(4))
def test_random_damages_are_reported_and_repaired(template: Template, tmp_path: Path, part: int) -> None:
    for seed in range(part, SEEDS, 4):
        try_damage(template, tmp_path, seed)


REPAIR = """
import sys
from pathlib import Path
from tooltap.daemon.journal.sqlite.repair import repair
repair(Path(sys.argv[1]))
"""


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_killed_repair_leaves_one_journal_or_the_other(template: Template, tmp_path: Path, nth: int) -> None:
    path = copy(template.folder, tmp_path / "journal")
    environment = {**os.environ, "TOOLTAP_FAILPOINT": f"during-repair:{nth}"}
    killed = subprocess.run([sys.executable, "-c", REPAIR, path], env=environment, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert swap_path(path).exists() == (nth == 3)

    journal = asyncio.run(opened(path))
    assert journal == template.events
    assert not swap_path(path).exists()
    assert not list(check_file(path))
    repair(path)  # what was left over does not matter
    compare_events(template, asyncio.run(opened(path)))


async def opened(path: Path) -> dict[int, bytes]:
    journal = await SqliteJournal.open(path)
    try:
        return {one.seq: one.body for one in await everything(journal)}
    finally:
        await journal.close()


@pytest.mark.anyio
async def test_repair_is_refused_while_a_daemon_has_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = await SqliteJournal.open(path)
    with pytest.raises(JournalError, match="is used by another daemon"):
        repair(path)
    await journal.close()
    with pytest.raises(JournalError, match=r"there is no journal .*none\.db"):
        repair(tmp_path / "none.db")
    text = tmp_path / "text"
    text.write_text("this is no journal\n" * 1_000)
    with pytest.raises(JournalError, match="no part of it is intact"):
        repair(text)
    assert text.read_text() == "this is no journal\n" * 1_000


@pytest.mark.anyio
async def test_backup_of_a_running_journal_is_whole(tmp_path: Path) -> None:
    path, target = tmp_path / "journal.db", tmp_path / "copy.db"
    await fill(path)
    journal = await SqliteJournal.open(path)
    stream = 0

    async def write() -> None:
        nonlocal stream
        while True:
            stream += 1
            await journal.commit(commit(message("more", f"w{stream}"), stream=f"w{stream}", snapshot=b"state"))

    writing = asyncio.create_task(write())
    await asyncio.to_thread(backup, path, target)
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    assert not list(check_file(target))
    assert target.stat().st_mode & 0o777 == 0o600
    with pytest.raises(JournalError, match=r"copy\.db exists already"):
        backup(path, target)
    written = await everything(journal)
    await journal.close()
    copied = {row[0]: row[4] for row in rows_of(target)["events"]}
    assert {one.seq: one.body for one in written[: len(copied)]} == copied


@pytest.mark.anyio
async def test_restored_backup_continues_behind_what_came_since(tmp_path: Path) -> None:
    path, target = tmp_path / "journal.db", tmp_path / "copy.db"
    journal = await SqliteJournal.open(path)
    name = journal.id
    await journal.commit(commit(message("one"), snapshot=b"state"))
    await asyncio.to_thread(backup, path, target)
    await journal.commit(commit(message("two"), message("three"), base=1))
    await journal.close()
    path.write_bytes(target.read_bytes())

    journal = await SqliteJournal.open(path)
    assert (journal.id, journal.latest, list(journal.corrupt)) == (name, 3, [(2, 3)])
    await journal.commit(commit(message("two again"), base=1))
    assert [one.seq for one in await everything(journal)] == [1, 4]
    await journal.close()

    # Elsewhere nothing says what came since, so it is a journal of its own.
    target.rename(tmp_path / "other.db")
    journal = await SqliteJournal.open(tmp_path / "other.db")
    assert journal.id != name
    other = journal.id
    await journal.close()
    journal = await SqliteJournal.open(tmp_path / "other.db")
    assert journal.id == other
    await journal.close()


@pytest.mark.anyio
async def test_publisher_resumes_behind_a_restored_backup(tmp_path: Path) -> None:
    path, target = tmp_path / "journal.db", tmp_path / "copy.db"
    lines = records("claude")
    async with daemon(path) as streams:
        publisher = await publish(streams, dialect="auto")
        await publisher.ingest.feed(b"".join(lines[:10]))
        await publisher.ingest.finish()
        await asyncio.to_thread(backup, path, target)
        before = journal_of(streams).latest
        publisher = await publish(streams, dialect="auto")
        await publisher.ingest.feed(b"".join(lines[10:20]))
        await publisher.ingest.finish()
        gone = journal_of(streams).latest
        expected = await events(journal_of(streams))
    assert gone > before
    path.write_bytes(target.read_bytes())

    async with daemon(path) as streams:
        journal = journal_of(streams)
        assert list(journal.corrupt) == [(before + 1, gone)]
        publisher = await publish(streams, dialect="auto")
        assert publisher.last(Ingesting).lines == 10
        await publisher.ingest.feed(b"".join(lines[10:20]))
        await publisher.ingest.finish()
        assert await events(journal) == expected
        assert [one.seq for one in await everything(journal)][before] == gone + 1


@pytest.mark.anyio
async def test_backup_of_a_damaged_journal_is_refused(tmp_path: Path) -> None:
    path, target = tmp_path / "journal.db", tmp_path / "copy.db"
    await fill(path)
    damage(path, "UPDATE events SET body=x'00' WHERE seq=7")
    with pytest.raises(JournalError, match=r"the copy is damaged, as the journal .* is: event 7 is damaged"):
        backup(path, target)
    assert not target.exists()
    assert sorted(one.name for one in tmp_path.iterdir() if "copy" in one.name) == []


@pytest.mark.anyio
async def test_repair_changes_nothing_of_what_is_intact(tmp_path: Path) -> None:
    async def derived() -> list[object]:
        journal = await SqliteJournal.open(path)
        found: list[object] = [await journal.load_stream(stream) for stream in ("s0", "s1", "s2")]
        found += [await journal.streams(), await journal.sessions(), await journal.open_calls("session-1")]
        await journal.close()
        return found

    path = tmp_path / "journal.db"
    await fill(path)
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(call("open", stream="s0"), stream="s0", base=50, snapshot=b"state"))
    await journal.commit(commit(stream="s2", lines=3, state="ended"))
    await journal.close()
    before = await derived()

    repaired = repair(path)

    assert (repaired.gaps, repaired.reset, dict(repaired.rebuilt)) == ([], [], {})
    assert await derived() == before


@pytest.mark.anyio
async def test_stream_that_only_its_events_name_resumes_behind_the_last(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    journal = await SqliteJournal.open(path)
    await journal.commit(commit(message("one", line=2), message("two", line=7), lines=9))
    await journal.close()
    damage(path, "UPDATE streams SET checksum=checksum+1")

    assert repair(path).reset == ["s"]
    journal = await SqliteJournal.open(path)
    stored = await journal.load_stream("s")
    assert stored is not None
    assert stored.info.lines == 7
    await journal.close()


@pytest.mark.anyio
async def test_repair_of_another_format_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await fill(path)
    with closing(connect(path, "process")) as connection:
        set_meta(connection, "format", 2)
        copy_log(connection)
    before = contents(tmp_path)

    sentence = f"the journal {path} has format 2, and this version of tooltap reads format 1 only: nothing was changed"
    with pytest.raises(JournalError, match=f"^{re.escape(sentence)}$"):
        repair(path)
    assert contents(tmp_path) == before
    result = CliRunner().invoke(command, ["repair", "--journal", f"sqlite:{path}"])
    assert (result.exit_code, result.stdout, result.stderr) == (1, "", f"Error: {sentence}\n")
    assert contents(tmp_path) == before


def tooltap(*arguments: object) -> tuple[int, str]:
    """Run `tooltap journal`. Return the exit code, and what it printed."""
    result = CliRunner().invoke(command, [str(one) for one in arguments])
    return result.exit_code, result.output


@pytest.mark.anyio
async def test_check_advises_a_repair_only_where_one_may_help(tmp_path: Path) -> None:
    """The mark beside the file says that it was a journal."""
    path = tmp_path / "journal.db"
    place = ("--journal", f"sqlite:{path}")
    await fill(path)
    assert high_water_path(path).exists()
    with closing(connect(path, "process")) as connection:
        set_meta(connection, "format", 2)
        copy_log(connection)
    sentence = f"the journal {path} has format 2, written by another version of tooltap; this one knows only 1"
    assert tooltap("check", *place) == (1, f"Error: {sentence}\n")
    assert tooltap("repair", *place)[0] == 1

    damage(path, "UPDATE meta SET value=3 WHERE key='format'")  # without the checksum of that
    code, printed = tooltap("check", *place)
    assert code == 1
    assert "`tooltap journal repair` keeps everything that is intact" in printed.replace("\n", " ")
    assert tooltap("repair", *place)[0] == 0
    assert tooltap("check", *place)[0] == 0


def test_folder_is_no_damaged_journal(tmp_path: Path) -> None:
    """As the store of a NATS server is one."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store.tip").touch()
    sentence = f"{tmp_path / 'store'} is a folder: name the file in it, with --journal sqlite:PATH"
    for what in ("check", "repair"):
        assert tooltap(what, "--journal", f"sqlite:{tmp_path / 'store'}") == (1, f"Error: {sentence}\n")


ON_A_DISK = """
folder=$0 options=$1 remounted=$2; shift 2
mount -t tmpfs -o mode=700,$options tmpfs "$folder/disk" && cp "$folder"/journal.db* "$folder/disk" || exit 99
mount -o remount,$remounted "$folder/disk" || exit 99
for what; do "$PYTHON" -m tooltap.cli journal "$what" --journal "sqlite:$folder/disk/journal.db" 2>&1; done
ls "$folder/disk"
"""


def on_a_disk(folder: Path, options: str, remounted: str, *commands: str) -> list[str]:
    """Copy a journal to a disk that only these commands see. Return the lines that they print, and the names there."""
    require_machines()
    (folder / "disk").mkdir()
    done = subprocess.run(
        [*PRIVATE, "sh", "-c", ON_A_DISK, folder, options, remounted, *commands],
        env={**os.environ, "PYTHON": sys.executable, "COLUMNS": "1000"},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.process
@pytest.mark.anyio
async def test_journal_that_cannot_be_written_where_it_is_is_repaired_elsewhere(tmp_path: Path) -> None:
    """A part is in the log, which SQLite reads only where it may make a file beside it."""
    path = tmp_path / "disk" / "journal.db"
    await fill(tmp_path / "whole.db")
    damage(tmp_path / "whole.db", "DELETE FROM events WHERE seq=7")
    journal = await SqliteJournal.open(tmp_path / "whole.db")
    await journal.commit(commit(message("more", "more"), stream="more", session="s"))
    for suffix in ("", "-wal", ".tip"):
        shutil.copy(tmp_path / f"whole.db{suffix}", tmp_path / f"journal.db{suffix}")
    await journal.close()
    checked, repaired, *names = on_a_disk(tmp_path, "size=8m", "ro", "check", "repair")

    said = f"tooltap: the journal {path} cannot be "
    assert checked == f"{said}opened: unable to open database file: {path.parent} cannot be written; {COPY_IT}"
    assert repaired == f"{said}repaired: Read-only file system; {COPY_IT}"
    assert names == ["journal.db", "journal.db-wal", "journal.db.tip"]
    # What they say is done: the copy is what the disk was made from.
    assert tooltap("repair", "--journal", f"sqlite:{tmp_path / 'journal.db'}")[0] == 0
    assert tooltap("check", "--journal", f"sqlite:{tmp_path / 'journal.db'}")[0] == 0


@pytest.mark.process
@pytest.mark.anyio
async def test_repair_on_a_full_disk_leaves_nothing_beside_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await fill(path)
    size = path.stat().st_size // 1024 + 100
    repaired, *names = on_a_disk(tmp_path, f"size={size}k", f"size={size}k", "repair")

    assert repaired.startswith(f"tooltap: the journal {tmp_path / 'disk' / 'journal.db'} cannot be repaired: ")
    assert repaired.endswith("; free some space: the repaired one is written beside it")
    assert names == ["journal.db", "journal.db.lock", "journal.db.tip"]
    assert on_a_roomy_disk(tmp_path)[-4:] == ["journal.db", "journal.db.damaged-1", "journal.db.lock", "journal.db.tip"]


def on_a_roomy_disk(folder: Path) -> list[str]:
    (folder / "disk").rmdir()
    return on_a_disk(folder, "size=50m", "rw", "repair")


def contents(folder: Path) -> dict[str, bytes]:
    """The files in a folder, except locks, which hold the pid of the last process."""
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.suffix != ".lock"}


@pytest.mark.anyio
async def test_repaired_journal_has_no_damaged_output(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    await fill(path)
    damage(path, "UPDATE contents SET data=zeroblob(length(data)) WHERE id=5")
    damage(path, "UPDATE pieces SET content=9 WHERE body=8")
    damage(path, "UPDATE pieces SET newlines=newlines+1 WHERE body=9")

    repair(path)

    assert not list(check_file(path))
    journal = await SqliteJournal.open(path)
    for number in range(12):
        found = await journal.output(f"out:{number}", 0, 10_000, "bytes")
        assert (found is None) == (number + 1 in (5, 8, 9))
    await journal.close()


@pytest.mark.anyio
async def test_gaps_at_both_ends_are_known_after_repair(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    newest = (await fill(path))[-1].seq
    damage(path, "DELETE FROM events WHERE seq=1 OR seq=?", newest)

    assert repair(path).gaps == [(1, 1), (newest, newest)]
    assert not list(check_file(path))


@pytest.mark.anyio
async def test_repair_that_would_be_damaged_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "journal.db"
    before = await fill(path)
    monkeypatch.setattr(
        "tooltap.daemon.journal.sqlite.repair.check_file", lambda _: [Damage("events", "event 7 is damaged")]
    )
    with pytest.raises(JournalError, match=r"the repaired journal .* is damaged too: event 7 is damaged"):
        repair(path)
    assert await opened(path) == {one.seq: one.body for one in before}


@pytest.mark.anyio
async def test_journal_that_is_a_link_is_the_file_it_names(tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    (tmp_path / "files").mkdir()
    theirs, link = tmp_path / "files" / "theirs", tmp_path / "links" / "journal.db"
    theirs.write_text("not ours")
    theirs.chmod(0o644)
    link.symlink_to(theirs)
    with pytest.raises(JournalError, match="is not a tooltap journal"):
        await SqliteJournal.open(link)
    assert theirs.stat().st_mode & 0o777 == 0o644
    assert [one.name for one in (tmp_path / "files").iterdir()] == ["theirs"]
    assert [one.name for one in (tmp_path / "links").iterdir()] == ["journal.db"]

    link.unlink()
    real = tmp_path / "files" / "real.db"
    link.symlink_to(real)
    journal = await SqliteJournal.open(link)
    with pytest.raises(JournalError, match="is used by another daemon"):
        await SqliteJournal.open(real)
    assert high_water_path(real).exists()
    await journal.close()
