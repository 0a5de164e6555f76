"""The board: a column for each agent that works now, and what changes of it, live."""

from __future__ import annotations

from typing import Any

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, Stream
from tests.daemon.web.page.reading import Element, read, shown
from tooltap.daemon.journal.interface import Commit
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.web.page.asks import MOST as MOST_ABOVE
from tooltap.daemon.web.page.board import MOST, RECENT_MS
from tooltap.protocol.events import Chunk, PermissionRequest, SessionEvent, ToolUpdate, Turn, Usage

START = 1_700_000_000_000
TODOS = {"todos": [{"content": "Read", "status": "completed"}, {"content": "Fix it", "status": "in_progress"}]}


def started(name: str, *more: Any, ts: int = START, **fields: Any) -> Commit:
    """Events of a session in a stream of its own, in which a turn has begun."""
    where: dict[str, Any] = {"stream": name, "session": name, "ts": ts}
    events = [event(SessionEvent, state="started", title=f"Task of {name}", **where, **fields)]
    return commit(*events, event(Turn, state="started", **where), *more, stream=name)


def columns(page: Element) -> list[Element]:
    return page.all("section", class_="column")


def titles(page: Element) -> list[str]:
    return [one.one("h2").text for one in columns(page)]


def summary(page: Element) -> str:
    return page.one("div", id="board-summary").text


def test_board_says_that_nothing_runs(daemon: Running, browser: Browser) -> None:
    page = shown(browser, "/board")

    assert columns(page) == []
    assert "No agent runs now." in summary(page)


def test_column_says_what_the_agent_does(daemon: Running, browser: Browser) -> None:
    where: dict[str, Any] = {"stream": "a", "session": "a", "ts": START + 1}
    daemon.commit(
        started(
            "a",
            message("First words", **where),
            call("list", name="TodoWrite", input=TODOS, **where),
            result("list", **where),
            call("failed", **where),
            result("failed", status="failed", is_error=True, **where),
            message("Last words", **where),
            message("Of a subagent", agent="sub", **where),
            call("one", preview="ls", **where),
            call("two", preview="make test", **where),
            event(Usage, scope="step", input_tokens=900, output_tokens=100, cost_usd=1.5, context_size=4_000, **where),
            cwd="/src/greeter",
            branch="main",
            model="fast-1",
        )
    )

    [column] = columns(shown(browser, "/board"))

    assert column.one("h2").one("a").attributes["href"] == "/sessions/a"
    assert column.one("p", class_="who").text == "greeter main · Gemini CLI fast-1"
    assert column.one("p", class_="state").text.startswith("Running")
    assert column.one("p", class_="words").text == "Last words"
    now = column.one("p", class_="now")
    assert (now.one("b").text, now.one("span", class_="argument").text) == ("Bash", "make test")
    assert now.attributes["data-family"] == "shell"
    assert column.one("p", class_="others").text == "and 1 other call"
    figures = {one.one("dt").text: " ".join(one.one("dd").text.split()) for one in column.one("dl").all("div")}
    assert figures["Plan"] == "1 of 2 done Fix it"
    assert figures["Context"] == "25 %"
    assert (figures["Calls"], figures["Errors"], figures["Cost"], figures["Tokens"]) == ("4", "1", "$1.50", "1.0 k")


def test_what_waits_is_above_in_full_and_named_in_its_column(daemon: Running, browser: Browser) -> None:
    where: dict[str, Any] = {"stream": "a", "session": "a"}
    command = {"command": "rm -rf build && " + "x" * 200}
    asked = event(
        PermissionRequest, permission_id="p", type="permission", call_id="1", name="Bash", title="rm", **where
    )
    daemon.commit(started("b"), started("a", call("1", input=command, **where), asked, cwd="/src/greeter"))

    page = shown(browser, "/board")
    waiting = next(one for one in columns(page) if one.attributes["data-status"] == "waiting")

    ask = page.one("div", id="asks").one("section", class_="ask")
    assert command["command"] in ask.text
    assert "Answer in the window where the agent runs, in /src/greeter" in ask.text
    assert ask.all("button") == []
    [row] = waiting.all("p", class_="asking")  # the question takes the place of the call
    assert row.one("b").text == "Wants to run a command"
    assert row.one("a").attributes["href"] == f"#{ask.attributes['id']}"
    assert summary(page).split(" · ") == ["1 agent runs", "1 waits for you\n"]
    assert page.one("a", class_="waits").attributes["href"] == "#asks"


def test_question_that_is_not_above_is_answered_in_its_session(daemon: Running, browser: Browser) -> None:
    for number in range(MOST_ABOVE + 1):
        name = f"s{number}"
        asked = event(PermissionRequest, permission_id="p", type="permission", stream=name, session=name)
        daemon.commit(started(name, asked, ts=START + number))

    page = shown(browser, "/board")

    assert len(page.one("div", id="asks").all("section", class_="ask")) == MOST_ABOVE
    assert [one.one("p", class_="asking").one("a").attributes["href"][:5] for one in columns(page)] == [
        "/sess",
        *["#ask-"] * MOST_ABOVE,
    ]


