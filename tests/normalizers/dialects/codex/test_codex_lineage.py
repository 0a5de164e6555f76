"""Codex's threads over forks, resumes, compactions and rewinds: what is whose, and the tokens of each request once.

The recordings are of sessions whose requests have 1,200 tokens of input and 42 of output each."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.normalizers.dialects.codex.helpers import plain
from tests.normalizers.reading import of
from tooltap.daemon.sessions.usage import SessionUsage
from tooltap.normalizers.core.items import Context, Produced
from tooltap.protocol.events import Event, Message, Notice, SessionEvent, ToolResult, Turn, Unparsed, Usage, encode
from tooltap.testing import Line, check_recording, normalize, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures"
ROLLOUTS = sorted((FIXTURES / "codex-rollout").glob("*/*.jsonl"))

PARENT, CHILD = "0199aaaa-0000-7000-8000-000000000001", "0199aaaa-0000-7000-8000-000000000002"


def events(dialect: str, name: str) -> list[Event]:
    path = FIXTURES / dialect / f"codex-{name}.jsonl"
    return check_recording(dialect, read_recording(path.read_bytes()), Context(stream=name))


def spent(*streams: list[Event]) -> tuple[int, int]:
    """Tokens of input and output of a session that these streams report."""
    used = SessionUsage()
    for event in (one for stream in streams for one in stream):
        if isinstance(event, Usage | SessionEvent) and not event.replay:
            used.note(0, event.ts, Produced.of(event, encode(event)))
    parts = [part.amount for part in used.once()]
    return sum(one.input_tokens for one in parts), sum(one.output_tokens for one in parts)


def own(found: list[Event]) -> list[Event]:
    return [one for one in found if not one.replay]


def said(found: list[Event]) -> list[str]:
    return [one.text for one in of(Message, found)]


def started(found: list[Event]) -> list[str | None]:
    return [one.turn for one in of(Turn, found) if one.state == "started"]


def forked_from(found: list[Event]) -> set[str]:
    return {one.forked_from for one in of(SessionEvent, found) if one.forked_from is not None}


# -- an independent count ---------------------------------------------------------------------------------------------


def requests(path: Path) -> Iterator[tuple[int, int]]:
    """Count the requests of a rollout from its lines alone: the records of this thread, or else the last usage whenever
    the total has changed, from the thread's own first turn on."""
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    meta = lines[0]["payload"]
    records = [one["payload"] for one in lines if one["type"] == "token_usage_record"]
    if records:
        usages = {one["response_id"]: one["usage"] for one in records if one["thread_id"] == meta["id"]}
        yield from ((one["input_tokens"], one["output_tokens"]) for one in usages.values())
        return
    total: Any = None
    is_own = "forked_from_id" not in meta
    for line in lines:
        is_own = is_own or line["payload"].get("turn_id", "") > meta["id"]
        if line["payload"].get("type") != "token_count":
            continue
        info = line["payload"]["info"] or {"total_token_usage": None}
        if is_own and info["total_token_usage"] not in (None, total):
            yield info["last_token_usage"]["input_tokens"], info["last_token_usage"]["output_tokens"]
        total = info["total_token_usage"]


@pytest.mark.parametrize("path", ROLLOUTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_sum_is_that_of_an_independent_count(path: Path) -> None:
    counted = list(requests(path))

    found = normalize("codex-rollout", read_recording(path.read_bytes()), Context(stream="s"))

    assert spent(found) == (sum(one for one, _ in counted), sum(one for _, one in counted))


# -- recordings -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "parent", "texts", "requests"),
    [
        ("0.131/fork", "01a21dc5-46a3-79e3-a307-039e325a5f22", ["[[S1]] after fork", "[[S2]] third"], 2),
        ("0.131/fork-of-fork", "01a21dc5-5879-7be1-b7ca-71019d4febed", ["[[S1]] after second fork"], 1),
        ("0.171/fork", "01a21dc5-8d58-7b91-a453-c452b08c07cc", ["[[S1]] after fork", "[[S2]] third"], 2),
        ("0.171/fork-of-fork", "01a21dc5-a387-7721-b28e-e02f56900d82", ["[[S1]] after second fork"], 1),
    ],
)
def test_fork_has_its_own_turns_and_requests(name: str, parent: str, texts: list[str], requests: int) -> None:
    found = events("codex-rollout", name)

    assert forked_from(found) == {parent}
    assert len({one.session for one in found}) == 1
    assert parent not in {one.session for one in found}
    assert len(started(found)) == requests
    assert [one.text for one in of(Message, own(found)) if one.role == "user"] == texts
    assert {one.turn for one in found if one.replay} <= {None}
    assert spent(found) == (1200 * requests, 42 * requests)


