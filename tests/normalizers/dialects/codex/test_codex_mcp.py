"""`codex mcp-server`: recordings. Each thing is reported by several lines and emitted once."""

from pathlib import Path

import orjson
import pytest
from syrupy.assertion import SnapshotAssertion

from tests.normalizers.dialects.codex.helpers import (
    FIXTURES,
    agents_side,
    calls,
    events,
    recording,
    results,
    statistics,
)
from tests.normalizers.reading import answer, of
from tooltap.normalizers.core.items import Context, OutputChunk
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import (
    Event,
    Message,
    Notice,
    PermissionRequest,
    PermissionResponse,
    Reasoning,
    SessionEvent,
    ToolUpdate,
    Turn,
    Unparsed,
    Usage,
)
from tooltap.testing import Line, check_recording, normalize, read_recording

ALL = sorted(FIXTURES.glob("*.jsonl"))


def said(found: list[Event]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in of(Message, found)]


def turns(found: list[Event]) -> list[tuple[str | None, str, str | None]]:
    return [(turn.turn, turn.state, turn.reason) for turn in of(Turn, found)]


def data_of(line: Line) -> bytes:
    assert isinstance(line.data, bytes)
    return line.data


def kinds(found: list[Event], line: int) -> list[str]:
    return [type(event).__name__ for event in found if event.line == line]


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_recordings_are_fully_parsed(path: Path) -> None:
    stats = statistics(read_recording(path.read_bytes()))

    assert stats.unparsed == 0


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_agents_side_alone_yields_same_content(path: Path) -> None:
    lines = read_recording(path.read_bytes())
    whole = normalize("codex-mcp", lines, Context(stream="s"))

    alone = check_recording("codex-mcp", agents_side(lines), Context(stream="s"))

    assert said(alone) == said(whole)
    assert [(one.call_id, one.name, one.input) for one in calls(alone)] == [
        (one.call_id, one.name, one.input) for one in calls(whole)
    ]
    assert [(one.call_id, one.status, one.output) for one in results(alone)] == [
        (one.call_id, one.status, one.output) for one in results(whole)
    ]
    assert turns(alone) == turns(whole)


@pytest.mark.parametrize("path", ALL, ids=lambda path: path.stem)
def test_line_of_a_log_is_no_answer(path: Path) -> None:
    """A JSON log on standard output, with the `id` of an open request, but no `jsonrpc`."""
    lines = read_recording(path.read_bytes())
    asked = next(index for index, one in enumerate(lines) if b'"tools/call"' in data_of(one))
    result = {"content": [{"type": "text", "text": "cache miss"}]}
    logged = Line(orjson.dumps({"id": orjson.loads(data_of(lines[asked]))["id"], "result": result}), direction="out")

    found = normalize("codex-mcp", [*lines[: asked + 1], logged, *lines[asked + 1 :]], Context(stream="s"))

    whole = normalize("codex-mcp", lines, Context(stream="s"))
    assert (said(found), turns(found)) == (said(whole), turns(whole))
    assert [one.line for one in of(Unparsed, found)] == [asked + 2]


# -- sessions, turns, messages ----------------------------------------------------------------------------------------


def test_session_start_has_cwd_model_and_version() -> None:
    (session,) = of(SessionEvent, events("two-turns"))

    assert (session.state, session.session) == ("started", "01a1ffe4-397b-7750-b2a9-211578d3d7e7")
    assert (session.cwd, session.model, session.mode) == ("/tmp/ws", "gpt-5.4", "on-request/workspace-write")
    assert session.agent_version == "0.120.0"
    assert session.alias is None


def test_turns_have_provider_ids_and_durations() -> None:
    found = events("two-turns")

    assert turns(found) == [
        ("3", "started", None),
        ("3", "completed", None),
        ("01a1ffe4-3a71-7fa1-aeb2-9841274ed7db", "started", None),
        ("01a1ffe4-3a71-7fa1-aeb2-9841274ed7db", "completed", None),
    ]
    assert [turn.duration_ms for turn in of(Turn, found)] == [None, 114, None, 284]


def test_each_message_is_emitted_once() -> None:
    found = events("two-turns")

    assert said(found) == [
        ("user", "[[S0]] Say hello in one short sentence."),
        ("assistant", "Hello from the scripted model."),
        ("user", "[[S1]] second turn"),
        ("assistant", "I'll read the file."),
        ("assistant", "It prints a greeting: `greet(name)` returns **Hello, name!**."),
    ]
    first, second = of(Message, found)[:2]
    assert (first.message_id, first.line) == ("f5604b0f-8aae-406e-9cec-adfeeda59c41", 16)
    assert (second.message_id, second.line) == ("msg_a0823c8baf9243028b4e2125", 24)


