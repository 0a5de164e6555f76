"""The endpoints that answer with JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running
from tests.daemon.web.browsing import Browser, browsed, socket_lines
from tooltap.daemon.journal.interface import JournalError
from tooltap.protocol.events import SessionEvent, ToolResult


@pytest.fixture
def idle(common: tuple[Running, Browser]) -> Browser:
    """A browser of a daemon without events."""
    return common[1]


def texts(answer: Any) -> list[str]:
    return [one["text"] for one in answer["events"]]


def fill(daemon: Running, count: int = 10) -> None:
    daemon.commit(commit(*(message(f"m{number}") for number in range(count))))


def test_page_has_bytes_of_the_socket(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("ä\u2028\ud7ff </script>"), call("1"), result("1")), commit(message("b"), base=1))

    answer = browser.get("/api/events")

    assert answer.headers["content-type"] == "application/json"
    lines = b",".join(socket_lines(daemon))
    journal = daemon.daemon.journal.id.encode()
    assert answer.body == b'{"events":[%b],"next":4,"more":false,"journal":"%b"}' % (lines, journal)


def test_pages_continue_forwards(daemon: Running, browser: Browser) -> None:
    fill(daemon)
    found, after, more = [], "start", True
    while more:
        page = browser.get(f"/api/events?limit=3&after={after}").json
        assert len(page["events"]) <= 3
        found += texts(page)
        after, more = page["next"], page["more"]

    assert found == [f"m{number}" for number in range(10)]
    assert browser.get(f"/api/events?after={after}").json["events"] == []
    daemon.commit(commit(message("new"), base=1))
    assert texts(browser.get(f"/api/events?after={after}").json) == ["new"]


@pytest.mark.parametrize("name", ["present", "earlier"])
def test_pages_have_the_events_of_a_session_under_each_id(daemon: Running, browser: Browser, name: str) -> None:
    known = event(SessionEvent, line=2, state="updated", alias="earlier", session="present")
    late = message(f"late {'x' * 300_000}", line=3, session="present")  # more than is read at once
    daemon.commit(commit(message("early", session="earlier"), known, late))

    forwards, back = (browser.get(f"/api/events?session={name}&kind=message&{one}") for one in ("", "before=now"))

    assert [text[:5] for text in texts(forwards.json)] == ["early", "late "]
    assert [text[:5] for text in texts(back.json)] == ["late ", "early"]


def test_pages_continue_backwards(daemon: Running, browser: Browser) -> None:
    fill(daemon)
    found, before, more = [], "now", True
    while more:
        page = browser.get(f"/api/events?limit=3&before={before}").json
        found += texts(page)
        before, more = page["next"], page["more"]

    assert found == [f"m{number}" for number in reversed(range(10))]


def test_filters_may_be_repeated(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(message("m"), call("1"), call("2", name="Read", agent="child")),
        commit(message("other", "t", session="session-2"), call("3", "t"), stream="t"),
    )

    def seqs(query: str) -> list[int]:
        there = [one["seq"] for one in browser.get(f"/api/events?{query}").json["events"]]
        back = [one["seq"] for one in browser.get(f"/api/events?before=now&{query}").json["events"]]
        assert back == there[::-1]
        return there

    assert seqs("kind=tool-call") == [2, 3, 5]
    assert seqs("kind=tool-call&kind=message") == [1, 2, 3, 4, 5]
    assert seqs("tool=sh&stream=t") == [5]
    assert seqs("tool=Read") == [3]
    assert seqs("agent=child") == [3]
    assert seqs("session=session-2") == [4]
    assert seqs("session=nobody") == []
    assert seqs("provider=gemini&session=&stream=") == [1, 2, 3, 4, 5]


def test_pages_of_display_events(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(message("m"), event(SessionEvent, state="started"), call("1", preview="ls", ts=1_000)))
    daemon.commit(commit(result("1", ts=3_500), base=1))

    shown = b",".join(socket_lines(daemon, **{"as": "display"}))
    assert b'{"events":[%b],' % shown in browser.get("/api/events?as=display").body
    back = browser.get("/api/events?as=display&before=now").json["events"]
    assert [one["kind"] for one in back] == ["tool_result", "tool_use", "session", "text"]
    assert back[0]["durationMs"] == 2_500


def test_page_is_bounded_but_not_empty(tmp_path: Path) -> None:
    with browsed(tmp_path, {"page_events": 4, "page_bytes": 4_096}) as (daemon, browser):
        daemon.commit(commit(*(message(f"{number}" * 1_000) for number in range(9)), message("x" * 50_000)))

        for query in ("", "limit=1000&", "before=now&limit=1000&"):
            page = browser.get(f"/api/events?{query}").json
            assert 1 <= len(page["events"]) <= 4
            assert page["more"]
        assert len(browser.get("/api/events?after=9").body) > 50_000
        assert len(browser.get("/api/events?before=now").body) > 50_000
        assert len(browser.get("/api/events?limit=2").json["events"]) == 2


@pytest.mark.parametrize(
    ("after", "gap"),
    [
        ("0", {"from": 1, "to": 3, "reason": "retention"}),
        ("2", {"from": 3, "to": 3, "reason": "retention"}),
        ("99", {"from": 1, "to": 3, "reason": "reset"}),
        ("otherjournal:1", {"from": 1, "to": 3, "reason": "reset"}),
        ("start", None),
        ("3", None),
        ("{journal}:4", None),
    ],
)
def test_page_reports_gap(daemon: Running, browser: Browser, after: str, gap: dict[str, Any] | None) -> None:
    daemon.commit(
        commit(*(message(f"old{n}", "o", session="gone") for n in range(3)), stream="o", state="ended", updated=1)
    )
    daemon.commit(commit(message("a"), message("b")))
    daemon.expire(2)

    page = browser.get(f"/api/events?after={after.format(journal=daemon.daemon.journal.id)}").json

    assert page.get("gap") == gap
    assert texts(page) == (["b"] if "4" in after else ["a", "b"])


@pytest.fixture(params=["sqlite", "nats"])
def expired(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Running, Browser, list[int]]]:
    """A daemon whose journal has lost its first and third event to retention, and the two events that it still has."""
    settings: dict[str, Any] = {}
    if request.param == "nats":
        settings["journal"] = f"{request.getfixturevalue('nats_server').url}/{tmp_path.name}"
    with browsed(tmp_path, **settings) as (daemon, browser):
        daemon.commit(commit(message("old", "o", session="gone"), stream="o", state="ended", updated=1))
        daemon.commit(commit(message("a", "s"), stream="s"))
        daemon.commit(commit(message("old", "p", session="gone"), stream="p", state="ended", updated=1))
        daemon.commit(commit(message("b", "s"), stream="s", base=1))
        seqs = [one["seq"] for one in browser.get("/api/events").json["events"]]
        daemon.expire(2)
        yield daemon, browser, seqs


@pytest.mark.parametrize("more", ["", "&session=session-1", "&stream=s", "&as=display"])
def test_both_ways_name_what_retention_has_deleted(expired: tuple[Running, Browser, list[int]], more: str) -> None:
    daemon, browser, (_, a, third, b) = expired
    to = daemon.daemon.journal.last_expired
    assert a < third <= to < b

    def page(query: str) -> Any:
        found = browser.get(f"/api/events?{query}{more}").json
        return [one["seq"] for one in found["events"]], found.get("gap"), found["more"]

    def gap(first: int, last: int) -> dict[str, Any]:
        return {"from": first, "to": last, "reason": "retention"}

    assert page("after=0") == ([a, b], gap(1, to), False)
    assert page("before=now") == ([b, a], gap(1, to), False)
    assert page("before=now&limit=1") == ([b], None, True)
    assert page(f"before={b}&limit=1") == ([a], gap(1, to), False)
    assert page(f"before={third}") == ([a], gap(1, third - 1), False)
    assert page(f"before={a}") == ([], gap(1, a - 1), False)
    assert page("before=1") == ([], None, False)


def test_page_back_names_only_its_own_part(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(*(message(f"kept {number}") for number in range(3))))
    daemon.commit(commit(message("old", "o", session="gone"), stream="o", state="ended", updated=1))
    daemon.commit(commit(message("new"), base=1))
    daemon.expire(2)
    pages = [browser.get(f"/api/events?before={before}&limit=1").json for before in ("now", 5, 3, 2)]

    assert [page.get("gap", {}).get("from") for page in pages] == [None, 3, 2, 1]
    assert [page.get("gap", {}).get("to") for page in pages] == [None, 4, 2, 1]
    assert [page["next"] for page in pages] == [5, 3, 2, 1]


def test_event_in_three_views(daemon: Running, browser: Browser) -> None:
    daemon.commit(commit(call("1"), result("1", output={"stdout": "x", "_raw": {"a": 1}})))
    wire = daemon.connect()

    for view in ("assistant", "display", "raw"):
        assert browser.get(f"/api/events/2?view={view}").json == wire.ask("event", seq=2, view=view)
    assert browser.get("/api/events/2").json["view"] == "raw"
    assert browser.get("/api/events/7").error == (404, "not-found", "there is no event 7")


def test_sessions_are_paged(daemon: Running, browser: Browser) -> None:
    for number in range(5):
        one = message("m", f"s{number}", session=f"session-{number}")
        daemon.commit(commit(one, stream=f"s{number}"))
    wire = daemon.connect()

    first = browser.get("/api/sessions?limit=3").json
    second = browser.get(f"/api/sessions?limit=3&before={first['next']}").json

    assert first == wire.ask("sessions", limit=3)
    assert [one["session"] for one in second["sessions"]] == ["session-1", "session-0"]
    assert "next" not in second


def test_statistics_equal_those_of_the_socket(daemon: Running, browser: Browser) -> None:
    web, told = browser.get("/api/stats").json, daemon.stats()

    assert web.keys() == told.keys()
    assert told["web"]["url"] == browser.url
    assert browser.token not in str(told)
    assert told["limits"]["web"]["connections"] == 512


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        ("/api/events?limit=0", "`limit`: expected `int` >= 1"),
        ("/api/events?limit=many", "`limit`: expected `int`, got `str`"),
        ("/api/events?as=pictures", "`as`: invalid enum value 'pictures'"),
        ("/api/events?sesion=x", "unknown key `sesion`; the keys here: after, agent, as, before, kind, limit,"),
        ("/api/events?after=1&after=2", "`after` may be given only once"),
        ("/api/events?after=1&before=2", "a page continues from `after` or from `before`, not from both"),
        ("/api/events?before=x", '`before` is a seq, or "now"'),
        ("/api/events?before=-1", '`before` is a seq, or "now"'),
        ("/api/events?after=x", 'subscribe: `after` is "start", "now", a seq or "<journal>:<seq>"'),
        ("/api/events?after=" + "9" * 5_000, 'subscribe: `after` is "start"'),
        ("/api/events?session=%ff", "the query is not UTF-8"),
        ("/api/events?" + "kind=a&" * 257, "`kind`: expected `array` of length <= 256"),
        ("/api/events?" + "kind=a&" * 1_001, "a query has at most 1000 values"),
        ("/api/events/1?view=mine", "`view`: invalid enum value 'mine'"),
        ("/api/events/one", "`seq`: expected `int`, got `str`"),
        ("/api/events/" + "9" * 5_000, "`seq`: "),
        ("/api/events/1?id=2", "unknown key `id`; the keys here: view"),
        ("/api/events/1?seq=2", "unknown key `seq`; the keys here: view"),
        ("/api/sessions?limit=1001", "`limit`: expected `int` <= 1000"),
        ("/api/sessions?before=x", "`before`: expected `int"),
        ("/api/stats?a=1", "unknown key `a`; the keys here: part"),
        ("/metrics?a=1", "unknown key `a`; the keys here: none"),
    ],
)
def test_bad_query_is_one_sentence(idle: Browser, target: str, sentence: str) -> None:
    status, code, message = idle.get(target).error

    assert status == 400
    assert code in ("bad-query", "bad-frame")
    assert message.startswith(sentence)
    assert "\n" not in message


@pytest.mark.parametrize(
    "target", ["/no", "/api", "/api/events/", "/api/events/1/2", "/%2e%2e/etc/passwd", "/api//events"]
)
def test_missing_is_not_found(idle: Browser, target: str) -> None:
    assert idle.get(target).error == (404, "not-found", "there is nothing at this address")


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_only_safe_methods_are_allowed(idle: Browser, method: str) -> None:
    answer = idle.get("/api/events", method=method)

    assert answer.error == (405, "method-not-allowed", "this address does not allow this method")
    assert {one.strip() for one in answer.headers["allow"].split(",")} == {"GET", "HEAD"}


@pytest.mark.parametrize("target", ["/api/events", "/api/sessions", "/api/stats", "/healthz", "/metrics"])
def test_head_equals_get(daemon: Running, browser: Browser, target: str) -> None:
    daemon.commit(commit(message("a")))

    head, get = browser.get(target, method="HEAD"), browser.get(target)

    assert (head.status, head.body) == (200, b"")
    assert head.headers["content-type"] == get.headers["content-type"]
    assert int(head.headers["content-length"]) > 0


def test_too_long_request_is_refused(idle: Browser) -> None:
    """The server does not read all of it, so the response may get lost."""
    assert idle.get("/api/events?session=" + "x" * 15_000).json["events"] == []
    for head in (f"GET /?{'x' * 500_000} HTTP/1.1\r\n", f"GET / HTTP/1.1\r\nX: {'x' * 500_000}"):
        try:
            assert idle.say(head.encode()).startswith(b"HTTP/1.1 400 ")
        except ConnectionError:
            pass
    assert idle.get("/healthz").status == 200


def test_failing_journal_is_an_error_response(
    daemon: Running, browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon.commit(commit(message("a")))

    async def fail(*arguments: Any, **options: Any) -> Any:
        raise JournalError("the journal cannot be read: disk I/O error")

    with monkeypatch.context() as broken:
        for name in ("read", "read_back", "event", "sessions", "output"):
            broken.setattr(type(daemon.daemon.journal), name, fail)
        daemon.daemon.hub._recent.clear()
        for target in ("/api/events", "/api/events?before=now", "/api/events/1", "/api/sessions", "/api/outputs/x"):
            assert browser.get(target).error == (503, "journal", "the journal cannot be read: disk I/O error")

    assert browser.get("/api/events").status == 200


def test_files_of_a_session(daemon: Running, browser: Browser) -> None:
    given = {"file_path": "/w/a b.py", "content": "x\n"}
    done = event(
        ToolResult, call_id="1", name="Write", output={"type": "create"}, status="completed", is_error=False, index=1
    )
    daemon.commit(commit(call("1", name="Write", input=given), done))
    address = "/api/sessions/session-1/files"
    listed = {"path": "/w/a b.py", "kind": "added", "added": 1, "removed": 0, "complete": True, "calls": [1]}

    assert browser.get(address).json == {"files": [listed], "complete": True}
    file = browser.get(f"{address}?path=/w/a%20b.py").json["file"]
    assert file["diff"] == "--- /dev/null\n+++ b//w/a b.py\n@@ -0,0 +1 @@\n+x\n"
    assert browser.get(f"{address}?path=b.py").status == 404
    assert browser.get("/api/sessions/none/files").status == 404


def test_what_waits_for_a_person(daemon: Running, browser: Browser) -> None:
    assert browser.get("/api/waiting").json == {"waiting": [], "complete": True}
    daemon.commit(commit(call("c1", name="ExitPlanMode", preview="Do it", dialect="claude-transcript", ts=1_000)))
    [one] = browser.get("/api/waiting?provider=gemini&mayAfter=0").json["waiting"]
    assert (one["name"], one["type"], one["fromCall"], one["since"]) == ("ExitPlanMode", "permission", True, 1_000)
    assert browser.get("/api/waiting?provider=claude").json["waiting"] == []
    metrics = browser.get("/metrics").body.decode().splitlines()
    assert {'tooltap_sessions{status="running"} 0', 'tooltap_sessions{status="waiting"} 1'} <= {*metrics}
    wrong = browser.get("/api/waiting?mayAfter=soon")
    assert (wrong.status, wrong.json["error"]["code"]) == (400, "bad-query")


def test_calls_by_how_they_ended(daemon: Running, browser: Browser) -> None:
    daemon.commit(
        commit(
            call("c1", name="Edit", input={"file_path": "a.py"}, ts=1_000),
            event(ToolResult, call_id="c1", name="Edit", output={}, status="failed", is_error=True, ts=2_000),
            call("c2", ts=3_000),
            result("c2", ts=4_000),
        )
    )
    daemon.until_indexed()

    everything = browser.get("/api/calls").json
    assert [(one["seq"], one["resultSeq"], one["outcome"]) for one in everything["calls"]] == [
        (3, 4, "completed"),
        (1, 2, "failed"),
    ]
    assert browser.get("/api/calls?outcome=failed&outcome=denied&tool=Edit&file=a.py").json["calls"] == [
        everything["calls"][1]
    ]
    page = browser.get("/api/calls?limit=1").json
    assert browser.get(f"/api/calls?limit=1&before={page['next']}").json["calls"] == everything["calls"][1:]
    wrong = browser.get("/api/calls?outcome=broken")
    assert (wrong.status, wrong.json["error"]["code"]) == (400, "bad-query")
