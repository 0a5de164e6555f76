"""Copilot CLI's sessions of 2025: documents that it rewrote after each change."""

from __future__ import annotations

from typing import Any

from tests.normalizers.reading import of, outline, read, results, said, turns
from tooltap.normalizers.catalog.registry import builtin
from tooltap.protocol.events import Event, Notice, ToolCall


def at(second: int, kind: str, **fields: Any) -> dict[str, Any]:
    return {"id": f"e{second}", "timestamp": f"2025-10-08T21:10:{second:02}.000Z", "type": kind, **fields}


def call(second: int, command: str, **result: Any) -> dict[str, Any]:
    kind = "tool_call_completed" if result else "tool_call_requested"
    stated = {"callId": "c1", "name": "bash", "toolTitle": "bash", "arguments": {"command": command}}
    return at(second, kind, **stated, **({"result": result} if result else {}))


def document(*timeline: dict[str, Any]) -> dict[str, Any]:
    head = {"sessionId": "one", "startTime": "2025-10-08T21:10:00.000Z", "chatMessages": []}
    return {**head, "timeline": list(timeline)}


PROMPT, LOOK = at(1, "user", text="List files"), at(2, "copilot", text="Listing.")
ANSWER = at(5, "copilot", text="There is a.py.")
WHOLE = document(PROMPT, LOOK, call(3, "ls", type="success", log="a.py\n<exited with exit code 0>"), ANSWER)


def test_document_is_read_at_once() -> None:
    found = read("copilot-history", WHOLE)

    assert outline(found) == [
        "session",
        "turn started",
        "message user",
        "message assistant",
        "tool-call Bash",
        "tool-result Bash completed",
        "message assistant",
        "turn completed",
    ]
    assert {event.session for event in found} == {"one"}
    assert results(found)["bash"].output["stdout"].startswith("a.py\n")
    assert found[1].ts == 1_759_957_801_000


def test_document_that_grows_is_told_once() -> None:
    """An entry of a call is replaced by one with its result."""
    versions = [document(PROMPT), document(PROMPT, LOOK, call(3, "ls"))]
    found = read("copilot-history", *versions, WHOLE, WHOLE)

    assert outline(found) == outline(read("copilot-history", WHOLE))
    assert [one.call_id for one in of(ToolCall, found)] == ["c1"]


def ends(found: list[Event]) -> list[str]:
    return [state for _, state, _ in turns(found)]


def test_failure_and_note() -> None:
    failed = call(2, "rm -rf /", type="denied", log="The user rejected this tool call.")
    found = read("copilot-history", document(PROMPT, failed, at(3, "info", text="Model changed")))

    assert results(found)["bash"].status == "denied"
    assert [(one.code, one.text) for one in of(Notice, found)] == [("info", "Model changed")]
    assert ends(found) == ["started", "cancelled"]


def test_next_prompt_ends_an_answered_turn() -> None:
    found = read("copilot-history", document(PROMPT, ANSWER, at(6, "user", text="Thanks")))

    assert said(found) == [("user", "List files"), ("assistant", "There is a.py."), ("user", "Thanks")]
    assert ends(found) == ["started", "completed", "started", "cancelled"]


def test_document_is_recognised() -> None:
    recognises = builtin()["copilot-history"].recognises

    assert recognises(WHOLE)
    assert not recognises({"sessionId": "one", "messages": []})
