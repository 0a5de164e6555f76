"""The queries of `docs/how-to/export.md`, of sessions that were made for them; and the page of the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests import tables
from tests.cli.command import here
from tests.daemon.events import event
from tests.daemon.export.exporting import Tables, numbered
from tests.docs.pages import DOCS, blocks_of, tagged
from tooltap.protocol.events import (
    Message,
    PermissionRequest,
    PermissionResponse,
    SessionEvent,
    ToolCall,
    ToolResult,
    Turn,
    Usage,
    encode,
)

PAGE = DOCS / "how-to" / "export.md"
QUERIES = {block.tag: block.text for block in blocks_of(PAGE) if block.language == "sql" and block.tag != "parquet"}
SUNDAY, MONDAY = 1_795_953_600_000, 1_796_040_000_000
"""Noon of 2026-11-29 and of 2026-11-30 (UTC)."""
MINUTE = 60_000


class Made:
    """Makes the events of one session."""

    def __init__(self, session: str, provider: str, project: str) -> None:
        self._envelope: dict[str, Any] = {"session": session, "stream": session, "provider": provider}
        self.events = [event(SessionEvent, **self._envelope, state="started", cwd=project, title=f"Of {session}")]

    def add(self, kind: Any, **fields: Any) -> None:
        self.events.append(event(kind, **self._envelope, **fields))

    def turn(self, turn: str, prompt: str, ts: int) -> None:
        self.add(Turn, state="started", turn=turn, ts=ts)
        self.add(Message, role="user", text=prompt, turn=turn, ts=ts)

    def call(self, call_id: str, name: str, given: dict[str, Any], ts: int, lasts: int, **ends: Any) -> None:
        self.add(ToolCall, call_id=call_id, name=name, input=given, status="running", preview=call_id, ts=ts)
        failed = ends.get("status") == "failed"
        self.add(
            ToolResult,
            **{"call_id": call_id, "name": name, "status": "completed", "is_error": failed, "output": {}, **ends},
            ts=ts + lasts,
        )


def history() -> list[Made]:
    """Two sessions of one project, in two weeks, and one of another, which stops within a turn."""
    first = Made("first", "claude", "/ws/shop")
    first.turn("t1", "Add a basket", SUNDAY)
    edit = {"file_path": "/ws/shop/basket.py", "old_string": "a\nb\n", "new_string": "a\nc\nd\n"}
    first.call("e1", "Edit", edit, SUNDAY, 30)  # two lines more, one less
    first.call("e2", "Edit", edit, SUNDAY, 50)
    for call_id, lasts in (("b1", 1_000), ("b2", 3_000)):
        lost = {"status": "failed", "output": {"errorMessage": "exit code 2"}}
        first.call(call_id, "Bash", {"command": "make test"}, SUNDAY, lasts, **lost)
    first.call("b3", "Bash", {"command": "git push"}, SUNDAY, 8_000, wait_ms=6_000)
    first.add(
        Usage,
        scope="step",
        model="large",
        input_tokens=1_000,
        cache_read_tokens=600,
        output_tokens=200,
        reasoning_tokens=50,
        cost_usd=0.25,
        ts=SUNDAY,
    )
    first.add(
        Usage, scope="step", model="small", agent="helper", input_tokens=700, output_tokens=100, cost_usd=0.5, ts=SUNDAY
    )
    first.add(Turn, state="completed", turn="t1", ts=SUNDAY + 9 * MINUTE)

    second = Made("second", "claude", "/ws/shop")
    second.turn("t1", "Remove it", MONDAY)
    second.call("e1", "Edit", {**edit, "new_string": "a\n"}, MONDAY, 40)  # one line less
    second.add(Usage, scope="step", model="large", input_tokens=500, output_tokens=0, cost_usd=1.0, ts=MONDAY)
    second.add(Turn, state="completed", turn="t1", ts=MONDAY + 3 * MINUTE)

    third = Made("third", "codex", "/ws/site")
    third.turn("t1", "Deploy", MONDAY)
    third.add(ToolCall, call_id="d1", name="Bash", input={"command": "deploy"}, status="pending", preview="deploy")
    third.add(PermissionRequest, permission_id="p1", call_id="d1", type="permission", name="Bash")
    third.add(PermissionResponse, permission_id="p1", outcome="denied", by="user")
    third.add(ToolResult, call_id="d1", name="Bash", output={}, status="denied", is_error=False)
    third.add(Usage, scope="step", model="other", input_tokens=300, cache_read_tokens=150, cost_usd=0.1, ts=MONDAY)
    third.add(ToolCall, call_id="r1", name="Read", input={"file_path": "/ws/site/a"}, status="running", ts=MONDAY)
    return [first, second, third]


ANSWERS: dict[str, list[tuple[Any, ...]]] = {
    "cost-by-week": [  # 0.25 + 0.5; the Monday begins the next week
        ("/ws/shop", "2026-11-23", 0.75, 0),
        ("/ws/shop", "2026-11-30", 1.0, 0),
        ("/ws/site", "2026-11-30", 0.1, 0),
    ],
    "tokens-by-model": [("large", 1_500, 200, 50), ("small", 700, 100, 0), ("other", 300, 0, 0)],
    "cache-share": [("codex", 50.0), ("claude", 27.3)],  # 150 / 300, 600 / 2,200
    "subagents": [("claude", 32.0), ("codex", 0.0)],  # 800 / 2,500
    "slow-tools": [  # 1,000, 3,000, and 8,000 with 6,000 of waiting; 30, 50 and 40
        ("Bash", 3, 2_000.0, 3_000),
        ("Edit", 3, 40.0, 50),
    ],
    "failed-commands": [("make test", 2, "exit code 2")],
    "denied": [("codex", "Bash", "deploy", "user", 1)],
    "changed-files": [("/ws/shop/basket.py", "claude", 3, 4, 3)],
    "longest-turns": [  # 1,000 + 700 + 200 + 100 tokens for 0.25 + 0.5
        ("first", 1, "Add a basket", 9.0, 2_000, 0.75),
        ("second", 1, "Remove it", 3.0, 500, 1.0),
        ("third", 1, "Deploy", 0.0, 300, 0.1),
    ],
    "interrupted": [("third", "codex", "Of third", "2026-11-30T12:00:00.000Z", "Read")],
}
"""Query -> its answer, as it follows from `history`."""


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tables]:
    folder = tmp_path_factory.mktemp("history")
    lines = _recorded(folder)
    assert here("export", "--format", "sqlite", lines, "-o", folder / "history.sqlite").returncode == 0
    with Tables(folder / "history.sqlite") as found:
        yield found


def _recorded(folder: Path) -> Path:
    lines = folder / "history.jsonl"
    events = [event for made in history() for event in numbered(*made.events)]
    lines.write_bytes(b"".join(encode(one) + b"\n" for one in events))
    return lines


def test_query_of_parquet_gives_what_the_sessions_were_made_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert here("export", "--format", "parquet", _recorded(tmp_path), "-o", tmp_path / "history").returncode == 0
    monkeypatch.chdir(tmp_path)
    with duckdb.connect() as database:
        answer = database.execute(tagged(PAGE, "parquet")).fetchall()

    assert answer[:2] == [("Bash", 4, 4_000.0), ("Edit", 3, 40.0)]  # of the call that was denied no time is known
    assert answer[2:] == [("Read", 1, None)]


def test_every_query_has_an_answer() -> None:
    assert sorted(ANSWERS) == sorted(QUERIES)


@pytest.mark.parametrize("query", ANSWERS)
def test_query_gives_what_the_sessions_were_made_of(exported: Tables, query: str) -> None:
    assert exported.ask(QUERIES[query]) == ANSWERS[query]


def test_page_of_the_tables_is_fresh() -> None:
    assert tables.PAGE.read_text() == tables.page(), "run `make schema`"


def test_tables_of_the_file_are_those_of_the_page(exported: Tables) -> None:
    text: Path = tables.PAGE
    named = [line.removeprefix("## ") for line in text.read_text().splitlines() if line.startswith("## ")]
    stored = exported.ask("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
    assert [name for (name,) in stored] == named
