"""Pi's RPC mode, `pi --mode rpc`: commands, responses, dialogs of extensions."""

from __future__ import annotations

from typing import Any

import orjson

from tests.normalizers.reading import of, outline, read, recording, said, statistics, turns
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    SessionEvent,
    ToolResult,
    Turn,
    Usage,
)
from tooltap.protocol.inputs import Direction
from tooltap.testing import Line, normalize

VERSION = "pi-0.73.1"


def stream(name: str) -> list[Event]:
    return normalize("pi-json", recording("pi-json", f"rpc-{name}", VERSION), Context(stream="s"))


def line(direction: Direction, kind: str, **fields: Any) -> Line:
    return Line(orjson.dumps({"type": kind, **fields}), direction=direction)


def command(kind: str, **fields: Any) -> Line:
    return line("in", kind, id="r", **fields)


def response(kind: str, data: Any = None, **fields: Any) -> Line:
    return line("out", "response", id="r", command=kind, **{"success": True, "data": data, **fields})


def state(session: str, **fields: Any) -> Line:
    return response("get_state", {"sessionId": session, **fields})


def dialog(method: str, **fields: Any) -> Line:
    return line("out", "extension_ui_request", id="d", method=method, **fields)


def test_prompt_is_there_once() -> None:
    found = stream("text")

    assert outline(found) == [
        "session",
        "turn started",
        "message user",
        "message assistant",
        "usage",
        "turn completed",
        "usage",
    ]
    assert said(found)[0] == ("user", "[[S0]] Say hello in one short sentence.")


def test_state_names_the_session_and_its_model() -> None:
    (started,) = of(SessionEvent, stream("text"))

    assert (started.state, started.session, started.model) == (
        "started",
        "01a1ffe5-e386-7046-a8ed-cb771e5a41f4",
        "fake-model",
    )


def test_statistics_are_the_sessions_usage() -> None:
    step, whole = of(Usage, stream("text"))

    assert (step.scope, step.input_tokens, step.output_tokens) == ("step", 1200, 42)
    assert (whole.scope, whole.input_tokens, whole.output_tokens, whole.turn) == ("session", 1200, 42, None)
    assert (whole.context_used, whole.context_size) == (1242, 128_000)


def test_nothing_is_unparsed() -> None:
    for name in ("text", "aborted", "commands"):
        assert statistics("pi-json", recording("pi-json", f"rpc-{name}", VERSION)).unparsed == 0


def test_aborted_turn_is_cancelled() -> None:
    found = stream("aborted")

    assert [one.code for one in of(Notice, found)] == ["interrupt"]
    assert [one.status for one in of(ToolResult, found)] == ["cancelled"]
    assert [(one.state, one.ended_by, one.reason) for one in of(Turn, found)][1:] == [
        ("cancelled", "provider", "aborted")
    ]


def test_commands_change_the_session() -> None:
    found = stream("commands")

    assert [(one.state, one.title) for one in of(SessionEvent, found)] == [
        ("started", None),
        ("updated", "My work"),
        ("started", None),  # `new_session`
    ]
    assert [(one.code, one.text) for one in of(Notice, found)][:3] == [
        ("bashExecution", "echo hi; exit 2"),
        ("command-failed", "Model not found: x/y"),
        ("command-failed", "Unknown command: weird"),
    ]
    assert [text for role, text in said(found) if role == "user"] == ["[[S0]] hi", "steer me", "follow me"]


def test_known_state_changes_nothing() -> None:
    first, again = state("s1", model={"id": "m"}), state("s1", model={"id": "m"}, sessionName="Work")
    found = read("pi-json", first, again, again, state("s2", model={"id": "n"}))

    assert [(one.session, one.state, one.model, one.title) for one in of(SessionEvent, found)] == [
        ("s1", "started", "m", None),
        ("s1", "updated", None, "Work"),
        ("s2", "started", "n", None),
    ]


def test_refused_prompt_is_kept() -> None:
    refusal = response("prompt", success=False, error="No model selected")
    found = read("pi-json", command("prompt", message="Go."), refusal)

    assert said(found) == [("user", "Go.")]
    assert [(one.code, one.level, one.text) for one in of(Notice, found)] == [
        ("command-failed", "error", "No model selected")
    ]
    assert turns(found) == []


def test_abort_is_an_interrupt() -> None:
    assert [one.code for one in of(Notice, read("pi-json", command("abort"), response("abort")))] == ["interrupt"]


