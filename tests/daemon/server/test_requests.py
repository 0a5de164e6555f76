"""Requests over the socket, and their replies."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.daemon.events import call, commit, event, message, result
from tests.daemon.running import Running, Wire, running
from tooltap import __version__
from tooltap.daemon.server.requests import MAX_REPLY
from tooltap.daemon.system.clock import wall_clock
from tooltap.daemon.views.select import View, view_of
from tooltap.normalizers.core.items import OutputChunk
from tooltap.protocol.events import PermissionRequest, SessionEvent, Turn


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path) as daemon:
        yield daemon


@pytest.fixture
def wire(daemon: Running) -> Wire:
    return daemon.connect()


def failure(wire: Wire, op: str, **arguments: Any) -> tuple[str, str]:
    wire.send(op, id=1, **arguments)
    reply = wire.read()
    assert (reply["op"], reply["id"], reply["ok"]) == ("reply", 1, False)
    return reply["error"]["code"], reply["error"]["message"]


def test_reply_carries_the_request_id(wire: Wire) -> None:
    wire.send("ping", id="a")
    wire.send("ping", id=2)
    wire.send("ping")

    assert [wire.read() for _ in range(3)] == [
        {"op": "reply", "id": "a", "ok": True, "result": {}},
        {"op": "reply", "id": 2, "ok": True, "result": {}},
        {"op": "reply", "ok": True, "result": {}},
    ]


def test_wrong_request_fails(wire: Wire) -> None:
    assert failure(wire, "event", seq="one") == ("bad-frame", "event: `seq`: expected `int`, got `str`")
    assert failure(wire, "evnt")[0] == "unknown-op"


def test_replies_interleave_with_events(daemon: Running) -> None:
    wire = daemon.subscribe(after="now")
    wire.until("live")
    wire.send("ping", id=1)
    assert wire.read()["op"] == "reply"
    daemon.commit(commit(message("one")))
    assert wire.read()["text"] == "one"

    assert wire.ask("event", seq=1)["event"]["text"] == "one"


def test_sessions_are_paged_newest_first(daemon: Running, wire: Wire) -> None:
    for number in range(5):
        session = f"session-{number}"
        daemon.commit(
            commit(
                event(SessionEvent, f"s{number}", session=session, state="started", model="gemini-3"),
                call("c", f"s{number}", session=session),
                stream=f"s{number}",
            )
        )

    first = wire.ask("sessions", limit=3)
    second = wire.ask("sessions", limit=3, before=first["next"])

    assert [one["session"] for one in first["sessions"]] == ["session-4", "session-3", "session-2"]
    assert [one["session"] for one in second["sessions"]] == ["session-1", "session-0"]
    assert "next" not in second
    newest = first["sessions"][0]
    assert (newest["model"], newest["calls"], newest["events"], newest["streams"]) == ("gemini-3", 1, 2, ["s4"])


def test_sessions_by_time_are_filtered_counted_and_paged(daemon: Running, wire: Wire) -> None:
    for number, hour in enumerate((3, 1, 5, 2, 4)):
        stream = f"s{number}"
        state = "failed" if number % 2 else "completed"
        done = event(Turn, stream, session=stream, state=state, ts=hour * 3_600_000)
        daemon.commit(commit(done, stream=stream))

    def names(reply: dict[str, Any]) -> list[str]:
        return [one["session"] for one in reply["sessions"]]

    first = wire.ask("sessions", order="time", limit=3, facets=True)
    assert names(first) == ["s2", "s4", "s0"]
    assert first["facets"] == {"status": {"completed": 3, "failed": 2}, "provider": {"gemini": 5}, "project": {}}
    assert "next" not in first
    second = wire.ask("sessions", order="time", limit=3, cursor=first["cursor"])
    assert names(second) == ["s3", "s1"]
    assert "cursor" not in second
    assert names(wire.ask("sessions", order="time", status=["failed"], since=2 * 3_600_000)) == ["s3"]
    assert names(wire.ask("sessions", changedAfter=3)) == ["s4", "s3"]
    assert names(wire.ask("sessions", origin=["s4"])) == []


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"cursor": "yesterday"}, "sessions: `cursor` is not one of a page of sessions"),
        ({"order": "time", "before": 7}, "sessions: `before` is for the order seq; continue with `cursor`"),
        ({"status": ["busy"]}, "sessions: `status[0]`: invalid enum value 'busy'"),
    ],
)
def test_wrong_request_for_sessions_is_one_sentence(wire: Wire, request_: dict[str, Any], complaint: str) -> None:
    wire.send("sessions", id=1, **request_)
    assert wire.read()["error"] == {"code": "bad-frame", "message": complaint}


def test_page_of_sessions_fits_a_reply(daemon: Running, wire: Wire) -> None:
    title = "x" * 60_000
    for number in range(20):
        stream = f"s{number}"
        daemon.commit(commit(event(SessionEvent, stream, session=stream, state="updated", title=title), stream=stream))

    found: list[str] = []
    page = wire.ask("sessions", empty=True)
    while "next" in page:
        found += [one["session"] for one in page["sessions"]]
        page = wire.ask("sessions", empty=True, before=page["next"])
    found += [one["session"] for one in page["sessions"]]

    assert found == [f"s{number}" for number in reversed(range(20))]


def test_ended_session_is_removed(daemon: Running, wire: Wire) -> None:
    daemon.commit(commit(message("a", session="over"), state="ended"))
    daemon.commit(commit(message("b", "t", session="running"), stream="t", state="open"))

    assert wire.ask("remove", session="over") == {"events": 1}

    assert [one["session"] for one in wire.ask("sessions")["sessions"]] == ["running"]
    assert failure(wire, "remove", session="over") == ("not-found", "there is no session 'over'")
    assert failure(wire, "remove", session="running") == (
        "not-ended",
        "session running has not ended: its stream t is open",
    )


def test_stats_count_all_streams_and_list_the_newest(daemon: Running, wire: Wire) -> None:
    for number, state in enumerate(["ended", "ended", "open", "suspended"]):
        daemon.commit(commit(message("m", f"s{number}"), stream=f"s{number}", state=state, updated=number + 1))

    statistics = wire.ask("stats")

    assert statistics["streams"] == {"open": 1, "suspended": 1, "ended": 2}
    assert [one["stream"] for one in statistics["perStream"]] == ["s3", "s2", "s1", "s0"]


def test_stats_list_a_stream_that_is_asked_for(daemon: Running, wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tooltap.daemon.app.STREAMS_LISTED", 1)
    for number in range(3):
        daemon.commit(commit(message("m", f"s{number}"), stream=f"s{number}", updated=number + 1))

    listed = [wire.ask("stats", stream=name)["perStream"] for name in ("s0", "nothing")]

    assert [[one["stream"] for one in found] for found in listed] == [["s0"], []]


def test_event_by_seq(daemon: Running, wire: Wire) -> None:
    daemon.commit(commit(message("one"), message("two")))

    found = wire.ask("event", seq=2)

    assert found["view"] == "raw"
    assert (found["event"]["seq"], found["event"]["text"]) == (2, "two")
    assert failure(wire, "event", seq=3) == ("not-found", "there is no event 3")


RESULT: dict[str, Any] = json.loads(
    result("c1", output={"stdout": "for the model", "_happy": {"v": 2}, "_raw": {"x": 1}}).body
)
ENVELOPE = RESULT.keys() - {"kind", "output", "status"}
DISPLAYED = {**RESULT, "display": {"origin": "rule", "text": "for the user"}}
CAPTIONED = {**RESULT, "display": {"origin": "provider", "text": "Found 2 matches"}}
SILENT = {**DISPLAYED, "silent": True}
UNKNOWN = {**RESULT, "assistantView": "unknown"}


@pytest.mark.parametrize(
    ("stored", "view", "keys", "output"),
    [
        (RESULT, "raw", {"kind", "output", "status"}, {"stdout", "_happy", "_raw"}),
        (RESULT, "assistant", {"kind", "output", "status"}, {"stdout", "_happy"}),
        (RESULT, "display", {"kind", "output", "status"}, {"stdout", "_happy"}),
        (DISPLAYED, "raw", {"kind", "output", "status", "display"}, {"stdout", "_happy", "_raw"}),
        (DISPLAYED, "assistant", {"kind", "output", "status"}, {"stdout", "_happy"}),
        (DISPLAYED, "display", {"kind", "status", "display"}, set()),
        (CAPTIONED, "display", {"kind", "output", "status", "display"}, {"stdout", "_happy"}),
        (SILENT, "raw", {"kind", "output", "status", "display", "silent"}, {"stdout", "_happy", "_raw"}),
        (SILENT, "assistant", {"kind", "output", "status"}, {"stdout", "_happy"}),
        (SILENT, "display", {"kind", "status", "silent"}, set()),
        (UNKNOWN, "assistant", {"kind", "status", "assistantView"}, set()),
        (UNKNOWN, "display", {"kind", "output", "status", "assistantView"}, {"stdout", "_happy"}),
    ],
)
def test_event_in_each_view(stored: dict[str, Any], view: View, keys: set[str], output: set[str]) -> None:
    shown = view_of(stored, view)

    assert shown.keys() - ENVELOPE == keys
    assert set(shown.get("output", {})) == output


def test_assistant_view_has_what_the_model_saw_in_place_of_the_output() -> None:
    known = {**RESULT, "modelView": {"blocks": [{"type": "text", "text": "seen"}]}}
    parts = {**RESULT, "modelView": {"blocks": [{"parts": [{"at": "/output/stdout"}]}]}}

    assert view_of(known, "assistant").keys() - ENVELOPE == {"kind", "status", "modelView"}
    assert view_of(parts, "assistant").keys() - ENVELOPE == {"kind", "status", "modelView", "output"}
    assert view_of(known, "display").keys() - ENVELOPE == {"kind", "status", "output"}
    assert view_of(known, "raw") == known


def test_view_has_only_the_outputs_it_shows() -> None:
    whole = {"bytes": 100_000, "lines": 1, "mimeType": "text/plain"}
    outputs = {
        pointer: {"outputId": pointer, **whole} for pointer in ("/output/stdout", "/output/_raw/text", "/display/text")
    }
    stored = {**DISPLAYED, "outputs": outputs}

    assert set(view_of(stored, "assistant")["outputs"]) == {"/output/stdout"}
    assert set(view_of(stored, "display")["outputs"]) == {"/display/text"}
    assert "outputs" not in view_of({**stored, "silent": True}, "display")


def test_open_calls_and_pending_permissions(daemon: Running, wire: Wire) -> None:
    asked = event(PermissionRequest, permission_id="p1", type="permission", call_id="c2", session="session-2")
    daemon.commit(commit(call("c1"), call("c2", session="session-2"), call("c3"), result("c3"), asked))

    everything = wire.ask("calls")
    one_session = wire.ask("calls", session="session-1")

    assert [one["callId"] for one in everything["calls"]] == ["c1", "c2"]
    assert [one["permissionId"] for one in everything["permissions"]] == ["p1"]
    assert [one["callId"] for one in one_session["calls"]] == ["c1"]
    assert one_session["permissions"] == []
    assert everything["complete"] is True


# -- output -------------------------------------------------------------------------------------------------------


def put(daemon: Running, data: bytes, mime_type: str = "text/plain") -> None:
    daemon.commit(commit(OutputChunk("s:1:o0", 0, data, mime_type), message("one")))


def fetch(wire: Wire, unit: str, total: int) -> list[dict[str, Any]]:
    """The whole body, in as many replies as necessary."""
    parts: list[dict[str, Any]] = []
    at = 0
    while at < total:
        parts.append(wire.ask("output", outputId="s:1:o0", offset=at, length=total, unit=unit))
        assert parts[-1]["length"] > 0
        at += parts[-1]["length"]
    return parts


def test_output_slice_in_bytes(daemon: Running, wire: Wire) -> None:
    put(daemon, "eins\nzwölf\n".encode())

    assert wire.ask("output", outputId="s:1:o0", offset=5, length=3) == {
        "text": "zw",  # the third byte is half an ö
        "offset": 5,
        "length": 2,
        "total": 12,
        "unit": "bytes",
        "mimeType": "text/plain",
    }
    assert wire.ask("output", outputId="s:1:o0", offset=7)["text"] == "ölf\n"
    assert wire.ask("output", outputId="s:1:o0", offset=99)["text"] == ""


def test_output_slice_in_lines(daemon: Running, wire: Wire) -> None:
    put(daemon, b"one\ntwo\rstill two\n\nlast")

    part = wire.ask("output", outputId="s:1:o0", offset=1, length=2, unit="lines")

    assert (part["text"], part["offset"], part["length"], part["total"]) == ("two\rstill two\n\n", 1, 2, 4)
    assert wire.ask("output", outputId="s:1:o0", offset=3, unit="lines")["text"] == "last"
    assert wire.ask("output", outputId="s:1:o0", offset=4, unit="lines")["length"] == 0


def test_binary_output_is_base64(daemon: Running, wire: Wire) -> None:
    put(daemon, b"\x89PNG\xff", "image/png")

    part = wire.ask("output", outputId="s:1:o0")

    assert (part["b64"], part["length"], part["mimeType"]) == ("iVBOR/8=", 5, "image/png")


@pytest.mark.parametrize("body", [b"\x01" * 3_000_000, "ö".encode() * 1_500_000, bytes(range(256)) * 10_000])
def test_reply_is_at_most_a_mebibyte(daemon: Running, wire: Wire, body: bytes) -> None:
    put(daemon, body)
    parts = fetch(wire, "bytes", len(body))

    assert sum(part["length"] for part in parts) == len(body)
    wire.send("output", outputId="s:1:o0", length=len(body))
    assert len(wire.line()) <= MAX_REPLY + 200
    if "text" in parts[0]:
        assert "".join(part["text"] for part in parts).encode() == body


def test_lines_are_whole_in_every_reply(daemon: Running, wire: Wire) -> None:
    body = b"".join(b"%06d %s\n" % (number, b"\x02" * 1_000) for number in range(1_500))
    put(daemon, body)
    parts = fetch(wire, "lines", 1_500)

    assert len(parts) > 1
    assert "".join(part["text"] for part in parts).encode() == body


@pytest.mark.parametrize("tail", [b"", b"\nshort\n"])
def test_line_longer_than_a_reply_is_refused(daemon: Running, wire: Wire, tail: bytes) -> None:
    put(daemon, b"short\n" + b"x" * 2_000_000 + tail)

    assert wire.ask("output", outputId="s:1:o0", unit="lines", length=5)["text"] == "short\n"
    assert failure(wire, "output", outputId="s:1:o0", unit="lines", offset=1) == (
        "too-large",
        "line 1 alone is longer than a reply; request it in bytes",
    )


def test_unknown_output_is_not_found(daemon: Running, wire: Wire) -> None:
    put(daemon, b"one")

    for never in ("nope", "s:1:o7", "s:9:o0", "other:1:o0", "display-0123456789abcdef-00000000"):
        assert failure(wire, "output", outputId=never) == ("not-found", f"there is no output {never!r}")


def test_output_expires_with_its_event(daemon: Running, wire: Wire) -> None:
    piece = OutputChunk("s:1:o0", 0, b"one", "text/plain")
    daemon.commit(commit(piece, message("one"), lines=1, state="ended"))
    daemon.expire(before=wall_clock() + 1)

    assert failure(wire, "output", outputId="s:1:o0") == (
        "expired",
        "output 's:1:o0' has expired, and so has its event",
    )


def test_removed_body_is_named_and_its_event_kept(daemon: Running, wire: Wire) -> None:
    piece = OutputChunk("s:1:o0", 0, Random(1).randbytes(2_000_000), "text/plain")
    daemon.commit(commit(piece, message("one"), lines=1, state="ended"))
    daemon.expire(0, 1_000_000)

    assert wire.ask("event", seq=1)["event"]["text"] == "one"
    code, said = failure(wire, "output", outputId="s:1:o0")
    assert code == "expired"
    assert re.fullmatch(
        r"output 's:1:o0' was removed on [0-9-]{10} to keep the journal under 1,000,000 bytes \(retention_bytes\);"
        " its event is there",
        said,
    )


# -- the daemon ---------------------------------------------------------------------------------------------------


def test_stats(daemon: Running, wire: Wire) -> None:
    daemon.commit(commit(message("one"), message("two", "t"), stream="s"), commit(stream="t", state="ended"))
    subscriber = daemon.subscribe(after="now", filter={"kind": ["message"]})
    subscriber.until("live")
    stats = wire.ask("stats")

    assert stats["version"] == __version__
    assert stats["uptimeMs"] >= 0
    assert stats["socket"] == str(daemon.path)
    journal = stats["journal"]
    assert (journal["oldest"], journal["latest"], journal["commits"]) == (1, 2, 2)
    assert journal["bytes"] > 0
    assert stats["streams"] == {"open": 1, "suspended": 0, "ended": 1}
    assert {(one["stream"], one["state"], one["lines"]) for one in stats["perStream"]} == {
        ("s", "open", 1),
        ("t", "ended", 1),
    }
    assert stats["connections"] == {"open": 2, "publishing": 0}
    (one,) = stats["subscribers"]
    assert (one["after"], one["behind"], one["filter"]) == (2, False, {"kind": ["message"]})
    assert stats["limits"]["max_connections"] == 2_048
    assert stats["limits"]["stream"]["line_bytes"] == 64 * 1024 * 1024


def test_end_stream(daemon: Running, wire: Wire) -> None:
    publisher = daemon.connect()
    publisher.write(b'{"op":"ingest","stream":"s","framing":"tapped","dialect":"claude-stream"}\n')
    publisher.write(b'{"t":1700000000000,"dir":"out","line":"not JSON"}\n')
    publisher.until("ack")
    ended = wire.ask("end", stream="s")

    assert (ended["stream"], ended["lines"], ended["unparsed"]) == ("s", 1, 1)
    assert publisher.until("done")[-1]["lines"] == 1
    assert wire.ask("stats")["streams"]["ended"] == 1
    assert failure(wire, "end", stream="other") == ("not-found", "there is no stream 'other'")


def test_what_waits_for_a_person(daemon: Running, wire: Wire) -> None:
    about: dict[str, Any] = {"session": "asks", "provider": "claude"}
    daemon.commit(
        commit(
            event(SessionEvent, state="started", title="Deploy it", cwd="/src/shop", **about),
            call("c1", preview="make deploy", agent="helper", **about),
            event(
                PermissionRequest,
                permission_id="p",
                type="permission",
                call_id="c1",
                name="Bash",
                title="make deploy",
                options=[{"id": "a", "name": "Allow", "kind": "allow_once"}],
                agent="helper",
                ts=7_000,
                **about,
            ),
        ),
        commit(call("c1", "t", ts=1_000, session="works"), stream="t"),
        commit(
            event(Turn, "f", state="started", session="file"),
            call("c1", "f", ts=1_000, preview="make", session="file"),
            stream="f",
            followed=True,
        ),
    )
    certain = {
        "session": "asks",
        "title": "Deploy it",
        "project": "/src/shop",
        "cwd": "/src/shop",
        "provider": "claude",
        "stream": "s",
        "seq": 3,
        "permissionId": "p",
        "type": "permission",
        "callId": "c1",
        "name": "Bash",
        "callTitle": "make deploy",
        "preview": "make deploy",
        "options": [{"id": "a", "name": "Allow", "kind": "allow_once"}],
        "since": 7_000,
        "agent": "helper",
        "whyNot": "its tap sends nothing to the agent: answer in the agent's own window, and start the agent with"
        " `tooltap proxy --answers -- COMMAND` to answer here",
    }
    assert wire.ask("waiting")["complete"] is True
    assert wire.ask("waiting", provider=["claude"])["waiting"] == [certain]
    assert wire.ask("waiting", session=["works"])["waiting"] == []
    [first, second] = wire.ask("waiting")["waiting"]
    assert first == certain
    assert (second["session"], second["preview"], second["certain"]) == ("file", "make", False)
    assert "`tooltap hooks install`" in second["whyNot"]
    assert wire.ask("waiting", mayAfter=2**53)["waiting"] == [certain]


def test_what_waits_on_some_hosts(daemon: Running, wire: Wire) -> None:
    for host, session in ((None, "mine"), ("box", "box/theirs")):
        about: dict[str, Any] = {"stream": session, "session": session, "host": host}
        asks = event(PermissionRequest, permission_id="p", type="permission", call_id="c", name="Bash", **about)
        daemon.commit(commit(call("c", **about), asks, stream=session))

    def found(*hosts: str) -> list[tuple[str, str | None]]:
        given = {"host": hosts} if hosts else {}
        return [(one["session"], one.get("host")) for one in wire.ask("waiting", **given)["waiting"]]

    mine, theirs = ("mine", None), ("box/theirs", "box")
    assert found() == found(".", "box") == [mine, theirs]
    assert (found("."), found("box"), found("lab")) == ([mine], [theirs], [])
