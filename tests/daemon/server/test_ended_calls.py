"""The `ended-calls` request, as a client sends it: what a call is described by, filters, pages and mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.daemon.events import call, commit, event
from tests.daemon.running import Running, Wire, running
from tests.daemon.search.conftest import patient as patient
from tooltap.protocol.events import SessionEvent, ToolResult


def _ended(call_id: str, name: str, status: str, stream: str, **fields: Any) -> Any:
    return event(ToolResult, stream, call_id=call_id, name=name, status=status, is_error=status == "failed", **fields)


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A session of last year, ingested last, and a newer one."""
    with running(tmp_path_factory.mktemp("daemon")) as one:
        new: dict[str, Any] = {"session": "new", "provider": "claude"}
        old: dict[str, Any] = {"session": "old"}
        long = "String to replace\n  not found: " + "x" * 300
        one.commit(
            commit(
                event(SessionEvent, "n", state="started", title="Repair it", cwd="/src/shop", **new),
                call("c1", "n", "Edit", input={"file_path": "src/app.py"}, preview="src/app.py", ts=70_000, **new),
                _ended("c1", "Edit", "failed", "n", output={"errorMessage": long}, ts=71_000, duration_ms=900, **new),
                call("c2", "n", "Bash", title="Run tests", agent="helper", ts=72_000, **new),
                _ended("c2", "Bash", "completed", "n", output={}, agent="helper", ts=73_000, **new),
                stream="n",
                state="ended",
            ),
            commit(
                call("c1", "o", "Edit", input={"file_path": "/src/api/app.py"}, ts=1_000, **old),
                _ended("c1", "Edit", "denied", "o", output={"errorMessage": "no"}, ts=2_000, **old),
                stream="o",
                state="ended",
            ),
        )
        one.until_indexed()
        yield one


@pytest.fixture
def wire(daemon: Running) -> Iterator[Wire]:
    with daemon.connect() as wire:
        yield wire


def test_what_is_known_of_a_call(wire: Wire) -> None:
    answer = wire.ask("ended-calls")
    assert {key: value for key, value in answer.items() if key != "calls"} == {
        "complete": True,
        "upto": 7,
        "behind": 0,
    }
    first, second, third = answer["calls"]
    assert first == {
        "session": "new",
        "title": "Repair it",
        "project": "/src/shop",
        "provider": "claude",
        "stream": "n",
        "callId": "c2",
        "seq": 4,
        "resultSeq": 5,
        "ts": 73_000,
        "name": "Bash",
        "callTitle": "Run tests",
        "durationMs": 1_000,
        "outcome": "completed",
        "agent": "helper",
    }
    assert (second["preview"], second["durationMs"]) == ("src/app.py", 900)
    assert second["error"] == f"String to replace not found: {'x' * 170}…"
    assert (third["session"], third["seq"], third["resultSeq"], third["error"]) == ("old", 6, 7, "no")
    assert "title" not in third


@pytest.mark.parametrize(
    ("filters", "results"),
    [
        ({"outcome": ["failed"]}, [3]),
        ({"outcome": ["failed", "denied"], "tool": ["Edit"]}, [3, 7]),
        ({"provider": ["claude"]}, [5, 3]),
        ({"project": ["shop"]}, [5, 3]),
        ({"session": ["old"]}, [7]),
        ({"file": "app.py"}, [3, 7]),
        ({"file": "api/app.py"}, [7]),
        ({"file": 'a"b'}, []),
        ({"since": 71_000, "until": 72_000}, [3]),
        ({"session": ["nobody"]}, []),
    ],
)
def test_filters(wire: Wire, filters: dict[str, Any], results: list[int]) -> None:
    assert [one["resultSeq"] for one in wire.ask("ended-calls", **filters)["calls"]] == results


def test_pages(wire: Wire) -> None:
    first = wire.ask("ended-calls", limit=2)
    second = wire.ask("ended-calls", limit=2, before=first["next"])
    assert [one["resultSeq"] for one in first["calls"] + second["calls"]] == [5, 3, 7]
    assert "next" not in second


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"outcome": ["broken"]}, "outcome"),
        ({"file": "..."}, "`file` needs at least one letter or digit"),
        ({"limit": 501}, "limit"),
    ],
)
def test_mistakes(wire: Wire, wrong: dict[str, Any], says: str) -> None:
    wire.send("ended-calls", **wrong)
    frame = wire.read()
    error = frame.get("error", frame)
    assert error["code"] == "bad-frame"
    assert says in error["message"]


def test_without_an_index(tmp_path: Any) -> None:
    with running(tmp_path, index_bytes=0) as daemon, daemon.connect() as wire:
        wire.send("ended-calls")
        assert wire.read()["error"]["code"] == "no-index"
