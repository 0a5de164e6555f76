"""Calls are known by id; what the provider forgets is made good."""

from typing import Any

import orjson

from tests.normalizers.toy import Toy
from tooltap.normalizers.core.items import Context, Limits
from tooltap.protocol.events import Event, PermissionResponse, ToolCall, ToolResult, ToolUpdate, Turn

OUTPUT = {"value": "done"}


def run(*lines: dict[str, Any], limits: Limits | None = None) -> tuple[list[Any], list[str]]:
    parser = Toy(Context(stream="s", limits=limits or Limits()))
    events: list[Any] = []
    classes = []
    for line in lines:
        line_class, items = parser.feed(orjson.dumps(line))
        classes.append(line_class)
        events += items
    return events + parser.close("end"), classes


def results(events: list[Event]) -> list[ToolResult]:
    return [event for event in events if isinstance(event, ToolResult)]


def test_results_belong_to_their_calls_whatever_the_order() -> None:
    events, _ = run(
        {"do": "call", "id": "a", "name": "X"},
        {"do": "call", "id": "b", "name": "Y"},
        {"do": "result", "id": "b"},
        {"do": "result", "id": "a"},
    )

    assert [(event.call_id, event.name, event.status) for event in results(events)] == [
        ("b", "Y", "completed"),
        ("a", "X", "completed"),
    ]


def test_a_payload_carries_meta_and_the_raw_object() -> None:
    events, _ = run({"do": "call", "id": "a", "name": "X", "input": {"k": 1}})

    assert events[0].input == {
        "k": 1,
        "_happy": {
            "v": 2,
            "protocol": "toy",
            "provider": "toymaker",
            "rawToolName": "X",
            "canonicalToolName": "X",
        },
        "_raw": {"do": "call", "id": "a", "name": "X", "input": {"k": 1}},
    }


def test_a_call_closed_at_the_end_keeps_what_it_printed() -> None:
    events, _ = run({"do": "call", "id": "a", "name": "X", "printed": {"text": "so far"}})

    (result,) = results(events)
    assert (result.status, result.synthetic, result.output["text"]) == ("interrupted", True, "so far")


def test_a_result_of_an_unknown_call_first_gets_a_synthetic_call() -> None:
    events, _ = run({"do": "result", "id": "a", "output": OUTPUT})

    call, result = events
    assert isinstance(call, ToolCall)
    assert (call.synthetic, call.name, call.input["_happy"]["rawToolName"]) == (True, "Unknown", "unknown")
    assert (result.call_id, result.synthetic, result.output["value"]) == ("a", False, "done")


def test_a_call_that_comes_after_its_result_completes_the_synthetic_one() -> None:
    called = {"do": "call", "id": "a", "name": "Bash", "input": {"command": "ls"}}
    events, classes = run(
        {"do": "begin"}, {"do": "result", "id": "a", "output": "x"}, called, {"do": "result", "id": "a"}
    )

    _, call, result, update, _ = events
    assert (call.synthetic, call.name, result.name) == (True, "Unknown", "Unknown")
    assert isinstance(update, ToolUpdate)
    assert (update.call_id, update.name, update.preview, update.turn) == ("a", "Bash", "ls", "t1")
    assert update.input is not None
    assert (update.input["command"], update.input["_raw"]) == ("ls", called)
    assert classes[-1] == "skipped.duplicate-result"


def test_a_second_terminal_report_is_not_a_second_result() -> None:
    events, classes = run(
        {"do": "call", "id": "a", "name": "X"}, {"do": "result", "id": "a"}, {"do": "result", "id": "a"}
    )

    assert len(results(events)) == 1
    assert classes[-1] == "skipped.duplicate-result"


def test_a_turns_end_closes_its_calls_and_a_late_real_result_replaces() -> None:
    events, _ = run(
        {"do": "begin"},
        {"do": "call", "id": "a", "name": "X"},
        {"do": "finish"},
        {"do": "result", "id": "a", "output": OUTPUT},
        {"do": "result", "id": "a", "output": OUTPUT},
    )

    made_up, real = results(events)
    assert (made_up.status, made_up.synthetic, made_up.is_error) == ("interrupted", True, False)
    assert (real.status, real.synthetic, real.replaces, real.turn) == ("completed", False, made_up.id, "t1")


