"""History in what Claude Code stores and prints: forks, lines that are marked as old, and rewinds."""

from typing import Any

from tests.normalizers.dialects.claude import helpers as stream
from tests.normalizers.dialects.claude.transcripts import SESSION, line, read, said
from tests.normalizers.reading import of
from tooltap.protocol.events import Event, Message, Notice, SessionEvent, ToolResult, Turn, Usage

PARENT = "99999999-2222-3333-4444-555555555555"
START = 1_788_256_800_000  # 2026-09-01T10:00:00Z
MODEL = "claude-sonnet-4-5-20250929"


def at(second: int) -> str:
    return f"2026-09-01T10:00:{second:02}.000Z"


def prompt(uuid: str, parent: str | None, second: int = 0, **more: Any) -> dict[str, Any]:
    text = {"type": "text", "text": f"prompt {uuid}"}
    return said("user", text, uuid=uuid, parentUuid=parent, timestamp=at(second), **more)


def answer(uuid: str, parent: str | None, second: int = 0, stop: str = "end_turn", **more: Any) -> dict[str, Any]:
    one = said("assistant", {"type": "text", "text": f"answer {uuid}"}, uuid=uuid, parentUuid=parent, **more)
    one["message"] |= {"model": MODEL, "stop_reason": stop, "usage": {"input_tokens": 100, "output_tokens": 10}}
    return one | {"timestamp": at(second), "requestId": f"req_0000000000_{uuid}"}


def use(call_id: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"command": "ls"}}


def queued(second: int, **more: Any) -> dict[str, Any]:
    return {"type": "queue-operation", "operation": "enqueue", "timestamp": at(second), "sessionId": SESSION, **more}


def texts(found: list[Event]) -> list[tuple[str, bool, str | None]]:
    return [(message.text, message.replay, message.turn) for message in of(Message, found)]


# -- forks --------------------------------------------------------------------------------------------------------

COPIED: dict[str, Any] = {"forkedFrom": {"sessionId": PARENT, "messageUuid": "x"}}
BRANCH = [prompt("p1", None, **COPIED), answer("a1", "p1", **COPIED), prompt("p2", "a1", 20), answer("a2", "p2", 21)]


def test_branch_has_history_and_a_turn_of_its_own() -> None:
    found = read(*BRANCH)

    assert texts(found) == [
        ("prompt p1", True, None),
        ("answer a1", True, None),
        ("prompt p2", False, "t1"),
        ("answer a2", False, "t1"),
    ]
    assert [(turn.turn, turn.state) for turn in of(Turn, found)] == [("t1", "started"), ("t1", "completed")]


def test_branch_names_its_parent_and_starts_with_its_own_lines() -> None:
    started = of(SessionEvent, read(*BRANCH))[0]

    assert (started.state, started.forked_from, started.ts) == ("started", PARENT, START + 20_000)


def test_requests_of_a_branchs_history_are_history() -> None:
    steps = of(Usage, read(*BRANCH))

    assert [(step.request, step.replay) for step in steps] == [
        ("msg_a1/req_0000000000_a1", True),
        ("msg_a2/req_0000000000_a2", False),
    ]


def test_lines_older_than_their_file_are_history() -> None:
    """`--resume ID --fork-session` of 2.1.330 copies lines without a mark."""
    lines = [
        {"type": "mode", "mode": "normal", "sessionId": SESSION},
        queued(10),
        prompt("p1", None, 1),
        answer("a1", "p1", 2),
        line("system", "s1", parentUuid="a1", subtype="informational", content="Copied.", timestamp=at(3)),
        prompt("p2", "s1", 11),
        answer("a2", "p2", 12),
    ]
    found = read(*lines)

    assert [one[1] for one in texts(found)] == [True, True, False, False]
    assert [notice.replay for notice in of(Notice, found)] == [True]
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


def test_line_that_is_older_than_an_earlier_one_is_not_history() -> None:
    """Lines of parallel work are not in order of their times; what a fork copies precedes all of its own lines."""
    found = read(queued(10), prompt("p1", None, 11), answer("a1", "p1", 9))

    assert [one[1] for one in texts(found)] == [False, False]


def test_time_of_a_queued_prompt_in_the_conversation_is_not_that_of_the_file() -> None:
    found = read(prompt("p1", None, 1), queued(30), answer("a1", "p1", 2))

    assert [one[1] for one in texts(found)] == [False, False]


def test_calls_that_history_leaves_open_end_with_it() -> None:
    asked = line("assistant", "a1", message={"id": "m1", "role": "assistant", "content": [use("c1")]}, **COPIED)
    (result,) = of(ToolResult, read(prompt("p1", None, **COPIED), asked, prompt("p2", "a1"), answer("a2", "p2")))

    assert (result.call_id, result.status, result.replay, result.turn) == ("c1", "interrupted", True, None)


