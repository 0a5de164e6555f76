"""What Kimi Code, today's `kimi`, prints: `kimi -p … --output-format stream-json`."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.dialects.kimi.test_kimi_json import call, result
from tests.normalizers.reading import answer, calls, of, outline, read, recording, results, said, turns
from tooltap.normalizers.catalog.registry import missing_flags
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import Event, Notice, SessionEvent, ToolResult, Turn
from tooltap.testing import normalize

VERSION = {"role": "meta", "type": "system.version", "version": "2.1.0"}


def stream(name: str) -> list[Event]:
    return normalize("kimi-json", recording("kimi-json", name, "kimi-code-2.1.0"), Context(stream="s"))


def ended(name: str, text: str) -> ToolResult:
    (done,) = of(ToolResult, read("kimi-json", call(name), result(text)))
    return done


def test_edit() -> None:
    found = stream("edit")

    assert outline(found) == [
        "session",
        "turn started",
        "tool-call Read",
        "tool-result Read completed",
        "message assistant",
        "tool-call Edit",
        "tool-result Edit completed",
        "message assistant",
        "turn completed",
        "session",
    ]
    first, last = of(SessionEvent, found)
    assert first.agent_version == "2.1.0"
    assert (last.session, last.alias) == ("session_8a14e2b5-7938-463b-98f6-6a72abff5e0d", "s")
    assert answer(results(found)["Read"].output)["file"]["content"].startswith("import sys\n\n\ndef greet(name):")
    assert calls(found)["Edit"].input["new_string"] == '    return "Howdy, " + name + "!"'


def test_exit_code_is_in_the_last_line() -> None:
    done = results(stream("shell-failing"))["Bash"]

    assert (done.status, answer(done.output)) == (
        "failed",
        {
            "stdout": "partial output\nboom: something broke\n",
            "exit_code": 3,
            "errorMessage": "Command failed with exit code: 3.",
        },
    )


def test_failures_are_sentences_of_the_program() -> None:
    assert [(done.name, done.status) for done in of(ToolResult, stream("tool-errors"))] == [
        ("Edit", "failed"),
        ("NoSuchTool", "failed"),
        ("Read", "failed"),
    ]


def test_report_on_a_task_ends_its_call() -> None:
    done = of(ToolResult, stream("background"))

    assert [(one.name, one.status, one.async_, one.final) for one in done] == [
        ("Bash", "completed", True, False),
        ("TaskOutput", "completed", False, False),
        ("Bash", "completed", False, False),
        ("Bash", "failed", False, True),
        ("TaskOutput", "completed", False, False),
    ]
    assert done[3].call_id == done[0].call_id
    assert answer(done[3].output) == {"stdout": "bg 1\nbg 2\nbg 3\n", "exit_code": 4}


def test_stopped_task_is_cancelled() -> None:
    started = "task_id: bash-1\npid: 7\nstatus: running\nautomatic_notification: true\n"
    stop = {"type": "function", "id": "d", "function": {"name": "TaskStop", "arguments": '{"task_id": "bash-1"}'}}
    stopped = {
        "role": "tool",
        "tool_call_id": "d",
        "content": "Wall time: 1 seconds\ntask_id: bash-1\nstatus: killed",
    }
    lines = call("Bash"), result(started), {"role": "assistant", "tool_calls": [stop]}, stopped
    done = of(ToolResult, read("kimi-json", *lines))

    assert [(one.name, one.status, one.async_) for one in done] == [
        ("Bash", "completed", True),
        ("Bash", "cancelled", False),
        ("TaskStop", "completed", False),
    ]


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [("completed", "completed", "completed"), ("failed", "provider_error", "failed"), ("running", "none", "completed")],
)
def test_header_above_a_subagents_summary_says_how_it_ended(status: str, reason: str, expected: str) -> None:
    header = f"agent_id: agent-0\nactual_subagent_type: coder\nstatus: {status}\nstop_reason: {reason}"
    text = f"{header}\n\n[summary]\nstatus: failed"
    found = ended("Agent", text)

    assert (found.name, found.status, found.output["content"]) == ("Task", expected, text)
    assert found.output.get("errorMessage") == ("provider_error" if expected == "failed" else None)


def test_command_without_output_says_so() -> None:
    failed = ended("Bash", "Process exited with code 2\nCommand failed with exit code: 2.")
    done = ended("Bash", "Command executed successfully.")

    assert (failed.output["stdout"], failed.output["exit_code"]) == ("", 2)
    assert (done.status, done.output["stdout"]) == ("completed", "")


@pytest.mark.parametrize(
    ("name", "text", "status"),
    [
        ("Bash", "Command failed with exit code: 3.\nand more", "completed"),
        ("Bash", "tick 1\nInterrupted by user", "cancelled"),
        ("Bash", "tick 1\nSession closed", "cancelled"),
        ("Bash", "tick 1\nCommand killed by timeout (60s)", "failed"),
        ("Bash", 'Tool "Bash" was not run because the user rejected the approval request. Reason: no', "denied"),
        ("Bash", 'Tool "Bash" was denied by permission rule.', "denied"),
        ("Read", '"src/missing.py" does not exist.', "failed"),
        ("Read", '1\t"src/missing.py" does not exist.', "completed"),
        ("Edit", "old_string not found in README.md, the file contents may be out of date.", "failed"),
        ("Edit", "ENOENT: no such file or directory, open 'x'", "failed"),
        ("Grep", "/nowhere does not exist", "failed"),
        ("Grep", "ripgrep (rg) is not available and the automatic bootstrap failed.", "failed"),
        ("AskUserQuestion", "AskUserQuestion is disabled while auto permission mode is active; go on.", "denied"),
        ("NoSuchTool", 'Tool "NoSuchTool" not found', "failed"),
        ("Write", "Wrote 5 bytes to a", "completed"),
        ("mcp__x__y", "ENOENT: words of a server", "completed"),
    ],
)
def test_status_is_in_the_words(name: str, text: str, status: str) -> None:
    assert ended(name, text).status == status


def test_parts_are_a_string_of_json() -> None:
    url = "data:image/png;base64,iVBORw0KGgo="
    done = ended("mcp__x__y", f'[{{"type":"text","text":"p"}},{{"type":"image_url","imageUrl":{{"url":"{url}"}}}}]')

    assert done.attachments is not None
    assert [one.mime_type for one in done.attachments] == ["image/png"]
    assert done.output["text"] == "p"


def test_hook_is_no_answer() -> None:
    hook = {"role": "assistant", "content": "PreToolUse hook blocked\n\nNot here."}
    found = read("kimi-json", VERSION, call("Bash"), hook, result("a"), {"role": "assistant", "content": "Done."})

    assert said(found) == [("assistant", "Done.")]
    assert [(one.code, one.level, one.text) for one in of(Notice, found)] == [("hook", "warning", "Not here.")]
    assert [state for _, state, _ in turns(found)] == ["started", "completed"]


def test_turn_fails_while_the_provider_does() -> None:
    """What it said last is printed as plain text, beside the stream."""
    retry = {"role": "meta", "type": "turn.step.retrying", "error_name": "APIStatusError", "status_code": 529}
    (_, gave_up) = of(Turn, read("kimi-json", VERSION, retry))
    (_, went_on) = of(Turn, read("kimi-json", VERSION, retry, {"role": "assistant", "content": "Done."}))

    assert (gave_up.state, gave_up.reason, gave_up.ended_by) == ("failed", "APIStatusError", "eof")
    assert (went_on.state, went_on.ended_by) == ("completed", "answer")


def test_retry_and_goal_are_notices() -> None:
    retry = {
        "role": "meta",
        "type": "turn.step.retrying",
        "next_attempt": 2,
        "max_attempts": 3,
        "error_message": "Busy",
    }
    goal = {"type": "goal.summary", "status": "blocked", "reason": "No key", "turnsUsed": 2}
    found = read("kimi-json", VERSION, retry, goal)

    assert [(one.code, one.level, one.text) for one in of(Notice, found)] == [
        ("retry", "warning", "Busy"),
        ("goal", "warning", "blocked: No key"),
    ]


@pytest.mark.parametrize(
    "command",
    [
        "kimi --print --output-format stream-json -c x",
        "kimi -p x --output-format stream-json",
        "kimi --output-format=stream-json --prompt x",
        "kimi --wire",
        "kimi acp",
        "npx -y @moonshot-ai/kimi-code@2.1.0 -p x --output-format stream-json",
    ],
)
def test_commands_that_print_a_stream(command: str) -> None:
    assert missing_flags(command.split()) is None


def test_names_that_a_search_found_are_matches() -> None:
    """The mode is that of the call: without one, `Grep` lists files."""
    found = "src/app.py\nsrc/a b.py\nResults truncated to 2 lines (total: 9). Use offset=2 to see more."
    lines = ended("Grep", "src/app.py:4:def greet(name):")

    assert [one["filePath"] for one in ended("Grep", found).output["matches"]] == ["src/app.py", "src/a b.py"]
    assert answer(ended("Grep", "No matches found").output) == {"matches": [], "text": "No matches found"}
    assert lines.output["matches"] == [{"filePath": "src/app.py", "line": 4, "excerpt": "def greet(name):"}]


def test_commands_that_print_none() -> None:
    advice: list[Any] = [missing_flags(words.split()) for words in ("kimi", "kimi -p x", "kimi --print x")]

    assert advice == ["-p … --output-format stream-json"] * 3


def test_undo_is_told_as_a_rewind() -> None:
    undo = {"type": "context.undo", "agentId": "main", "count": 1, "time": 1_795_486_117_313}

    assert [(one.code, one.data) for one in of(Notice, read("kimi-session", undo))] == [("rewound", {"count": 1})]
