"""Sessions in the tables of OpenCode 2: rows that change until a message is complete."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from tests.normalizers.reading import of, outline, results, said, turns
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.dialects.opencode.store import OpencodeStore
from tooltap.protocol.events import Event, Notice, SessionEvent, ToolCall, Turn, Usage
from tooltap.testing import Line, normalize

TABLES = """
CREATE TABLE session_v2 (
    id text PRIMARY KEY, parent_id text, fork_session_id text, slug text NOT NULL, directory text NOT NULL, title text,
    version text NOT NULL, cost real DEFAULT 0 NOT NULL, tokens_input integer DEFAULT 0 NOT NULL,
    tokens_output integer DEFAULT 0 NOT NULL, tokens_reasoning integer DEFAULT 0 NOT NULL,
    tokens_cache_read integer DEFAULT 0 NOT NULL, tokens_cache_write integer DEFAULT 0 NOT NULL, agent text, model text,
    time_created integer NOT NULL, time_updated integer NOT NULL
);
CREATE TABLE session_message (
    id text PRIMARY KEY, session_id text NOT NULL, type text NOT NULL, seq integer NOT NULL,
    time_created integer NOT NULL, time_updated integer NOT NULL, data text NOT NULL
);
"""
LOG = """
CREATE TABLE event_sequence (aggregate_id text PRIMARY KEY, seq integer NOT NULL, owner_id text);
CREATE TABLE event (
    id text PRIMARY KEY, aggregate_id text NOT NULL, seq integer NOT NULL, type text NOT NULL, data text NOT NULL
);
"""
MODEL = {"id": "claude-sonnet-4-5", "providerID": "anthropic"}


class Database:
    """Writes as OpenCode 2 does, and reads what is new or has changed."""

    def __init__(self) -> None:
        self.connection = sqlite3.connect(":memory:")
        self.connection.executescript(TABLES)
        self.store = OpencodeStore()
        self.taken: dict[str, int] = {}
        self.lines: list[Line] = []

    def session(self, session: str = "ses", created: int = 1_000, **columns: Any) -> None:
        given = {"id": session, "slug": "fox", "directory": "/w/app", "title": "List", "version": "2.0.12", **columns}
        given |= {"model": json.dumps(MODEL), "time_created": created, "time_updated": created}
        names, marks = ", ".join(given), ", ".join("?" * len(given))
        self.connection.execute(f"INSERT OR REPLACE INTO session_v2 ({names}) VALUES ({marks})", tuple(given.values()))

    def message(self, seq: int, kind: str, created: int, session: str = "ses", **data: Any) -> None:
        row = (f"msg_{session}{seq}", session, kind, seq, created, created, json.dumps(data))
        self.connection.execute("INSERT OR REPLACE INTO session_message VALUES (?, ?, ?, ?, ?, ?, ?)", row)

    def read(self, session: str = "ses") -> list[dict[str, Any]]:
        """Return the new lines, as a stream that stays open gets them."""
        found = []
        for row in self.store.rows(self.connection.execute, f"session_v2/{session}", self.taken, 9_999):
            self.taken[row.owner] = max(self.taken.get(row.owner, 0), row.number + 1)
            self.taken.pop(key := f"{row.owner}/{row.number}", None)
            if row.state is not None:
                self.taken[key] = row.state
            self.lines.append(Line(row.line, row.time))
            found.append(json.loads(row.line))
        return found

    def reopen(self) -> None:
        """Forget what was read, as a daemon does that is started again."""
        self.taken = {}

    @property
    def events(self) -> list[Event]:
        return normalize("opencode-db", self.lines, Context(stream="s"))


@pytest.fixture
def database() -> Iterator[Database]:
    database = Database()
    yield database
    database.connection.close()


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def tool(status: str, output: str | None = None, **more: Any) -> dict[str, Any]:
    state = {"status": status, "input": {"command": "ls"}, **more}
    if output is not None:
        state["content"] = [text(output)]
    times = {"created": 2_000, "ran": 2_100, **({"completed": 2_600} if output is not None else {})}
    return {"type": "tool", "id": "call", "name": "shell", "state": state, "time": times}


def tokens(prompt: int, output: int) -> dict[str, Any]:
    return {"input": prompt, "output": output, "reasoning": 0, "cache": {"read": 0, "write": 0}}


def answer(
    *content: dict[str, Any], completed: int | None = 3_000, finish: str = "stop", **more: Any
) -> dict[str, Any]:
    stated = {"agent": "build", "model": MODEL, "content": list(content), **more}
    if completed is None:
        return {**stated, "time": {"created": 2_000}}
    used = {"cost": 0.01, "tokens": tokens(1_200, 30)}
    return {**stated, "finish": finish, **used, "time": {"created": 2_000, "completed": completed}}


def totals(events: list[Event]) -> list[tuple[int | None, float | None]]:
    return [(one.input_tokens, one.cost_usd) for one in of(Usage, events) if one.scope == "session"]


# -- one message ------------------------------------------------------------------------------------------------------


def test_finished_session_is_read_at_once(database: Database) -> None:
    database.session(cost=0.01, tokens_input=1_200, tokens_output=30)
    database.message(1, "user", 1_500, text="List the files")
    thought = {"type": "reasoning", "text": "I list."}
    database.message(2, "assistant", 2_000, **answer(thought, tool("completed", "a.py\n"), text("There is a.py.")))
    database.read()

    assert outline(database.events) == [
        "session",
        "turn started",
        "message user",
        "reasoning",
        "tool-call Bash",
        "tool-result Bash completed",
        "message assistant",
        "usage",
        "turn completed",
        "usage",
    ]
    assert [event.ts for event in database.events[:-1]] == [
        1_000,
        1_500,
        1_500,
        2_000,
        2_100,
        2_600,
        3_000,
        3_000,
        3_000,
    ]
    assert results(database.events)["shell"].output["stdout"] == "a.py\n"
    assert of(Usage, database.events)[0].request == "msg_ses2"
    assert totals(database.events) == [(1_200, 0.01)]


def grow(database: Database, reopens: bool) -> None:
    """Write an answer in steps, and read after each of them."""
    database.session()
    database.message(1, "user", 1_500, text="List the files")
    steps = [
        answer(completed=None),
        answer(text("Listing."), completed=None),
        answer(text("Listing."), tool("streaming", input='{"comm'), completed=None),
        answer(text("Listing."), tool("running"), completed=None),
        answer(text("Listing."), tool("completed", "a.py\n"), completed=None),
        answer(text("Listing."), tool("completed", "a.py\n"), finish="tool-calls"),
    ]
    for step in steps:
        database.message(2, "assistant", 2_000, **step)
        database.read()
        if reopens:
            database.reopen()
    database.message(3, "assistant", 3_100, **answer(text("There is a.py."), completed=4_000))
    database.session(cost=0.02, tokens_input=2_400, tokens_output=60)
    database.read()
    if reopens:
        database.reopen()
        database.read()


@pytest.mark.parametrize("reopens", [False, True])
def test_message_that_grows_is_told_once(database: Database, reopens: bool) -> None:
    grow(database, reopens)

    assert said(database.events) == [
        ("user", "List the files"),
        ("assistant", "Listing."),
        ("assistant", "There is a.py."),
    ]
    assert [one.call_id for one in of(ToolCall, database.events)] == ["call"]
    assert results(database.events)["shell"].status == "completed"
    assert [one.request for one in of(Usage, database.events) if one.request] == ["msg_ses2", "msg_ses3"]
    assert totals(database.events) == [(2_400, 0.02)]
    assert turns(database.events) == [("t1", "started", False), ("t1", "completed", False)]


def test_call_is_told_while_it_runs(database: Database) -> None:
    database.session()
    database.message(1, "user", 1_500, text="List the files")
    database.message(2, "assistant", 2_000, **answer(tool("running"), completed=None))
    database.read()

    assert outline(database.events)[-2:] != []
    assert [one.name for one in of(ToolCall, database.events)] == ["Bash"]


def test_row_that_has_not_changed_is_no_line(database: Database) -> None:
    database.session()
    database.message(1, "user", 1_500, text="List the files")
    database.message(2, "assistant", 2_000, **answer(tool("running"), completed=None))

    assert [line["type"] for line in database.read()] == ["session", "user", "assistant", "session-usage"]
    assert database.read() == []
    database.message(2, "assistant", 2_000, **answer(tool("completed", "a"), completed=None))
    assert [(line["type"], line.get("final")) for line in database.read()] == [("assistant", False)]
    database.message(2, "assistant", 2_000, **answer(tool("completed", "a")))
    assert [(line["type"], line.get("final")) for line in database.read()] == [("assistant", None)]
    assert database.read() == []


def test_answer_that_was_cut_ends_with_the_next_one(database: Database) -> None:
    database.session()
    database.message(1, "user", 1_500, text="Go.")
    database.message(2, "assistant", 2_000, **answer(text("Half an"), completed=None))
    database.message(3, "assistant", 2_500, **answer(text("Whole.")))
    database.read()

    assert said(database.events)[1:] == [("assistant", "Half an"), ("assistant", "Whole.")]


# -- turns and sessions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("outcome", "state"), [("succeeded", "completed"), ("failed", "failed"), ("interrupted", "cancelled")]
)
def test_idle_ends_a_turn_that_has_no_answer(database: Database, outcome: str, state: str) -> None:
    database.session()
    database.message(1, "user", 1_500, text="Go.")
    database.message(2, "idle", 2_000, outcome=outcome, time={"created": 2_000})
    database.read()

    (ended,) = [one for one in of(Turn, database.events) if not one.starts]
    assert (ended.state, ended.ended_by, ended.ts) == (state, "provider", 2_000)


def test_new_title_is_told(database: Database) -> None:
    database.session()
    database.message(1, "user", 1_500, text="Go.")
    database.read()
    database.session(title="Files of the app")
    database.read()

    assert [one.title for one in of(SessionEvent, database.events)] == ["List", "Files of the app"]


def test_fork_states_its_origin_and_counts_its_own_requests(database: Database) -> None:
    """A fork has its parent's messages under new ids with their numbers and times, and its totals count them."""
    database.session("fork", created=5_000, fork_session_id="ses", cost=0.02, tokens_input=2_400, tokens_output=60)
    database.message(1, "user", 1_500, "fork", text="List the files")
    database.message(2, "assistant", 2_000, "fork", **answer(text("There is a.py.")))
    database.message(5, "user", 6_000, "fork", text="And now?")
    database.message(6, "assistant", 6_500, "fork", **answer(text("Still a.py."), completed=7_000))
    database.read("fork")

    own = [event for event in database.events if not event.replay]
    assert said(own) == [("user", "And now?"), ("assistant", "Still a.py.")]
    assert turns(database.events) == [("t1", "started", False), ("t1", "completed", False)]
    assert totals(database.events) == [(1_200, 0.01)]
    assert [one.request for one in of(Usage, own) if one.request] == ["msg_fork6"]
    assert [one.forked_from for one in of(SessionEvent, database.events) if one.forked_from] == ["ses"]


