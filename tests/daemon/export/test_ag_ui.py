"""AG-UI exports: valid by the protocol's own packages, and the same session when our own dialect reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from ag_ui.core import Event as AgUiEvent
from pydantic import TypeAdapter

from tests.daemon.events import call, event, message, result
from tests.daemon.export.exporting import exported, written
from tests.daemon.export.test_atif import RECORDINGS, SUBAGENTS
from tooltap.daemon.export.ag_ui import AgUiEvents
from tooltap.daemon.export.source import Bodies, MissingRange
from tooltap.normalizers.core.items import Produced
from tooltap.normalizers.wire.recording import Line
from tooltap.protocol.events import (
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    ToolCall,
    Turn,
    Usage,
    decode,
)
from tooltap.testing import normalize

VALID: TypeAdapter[Any] = TypeAdapter(AgUiEvent)


def lines(*made: Produced) -> list[dict[str, Any]]:
    text = written("ag-ui", *made)
    for line in text.splitlines():
        VALID.validate_json(line)
    return [json.loads(line) for line in text.splitlines()]


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [one["type"] for one in events if one["type"] != "CUSTOM"]


@pytest.mark.parametrize("folder", sorted({path.parts[-3] for path in RECORDINGS}))
def test_every_recording_is_valid_and_has_its_calls_and_texts(folder: str) -> None:
    for path in (one for one in RECORDINGS if one.parts[-3] == folder):
        events, text = exported("ag-ui", path)
        for line in text.splitlines():
            VALID.validate_json(line)
        again = normalize("ag-ui", [Line(line.encode()) for line in text.splitlines()])
        done = [one for one in events if not one.replay]

        for role in ("assistant", "user"):
            said = [[one.text for one in of if isinstance(one, Message) and one.role == role] for of in (done, again)]
            assert "".join(said[0]) == "".join(said[1]), path
        called = [sorted({(one.call_id, one.name) for one in of if isinstance(one, ToolCall)}) for of in (done, again)]
        assert called[0] == called[1], path


def test_turn_is_a_run_of_the_session() -> None:
    started, finished = (event(Turn, turn="t1", state=state) for state in ("started", "completed"))
    found = lines(started, event(Reasoning, text="Hm."), message("Twelve."), finished)

    assert kinds(found)[:10] == [
        "RUN_STARTED",
        *("REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT", "REASONING_MESSAGE_END"),
        *("REASONING_END", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"),
    ]
    assert (found[0]["threadId"], found[0]["protocolVersion"]) == ("session-1", "1.0")


def test_call_has_its_arguments_and_result() -> None:
    failed = result("c", output={"stdout": "a"}, status="failed", is_error=True)
    found = lines(call("c", input={"command": "ls"}), failed)
    by_kind = {one["type"]: one for one in found}

    assert json.loads(by_kind["TOOL_CALL_ARGS"]["delta"]) == {"command": "ls"}
    assert json.loads(by_kind["TOOL_CALL_RESULT"]["content"]) == {"stdout": "a"}
    assert [one["value"] for one in found if one.get("name") == "tool-failed"] == [{"toolCallId": "c"}]


def test_permission_interrupts_the_run_and_the_answer_begins_the_next() -> None:
    asked = event(PermissionRequest, permission_id="p", type="permission", call_id="c", title="Run ls?")
    found = lines(call("c"), asked, event(PermissionResponse, permission_id="p", outcome="allowed"), result("c"))
    first, second = [one for one in found if one["type"] == "RUN_STARTED"]
    ended = [one["outcome"] for one in found if one["type"] == "RUN_FINISHED"]

    assert ended[0]["interrupts"] == [{"id": "p", "reason": "permission", "message": "Run ls?", "toolCallId": "c"}]
    assert ended[1] == {"type": "success"}
    assert second["parentRunId"] == first["runId"]


def test_failed_turn_is_an_error_and_the_next_one_a_run() -> None:
    turns = [event(Turn, turn=turn, state=state) for turn in ("t1", "t2") for state in ("started", "failed")]

    assert kinds(lines(*turns)) == [*("RUN_STARTED", "RUN_ERROR") * 2, "RUN_STARTED", "RUN_FINISHED"]


def test_subagents_begin_at_their_call_and_end_before_the_run() -> None:
    _, text = exported("ag-ui", SUBAGENTS)
    events = [json.loads(line) for line in text.splitlines()]
    begun = {one["subagentRunId"]: one["parentToolCallId"] for one in events if one["type"] == "SUBAGENT_STARTED"}
    ended = [one["subagentRunId"] for one in events if one["type"] == "SUBAGENT_FINISHED"]

    assert len(set(begun.values())) == 2
    assert sorted(ended) == sorted(begun)
    assert {one["subagentRunId"] for one in events if "subagentRunId" in one} == begun.keys()


def test_tokens_of_a_run_are_added_up_by_model() -> None:
    used = [event(Usage, scope="step", model=model, input_tokens=5, output_tokens=1) for model in ("a", "a", "b")]
    [finished] = [one for one in lines(message("x"), *used) if one["type"] == "RUN_FINISHED"]

    assert finished["usage"] == [
        {"model": "a", "inputTokens": 10, "outputTokens": 2},
        {"model": "b", "inputTokens": 5, "outputTokens": 1},
    ]


def test_notices_and_gaps_are_events_of_our_own() -> None:
    exporter = AgUiEvents("A session", bodies=Bodies(0, 0))
    exporter.add_gap(MissingRange(1, 3))
    notice = event(Notice, level="warning", code="retry", text="once more")
    text = exporter.add(decode(notice.body), {}) + "".join(exporter.end("A remark."))

    custom = [json.loads(line) for line in text.splitlines() if '"CUSTOM"' in line]
    assert [(one["name"], one["value"]) for one in custom] == [
        ("title", "A session"),
        ("gap", "Events 1 to 3 are damaged in the journal."),
        ("retry", "once more"),
        ("remark", "A remark."),
    ]