def test_repeated_texts_are_separate_messages() -> None:
    texts = [text for role, text in said(events("plan")) if role == "assistant"]

    assert texts == ["Updating the plan."] * 3 + ["Plan complete."]


def test_reasoning_is_emitted_once() -> None:
    found = of(Reasoning, events("reasoning-edit"))

    assert [(one.text, one.block) for one in found] == [
        ("Let me think. The user wants the greeting fixed; first I should read the file.", 0),
        ("The string is on line 6. I will edit it, then verify by running it.", 0),
        ("Verify.", 0),
        ("All fine.", 0),
    ]
    assert found[0].message_id == "rs_fa7103a3b99d416a88fdf3d4"


def test_skipped_lines_are_counted_by_reason() -> None:
    stats = statistics(recording("two-turns"))

    assert stats.lines == 65
    assert stats.skipped == {
        "handshake": 5,
        "prompt": 2,
        "mcp-startup": 3,
        "prompt-context": 4,
        "started": 5,
        "duplicate": 8,
        "no-usage": 1,
        "partial": 16,
        "unchanged": 2,
        "answer": 2,
        "held": 1,
    }


def test_usage_is_emitted_when_total_changes() -> None:
    usage = of(Usage, events("two-turns"))

    assert [(one.scope, one.input_tokens, one.output_tokens) for one in usage] == [
        ("step", 1200, 42),
        ("step", 1200, 42),
        ("step", 1200, 42),
    ]
    first = usage[0]
    assert (first.cache_read_tokens, first.reasoning_tokens) == (900, 7)
    assert (first.context_used, first.context_size) == (1242, 258400)


# -- commands ---------------------------------------------------------------------------------------------------------


def test_command_is_opened_updated_and_ended() -> None:
    found = events("two-turns")
    (call,), (result,) = calls(found), results(found)
    (update,) = of(ToolUpdate, found)

    assert (call.line, update.line, result.line) == (45, 47, 49)
    assert (call.name, call.input["_happy"]["rawToolName"]) == ("Bash", "exec_command")
    assert answer(call.input) == {"cmd": "sed -n '1,200p' src/app.py", "command": "sed -n '1,200p' src/app.py"}
    assert call.input["_raw"]["type"] == "function_call"
    assert update.input is not None
    assert (update.input["command"], update.input["cwd"]) == ("sed -n '1,200p' src/app.py", "/tmp/ws")
    assert update.input["_raw"]["command"] == ["/bin/bash", "-lc", "sed -n '1,200p' src/app.py"]
    assert list(answer(result.output)) == ["stdout", "stderr", "exit_code"]
    assert result.output["stdout"].startswith("import sys\n\n\ndef greet(name):\n")
    assert (result.output["stderr"], result.output["exit_code"], result.status) == ("", 0, "completed")
    assert result.turn == "01a1ffe4-3a71-7fa1-aeb2-9841274ed7db"


def test_parallel_commands_keep_their_results() -> None:
    found = events("parallel")
    read_app, read_util, git = results(found)

    assert [one.call_id for one in calls(found)] == [read_app.call_id, read_util.call_id, git.call_id]
    assert read_util.output["stdout"] == "def add(a, b):\n    return a + b\n"
    # There is no `exec_command_end`; the text states the exit code, and both streams are merged in it.
    assert answer(git.output) == {"stdout": "?? .codex\ndone\n", "exit_code": 0}
    assert (git.line, git.duration_ms) == (40, 910)


def test_long_output_is_complete_beside_model_view() -> None:
    (result,) = results(events("long-output"))

    assert result.output["stdout"].startswith("line 000001: the quick brown fox")
    assert result.output["formatted_output"].startswith("Total output lines: 2000\n\nline 000001: the quick")
    assert "aggregated_output" not in result.output  # equal to stdout


def test_escapes_and_unicode_are_preserved() -> None:
    command, patch, _ = results(events("unicode"))

    assert "\x1b[31mred\x1b[0m" in command.output["stdout"]
    assert "café 日本語 😀 👩‍💻" in command.output["stdout"]
    assert patch.output["stdout"] == "Success. Updated the following files:\nA docs/ünïcöde 😀.txt\n"


