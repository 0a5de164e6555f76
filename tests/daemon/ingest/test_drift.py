"""Drift detection in the daemon: counters in `stats`, and one warning per finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast
from unittest import mock

import anyio
import pytest
from structlog.testing import capture_logs

from tests.cli.command import here
from tests.daemon.running import running
from tests.traces.drift.altering import FIXTURES, altered, rename
from tests.traces.drift.test_drift import RECORDED
from tooltap.daemon.ingest import drift_findings as findings
from tooltap.daemon.ingest.drift_findings import Findings
from tooltap.daemon.journal.interface import Journal, JournalError
from tooltap.daemon.taps.stream_ids import recording_id
from tooltap.traces.drift.baselines import Origin
from tooltap.traces.drift.drift import STRIDE, Drift, Finding
from tooltap.traces.drift.shapes import ShapeChange

SHELL = FIXTURES / "codex-exec" / "codex-0.169" / "shell-fails.jsonl"
MINE = Origin("acp", "mine", "1")
GONE = "$<item.completed>.item<command_execution>.aggregated_output"


def drift_of(path: Path) -> dict[str, Any]:
    drift: dict[str, Any] = json.loads(here("stats", "--json", "--socket", path).stdout)["drift"]
    return drift


def test_known_lines_are_counted_as_known(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        assert here("ingest", "--socket", daemon.path, SHELL).returncode == 0

        drift = drift_of(daemon.path)
        finished = here("drift", "--socket", daemon.path)

    assert drift["findings"] == []
    [agent] = drift["agents"]
    assert (agent["provider"], agent["streams"], agent["lines"], agent["calls"]) == ("codex", 1, 6, 1)
    assert (finished.returncode, finished.stdout) == (0, b"")


@pytest.mark.parametrize("folder", RECORDED, ids=lambda folder: f"{folder.parent.name}/{folder.name}")
def test_recordings_of_one_version_raise_no_alarm(folder: Path, tmp_path: Path) -> None:
    """Those of an agent as one user has them: the recordings of all agents together would hide what one lacks."""
    with running(tmp_path) as daemon:
        here("ingest", "--socket", daemon.path, "--dialect", folder.parent.name, folder)
        drift = drift_of(daemon.path)

    assert sum(agent["streams"] for agent in drift["agents"]) > 0
    assert [one for one in drift["findings"] if one["severity"] == "alarm"] == []


def test_new_shape_is_in_stats_and_logged_once(tmp_path: Path) -> None:
    changed = altered(tmp_path / "changed.jsonl", SHELL, rename("aggregated_output", "output"))
    with capture_logs() as logs, running(tmp_path) as daemon:
        for stream in ("one", "two", "three"):
            assert here("ingest", "--socket", daemon.path, "--stream", stream, changed).returncode == 0

        found = drift_of(daemon.path)["findings"]
        finished = here("drift", "--socket", daemon.path)

    [gone] = [one for one in found if (one["kind"], one["place"]) == ("vanished-key", GONE)]
    assert (gone["severity"], gone["provider"], gone["first"]) == ("alarm", "codex", "one:4")
    assert finished.returncode == 1
    assert GONE in finished.stdout.decode()
    [logged] = [entry for entry in logs if entry.get("place") == GONE]
    assert (logged["log_level"], logged["provider"], logged["first"]) == ("debug", "codex", "one:4")
    warnings = [(entry["event"], set(entry)) for entry in logs if entry["log_level"] == "warning"]
    assert warnings == [
        (
            "new to this version of tooltap: some output of codex; `tooltap drift` shows it",
            {"event", "log_level", "area"},
        )
    ]


def test_change_after_many_known_lines_is_found_by_sampling(tmp_path: Path) -> None:
    """The top-level keys stay the same, so only every seventeenth line is checked."""
    before, after = tmp_path / "before.jsonl", tmp_path / "after.jsonl"
    before.write_bytes(SHELL.read_bytes() * 20)
    changed = altered(tmp_path / "changed.jsonl", SHELL, rename("aggregated_output", "output"))
    after.write_bytes(changed.read_bytes() * 2 * STRIDE)
    with running(tmp_path) as daemon:
        assert here("ingest", "--socket", daemon.path, before).returncode == 0
        assert drift_of(daemon.path)["findings"] == []
        assert here("ingest", "--socket", daemon.path, after).returncode == 0
        found = drift_of(daemon.path)["findings"]

    assert [one["provider"] for one in found if (one["kind"], one["place"]) == ("vanished-key", GONE)] == ["codex"]


def test_odd_type_is_harmless(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"type":["item"],"item":{}}\n{"type":{"a":1}}\n' + SHELL.read_text())
    with capture_logs() as logs, running(tmp_path) as daemon:
        assert here("ingest", "--socket", daemon.path, "--dialect", "codex-exec", lines).returncode == 0
        found = drift_of(daemon.path)["findings"]

    assert not [entry for entry in logs if entry["log_level"] == "error"]
    assert ("unparsed", 2) in [(one["kind"], one["count"]) for one in found]


def test_failing_drift_detection_loses_no_line(tmp_path: Path) -> None:
    def broken(self: Drift, *arguments: object) -> list[ShapeChange]:
        raise RuntimeError("a fault")

    with mock.patch.object(Drift, "changes", broken), capture_logs() as logs, running(tmp_path) as daemon:
        finished = here("ingest", "--socket", daemon.path, "--stats", SHELL)

    assert finished.returncode == 0
    assert b"6 lines" in finished.stderr
    assert [entry["stream"] for entry in logs if entry["log_level"] == "error"] == [recording_id(str(SHELL))]


def test_silent_session_is_an_alarm_before_it_ends(tmp_path: Path) -> None:
    """The lines are recognised, but their type was renamed: 8 lines where `silent_lines` is 2."""
    lines = b'{"type":"thread.started","thread_id":"t"}\n' + b'{"type":"ItemCompleted","item":{}}\n' * 7
    with running(tmp_path, silent_lines=2) as daemon, daemon.connect() as wire:
        wire.send("ingest", stream="silent", dialect="codex-exec")
        wire.write(lines)
        while wire.until("ack")[-1]["lines"] < 8:
            pass
        found = drift_of(daemon.path)["findings"]

    assert "8 lines gave no message and no call" in {one["text"] for one in found if one["kind"] == "zero-yield"}


def test_files_and_socket_exclude_each_other(tmp_path: Path) -> None:
    finished = here("drift", "--socket", tmp_path / "x.sock", SHELL)

    assert finished.returncode == 2
    assert finished.stderr.startswith(b"tooltap: PATH and --socket exclude each other")


@pytest.mark.parametrize("journal", ["sqlite", "nats"])
def test_findings_survive_a_restart(tmp_path: Path, journal: str, request: pytest.FixtureRequest) -> None:
    place = {} if journal == "sqlite" else {"journal": str(request.getfixturevalue("nats_place"))}
    changed = altered(tmp_path / "changed.jsonl", SHELL, rename("aggregated_output", "output"))

    def gone(path: Path) -> list[tuple[str, int]]:
        return [(one["severity"], one["count"]) for one in drift_of(path)["findings"] if one["place"] == GONE]

    with running(tmp_path, **place) as daemon:
        assert here("ingest", "--socket", daemon.path, "--stream", "one", changed).returncode == 0
        assert gone(daemon.path) == [("alarm", 1)]
    with capture_logs() as logs, running(tmp_path, **place) as daemon:
        assert gone(daemon.path) == [("alarm", 1)]
        assert here("drift", "--socket", daemon.path).returncode == 1
        assert here("ingest", "--socket", daemon.path, "--stream", "two", changed).returncode == 0
        assert gone(daemon.path) == [("alarm", 2)]
    assert not [entry for entry in logs if entry.get("place") == GONE]


def test_findings_survive_a_kill_once_they_were_shown(tmp_path: Path) -> None:
    changed = altered(tmp_path / "changed.jsonl", SHELL, rename("aggregated_output", "output"))
    with running(tmp_path) as daemon:
        assert here("ingest", "--socket", daemon.path, changed).returncode == 0
        shown = drift_of(daemon.path)["findings"]
        copy = tmp_path / "killed"
        copy.mkdir()
        for name in ("journal.db", "journal.db-wal"):  # the files of the search index come and go
            (copy / name).write_bytes((tmp_path / name).read_bytes())
    with running(copy) as daemon:
        assert drift_of(daemon.path)["findings"] == shown


class Notes:
    """As much of a journal as `Findings` needs."""

    def __init__(self, *, broken: bool = False) -> None:
        self.notes: dict[str, bytes] = {}
        self.stored = 0
        self.broken = broken

    async def load_note(self, name: str) -> bytes | None:
        return self.notes.get(name)

    async def store_note(self, name: str, data: bytes) -> None:
        if self.broken:
            raise JournalError("the disk is full")
        self.stored += 1
        self.notes[name] = data


def drift_with(*places: str) -> Drift:
    drift = Drift(lambda dialect: [])
    for place in places:
        drift.add(MINE, Finding("alarm", "unparsed", *MINE, place, "lines that cannot be parsed", "x" * 100, "s:1"))
    return drift


def findings_in(journal: Notes, version: str = "1") -> set[str]:
    drift = Drift(lambda dialect: [])
    anyio.run(Findings(drift, cast(Journal, journal), version).load)
    return {finding.place for finding in drift.report().findings}


def test_findings_are_stored_once() -> None:
    journal = Notes()
    kept = Findings(drift_with("a"), cast(Journal, journal), "1")
    for _ in range(3):
        anyio.run(kept.store)

    assert (journal.stored, findings_in(journal)) == (1, {"a"})


def test_new_findings_are_stored_regularly_and_counts_when_they_are_shown() -> None:
    journal, drift = Notes(), drift_with("a")
    kept = Findings(drift, cast(Journal, journal), "1")
    anyio.run(kept.store_new)
    drift.add(MINE, drift.findings()[0])
    anyio.run(kept.store_new)
    assert journal.stored == 1
    anyio.run(kept.store)
    assert journal.stored == 2
    drift.merge(drift_with("b").take())
    anyio.run(kept.store_new)
    assert (journal.stored, findings_in(journal)) == (3, {"a", "b"})


def test_daemons_that_share_a_journal_add_their_findings() -> None:
    journal = Notes()
    for places in (("a", "b"), ("b", "c")):
        anyio.run(Findings(drift_with(*places), cast(Journal, journal), "1").store)

    assert findings_in(journal) == {"a", "b", "c"}


def test_findings_of_another_version_are_dropped() -> None:
    journal = Notes()
    anyio.run(Findings(drift_with("a"), cast(Journal, journal), "1").store)

    assert findings_in(journal, "2") == set()


def test_stored_findings_are_bounded() -> None:
    journal = Notes()
    with mock.patch.object(findings, "MAX_BYTES", 2_000):
        anyio.run(Findings(drift_with(*map(str, range(100))), cast(Journal, journal), "1").store)

    assert 0 < len(findings_in(journal)) < 20
    assert len(journal.notes["drift"]) <= 2_000


def test_unreadable_and_unwritable_findings_are_logged() -> None:
    journal = Notes(broken=True)
    journal.notes["drift"] = b"nonsense"
    kept = Findings(drift_with("a"), cast(Journal, journal), "1")
    with capture_logs() as logs:
        anyio.run(kept.load)
        anyio.run(kept.store)
        journal.broken = False
        anyio.run(kept.store)

    assert [entry["log_level"] for entry in logs] == ["warning"] * 4 + ["info"]
    assert findings_in(journal) == {"a"}
