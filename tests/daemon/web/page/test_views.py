"""The three views of an event, compared: the same where they are the same, and where they differ, what differs."""

from __future__ import annotations

import html
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import here
from tests.daemon.running import Running
from tests.daemon.show.carding import FIXTURES, made, recorded, result
from tests.daemon.web.browsing import Browser
from tests.daemon.web.page.reading import Element, shown
from tooltap.daemon.show.diff import between, near
from tooltap.daemon.show.tree import lines_of, texts_in
from tooltap.daemon.web.page.event import Views, views_of
from tooltap.protocol.events import Event, ToolResult, encode

FILES = sorted(path.relative_to(FIXTURES).as_posix() for path in FIXTURES.glob("claude-*/**/*.jsonl"))
TEXT = {"modelView": {"blocks": [{"text": "one\ntwo\n"}]}}


def views(event: Event) -> Views:
    found = views_of(json.loads(encode(event)))
    assert found is not None
    return found


def changed(pair: Any) -> list[str]:
    assert pair.change is not None
    return [f"{line.sign}{line.text}" for hunk in pair.change.hunks for line in hunk.lines if line.sign != " "]


def test_equal_texts_are_the_same() -> None:
    event = result("Bash", {"stdout": "one\ntwo\n", "_raw": {"content": "one\ntwo\n"}}, **TEXT)

    found = views(event)

    assert (found.with_user.verdict, found.with_user.sentence) == ("same", "Same as what the model saw.")
    assert (found.with_provider.verdict, found.with_provider.sentence) == (
        "same",
        "Same as what the model saw (content).",
    )


def test_what_only_the_model_saw_is_marked() -> None:
    hidden = {"modelView": {"differs": True, "blocks": [{"text": "one\ntwo\nhidden\n"}]}}
    event = result("Bash", {"stdout": "one\ntwo\n", "_raw": {"a": {"b": ["x", "one\n2\n"]}}}, **hidden)

    found = views(event)

    assert found.with_user.verdict == "differs"
    assert changed(found.with_user) == ["+hidden"]
    assert found.with_provider.sentence == "Differs from what the model saw (a.b[1])."
    assert changed(found.with_provider) == ["-2", "+two", "+hidden"]


def test_line_numbers_are_no_difference() -> None:
    blocks = [{"parts": [{"at": "/output/file/content", "numbers": {"first": 1, "mark": "\t"}}]}]
    event = result("Read", {"file": {"content": "a\nb"}, "_raw": {}}, modelView={"blocks": blocks})

    found = views(event)

    assert found.model is not None
    assert [block.text for block in found.model] == ["1\ta\n2\tb"]
    assert found.with_user.sentence == "Same as what the model saw, without the numbers of its lines."


@pytest.mark.parametrize("fields", [{"assistantView": "unknown"}, {"synthetic": True}])
def test_unknown_is_not_compared(fields: dict[str, Any]) -> None:
    found = views(result("Bash", {"stdout": "one", "_raw": {"content": "one"}}, **fields))

    assert found.model is None
    assert {found.with_user.verdict, found.with_provider.verdict} == {"unknown"}
    assert [block.text for block in found.user] == ["one"]


def test_silent_result_shows_the_user_nothing() -> None:
    found = views(result("Bash", {"stdout": "one\ntwo\n"}, silent=True, **TEXT))

    assert found.user == []
    assert found.with_user == ("differs", "Nothing: the result is not shown.", None)


def test_blocks_stay_blocks() -> None:
    blocks = [{"text": "a picture"}, {"type": "image", "outputId": "o", "mimeType": "image/png"}]
    event = result("Read", {"content": "a picture", "_raw": {}}, modelView={"blocks": blocks})

    found = views(event)

    assert found.model is not None
    assert [block.stored and block.stored.output_id for block in found.model] == [None, "o"]
    assert found.with_user == ("differs", "Only the model saw 1 image or file.", None)


def test_arguments_are_compared_by_value() -> None:
    call = {"callId": "c", "name": "Read", "status": "running"}
    same = made("tool-call", input={"path": "a", "_raw": {"function": {"arguments": '{"path": "a"}'}}}, **call)
    renamed = made(
        "tool-call", input={"file_path": "a", "limit": 2, "_raw": {"args": {"path": "a", "limit": 2}}}, **call
    )

    assert views(same).with_provider.sentence == "Same as what the model asked for (function.arguments)."
    found = views(renamed).with_provider
    assert (found.verdict, found.sentence) == ("form", "The provider names or writes it differently (args).")
    assert changed(found) == ["-path: a", "+file_path: a"]


def test_copy_that_is_cut_is_the_same_as_far_as_it_goes() -> None:
    text = "line\n" * 500
    raw = {"content": f"{text[:2_000]}…(truncated 500 chars)"}

    found = views(result("Bash", {"stdout": text, "_raw": raw}, modelView={"blocks": [{"text": text}]}))

    assert found.with_provider.verdict == "same"
    assert "as far as the event has a copy of it" in found.with_provider.sentence


