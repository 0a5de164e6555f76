"""The gateway of a daemon that shares its journal with others."""

from __future__ import annotations

from pathlib import Path

from tests.daemon.events import call, commit, message
from tests.daemon.nats_server import NatsServer
from tests.daemon.running import running
from tests.daemon.web.browsing import browsed, until


def test_events_of_other_daemon_are_served(nats_server: NatsServer, tmp_path: Path) -> None:
    journal = f"{nats_server.url}/web"
    (tmp_path / "other").mkdir()
    with running(tmp_path / "other", journal=journal) as other, browsed(tmp_path, journal=journal) as (_, browser):
        other.commit(commit(message("a"), call("1"), lines=2))
        page = browser.get("/api/events").json
        back = browser.get("/api/events?before=now&kind=message").json
        with browser.stream(f"/api/events?after={page['next']}") as stream:
            stream.until("live")
            other.commit(commit(message("b"), base=2))
            [live] = stream.take(1)
        with browser.stream("/api/events?after=start") as stream:
            replayed = [one.json for one in stream.until("live") if one.event == "message"]

    assert [one["kind"] for one in page["events"]] == ["message", "tool-call"]
    assert not page["more"]
    assert back["events"] == page["events"][:1]
    assert live.json["text"] == "b"
    assert replayed == [*page["events"], live.json]


def test_health_reports_unreachable_journal(tmp_path: Path) -> None:
    (tmp_path / "nats").mkdir()
    with (
        NatsServer(tmp_path / "nats") as server,
        browsed(tmp_path, journal=f"{server.url}/web") as (daemon, browser),
    ):
        assert browser.get("/healthz").status == 200
        assert b"tooltap_journal_connected 1\n" in browser.get("/metrics").body
        server.kill()
        until(lambda: not daemon.daemon.journal.statistics()["connected"], "the loss to be noticed")

        assert browser.get("/healthz", {"Authorization": ""}).error == (503, "journal", "the journal cannot be reached")
        server.start()
        until(lambda: daemon.daemon.journal.statistics()["connected"], "the server to be found again")
        assert browser.get("/healthz").status == 200
