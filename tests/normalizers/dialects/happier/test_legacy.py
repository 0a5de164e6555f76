"""Messages that Happier's server stored: three kinds of wrapper, with payloads before normalization."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.normalizers.reading import emitted
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.dialects.happier.parser import Legacy
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolCall,
    ToolResult,
    Turn,
)
from tooltap.testing import check_events, check_recording, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures" / "legacy" / "happy-written"


def recorded(name: str) -> list[Event]:
    return check_recording("legacy", read_recording((FIXTURES / f"{name}.jsonl").read_bytes()))


def run(*values: dict[str, Any]) -> tuple[list[Any], list[str]]:
    parser = Legacy(Context(stream="s"))
    events: list[Any] = []
    classes = []
    for value in values:
        line_class, items = parser.feed(orjson.dumps(value))
        classes.append(line_class)
        events += emitted(items)
    return events + emitted(parser.close("end")), classes


def call(name: str, value: Any, call_id: str = "c") -> dict[str, Any]:
    return {"type": "tool-call", "callId": call_id, "name": name, "input": value, "id": "m"}


def result(output: Any, call_id: str = "c") -> dict[str, Any]:
    return {"type": "tool-result", "callId": call_id, "output": output, "id": "m"}


def acp(data: dict[str, Any], provider: str = "gemini") -> dict[str, Any]:
    return {"role": "agent", "content": {"type": "acp", "provider": provider, "data": data}}


def names(events: list[Any]) -> dict[str, str]:
    return {event.call_id: event.name for event in events if isinstance(event, ToolCall)}


def results(events: list[Any]) -> dict[str, ToolResult]:
    return {event.call_id: event for event in events if isinstance(event, ToolResult)}


# -- ACP and Codex ------------------------------------------------------------------------------------------------


def test_acp_call_outcomes() -> None:
    events = recorded("acp")

    assert {call_id: (one.name, one.status) for call_id, one in results(events).items()} == {
        "call_todo": ("TodoWrite", "completed"),
        "call_ls": ("Bash", "completed"),
        "call_cat": ("Bash", "completed"),
        "call_ed": ("Edit", "failed"),
        "fe1": ("Patch", "completed"),
        "call_v2": ("Read", "completed"),
    }
    assert {event.protocol for event in events if isinstance(event, ToolCall)} == {"acp"}
    assert [event.provider for event in events if isinstance(event, ToolCall)][-1] == "gemini"
    assert [event.state for event in events if isinstance(event, Turn)] == ["started", "completed"]
    assert [event.text for event in events if isinstance(event, Reasoning)] == ["The list first."]
    assert [event.text for event in events if isinstance(event, Notice)] == ["Session was archived."]


def test_json_strings_are_decoded_except_output() -> None:
    events = recorded("acp")

    commands = {event.call_id: event.input.get("command") for event in events if isinstance(event, ToolCall)}
    outputs = results(events)
    assert commands["call_ls"] == "ls src"
    assert (outputs["call_ls"].output["stdout"], outputs["call_ls"].output["exit_code"]) == ("a.py\n", 0)
    assert outputs["call_cat"].output["stdout"] == '{"name":"demo","version":"1.0.0"}'
    assert outputs["call_todo"].output["todos"] == [{"content": "Fix", "status": "pending"}]


def test_edits_keep_whitespace() -> None:
    edit = next(one for one in recorded("acp") if isinstance(one, ToolCall) and one.call_id == "call_ed")

    assert (edit.input["old_string"], edit.input["new_string"]) == ("  x = 1\n", "  x = 2\n")
    assert edit.input["filePath"] == "/w/a.py"


def test_normalized_payload_is_unchanged() -> None:
    lines = [orjson.loads(line) for line in (FIXTURES / "acp.jsonl").read_bytes().splitlines()]
    stored = {line["content"]["data"]["type"]: line["content"]["data"] for line in lines[16:18]}
    events = recorded("acp")

    kept = next(one for one in events if isinstance(one, ToolCall) and one.call_id == "call_v2")
    assert kept.input == stored["tool-call"]["input"]
    assert results(events)["call_v2"].output == stored["tool-result"]["output"]


def test_stored_canonical_name_wins() -> None:
    happy = {"v": 2, "protocol": "acp", "provider": "x", "rawToolName": "thing", "canonicalToolName": "CodeSearch"}

    events, _ = run(acp(call("thing", {"q": "a", "_happy": happy, "_raw": {}})), acp(result({"matches": []})))

    assert names(events) == {"c": "CodeSearch"}
    assert results(events)["c"].name == "CodeSearch"
    assert events[0].input == {"q": "a", "_happy": happy, "_raw": {}}


def test_name_is_inferred_from_input() -> None:
    events, _ = run(
        acp(call("unknown", {"_acp": {"kind": "execute"}, "command": "ls"}, "kind")),
        acp(call("other", {"permission": {"toolName": "read"}}, "permission")),
        acp(call("", {"description": "glob"}, "description")),
        acp(call("other", {"description": "Moves on to other things"}, "sentence")),
        acp(call("save_memory", {"description": "glob"}, "named")),
    )

    assert names(events) == {
        "kind": "Bash",
        "permission": "Read",
        "description": "Glob",
        "sentence": "other",
        "named": "save_memory",
    }


def test_codex_calls_and_prompts() -> None:
    events = recorded("codex")

    ends = {call_id: (one.name, one.status, one.output.get("exit_code")) for call_id, one in results(events).items()}
    assert ends == {"call_1": ("Bash", "failed", 3), "call_2": ("Patch", "failed", None)}
    assert results(events)["call_2"].output["errorMessage"] == "patch does not apply"
    texts = [(event.role, event.text) for event in events if isinstance(event, Message)]
    assert texts == [
        ("user", "Run the failing command."),
        ("assistant", "It failed with code 3."),
        ("user", "Thanks."),
        ("assistant", "You are welcome."),
    ]
    turns = [event.state for event in events if isinstance(event, Turn)]
    assert turns == ["started", "completed", "started", "completed"]


# -- Claude -------------------------------------------------------------------------------------------------------


def test_transcript_lines() -> None:
    events = recorded("claude")

    assert {(event.protocol, event.provider, event.dialect) for event in events} == {("claude", "claude", "legacy")}
    assert [event.text for event in events if isinstance(event, Message)] == [
        "I run both.",
        "and this",
        "Done.",
        "Thanks.",
        "You are welcome.",
    ]
    assert [event.text for event in events if isinstance(event, Reasoning)] == ["Two calls."]


def test_results_on_one_line() -> None:
    outputs = results(recorded("claude"))

    assert (outputs["toolu_1"].status, outputs["toolu_1"].output["exit_code"]) == ("failed", 3)
    assert (outputs["toolu_2"].status, outputs["toolu_2"].output["file"]["content"]) == ("completed", "x = 1\n")
    assert (outputs["call_g"].name, outputs["call_g"].output["stdout"]) == ("Bash", "a.py\n")


def test_user_decision_is_in_result() -> None:
    events = recorded("claude")

    answers = [(one.call_id, one.outcome, one.by, one.ts) for one in events if isinstance(one, PermissionResponse)]
    assert answers == [("toolu_3", "denied", "user", 1795293892000)]
    assert results(events)["toolu_3"].status == "denied"


# -- wrappers -----------------------------------------------------------------------------------------------------


def test_message_with_and_without_envelope() -> None:
    envelope = {"id": "1", "seq": 1, "createdAt": 1795293851000, "content": acp(call("read", {"path": "a"}, "e"))}

    events, _ = run(envelope, call("read", {"path": "a"}, "b"))

    assert [(one.call_id, one.name, one.ts) for one in events if isinstance(one, ToolCall)] == [
        ("e", "Read", 1795293851000),
        ("b", "Read", 1795293851000),
    ]


def test_transcript_line_without_wrapper() -> None:
    line = {"type": "user", "uuid": "u", "sessionId": "x", "message": {"role": "user", "content": "hi"}}

    assert [event.text for event in run(line)[0] if isinstance(event, Message)] == ["hi"]


@pytest.mark.parametrize("others", [[], [{"hello": 1}]])
def test_session_that_is_named_late_is_that_of_the_transcript_too(others: list[dict[str, Any]]) -> None:
    line = {"type": "user", "uuid": "u", "message": {"role": "user", "content": "hi"}}

    events, _ = run(line, *others, {"sessionId": "x"}, {**line, "uuid": "v"})

    check_events(events)
    assert [one.alias for one in events if isinstance(one, SessionEvent) and one.alias is not None] == ["s"]
    assert {one.session for one in events if isinstance(one, Turn) and one.state != "started"} == {"x"}


def test_session_that_is_named_first_is_that_of_the_transcript_too() -> None:
    line = {"type": "user", "uuid": "u", "message": {"role": "user", "content": "hi"}}

    events, _ = run({"sessionId": "x"}, line)

    assert {one.session for one in events} == {"x"}


def test_event_ids_are_unique() -> None:
    line = {"type": "user", "uuid": "u", "sessionId": "x", "message": {"role": "user", "content": "hi"}}
    wrapped = {"role": "agent", "content": {"type": "output", "data": line}}

    events, _ = run(wrapped, acp({"type": "message", "message": "yes"}))

    assert len({event.id for event in events}) == len(events)
    assert {event.id.split(":")[1] for event in events} == {"1", "2", "2c"}


def test_unknown_shapes_are_unparsed() -> None:
    classes = run({"hello": 1}, acp({"type": "tool-call"}), acp({"type": "dance"}), {"role": "agent", "content": 1})[1]

    assert classes == ["unparsed"] * 4


def test_unfinished_turn_keeps_its_origin() -> None:
    events, _ = run(
        acp({"type": "task_started", "id": "m"}, "gemini"), acp({"type": "message", "message": "Hi."}, "gemini")
    )

    assert [
        (event.state, event.synthetic, event.protocol, event.provider) for event in events if isinstance(event, Turn)
    ] == [
        ("started", False, "acp", "gemini"),
        ("completed", True, "acp", "gemini"),
    ]


def test_wrapped_value_is_unwrapped() -> None:
    happy = {"v": 2, "protocol": "acp", "provider": "gemini", "rawToolName": "execute", "canonicalToolName": "Bash"}
    stored = {"value": "a.py", "_happy": happy, "_raw": "a.py"}
    events, _ = run(acp(call("execute", {"command": "ls"})), acp(result(stored)))

    assert results(events)["c"].output["stdout"] == "a.py"


def test_only_claudes_own_blocks_are_what_the_model_saw() -> None:
    def line(block: dict[str, Any]) -> dict[str, Any]:
        message = {"role": "user", "content": [block]}
        return {"role": "agent", "content": {"type": "output", "data": {"type": "user", "message": message}}}

    events, _ = run(
        line({"type": "tool_result", "tool_use_id": "c", "content": "a.py"}),
        line({"type": "tool-call-result", "callId": "d", "output": {"stdout": "a.py"}}),
    )

    assert {call_id: one.model_view is not None for call_id, one in results(events).items()} == {"c": True, "d": False}
