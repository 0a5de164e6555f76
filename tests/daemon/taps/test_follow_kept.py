"""What came from a store is kept; what its size has cost is read again when the user asks, and nothing twice."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.cli.command import here
from tests.daemon.taps.following import CLAUDE, Follower, append, lines_of, make_old, named, prompt_line
from tests.daemon.taps.test_follow_moved import sessions
from tooltap.daemon.taps.stream_ids import recording_id

LINES = lines_of(CLAUDE)
NAMES = ("session-a", "session-b")


class Kept(Follower):
    """Two sessions. A file that has not changed for a second is at rest, so its stream ends."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, backfill="all", idle=0.1)
        self.settings |= {"retention_interval": 0.05, "suspend_timeout": 0.5}
        for name in NAMES:
            append(self.path(name), named(LINES, name))
            make_old(self.path(name), 60.0)

    def path(self, name: str) -> Path:
        return self.projects / f"{name}.jsonl"

    def begin_again(self, **settings: Any) -> None:
        self.settings |= settings
        self.restart(self.stop)

    def ended(self, number: int = len(NAMES)) -> None:
        self.wait_stats(lambda stats: stats["streams"] == {"open": 0, "suspended": 0, "ended": number})

    def until(self, condition: Callable[[dict[str, dict[str, Any]]], bool]) -> dict[str, dict[str, Any]]:
        self.wait_stats(lambda _: condition(sessions(self)))
        return sessions(self)

    def ask(self, op: str, **fields: Any) -> dict[str, Any]:
        with self.connect() as wire:
            reply: dict[str, Any] = wire.ask(op, **fields)
            return reply


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    kept = Kept(tmp_path)
    with kept:
        kept.ended()
        yield kept


def figures(row: dict[str, Any]) -> dict[str, Any]:
    """What the events of a session say; not their numbers."""
    return {key: value for key, value in row.items() if key not in ("firstSeq", "lastSeq", "state", "pinned")}


def test_what_the_agent_deletes_is_kept(kept: Kept) -> None:
    before = sessions(kept)
    kept.begin_again(retention_days=1e-7)
    kept.path("session-a").unlink()
    kept.begin_again()

    assert sessions(kept) == before


def test_deleted_by_size_and_read_again(kept: Kept) -> None:
    before = sessions(kept)
    kept.begin_again(retention_bytes=1)
    kept.until(lambda found: not found)
    kept.begin_again(retention_bytes=0)
    assert kept.ask("usage")["rows"] == []
    assert sessions(kept) == {}  # not by itself

    kept.path("session-b").unlink()
    kept.begin_again()
    assert kept.ask("reread", session=["session-"], agent=["codex"]) == {"files": 0, "missing": 0}
    assert kept.ask("reread", session=["session-"]) == {"files": 1, "missing": 1}
    assert kept.ask("reread") == {"files": 0, "missing": 1}
    after = kept.until(lambda found: bool(found) and found["session-a"]["events"] == before["session-a"]["events"])
    assert list(after) == ["session-a"]
    assert figures(after["session-a"]) == figures(before["session-a"])


def test_body_comes_back_if_the_session_is_deleted_and_read_again(kept: Kept) -> None:
    """Reading it again restores no body of events that are there: nothing may be there twice."""
    socket, long = kept.settings["socket"], Random(1).randbytes(500_000).hex()
    for name, text, seconds in (("session-a", long, -1_000), ("session-b", "later", 0)):
        append(kept.path(name), named([prompt_line(text, seconds)], name))
    events = kept.events_when(lambda events: bool(outputs_of(events)) and "later" in texts_of(events))
    [body] = outputs_of(events)
    kept.ended()
    kept.begin_again()  # what was in the log is in the file
    kept.begin_again(retention_bytes=Path(kept.settings["journal"]).stat().st_size - 200_000)
    kept.wait_stats(lambda stats: stats["journal"]["retention"]["size"]["bodies"] == 1)
    assert set(sessions(kept)) == set(NAMES)
    kept.begin_again(retention_bytes=0)

    assert kept.ask("reread") == {"files": 0, "missing": 0}
    assert not is_stored(kept, body)
    assert here("sessions", "rm", "session-a", "--socket", socket).returncode == 0
    assert here("follow", "reread", "session-a", "--socket", socket).stdout == b"1 file is read again\n"
    kept.until(lambda found: len(found) == 2)
    kept.ended()
    assert is_stored(kept, body)


def outputs_of(events: Iterable[dict[str, Any]]) -> set[str]:
    return {ref["outputId"] for event in events for ref in (event.get("outputs") or {}).values()}


def texts_of(events: Iterable[dict[str, Any]]) -> set[str]:
    return {event.get("text", "") for event in events}


def is_stored(kept: Kept, output_id: str) -> bool:
    with kept.connect() as wire:
        wire.send("output", id=1, outputId=output_id)
        reply = wire.until("reply")[-1]
    assert reply["ok"] or "was removed on" in reply["error"]["message"]
    return bool(reply["ok"])


def test_what_is_there_is_not_read_again(kept: Kept) -> None:
    before = sessions(kept)
    assert kept.ask("reread") == {"files": 0, "missing": 0}
    for path in map(kept.path, NAMES):
        make_old(path, 30.0)
    kept.begin_again()
    assert sessions(kept) == before


