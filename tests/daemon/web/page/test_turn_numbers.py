"""Turns have one number and one name everywhere: the first line of the prompt. What is said between two turns, such as
a command of the client's own, belongs to none."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.command import here
from tests.daemon.events import call, commit, event, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import shown
from tooltap.protocol.events import Message, SessionEvent, ToolResult, Turn

TURNS = ["1: fix the login bug", "2: now write a test"]


@pytest.fixture
def session(daemon: Running) -> str:
    for name in ("session-1", "session-2"):
        daemon.commit(commit(*events(stream=name, session=name), stream=name))
    return "/sessions/session-1"


def events(**where: Any) -> list[Any]:
    def said(text: str, **fields: Any) -> Any:
        return event(Message, role="user", text=text, **where, **fields)

    def turn(state: str, **fields: Any) -> Any:
        return event(Turn, state=state, **where, **fields)

    return [
        event(SessionEvent, state="started", title="A session", **where),
        said("old prompt", replay=True),
        turn("started", replay=True),
        said("/exit"),
        turn("started"),
        said("fix the login bug"),
        message("I fix it.", **where),
        call("1", **where),
        said("and be quick"),
        message("Fixed.", **where),
        turn("completed"),
        said("! git status"),
        turn("started", agent="a subagent"),
        turn("started"),
        said("now write a test"),
        message("Written.", **where),
        turn("completed"),
        said("/cost"),
    ]


def test_outline(session: str, browser: Browser) -> None:
    entries = [
        one for one in shown(browser, session).one("ol", class_="turns").all("a") if "data-turn" in one.attributes
    ]
    assert [f"{one.attributes['data-turn']}: {one.one('span', class_='prompt').text}" for one in entries] == TURNS


def test_share(session: str, browser: Browser) -> None:
    page = shown(browser, f"{session}/share")
    chosen, _ = page.all("select")[:2]
    assert [one.text for one in chosen.all("option")][1:] == TURNS
    assert "2 turns" in page.text


def test_exported_markdown(session: str, browser: Browser) -> None:
    lines = browser.get(f"{session}/export.md").body.decode().splitlines()
    assert [line for line in lines if line.startswith("## ")] == ["## fix the login bug", "## now write a test"]


@pytest.mark.parametrize("tab", ["usage", "files", "plan"])
def test_tabs(daemon: Running, browser: Browser, tab: str) -> None:
    edit = {"file_path": "/w/a.py", "old_string": "a\n", "new_string": "b\n"}
    todos = {"todos": [{"content": "one", "status": "pending"}]}
    ended: dict[str, Any] = {"output": {}, "status": "completed", "is_error": False}
    done = [
        *(event(Turn, line=1, state="started"), event(Message, line=2, role="user", text="tidy up,\nplease")),
        *(call("1", line=3, name="Edit", input=edit), event(ToolResult, line=4, call_id="1", name="Edit", **ended)),
        *(
            call("2", line=5, name="TodoWrite", input=todos),
            event(ToolResult, line=6, call_id="2", name="TodoWrite", **ended),
        ),
    ]
    daemon.commit(commit(*done, lines=6))

    page = shown(browser, f"/sessions/session-1/{tab}")

    assert [one.text for one in page.all("span", class_="turn-name")] == ["tidy up,"]


def test_terminal(session: str, daemon: Running) -> None:
    lines = here("show", "session-1", "--socket", daemon.path).stdout.splitlines()
    ends = [line.decode() for line in lines if line.startswith("──".encode())]
    assert [line.split(" · ")[0] for line in ends] == ["── fix the login bug", "── now write a test"]


def test_compared(session: str, browser: Browser) -> None:
    page = shown(browser, "/compare?left=session-1&right=session-2")
    labels = [one.attributes["aria-label"] for one in page.all("section", class_="pair")]
    assert labels == [f"Turn {number} of the first, turn {number} of the second" for number in (1, 2)]
    prompts = [one.text for one in page.all("div", class_="prompt")]
    assert prompts == ["fix the login bug", "now write a test"]


def test_row(session: str, daemon: Running) -> None:
    rows = [json.loads(line) for line in here("sessions", "--json", "--socket", daemon.path).stdout.splitlines()]
    assert [row["turns"] for row in rows] == [2, 2]
