"""Drift detection in the daemon: counters in `stats`, and one warning per finding."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

from structlog.testing import capture_logs

from tests.cli.command import here
from tests.daemon.running import running
from tests.traces.drift.altering import FIXTURES, altered, rename
from tooltap.daemon.taps.stream_ids import recording_id
from tooltap.traces.drift.drift import STRIDE, Drift
from tooltap.traces.drift.shapes import Change

SHELL = FIXTURES / "codex-exec" / "codex-0.169" / "shell-fails.jsonl"
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


def test_new_shape_is_in_stats_and_logged_once(tmp_path: Path) -> None:
    changed = altered(tmp_path / "changed.jsonl", SHELL, rename("aggregated_output", "output"))
    with capture_logs() as logs, running(tmp_path) as daemon:
        for stream in ("one", "two", "three"):
            assert here("ingest", "--socket", daemon.path, "--stream", stream, changed).returncode == 0

        findings = drift_of(daemon.path)["findings"]
        finished = here("drift", "--socket", daemon.path)

    [gone] = [one for one in findings if (one["kind"], one["place"]) == ("vanished-key", GONE)]
    assert (gone["severity"], gone["provider"], gone["first"]) == ("alarm", "codex", "one:4")
    assert finished.returncode == 1
    assert GONE in finished.stdout.decode()
    [logged] = [entry for entry in logs if entry.get("place") == GONE]
    assert logged["log_level"] == "warning"
    assert (logged["provider"], logged["first"]) == ("codex", "one:4")


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
        findings = drift_of(daemon.path)["findings"]

    assert [one["provider"] for one in findings if (one["kind"], one["place"]) == ("vanished-key", GONE)] == ["codex"]


def test_odd_type_is_harmless(tmp_path: Path) -> None:
    lines = tmp_path / "lines.jsonl"
    lines.write_text('{"type":["item"],"item":{}}\n{"type":{"a":1}}\n' + SHELL.read_text())
    with capture_logs() as logs, running(tmp_path) as daemon:
        assert here("ingest", "--socket", daemon.path, "--dialect", "codex-exec", lines).returncode == 0
        findings = drift_of(daemon.path)["findings"]

    assert not [entry for entry in logs if entry["log_level"] == "error"]
    assert ("unparsed", 2) in [(one["kind"], one["count"]) for one in findings]


def test_failing_drift_detection_loses_no_line(tmp_path: Path) -> None:
    def broken(self: Drift, *arguments: object) -> list[Change]:
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
        findings = drift_of(daemon.path)["findings"]

    assert "8 lines gave no message and no call" in {one["text"] for one in findings if one["kind"] == "zero-yield"}


def test_files_and_socket_exclude_each_other(tmp_path: Path) -> None:
    finished = here("drift", "--socket", tmp_path / "x.sock", SHELL)

    assert finished.returncode == 2
    assert finished.stderr.startswith(b"tooltap: PATH and --socket exclude each other")