def test_open_calls_are_cancelled_where_the_provider_cancels_their_turn_else_interrupted() -> None:
    begun = ({"do": "begin"}, {"do": "call", "id": "a", "name": "X"})

    (cancelled,) = results(run(*begun, {"do": "finish", "outcome": "cancelled"})[0])
    (left_open,) = results(run(*begun)[0])
    assert (cancelled.status, left_open.status) == ("cancelled", "interrupted")


def test_the_order_at_a_turns_end_is_text_calls_usage_turn() -> None:
    events, _ = run(
        {"do": "begin"},
        {"do": "call", "id": "a", "name": "X"},
        {"do": "chunk", "text": "half"},
        {"do": "finish"},
    )

    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Turn", "ToolCall", "Message", "ToolResult", "Usage", "Turn"]


def test_a_subagents_calls_end_with_the_call_that_spawned_it() -> None:
    events, _ = run(
        {"do": "begin"},
        {"do": "call", "id": "spawn", "name": "Task"},
        {"do": "call", "id": "inner", "name": "X", "agent": "sub", "parent": "spawn"},
        {"do": "result", "id": "spawn"},
    )

    assert [(event.call_id, event.status) for event in results(events)] == [
        ("inner", "interrupted"),
        ("spawn", "completed"),
    ]
    assert results(events)[0].agent == "sub"


def test_calls_that_name_each_other_as_parent_end_once() -> None:
    events, _ = run(
        {"do": "call", "id": "a", "name": "Task", "parent": "b"},
        {"do": "call", "id": "b", "name": "Task", "parent": "a"},
        {"do": "result", "id": "a"},
    )

    assert [(event.call_id, event.status) for event in results(events)] == [("b", "interrupted"), ("a", "completed")]


def test_background_work_is_acknowledged_outlives_the_turn_and_ends_with_final() -> None:
    events, _ = run(
        {"do": "begin"},
        {"do": "call", "id": "a", "name": "X"},
        {"do": "result", "id": "a", "is_async": True},
        {"do": "finish"},
        {"do": "result", "id": "a", "output": OUTPUT},
    )

    first, last = results(events)
    assert (first.async_, first.final, first.status) == (True, False, "completed")
    assert (last.async_, last.final, last.synthetic) == (False, True, False)


def test_background_work_that_never_ends_is_interrupted_at_the_streams_end() -> None:
    events, _ = run({"do": "call", "id": "a", "name": "X"}, {"do": "result", "id": "a", "is_async": True})

    assert [(event.status, event.final, event.synthetic) for event in results(events)] == [
        ("completed", False, False),
        ("interrupted", True, True),
    ]


def test_an_update_says_only_what_changed_and_its_input_is_whole() -> None:
    events, _ = run(
        {"do": "call", "id": "a", "name": "X", "input": {}},
        {"do": "change", "id": "a", "input": {"k": 1}, "title": "T"},
        {"do": "change", "id": "a", "input": {"k": 1}, "title": "T"},
        {"do": "result", "id": "a"},
    )

    (update,) = [event for event in events if isinstance(event, ToolUpdate)]
    assert (update.title, update.input["k"], update.input["_raw"]["do"]) == ("T", 1, "change")  # type: ignore[index]
    assert update.status is None


def test_a_failed_report_of_a_denied_call_is_denied_and_so_is_none_at_all() -> None:
    denied = ({"do": "begin"}, {"do": "call", "id": "a", "name": "X"}, {"do": "ask", "id": "p", "call": "a"})
    answer = {"do": "answer", "id": "p", "outcome": "denied"}

    reported, _ = run(*denied, answer, {"do": "result", "id": "a", "status": "failed", "error": "no"})
    silent, _ = run(*denied, answer, {"do": "finish"})

    assert [(one.status, one.is_error, one.output.get("errorMessage")) for one in results(reported)] == [
        ("denied", False, "no")
    ]
    assert [(one.status, one.synthetic) for one in results(silent)] == [("denied", True)]


def test_a_permission_nobody_answered_expires_with_its_turn() -> None:
    events, _ = run({"do": "begin"}, {"do": "ask", "id": "p"}, {"do": "finish"})

    (response,) = [event for event in events if isinstance(event, PermissionResponse)]
    assert (response.permission_id, response.outcome, response.synthetic) == ("p", "expired", True)


