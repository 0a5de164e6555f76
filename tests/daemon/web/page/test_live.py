"""Live cards: cards as HTML, partials, and where a reader resumes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, Message, Stream, browsed
from tests.daemon.web.page.reading import prefer, read, shown
from tooltap.protocol.events import Chunk, PermissionRequest, PermissionResponse, Reasoning, ToolUpdate, Turn

BESIDE = ("sessions", "waits")
"""Messages that come at any time."""


def cards(stream: Stream, count: int) -> list[Message]:
    found: list[Message] = []
    while len(found) < count:
        found.append(stream.until("card")[-1])
    return found


def opened(browser: Browser, **query: str) -> Stream:
    """Open the stream of live cards, from now on by default."""
    stream = browser.stream(f"/live?{urlencode(query)}")
    assert stream.response.status == 200
    return stream


def joined(browser: Browser, **query: str) -> Stream:
    """Return once the reader has all events."""
    stream = opened(browser, **query)
    stream.until("live")
    return stream


def names_and_ids(stream: Stream, until: str) -> list[tuple[str, str | None]]:
    """Return names and ids of messages, without what comes at any time."""
    return [(one.event, one.id) for one in stream.until(until) if one.event not in BESIDE]


def test_card_has_seq_as_id(daemon: Running, browser: Browser) -> None:
    with joined(browser) as stream:
        daemon.commit(commit(call("1"), message("two\nlines"), result("1")))
        found = cards(stream, 3)

    articles = [read(one.data).inside[0] for one in found]
    assert [one.id for one in found] == ["1", "2", "3"]
    assert [one.attributes["id"] for one in articles] == ["e1", "e2", "e3"]
    assert articles[0].attributes["data-call"] == articles[2].attributes["data-into"] == "s 1"
    assert articles[2].attributes["data-for"] == "output"


def test_live_card_equals_card_of_page(daemon: Running, browser: Browser) -> None:
    with joined(browser) as stream:
        daemon.commit(commit(call("1"), message("# Title\n\n```py\nx = 1\n```\n\u2028\x85end")))
        found = [one.data.strip() for one in cards(stream, 2)]

    page = browser.get("/events").body.decode()
    assert all(one in page for one in found)


def test_reader_resumes_after_last_event(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(*(message(str(n)) for n in range(5))))

    with opened(browser, after="3") as stream:
        assert names_and_ids(stream, "live") == [("card", "4"), ("card", "5"), ("live", "5")]
    with browser.stream("/live?after=1", {"Last-Event-ID": "4"}) as stream:
        assert names_and_ids(stream, "live") == [("card", "5"), ("live", "5")]


def test_invisible_event_is_not_sent(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("again", replay=True), event(ToolUpdate, call_id="1", name="Bash", status="running")))

    with opened(browser, after="start") as stream:
        assert names_and_ids(stream, "live") == [("live", "2")]


def test_live_cards_are_filtered(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(message("a needle"), call("1"), result("1", status="failed", is_error=True)),
        commit(message("needle", "t", session="session-2"), stream="t"),
    )

    def found(**query: str) -> list[str | None]:
        with opened(browser, after="start", **query) as stream:
            return [one.id for one in stream.until("live") if one.event == "card"]

    assert found(session="session-2") == ["4"]
    assert found(kind="tool-call") == ["2"]
    assert found(state="failed") == ["3"]
    assert found(state="running") == ["2"]
    assert found(text="NEEDLE") == ["1", "4"]
    assert found(text="needle", state="failed") == []


@pytest.mark.parametrize(
    "query",
    [{"kind": "tool-call"}, {"kind": "tool-call", "session": "session-1"}, {"tool": "sh"}, {"text": "needle"}],
    ids=str,
)
def test_state_of_call_is_sent_whatever_the_filter_hides(
    daemon: Running, browser: Browser, query: dict[str, str]
) -> None:
    about: dict[str, Any] = {"call_id": "1", "permission_id": "p"}
    with joined(browser, **query) as stream:
        daemon.commit(
            commit(
                call("1", title="needle"),
                event(PermissionRequest, type="permission", **about),
                event(PermissionResponse, outcome="allowed", **about),
                result("1", async_=True),
                result("1", status="failed", is_error=True, final=True),
                call("2", title="needle"),
            )
        )
        found = [one for one in stream.until("card") + stream.until("card") if one.event not in BESIDE]

    states = [one.data for one in found if one.event == "state"]
    assert [(one.event, one.id) for one in found if one.event == "card"] == [("card", "1"), ("card", "6")]
    patches = [read(one).inside[0] for one in states]
    assert [one.attributes["data-at"] for one in patches] == ["e1"] * 3
    assert [one.one("article").attributes["data-status"] for one in patches] == [
        *("awaiting-permission", "running", "failed")
    ]


def test_card_says_what_becomes_of_its_call(daemon: Running, browser: Browser) -> None:
    with joined(browser) as stream:
        daemon.commit(commit(call("1"), result("1", status="failed", is_error=True)))
        made, ended = cards(stream, 2)

    assert len(read(made.data).inside) == 1
    alone, patch = read(ended.data).inside
    assert (alone.attributes["id"], patch.attributes["data-patch"], patch.attributes["data-at"]) == (
        *("e2", "replace", "e1"),
    )
    assert [one.attributes["id"] for one in patch.all("article")] == ["e1", "e2"]
    assert patch.one("article", id="e1").attributes["data-status"] == "failed"


def settled() -> list[Any]:
    return [
        event(Turn, state="started", turn="t1"),
        message("Done.", turn="t1"),
        event(Turn, state="completed", turn="t1", provisional=True),
    ]


@pytest.mark.parametrize("query", [{}, {"kind": "turn"}, {"session": "session-1", "kind": "turn"}], ids=str)
def test_turn_that_goes_on_is_not_over(daemon: Running, browser: Browser, query: dict[str, str]) -> None:
    """Live as after a reload, whatever the filter hides."""
    other = event(Turn, "u", state="started")
    with joined(browser, **query) as stream:
        daemon.commit(commit(*settled(), call("1", turn="t1")), commit(other, stream="u"))
        found: list[Message] = []
        while not found or found[-1].id != "5":
            found += stream.until("card")

    patches = [one for sent in found if sent.event in ("card", "state") for one in read(sent.data).all("div")]
    turns = [one.one("article", id="e1") for one in patches if one.attributes.get("data-at") == "e1"]
    assert [one.attributes["data-status"] for one in turns] == ["completed", "running"]

    turn = shown(browser, f"/events?{urlencode(query)}").one("article", id="e1")
    assert turn.attributes["data-status"] == "running"
    assert not turn.all("article", id="e3")


def test_turn_that_goes_on_after_its_page_is_not_over(tmp_path: Path) -> None:
    with browsed(tmp_path, {"cards": 3}) as (daemon, browser):
        daemon.commit(commit(*settled(), message("more", turn="t1", agent="sub"), message("more", turn="t1")))

        turn = shown(browser, "/events?after=0").one("article", id="e1")

        assert turn.attributes["data-status"] == "running"
        assert not turn.all("article", id="e3")


def test_call_from_before_the_connection_is_known(daemon: Running, browser: Browser) -> None:
    """Also if it is not on the newest page."""
    daemon.commit(commit(call("1"), *(message(str(n)) for n in range(5))))
    with joined(browser) as stream:
        daemon.commit(commit(result("1"), base=1))
        [ended] = cards(stream, 1)

    patch = read(ended.data).inside[1]
    assert patch.attributes["data-at"] == "e1"
    assert patch.one("article", id="e1").attributes["data-status"] == "completed"


def test_filter_without_calls_needs_no_states(daemon: Running, browser: Browser) -> None:
    with joined(browser, kind="message") as stream:
        daemon.commit(commit(call("1"), result("1"), message("x")))

        assert names_and_ids(stream, "card") == [("card", "3")]


def test_partials_are_filtered(daemon: Running, browser: Browser) -> None:
    chunk = Chunk(stream="stdout", text="a", offset=0)
    with joined(browser, kind="tool-call") as stream:
        daemon.commit(
            commit(call("1"), event(ToolUpdate, call_id="1", name="Bash", partial=True, chunk=chunk), call("2"))
        )

        assert [name for name, _ in names_and_ids(stream, "card") + names_and_ids(stream, "card")] == ["card", "card"]


def test_reader_that_comes_back_is_told_of_its_partials(daemon: Running, browser: Browser) -> None:
    """It has them from an earlier connection, of which the server knows nothing."""
    with joined(browser) as stream:
        daemon.commit(commit(*(message(part, message_id=part, partial=True, offset=0) for part in ("one", "two", "3"))))
        keys = [stream.until("piece")[-1].json["key"] for _ in range(3)]

    daemon.commit(commit(message("one", message_id="one"), base=1))
    query = [("after", "0"), *(("has", key) for key in keys)]
    with browser.stream(f"/live?{urlencode(query)}") as stream:
        before = [one for one in stream.until("live") if one.event not in BESIDE]
        daemon.commit(commit(message("two", message_id="two"), event(Turn, state="cancelled"), base=2))
        after = [one for one in stream.until("card") + stream.until("card") if one.event not in BESIDE]

    assert [one.event for one in before] == ["whole", "card", "live"]
    assert [one.event for one in after] == ["whole", "card", "whole", "card"]
    assert [one.json["key"] for one in before + after if one.event == "whole"] == keys


def test_partials_of_a_reader_are_bounded(browser: Browser) -> None:
    many = urlencode([("has", str(n)) for n in range(17)])

    assert browser.get(f"/live?{many}").status == 400
    assert browser.get(f"/live?has={'x' * 1_001}").status == 400


def test_live_cards_have_preferred_level(daemon: Running, browser: Browser) -> None:
    cookie = prefer(browser, level="title", tool="Read", tool_level="full")
    with browser.stream("/live", {"Cookie": cookie}) as stream:
        stream.until("live")
        daemon.commit(commit(call("1"), call("2", name="Read")))
        levels = [read(one.data).inside[0].attributes["data-level"] for one in cards(stream, 2)]

    assert levels == ["title", "full"]


def test_partials_end_with_whole_message(daemon: Running, browser: Browser) -> None:
    block: dict[str, Any] = {"message_id": "m", "block": 0}
    with joined(browser) as stream:
        daemon.commit(
            commit(
                message("Hel", **block, partial=True, offset=0),
                message("lo", **block, partial=True, offset=3),
                event(Reasoning, text="hm", partial=True, offset=0),
                message("Hello", **block),
                lines=2,
            )
        )
        daemon.commit(commit(event(Turn, state="completed"), base=2))
        found = [one for one in stream.until("card") + stream.until("card") if one.event not in BESIDE]

    first, second, third, whole, _, ended, _ = found
    key = first.json["key"]
    assert [one.event for one in found] == ["piece", "piece", "piece", "whole", "card", "whole", "card"]
    assert first.json == {"key": key, "role": "assistant", "text": "Hel", "offset": 0, "end": 3}
    assert second.json == {"key": key, "role": "assistant", "text": "lo", "offset": 3, "end": 5}
    assert third.json["key"] != key
    assert (whole.json, ended.json) == ({"key": key}, {"key": third.json["key"]})


def test_running_output_names_its_call(daemon: Running, browser: Browser) -> None:
    chunk = Chunk(stream="stdout", text="a\x1b[31mb\x1b[0m\x07", offset=4)
    with joined(browser) as stream:
        daemon.commit(commit(event(ToolUpdate, call_id="1", name="Bash", partial=True, chunk=chunk)))
        piece = stream.until("piece")[-1].json

    assert piece == {"into": "s 1", "stream": "stdout", "text": "ab\u2407", "offset": 4, "end": 16}


def test_gap_is_sent(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("a"), message("b"), state="ended", updated=1))
    daemon.commit(commit(message("c", "t", session="kept"), stream="t"))
    daemon.expire(before=1_000)

    with opened(browser, after="1") as stream:
        gap, *rest = (one for one in stream.until("live") if one.event not in BESIDE)
    with opened(browser, after="900") as stream:
        reset = stream.until("gap")[-1]

    assert (gap.event, gap.json["from"], gap.json["to"], gap.json["reason"]) == ("gap", 2, 2, "retention")
    assert [one.id for one in rest if one.event == "card"] == ["3"]
    assert reset.json["reason"] == "reset"


def test_session_list_is_updated(daemon: Running, browser: Browser) -> None:
    with joined(browser, kind="notice") as stream:
        daemon.commit(commit(message("a")))
        html = stream.until("sessions")[-1].data
        while "session-1" not in html:
            html = stream.until("sessions")[-1].data

    assert read(html).one("li", **{"data-session": "session-1"}).text.count("1 event") == 1


def test_idle_page_gets_heartbeats(tmp_path: Path) -> None:
    with browsed(tmp_path, {"heartbeat": 0.05}) as (_, browser), joined(browser) as stream:
        for _ in range(3):
            assert stream.until("heartbeat")[-1].json == {"op": "heartbeat", "period": 0.05}


def test_feed_ends_with_the_daemon(tmp_path: Path) -> None:
    with browsed(tmp_path) as (daemon, browser), joined(browser) as stream:
        daemon.call(daemon.daemon.stop)

        assert "card" not in [one.event for one in stream]


@pytest.mark.parametrize("after", ["yesterday", "-1", "1:2:3x"])
def test_bad_cursor_is_refused(browser: Browser, after: str) -> None:
    answer = browser.get(f"/live?after={after}")

    assert answer.status == 400
    assert "`after`" in json.loads(answer.body)["error"]["message"]
