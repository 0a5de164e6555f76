"""Server-sent events: the same bytes as on the socket, for browsers that come and go."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message
from tests.daemon.lives import Lives, Publisher, wait_for_ack
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, Message, browsed, free_port, socket_lines, until, web_settings
from tooltap.daemon.journal.interface import JournalError
from tooltap.daemon.web.http.token import load_token
from tooltap.protocol.events import SessionEvent


def test_replay_joins_live_with_bytes_of_the_socket(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("ä\u2028</script>"), call("1")))
    with browser.stream("/api/events?after=start") as stream:
        replayed = stream.until("live")
        daemon.commit(commit(message("b"), base=1))
        live = stream.take(1)

    subscribed, *events, joined = replayed
    assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert (subscribed.event, subscribed.json["journal"]) == ("subscribed", daemon.daemon.journal.id)
    assert (joined.id, joined.json) == ("2", {"op": "live", "seq": 2})
    assert [one.data.encode() for one in events + live] == socket_lines(daemon)
    assert [one.id for one in events + live] == ["1", "2", "3"]


def test_default_is_live_only(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("old")))
    with browser.stream("/api/events") as stream:
        stream.until("live")
        daemon.commit(commit(message("new"), base=1))

        [new] = stream.take(1)

    assert new.json["text"] == "new"


@pytest.mark.parametrize("last", ["2", "{journal}:2"])
def test_last_event_id_overrides_after(daemon: Running, browser: Browser, last: str) -> None:
    """A browser reconnects to the same URL, with its cursor in a header."""
    daemon.commit(commit(*(message(f"m{number}") for number in range(4))))
    header = {"Last-Event-ID": last.format(journal=daemon.daemon.journal.id)}
    with browser.stream("/api/events?after=start", header) as stream:
        found = stream.until("live")

    assert [one.id for one in found if one.event == "message"] == ["3", "4"]


@pytest.mark.parametrize(("last", "reason"), [("99", "reset"), ("other:2", "reset"), ("1", "retention")])
def test_missing_events_are_a_gap(daemon: Running, browser: Browser, last: str, reason: str) -> None:
    daemon.commit(
        commit(*(message(f"old{n}", "o", session="gone") for n in range(3)), stream="o", state="ended", updated=1)
    )
    daemon.commit(commit(message("a")))
    daemon.expire(2)
    with browser.stream("/api/events", {"Last-Event-ID": last}) as stream:
        _, gap, kept, _ = stream.until("live")

    assert (gap.event, gap.id) == ("gap", None)
    assert gap.json == {"op": "gap", "from": 2 if reason == "retention" else 1, "to": 3, "reason": reason}
    assert kept.json["text"] == "a"


def test_filtered_stream_reports_position(tmp_path: Path) -> None:
    with browsed(tmp_path, at_interval=0.05) as (daemon, browser):
        daemon.commit(commit(message("m"), call("1"), message("n")))
        with browser.stream("/api/events?after=start&kind=tool-call&kind=tool-result") as stream:
            replayed = stream.until("live")
            daemon.commit(commit(message("o"), base=1))
            at = stream.until("at")[-1]
            while at.id != "4":
                at = stream.until("at")[-1]

    assert [one.id for one in replayed if one.event == "message"] == ["2"]
    assert at.json == {"op": "at", "seq": 4}


def test_display_lines_equal_those_of_the_socket(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("m"), event(SessionEvent, state="started"), call("1", preview="ls")))
    with browser.stream("/api/events?after=start&as=display") as stream:
        found = stream.until("live")

    assert [one.data.encode() for one in found if one.event == "message"] == socket_lines(daemon, **{"as": "display"})


def test_partials_have_no_id(daemon: Running, browser: Browser) -> None:
    with browser.stream("/api/events?partials=1") as asked, browser.stream("/api/events") as other:
        asked.until("live")
        other.until("live")
        daemon.commit(commit(message("pre", partial=True), message("whole")))

        partial, whole = asked.take(2)
        [only] = other.take(1)

    assert (partial.id, partial.json["text"], partial.json["partial"]) == (None, "pre", True)
    assert whole.json["text"] == only.json["text"] == "whole"


def test_stream_gets_heartbeats(tmp_path: Path) -> None:
    """Also one that is busy."""
    with browsed(tmp_path, {"heartbeat": 0.05}) as (daemon, browser), browser.stream("/api/events") as stream:
        for number in range(3):
            beat = stream.until("heartbeat")[-1]
            assert (beat.id, beat.json) == (None, {"op": "heartbeat", "period": 0.05})
            daemon.commit(commit(message(f"m{number}"), stream=f"s{number}"))


def test_accept_header_selects_the_stream(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("m")))
    for accept in ("*/*", "application/json", "text/html,*/*;q=0.8", "application/text/event-stream"):
        assert browser.get("/api/events", {"Accept": accept}).headers["content-type"] == "application/json"
    for accept in ("text/event-stream", "Text/Event-Stream;q=1", "application/json, text/event-stream"):
        with browser.stream("/api/events", {"Accept": accept}) as stream:
            assert stream.response.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("query", ["after=x", "limit=3", "before=now", "kind=" + "a&kind=" * 300])
def test_bad_request_is_no_stream(browser: Browser, query: str) -> None:
    status, _, _ = browser.get(f"/api/events?{query}", {"Accept": "text/event-stream"}).error

    assert status == 400


def test_failing_journal_is_a_problem_event(daemon: Running, browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not `error`: for a browser that is the end of the connection."""
    daemon.commit(commit(message("a")))
    daemon.daemon.hub._recent.clear()

    async def fail(*arguments: Any, **options: Any) -> Any:
        raise JournalError("the journal cannot be read: disk I/O error")

    monkeypatch.setattr(daemon.daemon.journal, "read", fail)
    with browser.stream("/api/events?after=start") as stream:
        found = list(stream)

    assert [one.event for one in found] == ["subscribed", "problem"]
    assert found[-1].json == {"op": "error", "code": "journal", "message": "the journal cannot be read: disk I/O error"}