def test_a_waiting_call_says_so_and_runs_when_allowed() -> None:
    events, _ = run(
        {"do": "call", "id": "a", "name": "X"},
        {"do": "ask", "id": "p", "call": "a"},
        {"do": "answer", "id": "p", "outcome": "allowed"},
        {"do": "result", "id": "a"},
    )

    assert [event.status for event in events if isinstance(event, ToolUpdate)] == ["awaiting-permission", "running"]


def test_open_calls_finished_ids_and_memory_are_bounded() -> None:
    limits = Limits(open_calls=3, tombstones=5)
    parser = Toy(Context(stream="s", limits=limits))
    for number in range(20):
        parser.feed(orjson.dumps({"do": "call", "id": f"c{number}", "name": "X"}))

    assert list(parser.state.calls.open) == ["c17", "c18", "c19"]
    assert list(parser.state.calls.done) == [f"c{number}" for number in range(12, 17)]


def test_what_dialects_remember_of_calls_is_bounded_oldest_dropped_first() -> None:
    parser = Toy(Context(stream="s", limits=Limits(call_bytes=10_000)))
    for name in "abc":
        parser.feed(orjson.dumps({"do": "call", "id": name, "name": "X"}))
        call = parser.calls.get(name)
        assert call is not None
        parser.calls.remember(call, {"input": "x" * 4_000})

    kept = {name: bool(call.memory) for name, call in parser.state.calls.open.items()}
    assert kept == {"a": False, "b": True, "c": True}
    assert parser.state.calls.memory_bytes < 10_000


def test_turns_may_overlap_an_end_belongs_to_the_turn_it_names_else_to_the_oldest() -> None:
    events, _ = run(
        {"do": "begin"},
        {"do": "call", "id": "a", "name": "X"},
        {"do": "begin"},
        {"do": "call", "id": "b", "name": "X"},
        {"do": "finish"},
        {"do": "result", "id": "b"},
        {"do": "finish", "turn": "t2"},
    )

    ends = [(event.turn, event.state) for event in events if isinstance(event, Turn) and event.state != "started"]
    assert ends == [("t1", "completed"), ("t2", "completed")]
    assert [(one.call_id, one.status) for one in results(events)] == [("a", "interrupted"), ("b", "completed")]


def test_turns_of_two_sessions_may_have_the_same_id() -> None:
    events, _ = run(
        {"do": "begin", "turn": "1", "in_session": "one"},
        {"do": "call", "id": "a", "name": "X", "in_session": "one"},
        {"do": "begin", "turn": "1", "in_session": "two"},
        {"do": "call", "id": "b", "name": "X", "in_session": "two"},
        {"do": "ask", "id": "p", "in_session": "two"},
        {"do": "finish", "in_session": "one"},
        {"do": "result", "id": "b", "in_session": "two"},
    )

    assert [(one.session, one.call_id, one.status) for one in results(events)] == [
        ("one", "a", "interrupted"),
        ("two", "b", "completed"),
    ]
    (expired,) = [event for event in events if isinstance(event, PermissionResponse)]
    assert (expired.session, expired.line) == ("two", 7)


def test_turns_that_nobody_ends_are_given_up_oldest_first_whatever_their_session() -> None:
    begun = [{"do": "begin", "in_session": f"session{number}"} for number in range(5)]

    events, _ = run(*begun, limits=Limits(open_turns=3))

    ends = [(event.session, event.line, event.state, event.synthetic) for event in events if event.state != "started"]
    assert ends[:2] == [("session0", 4, "cancelled", True), ("session1", 5, "cancelled", True)]
    assert len(ends) == 5


def test_a_call_that_is_said_to_run_on_after_it_was_closed_has_one_result_in_place_of_the_made_up_one() -> None:
    parser = Toy(Context(stream="s"))

    def fed(line: dict[str, Any]) -> list[Any]:
        return parser.feed(orjson.dumps(line))[1]

    fed({"do": "call", "id": "a", "name": "X"})
    closed: Any = parser.close("end")[0]
    (acknowledged,) = fed({"do": "result", "id": "a", "is_async": True})
    (ended,) = fed({"do": "result", "id": "a", "output": OUTPUT})

    assert (closed.status, closed.synthetic) == ("interrupted", True)
    assert (acknowledged.async_, acknowledged.final, acknowledged.replaces) == (True, False, closed.id)
    assert (ended.status, ended.final, ended.replaces) == ("completed", True, None)
    assert fed({"do": "result", "id": "a", "output": OUTPUT}) == parser.close("end") == []