def test_other_kinds_have_no_views() -> None:
    assert views_of(json.loads(encode(made("turn", state="started")))) is None
    assert views(made("message", role="user", text="hi")).with_user.verdict == "same"


@pytest.mark.parametrize("file", FILES)
def test_same_means_the_same_lines(file: str) -> None:
    """And so what the normalizer marks as different differs here, unless its lines are the same after all."""
    for event in recorded(file):
        if not isinstance(event, ToolResult) or event.model_view is None:
            continue
        found = views(event)
        assert found.model is not None
        seen, shown_ = ("\n".join(one.text for one in blocks).split() for blocks in (found.model, found.user))
        is_marked = event.model_view.differs or event.display is not None
        if is_marked and seen != shown_:
            assert found.with_user.verdict == "differs"
        if found.with_user.sentence.startswith("Same as what the model saw."):
            assert seen == shown_


def test_only_lines_near_changes_are_kept() -> None:
    old = "\n".join(map(str, range(100)))
    hunks, _ = between(old, old.replace("\n50\n", "\nfifty\n"))

    [kept] = near(hunks)

    assert kept.title == "47 lines are the same"
    assert [line.text for line in kept.lines] == ["47", "48", "49", "50", "fifty", "51", "52", "53"]


def test_call_that_a_rule_hides_is_not_what_the_user_sees() -> None:
    found = views(made("tool-call", callId="c", name="Glob", input={"pattern": "*"}, status="running", hidden=True))

    assert found.model is not None
    assert (found.model[0].text, found.user) == ("pattern: *", [])
    assert found.with_user.sentence == "Nothing: the call is not shown."


def test_rest_that_a_rule_cuts_off_is_counted() -> None:
    event = result("Bash", {"stdout": "one two"}, display={"origin": "rule", "text": "one", "cut": 4}, **TEXT)

    assert [one.text for one in views(event).user] == ["one", "… 4 bytes more"]


def test_payload_becomes_lines() -> None:
    payload = {"a": 1, "text": "x\ny\n", "list": [{"b": True}, "c"], "empty": {}, "_raw": {"no": 1}}

    assert lines_of(payload) == "a: 1\ntext:\n  x\n  y\nlist:\n  -\n    b: true\n  - c\nempty: {}"


def test_texts_of_content_blocks_are_also_joined() -> None:
    raw = {"content": [{"type": "text", "text": "a"}, {"type": "content", "content": {"text": "b"}}]}

    assert ("content", "ab") in texts_in(raw)


def section(page: Element, name: str) -> Element:
    return next(one for one in page.all("section") if one.attributes.get("id") == f"view-{name}")


def test_page_shows_the_difference_and_where_there_is_none(daemon: Running, browser: Browser) -> None:
    path = FIXTURES / "claude-stream" / "claude-code-2.1.330-written" / "hidden-in-read.jsonl"
    assert here("ingest", "--socket", daemon.path, "--dialect", "claude-stream", path).returncode == 0
    events = browser.get("/api/events?kind=tool-result").json["events"]
    seq = next(one["seq"] for one in events if one.get("modelView", {}).get("differs"))

    page = shown(browser, f"/events/{seq}")

    assert "HIDDEN INSTRUCTION" in section(page, "model").text
    user = section(page, "user")
    assert user.attributes["data-verdict"] == "differs"
    assert any("HIDDEN INSTRUCTION" in one.text for one in user.all("ins"))
    provider = section(page, "provider")
    assert provider.attributes["data-verdict"] == "same"
    assert not provider.all("ins")
    link = next(one for one in page.all("a") if one.attributes.get("id") == "in-timeline").attributes["href"]
    assert link == f"/sessions/{html.unescape(events[0]['session'])}?at={seq}#e{seq}"


def test_whole_of_a_cut_text_is_compared(daemon: Running, browser: Browser, tmp_path: Path) -> None:
    """The page reads output bodies; what is cut in the event is no difference."""
    path = FIXTURES / "claude-stream" / "claude-code-2.1.330-written" / "hidden-in-shell.jsonl"
    long = tmp_path / "long.jsonl"
    long.write_bytes(path.read_bytes().replace(b"benign", b"benign " * 30_000))
    assert here("ingest", "--socket", daemon.path, "--dialect", "claude-stream", long).returncode == 0
    events = browser.get("/api/events?kind=tool-result").json["events"]
    one = next(one for one in events if one.get("outputs"))

    page = shown(browser, f"/events/{one['seq']}")

    assert section(page, "user").attributes["data-verdict"] == "differs"
    assert any("HIDDEN" in each.text for each in section(page, "user").all("ins"))
    assert [link for link in page.all("a") if link.text.startswith("the whole: ")]
