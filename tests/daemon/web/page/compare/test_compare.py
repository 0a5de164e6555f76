"""The page that compares two sessions."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import Element, read, shown
from tests.same_task import SHELL_FAILS
from tooltap.daemon.journal.interface import Commit
from tooltap.daemon.web.page import compare as turns
from tooltap.protocol.events import Message, SessionEvent, Turn, Usage

ACTED = ("tool_use", "function_call")
"""Types of what a model asks for, in the files of Claude Code and Codex."""


def session(name: str, *events: Any, **fields: Any) -> Commit:
    where: dict[str, Any] = {"stream": name, "session": name}
    return commit(event(SessionEvent, state="started", **where, **fields), *events, stream=name)


def turn(name: str, prompt: str, *events: Any, answer: str = "", state: str = "completed", took: int = 1_000) -> Any:
    where: dict[str, Any] = {"stream": name, "session": name}
    said = [message(answer, **where)] if answer else []
    asked = event(Message, role="user", text=prompt, **where)
    end = event(Turn, state=state, duration_ms=took, **where)
    return [event(Turn, state="started", **where), asked, *events, *said, end]


def compared(browser: Browser, left: str, right: str) -> Element:
    return shown(browser, f"/compare?{urlencode({'left': left, 'right': right})}")


def figures(page: Element) -> dict[str, list[str]]:
    rows = page.one("table", class_="deltas").one("tbody").all("tr")
    return {row.one("th").text: [cell.text for cell in row.all("td")] for row in rows}


def judged(page: Element) -> list[tuple[str, str]]:
    return [(one.attributes["class"], one.text) for one in page.all("td") if "class" in one.attributes]


def halves(page: Element) -> list[list[Element]]:
    return [pair.all("div", class_="half") for pair in page.all("section", class_="pair")]


def test_two_recorded_sessions_of_one_task(daemon: Running, browser: Browser) -> None:
    """As Claude Code and Codex have stored them; what must come of it is counted in their lines."""
    names, calls = [], []
    for name in ("claude-files", "codex-files"):
        lines = SHELL_FAILS[name].path.read_bytes()
        with daemon.connect() as wire:
            wire.send("ingest", stream=name, dialect="auto", framing="raw")
            wire.until("ingesting")
            wire.write(lines)
            wire.finish()
            wire.until("done")
        types = [one for line in lines.splitlines() for one in _types(json.loads(line))]
        calls.append(sum(types.count(kind) for kind in ACTED))
    rows = {one["provider"]: one["session"] for one in browser.get("/api/sessions").json["sessions"]}
    names = [rows["claude"], rows["codex"]]

    page = compared(browser, *names)

    assert calls == [1, 1]
    assert figures(page)["Calls"] == ["1", "1", "0"]
    assert figures(page)["Errors"] == ["1", "1", "0"]
    [[left, right]] = halves(page)
    assert page.one("div", class_="prompt").text.strip().endswith("Run the failing command.")
    for half in (left, right):
        assert "1 call · 1 error" in half.one("p", class_="did").text
        assert [one.text for one in half.all("li")] == ["shell 1"]
        assert "The command failed with exit code 3." in half.one("div", class_="answer").text
    assert "neither session changed a file" in page.text


def _types(value: Any) -> list[str]:
    """Every value of a key `type`, at any depth."""
    if isinstance(value, dict):
        own = [value["type"]] if isinstance(value.get("type"), str) else []
        return own + [one for inner in value.values() for one in _types(inner)]
    return [one for inner in value for one in _types(inner)] if isinstance(value, list) else []


def test_turns_beside_each_other_and_alone(daemon: Running, browser: Browser) -> None:
    where: dict[str, Any] = {"stream": "b", "session": "b"}
    failed = [call("1", **where), result("1", status="failed", is_error=True, **where)]
    daemon.commit(
        session(
            "a", *turn("a", "Fix the login form", answer="Fixed."), *turn("a", "Run all tests", answer="They pass.")
        ),
        session(
            "b", *turn("b", "Fix the login form", *failed, answer="**Done.**", took=65_000), *turn("b", "Write docs")
        ),
    )

    page = compared(browser, "a", "b")
    pairs = halves(page)

    assert len(pairs) == 3
    assert [one.one("div", class_="answer").text.strip() for one in pairs[0]] == ["Fixed.", "Done."]
    assert [one.one("p", class_="did").text for one in pairs[0]] == [
        "Turn 1 · 1.0 s · 0 calls",
        "Turn 1 · 1 m 5 s · 1 call · 1 error",
    ]
    alone = [
        [one.all("p", class_="note")[-1].text if one.all("p", class_="note") else "" for one in pair]
        for pair in pairs[1:]
    ]
    assert alone == [["", "No turn like this."], ["No turn like this.", "No answer."]]
    link = pairs[0][1].one("p", class_="did").one("a").attributes["href"]
    seq = int(link.rpartition("#e")[2])
    assert link == f"/sessions/b?at={seq}#e{seq}"
    assert browser.get(f"/api/events/{seq}").json["event"]["kind"] == "turn"


def test_lower_bounds_are_rounded_down_and_have_no_difference(daemon: Running, browser: Browser) -> None:
    where: dict[str, Any] = {"stream": "b", "session": "b", "model": "claude-opus-4-5"}
    used = event(Usage, scope="session", input_tokens=3_000, cost_usd=0.5, stream="a", session="a")
    more = event(Usage, scope="step", input_tokens=1_780, output_tokens=100, estimated_output_tokens=900, **where)
    daemon.commit(session("a", *turn("a", "Go"), used), session("b", *turn("b", "Go"), more))

    found = figures(compared(browser, "a", "b"))

    assert found["Cost"] == ["$0.50", "≥ $0.01", "–"]  # 1,780 for $5 and 100 for $25 a million: $0.0114
    assert found["Tokens"] == ["3.0 k", "≥ 1.8 k", "–"]


def test_differences_have_signs_and_only_errors_a_judgement(daemon: Running, browser: Browser) -> None:
    where: dict[str, Any] = {"stream": "b", "session": "b"}
    used = event(Usage, scope="session", input_tokens=3_000, cost_usd=0.5, stream="a", session="a")
    more = event(Usage, scope="session", input_tokens=5_000, cost_usd=0.25, **where)
    failed = [call("1", **where), result("1", status="failed", is_error=True, **where)]
    daemon.commit(
        session("a", *turn("a", "Go", took=90_000), used),
        session("b", *turn("b", "Go", *failed, took=60_000), more),
    )

    there, back = compared(browser, "a", "b"), compared(browser, "b", "a")

    assert figures(there)["Time"] == ["1 m 30 s", "1 min", "−30 s"]
    assert figures(there)["Cost"] == ["$0.50", "$0.25", "−$0.25"]
    assert figures(there)["Tokens"] == ["3.0 k", "5.0 k", "+2.0 k"]
    assert figures(there)["Errors"] == ["0", "1", "+1"]
    judged = [
        [(one.attributes["class"], one.text) for one in page.all("td") if "class" in one.attributes]
        for page in (there, back)
    ]
    assert judged == [[("worse", "+1")], [("better", "−1")]]


def test_form_without_sessions_and_list_for_one(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        session("a", *turn("a", "Go"), title="Mine", cwd="/src/one"),
        session("b", *turn("b", "Go"), title="Other project", cwd="/src/two"),
        session("c", *turn("c", "Go"), title="<b>Same</b> project", cwd="/src/one"),
    )

    page = shown(browser, "/compare?left=a")
    form, chosen = (one.one("form", class_="choose") for one in (shown(browser, "/compare"), page))

    assert [one.attributes["name"] for one in form.all("select")] == ["left", "right"]
    assert len(form.all("select")[0].all("option")) == 4
    groups = [one.attributes["label"] for one in chosen.all("select")[0].all("optgroup")]
    assert groups == ["In one", "Other sessions"]
    assert [one.attributes["value"] for one in chosen.all("option") if "selected" in one.attributes] == ["a"]
    links = [one.one("a") for one in page.one("main").all("li") if one.all("a")]
    assert [(one.text, one.attributes["href"]) for one in links] == [
        ("<b>Same</b> project", "/compare?left=a&right=c"),
        ("Other project", "/compare?left=a&right=b"),
    ]


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("left=a&right=none", 404, "There is no session none."),
        ("left=a&right=a", 200, "Both sides are the same session."),
    ],
)
def test_what_cannot_be_compared_is_said(
    daemon: Running, browser: Browser, query: str, status: int, words: str
) -> None:
    daemon.commit(session("a"))

    answer = browser.get(f"/compare?{query}")

    assert answer.status == status
    page = read(answer.body)
    assert words in page.one("p", role="alert").text
    assert len(page.one("form", class_="choose").all("select")) == 2


def test_long_session_is_cut_and_says_so(daemon: Running, browser: Browser) -> None:
    long = [one for number in range(turns.MOST_TURNS + 2) for one in turn("a", f"Prompt number {number}")]
    daemon.commit(session("a", *long), session("b", *turn("b", "Prompt number 0")))

    page = compared(browser, "a", "b")

    assert len(halves(page)) == turns.MOST_TURNS
    assert "Only the first turns" in page.one("p", class_="limit").text


def test_bytes_that_are_read_are_bounded(daemon: Running, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "MOST_BYTES", 2_000)
    words = "word " * 200
    daemon.commit(session("a", *(one for number in range(9) for one in turn("a", f"{number} {words}"))), session("b"))

    page = compared(browser, "a", "b")

    assert len(halves(page)) < 9
    assert "Only the first turns" in page.one("p", class_="limit").text


def test_session_has_a_link_to_compare_it(daemon: Running, browser: Browser) -> None:
    daemon.commit(session("a&b"))

    head = shown(browser, "/events?session=a%26b").one("div", id="head")

    assert "/compare?left=a%26b" in [one.attributes["href"] for one in head.all("a")]