def test_totals_of_a_fork_are_its_own_part() -> None:
    """`cost-state` goes on from the parent's: of 300 tokens in and 30 out, 100 and 10 are the fork's."""

    def costs(fresh: int, output: int, cost: float) -> dict[str, Any]:
        used = {"inputTokens": fresh, "outputTokens": output, "costUSD": cost}
        return {"type": "cost-state", "sessionId": SESSION, "totalCostUSD": cost, "modelUsage": {MODEL: used}}

    found = read(*BRANCH, costs(300, 30, 0.3), costs(350, 35, 0.35))
    totals = [usage for usage in of(Usage, found) if usage.scope == "session"]

    assert [(total.input_tokens, total.output_tokens, total.cost_usd, total.counter) for total in totals] == [
        (100, 10, None, "session"),
        (150, 15, None, "session"),
    ]


def test_lines_marked_as_historical_are_in_no_turn() -> None:
    lines = [
        stream.init(),
        stream.user(stream.text("Old prompt"), historical=True),
        stream.assistant(stream.text("Old answer."), historical=True),
        {"type": "system", "subtype": "compact_boundary", "uuid": "u", "historical": True},
        stream.user(stream.text("New prompt")),
        stream.assistant(stream.text("New answer."), message_id="msg_2"),
        stream.result(),
    ]
    found = stream.read(*lines)

    assert texts(found) == [
        ("Old prompt", True, None),
        ("Old answer.", True, None),
        ("New prompt", False, "t1"),
        ("New answer.", False, "t1"),
    ]
    assert [(notice.code, notice.replay) for notice in of(Notice, found)] == [("compaction", True)]
    assert [turn.state for turn in of(Turn, found)] == ["started", "completed"]


# -- rewinds ------------------------------------------------------------------------------------------------------


def rewinds(*lines: dict[str, Any]) -> list[tuple[int, Any]]:
    return [(notice.line, notice.data) for notice in of(Notice, read(*lines)) if notice.code == "rewound"]


TWO_TURNS = [prompt("p1", None), answer("a1", "p1"), prompt("p2", "a1"), answer("a2", "p2")]


def test_prompt_that_follows_an_earlier_line_rewinds() -> None:
    assert rewinds(*TWO_TURNS, prompt("p3", "a1"), answer("a3", "p3")) == [(5, {"messageId": "p2", "lines": 2})]


def test_rewind_is_told_between_the_turns() -> None:
    found = read(*TWO_TURNS, prompt("p3", "a1"))
    (notice,) = of(Notice, found)

    assert (notice.turn, notice.text) == (None, "history rewound")
    assert [turn.turn for turn in of(Turn, found)] == ["t1", "t1", "t2", "t2", "t3", "t3"]


def test_prompt_that_follows_the_attachment_of_an_earlier_one_rewinds() -> None:
    """An attachment between messages has a uuid, too."""
    note = line("attachment", "x1", parentUuid="a1", attachment={"type": "todo_reminder"})
    lines = [TWO_TURNS[0], TWO_TURNS[1], note, prompt("p2", "x1"), answer("a2", "p2"), prompt("p3", "x1")]

    assert rewinds(*lines) == [(6, {"messageId": "p2", "lines": 2})]


def test_prompt_that_follows_the_end_does_not_rewind() -> None:
    """The end may be the answer, a line after it, or an attachment that is not read."""
    hooks = line("system", "s1", parentUuid="a2", subtype="stop_hook_summary", hookInfos=[])

    assert rewinds(*TWO_TURNS, prompt("p3", "a2")) == []
    assert rewinds(*TWO_TURNS, hooks, prompt("p3", "s1")) == []
    assert rewinds(*TWO_TURNS, hooks, prompt("p3", "a2")) == []
    assert rewinds(*TWO_TURNS, prompt("p3", "unknown")) == []


def test_parallel_calls_do_not_rewind() -> None:
    """Each result follows the line of its call, and the next line follows any of them."""

    def called(uuid: str, parent: str, call_id: str) -> dict[str, Any]:
        message = {"id": "m1", "role": "assistant", "content": [use(call_id)]}
        return line("assistant", uuid, parentUuid=parent, message=message)

    def returned(uuid: str, parent: str, call_id: str) -> dict[str, Any]:
        return said("user", stream.tool_result(call_id, "ok"), uuid=uuid, parentUuid=parent)

    calls = [called("c1", "p1", "1"), called("c2", "c1", "2"), returned("r2", "c2", "2"), returned("r1", "c1", "1")]

    assert rewinds(prompt("p1", None), *calls, answer("a1", "r2"), prompt("p2", "a1")) == []
    assert rewinds(prompt("p1", None), *calls, prompt("p2", "r1")) == []


def test_subagents_and_compaction_do_not_rewind() -> None:
    side = [prompt("s1", None, isSidechain=True), answer("s2", "s1", isSidechain=True)]
    boundary = line("system", "b1", subtype="compact_boundary", logicalParentUuid="a2", content="Compacted")
    summary = prompt("b2", "b1", isCompactSummary=True)

    assert rewinds(*TWO_TURNS, *side, prompt("p3", "a2")) == []
    assert rewinds(*TWO_TURNS, boundary, summary, prompt("p3", "b2")) == []
    assert rewinds(*TWO_TURNS, boundary, summary, prompt("p3", "a2")) == []  # what was kept is not written again
