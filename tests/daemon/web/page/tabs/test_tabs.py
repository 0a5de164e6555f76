"""The endpoints of the tabs over HTTP."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import read, shown
from tooltap.protocol.events import SessionEvent, ToolResult, Turn, Usage

HOSTILE = "\"><script>alert(1)</script>' \x1b]0;x\x07\u202egnp.exe"
NAMES = ("files", "usage", "plan", "details")


@pytest.mark.parametrize("name", NAMES)
def test_session_without_content_says_so_in_a_sentence(daemon: Running, browser: Browser, name: str) -> None:
    daemon.commit(commit(message("x")))

    page = shown(browser, f"/sessions/session-1/{name}")

    sentences = [one.text for one in page.all("p", class_="none")]
    assert sentences
    assert all(one.endswith(".") for one in sentences)


@pytest.mark.parametrize("name", NAMES)
def test_part_is_the_same_without_the_page(daemon: Running, browser: Browser, name: str) -> None:
    daemon.commit(commit(message("x")))

    part = read(browser.get(f"/sessions/session-1/{name}?fragment=wide").body)

    assert part.all("html") == []
    assert (
        part.one("div", class_="tab").text
        == shown(browser, f"/sessions/session-1/{name}").one("main").one("div", class_="tab").text
    )


def test_unchanged_part_is_not_sent_again(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("x")))
    address = "/sessions/session-1/details?fragment=1"
    version = read(browser.get(address).body).one("div", class_="tab").attributes["data-version"]

    assert browser.get(f"{address}&known={version}").status == 204
    daemon.commit(commit(message("y", line=2), base=1))
    assert browser.get(f"{address}&known={version}").status == 200


def test_unknown_session_is_a_page(browser: Browser) -> None:
    answer = browser.get("/sessions/nobody/files")

    assert answer.status == 404
    assert "there is no session" in read(answer.body).one("main").text


@pytest.mark.parametrize("query", ["fragment=2", "open=&tab=x", "known=" + "x" * 101])
def test_mistakes_are_refused(daemon: Running, browser: Browser, query: str) -> None:
    daemon.commit(commit(message("x")))

    assert browser.get(f"/sessions/session-1/files?{query}").status == 400


@pytest.mark.parametrize("session", ["a/files", "a/b", "..", "ä ö%2F", HOSTILE])
def test_any_session_has_its_own_addresses(daemon: Running, browser: Browser, session: str) -> None:
    daemon.commit(commit(message("other", session="a")), commit(message("x", "t", session=session), stream="t"))
    name = quote(session, safe="")

    details = shown(browser, f"/sessions/{name}/details")
    links = {one.attributes["href"] for one in details.one("nav", class_="tabs").all("a")}

    assert links == {f"/sessions/{name}/{tab}" for tab in NAMES}
    assert details.one("main").attributes["data-tab"] == f"/sessions/{name}/details"
    assert shown(browser, f"/sessions/{name}").one("aside").one("a", id="tab-plan").attributes["href"] in links


def test_tab_has_the_number_of_files(daemon: Running, browser: Browser) -> None:
    given = {"_raw": {}, "file_path": "a.py", "content": "x\n"}
    done = event(ToolResult, call_id="1", name="Write", output={"type": "create"}, status="completed", is_error=False)
    daemon.commit(commit(event(Turn, state="started"), call("1", name="Write", input=given), done))

    tab = shown(browser, "/sessions/session-1/plan").one("nav", class_="tabs").all("a")[0]
    beside = shown(browser, "/sessions/session-1").one("a", id="tab-files")

    assert tab.text.split() == beside.text.split() == ["Files", "1"]


def test_what_agents_say_is_inert(daemon: Running, browser: Browser) -> None:
    announced = event(
        SessionEvent,
        state="started",
        title=HOSTILE,
        mode=HOSTILE,
        cwd=HOSTILE,
        model=HOSTILE,
        tools=[HOSTILE],
        mcp_servers=[{"name": HOSTILE, "status": HOSTILE}],
    )
    todos = {"_raw": {}, "todos": [{"content": HOSTILE, "status": HOSTILE}]}
    file = {"_raw": {}, "file_path": f"{HOSTILE}/{HOSTILE}", "content": HOSTILE}
    plan = {"_raw": {}, "plan": f"<img src=x onerror=alert(1)> {HOSTILE}"}
    calls = [
        call("1", name="TodoWrite", input=todos),
        event(ToolResult, call_id="1", name="TodoWrite", output={}, status="completed", is_error=False),
        call("2", name="Write", input=file),
        event(ToolResult, call_id="2", name="Write", output={"type": "create"}, status="completed", is_error=False),
        call("3", name="ExitPlanMode", input=plan),
    ]
    daemon.commit(commit(announced, *calls))

    for name in NAMES:
        for form in ("", "?fragment=1"):
            page = shown(browser, f"/sessions/session-1/{name}{form}")
            assert len(page.all("script")) == (0 if form else 2)
            assert page.all("img") == []
            assert any("alert(1)" in one.text for one in page.all("div", class_="tab")) is (name != "usage")
            assert not {"\x1b", "\x07"} & set(page.text)
            assert all("\u202e" not in one.text for one in page.all("main"))


def test_details_are_what_the_session_and_its_streams_say(daemon: Running, browser: Browser) -> None:
    announced = event(
        SessionEvent,
        state="started",
        agent_version="2.1",
        model="fast-1",
        cwd="/src/greeter",
        branch="main",
        mode="acceptEdits",
        tools=["Read", "Bash"],
        mcp_servers=[{"name": "notes", "status": "connected"}],
    )
    daemon.commit(commit(announced, call("1"), result("1", status="failed", is_error=True), lines=3))

    page = shown(browser, "/sessions/session-1/details")
    facts = {one.one("dt").text: one.one("dd").text for one in page.all("div") if one.all("dt") and not one.all("dl")}

    assert facts["Agent"] == "Gemini CLI 2.1"
    assert facts["Model"] == "fast-1"
    assert facts["Folder"] == "/src/greeter"
    assert facts["Branch"] == "main"
    assert facts["Permissions"] == "acceptEdits"
    assert facts["Calls"].startswith("1")
    assert facts["Errors"] == "1"
    assert [one.text for one in page.one("ul", class_="paths").all("li")] == ["Read", "Bash"]
    assert page.one("ul", class_="servers").text.split() == ["notes", "connected"]
    assert "tooltap show session-1" in [one.text for one in page.all("code")]


def test_table_of_turns_has_short_marks_of_lower_bounds(daemon: Running, browser: Browser) -> None:
    tokens: dict[str, Any] = {"input_tokens": 1_000, "output_tokens": 3, "estimated_output_tokens": 675}
    daemon.commit(
        commit(
            event(Turn, line=1, turn="t", state="started"),
            event(Usage, line=2, turn="t", scope="step", model="claude-opus-4-5", **tokens),
            lines=2,
        )
    )

    table = shown(browser, "/sessions/session-1/usage").one("table", class_="turn-table")

    *_, output, cost, _ = table.all("td")
    assert (output.text, cost.text) == ("≥ 3", "≥ $0.0050")  # 1,000 for $5 and 3 for $25 a million: $0.005075


def test_files_have_the_lines_in_the_end_and_those_of_all_changes(daemon: Running, browser: Browser) -> None:
    events = []
    for number, (old, new) in enumerate([("a\n", "b\n"), ("b\n", "c\n")]):
        edit = {"file_path": "/w/a.py", "old_string": old, "new_string": new}
        done: dict[str, Any] = {"output": {}, "status": "completed", "is_error": False}
        events.append(call(str(number), line=2 * number + 1, name="Edit", input=edit))
        events.append(event(ToolResult, line=2 * number + 2, call_id=str(number), name="Edit", **done))
    daemon.commit(commit(*events[:2], lines=2))
    once = shown(browser, "/sessions/session-1/files").one("p", class_="sum").text
    daemon.commit(commit(*events[2:], lines=4, base=2))
    twice = shown(browser, "/sessions/session-1/files").one("p", class_="sum").text

    assert once.split() == ["1", "file", "+1", "−1"]
    assert twice.split() == ["1", "file", "+1", "−1", "in", "the", "end;", "all", "changes", "together", "+2", "−2"]
    head = shown(browser, "/sessions/session-1").one("div", id="head")
    assert [head.one("span", class_=name).text for name in ("added", "removed")] == ["+2", "−2"]
