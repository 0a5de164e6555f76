"""What held the daemon is in its statistics, the doctor's findings and the metrics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.cli.command import here
from tests.daemon.running import running
from tooltap.daemon.config import Config
from tooltap.daemon.doctor import log, stalls

LONGEST = {"what": "stream s line 7", "ms": 400, "cpuMs": 390, "at": 1, "place": "a.py:1 f"}


def test_statistics_of_a_daemon_that_was_never_held(tmp_path: Path) -> None:
    with running(tmp_path, stall_seconds=3_600.0) as daemon:  # a busy machine holds any daemon up for a moment
        found = daemon.stats()
        printed = here("stats", "--socket", daemon.path).stdout.decode()

    assert found["loop"] == {"limitMs": 3_600_000, "stalls": 0, "longest": None, "recent": []}
    assert Config().stall_seconds == 0.25
    assert found["log"] == {"leftOut": 0}
    assert stalls(found).level == log(found).level == "ok"
    assert "held up" not in printed


def test_findings_name_what_held_the_daemon() -> None:
    held: dict[str, Any] = {"limitMs": 250, "stalls": 2, "longest": LONGEST, "recent": [LONGEST]}
    found = stalls({"loop": held})

    assert found.level == "note"
    assert found.text == "the daemon did not reply for more than 250 ms 2 times, at worst 400 ms: stream s line 7"
    assert "busy" not in (found.advice or "")
    held |= {"stalls": 1, "longest": {**LONGEST, "cpuMs": 20}}
    assert " once, at worst" in stalls({"loop": held}).text
    assert stalls({"loop": held}).advice == "The machine was busy."


def test_findings_name_a_log_that_is_not_whole() -> None:
    assert "3 lines" in log({"log": {"leftOut": 3}}).text


def test_older_daemons_have_no_such_statistics() -> None:
    assert stalls({}).level == log({}).level == "ok"