def test_copied_messages_are_history() -> None:
    copied = [one for one in events("codex-rollout", "0.131/fork") if one.replay]

    assert said(copied) == ["[[S0]] hello", "Hello.", "[[S1]] more", "Again."]
    assert {type(one) for one in copied} == {Message}


@pytest.mark.parametrize("version", ["0.131", "0.171"])
def test_forked_thread_of_app_server_has_its_own_requests(version: str) -> None:
    found = events("codex-app-server", f"{version}/fork")

    assert len(forked_from(found)) == 1
    assert [one.state for one in of(SessionEvent, found) if one.forked_from] == ["started"]
    assert spent(found) == (2400, 84)


@pytest.mark.parametrize("version", ["0.131", "0.171"])
def test_resume_continues_the_file(version: str) -> None:
    """Two runs of `codex exec`, then an app-server: a turn, a compaction, which is a request as well, and a turn."""
    found = events("codex-rollout", f"{version}/resumed-and-compacted")

    assert spent(found) == (5 * 1200, 5 * 42)
    assert len(started(found)) == 5
    assert [one.code for one in of(Notice, found)] == ["compaction"]


def test_resumed_counter_that_begins_anew_is_added() -> None:
    """The second process of 0.58 states the same total as the first."""
    assert spent(events("codex-rollout", "0.58/resumed")) == (2400, 84)


def test_totals_of_two_runs_are_one_total() -> None:
    first, second = events("codex-exec", "0.171/first-run"), events("codex-exec", "0.171/resumed-run")

    assert [one.input_tokens for one in of(Usage, [*first, *second])] == [1200, 2400]
    assert spent(first, second) == (2400, 84)


def test_streams_of_one_thread_give_one_total() -> None:
    """Two runs of `codex exec`, then the app-server resumes the thread, and makes three requests."""
    runs = [events("codex-exec", f"0.171/{name}") for name in ("first-run", "resumed-run")]
    resumed = events("codex-app-server", "0.171/resume")

    assert spent(*runs, resumed) == (5 * 1200, 5 * 42)
    assert spent(resumed) == (5 * 1200, 5 * 42)
    assert spent(*runs, events("codex-rollout", "0.171/resumed-and-compacted")) == (5 * 1200, 5 * 42)


def test_rollback_removes_no_request() -> None:
    found = events("codex-rollout", "0.131/rolled-back")

    assert [(one.code, one.data) for one in of(Notice, found)] == [("rewound", {"turns": 1})]
    assert spent(found) == (3600, 126)


def test_thread_goes_on_in_another_file_after_a_revert() -> None:
    before, after = events("codex-rollout", "0.171/reverted"), events("codex-rollout", "0.171/after-revert")

    assert len({one.session for one in [*before, *after]}) == 1
    assert [one.code for one in of(Notice, after)] == ["rewound"]
    assert of(SessionEvent, after)[0].state == "resumed"
    assert forked_from(after) == set()
    assert spent(before, after) == (3600, 126)


def test_revert_counts_a_total_that_was_there_before() -> None:
    """The counter goes back to 1,200, and reaches 2,400 again."""
    found = events("codex-app-server", "0.171/revert")

    assert [one.code for one in of(Notice, found) if one.code == "rewound"] == ["rewound"]
    assert spent(found) == (3600, 126)


