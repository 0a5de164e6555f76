"""The rows of a page: runs that are folded, dividers of turns, subagents, and what has no row."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import Element, seqs, shown
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import SessionEvent, ToolResult, Turn, Usage

HAPPY = {"v": 2, "protocol": "acp", "provider": "gemini", "rawToolName": "x", "canonicalToolName": "Read"}


def read(call_id: str, path: str = "/src/app/a.py", ts: int | None = None, **fields: Any) -> Produced:
    given = {"file_path": path, "_happy": HAPPY}
    return call(call_id, name="Read", input=given, ts=ts, **fields)


def grep(call_id: str, **fields: Any) -> Produced:
    return call(call_id, name="Grep", input={"pattern": "x", "_happy": HAPPY}, **fields)


def done(call_id: str, **fields: Any) -> Produced:
    return result(call_id, **fields)


def runs(page: Element) -> list[tuple[str, list[int]]]:
    """Return what each fold says, and which calls are in it."""
    return [
        (
            one.one("summary").one("span", class_="preview").text,
            [int(card.attributes["data-seq"]) for card in one.all("article", class_="tool-call")],
        )
        for one in page.all("article", class_="run")
    ]


def is_open(page: Element) -> list[bool]:
    return ["open" in one.one("details").attributes for one in page.all("article", class_="run")]


def test_run_of_reads_and_searches_is_folded(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(
            *(read("1", "/src/app/a.py", ts=1_000), done("1")),
            *(read("2", "/src/app/b/c.py"), event(Usage, scope="step"), done("2")),
            *(read("3", "/src/app/a.py"), done("3"), grep("4"), done("4", ts=101_000)),
            message("x"),
            *(grep("5"), done("5"), message("y")),
        )
    )

    page = shown(browser, "/events?session=session-1")

    assert runs(page) == [("2 files in app/ — 1 search, 3 reads", [1, 3, 6, 8])]
    assert page.one("article", class_="run").one("span", class_="took").text == "1 m 40 s"
    assert is_open(page) == [False]


@pytest.mark.parametrize(
    "between",
    [
        [grep("f"), result("f", status="failed", is_error=True)],
        [grep("f")],
        [message("x")],
        [call("f"), result("f")],
        [read("f", agent="other"), result("f", agent="other")],
    ],
    ids=["failed", "running", "message", "shell", "another agent"],
)
def test_what_ends_a_run_is_not_folded_away(daemon: Running, browser: Browser, between: list[Produced]) -> None:
    daemon.commit(
        commit(*(read("1"), done("1"), read("2"), done("2")), *between, *(read("3"), done("3"), read("4"), done("4")))
    )

    page = shown(browser, "/events?session=session-1")

    assert [seqs for _, seqs in runs(page)] == [[1, 3], [5 + len(between), 7 + len(between)]]


def test_what_the_reader_came_for_is_unfolded(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(*(read("1"), done("1"), read("2"), done("2")), message("x")))

    for query, expected in (("", False), ("&at=3", True), ("&at=4", True), ("&at=5", False)):
        assert is_open(shown(browser, f"/events?session=session-1{query}")) == [expected], query
    assert runs(shown(browser, "/events?session=session-1&text=app")) == []  # all of it is what was searched


def test_usage_and_sessions_have_rows_only_if_asked_for(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(
            event(SessionEvent, state="started"),
            event(Turn, state="started"),
            message("x"),
            event(Usage, scope="turn", cost_usd=0.71, context_used=61, context_size=100),
            event(Turn, state="completed", duration_ms=360_000),
        )
    )

    assert seqs(shown(browser, "/events?session=session-1")) == [2, 4, 5, 3]
    assert seqs(shown(browser, "/events?kind=usage&kind=session")) == [1, 4]


def divider(page: Element, seq: int) -> tuple[str, str, list[str]]:
    turn = page.one("article", id=f"e{seq}")
    return (
        turn.one("header").one("span", class_="title").text,
        turn.attributes["data-status"],
        [one.text for one in turn.one("header").all("span", class_="fact")],
    )


def test_divider_says_what_is_known_though_the_turn_ends_on_a_later_page(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(
            *(event(Turn, state="started"), event(Turn, state="failed"), event(Turn, state="started"), message("x")),
            *(message(str(n)) for n in range(60)),
            event(Usage, scope="turn", cost_usd=0.5),
            event(Turn, state="completed", duration_ms=2_000),
            *(event(Turn, state="started"), message("y")),
        )
    )

    first, last = shown(browser, "/events?session=session-1&after=0"), shown(browser, "/events?session=session-1")

    assert divider(first, 1) == ("Turn", "failed", [])
    assert divider(first, 3) == ("Turn", "completed", ["$0.50", "2.0 s"])
    assert divider(last, 67) == ("Turn", "running", [])


def test_turn_of_a_stream_that_is_gone_does_not_run(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(event(Turn, state="started"), message("x"), state="suspended"))

    assert divider(shown(browser, "/events?session=session-1"), 1) == ("Turn", "ended", [])


def test_subagent_is_folded_when_it_has_ended(daemon: Running, browser: Browser) -> None:
    of = {"agent": "a", "stream": "child"}
    inner = [
        *(call("1", parent="task", **of), result("1", parent="task", **of)),
        *(call("inner", parent="task", name="Task", **of), call("2", parent="inner", **of)),
        *(result("2", parent="inner", **of), result("inner", parent="task", **of)),
    ]
    daemon.commit(commit(call("task", name="Task")), commit(*inner, stream="child"))

    def state() -> list[tuple[str, bool]]:
        page = shown(browser, "/events?session=session-1")
        found = page.all("details", class_="children")
        return [
            (
                one.one("summary").text if len(one.all("summary")) == 1 else one.all("summary")[0].text,
                "open" in one.attributes,
            )
            for one in found
        ]

    assert state() == [("3 calls", True), ("1 call", False)]
    daemon.commit(commit(result("task"), base=1))
    assert state() == [("3 calls", False), ("1 call", False)]


@pytest.mark.parametrize(
    ("made", "facts"),
    [
        (
            (
                call("1"),
                result(
                    "1",
                    output={"exit_code": 1, "stdout": "1 failed, 31 passed in 2s"},
                    status="failed",
                    is_error=True,
                    duration_ms=14_000,
                ),
            ),
            ["exit 1", "1 failed, 31 passed", "14 s"],
        ),
        ((call("1"), result("1", output={"exit_code": 0, "stdout": "32 passed in 2s"})), ["32 passed"]),
        ((call("1", ts=1_000), result("1", ts=3_500)), ["2.5 s"]),
    ],
)
def test_row_ends_with_what_the_call_came_to(
    daemon: Running, browser: Browser, made: tuple[Produced, Produced], facts: list[str]
) -> None:
    daemon.commit(commit(*made))

    card = shown(browser, "/events?session=session-1").one("article", id="e1")

    assert [one.text for one in card.one("header").all("span", class_="fact")] == facts


@pytest.mark.parametrize(
    ("name", "given", "output", "facts"),
    [
        ("Edit", {"file_path": "a", "old_string": "a\nb\n", "new_string": "a\nc\nd\n"}, {}, ["+2", "−1"]),
        ("Write", {"file_path": "a", "content": "a\nb\n"}, {"type": "create"}, ["+2"]),
        ("Read", {"file_path": "a"}, {"file": {"content": "a\nb\n"}}, ["2 lines"]),
        ("Grep", {"pattern": "a"}, {"matches": [{"filePath": "a", "line": 1}]}, ["1 match"]),
        ("Glob", {"pattern": "a"}, {"matches": ["a", "b"]}, ["2 files"]),
        ("TodoWrite", {"todos": [{"content": "a", "status": "completed"}, {"content": "b"}]}, {}, ["1 of 2 done"]),
    ],
)
def test_row_says_what_was_changed_or_found(
    daemon: Running, browser: Browser, name: str, given: dict[str, Any], output: dict[str, Any], facts: list[str]
) -> None:
    ended = event(ToolResult, call_id="1", name=name, output=output, status="completed", is_error=False)
    daemon.commit(commit(call("1", name=name, input={**given, "_happy": HAPPY}), ended))

    card = shown(browser, "/events?session=session-1").one("article", id="e1")

    assert [one.text for one in card.one("header").all("span", class_="fact")] == facts
