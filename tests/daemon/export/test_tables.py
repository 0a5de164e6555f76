"""The tables of `sqlite` exports: what becomes of each event, and what is counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, event, message, result
from tests.daemon.export.exporting import Tables, events_of, numbered, tabled
from tests.daemon.web.page.overview.test_recordings import DIALECTS, recordings_of
from tooltap.daemon.export.source import MissingRange
from tooltap.daemon.export.sqlite import Database, bounded_json, bounded_text, time_of
from tooltap.protocol.events import (
    AnyEvent,
    OutputRef,
    PermissionRequest,
    PermissionResponse,
    SessionEvent,
    ToolUpdate,
    Turn,
    Usage,
)

NOON = 1_795_953_600_000
"""2026-11-29T12:00:00Z."""


def written(tmp_path: Path, *sources: Sequence[AnyEvent], max_text: int = 65_536) -> Tables:
    path = tmp_path / "tables.sqlite"
    tabled(path, *sources, max_text=max_text)
    return Tables(path)


def test_call_and_its_result_are_one_row(tmp_path: Path) -> None:
    events = numbered(
        event(Turn, state="started", turn="t", ts=NOON),
        call("c", turn="t", ts=NOON + 250, input={"command": "ls", "_raw": {}}, preview="ls"),
        result("c", turn="t", ts=NOON + 1_750, output={"stdout": "a"}),
    )
    with written(tmp_path, events) as tables:
        [row] = tables.rows("calls")

    assert (row["id"], row["seq"], row["turn"], row["tool"], row["family"]) == ("s:2:0", 2, 1, "Bash", "shell")
    assert (row["started_at"], row["ended_at"]) == ("2026-11-29T12:00:00.250Z", "2026-11-29T12:00:01.750Z")
    assert (row["status"], row["duration_ms"], row["error"]) == ("completed", 1_500, None)
    assert (json.loads(row["input"]), json.loads(row["output"])) == ({"command": "ls"}, {"stdout": "a"})
    assert (row["input_cut"], row["output_cut"]) == (0, 0)


def test_stated_duration_is_preferred_to_the_times(tmp_path: Path) -> None:
    with written(tmp_path, numbered(call("c", ts=NOON), result("c", ts=NOON + 900, duration_ms=7))) as tables:
        assert tables.ask("SELECT duration_ms FROM calls") == [(7,)]


def test_calls_that_share_an_id_have_their_own_results(tmp_path: Path) -> None:
    made = (call("c"), result("c", output={"n": 1}), call("c"), result("c", output={"n": 2}))
    with written(tmp_path, numbered(*made)) as tables:
        assert tables.ask("SELECT seq, output FROM calls ORDER BY seq") == [(1, '{"n":1}'), (3, '{"n":2}')]


def test_result_without_its_call_is_a_row(tmp_path: Path) -> None:
    failed = result("c", status="failed", is_error=True, output={"errorMessage": "no such file"})
    with written(tmp_path, numbered(failed)) as tables:
        assert tables.ask("SELECT call_id, tool, status, error, input FROM calls") == [
            ("c", "Bash", "failed", "no such file", None)
        ]


def test_acknowledged_background_work_is_not_over(tmp_path: Path) -> None:
    with written(tmp_path, numbered(call("c", ts=NOON), result("c", ts=NOON, async_=True))) as tables:
        assert tables.ask("SELECT status, ended_at, output FROM calls") == [("running", None, None)]


def test_update_replaces_the_input(tmp_path: Path) -> None:
    update = event(ToolUpdate, call_id="c", name="Bash", input={"command": "pwd"}, status="awaiting-permission")
    with written(tmp_path, numbered(call("c"), update)) as tables:
        assert tables.ask("SELECT input, status FROM calls") == [('{"command":"pwd"}', "awaiting-permission")]


def test_permission_is_a_row_and_a_fact_of_its_call(tmp_path: Path) -> None:
    made = (
        call("c"),
        event(PermissionRequest, permission_id="p", type="permission", call_id="c", name="Bash", ts=NOON),
        event(PermissionResponse, permission_id="p", outcome="denied", by="user", ts=NOON + 1),
    )
    with written(tmp_path, numbered(*made)) as tables:
        [row] = tables.rows("permissions")
        assert tables.ask("SELECT permission FROM calls") == [("denied",)]

    assert (row["call_id"], row["outcome"], row["answered_by"]) == ("c", "denied", "user")
    assert (row["asked_at"], row["answered_at"]) == ("2026-11-29T12:00:00.000Z", "2026-11-29T12:00:00.001Z")


def test_unanswered_request_makes_its_session_interrupted(tmp_path: Path) -> None:
    """The stream is over, so nobody can answer."""
    asked = event(PermissionRequest, permission_id="p", type="question")
    with written(tmp_path, numbered(asked)) as tables:
        assert tables.ask("SELECT status FROM sessions") == [("interrupted",)]


def test_repeated_history_adds_nothing(tmp_path: Path) -> None:
    used = event(Usage, scope="step", input_tokens=10, output_tokens=5, model="m")
    again = event(Usage, scope="step", input_tokens=10, output_tokens=5, model="m", replay=True)
    made = (message("hello"), used, message("hello", replay=True), again, call("c", replay=True))
    with written(tmp_path, numbered(*made)) as tables:
        assert tables.ask("SELECT text FROM messages") == [("hello",)]
        assert tables.ask("SELECT sum(input_tokens), sum(output_tokens) FROM usage") == [(10, 5)]
        assert tables.ask("SELECT events, calls, input_tokens FROM sessions") == [(2, 0, 10)]


def test_total_that_includes_steps_counts_once(tmp_path: Path) -> None:
    made = (
        event(Usage, scope="step", input_tokens=10, output_tokens=1, model="m"),
        event(Usage, scope="step", input_tokens=20, output_tokens=2, model="m"),
        event(Usage, scope="turn", input_tokens=30, output_tokens=3, model="m"),
    )
    with written(tmp_path, numbered(*made)) as tables:
        assert tables.ask("SELECT sum(input_tokens), sum(output_tokens) FROM usage") == [(30, 3)]


def test_turn_has_what_it_used_and_its_subagents(tmp_path: Path) -> None:
    step: dict[str, Any] = {"scope": "step", "model": "m"}
    made = (
        event(Usage, **step, input_tokens=1, output_tokens=1, cost_usd=0.5),
        call("before the first turn"),
        event(Turn, state="started", turn="t1"),
        event(Usage, **step, input_tokens=10, output_tokens=2, cache_read_tokens=8, cost_usd=0.25, turn="t1"),
        event(Usage, **step, input_tokens=30, output_tokens=3, cost_usd=0.125, agent="helper"),
        event(Turn, state="completed", turn="t1"),
        event(Turn, state="started", turn="t2"),
        event(Usage, **{**step, "model": "none"}, input_tokens=50, output_tokens=5, turn="t2"),
        event(Turn, state="started", turn="t3"),
    )
    with written(tmp_path, numbered(*made)) as tables:
        rows = tables.ask("SELECT input_tokens, output_tokens, cache_read_tokens FROM turns ORDER BY number")
        costs = tables.ask("SELECT cost_usd, cost_estimated, cost_complete FROM turns ORDER BY number")
        whole = tables.ask("SELECT input_tokens, output_tokens, cost_usd FROM sessions")

    assert rows == [(40, 5, 8), (50, 5, 0), (None, None, None)]
    assert costs == [(0.375, 0, 1), (None, 0, 0), (None, None, None)]
    assert whole == [(91, 11, 0.875)]


def test_correction_is_of_the_turn_that_it_corrects(tmp_path: Path) -> None:
    made = numbered(
        event(Turn, state="started", turn="t1"),
        event(Usage, scope="step", input_tokens=10, output_tokens=2),
        event(Turn, state="started", turn="t2"),
        event(Usage, scope="step", input_tokens=10, output_tokens=7, replaces="s:2:0"),
    )
    with written(tmp_path, made) as tables:
        assert tables.ask("SELECT input_tokens, output_tokens FROM turns ORDER BY number") == [(10, 7), (0, 0)]


def test_renamed_session_keeps_what_its_turns_used(tmp_path: Path) -> None:
    """Also where both names have turns: a session that two streams report."""
    used: dict[str, Any] = {"scope": "step", "input_tokens": 10}
    made = (
        event(Usage, session="s", **used),
        call("before the first turn", session="s"),
        event(Turn, session="s", state="started", turn="t1"),
        event(Usage, session="s", **used, output_tokens=1),
        event(Usage, session="real", **used, output_tokens=2),
        event(Turn, session="real", state="started", turn="t2"),
        event(Usage, session="real", **used, output_tokens=4),
        event(SessionEvent, session="real", state="started", alias="s"),
    )
    with written(tmp_path, numbered(*made)) as tables:
        assert tables.ask("SELECT input_tokens, output_tokens FROM turns ORDER BY number") == [(20, 3), (10, 4)]
        assert tables.ask("SELECT input_tokens, output_tokens FROM sessions") == [(40, 7)]


CENT = 0.005
BEYOND_ITS_TURNS = """
SELECT session, coalesce(sessions.{0}, 0) - total(turns.{0}) FROM sessions LEFT JOIN turns USING (session)
GROUP BY session
"""


@pytest.mark.parametrize("dialect", DIALECTS)
def test_turns_have_what_their_session_has_used_since_the_first(tmp_path: Path, dialect: str) -> None:
    """Of every recording: what is beyond them is the usage of the events before the first turn."""
    figures = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens")
    for number, path in enumerate(recordings_of(dialect)):
        events = events_of(path)
        folder = tmp_path / str(number)
        folder.mkdir()
        with written(folder, events) as tables:
            beyond = {name: dict(tables.ask(BEYOND_ITS_TURNS.format(name))) for name in figures}
            costs = dict(tables.ask(BEYOND_ITS_TURNS.format("cost_usd")))
        with_rest = {session for of_sessions in beyond.values() for session, rest in of_sessions.items() if rest}
        assert {session for session, rest in costs.items() if abs(rest) >= CENT} <= with_rest
        if with_rest:
            check_usage_before(folder, events, beyond)


def check_usage_before(folder: Path, events: list[AnyEvent], beyond: dict[str, dict[str, int]]) -> None:
    """`beyond`: figure -> session -> what the session has beyond its turns."""
    started: set[str] = set()
    early = []
    for one in events:
        if isinstance(one, Turn) and one.starts and not one.replay:
            started.add(one.session)
        if one.session not in started:
            early.append(one)
    (folder / "early").mkdir()
    with written(folder / "early", early) as tables:
        for name, of_sessions in beyond.items():
            known = dict(tables.ask(f"SELECT session, coalesce({name}, 0) FROM sessions"))
            assert {session: known.get(session, 0) for session, rest in of_sessions.items() if rest} == {
                session: rest for session, rest in of_sessions.items() if rest
            }


def test_session_whose_id_arrives_late_has_all_rows(tmp_path: Path) -> None:
    made = (
        event(Turn, session="s", state="started", turn="t1"),
        call("c", session="s", turn="t1"),
        event(SessionEvent, session="real", state="started", alias="s"),
        result("c", session="real", turn="t1"),
        event(Turn, session="real", state="completed", turn="t1"),
        event(Turn, session="real", state="started", turn="t2"),
        message("hi", session="real", turn="t2"),
    )
    with written(tmp_path, numbered(*made)) as tables:
        assert tables.ask("SELECT session, turns, calls FROM sessions") == [("real", 2, 1)]
        assert tables.ask("SELECT session, turn, status FROM calls") == [("real", 1, "completed")]
        assert tables.ask("SELECT number, state FROM turns") == [(1, "completed"), (2, "started")]
        assert tables.ask("SELECT turn FROM messages") == [(2,)]
        assert tables.faults == []


def test_session_that_two_sources_have_counts_once(tmp_path: Path) -> None:
    path = tmp_path / "tables.sqlite"
    said = tabled(path, numbered(message("one")), numbered(message("two", stream="other")))

    assert len(said) == 1
    assert said[0].startswith("1 event of session session-1 left out, which source-1 has")
    with Tables(path) as tables:
        assert tables.ask("SELECT text FROM messages") == [("one",)]
        assert tables.ask("SELECT kind, source, text FROM notes") == [
            ("left-out", "source-2", said[0]),
            ("remark", None, "A remark."),
        ]


def test_events_with_one_id_are_one_row(tmp_path: Path) -> None:
    """A file of events may have them twice."""
    path = tmp_path / "tables.sqlite"
    events = numbered(message("one"), call("c"))
    assert tabled(path, [*events, *events]) == ["2 events of source-1 left out: others have the same ids"]
    with Tables(path) as tables:
        assert tables.ask("SELECT (SELECT count(*) FROM messages), (SELECT count(*) FROM calls)") == [(1, 1)]


def test_streams_of_one_name_are_kept_apart_by_session(tmp_path: Path) -> None:
    """Two files of events, whose recordings had the same name."""
    path = tmp_path / "tables.sqlite"
    first = numbered(call("c", session="first"), message("one", session="first"))
    second = numbered(call("c", session="second"), result("c", session="second"))
    assert tabled(path, first, second) == []
    with Tables(path) as tables:
        assert tables.ask("SELECT session, status FROM calls ORDER BY session") == [
            ("first", "running"),
            ("second", "completed"),
        ]


def test_gap_is_a_note(tmp_path: Path) -> None:
    path = tmp_path / "tables.sqlite"
    database = Database(path, max_text=100, masked=False)
    source = database.source("session-1", None)
    source.add_gap(MissingRange(3, 9, is_deleted=True))
    assert list(source.end()) == []
    database.finish()

    with Tables(path) as tables:
        assert tables.ask("SELECT kind, source, first_seq, last_seq, text FROM notes") == [
            ("gap", "session-1", 3, 9, "Events between 3 and 9 were not kept.")
        ]
        assert tables.ask("SELECT value FROM about WHERE key = 'masked'") == [("no",)]


def test_long_values_are_cut_and_say_so(tmp_path: Path) -> None:
    whole = OutputRef(output_id="o", bytes=9_000, lines=1, mime_type="text/plain")
    made = (
        message("é" * 80),
        message("short"),
        message("cut by its event", outputs={"/text": whole}),
        call("c", input={"command": "x" * 500, "timeout": 5}),
        result("c", output={"lines": list(range(500))}),
    )
    with written(tmp_path, numbered(*made), max_text=101) as tables:
        assert tables.ask("SELECT text, text_bytes, text_cut FROM messages ORDER BY seq") == [
            ("é" * 50, 160, 1),
            ("short", 5, 0),
            ("cut by its event", 9_000, 1),
        ]
        [row] = tables.rows("calls")
    assert (row["input_cut"], row["output_cut"]) == (1, 1)
    assert json.loads(row["input"]) == {"command": "x" * 50, "timeout": 5}
    assert json.loads(row["output"]).startswith('{"lines":[0,1,2')


@pytest.mark.parametrize("most", [2, 10, 100, 1_000])
def test_cut_json_is_valid_and_within_its_bound(most: int) -> None:
    value = {"a": 'é"\\' * 100, "b": [{"c": "x" * 100}] * 5}
    text, is_cut = bounded_json(value, most)

    assert is_cut == (text != json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    assert len(text.encode()) <= most
    json.loads(text)


def test_text_is_cut_between_characters() -> None:
    assert bounded_text("aé", 2) == ("a", True)
    assert bounded_text("aé", 3) == ("aé", False)


def test_figures_that_no_database_holds_are_the_highest(tmp_path: Path) -> None:
    with written(tmp_path, numbered(call("c"), result("c", duration_ms=2**63))) as tables:
        assert tables.ask("SELECT duration_ms FROM calls") == [(2**63 - 1,)]


@pytest.mark.parametrize(
    ("milliseconds", "text"), [(NOON + 7, "2026-11-29T12:00:00.007Z"), (-1, "1969-12-31T23:59:59.999Z"), (None, None)]
)
def test_times_are_in_utc_to_the_millisecond(milliseconds: int | None, text: str | None) -> None:
    assert time_of(milliseconds) == text
