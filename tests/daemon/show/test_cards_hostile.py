"""Cards of markup, scripts, megabytes, deep nesting and wrong types: all is inert, balanced and bounded."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings

from tests.daemon.show.carding import ENVELOPE, card_of, made, result
from tests.daemon.show.hostile import HOSTILE, INPUT_KEYS, NESTED_KEYS, OUTPUT_KEYS, TOOL_NAMES, events, payloads
from tests.daemon.web.parsed import assert_inert
from tooltap.daemon.show.blocks import LEVELS, CallOfResult, Level, RenderContext
from tooltap.daemon.show.shown import fragment_of
from tooltap.daemon.show.skins.html import article
from tooltap.protocol.events import Event, decode


@settings(deadline=None)
@given(events, payloads(*INPUT_KEYS))
def test_any_event_renders_inert(fields: dict[str, Any], asked: dict[str, Any]) -> None:
    event = made(**fields)
    for level in LEVELS:
        call = CallOfResult(fields.get("name", ""), asked, "")
        fragment = fragment_of(event, RenderContext(level, lambda output_id: "/api/outputs/o", {}, call))
        if fragment is not None:
            assert_inert(article(fragment))


@pytest.mark.parametrize("name", TOOL_NAMES)
def test_hostile_text_in_any_key_stays_text(name: str) -> None:
    for text in HOSTILE:
        for value in (text, [text], [dict.fromkeys(NESTED_KEYS, text)], {text: text}):
            card_of(made("tool-call", callId=text, name=name, status="running", input=dict.fromkeys(INPUT_KEYS, value)))
            card_of(result(name, dict.fromkeys(OUTPUT_KEYS, value)), "full")


def test_script_link_is_text() -> None:
    card = card_of(made("message", role="assistant", text="[go](javascript:alert(1)) <b>bold</b>"))
    assert "javascript:alert(1)" in card.text
    assert "<b>bold</b>" in card.text
    assert card.one("a").classes == {"head"}


# -- bounds -------------------------------------------------------------------------------------------------------

MEGABYTE = "word <b> " * 116_000
SMALL = 30_000


@pytest.mark.parametrize(
    "event",
    [
        made("message", role="assistant", text=MEGABYTE),
        made("notice", level="error", code=MEGABYTE, text=MEGABYTE, data={"x": MEGABYTE}),
        made("turn", state="failed", reason=MEGABYTE),
        made("permission-request", permissionId="p", type="permission", title=MEGABYTE, options=[{"name": MEGABYTE}]),
        made("session", state="started", model=MEGABYTE, tools=[MEGABYTE] * 3),
        made("tool-call", callId="c", name="TodoWrite", status="running", input={"todos": [{"content": MEGABYTE}]}),
        result("Task", {"content": MEGABYTE}),
        result(
            "WebSearch", {"results": [{"url": f"https://e.org/{MEGABYTE}", "title": MEGABYTE, "snippet": MEGABYTE}]}
        ),
        result("mcp__a__b", {"text": MEGABYTE, "structuredContent": {MEGABYTE: MEGABYTE}}),
        result("X", {"errorMessage": MEGABYTE}, status="failed", isError=True),
    ],
    ids=lambda event: type(event).__name__,
)
def test_megabyte_is_small_below_level_full(event: Event) -> None:
    assert len(card_of(event).raw) < SMALL


def test_lists_are_cut() -> None:
    todos = [{"content": f"entry {n}", "status": "pending"} for n in range(3_000)]
    asked = made("tool-call", callId="c", name="TodoWrite", status="running", input={"todos": todos})
    card, full = card_of(asked), card_of(asked, "full")
    assert (len(card.all("li")), card.one("p.more").text) == (20, "2,980 more entries")
    assert card.one("p.count").text == "0 of 3,000 done"
    assert (len(full.all("li")), full.one("p.more").text) == (500, "2,500 more entries")


@pytest.mark.parametrize("level", ["summary", "full"])
def test_tree_is_cut_in_depth_and_size(level: Level) -> None:
    deep: Any = "bottom"
    for _ in range(200):
        deep = {"a": deep}
    assert len(card_of(result("Unknown", {"deep": deep}), level).all("dl")) <= 16
    wide = card_of(result("Unknown", {"list": list(range(100_000))}), level)
    assert len(wide.all("li")) <= 2_000
    assert wide.one("p.more").text == f"{100_000 - len(wide.all('li')):,} more values"


def test_too_deep_json_is_text() -> None:
    assert card_of(result("mcp__a__b", {"text": "[" * 100_000})).one("pre.text").text.startswith("[[[[")


@pytest.mark.parametrize(
    "bomb",
    [
        ">" * 5_000 + "end",
        "> " * 5_000 + "end",
        "- " * 5_000 + "end",
        "".join(f"{'  ' * n}- a\n" for n in range(99)) + "end",
    ],
    ids=["quotes", "spaced quotes", "lists in a line", "lists"],
)
def test_too_deep_markdown_loses_nothing(bomb: str) -> None:
    assert card_of(made("message", role="assistant", text=bomb), "full").text.endswith("end")


@pytest.mark.parametrize("bomb", ["[" * 60_000, "![" * 30_000, "a " * 40_000], ids=["brackets", "images", "long"])
def test_expensive_markdown_is_text(bomb: str) -> None:
    assert card_of(made("message", role="assistant", text=bomb), "full").all("pre.text")


def test_header_is_short() -> None:
    named = made("tool-call", callId="c", name="x" * 5_000, title="y" * 5_000, status="running", input={})
    assert len(card_of(named, "title").one("header").text) < 400


def test_huge_number_is_shown() -> None:
    line = orjson.dumps({**ENVELOPE, "kind": "tool-call", "callId": "c", "name": "X", "status": "running", "input": {}})
    event = decode(line.replace(b'"input":{}', b'"input":{"n":%s}' % (b"9" * 300)))
    assert card_of(event).one(".scalar").text == "9" * 300