def test_head_opens_no_stream(daemon: Running, browser: Browser) -> None:
    answer = browser.get("/api/events", {"Accept": "text/event-stream"}, method="HEAD")

    assert (answer.status, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")
    until(lambda: not daemon.daemon.hub.subscriptions, "the subscription to end")


def test_leaving_browser_closes_its_feed(daemon: Running, browser: Browser) -> None:
    with browser.stream("/api/events?partials=1") as stream:
        stream.until("live")
        assert len(daemon.stats()["subscribers"]) == daemon.stats()["web"]["feeds"] == 1

    until(lambda: not daemon.daemon.hub.subscriptions, "the subscription to end")
    assert daemon.stats()["web"]["feeds"] == 0
    assert not daemon.daemon.hub.partials_wanted


def test_number_of_feeds_is_limited(tmp_path: Path) -> None:
    with browsed(tmp_path, {"feeds": 2}) as (daemon, browser):
        with browser.stream("/api/events") as one, browser.stream("/api/events") as two:
            one.until("live")
            two.until("live")
            refused = browser.get("/api/events", {"Accept": "text/event-stream"})
        until(lambda: not daemon.daemon.hub.subscriptions, "the streams to end")

        assert refused.error == (503, "too-many-feeds", "the daemon serves 2 feeds at a time")
        assert refused.headers["retry-after"] == "1"
        assert browser.get("/api/events").status == 200


def test_two_hundred_browsers_get_the_same(daemon: Running, browser: Browser) -> None:
    streams = [browser.stream("/api/events?after=start") for _ in range(200)]
    try:
        for stream in streams:
            stream.until("live")
        for line in range(20):
            daemon.commit(commit(message(f"m{line}" * 50), call(f"{line}"), base=line))
        expected = socket_lines(daemon)

        for stream in streams:
            assert [one.data.encode() for one in stream.take(40)] == expected
    finally:
        for stream in streams:
            stream.close()


def test_slow_browser_delays_nobody(tmp_path: Path) -> None:
    """It falls behind, and later gets everything in order from the journal."""
    with (
        browsed(tmp_path, subscriber_bytes=4_096, recent_bytes=0) as (daemon, browser),
        browser.stream("/api/events?after=start") as stuck,
        browser.stream("/api/events?after=start") as quick,
    ):
        stuck.until("live")
        quick.until("live")
        for line in range(60):
            daemon.commit(commit(*(message("x" * 10_000) for _ in range(20)), base=line))
            assert len(quick.take(20)) == 20
        [behind] = [one for one in daemon.stats()["subscribers"] if one["behind"]]

        assert behind["bytesWritten"] < 9_000_000  # most of it in the kernel's buffers
        assert [one.id for one in stuck.take(1_200)] == [str(seq) for seq in range(1, 1_201)]


def test_stuck_browser_is_closed_and_resumes(tmp_path: Path) -> None:
    with browsed(tmp_path, {"patience": 1.0}) as (daemon, browser):
        stuck = browser.connect()
        head = f"GET /api/events?after=start HTTP/1.1\r\nHost: {browser.host}\r\nAccept: text/event-stream\r\n"
        stuck.sendall(f"{head}Authorization: Bearer {browser.token}\r\n\r\n".encode())
        until(lambda: daemon.daemon.hub.subscriptions, "the subscription")
        for line in range(60):
            daemon.commit(commit(*(message("x" * 10_000) for _ in range(20)), base=line))

        until(lambda: not daemon.daemon.hub.subscriptions, "the connection to be cut off")
        stuck.close()
    with browsed(tmp_path) as (_, browser):  # which has more patience with whoever reads slowly
        with browser.stream("/api/events", {"Last-Event-ID": "7"}) as again:
            found = again.until("live")
        assert [one.id for one in found if one.event == "message"] == [str(seq) for seq in range(8, 1_201)]


def test_stream_resumes_after_kill_9(tmp_path: Path) -> None:
    """A browser that reconnects with its last id after each kill gets everything that is journaled."""
    port = free_port()
    token = load_token(tmp_path / "token")
    web = web_settings(tmp_path, listen=f"127.0.0.1:{port}")
    seen: list[Message] = []
    records = [
        json.dumps({"t": 1, "line": json.dumps({"type": "text", "id": str(number), "text": f"m{number}"})}).encode()
        for number in range(60)
    ]
    with Lives(tmp_path, web=web, shutdown_timeout=60.0) as lives:
        publisher = Publisher(lives, "s", records)
        for life in range(4):
            lives.start()
            browser = Browser(f"http://127.0.0.1:{port}", token)
            header = {"Last-Event-ID": seen[-1].id or ""} if seen else {}
            with browser.stream("/api/events?after=start", header) as stream:
                seen += [one for one in stream.until("live") if one.event == "message"]  # durable before the kill
                if life < 3:
                    _publish_until(publisher, 15 * (life + 1), lives)
                    lives.kill()
                else:
                    publisher.publish(lambda number, wire: None)
                    lives.stop()
                seen += [one for one in stream if one.event == "message"]
            lives.wait()

    assert len(seen) >= 60
    assert [one.data.encode() + b"\n" for one in seen] == lives.seen[0]
    assert [int(one.id or "") for one in seen] == sorted({int(one.id or "") for one in seen})


class Enough(Exception):
    """Raised when enough lines are durable."""


def _publish_until(publisher: Publisher, count: int, lives: Lives) -> None:
    def after(number: int, wire: Any) -> None:
        wait_for_ack(number, wire)
        if number == count:
            raise Enough

    with pytest.raises(Enough):
        publisher.publish(after)