def test_interrupted_command_ignores_late_output() -> None:
    found = events("interrupted")
    (result,) = results(found)

    assert (result.status, result.line) == ("cancelled", 32)
    assert answer(result.output) == {
        "stdout": "tick 2\ntick 3\ntick 4\n",  # the first was never on the wire
        "errorMessage": "aborted by user after 3.9s",
    }
    (notice,) = of(Notice, found)
    assert (notice.code, notice.text, notice.line) == ("interrupt", "user", 31)
    assert turns(found)[-1] == ("2", "cancelled", "interrupted")
    assert found[-1].line == 33


def test_output_deltas_are_chunks_with_offsets() -> None:
    normalizer = StreamNormalizer(Context(stream="s", partials=True), "codex-mcp")
    found = [
        output.event
        for line in recording("interrupted")
        for output in normalizer.feed(line.data, line.t, line.direction)
        if not isinstance(output, OutputChunk)
    ]

    pieces = [update.chunk for update in of(ToolUpdate, found) if update.chunk is not None]
    assert [(piece.stream, piece.text, piece.offset) for piece in pieces] == [
        ("stdout", "tick 2\n", 0),
        ("stdout", "tick 3\n", 7),
        ("stdout", "tick 4\n", 14),
    ]
    previews = [message for message in of(Message, found) if message.partial]
    assert [(one.text, one.offset, one.message_id) for one in previews] == [
        ("Starting the slow ", 0, "msg_eef40420c84d4666bed45baa"),
        ("command.", 18, "msg_eef40420c84d4666bed45baa"),
    ]


# -- patches and plans ------------------------------------------------------------------------------------------------


def test_patch_input_is_replaced_by_applied_changes() -> None:
    found = events("patch-approved")
    call, update, result = calls(found)[0], of(ToolUpdate, found)[0], results(found)[0]

    assert (call.name, call.input["_happy"]["rawToolName"]) == ("Patch", "apply_patch")
    content = "# Notes\n\n- first\n- second\n"
    assert call.input["changes"]["docs/notes.md"]["add"] == {"content": content}
    assert update.input is not None
    assert update.input["changes"]["/tmp/ws/docs/notes.md"]["add"] == {"content": content}
    assert update.input["auto_approved"] is False
    assert answer(result.output) == {
        "stdout": "Success. Updated the following files:\nA docs/notes.md\n",
        "success": True,
        "applied": True,
    }


def test_edit_has_old_and_new_text() -> None:
    patch = next(call for call in calls(events("reasoning-edit")) if call.name == "Patch")

    assert patch.input["changes"]["src/app.py"]["modify"] == {
        "old_content": '    """Return a greeting."""\n    return "Hello, " + name + "!"',
        "new_content": '    """Return a greeting."""\n    return "Good day, " + name + "!"',
    }


def test_turn_diff_is_one_synthetic_call() -> None:
    found = events("patch-approved")
    diff = next(call for call in calls(found) if call.name == "Diff")

    assert kinds(found, 48) == ["ToolCall", "ToolResult", "Turn"]
    assert (diff.call_id, diff.line, diff.turn, diff.synthetic) == ("diff-1", 48, "2", True)
    assert diff.input["unified_diff"].endswith("@@ -0,0 +1,4 @@\n+# Notes\n+\n+- first\n+- second\n")
    assert statistics(recording("patch-approved")).skipped["unchanged"] == 3  # two diffs, one token count


def test_plan_update_belongs_to_its_call() -> None:
    found = events("plan")

    assert [call.name for call in calls(found)] == ["TodoWrite"] * 3
    assert [todo["status"] for todo in calls(found)[1].input["todos"]] == ["completed", "in_progress", "pending"]
    assert [result.output["message"] for result in results(found)] == ["Plan updated"] * 3
    assert statistics(recording("plan")).skipped["duplicate-call"] == 3


# -- other tools ------------------------------------------------------------------------------------------------------


def test_web_search_lines_are_one_call() -> None:
    found = events("web-search")
    (call,), (result,) = calls(found), results(found)

    assert (call.call_id, call.name, call.line) == ("it_e05865fc7a3c459588819241", "WebSearch", 17)
    assert answer(call.input) == {
        "query": "fixture page answer",
        "action": {"type": "search", "query": "fixture page answer"},
    }
    assert (result.status, result.line, answer(result.output)) == ("completed", 19, {})
    assert statistics(recording("web-search")).skipped["duplicate-result"] == 2


