"""Answers while the daemon still reads the session files that were there before its start."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import here
from tests.daemon.running import running
from tooltap.daemon.taps.follow.follower import Follower
from tooltap.protocol.stats import BackfillStatistics, FollowStatistics


@pytest.mark.parametrize("command", ["sessions", "usage", "files", "calls", "waiting", "search x"])
def test_answer_says_that_it_is_incomplete(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """How far a backfill has come is stated here, as a real one is over at any time."""
    (tmp_path / "claude").mkdir()
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "claude"))
    complete = False

    def statistics(_: Follower) -> FollowStatistics:
        backfill = BackfillStatistics(files=173, files_done=12, bytes=9, bytes_done=1, complete=complete)
        return FollowStatistics(files=173, open=1, waiting=161, agents={}, backfill=backfill, unwatched={})

    monkeypatch.setattr(Follower, "statistics", statistics)
    with running(tmp_path, follow={"agents": ["claude"]}) as daemon:
        said = here(*command.split(), "--socket", daemon.path).stderr.decode()
        assert "12 of 173 session files are read so far: this is not everything yet\n" in said
        complete = True
        assert "so far" not in here(*command.split(), "--socket", daemon.path).stderr.decode()