def test_session_of_a_subagent_is_read_with_its_parent(database: Database) -> None:
    database.session()
    database.session("child", created=2_200, parent_id="ses")
    database.message(1, "user", 1_500, text="Go.")
    task = {**tool("completed", "Done."), "name": "subagent"}
    task["state"] = {**task["state"], "input": {"prompt": "Look."}, "metadata": {"sessionID": "child"}}
    database.message(2, "assistant", 2_000, **answer(task, text("Found."), completed=4_000))
    database.message(1, "user", 2_300, "child", text="Look.")
    database.message(2, "assistant", 2_400, "child", **answer(text("Here."), completed=2_500))
    listed = list(database.store.sessions(database.connection.execute, 9_999))
    database.read()

    assert [(one.session, one.rows, one.is_appended) for one in listed] == [("session_v2/ses", 4, False)]
    inner = [event for event in database.events if event.agent == "child"]
    assert said(inner) == [("user", "Look."), ("assistant", "Here.")]
    assert {(event.session, event.parent) for event in inner} == {("ses", "call")}
    assert len(of(Turn, database.events)) == 2


def test_revert_is_told_as_a_rewind(database: Database) -> None:
    database.session()
    database.message(1, "user", 1_500, text="Go.")
    database.message(4, "assistant", 2_000, **answer(text("Wrong.")))
    database.read()
    database.connection.execute("DELETE FROM session_message WHERE seq > 1")
    database.read()
    assert database.read() == []
    database.message(7, "assistant", 2_900, **answer(text("Right.")))
    database.read()

    assert [one.code for one in of(Notice, database.events)] == ["rewound"]
    assert [words for role, words in said(database.events) if role == "assistant"] == ["Wrong.", "Right."]