def test_mcp_tool_has_server_name_and_output() -> None:
    found = events("mcp-approval-open")
    echo, title = calls(found)

    assert [echo.name, title.name] == ["mcp__fixture__echo", "mcp__fixture__change_title"]
    assert (results(found)[0].call_id, results(found)[0].output["text"]) == (echo.call_id, "echo: hi there")


def test_unavailable_question_fails() -> None:
    found = events("question-unavailable")
    (call,), (result,) = calls(found), results(found)

    assert (call.name, call.input["questions"][0]["question"]) == ("AskUserQuestion", "Which database?")
    assert (result.status, answer(result.output)) == (
        "failed",
        {"errorMessage": "request_user_input is unavailable in Default mode"},
    )


# -- approvals --------------------------------------------------------------------------------------------------------


def test_approval_is_requested_and_answered_once() -> None:
    found = events("command-denied")
    (request,), (response,) = of(PermissionRequest, found), of(PermissionResponse, found)

    assert (request.permission_id, request.call_id) == ("call_352fed9c67a6408d918b22f0",) * 2
    assert (request.type, request.name, request.title) == ("permission", "Bash", "May I delete README.md?")
    assert request.input is not None
    assert request.input["command"] == "rm README.md"
    assert request.options == [
        {"id": "approved", "name": "approved", "kind": "allow_once"},
        {
            "id": "approved_execpolicy_amendment",
            "name": "approved_execpolicy_amendment",
            "kind": "allow_always",
            "remembers": "From now on: commands that begin with rm README.md",
        },
        {"id": "abort", "name": "abort", "kind": "reject_once"},
    ]
    assert (response.permission_id, response.outcome, response.by) == (request.permission_id, "denied", "user")
    assert (response.option_id, response.line) == ("denied", 29)


def test_refused_command_has_provider_error() -> None:
    (result,) = results(events("command-denied"))

    assert (result.status, result.is_error) == ("denied", False)
    words = "exec_command failed for `/bin/bash -lc 'rm README.md'`: CreateProcess "
    assert answer(result.output) == {"errorMessage": words + '{ message: "Rejected(\\"rejected by user\\")" }'}


def test_missing_answer_is_inferred_from_call() -> None:
    def outcome(name: str) -> tuple[str, bool, int]:
        found = normalize("codex-mcp", agents_side(recording(name)), Context(stream="s"))
        (response,) = of(PermissionResponse, found)
        return response.outcome, response.synthetic, response.line

    assert outcome("patch-approved") == ("allowed", True, 29)  # it was applied
    assert outcome("parallel") == ("allowed", True, 34)  # it began to run
    assert outcome("command-denied") == ("denied", True, 26)  # it was rejected


def test_unanswered_mcp_approval_interrupts_call() -> None:
    found = events("mcp-approval-open")
    (request,), (response,) = of(PermissionRequest, found), of(PermissionResponse, found)
    result = results(found)[-1]

    assert request.title == 'Allow the fixture MCP server to run tool "change_title"?'
    assert (request.name, request.input) == ("mcp__fixture__change_title", {"title": "Demo title"})
    assert request.call_id == result.call_id == "call_c02e44206aa045998bf2f6ac"
    assert (response.outcome, response.synthetic) == ("expired", True)
    assert (result.status, result.synthetic) == ("interrupted", True)
    assert turns(found)[-1] == ("2", "cancelled", "interrupted")


# -- errors -----------------------------------------------------------------------------------------------------------


def test_error_result_fails_turn() -> None:
    found = events("api-error")
    (notice,) = of(Notice, found)

    assert (notice.level, notice.code, notice.line) == ("error", "provider-error", 16)
    assert notice.text.startswith('{"error": {"message": "scripted bad request"')
    assert turns(found)[-1] == ("2", "failed", "other")
    assert found[-1].line == 17


@pytest.mark.parametrize("name", ["command-denied", "patch-approved"])
def test_all_events_of_small_recording(name: str, snapshot: SnapshotAssertion) -> None:
    found = [event for event in events(name) if not isinstance(event, Message | Usage)]

    assert [show(event) for event in found] == snapshot


def show(event: Event) -> str:
    shown = {
        key: value
        for key in ("call_id", "name", "state", "status", "outcome", "turn", "synthetic")
        if (value := getattr(event, key, None))
    }
    return f"{event.line} {type(event).__name__} " + " ".join(f"{key}={value}" for key, value in shown.items())