def test_model_and_name_change() -> None:
    named = command("set_session_name", name="Work"), response("set_session_name")
    found = read("pi-json", response("set_model", {"id": "m"}), response("cycle_model", {"model": {"id": "n"}}), *named)

    assert [(one.model, one.title) for one in of(SessionEvent, found)] == [("m", None), ("n", None), (None, "Work")]


def test_command_of_the_user_is_a_notice() -> None:
    data = {"output": "a\n", "exitCode": 0}
    (one,) = of(Notice, read("pi-json", command("bash", command="ls"), response("bash", data)))

    assert (one.code, one.text, one.data) == ("bashExecution", "ls", data)


def test_commands_of_later_versions_are_no_events() -> None:
    assert read("pi-json", command("get_weather")) == []


def test_dialogs_are_questions() -> None:
    lines = (
        dialog("select", title="Run it?", options=["Allow", "Block"]),
        line("in", "extension_ui_response", id="d", value="Allow"),
    )
    found = read("pi-json", *lines)

    (asked,), (answered,) = of(PermissionRequest, found), of(PermissionResponse, found)
    assert (asked.type, asked.questions) == (
        "question",
        [{"question": "Run it?", "options": [{"label": "Allow"}, {"label": "Block"}]}],
    )
    assert (answered.outcome, answered.answers) == ("answered", {"value": "Allow"})


def test_dialog_may_be_confirmed_or_dismissed() -> None:
    asked = dialog("confirm", title="Clear?", message="All is lost.")
    confirmed, dismissed = (
        line("in", "extension_ui_response", id="d", **fields) for fields in ({"confirmed": False}, {"cancelled": True})
    )

    assert [one.answers for one in of(PermissionResponse, read("pi-json", asked, confirmed))] == [{"confirmed": False}]
    assert [one.outcome for one in of(PermissionResponse, read("pi-json", asked, dismissed))] == ["cancelled"]


def test_extensions_notify() -> None:
    error = line("out", "extension_error", extensionPath="/x.ts", event="tool_call", error="Oops")
    found = read("pi-json", dialog("notify", message="Hm", notifyType="warning"), dialog("setStatus"), error)

    assert [(one.code, one.level, one.text) for one in of(Notice, found)] == [
        ("extension", "warning", "Hm"),
        ("extension", "error", "Oops"),
    ]
    assert of(Message, found) == []


# -- copies of sessions, and totals -----------------------------------------------------------------------------------


def stats(total: int, cost: float = 0.02) -> Line:
    tokens = {"input": total - 10, "output": 10, "cacheRead": 0, "cacheWrite": 0, "total": total}
    return response("get_session_stats", {"tokens": tokens, "cost": cost, "contextUsage": {"tokens": total}})


def totals(*lines: Line) -> list[tuple[str | None, int | None, int | None]]:
    found = of(Usage, read("pi-json", *lines))
    return [(one.counter, one.input_tokens, one.context_used) for one in found]


def test_copy_names_the_session_that_was_copied() -> None:
    forked = response("fork", {"text": "Second", "cancelled": False})
    found = of(SessionEvent, read("pi-json", state("one"), forked, state("two"), state("three")))

    assert [(one.session, one.forked_from) for one in found] == [("one", None), ("two", "one"), ("three", None)]


def test_cancelled_fork_copies_nothing() -> None:
    forked = response("fork", {"text": "Second", "cancelled": True})
    found = of(SessionEvent, read("pi-json", state("one"), forked, state("two")))

    assert [one.forked_from for one in found] == [None, None]


def test_total_of_a_session_counts_unless_it_falls() -> None:
    """Until 0.7x it was that of the context, which a compaction shortens."""
    assert totals(state("one"), stats(110), stats(60), stats(210)) == [
        ("session", 100, 110),
        (None, None, 60),
        ("session", 200, 210),
    ]


def test_total_of_a_copy_is_not_counted_as_it_includes_the_original() -> None:
    lines = (state("one"), stats(110), response("clone", {"cancelled": False}), stats(110), state("two"), stats(220))

    assert totals(*lines) == [("session", 100, 110), (None, None, 110), (None, None, 220)]


def test_printed_header_of_a_fork_names_its_parent() -> None:
    header = {"type": "session", "version": 3, "id": "two", "parentSession": "/s/2026-11-26T11-00-00-000Z_one.jsonl"}
    (started,) = of(SessionEvent, read("pi-json", header))

    assert (started.session, started.forked_from) == ("two", "one")
