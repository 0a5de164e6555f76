"""The `antigravity-transcript` dialect: which call a result is of, what the user typed, and the two files of a
conversation."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.taps.following import Follower
from tests.normalizers.reading import of, outline, read, recording, said
from tooltap.protocol.events import Message, Notice, SessionEvent, ToolCall, ToolResult, Turn, Unparsed
from tooltap.testing import normalize

DIALECT = "antigravity-transcript"
COUNT = recording(DIALECT, "count", "antigravity-written")


def step(index: int, kind: str, content: str | None = None, source: str = "MODEL", **more: Any) -> dict[str, Any]:
    value = {"step_index": index, "source": source, "type": kind, "status": "DONE", "content": content, **more}
    return {key: one for key, one in value.items() if one is not None}


def prompt(text: str, index: int = 0) -> dict[str, Any]:
    return step(index, "USER_INPUT", f"<USER_REQUEST>\n{text}\n</USER_REQUEST>", "USER_EXPLICIT")


def calls(index: int, *named: str, **given: Any) -> dict[str, Any]:
    return step(index, "PLANNER_RESPONSE", tool_calls=[{"name": name, "args": given} for name in named])


def answered(found: list[Any]) -> list[tuple[str, str | None]]:
    """The results that are stated: (id of the call, text)."""
    real = [one for one in of(ToolResult, found) if one.status != "interrupted"]
    return [(one.call_id, one.output["_raw"]["content"]) for one in real]


def test_recording_is_one_turn_with_its_results() -> None:
    found = normalize("auto", COUNT)

    assert {(one.dialect, one.provider) for one in found} == {(DIALECT, "antigravity")}
    assert said(found) == [("user", "Count the lines of notes.txt."), ("assistant", "It has 12 lines.")]
    assert [one.model for one in of(SessionEvent, found)] == ["Gemini 3.5 Flash (Low)"]
    assert [one.preview for one in of(ToolCall, found)] == ["wc -l notes.txt", "/ws/notes.txt"]
    counted, viewed = of(ToolResult, found)
    assert (counted.output["stdout"], counted.output["exit_code"]) == ("12 notes.txt\n", 0)
    assert counted.duration_ms == 2_000
    assert viewed.output["file"] == {"content": "one\ntwo", "startLine": 1, "numLines": 2, "totalLines": 12}
    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("completed", "answer")]


@pytest.mark.parametrize(
    ("named", "kinds", "tied"),
    [
        (["run_command", "run_command"], ["RUN_COMMAND", "RUN_COMMAND"], ["2", "2-1"]),
        (["run_command", "view_file"], ["VIEW_FILE", "RUN_COMMAND"], ["2-1", "2"]),
        (["default_api:write_to_file"], ["CODE_ACTION"], ["2"]),
        (["run_command"], ["VIEW_FILE"], []),
        (["run_command"], ["RUN_COMMAND", "RUN_COMMAND"], ["2"]),
        (["run_command"], ["GENERIC"], ["2"]),
        (["run_command", "list_permissions"], ["GENERIC", "RUN_COMMAND"], ["2-1", "2"]),
        (["run_command", "view_file"], ["GENERIC"], []),
    ],
)
def test_result_is_of_the_next_call_with_such_results(named: list[str], kinds: list[str], tied: list[str]) -> None:
    answers = [step(index, kind, f"result {index}") for index, kind in enumerate(kinds, 3)]
    found = read(DIALECT, prompt("Go"), calls(2, *named), *answers)

    assert [call_id for call_id, _ in answered(found)] == tied
    assert len(of(ToolCall, found)) == len(named)
    assert len(tied) + len(of(Notice, found)) == len(kinds)


def test_result_of_an_earlier_step_is_not_taken_for_one_of_the_latest() -> None:
    steps = calls(2, "run_command"), calls(3, "run_command"), step(4, "RUN_COMMAND", "out")

    assert answered(read(DIALECT, prompt("Go"), *steps)) == [("3", "out")]


def test_error_of_a_call_is_its_result_only_if_it_is_the_only_one() -> None:
    error = step(3, "ERROR_MESSAGE", source="SYSTEM", error="There was a problem parsing the tool call.")

    alone = read(DIALECT, prompt("Go"), calls(2, "run_command"), error)
    assert [one.status for one in of(ToolResult, alone)] == ["failed"]
    several = read(DIALECT, prompt("Go"), calls(2, "run_command", "view_file"), error)
    assert [(one.code, one.level) for one in of(Notice, several)] == [("provider-error", "error")]
    other = read(DIALECT, calls(2, "run_command"), {**error, "error": "the model is overloaded"})
    assert [one.text for one in of(Notice, other)] == ["the model is overloaded"]


@pytest.mark.parametrize(
    ("status", "content", "told"),
    [
        ("DONE", "\n\t\t\t\tThe command failed with exit code: 2\n\t\t\t\tOutput:\n\t\t\t\tno\n\n", ("failed", False)),
        ("DONE", "The command exited with code 0.\nOutput:\nyes\n", ("completed", False)),
        ("ERROR", "Encountered error in step execution: no folder", ("failed", False)),
        ("RUNNING", "The command is running as task-3.", ("completed", True)),
    ],
)
def test_end_of_a_command_is_in_its_text_or_its_status(status: str, content: str, told: tuple[str, bool]) -> None:
    found = read(DIALECT, prompt("Go"), calls(2, "run_command"), step(3, "RUN_COMMAND", content, status=status))

    first = of(ToolResult, found)[0]
    assert (first.status, first.async_) == told


@pytest.mark.parametrize(
    ("more", "is_known"),
    [({}, True), ({"truncated_fields": ["content"]}, False), ({"content": "result <truncated 9 bytes>"}, False)],
)
def test_what_the_model_saw_is_not_known_of_a_shortened_result(more: dict[str, Any], is_known: bool) -> None:
    [one] = of(ToolResult, read(DIALECT, prompt("Go"), calls(2, "view_file"), step(3, "VIEW_FILE", "x") | more))

    assert (one.model_view is not None) is is_known


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("<USER_REQUEST>\nsay hi\n</USER_REQUEST>\n<ADDITIONAL_METADATA>\nx\n</ADDITIONAL_METADATA>", ["say hi"]),
        ("<USER_REQUEST>\nsay hi\n<truncated 9 bytes>", ["say hi\n<truncated 9 bytes>"]),
        ("say hi", ["say hi"]),
        ("<USER_SETTINGS_CHANGE>\n`Model Selection` from None to Flash 3.5. No\n</USER_SETTINGS_CHANGE>", []),
    ],
)
def test_prompt_is_what_the_user_typed(content: str, text: list[str]) -> None:
    found = read(DIALECT, step(0, "USER_INPUT", content, "USER_EXPLICIT"))

    assert [one.text for one in of(Message, found)] == text


def test_arguments_are_decoded_only_where_each_is_json_in_a_text() -> None:
    short = {"CommandLine": '"true"', "WaitMsBeforeAsync": "5", "toolAction": '"Run \\"true\\""'}
    whole = {"CommandLine": "true", "WaitMsBeforeAsync": 5, "toolAction": 'Run "true"'}
    cut = {"CommandLine": '"echo lon\n<truncated 9 bytes>', "toolAction": '"Run"'}

    for given, command in ((short, "true"), (whole, "true"), (cut, cut["CommandLine"])):
        [call] = of(ToolCall, read(DIALECT, calls(2, "run_command", **given)))
        assert call.input["command"] == command


def test_tools_of_a_server_and_several_changes_have_canonical_inputs() -> None:
    chunk = {"TargetContent": "a", "ReplacementContent": "b", "StartLine": 1}
    [edit] = of(
        ToolCall, read(DIALECT, calls(2, "multi_replace_file_content", TargetFile="/f", ReplacementChunks=[chunk]))
    )
    [tool] = of(
        ToolCall, read(DIALECT, calls(2, "call_mcp_tool", ServerName="git", ToolName="log", Arguments={"n": 1}))
    )
    [agent] = of(ToolCall, read(DIALECT, calls(2, "invoke_subagent", Subagents=[{"Role": "Scout", "Prompt": "look"}])))

    assert (edit.name, edit.input["edits"][0]["old_string"], edit.input["file_path"]) == ("MultiEdit", "a", "/f")
    assert (tool.name, tool.input["n"]) == ("mcp__git__log", 1)
    assert (agent.name, agent.input["prompt"], agent.input["description"]) == ("Task", "look", "Scout")


def test_versions_of_a_document_are_read_once_and_in_order() -> None:
    steps = [prompt("Go"), calls(2, "view_file"), step(3, "VIEW_FILE", "x"), step(5, "PLANNER_RESPONSE", "Done.")]
    late = [steps[0], steps[2], steps[1], steps[3]]

    for versions in ([steps[:1], steps[:2], steps], [steps, steps[:2], steps], [late]):
        found = read(DIALECT, *({"steps": one} for one in versions))
        assert said(found) == [("user", "Go"), ("assistant", "Done.")]
        assert answered(found) == [("2", "x")]


def test_transcript_that_was_changed_is_noticed() -> None:
    versions = [[prompt("Go"), step(2, "PLANNER_RESPONSE", "Done.")], [prompt("Go"), prompt("Stop", 1)]]
    found = read(DIALECT, *({"steps": one} for one in versions))

    assert [one.code for one in of(Notice, found)] == ["rewound"]
    assert said(found)[-1] == ("user", "Stop")


def test_what_has_no_known_shape_is_kept() -> None:
    odd = {"steps": ["half a line", 7]}, step(1, "NEWS", "x", "SYSTEM"), calls(2, *[None])  # type: ignore[arg-type]

    assert [one.reason for one in of(Unparsed, read(DIALECT, *odd))] == ["not-an-object"] * 2 + ["unknown-type"] * 2


def test_empty_steps_say_nothing() -> None:
    assert outline(read(DIALECT, step(0, "PLANNER_RESPONSE"), step(1, "CONVERSATION_HISTORY", source="SYSTEM"))) == []


@pytest.mark.process
def test_each_step_of_the_two_files_is_followed_once_with_its_whole_text(tmp_path: Path) -> None:
    """The file with the whole texts begins at a later step than the other, and lags behind it."""
    logs = tmp_path / ".gemini" / "antigravity-ide" / "brain" / "5f1c" / ".system_generated" / "logs"
    logs.mkdir(parents=True)
    steps = [
        prompt("Go"),
        step(2, "PLANNER_RESPONSE", "Whole text."),
        prompt("On", 3),
        step(4, "PLANNER_RESPONSE", "b"),
    ]
    cut = [steps[0], {**steps[1], "content": "Whole<truncated 5 bytes>"}, *steps[2:]]

    def write(name: str, lines: list[dict[str, Any]]) -> None:
        (logs / name).write_text("".join(f"{json.dumps(one)}\n" for one in lines))

    follower = Follower(tmp_path, agents=["agy"], backfill="all")
    follower.environment["HOME"] = str(tmp_path)
    write("transcript.jsonl", cut[:1])
    with follower:
        follower.events_when(lambda events: [one["text"] for one in events if one["kind"] == "message"] == ["Go"])
        write("transcript_full.jsonl", steps[1:2])
        write("transcript.jsonl", cut[:3])
        follower.events_when(lambda events: any(one.get("text") == "Whole text." for one in events))
        follower.restart(follower.kill)
        write("transcript.jsonl", cut)
        write("transcript_full.jsonl", steps[1:])
        events = follower.events_when(lambda events: any(one.get("text") == "b" for one in events))

    assert [one["text"] for one in events if one["kind"] == "message"] == ["Go", "Whole text.", "On", "b"]
    assert {(one["session"], one["provider"]) for one in events} == {("5f1c", "antigravity")}