def test_compaction_and_a_command_of_the_user(database: Database) -> None:
    database.session()
    times = {"created": 1_500, "completed": 1_600}
    database.message(1, "shell", 1_500, shellID="sh", command="make", status="exited", exit=2, output="no", time=times)
    database.message(2, "compaction", 2_000, status="completed", reason="auto", summary="We listed.", recent="")
    database.read()

    (call,) = of(ToolCall, database.events)
    assert (call.name, call.preview) == ("Bash", "make")
    assert results(database.events)["shell"].output["exit_code"] == 2
    assert [(one.code, one.text) for one in of(Notice, database.events)] == [("compaction", "We listed.")]
    assert [state for _, state, _ in turns(database.events)] == ["started", "completed"]


# -- generations ------------------------------------------------------------------------------------------------------


def test_session_in_both_generations_is_listed_once(database: Database) -> None:
    database.connection.executescript(LOG)
    for session in ("ses", "old"):
        database.connection.execute("INSERT INTO event_sequence VALUES (?, 0, NULL)", (session,))
        row = (f"evt_{session}", session, 0, "session.created.1", json.dumps({"info": {"id": session}}))
        database.connection.execute("INSERT INTO event VALUES (?, ?, ?, ?, ?)", row)
    database.session()
    database.message(1, "user", 1_500, text="Go.")
    listed = database.store.sessions(database.connection.execute, 9_999)

    assert sorted((one.session, one.is_appended) for one in listed) == [("old", True), ("session_v2/ses", False)]


def test_tables_without_messages_are_not_in_use(database: Database) -> None:
    """1.18.33 creates them."""
    database.connection.executescript(LOG)
    database.session()

    assert list(database.store.sessions(database.connection.execute, 9_999)) == []
