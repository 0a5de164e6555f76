"""The `qwen-chat` dialect: forks, branches, resumed sessions, and turns that a program prompted."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import of, read, said
from tooltap.protocol.events import Event, Message, Notice, SessionEvent, ToolResult, Turn, Usage

PARENT = "b66eb224-7cff-480c-92f4-5a03ba023ddc"
FORK = "ed44be1d-dfdc-4dff-8efe-29f5315f143e"


def uuid(name: str) -> str:
    return f"00000000-0000-4000-8000-{name:0>12}"


def entry(name: str, parent: str | None, second: int, kind: str, **more: Any) -> dict[str, Any]:
    return {
        "uuid": uuid(name),
        "parentUuid": None if parent is None else uuid(parent),
        "sessionId": PARENT,
        "timestamp": f"2026-11-24T02:00:{second:02}.000Z",
        "type": kind,
        "cwd": "/w",
        "version": "0.24.4",
        **more,
    }


def user(name: str, parent: str | None, second: int, text: str, **more: Any) -> dict[str, Any]:
    return entry(name, parent, second, "user", message={"role": "user", "parts": [{"text": text}]}, **more)


def reply(name: str, parent: str, second: int, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    usage = {"promptTokenCount": 100, "candidatesTokenCount": 10, "cachedContentTokenCount": 40}
    message = {"role": "model", "parts": list(parts)}
    return entry(name, parent, second, "assistant", message=message, model="m", usageMetadata=usage, **more)


def note(name: str, parent: str | None, second: int, subtype: str, payload: Any = None, **more: Any) -> dict[str, Any]:
    return entry(name, parent, second, "system", subtype=subtype, provenance="system", systemPayload=payload, **more)


def copied(value: dict[str, Any], **more: Any) -> dict[str, Any]:
    origin = {"sessionId": PARENT, "messageUuid": value["uuid"]}
    return {**value, "sessionId": FORK, "forkedFrom": origin, **more}


CALL = {"functionCall": {"id": "c", "name": "run_shell_command", "args": {"command": "ls"}}}
HISTORY = [user("1", None, 1, "First"), reply("2", "1", 2, {"text": "One."})]
OWN = [user("3", "2", 31, "Second"), reply("4", "3", 32, {"text": "Two."})]


def fork(*history: dict[str, Any]) -> list[dict[str, Any]]:
    return [*map(copied, history), *({**one, "sessionId": FORK} for one in OWN)]


def counted(found: list[Event]) -> list[tuple[str | None, int | None]]:
    return [(one.request, one.input_tokens) for one in of(Usage, found) if not one.replay]


def rewinds(found: list[Event]) -> list[tuple[int, Any]]:
    return [(one.line, one.data) for one in of(Notice, found) if one.code == "rewound"]


def ends(found: list[Event]) -> list[tuple[str | None, str]]:
    return [(one.turn, one.state) for one in of(Turn, found)]


def test_parent_and_fork_use_one_request_more_than_the_parent() -> None:
    parent, branch = read("qwen-chat", *HISTORY), read("qwen-chat", *fork(*HISTORY))

    assert counted(parent) == [(uuid("2"), 100)]
    assert counted(branch) == [(uuid("4"), 100)]


def test_fork_begins_with_its_own_first_record() -> None:
    found = read("qwen-chat", *fork(*HISTORY))

    (started,) = [one for one in of(SessionEvent, found) if one.state == "started"]
    assert (started.session, started.forked_from, started.line, started.cwd) == (FORK, PARENT, 3, "/w")
    assert started.ts == 1795485631000
    assert [(one.text, one.replay, one.turn) for one in of(Message, found)] == [
        ("First", True, None),
        ("One.", True, None),
        ("Second", False, "t1"),
        ("Two.", False, "t1"),
    ]
    assert ends(found) == [("t1", "started"), ("t1", "completed")]


def test_copied_call_without_a_result_ends_with_the_history() -> None:
    found = read("qwen-chat", *fork(HISTORY[0], reply("2", "1", 2, CALL)))

    (ended,) = of(ToolResult, found)
    assert (ended.status, ended.replay, ended.ts) == ("interrupted", True, 1795485602000)


def test_fork_that_adds_nothing_has_no_turn_and_no_usage() -> None:
    found = read("qwen-chat", *map(copied, [HISTORY[0], reply("2", "1", 2, CALL)]))

    assert all(one.replay for one in found)
    assert of(Turn, found) == []


def test_session_goes_on_in_the_same_file() -> None:
    found = read("qwen-chat", *HISTORY, note("9", "2", 3, "custom_title", {"customTitle": "T"}), *OWN)

    assert counted(found) == [(uuid("2"), 100), (uuid("4"), 100)]
    assert rewinds(found) == []
    assert [one.state for one in of(SessionEvent, found)] == ["started", "updated", "updated"]


def test_message_whose_parent_is_not_the_last_one_rewinds() -> None:
    again = [user("5", "2", 33, "Second, better"), reply("6", "5", 34, {"text": "Three."})]
    found = read("qwen-chat", *HISTORY, *OWN, *again)

    assert rewinds(found) == [(5, {"messageId": uuid("3"), "messages": 2})]
    assert len(counted(found)) == 3


def test_rewind_to_the_beginning_is_told_once() -> None:
    rewind = note("7", None, 33, "rewind", {"truncatedCount": 4})
    found = read("qwen-chat", *HISTORY, *OWN, rewind, user("8", "7", 34, "Anew"))

    assert rewinds(found) == [(5, {"messageId": uuid("1"), "messages": 4})]


def test_notice_of_a_compaction_has_its_summary() -> None:
    snapshot = "<state_snapshot>A greeting was added.</state_snapshot>"
    history = [{"role": "user", "parts": [{"text": snapshot}]}, {"role": "model", "parts": [{"text": "Got it."}]}]
    done = note("6", "5", 33, "chat_compression", {"info": {}, "compressedHistory": history})
    bare = note("7", "6", 34, "chat_compression", {"info": {}})
    found = of(Notice, read("qwen-chat", *HISTORY, *OWN, done, bare))

    assert [one.text for one in found if one.code == "compaction"] == [snapshot, "history summed up"]


def test_notes_beside_the_messages_rewind_nothing() -> None:
    notes = [note("5", "4", 33, "ui_telemetry"), note("6", "4", 34, "attribution_snapshot")]
    found = read("qwen-chat", *HISTORY, *OWN, *notes, user("7", "5", 35, "Third"))

    assert rewinds(found) == []


def test_session_that_another_one_started_names_it() -> None:
    found = read("qwen-chat", note("0", None, 0, "parent_session", {"parentSessionId": FORK}), *HISTORY)

    assert [(one.state, one.parent_session) for one in of(SessionEvent, found)][:2] == [
        ("started", None),
        ("updated", FORK),
    ]


def test_stated_result_ends_a_turn_that_has_no_answer() -> None:
    failed = note("3", "2", 5, "turn_result", {"promptId": "p", "state": "error", "error": {"message": "quota"}})
    found = read("qwen-chat", HISTORY[0], reply("2", "1", 2, CALL), failed)

    assert ends(found) == [("t1", "started"), ("t1", "failed")]
    assert [(one.code, one.text) for one in of(Notice, found)] == [("provider-error", "quota")]


def test_stated_result_after_the_answer_adds_nothing() -> None:
    done = note("3", "2", 5, "turn_result", {"promptId": "p", "state": "completed"})

    assert ends(read("qwen-chat", *HISTORY, done)) == [("t1", "started"), ("t1", "completed")]


def failure(name: str, parent: str, at: int, status: int) -> Any:
    """As Qwen Code 0.24.4 stores a request that failed."""
    event = {
        "event.name": "qwen-code.api_error",
        "prompt_id": "s########0",
        "error_message": f"{status} No.",
        "error_type": "APIError",
        "status_code": status,
    }
    return note(name, parent, at, "ui_telemetry", {"uiEvent": event})


@pytest.mark.parametrize("status", [400, 429])
def test_turn_whose_request_failed_has_failed(status: int) -> None:
    found = read("qwen-chat", HISTORY[0], failure("2", "1", 5, status))

    assert [(one.turn, one.state, one.reason) for one in of(Turn, found)][1:] == [("t1", "failed", "APIError")]
    assert [(one.code, one.text) for one in of(Notice, found)] == [("provider-error", f"{status} No.")]


def test_answer_to_a_request_that_is_made_again_is_in_its_turn() -> None:
    answered = reply("3", "2", 6, {"text": "Done."})
    found = read("qwen-chat", HISTORY[0], failure("2", "1", 5, 429), answered)

    assert ends(found) == [("t1", "started"), ("t1", "completed")]


def test_failure_that_the_result_repeats_is_one_notice() -> None:
    stated = note("3", "2", 6, "turn_result", {"promptId": "p", "state": "error", "error": {"message": "429 No."}})
    found = read("qwen-chat", HISTORY[0], failure("2", "1", 5, 429), stated)

    assert ends(found) == [("t1", "started"), ("t1", "failed")]
    assert [one.text for one in of(Notice, found)] == ["429 No."]


def test_message_typed_while_the_agent_works_continues_the_turn() -> None:
    steer = user("3", "2", 5, "Do this instead", subtype="mid_turn_user_message")
    found = read("qwen-chat", HISTORY[0], reply("2", "1", 2, CALL), steer, reply("4", "3", 6, {"text": "Done."}))

    assert said(found) == [("user", "First"), ("user", "Do this instead"), ("assistant", "Done.")]
    assert ends(found) == [("t1", "started"), ("t1", "completed")]


def test_typed_command_is_a_message_with_what_it_printed() -> None:
    """A command that went to the model is in a message of its own. None of them begins a turn."""
    about = {"phase": "invocation", "rawCommand": "/about"}
    printed = {
        **about,
        "phase": "result",
        "outputHistoryItems": [{"type": "about"}, {"type": "info", "text": "CLI version"}, {"text": "0.24.4"}],
    }
    review = {"phase": "invocation", "rawCommand": "/review 3", "sentToModel": True}
    hidden = {"phase": "invocation", "rawCommand": "/quit", "hiddenInvocation": True}
    silent = {"phase": "result", "rawCommand": "/model", "outputHistoryItems": []}
    payloads = [about, printed, review, hidden, silent]
    notes = [note(str(5 + at), str(4 + at), 33, "slash_command", one) for at, one in enumerate(payloads)]
    found = read("qwen-chat", *HISTORY, *OWN, *notes)

    assert said(found)[4:] == [("user", "/about"), ("system", "CLI version\n0.24.4")]
    assert len(ends(found)) == 4


def test_answer_without_tokens_was_cut() -> None:
    cut = {key: value for key, value in reply("2", "1", 2, {"text": "On"}).items() if key != "usageMetadata"}
    found = read("qwen-chat", HISTORY[0], cut)

    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("cancelled", "eof")]


@pytest.mark.parametrize(
    ("stated", "status"), [("completed", "completed"), ("failed", "failed"), ("cancelled", "cancelled")]
)
def test_subagent_that_failed(stated: str, status: str) -> None:
    """Its call has ended in any case (0.24.4); the report for the user says how."""
    shown = {"type": "task_execution", "subagentName": "general-purpose", "status": stated, "terminateReason": "ERROR"}
    part = {"functionResponse": {"id": "t", "name": "agent", "response": {"output": "It found nothing."}}}
    called = reply("a", "p", 1, {"functionCall": {"id": "t", "name": "agent", "args": {"prompt": "Find it."}}})
    returned = entry("r", "a", 2, "tool_result", message={"role": "user", "parts": [part]})
    returned["toolCallResult"] = {"callId": "t", "status": "success", "resultDisplay": shown}
    (done,) = of(ToolResult, read("qwen-chat", user("p", None, 0, "Find it."), called, returned))

    assert (done.name, done.status) == ("Task", status)
    assert "It found nothing." in done.output.values()


def test_command_that_was_started_in_the_background_runs_on() -> None:
    """Its first result only says that it was started (0.24.4); no line of the file states its end."""
    output = "Background shell started.\nid: bg_a0a9b870\npid: 27854\noutput file: /t/shell-bg_a0a9b870.output\n"
    given = {"command": "npm run watch", "is_background": True}
    part = {"functionResponse": {"id": "c", "name": "run_shell_command", "response": {"output": output}}}
    called = reply("a", "p", 1, {"functionCall": {"id": "c", "name": "run_shell_command", "args": given}})
    returned = entry("r", "a", 2, "tool_result", message={"role": "user", "parts": [part]})
    started, ended = of(ToolResult, read("qwen-chat", user("p", None, 0, "Watch."), called, returned))

    assert (started.status, started.async_, ended.status, ended.synthetic) == ("completed", True, "interrupted", True)


@pytest.mark.parametrize(("answered", "end"), [("output", "cancelled"), ("error", "interrupted")])
def test_stop_of_a_background_command_ends_it(answered: str, end: str) -> None:
    def called(index: int, call_id: str, name: str, given: dict[str, Any], key: str, text: str) -> list[dict[str, Any]]:
        part = {"functionResponse": {"id": call_id, "name": name, "response": {key: text}}}
        call = {"functionCall": {"id": call_id, "name": name, "args": given}}
        message = {"role": "user", "parts": [part]}
        before = f"r{index - 1}" if index else "p"
        return [
            reply(f"a{index}", before, 1, call),
            entry(f"r{index}", f"a{index}", 2, "tool_result", message=message),
        ]

    output = "Background shell started.\nid: bg_a0\npid: 27\noutput file: /t/shell-bg_a0.output\n"
    given = {"command": "npm run watch", "is_background": True}
    lines = [
        *called(0, "c", "run_shell_command", given, "output", output),
        *called(1, "d", "task_stop", {"task_id": "bg_a0"}, answered, "Cancellation requested."),
    ]
    started, _, ended = of(ToolResult, read("qwen-chat", user("p", None, 0, "Watch."), *lines))

    assert (started.async_, ended.call_id, ended.status, ended.final) == (True, "c", end, True)