def test_deleted_session_that_grows_is_read_as_a_whole(kept: Kept) -> None:
    before = figures(sessions(kept)["session-a"])
    kept.begin_again(retention_bytes=1)
    kept.until(lambda found: not found)
    kept.begin_again(retention_bytes=0)
    make_old(kept.path("session-b"), 10.0)  # which is no reason to read it
    append(kept.path("session-a"), named([prompt_line("On day 45", 0)], "session-a"))

    after = kept.until(lambda found: bool(found) and found["session-a"]["turns"] == before["turns"] + 1)
    assert list(after) == ["session-a"]
    same = ("title", "calls", "inputTokens", "outputTokens", "firstTs", "streams")
    assert [after["session-a"].get(key) for key in same] == [before.get(key) for key in same]
    events = kept.events_when(lambda events: any(event.get("text") == "On day 45" for event in events))
    assert [event["code"] for event in events if event["kind"] == "notice"] == []


def test_session_that_is_deleted_while_its_file_is_open_is_read_as_a_whole(kept: Kept) -> None:
    before = figures(sessions(kept)["session-a"])
    kept.begin_again(**{"follow.idle": 60})
    kept.path("session-a").touch()
    kept.wait_stats(lambda stats: stats["following"]["open"] == 1)
    assert kept.ask("remove", session="session-a")["events"] == before["events"]
    append(kept.path("session-a"), named([prompt_line("On day 45", 0)], "session-a"))

    after = kept.until(lambda found: found.get("session-a", {}).get("turns") == before["turns"] + 1)
    same = ("title", "calls", "inputTokens", "outputTokens", "firstTs", "streams")
    assert [after["session-a"].get(key) for key in same] == [before.get(key) for key in same]
    events = kept.events_when(lambda events: any(event.get("text") == "On day 45" for event in events))
    assert [event["code"] for event in events if event["kind"] == "notice"] == []


def test_pinned_session_outlives_retention(kept: Kept) -> None:
    socket = kept.settings["socket"]
    assert here("sessions", "pin", "session-a", "--socket", socket).stdout == b"session-a: pinned\n"
    assert b"pinned" in here("sessions", "--socket", socket).stdout
    before = sessions(kept)
    assert [one.get("pinned") for one in before.values()].count(True) == 1

    kept.begin_again(retention_bytes=1)
    assert kept.until(lambda found: len(found) == 1)["session-a"] == before["session-a"]
    kept.begin_again()
    assert sessions(kept) == {"session-a": before["session-a"]}
    assert here("sessions", "unpin", "session-a", "--socket", socket).stdout == b"session-a: not pinned\n"
    kept.until(lambda found: not found)


def from_backup(journal: Path) -> Callable[[], object]:
    """Back up, and return what restores the backup."""
    backup = journal.with_name("backup.db")
    assert here("journal", "backup", backup, "--journal", journal).returncode == 0
    return lambda: backup.replace(journal)


def from_archive(journal: Path) -> Callable[[], object]:
    archive = here("journal", "export", "--archive", "--no-redact", "--journal", journal).stdout

    def restore() -> None:
        restored = here("journal", "import", "-", "--journal", journal, stdin=archive)
        assert (restored.returncode, restored.stdout) == (
            0,
            b"%d events of 2 streams restored\n" % archive.count(b'{"seq"'),
        )

    return restore


@pytest.mark.parametrize("save", [from_backup, from_archive])
def test_archives_bring_sessions_back_whose_files_are_gone(
    save: Callable[[Path], Callable[[], object]], kept: Kept, tmp_path: Path
) -> None:
    """What is still in a file is not read twice, also if the whole home has moved."""
    before = sessions(kept)
    journal = Path(kept.settings["journal"])
    restore = save(journal)
    kept.stop()
    kept.wait()
    for file in tmp_path.glob("journal.db*"):
        file.unlink()
    restore()
    kept.path("session-a").unlink()
    kept.projects.rename(kept.projects.with_name("-elsewhere"))
    kept.projects = kept.projects.with_name("-elsewhere")
    append(kept.path("session-b"), named([prompt_line("After the backup", 0)], "session-b"))
    kept.start()

    after = kept.until(lambda found: found["session-b"]["turns"] == before["session-b"]["turns"] + 1)
    assert after["session-a"] == before["session-a"]
    same = ("calls", "inputTokens", "outputTokens", "streams", "firstSeq")
    assert [after["session-b"].get(key) for key in same] == [before["session-b"].get(key) for key in same]


def test_reread_by_command(kept: Kept) -> None:
    socket = kept.settings["socket"]
    nothing = b"there is nothing to read again: retention has not deleted it, or it never came from a file\n"
    assert here("follow", "reread", "--all", "--socket", socket).stdout == nothing
    kept.begin_again(retention_bytes=1)
    kept.until(lambda found: not found)
    kept.begin_again(retention_bytes=0)

    assert here("follow", "reread", "session-b", "--socket", socket).stdout == b"1 file is read again\n"
    kept.until(lambda found: list(found) == ["session-b"])
    assert here("follow", "reread", "--agent", "claude", "--socket", socket).stdout == b"1 file is read again\n"
    kept.until(lambda found: set(found) == set(NAMES))
    both = here("follow", "reread", "--all", "session-a", "--socket", socket)
    assert (both.returncode, json.dumps(sorted(sessions(kept)))) == (2, json.dumps(sorted(NAMES)))
    assert sessions(kept)["session-a"]["streams"] == [recording_id(str(kept.path("session-a")))]
