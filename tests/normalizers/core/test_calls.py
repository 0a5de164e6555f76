"""Results match calls by id, and what the provider omits is synthetic."""

from typing import Any

import orjson

from tests.normalizers.reading import emitted
from tests.normalizers.toy import Toy
from tooltap.normalizers.core.calls import DUPLICATE_RESULT, Answer
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
        events += emitted(items)
    return events + emitted(parser.close("end")), classes


def results(events: list[Event]) -> list[ToolResult]:
    return [event for event in events if isinstance(event, ToolResult)]


def test_results_match_calls_in_any_order() -> None:
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


def test_payload_has_meta_and_raw() -> None:
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


def test_interrupted_call_keeps_output() -> None:
    events, _ = run({"do": "call", "id": "a", "name": "X", "printed": {"text": "so far"}})

    (result,) = results(events)
    assert (result.status, result.synthetic, result.output["text"]) == ("interrupted", True, "so far")


def test_result_without_call_gets_synthetic_call() -> None:
    events, _ = run({"do": "result", "id": "a", "output": OUTPUT})

    call, result = events
    assert isinstance(call, ToolCall)
    assert (call.synthetic, call.name, call.input["_happy"]["rawToolName"]) == (True, "Unknown", "unknown")
    assert (result.call_id, result.synthetic, result.output["value"]) == ("a", False, "done")


def test_late_call_updates_synthetic_call() -> None:
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


def test_second_result_is_skipped() -> None:
    events, classes = run(
        {"do": "call", "id": "a", "name": "X"}, {"do": "result", "id": "a"}, {"do": "result", "id": "a"}
    )

    assert len(results(events)) == 1
    assert classes[-1] == "skipped.duplicate-result"


def test_late_result_replaces_synthetic_result() -> None:
    events, _ = run(
        {"do": "begin"},
        {"do": "call", "id": "a", "name": "X"},
        {"do": "finish"},
        {"do": "result", "id": "a", "output": OUTPUT},
        {"do": "result", "id": "a", "output": OUTPUT},
    )

    synthetic, real = results(events)
    assert (synthetic.status, synthetic.synthetic, synthetic.is_error) == ("interrupted", True, False)
    assert (real.status, real.synthetic, real.replaces, real.turn) == ("completed", False, synthetic.id, "t1")


def test_cancelled_turn_cancels_open_calls() -> None:
    begun = ({"do": "begin"}, {"do": "call", "id": "a", "name": "X"})

    (cancelled,) = results(run(*begun, {"do": "finish", "outcome": "cancelled"})[0])
    (left_open,) = results(run(*begun)[0])
    assert (cancelled.status, left_open.status) == ("cancelled", "interrupted")


def test_turn_end_emits_text_calls_usage_turn() -> None:
    events, _ = run(
        {"do": "begin"},
        {"do": "call", "id": "a", "name": "X"},
        {"do": "chunk", "text": "half"},
        {"do": "finish"},
    )

    kinds = [type(event).__name__ for event in events]
    assert kinds == ["Turn", "ToolCall", "Message", "ToolResult", "Usage", "Turn"]


def test_subagent_calls_end_with_spawning_call() -> None:
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


def test_cyclic_parent_is_tolerated() -> None:
    events, _ = run(
        {"do": "call", "id": "a", "name": "Task", "parent": "b"},
        {"do": "call", "id": "b", "name": "Task", "parent": "a"},
        {"do": "result", "id": "a"},
    )

    assert [(event.call_id, event.status) for event in results(events)] == [("b", "interrupted"), ("a", "completed")]


def test_background_call_outlives_turn() -> None:
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


def test_open_background_call_is_interrupted_at_close() -> None:
    events, _ = run({"do": "call", "id": "a", "name": "X"}, {"do": "result", "id": "a", "is_async": True})

    assert [(event.status, event.final, event.synthetic) for event in results(events)] == [
        ("completed", False, False),
        ("interrupted", True, True),
    ]


def test_update_has_changed_fields_and_full_input() -> None:
    events, _ = run(
        {"do": "call", "id": "a", "name": "X", "input": {}},
        {"do": "change", "id": "a", "input": {"k": 1}, "title": "T"},
        {"do": "change", "id": "a", "input": {"k": 1}, "title": "T"},
        {"do": "result", "id": "a"},
    )

    (update,) = [event for event in events if isinstance(event, ToolUpdate)]
    assert (update.title, update.input["k"], update.input["_raw"]["do"]) == ("T", 1, "change")  # type: ignore[index]
    assert update.status is None


def test_denied_call_ends_denied() -> None:
    denied = ({"do": "begin"}, {"do": "call", "id": "a", "name": "X"}, {"do": "ask", "id": "p", "call": "a"})
    answer = {"do": "answer", "id": "p", "outcome": "denied"}

    reported, _ = run(*denied, answer, {"do": "result", "id": "a", "status": "failed", "error": "no"})
    unreported, _ = run(*denied, answer, {"do": "finish"})

    assert [(one.status, one.is_error, one.output.get("errorMessage")) for one in results(reported)] == [
        ("denied", False, "no")
    ]
    assert [(one.status, one.synthetic) for one in results(unreported)] == [("denied", True)]