def test_subagents_that_run_with_what_they_do(daemon: Running, browser: Browser) -> None:
    where: dict[str, Any] = {"stream": "a", "session": "a"}
    inside: dict[str, Any] = {**where, "agent": "sub", "parent": "t1"}
    daemon.commit(
        started(
            "a",
            call("t1", name="Task", preview="Find the writers", **where),
            call("t2", name="Task", preview="Find the readers", **where),
            call("i1", name="Grep", preview="insert", **inside),
        )
    )

    [column] = columns(shown(browser, "/board"))
    agents = column.one("ul", class_="subagents").all("li")

    assert [[one.text for one in agent.all("span", class_="argument")] for agent in agents] == [
        ["Find the writers", "insert"],
        ["Find the readers"],
    ]


def test_sessions_that_have_just_ended_come_last(daemon: Running, browser: Browser) -> None:
    now = wall_clock()
    for name, ts in (("old", now - 2 * RECENT_MS), ("ended", now)):
        daemon.commit(started(name, event(Turn, state="failed", stream=name, session=name, ts=ts), ts=ts))
    daemon.commit(started("first", ts=START), started("second", ts=START + 1))

    page = shown(browser, "/board")

    assert titles(page) == ["Task of second", "Task of first", "Task of ended"]
    assert "data-ended" in columns(page)[-1].attributes
    assert columns(page)[-1].one("p", class_="state").text.startswith("Failed")
    assert "1 ended in the last 10 minutes" in summary(page)


def test_board_is_bounded_and_says_how_many_more_there_are(daemon: Running, browser: Browser) -> None:
    daemon.commit(*(started(f"s{number:02}", ts=START + number) for number in range(MOST + 3)))

    page = shown(browser, "/board")

    assert len(columns(page)) == MOST
    assert "27 agents run" in summary(page)
    [more] = page.one("div", id="board-summary").all("a")
    assert more.text == "3 more agents in the table of sessions"
    assert more.attributes["href"] == "/?status=running"


# -- live ---------------------------------------------------------------------------------------------------------


def sent(stream: Stream) -> tuple[list[str], list[str]]:
    """Return the titles of the columns that come with the next order, and the ids in that order."""
    found = stream.until("columns")
    fresh = [read(one.json["html"]).one("h2").text for one in found if one.event == "column"]
    return fresh, found[-1].json["order"]


def test_only_changed_columns_are_sent(daemon: Running, browser: Browser) -> None:
    daemon.commit(started("a"), started("b", ts=START + 1))
    page = shown(browser, "/board")
    ids = [one.attributes["id"] for one in columns(page)]
    has = "&".join(f"has={one.attributes['data-version']}" for one in columns(page))

    with browser.stream("/board/live?after=now&" + has) as stream:
        assert sent(stream) == ([], ids)
        daemon.commit(commit(message("News", stream="a", session="a"), stream="a", base=1))
        column = read(stream.until("column")[-1].json["html"]).one("section")
        assert (column.attributes["id"], column.one("p", class_="words").text) == (ids[1], "News")
        daemon.commit(started("c", ts=START + 2))
        fresh, order = sent(stream)
        assert (fresh, order[1:]) == (["Task of c"], ids)


def test_browser_without_columns_gets_all(daemon: Running, browser: Browser) -> None:
    daemon.commit(started("a"), started("b", ts=START + 1))

    with browser.stream("/board/live") as stream:
        assert sent(stream)[0] == ["Task of b", "Task of a"]


def test_what_waits_is_sent_where_it_has_changed(daemon: Running, browser: Browser) -> None:
    where: dict[str, Any] = {"stream": "a", "session": "a"}
    daemon.commit(started("a"))

    with browser.stream("/board/live") as stream:
        assert stream.until("waits")[-1].json["waiting"] == 0
        asked = event(PermissionRequest, permission_id="p", type="permission", name="Bash", title="make", **where)
        daemon.commit(commit(asked, stream="a", base=1))
        [asks] = [one.data for one in stream.until("asks") if one.event == "asks"]
        wants = read(asks).one("section", class_="ask").one("p", class_="wants")
        assert wants.text == "Gemini CLI wants to run a command: make"
        waits = stream.until("waits")[-1].json
        assert (waits["waiting"], waits["asks"][0]["url"]) == (1, "/sessions/a")


def test_last_lines_of_running_call(daemon: Running, browser: Browser) -> None:
    where: dict[str, Any] = {"stream": "a", "session": "a"}
    daemon.commit(started("a", call("1", **where)))

    def printed(text: str, offset: int) -> Any:
        chunk = Chunk(stream="stdout", text=text, offset=offset)
        return event(ToolUpdate, call_id="1", name="Bash", partial=True, chunk=chunk, **where)

    with browser.stream("/board/live") as stream:
        sent(stream)
        first = "".join(f"line {number}\n" for number in range(9))
        daemon.commit(commit(printed(first, 0), printed(first + "\x1b[31m10 %\r20 %", 0), stream="a", base=1))
        output = stream.until("output")[-1].json

    assert output == {"call": "a 1", "text": "line 5\nline 6\nline 7\nline 8\n20 %"}


def test_wrong_query_is_an_error(browser: Browser) -> None:
    assert browser.get("/board?status=running").status == 400
    assert browser.get("/board/live?has=" + "x" * 100).status == 400
