"""Sessions of small homes and streams have the right turns, tokens, costs, titles, projects and origins."""

from __future__ import annotations

import json
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.cases.table import HOMES, STREAMS, TORN, Right
from tests.cli.command import here
from tests.daemon.running import running
from tests.daemon.taps.test_follow_all import Everything, done

CASES = Path(__file__).parent


def lay_out(case: str, home: Path) -> None:
    """Copy a case into a home. A database is built from its SQL."""
    shutil.copytree(CASES / "homes" / case, home, dirs_exist_ok=True)
    for script in home.rglob("*.sql"):
        with sqlite3.connect(script.with_suffix(".db")) as database:
            database.executescript(script.read_text())
        database.close()
        script.unlink()


def facts(session: dict[str, Any], right: Right) -> Right:
    """What the reply says about the session, as far as the right values are stated."""
    stated = {
        "turns": session["turns"],
        "prompts": session.get("inputTokens", 0),
        "output": session.get("outputTokens", 0),
        "cost": None if "costUsd" not in session else pytest.approx(session["costUsd"], abs=1e-4),
        "title": session.get("title"),
        "project": session.get("project"),
        "forked_from": session.get("forkedFrom"),
        "milliseconds": session.get("durationMs"),
        "status": session["status"],
    }
    checked = {name: value for name, value in stated.items() if getattr(right, name) is not None}
    return Right(right.session and session["session"], **checked)


def check(sessions: list[dict[str, Any]], rights: tuple[Right, ...]) -> None:
    by_id = {session["session"]: session for session in sessions}
    if len(rights) == 1 and not rights[0].session:
        assert [facts(session, rights[0]) for session in sessions] == list(rights)
        return
    assert by_id.keys() == {right.session for right in rights}
    assert [facts(by_id[right.session], right) for right in rights] == list(rights)


@pytest.mark.parametrize("case", HOMES)
def test_home(case: str, tmp_path: Path) -> None:
    follower = Everything(tmp_path, backfill="all")
    follower.environment["XDG_DATA_HOME"] = str(follower.home / ".local" / "share")
    lay_out(case, follower.home)
    with follower:
        follower.wait_stats(lambda stats: done(stats) and stats["following"]["files"] > 0)
        with follower.connect() as wire:
            sessions = wire.ask("sessions", limit=100)["sessions"]
            used = wire.ask("usage")["total"]

    check(sessions, HOMES[case])
    for field in ("inputTokens", "outputTokens"):
        assert used[field] == sum(session.get(field, 0) for session in sessions)


@pytest.mark.parametrize("case", STREAMS)
def test_stream(case: str, tmp_path: Path) -> None:
    place = CASES / "streams" / case
    files = sorted(place.iterdir()) if place.is_dir() else [place.with_name(f"{case}.jsonl")]
    with running(tmp_path) as daemon:
        for file in files:
            ended = here("ingest", "--socket", daemon.path, file)
            assert ended.returncode == 0, ended.stderr
        with daemon.connect() as wire:
            sessions = wire.ask("sessions", limit=100)["sessions"]

    check(sessions, STREAMS[case])


@pytest.mark.parametrize("path", sorted((CASES / "streams").rglob("*.jsonl")), ids=lambda path: path.stem)
def test_every_line_is_read(path: Path) -> None:
    events = [json.loads(line) for line in here("normalize", path).stdout.splitlines()]

    assert events
    assert [one["reason"] for one in events if one["kind"] == "unparsed"] == TORN.get(path.stem, [])
