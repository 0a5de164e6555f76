"""OpenClaw, which writes Pi's session files: they are followed under its own name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.daemon.taps.following import FIXTURES, Follower, append, lines_of
from tooltap.normalizers.catalog.registry import product_names, provider_of_fork

EDIT = FIXTURES / "pi-session" / "pi-0.73.1" / "edit.jsonl"


def test_openclaw_has_a_name_of_its_own() -> None:
    assert product_names()["openclaw"] == "OpenClaw"
    assert provider_of_fork("openclaw") == "openclaw"


@pytest.mark.process
def test_sessions_are_followed_under_its_name(tmp_path: Path) -> None:
    follower = Follower(tmp_path, agents=["openclaw"], backfill="all")
    follower.environment["OPENCLAW_STATE_DIR"] = str(tmp_path / "state")
    place = tmp_path / "state" / "agents" / "main" / "sessions" / "one.jsonl"
    place.parent.mkdir(parents=True)
    append(place, lines_of(EDIT))
    with follower:
        stats = follower.wait_stats(lambda stats: [one["lines"] for one in stats["perStream"]] == [len(lines_of(EDIT))])
        events = follower.events_when(lambda events: any(event["kind"] == "tool-result" for event in events))

    assert stats["following"]["agents"] == {"openclaw": 1}
    assert {(event["dialect"], event["provider"]) for event in events} == {("pi-session", "openclaw")}
