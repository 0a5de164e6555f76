"""Cards of results and updates: what they share for all tools."""

from __future__ import annotations

from typing import Any

import pytest

from tests.daemon.show.carding import card_of, cards_of, made, recorded, result
from tests.daemon.web.parsed import Element, assert_inert
from tooltap.daemon.show.blocks import LEVELS, CallOfResult, RenderContext
from tooltap.daemon.show.shown import fragment_of
from tooltap.daemon.show.skins.html import article
from tooltap.protocol.events import ToolResult, ToolUpdate

DIFF = "--- a\n+++ b\n@@ -1 +1 @@\n-old\n+new\n"


def body(card: Element) -> str:
    return " ".join(card.texts(".body"))


def test_error_is_shown_at_levels_with_body() -> None:
    failed = result("Frobnicate", {"errorMessage": "no such file"}, status="failed", isError=True)
    for level in LEVELS[1:]:
        assert card_of(failed, level).one(".error").text == "no such file"
        assert card_of(failed, level).attributes["data-status"] == "failed"


def test_error_repeated_in_output_is_shown_once() -> None:
    output = {"text": "failed: testing", "errorMessage": "failed: testing"}
    card = card_of(result("mcp__fixture__fail", output, status="failed", isError=True), "full")
    assert body(card) == "failed: testing"


def test_silent_result_shows_a_note_only() -> None:
    card = card_of(result("WebFetch", {"text": "secret", "errorMessage": "oops"}, silent=True), "full")
    assert body(card) == "Silent: the user is shown nothing of this result."
    assert card.texts(".fact") == ["silent"]


def test_ask_result_is_shown_at_level_full() -> None:
    asked = result("WebFetch", {"text": "the page"}, ask=True)
    assert body(card_of(asked)) == "Shown when it is asked for."
    assert body(card_of(asked, "full")) == "the page"


def test_display_replaces_output() -> None:
    ended = result("WebFetch", {"text": "a long page"}, display={"origin": "rule", "text": "one line"})
    assert body(card_of(ended)) == "one line"
    full = card_of(ended, "full")
    assert full.one("p.note").text == "Shown as a rule of the configuration wants it."
    assert full.one("details").text == "what the model saw a long page"


def test_error_is_shown_with_display() -> None:
    display = {"origin": "rule", "text": "one line"}
    card = card_of(result("X", {"errorMessage": "not found"}, status="failed", isError=True, display=display), "full")
    assert card.texts(".error") == ["not found"]


def test_one_line_display_is_a_caption() -> None:
    search = next(
        card
        for event, card in cards_of(recorded("gemini-chat/gemini-0.61.0/web.jsonl"))
        if isinstance(event, ToolResult) and event.name == "WebSearch"
    )
    assert search.one("p.note").text == 'Search results for "fixture page answer" returned.'
    assert search.texts(".host") == ["127.0.0.1"]


def test_caption_repeating_the_error_is_left_out() -> None:
    display = {"origin": "provider", "text": "Error: not found"}
    card = card_of(result("X", {"errorMessage": "not found"}, status="failed", isError=True, display=display))
    assert body(card) == "not found"


def test_display_is_rendered_by_type() -> None:
    shown = {
        "text/x-diff": (DIFF, ".diff"),
        "text/markdown": ("*hey*", "em"),
        "application/json": ('{"a": 1}', "dl"),
        "text/plain": ("*hey*\nyou", "pre.text"),
    }
    for mime, (text, selector) in shown.items():
        card = card_of(result("X", {}, display={"origin": "rewriter", "text": text, "mimeType": mime}))
        assert card.all(selector), mime


def test_output_body_is_link_or_image() -> None:
    file = {"origin": "provider", "outputId": "o1", "mimeType": "text/x-python", "path": "app.py", "bytes": 26}
    card = card_of(result("X", {}, display=file))
    assert card.one("dd").text == "app.py"
    assert card.all("a")[1].attributes["href"] == "/api/outputs/o1"
    assert card.one("li").text == "attachment text/x-python, 26 bytes"
    picture = {"origin": "provider", "outputId": "o2", "mimeType": "image/png", "path": "logo.png", "bytes": 8}
    assert card_of(result("X", {}, display=picture)).one("img").attributes["alt"] == "logo.png"


def test_missing_output_body_is_reported() -> None:
    ended = result("X", {}, display={"origin": "provider", "outputId": "o1", "bytes": 26, "mimeType": "image/png"})
    fragment = fragment_of(ended, RenderContext("summary", lambda output_id: None))
    assert fragment is not None
    assert "not available" in article(fragment)
    assert "<img" not in article(fragment)


def test_result_flags_are_explained() -> None:
    special = {"async": "continues in the background", "final": "from the background", "synthetic": "inferred"}
    for key, words in special.items():
        assert card_of(result("X", {}, **{key: True})).texts(".fact") == [words]
        assert len(card_of(result("X", {}, **{key: True}), "full").all("p.note")) == 1
    unknown = card_of(result("X", {"text": "seen"}, assistantView="unknown"), "full")
    assert (
        unknown.one("p.note").text == "What the model saw is not known, because the agent's stream does not state it."
    )