def test_request_has_the_identity_of_its_response() -> None:
    found = of(Usage, events("codex-rollout", "0.171/after-revert"))

    assert [one.request for one in found if one.scope == "step"] == [
        "01a21dc5-bfb5-7093-8477-5450c74106bc/resp_e91ec4697ac94949ac71d264"
    ]


# -- written lines ----------------------------------------------------------------------------------------------------


def line(at: str, of_type: str, **payload: Any) -> dict[str, Any]:
    return {"timestamp": f"2026-06-25T{at}Z", "type": of_type, "payload": payload}


def event(at: str, of_type: str, **keys: Any) -> dict[str, Any]:
    return line(at, "event_msg", type=of_type, **keys)


def counted(at: str, total: int, last: int) -> dict[str, Any]:
    usage = [{"input_tokens": n, "output_tokens": n // 100, "total_tokens": n + n // 100} for n in (total, last)]
    return event(at, "token_count", info={"total_token_usage": usage[0], "last_token_usage": usage[1]})


def turn(at: str, name: str | None, prompt: str, total: int, last: int) -> list[dict[str, Any]]:
    """A turn, all of whose lines have one time. `name`: id of the turn; None: a version that states no turns."""
    begin = [] if name is None else [event(at, "task_started", turn_id=name)]
    end = [] if name is None else [event(at, "task_complete", turn_id=name)]
    context = {} if name is None else {"turn_id": name}
    return [
        *begin,
        line(at, "turn_context", cwd="/ws", model="m", **context),
        event(at, "user_message", message=prompt),
        event(at, "agent_message", message=f"{prompt}!"),
        counted(at, total, last),
        *end,
    ]


def header(at: str, thread: str, created: str, **more: Any) -> dict[str, Any]:
    meta = {"id": thread, "timestamp": f"2026-06-25T{created}Z", "cwd": "/ws", "cli_version": "0.131.0", **more}
    return line(at, "session_meta", **meta)


def history(name: str | None) -> list[dict[str, Any]]:
    return turn("09:00:00.001", name and f"{name}1", "one", 1000, 1000) + turn(
        "09:00:00.002", name and f"{name}2", "two", 2200, 1200
    )


FORK = header("09:00:00.000", CHILD, "09:00:00.000", forked_from_id=PARENT)
PARENTS = header("09:00:00.001", PARENT, "08:00:00.000")


@pytest.mark.parametrize("name", ["t", None], ids=["named turns", "no turns stated"])
@pytest.mark.parametrize("copied", [[PARENTS], []], ids=["with the parent's header", "without"])
def test_copy_ends_where_a_turn_begins_after_a_pause(name: str | None, copied: list[dict[str, Any]]) -> None:
    made = [FORK, *copied, *history(name), *turn("09:00:30.000", name and "t3", "three", 3500, 1300)]

    found = check_recording("codex-rollout", plain(*made), Context(stream="s"))

    assert {one.session for one in found} == {CHILD}
    assert said(own(found)) == ["three", "three!"]
    assert [one.model for one in of(SessionEvent, own(found)) if one.model] == ["m"]
    assert len(started(found)) == 1
    assert forked_from(found) == {PARENT}
    assert spent(found) == (1300, 13)


def test_copy_is_known_from_the_other_header_alone() -> None:
    """As of versions that do not name the parent in the header."""
    made = [header("09:00:00.000", CHILD, "09:00:00.000"), PARENTS, *history(None)]

    found = check_recording(
        "codex-rollout", plain(*made, *turn("09:00:30.000", None, "three", 3500, 1300)), Context(stream="s")
    )

    assert (forked_from(found), said(own(found)), spent(found)) == ({PARENT}, ["three", "three!"], (1300, 13))


def test_copy_ends_at_once_at_a_turn_that_is_newer_than_the_thread() -> None:
    """The ids begin with the time. A pause in the copy ends nothing then."""
    old, new = "0199aaa9-0000-7000-8000-00000000000", "0199aaab-0000-7000-8000-000000000000"
    late = turn("09:00:20.000", f"{old}9", "late", 3000, 800)
    made = [FORK, PARENTS, *history(old), *late, *turn("09:00:20.001", new, "three", 4300, 1300)]

    found = check_recording("codex-rollout", plain(*made), Context(stream="s"))

    assert (started(found), said(own(found)), spent(found)) == ([new], ["three", "three!"], (1300, 13))


def test_copied_times_may_be_those_of_the_parent() -> None:
    """A pause between lines that are older than the thread ends nothing."""
    copied = [*turn("08:00:00.000", None, "one", 1000, 1000), *turn("08:10:00.000", None, "two", 2200, 1200)]
    made = [FORK, *copied, *turn("09:00:30.000", None, "three", 3500, 1300)]

    found = check_recording("codex-rollout", plain(*made), Context(stream="s"))

    assert (said(own(found)), spent(found)) == (["three", "three!"], (1300, 13))


def test_subagent_with_history_has_its_own_turn() -> None:
    source = {"subagent": {"thread_spawn": {"parent_thread_id": PARENT, "depth": 1}}}
    made = [header("09:00:00.000", CHILD, "09:00:00.000", forked_from_id=PARENT, source=source), PARENTS, *history("t")]

    found = check_recording(
        "codex-rollout", plain(*made, *turn("09:00:30.000", "t3", "three", 3500, 1300)), Context(stream="s")
    )

    assert {(one.session, one.agent) for one in own(found)} == {(PARENT, CHILD)}
    assert (started(found), forked_from(found), spent(found)) == (["t3"], set(), (1300, 13))


def test_copied_call_without_result_ends_with_the_history() -> None:
    call = line("09:00:00.001", "response_item", type="function_call", name="shell", arguments="{}", call_id="c")
    begun = [event("09:00:00.001", "task_started", turn_id="t1"), call]
    made = [FORK, PARENTS, *begun, *turn("09:00:30.000", "t2", "two", 1000, 1000)]

    found = check_recording("codex-rollout", plain(*made), Context(stream="s"))

    assert [(one.call_id, one.status, one.replay, one.turn) for one in of(ToolResult, found)] == [
        ("c", "interrupted", True, None)
    ]


def test_header_of_another_thread_after_a_turn_is_content() -> None:
    made = [header("09:00:00.000", CHILD, "09:00:00.000"), *turn("09:00:01.000", "t1", "one", 1000, 1000), PARENTS]

    found = check_recording(
        "codex-rollout", plain(*made, *turn("09:00:02.000", "t2", "two", 1500, 500)), Context(stream="s")
    )

    assert {one.session for one in found} == {CHILD}
    assert (started(found), spent(found)) == (["t1", "t2"], (1500, 15))


def test_total_that_falls_began_anew() -> None:
    made = [header("09:00:00.000", CHILD, "09:00:00.000"), *turn("09:00:01.000", None, "one", 3000, 3000)]
    made += turn("09:10:00.000", None, "two", 500, 500)

    assert spent(check_recording("codex-rollout", plain(*made), Context(stream="s"))) == (3500, 35)


def test_repeated_count_is_counted_once() -> None:
    made = [header("09:00:00.000", CHILD, "09:00:00.000"), *turn("09:00:01.000", "t1", "one", 1000, 1000)]
    made += [counted("09:00:02.000", 1000, 1000), event("09:00:03.000", "token_count", rate_limits={})]

    assert spent(check_recording("codex-rollout", plain(*made), Context(stream="s"))) == (1000, 10)


def test_first_count_of_a_file_that_refers_to_its_history_is_not_a_request() -> None:
    """A compaction repeats the count of the last request, which is the parent's."""
    base = {"thread_id": PARENT, "end_ordinal_exclusive": 24}
    made = [header("09:00:00.000", CHILD, "09:00:00.000", forked_from_id=PARENT, history_base=base)]
    made += [event("09:00:01.000", "task_started", turn_id="t3"), counted("09:00:01.000", 2200, 1200)]
    usage = {"input_tokens": 1300, "output_tokens": 13, "total_tokens": 1313}
    total = {"input_tokens": 3500, "output_tokens": 35, "total_tokens": 3535}
    made.append(line("09:00:02.000", "token_usage_record", usage=usage, thread_token_usage=total, thread_id=CHILD))
    made.append(counted("09:00:02.000", 3500, 1300))

    assert spent(check_recording("codex-rollout", plain(*made), Context(stream="s"))) == (1300, 13)


# -- reviews ----------------------------------------------------------------------------------------------------------


def review(prompt: str) -> list[Event]:
    """A review by the guardian, whose header names no parent."""
    head = header("09:00:00.000", CHILD, "09:00:00.000", source={"subagent": {"other": "guardian"}})
    content = [{"type": "input_text", "text": prompt}]
    made = [head, event("09:00:00.001", "task_started", turn_id="t1"), line("09:00:00.002", "turn_context", model="m")]
    made.append(line("09:00:00.003", "response_item", type="message", role="user", content=content))
    made += [
        event("09:00:00.003", "user_message", message=prompt),
        event("09:00:04.000", "agent_message", message="ok"),
    ]
    made += [counted("09:00:04.000", 1000, 1000), event("09:00:05.000", "task_complete", turn_id="t1")]
    return check_recording("codex-rollout", plain(*made), Context(stream="s"))


def test_review_belongs_to_the_session_that_its_prompt_names() -> None:
    found = review(
        f"The following is the Codex agent history.\n>>> TRANSCRIPT END\nReviewed Codex session id: {PARENT}\n"
    )

    assert {(one.session, one.agent) for one in found} == {(PARENT, CHILD)}
    assert [type(one) for one in found[:2]] == [SessionEvent, Turn]
    assert [(one.role, one.text[:13]) for one in of(Message, found)] == [("user", "The following"), ("assistant", "ok")]
    assert [one.ts for one in of(Turn, found)] == [1782378000001, 1782378005000]
    assert spent(found) == (1000, 10)


def test_review_of_an_unknown_session_has_no_main_agent() -> None:
    found = review("The following is the Codex agent history.")

    assert {(one.session, one.agent) for one in found} == {(CHILD, CHILD)}
    assert (started(found), spent(found)) == (["t1"], (1000, 10))


def test_held_lines_are_read_at_the_end() -> None:
    head = header("09:00:00.000", CHILD, "09:00:00.000", source={"subagent": "memory_consolidation"})

    found = check_recording("codex-rollout", plain(head), Context(stream="s"))

    assert [(type(one), one.session, one.agent) for one in found] == [(SessionEvent, CHILD, CHILD)]


# -- ends -------------------------------------------------------------------------------------------------------------


def test_run_without_a_stated_end_was_cut() -> None:
    item = {"id": "item_0", "type": "agent_message", "text": "Half"}
    made: list[dict[str, Any]] = [{"type": "thread.started", "thread_id": PARENT}, {"type": "turn.started"}]
    made.append({"type": "item.completed", "item": item})

    found = check_recording("codex-exec", plain(*made), Context(stream="s"))

    assert [(one.state, one.reason) for one in of(Turn, found)][1:] == [("cancelled", "interrupted")]


def test_run_of_an_unknown_version_states_no_counter() -> None:
    """Whether the total goes on in the next process depends on the version."""
    ended = {"type": "turn.completed", "usage": {"input_tokens": 5, "output_tokens": 1}}

    (usage,) = of(Usage, check_recording("codex-exec", plain({"type": "turn.started"}, ended), Context(stream="s")))

    assert (usage.scope, usage.counter) == ("session", None)


def test_turn_behind_a_second_header_without_anything() -> None:
    """As the fuzzer wrote it, of a subagent: nothing was read of the thread that it would go on with."""
    lines = [
        Line(orjson.dumps({"type": "session_meta", "payload": {"id": CHILD}})),
        Line(orjson.dumps({"type": "session_meta"})),
        Line(
            orjson.dumps(
                {
                    "timestamp": "2026-11-21T20:58:12.146Z",
                    "type": "event_msg",
                    "payload": {"type": "task_started", "turn_id": "t"},
                }
            )
        ),
    ]
    context = Context(stream="s", session="known", agent="child", parent="call_1")

    assert of(Unparsed, check_recording("codex-rollout", lines, context)) == []
