"""The tabs of all recorded sessions: they are inert, and say what the events say, counted here in another way."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from tests.daemon.events import commit
from tests.daemon.search.searching import events_of_fixtures
from tests.daemon.web.browsing import Browser, browsed
from tests.daemon.web.page.reading import Element, read
from tooltap.normalizers.core.items import Produced
from tooltap.protocol.events import decode

FORMS = ("", "?fragment=1", "?fragment=wide")
Events = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Events]]:
    """A journal with all recordings; and the events of each session, in order."""
    bodies = events_of_fixtures()
    streams: defaultdict[str, list[Produced]] = defaultdict(list)
    sessions: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for body in bodies:
        event = decode(body)
        streams[event.stream].append(Produced.of(event))
    seq = 0
    with browsed(tmp_path_factory.mktemp("tabs")) as (daemon, browser):
        for stream, produced in streams.items():
            daemon.commit(commit(*produced, stream=stream, state="ended"))
            events = [orjson.loads(one.body) for one in produced]
            known_as = {one["alias"]: one["session"] for one in events if "alias" in one}
            for one in events:
                seq += 1
                sessions[known_as.get(one["session"], one["session"])].append({**one, "seq": seq})
        listed = {one["session"] for one in browser.get("/api/sessions?limit=1000").json["sessions"]}
        # In the others nothing was asked, said or done.
        yield browser, {name: events for name, events in sessions.items() if name in listed}


def tab(browser: Browser, session: str, name: str, form: str = "?fragment=1") -> Element:
    answer = browser.get(f"/sessions/{quote(session, safe='')}/{name}{form}")
    assert answer.status == 200, (session, name, form, answer.body)
    return read(answer.body)


@pytest.mark.parametrize("name", ["files", "usage", "plan", "details"])
def test_is_inert_and_well_formed(recorded: tuple[Browser, Events], name: str) -> None:
    browser, sessions = recorded
    for number, session in enumerate(sessions):
        page = tab(browser, session, name, FORMS[number % len(FORMS)])
        for element in page.one("div", class_="tab").every():
            assert element.tag not in ("iframe", "object", "embed", "form", "style"), (session, element.tag)
            for attribute, value in element.attributes.items():
                assert not attribute.startswith("on"), (session, attribute)
                assert attribute != "style", session
                if attribute in ("href", "src"):
                    assert value.startswith(("/", "#", "http://", "https://", "mailto:")), (session, value)
        assert "None" not in page.one("div", class_="tab").text.split(), session


def test_lists_the_files_that_the_request_has(recorded: tuple[Browser, Events]) -> None:
    browser, sessions = recorded
    changed = 0
    for session in sessions:
        stated = browser.get(f"/api/sessions/{quote(session, safe='')}/files").json["files"]
        part = tab(browser, session, "files").one("div", class_="tab")

        assert [one.attributes["data-path"] for one in part.all("details")] == [one["path"] for one in stated]
        assert part.attributes["data-count"] == str(len(stated))
        changed += len(stated)
    assert changed > 50


def test_hunks_link_to_calls_that_changed_the_file(recorded: tuple[Browser, Events]) -> None:
    browser, sessions = recorded
    linked = 0
    for session, events in sessions.items():
        calls = {one["seq"]: one for one in events if one["kind"] == "tool-call"}
        for file in tab(browser, session, "files", "").all("details", class_="changed"):
            name = file.attributes["data-path"].rpartition("/")[2]
            for link in file.all("a"):
                if "data-event" not in link.attributes:
                    continue
                call = calls[int(link.attributes["data-event"])]
                stated = orjson.dumps([call["input"], [one for one in events if one.get("callId") == call["callId"]]])
                assert orjson.dumps(name)[1:-1] in stated, (session, name)
                assert call["name"] in link.text
                linked += 1
    assert linked > 50


def test_tokens_and_turns_are_those_of_the_events(recorded: tuple[Browser, Events]) -> None:
    browser, sessions = recorded
    turns = 0
    for session, events in sessions.items():
        part = tab(browser, session, "usage", "?fragment=wide")
        started = [
            one["seq"]
            for one in events
            if one["kind"] == "turn" and one["state"] == "started" and "agent" not in one and not one.get("replay")
        ]
        numbered = [
            int(link.attributes["data-event"])
            for table in part.all("table", class_="turn-table")
            for link in table.all("a")
            if link.text != "before"
        ]
        assert numbered == started, session
        turns += len(started)
        has_usage = any(one["kind"] == "usage" and _tokens(one) for one in events if not one.get("replay"))
        assert ("has not reported tokens" in part.text) is not has_usage, session
    assert turns > 100


def _tokens(usage: dict[str, Any]) -> bool:
    parts = [usage, *usage.get("models", [])]
    return any(part.get(name) for part in parts for name in ("inputTokens", "outputTokens", "costUsd"))


def test_list_is_the_one_that_was_written_last(recorded: tuple[Browser, Events]) -> None:
    browser, sessions = recorded
    written = 0
    for session, events in sessions.items():
        last = _last_list(events)
        lists = tab(browser, session, "plan").all("p", class_="sum")
        if last is None:
            continue
        written += 1
        done = sum(status == "completed" for status in last)
        assert f"{done} of {len(last)} done" in [one.text for one in lists], session
    assert written > 15


def _last_list(events: list[dict[str, Any]]) -> list[str] | None:
    """The states in the main agent's list, from the last `TodoWrite` that succeeded."""
    given: dict[Any, Any] = {}
    found = None
    for one in events:
        if one.get("name") != "TodoWrite" or one.get("replay") or "agent" in one:
            continue
        key = one["stream"], one["callId"]
        if one["kind"] in ("tool-call", "tool-update") and "input" in one:
            given[key] = one["input"].get("todos")
        elif one["kind"] == "tool-result" and one["status"] == "completed":
            todos = one["output"].get("newTodos") or one["output"].get("todos") or given.get(key)
            if todos:
                found = [todo["status"] for todo in todos]
    return found
