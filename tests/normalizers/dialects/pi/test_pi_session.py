"""The `pi-session` dialect: forks, branches, and messages that were typed while the agent worked."""

from __future__ import annotations

from typing import Any

import pytest

from tests.normalizers.reading import answer, of, read, said, turns
from tooltap.protocol.events import Event, Message, Notice, SessionEvent, ToolResult, Turn, Unparsed, Usage

PARENT = "01a21784-9fd4-70d1-b24c-58986e3e59da"
FORK = "01a21799-0000-7000-8000-000000000001"


def at(second: int) -> str:
    return f"2026-11-26T11:00:{second:02}.000Z"


def ms(second: int) -> int:
    return 1795690800000 + second * 1000


def header(session: str = PARENT, second: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": "session", "version": 3, "id": session, "timestamp": at(second), "cwd": "/w", **more}


def entry(name: str, parent: str | None, second: int, kind: str = "message", **more: Any) -> dict[str, Any]:
    return {"type": kind, "id": name, "parentId": parent, "timestamp": at(second), **more}


def prompt(name: str, parent: str | None, second: int, text: str, typed: int | None = None) -> dict[str, Any]:
    content = [{"type": "text", "text": text}]
    message = {"role": "user", "content": content, "timestamp": ms(second if typed is None else typed)}
    return entry(name, parent, second, message=message)


def usage(cost: float = 0.02) -> dict[str, Any]:
    return {
        "input": 100,
        "output": 10,
        "cacheRead": 20,
        "cacheWrite": 0,
        "reasoning": 4,
        "totalTokens": 130,
        "cost": {"total": cost},
    }


def reply(
    name: str, parent: str | None, second: int, *blocks: dict[str, Any], stop: str = "stop", **more: Any
) -> dict[str, Any]:
    message = {
        "role": "assistant",
        "content": list(blocks),
        "model": "m",
        "usage": usage(),
        "stopReason": stop,
        "timestamp": ms(second),
        **more,
    }
    return entry(name, parent, second, message=message)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def call(call_id: str = "c") -> dict[str, Any]:
    return {"type": "toolCall", "id": call_id, "name": "bash", "arguments": {"command": "ls"}}


def result(name: str, parent: str, second: int, **more: Any) -> dict[str, Any]:
    message = {"role": "toolResult", "toolCallId": "c", "toolName": "bash", "content": [text("a.py")], **more}
    return entry(name, parent, second, message={**message, "timestamp": ms(second)})


HISTORY = (
    entry("m", None, 1, "model_change", modelId="m"),
    prompt("a", "m", 2, "First"),
    reply("b", "a", 3, text("One."), responseId="chatcmpl-0123456789abcdef"),
)
OWN = (prompt("c", "b", 12, "Second"), reply("d", "c", 13, text("Two.")))


def counted(found: list[Event]) -> list[Usage]:
    return [one for one in of(Usage, found) if not one.replay]


def cost(found: list[Event]) -> float:
    return sum(one.cost_usd or 0 for one in counted(found))


@pytest.mark.parametrize(
    "stated",
    [
        f"/home/u/.pi/agent/sessions/--w--/2026-11-26T11-00-00-000Z_{PARENT}.jsonl",
        rf"C:\Users\u\.pi\agent\sessions\--w--\2026-11-26T11-00-00-000Z_{PARENT}.jsonl",
        f"/elsewhere/{PARENT}.jsonl",
        PARENT,
    ],
)
def test_fork_names_its_parent(stated: str) -> None:
    found = read("pi-session", header(FORK, 10, parentSession=stated), *HISTORY, *OWN)

    origins = [(one.session, one.forked_from, one.parent_session) for one in of(SessionEvent, found) if one.forked_from]
    assert origins == [(FORK, PARENT, None)]


def test_parent_and_fork_cost_one_request_more_than_the_parent() -> None:
    parent = read("pi-session", header(), *HISTORY)
    fork = read("pi-session", header(FORK, 10, parentSession=PARENT), *HISTORY, *OWN)

    assert cost(parent) == 0.02
    assert cost(fork) == 0.02  # of its own request; the copied one is history
    assert sum(one.input_tokens or 0 for one in counted(parent) + counted(fork)) == 240


def test_copied_entries_are_history_outside_of_turns() -> None:
    found = read("pi-session", header(FORK, 10, parentSession=PARENT), *HISTORY, *OWN)

    assert [(one.text, one.replay, one.turn) for one in of(Message, found)] == [
        ("First", True, None),
        ("One.", True, None),
        ("Second", False, "t1"),
        ("Two.", False, "t1"),
    ]
    assert turns(found) == [("t1", "started", True), ("t1", "completed", False)]


def test_copied_model_is_the_forks_from_its_beginning() -> None:
    found = read("pi-session", header(FORK, 10, parentSession=PARENT), *HISTORY, *OWN)

    models = [(one.model, one.replay, one.ts) for one in of(SessionEvent, found) if one.model]
    assert models == [("m", False, ms(10))]


def test_copied_call_without_a_result_ends_with_the_history() -> None:
    open_call = reply("b", "a", 3, call(), stop="toolUse")
    found = read(
        "pi-session",
        header(FORK, 10, parentSession=PARENT),
        HISTORY[1],
        open_call,
        prompt("c", "b", 12, "Second"),
        reply("d", "c", 13, text("Two.")),
    )

    (ended,) = of(ToolResult, found)
    assert (ended.status, ended.replay, ended.synthetic, ended.ts) == ("interrupted", True, True, ms(3))
    assert turns(found) == [("t1", "started", True), ("t1", "completed", False)]


def test_fork_that_adds_nothing_has_no_turn_and_no_usage() -> None:
    found = read("pi-session", header(FORK, 10, parentSession=PARENT), *HISTORY, reply("x", "b", 4, call()))

    assert of(Turn, found) == []
    assert counted(found) == []
    assert [one.replay for one in of(ToolResult, found)] == [True]


def test_session_that_another_one_started_copies_nothing() -> None:
    first = prompt("a", None, 11, "First")
    found = read("pi-session", header(FORK, 10, parentSession=PARENT), first, reply("b", "a", 12, text("One.")))

    assert [(one.forked_from, one.parent_session) for one in of(SessionEvent, found)][1] == (None, PARENT)
    assert cost(found) == 0.02
    assert not any(one.replay for one in found)


def test_session_goes_on_in_a_new_process_in_the_same_file() -> None:
    found = read("pi-session", header(), *HISTORY, *OWN)

    assert cost(found) == 0.04
    assert [one.state for one in of(SessionEvent, found)] == ["started", "updated"]
    assert [one for one in of(Notice, found) if one.code == "rewound"] == []


def test_entry_whose_parent_is_not_the_last_one_rewinds() -> None:
    again = prompt("e", "b", 14, "Second, better")
    found = read("pi-session", header(), *HISTORY, *OWN, again, reply("f", "e", 15, text("Three.")))

    (notice,) = of(Notice, found)
    assert (notice.code, notice.text, notice.data, notice.line) == (
        "rewound",
        "history rewound",
        {"messageId": "c", "messages": 2},
        7,
    )
    assert cost(found) == 0.06  # the abandoned request was made, too


def test_skipped_entry_that_rewinds_is_a_line_with_events() -> None:
    found = read("pi-session", header(), *HISTORY, *OWN, entry("l", "b", 14, "label", targetId="b", label="x"))

    assert [one.code for one in of(Notice, found)] == ["rewound"]


def test_requests_beside_the_messages_are_counted() -> None:
    found = read(
        "pi-session",
        header(),
        prompt("a", None, 1, "First"),
        reply("b", "a", 2, call(), stop="toolUse"),
        result("c", "b", 3, usage=usage(0.01)),
        reply("d", "c", 4, text("One.")),
        entry("e", "d", 5, "compaction", summary="Sum.", firstKeptEntryId="d", usage=usage(0.03)),
        entry("f", "e", 6, "usage", category="cache_warm", model="m", usage=usage(0.05)),
    )

    assert [one.cost_usd for one in counted(found)] == [0.02, 0.01, 0.02, 0.03, 0.05]
    assert {one.reasoning_tokens for one in counted(found)} == {4}


def test_response_identifies_the_request_unless_its_id_is_short() -> None:
    short = reply("d", "b", 5, text("Two."), responseId="chatcmpl-17")
    found = read("pi-session", header(), *HISTORY, short)

    assert [one.request for one in of(Usage, found)] == ["chatcmpl-0123456789abcdef", None]


def test_message_typed_while_the_agent_works_continues_the_turn() -> None:
    found = read(
        "pi-session",
        header(),
        prompt("a", None, 1, "First"),
        reply("b", "a", 2, call(), stop="toolUse"),
        result("c", "b", 8),
        prompt("d", "c", 9, "Do this instead", typed=5),
        reply("e", "d", 10, text("Done.")),
    )

    assert turns(found) == [("t1", "started", True), ("t1", "completed", False)]
    assert said(found) == [("user", "First"), ("user", "Do this instead"), ("assistant", "Done.")]


def test_message_typed_after_the_last_result_ends_a_turn_that_was_cut() -> None:
    found = read(
        "pi-session",
        header(),
        prompt("a", None, 1, "First"),
        reply("b", "a", 2, call(), stop="toolUse"),
        result("c", "b", 8),
        prompt("d", "c", 30, "Are you there?"),
        reply("e", "d", 31, text("Yes.")),
    )

    assert [(turn.turn, turn.state) for turn in of(Turn, found)] == [
        ("t1", "started"),
        ("t1", "cancelled"),
        ("t2", "started"),
        ("t2", "completed"),
    ]


def edit(name: str, parent: str, target: str, replacement: Any = None) -> dict[str, Any]:
    return entry(name, parent, 9, "context_edit", targetId=target, replacement=replacement)


def edits(*entries: dict[str, Any]) -> list[tuple[str, str | None, Any]]:
    """The text, call and target of each edit of the context."""
    found = read("pi-session", header(), prompt("a", None, 1, "First"), *entries)
    assert of(Unparsed, found) == []
    return [(one.text, one.call_id, one.data) for one in of(Notice, found) if one.code == "context-edit"]


def test_edit_of_the_context_says_what_the_model_gets_instead() -> None:
    """As `ContextEditEntry` of 1.x: a null replacement leaves the target out, later edits win."""
    worked = [reply("b", "a", 2, text("Half"), call(), stop="toolUse"), result("c", "b", 8)]
    parts = {"content": [{"type": "text", "text": "12 matches"}]}

    assert edits(*worked, edit("d", "c", "c", parts), edit("e", "d", "b"), edit("f", "e", "c", {"content": "0"})) == [
        ("12 matches", "c", {"messageId": "c"}),
        ("Removed from the context.", None, {"messageId": "b"}),
        ("0", "c", {"messageId": "c"}),
    ]


def test_request_that_failed_before_it_gave_anything_is_removed_without_a_word() -> None:
    """Pi removes it before it tries again; the error is a notice."""
    failed = reply("b", "a", 2, stop="error", errorMessage="529")

    assert edits(failed, edit("c", "b", "b")) == []
    assert edits(reply("b", "a", 2, text("Half"), stop="error"), edit("c", "b", "b")) == [
        ("Removed from the context.", None, {"messageId": "b"})
    ]


def test_edit_of_the_context_ends_no_turn() -> None:
    failed = reply("b", "a", 2, stop="error", errorMessage="529")
    found = read("pi-session", header(), prompt("a", None, 1, "First"), failed, edit("c", "b", "a"))

    assert [(one.state, one.ended_by) for one in of(Turn, found)] == [("started", None), ("failed", "eof")]


def test_system_message_states_the_tools() -> None:
    def system(name: str, parent: str, **more: Any) -> dict[str, Any]:
        told = {"role": "system", "content": "", "sections": {"preamble": "You are inside pi."}, **more}
        return entry(name, parent, 3, message=told)

    def tools(*names: str) -> list[dict[str, str]]:
        return [{"name": name, "description": name} for name in names]

    found = read(
        "pi-session",
        header(),
        system("a", "z", toolsAdded=tools("read", "bash")),
        system("b", "a", toolsAdded=tools("read", "bash")),
        system("c", "b", toolsAdded=tools("fetch"), toolsRemoved=[{"name": "bash"}]),
        system("d", "c"),
    )

    assert [one.tools for one in of(SessionEvent, found)] == [None, ["read", "bash"], ["read", "fetch"]]
    assert of(Notice, found) == []


def test_calls_of_a_script_are_read_from_its_result() -> None:
    """As Pi 1.5.2 stores them (`nestedCalls`): how they ended, and an error's text, but no output."""
    made = [
        {"id": "c/1", "name": "read", "status": "ok", "arguments": {"path": "a.py"}, "durationMs": 7},
        {"id": "c/2", "name": "bash", "status": "error", "arguments": {"command": "x; exit 3"}, "durationMs": 21,
         "error": "from script\n\n\nCommand exited with code 3"},
        {"id": "c/3", "name": "write", "status": "unfinished", "argumentsBytes": 40_000},
    ]  # fmt: skip
    script = {"type": "toolCall", "id": "c", "name": "codemode", "arguments": {"code": "tools.read()"}}
    found = read(
        "pi-session",
        header(),
        prompt("a", None, 2, "Go"),
        reply("b", "a", 3, script, stop="toolUse"),
        result("r", "b", 4, toolName="codemode", nestedCalls={"calls": made, "complete": False}),
    )

    ends = {one.call_id: (one.name, one.parent, one.status, one.duration_ms) for one in of(ToolResult, found)}
    assert ends == {
        "c/1": ("Read", "c", "completed", 7),
        "c/2": ("Bash", "c", "failed", 21),
        "c/3": ("Write", "c", "interrupted", None),
        "c": ("codemode", None, "completed", None),
    }
    failed = next(one for one in of(ToolResult, found) if one.call_id == "c/2")
    assert answer(failed.output) == {
        "stdout": "from script\n",
        "exit_code": 3,
        "errorMessage": "Command exited with code 3",
    }
