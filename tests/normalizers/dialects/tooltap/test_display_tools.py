"""The `display-tools` dialect: what `tooltap mcp` reports about its calls."""

from __future__ import annotations

from typing import Any

from tests.normalizers.reading import answer, of, outline, read, recording
from tooltap.protocol.events import Display, SessionEvent, ToolCall, ToolResult
from tooltap.testing import normalize

FILE, RUN, IMAGE = (f"mcp__tooltap__{name}" for name in ("render_file_contents", "run_and_display", "display_image"))
EVENTS = normalize("display-tools", recording("display-tools", "three-tools", "tooltap-0.1"))
RESULTS = of(ToolResult, EVENTS)


def call(**more: Any) -> dict[str, Any]:
    return {"type": "display/call", "callId": "c", "tool": "display_image", "arguments": {"path": "a.png"}, **more}


def result(**more: Any) -> dict[str, Any]:
    return {**call(), "type": "display/result", "status": "completed", "text": "Displayed", **more}


def test_every_call_has_a_result() -> None:
    assert outline(EVENTS) == [
        "session",
        *(f"tool-call {FILE}", f"tool-result {FILE} completed"),
        *(f"tool-call {FILE}", f"tool-result {FILE} completed"),
        *(f"tool-call {FILE}", f"tool-result {FILE} denied"),
        *(f"tool-call {FILE}", f"tool-result {FILE} failed"),
        *(f"tool-call {RUN}", f"tool-result {RUN} failed"),
        *(f"tool-call {RUN}", f"tool-result {RUN} completed"),
        *(f"tool-call {IMAGE}", f"tool-result {IMAGE} completed"),
        *(f"tool-call {RUN}", f"tool-result {RUN} cancelled"),
    ]


def test_result_has_model_text_and_display() -> None:
    assert answer(RESULTS[0].output) == {"text": "Displayed app.py to the user (3 lines)"}
    assert RESULTS[0].display == Display(
        origin="provider",
        output_id="display-155c3e450062ceb8-d5048058",
        mime_type="text/x-python",
        type="file",
        path="app.py",
        language="python",
        bytes=26,
        lines=3,
    )
    assert [one.display is not None for one in RESULTS] == [True, True, False, False, True, True, True, False]


def test_failed_command_is_displayed() -> None:
    failed = RESULTS[4]

    assert (failed.status, failed.is_error, failed.output["exit_code"]) == ("failed", True, 3)
    assert failed.display is not None
    assert failed.display.type == "command"


def test_session_title_names_client() -> None:
    [session] = of(SessionEvent, EVENTS)

    assert (session.state, session.cwd, session.title) == ("started", "/tmp/ws", "display tools of mcp 0.1.0")


def test_reused_call_id_is_another_call() -> None:
    found = read("display-tools", call(), result(), result(), call(), result())

    assert outline(found) == [f"tool-call {IMAGE}", f"tool-result {IMAGE} completed"] * 2
    assert len({one.call_id for one in of(ToolCall, found)}) == 2


def test_result_without_call_gets_synthetic_call() -> None:
    synthetic, _ = read("display-tools", result())

    assert isinstance(synthetic, ToolCall)
    assert (synthetic.name, synthetic.synthetic) == (IMAGE, True)


def test_invalid_lines_are_unparsed() -> None:
    invalid = [
        call(callId=7),
        call(tool=None),
        result(status="shown"),
        {"type": "display/other", "callId": "c", "tool": "t"},
    ]

    assert outline(read("display-tools", *invalid)) == ["unparsed"] * 4


def test_invalid_display_is_dropped() -> None:
    [_, done] = read("display-tools", result(display={"outputId": 7}))

    assert isinstance(done, ToolResult)
    assert done.display is None
