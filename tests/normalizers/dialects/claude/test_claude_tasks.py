"""Background work in Claude's dialects: which line states its end, and what it does not become."""

from typing import Any

import pytest
from msgspec import to_builtins

from tests.normalizers.dialects.claude import helpers as stream
from tests.normalizers.dialects.claude.transcripts import SESSION, line, read, said, turns
from tests.normalizers.reading import of
from tooltap.protocol.events import Event, Message, Notice, ToolResult, ToolUpdate, Turn
from tooltap.protocol.model_view import model_text

COMMAND = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "make", "run_in_background": True}}
AGENT = {"type": "tool_use", "id": "toolu_1", "name": "Task", "input": {"prompt": "Look.", "description": "Look"}}


def started(text: str, **twin: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": "toolu_1", "content": text}
    return said("user", block, uuid="started", **({"toolUseResult": twin} if twin else {}))


SHELL = (
    said("assistant", COMMAND, uuid="call"),
    started("Command running in background with ID: b1. Output is being written to: /tmp/b1.output"),
)
SUBAGENT = (
    said("assistant", AGENT, uuid="call"),
    started("Async agent launched successfully.\nagentId: b1 (internal ID)\nThe agent is working in the background."),
)


def asked(name: str, content: Any, twin: Any = None, **given: Any) -> tuple[dict[str, Any], ...]:
    block = {"type": "tool_result", "tool_use_id": "toolu_2", "content": content}
    return (
        said("assistant", {"type": "tool_use", "id": "toolu_2", "name": name, "input": given}, uuid="asked"),
        said("user", block, uuid="told", **({} if twin is None else {"toolUseResult": twin})),
    )


def finals(found: list[Event]) -> list[ToolResult]:
    return [result for result in of(ToolResult, found) if result.call_id == "toolu_1" and not result.async_]


def prompt(text: str, **more: Any) -> dict[str, Any]:
    return said("user", {"type": "text", "text": text}, uuid="prompt", **more)


# -- notifications ------------------------------------------------------------------------------------------------

ENDING = "<status>{}</status>\n<summary>{}</summary>"
TASK = "<task-notification>\n<task-id>b1</task-id>\n{}\n" + ENDING + "\n</task-notification>"
FILE = "<output-file>/tmp/b1.output</output-file>"
FORMS = {
    "task (2.1)": TASK.format(FILE, "{}", "{}"),
    "task with its call": TASK.format(f"<tool-use-id>toolu_1</tool-use-id>\n{FILE}", "{}", "{}"),
    "followed by text": TASK.format(FILE, "{}", "{}") + "\nRead the output file to retrieve the result: /tmp/b1.output",
    "bash (2.0)": f"<bash-notification>\n<shell-id>b1</shell-id>\n{FILE}\n{ENDING}"
    "\nRead the output file to retrieve the output.\n</bash-notification>",
    "agent (2.0)": f"<agent-notification>\n<agent-id>b1</agent-id>\n{FILE}\n{ENDING}"
    "\nRead the output file to retrieve the full result.\n</agent-notification>",
}


@pytest.mark.parametrize(
    ("status", "summary", "ended", "exit_code"),
    [
        ("completed", 'Background command "make" completed (exit code 0)', "completed", 0),
        ("failed", 'Background command "make" failed with exit code 2.', "failed", 2),
        ("killed", 'Background command "make" was stopped', "cancelled", None),
    ],
)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_notification_ends_its_call(form: str, status: str, summary: str, ended: str, exit_code: int | None) -> None:
    found = read(*SHELL, prompt(form.format(status, summary)))
    (final,) = finals(found)

    assert (final.final, final.status, final.output.get("exit_code")) == (True, ended, exit_code)
    assert model_text(to_builtins(final), lambda _: None) == form.format(status, summary)
    assert of(Message, found) == []
    assert len(of(Turn, found)) == 2  # the one of the call


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_notification_opens_no_turn(form: str) -> None:
    """In a file that begins with it, its call is unknown."""
    found = read(prompt(form.format("completed", "Done")))

    assert not any(isinstance(event, Turn | Message | ToolResult) for event in found)
    assert [(notice.code, notice.text) for notice in of(Notice, found)] == [("task", "Done")]


def test_queued_notification_is_read_once() -> None:
    text = FORMS["task (2.1)"].format("completed", "Agent finished")
    queued = {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION, "content": text}
    delivered = {"type": "queued_command", "prompt": text, "commandMode": "task-notification"}
    found = read(*SUBAGENT, queued, line("attachment", "u3", attachment=delivered), prompt(text))
    (final,) = finals(found)

    assert (final.status, final.output["content"], final.line) == ("completed", "Agent finished", 3)
    assert not any(isinstance(event, Notice | Message) for event in found)


def test_queued_prompt_is_skipped() -> None:
    queued = {"type": "queue-operation", "operation": "enqueue", "sessionId": SESSION, "content": "And then?"}

    assert read(queued) == []


def test_several_notifications_in_one_text() -> None:
    first, second = (FORMS["task (2.1)"].replace("b1", one).format("completed", one) for one in ("b7", "b8"))

    assert [notice.text for notice in of(Notice, read(prompt(f"{first}\n{second}")))] == ["b7", "b8"]


def test_event_of_monitor_is_progress() -> None:
    fields = "<task-id>b1</task-id>\n<summary>Monitor</summary>\n<event>built</event>"
    text = f"<task-notification>\n{fields}\n</task-notification>"
    found = read(*SHELL, prompt(text))

    assert finals(found)[0].synthetic
    assert of(ToolUpdate, found)[-1].progress == {
        "text": "built",
        "data": {"task_id": "b1", "summary": "Monitor", "event": "built"},
    }


def test_later_report_of_resumed_agent_is_notice() -> None:
    text = FORMS["task (2.1)"].format("completed", "Agent finished")
    again = text.replace("</summary>", "</summary>\n<result>Found more.</result>")
    found = read(*SUBAGENT, prompt(text), {**prompt(again), "uuid": "again"})

    assert len(finals(found)) == 1
    assert [(notice.text, notice.call_id) for notice in of(Notice, found)] == [("Found more.", "toolu_1")]


def test_tags_inside_a_report_are_its_own() -> None:
    text = (
        FORMS["task (2.1)"]
        .format("completed", "Done")
        .replace("<status>", "<result>say <status>failed</status> and List<b></result>\n<status>")
    )
    (final,) = finals(read(*SUBAGENT, prompt(text)))

    assert (final.status, final.output["content"]) == ("completed", "say <status>failed</status> and List<b>")


@pytest.mark.parametrize("status", ["completed", "running"])
def test_status_in_attachment(status: str) -> None:
    attachment = {
        "type": "task_status",
        "taskId": "b1",
        "taskType": "local_agent",
        "status": status,
        "deltaSummary": "x",
    }
    (final,) = finals(read(*SUBAGENT, line("attachment", "u3", attachment=attachment)))

    assert (final.status, final.synthetic) == (("completed", False) if status == "completed" else ("interrupted", True))


# -- results of other calls -----------------------------------------------------------------------------------------

ENDED = {
    "TaskOutput, structured": asked(
        "TaskOutput",
        "",
        {
            "retrieval_status": "success",
            "task": {"task_id": "b1", "status": "failed", "output": "boom\n", "exitCode": 3},
        },
        task_id="b1",
    ),
    "TaskOutput, text": asked(
        "TaskOutput",
        "<retrieval_status>success</retrieval_status>\n\n<task_id>b1</task_id>\n\n<task_type>local_bash</task_type>\n\n"
        "<status>failed</status>\n\n<exit_code>3</exit_code>\n\n<output>\nboom\n\n</output>",
        task_id="b1",
    ),
    "BashOutput, structured": asked(
        "BashOutput", "", {"shellId": "b1", "status": "failed", "exitCode": 3}, bash_id="b1"
    ),
    "BashOutput, text": asked("BashOutput", "<status>failed</status>\n\n<exit_code>3</exit_code>", bash_id="b1"),
}


@pytest.mark.parametrize("lines", ENDED.values(), ids=ENDED)
def test_output_of_ended_task_ends_its_call(lines: tuple[dict[str, Any], ...]) -> None:
    (final,) = finals(read(*SHELL, *lines))

    assert (final.status, final.final, final.output["exit_code"]) == ("failed", True, 3)
    assert final.output.get("stdout", "boom\n") == "boom\n"


@pytest.mark.parametrize("status", ["running", "pending"])
def test_output_of_running_task_ends_nothing(status: str) -> None:
    twin = {"retrieval_status": "timeout", "task": {"task_id": "b1", "status": status, "output": ""}}

    assert finals(read(*SHELL, *asked("TaskOutput", "", twin, task_id="b1")))[0].synthetic


STOPPED = {
    "TaskStop": asked(
        "TaskStop",
        '{"message":"Successfully stopped task: b1 (make)","task_id":"b1","task_type":"local_bash"}',
        task_id="b1",
    ),
    "KillShell": asked("KillShell", "", {"message": "Successfully killed shell: b1 (make)", "shell_id": "b1"}),
    "KillShell, text": asked("KillShell", "Successfully killed shell: b1 (make)", shell_id="b1"),
    "KillBash": asked("KillBash", '{"message":"Successfully killed shell: b1 (make)","shell_id":"b1"}', shell_id="b1"),
}


@pytest.mark.parametrize("lines", STOPPED.values(), ids=STOPPED)
def test_stopped_task_is_cancelled(lines: tuple[dict[str, Any], ...]) -> None:
    (final,) = finals(read(*SHELL, *lines))

    assert (final.status, final.final, final.synthetic) == ("cancelled", True, False)


def test_failed_stop_ends_nothing() -> None:
    call, told = asked("KillShell", "<tool_use_error>No shell b1</tool_use_error>", shell_id="b1")
    told["message"]["content"][0]["is_error"] = True

    assert finals(read(*SHELL, call, told))[0].synthetic


def test_command_the_user_sent_to_background() -> None:
    (acknowledged, final) = of(
        ToolResult,
        read(
            SHELL[0],
            started(
                "Command was manually backgrounded by user with ID: b1. Output is being written to: /tmp/b1.output"
            ),
            prompt(FORMS["task (2.1)"].format("completed", "(exit code 0)")),
        ),
    )

    assert (acknowledged.async_, final.status, final.output["exit_code"]) == (True, "completed", 0)


def test_work_without_an_end_was_interrupted() -> None:
    (final,) = finals(read(*SHELL))

    assert (final.status, final.synthetic) == ("interrupted", True)


def test_notification_in_stream_is_read_once() -> None:
    text = FORMS["task with its call"].format("completed", "Done")
    found = stream.read(
        stream.init(),
        stream.assistant(COMMAND),
        stream.user(stream.tool_result("toolu_1", "Command running in background with ID: b1")),
        {"type": "system", "subtype": "task_notification", "task_id": "b1", "status": "completed", "summary": "Done"},
        stream.user({"type": "text", "text": text}, isReplay=True),
    )
    (final,) = finals(found)

    assert (final.status, final.line) == ("completed", 4)
    assert not any(isinstance(event, Notice | Message) for event in found)


def test_turn_of_call_has_one_end() -> None:
    assert [state for _, state, _, _ in turns(read(*SHELL))] == ["started", "cancelled"]
