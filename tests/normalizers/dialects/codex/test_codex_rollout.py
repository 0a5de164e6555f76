"""Codex's rollouts: recordings, and written lines of older versions."""

from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.codex.helpers import calls, plain, recognised, results, statistics
from tests.normalizers.reading import answer, of
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Event, Message, Notice, SessionEvent, ToolUpdate, Turn, Usage
from tooltap.testing import Line, check_recording, check_survives, normalize, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures" / "codex-rollout"
ALL = sorted(FIXTURES.glob("*/*.jsonl"))


def recording(name: str) -> list[Line]:
    return read_recording((FIXTURES / f"codex-{name}.jsonl").read_bytes())


def events(name: str) -> list[Event]:
    return normalize("codex-rollout", recording(name), Context(stream="s"))


def read(*made: dict[str, Any]) -> list[Event]:
    return check_recording("codex-rollout", plain(*made), Context(stream="s"))


def line(of_type: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": "2025-09-25T14:02:05.435Z", "type": of_type, "payload": payload}


def event(of_type: str, **keys: Any) -> dict[str, Any]:
    return line("event_msg", type=of_type, **keys)


def api(kind: str, **keys: Any) -> dict[str, Any]:
    return line("response_item", type=kind, **keys)


def shell(call_id: str, output: str) -> list[dict[str, Any]]:
    """A call of `shell` and its output (0.40)."""
    arguments = '{"command": ["bash", "-lc", "ls"]}'
    return [
        api("function_call", name="shell", arguments=arguments, call_id=call_id),
        api("function_call_output", call_id=call_id, output=output),
    ]


def said(found: list[Event]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in of(Message, found)]


def turns(found: list[Event]) -> list[tuple[str | None, str, bool]]:
    return [(turn.turn, turn.state, turn.synthetic) for turn in of(Turn, found)]


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_recordings_are_fully_parsed(path: Path) -> None:
    lines = read_recording(path.read_bytes())

    check_recording("codex-rollout", lines)

    assert statistics(lines, "codex-rollout").unparsed == 0


@pytest.mark.parametrize("path", ALL, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_single_line_is_recognised(path: Path) -> None:
    assert {recognised(one) for one in path.read_bytes().splitlines()} == {"codex-rollout"}


# -- sessions and threads ---------------------------------------------------------------------------------------------


def test_session_settings_are_emitted_once() -> None:
    found = of(SessionEvent, events("0.169/background-shell"))

    assert [(one.state, one.cwd, one.agent_version, one.model, one.mode) for one in found] == [
        ("started", "/tmp/ws", "0.169.0", None, None),
        ("updated", None, None, "gpt-5.5", "never/workspace-write"),
    ]
    assert found[0].ts == 1795293816745
    skipped = statistics(recording("0.169/background-shell"), "codex-rollout").skipped
    assert skipped["world-state"] == 1


@pytest.mark.parametrize("name", ["0.169/subagent", "0.120/subagent"])
def test_subagent_file_belongs_to_parent_session(name: str) -> None:
    path = FIXTURES / f"codex-{name}.jsonl"
    meta = orjson.loads(path.read_bytes().splitlines()[0])["payload"]

    found = events(name)

    parent = meta["source"]["subagent"]["thread_spawn"]["parent_thread_id"]
    assert {(one.session, one.agent) for one in found} == {(parent, meta["id"])}
    assert said(found) == [
        ("user", "[[S12sub]] Find where greet is defined and report the line."),
        ("assistant", "greet is defined at src/app.py line 4."),
    ]


def test_parent_history_is_replay() -> None:
    found = events("0.169/subagent-with-history")

    assert {one.line for one in found if one.replay} == {13, 14}
    assert {one.agent for one in found if one.replay} == {None}
    own = [one for one in found if not one.replay]
    assert {one.agent for one in own} == {"01a1ffd9-d0fc-7611-91b7-66045ff16b31"}
    assert {one.session for one in found} == {"01a1ffd9-d06b-78e3-b04a-7feee4f54056"}
    assert said(own) == [("assistant", "Subagent finished.")]


def test_continued_session_is_resumed() -> None:
    meta = line("session_meta", id="a", cwd="/ws", cli_version="0.42.0")

    assert [one.state for one in of(SessionEvent, read(meta, meta))] == ["started", "resumed"]


# -- calls ------------------------------------------------------------------------------------------------------------


def test_exit_code_is_read_from_text() -> None:
    (result,) = results(events("0.120/shell-fails"))

    assert (result.status, result.is_error, result.duration_ms) == ("failed", True, 0)
    assert answer(result.output) == {"stdout": "boom: something broke\npartial output\n", "exit_code": 3}


def test_script_is_parent_of_its_commands() -> None:
    found = events("0.169/code-mode")

    script, app, util = calls(found)
    assert (script.name, script.parent) == ("exec", None)
    assert script.input["input"].startswith("const [a,b] = await Promise.all([tools.exec_command(")
    assert [(one.name, one.input["command"], one.parent) for one in (app, util)] == [
        ("Bash", "cat src/app.py", script.call_id),
        ("Bash", "cat src/util.py; sleep 1", script.call_id),
    ]
    assert [(one.call_id, one.status) for one in results(found)] == [
        (app.call_id, "completed"),
        (util.call_id, "completed"),
        (script.call_id, "completed"),
    ]
    assert results(found)[2].line == 18


def test_background_command_is_acknowledged_then_ends() -> None:
    first, last, typed = results(events("0.169/background-shell"))

    assert (first.line, first.async_, answer(first.output)) == (12, True, {"stdout": "bg 1\nbg 2\n"})
    assert (last.line, last.final, last.call_id, last.output["exit_code"]) == (16, True, first.call_id, 0)
    assert (typed.name, typed.output["stdout"]) == ("write_stdin", "bg 3\nbg 4\n")


def test_patch_gets_file_contents_when_applied() -> None:
    found = events("0.169/patch")

    (call,), (update,), (result,) = calls(found), of(ToolUpdate, found), results(found)
    assert {path: one["type"] for path, one in call.input["changes"].items()} == {
        "src/util.py": "rename",
        "docs/new.md": "add",
        "package.json": "delete",
    }
    assert update.input is not None
    assert update.input["changes"]["/tmp/ws/package.json"]["delete"]["content"].startswith('{\n  "name": "demo"')
    assert (result.line, result.status) == (13, "completed")


def test_mcp_tools_are_named_by_server_and_tool() -> None:
    found = events("0.169/mcp-approved")

    assert [(one.name, one.status) for one in results(found)] == [
        ("mcp__fixture__echo", "completed"),
        ("mcp__fixture__change_title", "completed"),
        ("mcp__fixture__fail", "failed"),
        ("mcp__fixture__picture", "completed"),
    ]
    assert results(found)[2].output["errorMessage"] == "failed: testing"
    (picture,) = results(found)[3].attachments or []
    assert picture.mime_type == "image/png"


def test_spawned_agent_reports_thread_as_progress() -> None:
    found = events("0.169/spawns")

    spawn, wait = calls(found)
    assert (spawn.name, spawn.input["prompt"], wait.name) == ("Task", "[[S12sub]] Find greet", "TaskOutput")
    progress = next(one.progress for one in of(ToolUpdate, found) if one.progress)
    assert progress["data"]["agent_thread_id"] == "01a1ffd9-d0fc-7611-91b7-66045ff16b31"
    assert [(one.code, one.text) for one in of(Notice, found)] == [("subagent", "completed")]


def test_waiting_call_keeps_arguments_and_output() -> None:
    found = events("0.169/spawns")
    wait = calls(found)[1]
    (asked,) = (one.input for one in of(ToolUpdate, found) if one.call_id == wait.call_id and one.input is not None)
    (result,) = (one for one in results(found) if one.call_id == wait.call_id)

    assert (asked["timeout_ms"], asked["tool"]) == (10000, "wait")
    assert (result.status, result.output["message"], result.output["timed_out"]) == (
        "completed",
        "Wait completed.",
        False,
    )


def test_search_without_id_is_call_and_result() -> None:
    (call,), (result,) = calls(events("0.120/web-search")), results(events("0.120/web-search"))

    assert (call.name, call.input["query"], call.line, result.line) == ("WebSearch", "fixture page answer", 9, 9)


def test_viewed_picture_is_output_body() -> None:
    (result,) = results(events("0.169/picture"))

    assert [(one.mime_type, one.bytes) for one in result.attachments or []] == [("image/png", 70)]
    assert "base64" not in orjson.dumps(result.output).decode()


@pytest.mark.parametrize("version", ["0.169", "0.120"])
def test_stopped_call_is_cancelled_with_turn(version: str) -> None:
    found = events(f"{version}/interrupted")

    assert [(one.status, one.synthetic) for one in results(found)] == [("cancelled", False)]
    assert [(one.state, one.reason) for one in of(Turn, found)] == [("started", None), ("cancelled", "interrupted")]


def test_call_refused_by_policy_is_denied() -> None:
    (result,) = results(events("0.120/command-denied"))

    assert result.status == "denied"
    assert str(result.output["errorMessage"]).startswith("approval policy is Never; reject command")


# -- messages, turns, usage -------------------------------------------------------------------------------------------


def test_each_message_is_emitted_once() -> None:
    assert said(events("0.120/plan")) == [
        ("user", "[[S8]] Make a plan with three steps and work through it."),
        *[("assistant", "Updating the plan.")] * 3,
        ("assistant", "Plan complete."),
    ]


def test_usage_is_emitted_when_total_changes() -> None:
    found = of(Usage, events("0.120/plan"))

    assert [(one.scope, one.input_tokens, one.output_tokens) for one in found] == [
        *[("step", 1200, 42)] * 4,
        ("session", 4800, 168),
    ]


def test_error_fails_turn() -> None:
    found = events("0.169/api-error")

    (notice,) = of(Notice, found)
    assert (notice.level, notice.code) == ("error", "provider-error")
    assert "scripted bad request" in notice.text
    assert [(one.state, one.reason) for one in of(Turn, found)] == [("started", None), ("failed", "other")]


def test_prompt_starts_turn_without_turn_lines() -> None:
    """Codex 0.40, as in jnarowski/agentcmd, packages/agent-cli-sdk/tests/fixtures/codex/full."""
    output = '{"output": "a\\n", "metadata": {"exit_code": 1, "duration_seconds": 0.2}}'
    found = read(
        line("session_meta", id="a", cwd="/ws", cli_version="0.40.0"),
        api("message", role="user", content=[{"type": "input_text", "text": "<environment_context>…"}]),
        event("user_message", message="one", kind="plain"), *shell("c1", output),
        event("agent_message", message="done"), api("message", role="assistant", content=[{"text": "done"}]),
        event("user_message", message="two", kind="plain"), event("turn_aborted", reason="interrupted"),
        *shell("c2", "patch rejected by user"), event("user_message", message="three", kind="plain"),
    )  # fmt: skip

    assert said(found) == [("user", "one"), ("assistant", "done"), ("user", "two"), ("user", "three")]
    assert turns(found) == [
        ("t1", "started", True), ("t1", "completed", True), ("t2", "started", True), ("t2", "cancelled", False),
        ("t3", "started", True), ("t3", "cancelled", True),
    ]  # fmt: skip
    assert [(one.status, one.output.get("exit_code")) for one in results(found)] == [("failed", 1), ("denied", None)]


def test_compaction_is_one_notice() -> None:
    found = read(
        event("task_started", turn_id="1"), line("compacted", message="", replacement_history=[]),
        event("item_completed", item={"type": "ContextCompaction", "id": "x"}), event("context_compacted"),
    )  # fmt: skip

    assert [one.code for one in of(Notice, found)] == ["compaction"]


def test_notice_of_a_compaction_has_its_summary() -> None:
    found = read(
        event("task_started", turn_id="1"), line("compacted", message="A summary of the work.", replacement_history=[]),
        event("context_compacted"),
    )  # fmt: skip

    assert [(one.code, one.text) for one in of(Notice, found)] == [("compaction", "A summary of the work.")]


def test_message_of_another_agent_has_its_authors_name() -> None:
    """As 0.169 writes it in its multi-agent mode; the text may be encrypted."""
    header = "Message Type: FINAL_ANSWER\nTask name: /root\nSender: /root/find_greet\nPayload:\n"
    mail = {"type": "agent_message", "author": "/root/find_greet", "recipient": "/root"}
    encrypted = [{"type": "input_text", "text": header}, {"type": "encrypted_content", "encrypted_content": "x"}]
    found = read(
        event("task_started", turn_id="1"),
        line("response_item", **mail, content=[{"type": "input_text", "text": f"{header}It is in app.py."}]),
        line("response_item", **mail, content=encrypted),
    )

    assert said(found) == [("system", "/root/find_greet: It is in app.py.")]


def test_oldest_rollouts_are_api_items() -> None:
    """To 0.31 (codex-rs/core/src/rollout.rs): no `payload`."""
    found = read(
        {"id": "a", "timestamp": "2025-08-01T10:00:00.000Z", "instructions": None, "git": {}},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "<environment_context>…"}]},
        {"record_type": "state"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List the files."}]},
        {"type": "function_call", "name": "shell", "arguments": '{"command": ["ls"]}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1",
         "output": '{"output": "a", "metadata": {"exit_code": 0, "duration_seconds": 0.0}}'},
    )  # fmt: skip

    assert {one.session for one in found} == {"a"}
    assert said(found) == [("user", "List the files.")]
    assert [(one.name, one.output["exit_code"]) for one in results(found)] == [("Bash", 0)]


def test_malformed_lines_do_not_raise() -> None:
    check_survives(
        "codex-rollout",
        plain(
            {"type": "session_meta"}, line("session_meta", id=5, source="cli"), {"type": "event_msg", "payload": []},
            line("event_msg"), line("response_item", type=3), {"timestamp": 7, "type": "turn_context", "payload": {}},
            {"timestamp": "yesterday", "type": "x"}, {"type": "response_item", "payload": {"type": "function_call"}},
            event("item_completed", item={"type": "CommandExecution"}), event("item_completed", item=4), {},
            {"timestamp": "0001-01-01T00:00:00+23:59", "type": "compacted", "payload": {}},
        ),
    )  # fmt: skip
