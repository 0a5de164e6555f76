"""A session as AG-UI events over HTTP: late and returning clients, cursors, and what AG-UI's client reads of it."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.export.test_ag_ui_live import check_order, customs, kinds, partial, texts, turn
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, Message, Stream, browsed
from tooltap.protocol.events import PermissionRequest, PermissionResponse, SessionEvent

HERE = "/api/ag-ui/session-1"


def until(stream: Stream, kind: str) -> list[Message]:
    """Return the messages up to the next AG-UI event of this type."""
    found = stream.take(1)
    while found[-1].json["type"] != kind:
        found += stream.take(1)
    return found


def values(messages: list[Message]) -> list[dict[str, Any]]:
    return [one.json for one in messages]


def a_turn() -> list[Any]:
    return [turn("started"), message("Running it."), call("c"), result("c"), turn("completed")]


def test_late_client_gets_the_session_from_its_beginning(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(*a_turn()))
    with browser.stream(HERE) as stream:
        found = until(stream, "RUN_FINISHED")

    assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
    check_order(values(found))
    assert texts(values(found)) == ["Running it."]
    assert [one.id for one in found if one.id] == ["1", "2", "3", "4", "5"]
    assert {one.event for one in found} == {"message"}


def test_text_comes_while_it_is_written(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(turn("started")))
    with browser.stream(HERE) as stream:
        begun = until(stream, "RUN_STARTED")
        until_live(daemon)
        daemon.commit(commit(partial("Hel"), base=1))
        begun += until(stream, "TEXT_MESSAGE_CONTENT")
        daemon.commit(commit(message("Hello."), turn("completed"), base=2))
        ended = until(stream, "RUN_FINISHED")

    check_order(values(begun + ended))
    assert [one.json["delta"] for one in begun + ended if "delta" in one.json] == ["Hel", "lo."]
    assert [one.id for one in begun] == ["1", None, None]


def until_live(daemon: Running) -> None:
    while any(one["behind"] for one in daemon.stats()["subscribers"]):
        pass


def test_text_is_whole_if_the_client_wants_no_partials(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(turn("started")))
    with browser.stream(f"{HERE}?partials=false") as stream:
        until(stream, "RUN_STARTED")
        until_live(daemon)
        daemon.commit(commit(partial("Hel"), message("Hello."), base=1))
        found = until(stream, "TEXT_MESSAGE_END")

    assert [one.json["delta"] for one in found if "delta" in one.json] == ["Hello."]


def test_client_that_returns_gets_what_it_missed_in_the_run_that_goes_on(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(*a_turn()))
    with browser.stream(HERE, {"Last-Event-ID": "2"}) as stream:
        found = values(until(stream, "RUN_FINISHED"))

    check_order(found)
    assert kinds(found) == [
        *("RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT", "RUN_FINISHED")
    ]


def test_client_may_begin_now(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(*a_turn()))
    with browser.stream(f"{HERE}?after=now") as stream:
        until_live(daemon)
        daemon.commit(commit(turn("started", turn="u"), message("Again."), base=1))
        found = values(until(stream, "TEXT_MESSAGE_END"))

    assert (kinds(found)[0], texts(found)) == ("RUN_STARTED", ["Again."])


def test_missing_events_are_an_event(daemon: Running, browser: Browser) -> None:
    old = [message(f"old{n}", "o", session="gone") for n in range(3)]
    daemon.commit(commit(*old, stream="o", state="ended", updated=1))
    daemon.commit(commit(message("a")))
    daemon.expire(2)
    with browser.stream(HERE, {"Last-Event-ID": "1"}) as stream:
        found = values(until(stream, "TEXT_MESSAGE_END"))

    assert customs(found, "gap") == ["Events between 2 and 3 were not kept."]


def test_question_is_an_interrupt_and_its_answer_the_next_run(daemon: Running, browser: Browser) -> None:
    asked = event(PermissionRequest, permission_id="p", type="permission", call_id="c", title="Run ls?")
    daemon.commit(commit(turn("started"), call("c"), asked))
    with browser.stream(HERE) as stream:
        first = values(until(stream, "RUN_FINISHED"))
        answered = event(PermissionResponse, permission_id="p", outcome="allowed")
        daemon.commit(commit(answered, result("c"), turn("completed"), base=1))
        second = values(until(stream, "RUN_FINISHED"))

    check_order(first + second)
    [interrupt] = first[-1]["outcome"]["interrupts"]
    assert (interrupt["id"], interrupt["message"]) == ("p", "Run ls?")
    assert second[0]["parentRunId"] == first[0]["runId"]
    assert second[-1]["outcome"] == {"type": "success"}


def test_whatever_is_no_event_has_no_data(daemon: Running, browser: Browser) -> None:
    """AG-UI's client reads all data as events. A cursor without events is an `id` alone."""
    daemon.commit(commit(message("a"), message("b", session="other")))
    head = f"GET {HERE} HTTP/1.1\r\nHost: {browser.host}\r\nAuthorization: Bearer {browser.token}\r\n\r\n"
    with browser.connect() as connection:
        connection.sendall(head.encode())
        got = b""
        while b"id: 2\n\n" not in got:
            got += connection.recv(65_536)

    data = [line for line in got.splitlines() if line.startswith(b"data:")]
    assert data != []
    assert all(line.startswith(b'data: {"type":"') for line in data)


def test_heartbeat_is_a_comment(tmp_path: Any) -> None:
    with browsed(tmp_path, {"heartbeat": 0.05}) as (daemon, browser):
        daemon.commit(commit(message("a")))
        head = f"GET {HERE} HTTP/1.1\r\nHost: {browser.host}\r\nAuthorization: Bearer {browser.token}\r\n\r\n"
        with browser.connect() as connection:
            connection.sendall(head.encode())
            got = b""
            while b"\n: heartbeat\n\n" not in got:
                got += connection.recv(65_536)


def test_unknown_session_is_not_found(browser: Browser) -> None:
    assert browser.get("/api/ag-ui/nobody").error == (404, "not-found", "there is no session 'nobody'")


@pytest.mark.parametrize("name", ["present", "earlier"])
def test_session_is_found_by_each_id_that_it_has_had(daemon: Running, browser: Browser, name: str) -> None:
    known = event(SessionEvent, line=2, state="updated", alias="earlier", session="present")
    daemon.commit(commit(turn("started", session="earlier"), message("Early.", session="earlier"), known))
    daemon.commit(commit(message("Late.", line=3, session="present"), turn("completed", session="present"), base=1))
    with browser.stream(f"/api/ag-ui/{name}") as stream:
        found = values(until(stream, "RUN_FINISHED"))

    check_order(found)
    assert texts(found) == ["Early.", "Late."]


def test_session_may_have_any_name(daemon: Running, browser: Browser) -> None:
    name = "a/b ü\n"
    daemon.commit(commit(message("Here.", session=name)))
    with browser.stream(f"/api/ag-ui/{quote(name, safe='')}") as stream:
        assert texts(values(until(stream, "TEXT_MESSAGE_END"))) == ["Here."]
