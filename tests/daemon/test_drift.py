"""The daemon looks at what agents print: counters in `stats`, one warning for what is new."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from structlog.testing import capture_logs

from tests.cli.command import here
from tests.daemon.running import running
from tests.traces.altering import FIXTURES, altered, rename

SHELL = FIXTURES / "codex-exec" / "codex-0.169" / "shell-fails.jsonl"
GONE = "$<item.completed>.item<command_execution>.aggregated_output"


def drift_of(path: Path) -> dict[str, Any]:
    drift: dict[str, Any] = json.loads(here("stats", "--json", "--socket", path).stdout)["drift"]
    return drift


def test_known_lines_are_counted_and_found_to_be_known(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        assert here("ingest", "--socket", daemon.path, SHELL).returncode == 0

        drift = drift_of(daemon.path)
        finished = here("drift", "--socket", daemon.path)

    assert drift["findings"] == []
    [agent] = drift["agents"]
    assert (agent["provider"], agent["streams"], agent["lines"], agent["calls"]) == ("codex", 1, 6, 1)
    assert (finished.returncode, finished.stdout) == (0, b"")


def test_what_is_new_is_in_stats_and_in_the_log_once(tmp_path: Path) -> None:
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


def test_files_and_a_socket_together_are_wrong_usage(tmp_path: Path) -> None:
    finished = here("drift", "--socket", tmp_path / "x.sock", SHELL)

    assert finished.returncode == 2
    assert finished.stderr.startswith(b"tooltap: give files, or the socket of a daemon, not both")
