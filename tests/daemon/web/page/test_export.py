"""Exported pages: written incrementally, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest

from tests.daemon.show.carding import made, recorded, result
from tests.daemon.web.parsed import Element, parse
from tooltap.daemon.export import html as html_page
from tooltap.daemon.export.html import ExportedPage
from tooltap.daemon.export.source import Bodies, ExportedBody, body_ids
from tooltap.daemon.show.minimap import BARS
from tooltap.protocol.events import AnyEvent, ToolCall, decode, encode


def numbered(*events: AnyEvent) -> list[AnyEvent]:
    for seq, event in enumerate(events, 1):
        event.seq = seq
    return list(events)


def call(call_id: str) -> AnyEvent:
    return made("tool-call", callId=call_id, name="Task", status="running", input={"prompt": "go"})


def text(text: str, **fields: object) -> AnyEvent:
    return made("message", role="assistant", text=text, **fields)


def page() -> ExportedPage:
    return ExportedPage("title", level="summary", bodies=Bodies(100, 100))


def whole(events: Iterable[AnyEvent]) -> Element:
    exported = page()
    html = "".join(exported.add(event, {}) for event in events) + "".join(exported.end())
    return parse(html.partition("\n")[2])


def written(events: list[AnyEvent]) -> list[Element]:
    """Return the outermost cards."""
    return [one for one in whole(events).one("main").children if isinstance(one, Element)]


def shell(call_id: str, **fields: object) -> Iterator[AnyEvent]:
    yield made("tool-call", callId=call_id, name="Bash", status="running", input={"command": "make"}, **fields)
    yield result("Bash", {"stdout": "x" * 1_000}, callId=call_id)


def test_result_is_nested_while_call_is_held() -> None:
    events = numbered(call("c"), text("a"), result("Task", {"content": "done"}))
    assert [card.attributes["id"] for card in written(events)] == ["e1", "e2"]


def test_result_after_written_call_is_a_card_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_page, "HELD_CARDS", 1)
    events = numbered(call("c"), text("a"), result("Task", {"content": "done"}))
    cards = written(events)
    assert [card.attributes["id"] for card in cards] == ["e1", "e2", "e3"]
    assert [card.attributes.get("data-status") for card in cards] == [None, None, "completed"]


def test_call_without_result_is_running_at_the_end() -> None:
    (card,) = written(numbered(call("c")))
    assert card.attributes["data-status"] == "running"


def test_result_says_what_it_replaces() -> None:
    denied = {"status": "denied", "id": "s:3:0"}
    guessed = result("Task", {}, status="interrupted", id="s:2c:0", synthetic=True)
    corrected = numbered(call("c"), guessed, result("Task", {}, replaces="s:2c:0", **denied))
    stated = numbered(call("c"), result("Task", {}, id="s:2:0"), result("Task", {}, replaces="s:2:0", **denied))

    facts = [written(events)[0].texts(".fact") for events in (corrected, stated)]

    assert facts == [["replaces the inferred one"], ["corrects the one before"]]


def test_growing_card_is_written_eventually(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_page, "HELD_BYTES", 2_000)
    events = numbered(call("c"), *(text("word " * 20, parent="c", agent="c") for _ in range(40)))
    cards = written(events)
    assert cards[0].attributes["id"] == "e1"
    assert len(cards) > 1
    assert sum(len(card.all("article")) for card in cards) == 41


def test_html_is_written_incrementally(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(html_page, "HELD_CARDS", 1)
    exported = page()
    first, second, third = (exported.add(event, {}) for event in numbered(text("a"), text("b"), text("c")))
    assert first.startswith("<!doctype html>")
    assert '<article class="card message" id="e1"' in second
    assert '<article class="card message" id="e2"' in third


def test_html_body_is_an_untyped_download() -> None:
    event = text("see", attachments=[{"mimeType": "text/html", "outputId": "o", "bytes": 8}])
    [(output_id, size, mime_type)] = body_ids(event)
    assert (output_id, size, mime_type) == ("o", 8, "text/html")
    exported = page()
    html = exported.add(event, {"o": ExportedBody(b"<script>", mime_type)}) + "".join(exported.end())
    assert 'href="data:application/octet-stream;base64,PHNjcmlwdD4=" download' in html
    assert "<script" not in html


def test_bars_of_the_map_lead_to_events_of_the_file() -> None:
    recording = recorded("claude-stream/claude-code-2.1.330/subagents-parallel.jsonl")
    events = numbered(*(decode(encode(event)) for event in recording))
    exported = whole(events)

    anchors = {f"#{one.attributes['id']}" for one in exported.all("article")}
    links = [one.attributes["href"] for one in exported.one("svg").all("a")]

    calls = [f"#e{event.seq}" for event in events if isinstance(event, ToolCall)]
    assert len(exported.one("svg").all("g")) == 3, "a lane for the main agent, and one for each subagent"
    assert set(calls) <= set(links) <= anchors


def test_session_without_calls_has_no_map() -> None:
    exported = whole(numbered(text("a"), made("turn", state="started"), text("b")))

    assert exported.all("svg") == []
    assert len(exported.all("nav")) == 1


def test_map_of_a_long_session_is_bounded() -> None:
    calls = (event for number in range(2 * BARS) for event in shell(str(number), ts=number * 1_000))

    drawn = whole(numbered(*calls)).one("svg")

    assert 0 < len(drawn.all("a")) <= BARS