def test_unanswered_permission_expires_at_turn_end() -> None:
    events, _ = run({"do": "begin"}, {"do": "ask", "id": "p"}, {"do": "finish"})

    (response,) = [event for event in events if isinstance(event, PermissionResponse)]
    assert (response.permission_id, response.outcome, response.synthetic) == ("p", "expired", True)


def test_allowed_call_waits_then_runs() -> None:
    events, _ = run(
        {"do": "call", "id": "a", "name": "X"},
        {"do": "ask", "id": "p", "call": "a"},
        {"do": "answer", "id": "p", "outcome": "allowed"},
        {"do": "result", "id": "a"},
    )

    assert [event.status for event in events if isinstance(event, ToolUpdate)] == ["awaiting-permission", "running"]


def test_open_and_finished_calls_are_bounded() -> None:
    limits = Limits(open_calls=3, tombstones=5)
    parser = Toy(Context(stream="s", limits=limits))
    for number in range(20):
        parser.feed(orjson.dumps({"do": "call", "id": f"c{number}", "name": "X"}))

    assert list(parser.state.calls.open) == ["c17", "c18", "c19"]
    assert list(parser.state.calls.done) == [f"c{number}" for number in range(12, 17)]


def test_call_memory_drops_oldest_first() -> None:
    parser = Toy(Context(stream="s", limits=Limits(call_bytes=10_000)))
    for name in "abc":
        parser.feed(orjson.dumps({"do": "call", "id": name, "name": "X"}))
        call = parser.calls.get(name)
        assert call is not None
        parser.calls.remember(call, {"input": "x" * 4_000})

    remembered = {name: bool(call.memory) for name, call in parser.state.calls.open.items()}
    assert remembered == {"a": False, "b": True, "c": True}
    assert parser.state.calls.memory_bytes < 10_000


def test_turn_end_without_id_ends_oldest_turn() -> None:
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


def test_sessions_may_share_turn_ids() -> None:
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


def test_open_turns_are_bounded_across_sessions() -> None:
    begun = [{"do": "begin", "in_session": f"session{number}"} for number in range(5)]

    events, _ = run(*begun, limits=Limits(open_turns=3))

    ends = [(event.session, event.line, event.state, event.synthetic) for event in events if event.state != "started"]
    assert ends[:2] == [("session0", 4, "cancelled", True), ("session1", 5, "cancelled", True)]
    assert len(ends) == 5


def test_async_result_after_close_replaces_synthetic_result() -> None:
    parser = Toy(Context(stream="s"))

    def feed(line: dict[str, Any]) -> list[Any]:
        return emitted(parser.feed(orjson.dumps(line))[1])

    feed({"do": "call", "id": "a", "name": "X"})
    closed: Any = emitted(parser.close("end"))[0]
    (acknowledged,) = feed({"do": "result", "id": "a", "is_async": True})
    (ended,) = feed({"do": "result", "id": "a", "output": OUTPUT})

    assert (closed.status, closed.synthetic) == ("interrupted", True)
    assert (acknowledged.async_, acknowledged.final, acknowledged.replaces) == (True, False, closed.id)
    assert (ended.status, ended.final, ended.replaces) == ("completed", True, None)
    assert feed({"do": "result", "id": "a", "output": OUTPUT}) == parser.close("end") == []


def test_a_call_that_its_reader_still_holds_is_answered_once() -> None:
    """Its turn may end, or its result come, between the look-up of the call and the answer to it."""
    parser = Toy(Context(stream="s"))
    call = parser.calls.open("a", "X", {}, raw={})
    parser.calls.close_all()
    assert parser.calls.answer(call, Answer("late"), raw={}) is None
    assert parser.calls.answer(call, Answer("later"), raw={}) == DUPLICATE_RESULT

    closed, late = results(emitted(parser.items))
    assert (closed.status, closed.replaces) == ("interrupted", None)
    assert (late.status, late.replaces) == ("completed", closed.id)


def test_a_call_whose_result_came_first_has_no_second_one() -> None:
    parser = Toy(Context(stream="s"))
    parser.calls.answer("a", Answer("early"), raw={})
    call = parser.calls.open("a", "X", {}, raw={})

    assert parser.calls.answer(call, Answer("again"), raw={}) == DUPLICATE_RESULT
    assert len(results(emitted(parser.items))) == 1


def test_call_waits_while_a_request_for_it_has_no_answer() -> None:
    """The report is opencode #14301: a client overwrote its dialog because an update said that the call was running."""
    found, _ = run(
        {"do": "call", "id": "a", "name": "X"},
        {"do": "ask", "id": "p", "call": "a"},
        {"do": "ask", "id": "q", "call": "a"},
        {"do": "status", "id": "a", "status": "running"},
        {"do": "answer", "id": "p", "outcome": "allowed"},
        {"do": "status", "id": "a", "status": "pending"},
        {"do": "answer", "id": "q", "outcome": "allowed"},
        {"do": "status", "id": "a", "status": "pending"},
    )

    statuses = [event.status for event in found if isinstance(event, ToolUpdate)]
    assert statuses == ["awaiting-permission", "running", "pending"]
