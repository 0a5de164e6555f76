"""Two sessions that had one id until theirs were known: all of each is shown, and nothing of the other."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import pytest

from tests.daemon.events import call, commit, event, message
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser
from tooltap.protocol.events import Message, SessionEvent, ToolResult, Turn

NAMES = ("first", "second")
EARLIER = "s"


@pytest.fixture(scope="module")
def two(common: tuple[Running, Browser]) -> Browser:
    daemon, browser = common
    for base, name in enumerate(NAMES):
        early: dict[str, Any] = {"line": base + 1, "session": EARLIER}
        late: dict[str, Any] = {"line": base + 1, "session": name, "index": 9}
        written = {"file_path": f"/w/{name}.py", "content": "x = 1\n"}
        outcome: dict[str, Any] = {"output": {"type": "create"}, "status": "completed", "is_error": False}
        daemon.commit(
            commit(
                event(Turn, state="started", turn=name, index=0, **early),
                event(Message, role="user", text=f"asked the {name}", index=1, **early),
                call(name, name="Write", input=written, index=2, **early),
                event(ToolResult, call_id=name, name="Write", index=3, **outcome, **early),
                event(SessionEvent, state="updated", alias=EARLIER, cwd="/w", **late),
                message(f"said by the {name}", **{**late, "index": 10}),
                base=base,
            )
        )
    return browser


def other(name: str) -> str:
    return NAMES[1 - NAMES.index(name)]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("tab", "found"),
    [
        ("", "{}.py"),
        ("?before=100", "{}.py"),
        ("?after=0", "{}.py"),
        ("?text=.py", "{}.py"),
        ("/map", "asked the {}"),
        ("/files", "{}.py"),
    ],
)
def test_all_of_a_session_is_shown_and_nothing_of_another(two: Browser, name: str, tab: str, found: str) -> None:
    path = f"/map?session={name}" if tab == "/map" else f"/sessions/{name}{tab}"
    answer = two.get(path)

    assert answer.status == 200
    text = answer.body.decode()
    assert found.format(name) in text
    assert found.format(other(name)) not in text


@pytest.mark.parametrize("place", ["", "?before=100", "/files", "/usage", "/share", "/export.md"])
def test_an_earlier_id_leads_to_the_session(daemon: Running, browser: Browser, place: str) -> None:
    known = event(SessionEvent, line=2, state="updated", alias="before", cwd="/w", title="Its title", session="after")
    daemon.commit(commit(message("asked early", session="before"), known))

    answer = browser.get(f"/sessions/before{place}")
    if answer.status == 303:
        assert answer.headers["location"] == f"/sessions/after{place}"
        answer = browser.get(answer.headers["location"])
    assert answer.status == 200
    assert "Its title" in answer.body.decode()


def test_several_sessions_are_shown_with_all_their_events(two: Browser) -> None:
    text = two.get(f"/events?{urlencode([('session', name) for name in NAMES])}").body.decode()

    assert all(f"{name}.py" in text and f"said by the {name}" in text for name in NAMES)


def test_compared_sessions_have_their_first_turns_and_files(two: Browser) -> None:
    text = two.get("/compare?left=first&right=second").body.decode()

    assert all(f"asked the {name}" in text and f"{name}.py" in text for name in NAMES)


def test_event_before_the_one_with_the_id_is_the_session_s_own(two: Browser) -> None:
    page = two.get("/events/11").body.decode()

    assert 'href="/events/10"' in page


def test_files_of_a_session_are_those_from_before_its_id_was_known(
    common: tuple[Running, Browser], two: Browser
) -> None:
    with common[0].connect() as wire:
        found = {name: [one["path"] for one in wire.ask("files", session=name)["files"]] for name in NAMES}

    assert found == {name: [f"{name}.py"] for name in NAMES}
