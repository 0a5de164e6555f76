"""The `search` request, as a client sends it: filters that need the rows of sessions, pages, and mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running, Wire, running
from tests.daemon.search.conftest import patient as patient
from tooltap.daemon.search import search
from tooltap.daemon.server import requests
from tooltap.protocol.events import SessionEvent, Turn


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """Twelve sessions; every third one has failed. Each has its number, and five times the same word."""
    with running(tmp_path_factory.mktemp("daemon")) as one:
        for number in range(12):
            stream, session = f"s{number}", f"session-{number}"
            title, state = f"Title {number}", "completed" if number % 3 else "failed"
            produced = [
                event(SessionEvent, stream, session=session, state="started", title=title, cwd=f"/p/{number % 2}"),
                event(Turn, stream, session=session, state="started", turn="t"),
                *[message(f"word n{number}", stream, session=session) for _ in range(5)],
                event(Turn, stream, session=session, state=state, turn="t"),
            ]
            one.commit(commit(*produced, stream=stream, state="ended"))
        one.until_indexed()
        yield one


@pytest.fixture
def wire(daemon: Running) -> Iterator[Wire]:
    with daemon.connect() as wire:
        yield wire


def test_hits_and_their_sessions(wire: Wire) -> None:
    found = wire.ask("search", query="word n3", kind=["message"], limit=2)
    rest = wire.ask("search", query="word n3", kind=["message"], limit=20, before=found.pop("next"))
    assert [one["seq"] for one in found["hits"] + rest["hits"]] == [31, 30, 29, 28, 27]
    assert "next" not in rest
    assert found == {
        "hits": [
            {
                "seq": seq,
                "session": "session-3",
                "stream": "s3",
                "kind": "message",
                "text": "word n3",
                "ranges": [[0, 4], [5, 7]],
            }
            for seq in (31, 30)
        ],
        "sessions": [
            {
                "session": "session-3",
                "provider": "gemini",
                "title": "Title 3",
                "project": "/p/1",
                "status": "failed",
                "hits": 5,
                "latest": 31,
            }
        ],
        "total": 5,
        "foundIn": 1,
        "complete": True,
        "upto": 96,
        "behind": 0,
    }


def test_pages_have_every_hit_once(wire: Wire) -> None:
    seen: list[int] = []
    before = None
    while True:
        page = wire.ask("search", query="word", limit=7, counts=False, **({} if before is None else {"before": before}))
        seen += [one["seq"] for one in page["hits"]]
        assert {one["session"] for one in page["sessions"]} == {one["session"] for one in page["hits"]}
        assert "total" not in page
        if (before := page.get("next")) is None:
            break
    assert len(seen) == 60
    assert seen == sorted(set(seen), reverse=True)


def sessions(found: dict[str, Any]) -> list[str]:
    return [one["session"] for one in found["sessions"]]


def test_filters_by_what_sessions_are(wire: Wire) -> None:
    failed = ["session-9", "session-6", "session-3", "session-0"]
    assert sessions(wire.ask("search", query="word", status=["failed"])) == failed
    assert sessions(wire.ask("search", query="word", status=["failed"], project=["/p/1"])) == failed[::2]
    assert sessions(wire.ask("search", query="word", status=["running", "failed"], session=["session-3"])) == [
        "session-3"
    ]
    assert wire.ask("search", query="word", status=["running"])["total"] == 0
    assert len(sessions(wire.ask("search", query="word", perSession=1))) == 12
    assert sessions(wire.ask("search", query="word", project=["p"])) == []


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"query": "?!"}, "bad-frame"),
        ({"query": '"->" …'}, "bad-frame"),
        ({"query": "x" * 1_001}, "bad-frame"),
        ({"query": "x", "limit": 101}, "bad-frame"),
        ({"query": "x", "status": ["fine"]}, "bad-frame"),
        ({"query": "x", "agent": ["claude"]}, "bad-frame"),
    ],
)
def test_mistakes(wire: Wire, arguments: dict[str, Any], code: str) -> None:
    wire.send("search", id=1, **arguments)
    reply = wire.until("reply")[-1]
    assert (reply["ok"], reply["error"]["code"]) == (False, code)


def test_a_session_that_was_removed_is_not_found(tmp_path: Any) -> None:
    with running(tmp_path) as daemon, daemon.connect() as wire:
        for name in ("a", "b"):
            daemon.commit(commit(message("word", name, session=name), stream=name, state="ended"))
        daemon.until_indexed()
        assert sessions(wire.ask("search", query="word")) == ["b", "a"]
        wire.ask("remove", session="b")
        found = wire.ask("search", query="word")
        assert ([one["session"] for one in found["hits"]], sessions(found)) == (["a"], ["a"])


FILTERED = (
    ("search", {"query": "word", "host": ["."]}),
    ("search", {"query": "word", "host": ["."], "counts": False}),
    ("search", {"query": "word", "status": ["unknown", "completed"]}),
    ("search", {"query": "", "status": ["unknown", "completed"]}),
    ("ended-calls", {"host": ["."]}),
)
"""Requests with filters for which the sessions that have hits are counted first."""


@pytest.mark.parametrize("journal", ["file", "nats"])
@pytest.mark.parametrize(
    ("module", "limit", "value", "listed"),
    [(search, "COUNT_SECONDS", -1.0, []), (requests, "MOST_SESSIONS", 1, ["b"])],
)
def test_sessions_that_were_not_all_counted_are_not_all_that_match(
    tmp_path: Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    journal: str,
    module: ModuleType,
    limit: str,
    value: float,
    listed: list[str],
) -> None:
    place = {} if journal == "file" else {"journal": str(request.getfixturevalue("nats_place"))}
    with running(tmp_path, **place) as daemon, daemon.connect() as wire:
        for name in ("a", "b"):
            of = {"session": name}
            daemon.commit(
                commit(message("word", name, **of), call("c", name, **of), result("c", name, **of), stream=name)
            )
        daemon.until_indexed()

        for op, arguments in FILTERED:
            whole = wire.ask(op, **arguments)
            assert (found_in(whole), whole["complete"]) == (["b", "a"], True)

        monkeypatch.setattr(module, limit, value)
        for op, arguments in FILTERED:
            partial = wire.ask(op, **arguments)
            assert (found_in(partial), partial["complete"]) == (listed, False)


def found_in(answer: dict[str, Any]) -> list[str]:
    """The sessions of the hits or calls."""
    return list(dict.fromkeys(one["session"] for one in answer.get("hits", answer.get("calls", ()))))
