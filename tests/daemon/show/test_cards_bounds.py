"""Cards of unexpected payloads, of search patterns, and of megabytes: all are bounded."""

from __future__ import annotations

from functools import partial

import pytest

from tests.daemon.show.carding import card_of, made, result
from tests.steps import steps
from tooltap.daemon.show.blocks import CallOfResult, Level, RenderContext
from tooltap.daemon.show.shown import fragment_of
from tooltap.daemon.show.skins.html import article


def test_unknown_keys_are_shown_once_at_level_full() -> None:
    output = {"stdout": "x", "exit_code": 0, "exitCode": 0, "output": "x", "sandbox": {"network": False}}

    assert not card_of(result("Bash", output)).all(".left-over")
    assert card_of(result("Bash", output), "full").one(".left-over").text == "sandboxnetworkfalse"


def test_value_of_wrong_type_is_a_tree() -> None:
    for level in ("summary", "full"):
        card = card_of(made("tool-call", callId="c", name="MultiEdit", status="running", input={"edits": "x"}), level)
        assert card.one("dl.tree").text == "editsx"


def test_tree_is_bounded() -> None:
    card = card_of(result("Unknown", {"values": list(range(5_000))}), "full")

    assert card.texts(".more")[-1] == "3,001 more values"
    assert len(card_of(result("Unknown", {"values": list(range(5_000))})).all("li")) == 11


def test_deep_nesting_ends_as_json() -> None:
    deep: object = "the end"
    for _ in range(200):
        deep = {"in": [deep]}

    assert '{"in":[{"in":[' in card_of(result("Unknown", {"deep": deep}), "full").raw


@pytest.mark.parametrize("pattern", ["(a+)+$", "[", "\\", "*", "(?P<", "a{999999999}", "x|y", "$", "(((((((", "\x00"])
def test_search_pattern_is_never_run(pattern: str) -> None:
    hits = {"matches": [{"filePath": "a", "line": 1, "excerpt": "a" * 5_000 + "!"}] * 50}
    call = CallOfResult("Grep", {"pattern": pattern}, "")

    assert card_of(result("Grep", hits), "full", call).texts(".linenos")[0] == "1"


@pytest.mark.parametrize(
    ("pattern", "marked"),
    [
        ("greet", ["greet"]),
        ("def greet|class \\w+", ["def greet"]),
        ("greet\\(", ["greet("]),
        ("gre+et", []),
        ("\\bname\\b", ["name"]),
        ("de.*name", ["name"]),
    ],
)
def test_literal_parts_of_pattern_are_marked(pattern: str, marked: list[str]) -> None:
    hits = {"matches": [{"filePath": "a.py", "line": 4, "excerpt": "def greet(name):"}]}
    card = card_of(result("Grep", hits), "summary", CallOfResult("Grep", {"pattern": pattern}, ""))

    assert card.texts("mark") == marked


@pytest.mark.parametrize(
    ("name", "payload"),
    [
        ("Edit", {"old_string": "a\n" * 10_000, "new_string": "b\n" * 10_000}),
        ("Edit", {"old_string": "x" * 1_000_000, "new_string": "y" * 1_000_000}),
        ("Diff", {"unified_diff": "--- a\n+++ a\n@@ -1,10000 +1,10000 @@\n" + "-a b c\n+a b d\n" * 10_000}),
        ("Write", {"content": "[ " * 500_000, "file_path": "a.md"}),
        ("Write", {"content": ("(" * 490 + "\n") * 130, "file_path": "a.py"}),
        ("Patch", {"changes": {f"{n}.py": {"type": "add", "content": "x"} for n in range(2_000)}}),
        ("MultiEdit", {"edits": [{"old_string": "a b c\n" * 300, "new_string": "a b d\n" * 300}] * 50}),
        ("Bash", {"command": "x" * 1_000_000}),
    ],
)
def test_megabyte_takes_bounded_time(name: str, payload: dict[str, object]) -> None:
    event = made("tool-call", callId="c", name=name, status="running", input=payload)
    bounds: tuple[tuple[Level, int], ...] = (("summary", 1_500_000), ("full", 4_000_000))

    def html(level: Level) -> str:
        fragment = fragment_of(event, RenderContext(level, lambda output_id: None))
        assert fragment is not None
        return article(fragment)

    for level, most in bounds:
        assert steps(partial(html, level)) < most
    assert len(html("summary")) < 30_000