@pytest.mark.parametrize(
    ("inferred", "fact", "sentence"),
    [
        (True, "replaces the inferred one", "The agent's own result, which replaces the inferred one."),
        (False, "corrects the one before", "The agent's own correction: a later line says how the call really ended."),
        (None, "replaces an earlier one", "Replaces an earlier result, which was inferred or is corrected."),
    ],
)
def test_result_says_what_it_replaces(inferred: bool | None, fact: str, sentence: str) -> None:
    event = result("X", {"text": "real"}, replaces="s:1c:0")
    context = RenderContext("full", lambda _: None, replaces_inferred=inferred)
    fragment = fragment_of(event, context)

    assert fragment is not None
    card = assert_inert(article(fragment)).one("article")
    assert card.texts(".fact") == [fact]
    assert card.texts("p.note") == [sentence]


def seen(*parts: Any, **view: Any) -> dict[str, Any]:
    return {"modelView": {"blocks": [{"parts": list(parts)}], **view}}


@pytest.mark.parametrize(
    ("wait", "facts"), [(None, ["1 m 15 s"]), (2_000, ["1 m 13 s"]), (60_000, ["waited 1 min", "15 s"])]
)
def test_wait_for_the_user_is_not_the_duration_of_the_call(wait: int | None, facts: list[str]) -> None:
    waits = {} if wait is None else {"waitMs": wait}
    ended = result("Frobnicate", {"text": "done"}, ts=76_000, **waits)

    assert card_of(ended, call=CallOfResult("Frobnicate", {}, "", 1_000)).texts(".fact") == facts


def test_hidden_text_is_marked_and_compared() -> None:
    shown = result("Bash", {"stdout": "benign"}, modelView={"blocks": [{"text": "benign\nHIDDEN"}], "differs": True})
    assert "model saw other text" in card_of(shown).texts(".fact")
    full = card_of(shown, "full")
    assert full.texts("ins.line") == ["+HIDDEN"]
    assert "HIDDEN" not in card_of(shown).text


def test_same_text_is_said_to_be_the_same() -> None:
    same = result("Bash", {"stdout": "a\n"}, **seen({"at": "/output/stdout"}))
    assert card_of(same).texts(".fact") == []
    assert "The model saw the same text." in card_of(same, "full").texts("p.note")
    numbers = {"first": 3, "mark": "\t"}
    read = result("Read", {"file": {"content": "a\nb"}}, **seen({"at": "/output/file/content", "numbers": numbers}))
    full = card_of(read, "full")
    assert "The model saw the same text, with line numbers." in full.texts("p.note")
    assert full.texts("pre.text") == ["3 a 4 b"]


def test_text_that_is_longer_than_the_event_is_said_to_be_its_beginning() -> None:
    reference = {"outputId": "o1", "bytes": 9_000, "lines": 1, "mimeType": "text/plain"}
    outputs = {"/modelView/blocks/0/text": reference}
    cut = result("X", {}, modelView={"blocks": [{"text": "yyy"}], "differs": True}, outputs=outputs)
    full = card_of(cut, "full")
    assert any(note.startswith("This is only the beginning") for note in full.texts("p.note"))
    assert "/api/outputs/o1" in [link.attributes["href"] for link in full.all("a")]


def test_display_that_the_model_did_not_see_is_marked() -> None:
    display = {"origin": "rule", "text": "short"}
    shown = result("Bash", {"stdout": "long"}, display=display, **seen({"at": "/output/stdout"}))
    assert "model saw other text" in card_of(shown).texts(".fact")


def test_attachments_are_shown_for_any_tool() -> None:
    found = cards_of(recorded("opencode-bus/opencode-1.18.33/picture.jsonl"))
    read = next(card for event, card in found if isinstance(event, ToolResult))
    assert read.one("img").attributes["src"] == "/api/outputs/s:21:o0"


def test_progress_belongs_to_its_call() -> None:
    path = "claude-transcript/claude-code-2.1.39-written/subagent-in-progress.jsonl"
    update = next(card for event, card in cards_of(recorded(path)) if isinstance(event, ToolUpdate) and event.progress)
    assert update.attributes["data-for"] == "live"
    assert update.one("pre.text").text == "one.ex"


def test_late_input_replaces_first() -> None:
    found = cards_of(recorded("acp/opencode-1.18.33/denied.jsonl"))
    update = next(card for event, card in found if isinstance(event, ToolUpdate))
    assert (update.attributes["data-for"], update.one(".preview").text) == ("input", "rm README.md")


def test_rewritten_display_belongs_to_output() -> None:
    update = made("tool-update", callId="c", name="X", display={"origin": "rewriter", "text": "# Short\n\nword"})
    card = card_of(update)
    assert (card.attributes["data-into"], card.attributes["data-for"]) == ("s c", "output")
    assert card.one("pre.text").text == "# Short word"


def test_invisible_update_has_no_card() -> None:
    update = made("tool-update", callId="c", name="X", status="awaiting-permission")
    assert fragment_of(update, RenderContext("full", str)) is None


def test_replayed_history_has_no_card() -> None:
    assert fragment_of(made("message", role="user", text="again", replay=True), RenderContext("full", str)) is None
