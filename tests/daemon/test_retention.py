"""Retention by a daemon of its own process, as its configuration file says: what it removes, and what it says of it on
the socket, over HTTP, and in `tooltap stats` and `doctor`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.cli.command import here
from tests.daemon.constants import VARIABLE
from tests.daemon.events import commit, message
from tests.daemon.processes import DaemonProcess
from tests.daemon.running import running
from tests.daemon.test_files_in_use import complaints, statistics, until
from tests.daemon.test_files_in_use import own_spools as own_spools
from tests.daemon.web.browsing import Browser
from tooltap.daemon.journal.open import open_journal, parse_place
from tooltap.daemon.system.clock import wall_clock
from tooltap.normalizers.core.items import OutputChunk

DAY = 86_400_000
LONG = 400_000
"""Bytes of a text that does not become shorter when it is compressed."""
OFTEN = {VARIABLE: json.dumps({"retention_interval": 0.05})}


def store(folder: Path, sessions: dict[str, int], *, pinned: str, size: int = 10, body: bool = False) -> None:
    """Store sessions of one message. `sessions`: session -> when it was. `body`: with an output body."""
    random = Random(1)
    with capture_logs(), running(folder, retention_days=0) as daemon, daemon.connect() as wire:
        for one, happened in sessions.items():
            chunks = [OutputChunk(f"{one}:1:o0", 0, random.randbytes(LONG), "image/png")] * body
            said = message(random.randbytes(size // 2).hex(), one, session=one, ts=happened)
            stored: dict[str, Any] = {"lines": 1, "state": "ended", "updated": happened}
            daemon.commit(commit(*chunks, said, stream=one, **stored))
        wire.ask("pin", session=pinned, pinned=True)


def served(folder: Path, settings: str, journal: str | None = None) -> DaemonProcess:
    config = folder / "config.toml"
    config.write_text(f'{settings}\n[web]\nenabled = true\nlisten = "127.0.0.1:0"\ntoken_file = "{folder / "token"}"\n')
    return DaemonProcess(folder, "--config", config, journal=journal, **OFTEN).wait_ready()


def until_removed(daemon: DaemonProcess, why: str, **figures: int) -> None:
    """Wait for the figures of what was removed; they are the same over HTTP."""

    def removed() -> dict[str, Any]:
        found: dict[str, Any] = statistics(daemon)["journal"]["retention"][why]
        return found

    until(lambda: figures.items() <= removed().items())
    assert over_http(daemon, "/api/stats")["journal"]["retention"][why] == removed()


def over_http(daemon: DaemonProcess, address: str) -> Any:
    [url] = [one["web"] for one in daemon.log if one["event"] == "listening"]
    token = (daemon.path.parent.parent / "token").read_text().strip()
    return Browser(url, token).get(address).json


def sessions(daemon: DaemonProcess) -> list[str]:
    """The sessions that are left, on the socket and over HTTP."""
    with daemon.connect() as wire:
        found = sorted(one["session"] for one in wire.ask("sessions", empty=True)["sessions"])
    assert sorted(one["session"] for one in over_http(daemon, "/api/sessions?empty=true")["sessions"]) == found
    return found


def said_by_stats(daemon: DaemonProcess) -> str:
    return " ".join(here("stats", "--socket", daemon.path).stdout.decode().split())


def said_by_doctor(daemon: DaemonProcess) -> str:
    found = json.loads(here("doctor", "--json", "--socket", daemon.path).stdout)["findings"]
    return "\n".join(one["text"] for one in found if one["area"] == "journal")


def test_what_happened_long_ago_is_removed_unless_it_is_pinned(tmp_path: Path) -> None:
    now = wall_clock()
    store(tmp_path, {"old": now - 40 * DAY, "kept": now - 40 * DAY, "new": now - 20 * DAY}, pinned="kept")
    with served(tmp_path, "retention_days = 30") as daemon:
        until_removed(daemon, "age", sessions=1, events=1)
        assert sessions(daemon) == ["kept", "new"]
        assert "retention_days has removed 1 session, 1 event" in said_by_stats(daemon)
        assert "retention has removed 1 session since the journal was created" in said_by_doctor(daemon)
        assert complaints(daemon) == []


def test_bodies_are_removed_before_sessions_and_the_oldest_sessions_whole(tmp_path: Path) -> None:
    now = wall_clock()
    happened = {name: now - age * DAY for name, age in (("kept", 9), ("a", 8), ("b", 7), ("c", 6))}
    store(tmp_path, happened, pinned="kept", size=2 * LONG, body=True)
    with served(tmp_path, "retention_bytes = 4600000") as daemon:
        until(lambda: statistics(daemon)["journal"]["retention"]["size"]["bodies"])
        until_removed(daemon, "size", sessions=0, events=0)
        assert sessions(daemon) == ["a", "b", "c", "kept"]
        assert "0 sessions, 0 events" in said_by_stats(daemon)
        daemon.process.terminate()
        daemon.wait()
    with served(tmp_path, "retention_bytes = 3600000") as daemon:
        until(lambda: statistics(daemon)["journal"]["retention"]["size"]["sessions"])
        assert sessions(daemon) == ["b", "c", "kept"]
        assert "to keep the journal under `retention_bytes` (3,600,000 bytes)" in said_by_doctor(daemon)


@pytest.mark.parametrize("kind", ["sqlite", "nats"])
def test_session_is_removed_whole_and_not_before_all_its_streams_have_ended(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    journal = str(request.getfixturevalue("nats_place") if kind == "nats" else tmp_path / "journal.db")

    async def store_streams() -> None:
        now = wall_clock()
        opened = await open_journal(parse_place(journal), "process")
        for number, (stream, session, state) in enumerate(
            [("first", "both", "suspended"), ("second", "both", "ended"), ("other", "other", "ended")]
        ):
            said = message(stream, stream, session=session, ts=now + number)
            await opened.commit(commit(said, stream=stream, state=state, updated=now))
        await opened.close()

    asyncio.run(store_streams())
    with served(tmp_path, "retention_bytes = 1", journal) as daemon:
        until_removed(daemon, "size", sessions=1)
        kept = over_http(daemon, "/api/events?session=both")["events"]
        assert [one["text"] for one in kept] == ["first", "second"]
        with daemon.connect() as wire:
            wire.send("ingest", stream="first", framing="tapped", dialect="acp")
            wire.send("end")
            wire.until("done")
        until(lambda: not over_http(daemon, "/api/sessions?empty=true")["sessions"])
        until(lambda: not over_http(daemon, "/api/events?session=both")["events"])
