"""What waits for a person: what is certain, what may be waiting, and in which order."""

from __future__ import annotations

from typing import Any

from tooltap.daemon.journal.interface import Dispatch, StreamInfo
from tooltap.daemon.sessions.waiting import ago, find_waiting
from tooltap.protocol.stats import Statistics


def session(name: str, status: str = "waiting", **fields: Any) -> dict[str, Any]:
    return {"session": name, "provider": "claude", "status": status, **fields}


def asked(name: str, permission_id: str = "p", **fields: Any) -> dict[str, Any]:
    return {"session": name, "stream": name, "seq": 1, "permissionId": permission_id, "type": "permission", **fields}


def opened_call(name: str, tool: str = "Bash", ts: int | None = 1_000, **fields: Any) -> dict[str, Any]:
    return {"session": name, "stream": name, "seq": 2, "callId": "c", "name": tool, "ts": ts, **fields}


def found(
    sessions: list[dict[str, Any]],
    permissions: list[dict[str, Any]] = [],  # noqa: B006 -- never changed
    calls: list[dict[str, Any]] = [],  # noqa: B006
    followed: set[str] = set(),  # noqa: B006
) -> list[tuple[str, bool]]:
    streams = {one: info(stream=one, followed=True) for one in followed}
    opened = {"permissions": permissions, "calls": calls}
    return [(one.session, one.certain) for one in find_waiting(sessions, opened, streams, before=5_000, now=9_000)]


def info(**fields: Any) -> StreamInfo:
    return StreamInfo(
        **{"stream": "s", "dialect": "acp", "statistics": Statistics(stream="s", dialect="acp", provider=""), **fields}
    )


def why_not(stream: StreamInfo | None, **fields: Any) -> str | None:
    opened = {"permissions": [asked("s", **fields)], "calls": []}
    [one] = find_waiting([session("s")], opened, {} if stream is None else {"s": stream}, before=0, now=9_000)
    assert one.answerable == (one.why_not is None)
    return one.why_not


def test_what_waited_longest_is_first() -> None:
    sessions = [session("new"), session("old")]
    assert found(sessions, [asked("new", ts=9_000), asked("old", ts=2_000)]) == [("old", True), ("new", True)]


def test_request_is_shown_with_its_call() -> None:
    """OpenCode states the command in the call alone."""
    opened = {
        "permissions": [asked("s", callId="c")],
        "calls": [opened_call("s", preview="git push"), {**opened_call("other", preview="rm x"), "stream": "other"}],
    }
    [one] = find_waiting([session("s")], opened, {"s": info()}, before=0, now=9_000)
    assert (one.seq, one.preview) == (1, "git push")


def test_request_of_a_session_that_does_not_wait_is_left_out() -> None:
    assert found([session("ended", "interrupted")], [asked("ended")]) == []
    assert found([], [asked("unknown")]) == []


def test_call_of_a_session_file_may_be_waiting_after_a_time() -> None:
    running = [session("file", "running")]
    assert found(running, calls=[opened_call("file")], followed={"file"}) == [("file", False)]
    assert found(running, calls=[opened_call("file", ts=5_000)], followed={"file"}) == []
    assert found(running, calls=[opened_call("file", ts=5_000)]) == []


def test_source_that_states_requests_never_may_be_waiting() -> None:
    assert found([session("tap", "running")], calls=[opened_call("tap")]) == []


def test_tool_that_never_asks_never_may_be_waiting() -> None:
    running = [session("file", "running")]
    for tool in ("Read", "Grep", "Task", "TodoWrite"):
        assert found(running, calls=[opened_call("file", tool)], followed={"file"}) == []
    for tool in ("Bash", "Edit", "WebFetch", "mcp__server__tool"):
        assert found(running, calls=[opened_call("file", tool)], followed={"file"}) == [("file", False)]


def test_call_without_a_time_never_may_be_waiting() -> None:
    timeless = {key: value for key, value in opened_call("file").items() if key != "ts"}
    assert found([session("file", "running")], calls=[timeless], followed={"file"}) == []


def test_one_call_of_a_session_is_enough() -> None:
    calls = [opened_call("file"), opened_call("file", "Edit")]
    assert found([session("file", "running")], calls=calls, followed={"file"}) == [("file", False)]


def test_what_is_certain_is_before_what_is_not() -> None:
    sessions = [session("file", "running"), session("tap")]
    assert found(sessions, [asked("tap", ts=9_000)], [opened_call("file")], {"file"}) == [
        ("tap", True),
        ("file", False),
    ]


def test_question_of_a_tap_that_writes_to_its_agent_can_be_answered() -> None:
    assert why_not(info(takes_answers=True)) is None


def test_what_cannot_be_answered_says_why_and_what_helps() -> None:
    assert why_not(None) == (
        "no publisher of its stream is connected: its agent or its tap has ended, or is being restarted"
    )
    assert "start the agent with `tooltap proxy --answers -- COMMAND`" in str(why_not(info()))
    assert "`tooltap hooks install`" in str(why_not(info(followed=True)))
    assert "`tooltap hooks install`" in str(why_not(None, fromCall=True))
    for dialect in ("claude-transcript", "of-a-package-that-is-gone", None):
        says = why_not(info(takes_answers=True, dialect=dialect))
        assert says == f"tooltap cannot write to an agent in the dialect {dialect or 'auto'}"


def test_question_that_has_an_answer_says_whose() -> None:
    fields: dict[str, Any] = {"id": "1", "what": "answer", "session": "s", "outcome": "denied", "frame": None}
    answers = {"p": Dispatch(by="ada, over the socket", ts=5_500, permission_id="p", **fields)}
    assert why_not(info(takes_answers=True, answers=answers)) == "answered 3 s ago by ada, over the socket: denied"


def test_time_since_an_answer_is_short() -> None:
    assert [ago(ms) for ms in (-5, 0, 59_999, 60_000, 3_599_999, 3_600_000)] == [
        "0 s ago",
        "0 s ago",
        "59 s ago",
        "1 min ago",
        "59 min ago",
        "1 h ago",
    ]


def test_a_question_is_listed_once_where_it_can_be_answered() -> None:
    shown, tap, hook = (
        {
            **asked("s", question),
            "stream": stream,
            "seq": seq,
            "name": "Bash",
            "fromCall": stream == "file",
            "fromHook": stream == "h-1",
        }
        for question, stream, seq in (("c", "file", 3), ("t", "tap", 4), ("h", "h-1", 5))
    )
    hooks = info(stream="h-1", dialect="hooks", takes_answers=True)

    def listed(*infos: StreamInfo) -> list[int]:
        opened = {"permissions": [shown, tap, hook], "calls": []}
        streams = {one.stream: one for one in infos}
        return [one.seq for one in find_waiting([session("s")], opened, streams, before=0, now=0)]

    assert listed(hooks, info(stream="tap", takes_answers=True)) == [4]
    assert listed(hooks, info(stream="tap")) == [5], "the tap sends nothing to its agent"
    assert listed(info(stream="tap")) == [4], "the hook has only told of the question"


def test_hook_that_has_only_told_says_how_hooks_wait() -> None:
    opened = {"permissions": [asked("s", fromHook=True)], "calls": []}
    [one] = find_waiting([session("s")], opened, {}, before=0, now=0)
    assert "`tooltap away`" in str(one.why_not)
