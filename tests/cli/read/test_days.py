"""A day is the reader's: an evening's work in California is not of the next day, in any command."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.command import here, tooltap
from tests.daemon.running import Running, running

SESSION = "cccc0001-0000-4000-8000-000000000001"
TIMES = ("2026-11-20T04:00:02.000Z", "2026-11-20T07:30:02.000Z", "2026-11-20T10:00:02.000Z")
"""In California: 20:00 and 23:30 of the 19th, and 02:00 of the 20th."""


def lines() -> Iterator[bytes]:
    for number, ts in enumerate(TIMES, 1):
        about = {
            "parentUuid": None,
            "isSidechain": False,
            "userType": "external",
            "sessionId": SESSION,
            "cwd": "/w/app",
            "version": "2.1.330",
            "timestamp": ts,
        }
        yield json.dumps(
            {"type": "user", "uuid": f"u{number}", "message": {"role": "user", "content": f"evening {number}"}, **about}
        ).encode()
        message = {
            "id": f"m{number}",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-5",
            "content": [{"type": "text", "text": "ok"}],
            "stop_reason": "end_turn",
            "usage": {"input_tokens": 1_000, "output_tokens": 10},
        }
        yield json.dumps(
            {"type": "assistant", "uuid": f"a{number}", "requestId": f"r{number}", "message": message, **about}
        ).encode()


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("days")
    (folder / "midnight.jsonl").write_bytes(b"\n".join(lines()) + b"\n")
    with running(folder) as one:
        assert here("ingest", "--socket", one.path, folder / "midnight.jsonl").returncode == 0
        yield one


def told(daemon: Running, zone: str, command: str, *arguments: str) -> list[Any]:
    finished = tooltap(command, "--socket", daemon.path, "--json", *arguments, TZ=zone)
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line) for line in finished.stdout.splitlines()]


@pytest.mark.parametrize(
    ("zone", "days"),
    [
        ("America/Los_Angeles", {"2026-11-20": 1_000, "2026-11-19": 2_000}),
        ("UTC", {"2026-11-20": 3_000}),
        ("Pacific/Auckland", {"2026-11-20": 3_000}),
        ("Pacific/Marquesas", {"2026-11-20": 1_000, "2026-11-19": 2_000}),
    ],
)
def test_usage_is_of_the_readers_days(daemon: Running, zone: str, days: dict[str, int]) -> None:
    (found,) = told(daemon, zone, "usage")
    assert {row["key"]: row["inputTokens"] for row in found["rows"]} == days


def test_until_includes_its_day_in_every_command(daemon: Running) -> None:
    zone, day = "America/Los_Angeles", ("--since", "2026-11-19", "--until", "2026-11-19")
    (usage,) = told(daemon, zone, "usage", *day)
    assert usage["total"]["inputTokens"] == 2_000
    assert [one["session"] for one in told(daemon, zone, "sessions", *day)] == [SESSION]
    (search,) = told(daemon, zone, "search", "evening", *day)
    assert sorted(hit["text"] for hit in search["hits"]) == ["evening 1", "evening 2"]
    for before in ("usage", "sessions"):
        found = told(daemon, zone, before, "--until", "2026-11-18")
        assert found == [] or found[0]["rows"] == []


def test_unknown_zone_is_refused(daemon: Running) -> None:
    for zone in ("Atlantis", "../etc/passwd", "Europe"):
        wire = daemon.connect()
        wire.send("usage", id="u", zone=zone)
        reply = wire.until("reply")[-1]
        said = f"usage: there is no time zone {zone!r}; expected a name such as Europe/Berlin"
        assert (reply["error"]["code"], reply["error"]["message"]) == ("bad-frame", said)
