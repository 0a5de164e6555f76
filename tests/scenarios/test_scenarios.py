"""The events of the recordings say what their scenarios mean; and a wrong name, a lost thought or a doubled call is
seen."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import orjson
import pytest

from tests.normalizers.reading import FIXTURES
from tests.scenarios.check import Miss, held, misses
from tests.scenarios.exceptions import EXCEPTIONS
from tests.scenarios.table import SCENARIOS
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import encode
from tooltap.testing import normalize, read_recording

NOT_AN_AGENT = frozenset({"curated", "display-tools", "hooks", "legacy", "tooltap-trace"})
MARK = re.compile(rb"\[\[(S\w+)\]\]")
OF_STEM = {
    "api-error": "S19",
    "control-denied": "S14",
    "edit": "S3",
    "interrupted": "S17",
    "mcp": "S13",
    "picture": "S20",
    "shell-fails": "S5",
    "todos": "S8",
    "unicode": "S18",
    "web": "S9",
    "write": "S2",
}
"""What files are called whose stream does not have the prompt."""


def scenario_of(path: str, data: bytes) -> str | None:
    """The scenario of a recording; None if it has several, or one without a script."""
    marks = {mark.decode() for mark in MARK.findall(data)}
    if len(marks) > 1:
        marks.discard("S12sub")
    stem = path.rsplit("/", 1)[1].removesuffix(".jsonl")
    mark = marks.pop() if len(marks) == 1 else OF_STEM.get(stem) if not marks else None
    return mark if mark in SCENARIOS else None


def recordings() -> dict[str, str]:
    """Path below the fixtures -> scenario."""
    found = {}
    for path in sorted(FIXTURES.rglob("*.jsonl")):
        name = path.relative_to(FIXTURES).as_posix()
        if name.split("/")[0] in NOT_AN_AGENT or name.split("/")[1].endswith("-written"):
            continue
        mark = scenario_of(name, path.read_bytes())
        if mark is not None:
            found[name] = mark
    return found


RECORDINGS = recordings()


def events_of(name: str) -> list[dict[str, Any]]:
    lines = read_recording((FIXTURES / name).read_bytes())
    return [orjson.loads(encode(one)) for one in normalize(name.split("/")[0], lines, Context(stream="s"))]


def missed(name: str, events: list[dict[str, Any]]) -> list[Miss]:
    mark = RECORDINGS[name]
    found = misses(SCENARIOS[mark], mark, events, held((FIXTURES / name).read_bytes()))
    return [one for one in found if not _is_excepted(name, one)]


def _is_excepted(name: str, miss: Miss) -> bool:
    return any(
        re.fullmatch(one.path, name) and re.fullmatch(one.about, miss.about) and re.search(one.what, miss.what)
        for one in EXCEPTIONS
    )


@pytest.mark.parametrize("name", RECORDINGS)
def test_events_say_what_the_scenario_means(name: str) -> None:
    assert missed(name, events_of(name)) == []


def test_each_dialect_and_most_scenarios_have_a_recording() -> None:
    dialects = {name.split("/")[0] for name in RECORDINGS}
    assert len(dialects) >= 14
    assert len(set(RECORDINGS.values())) >= 25


def test_each_exception_is_needed() -> None:
    for excepted in EXCEPTIONS:
        found = [
            miss
            for name, mark in RECORDINGS.items()
            if re.fullmatch(excepted.path, name)
            for miss in misses(SCENARIOS[mark], mark, events_of(name), held((FIXTURES / name).read_bytes()))
            if re.fullmatch(excepted.about, miss.about) and re.search(excepted.what, miss.what)
        ]
        assert found, excepted


# -- a check that cannot fail is none -----------------------------------------------------------------------------

READ = "vibe-json/vibe-3.0.2/read.jsonl"
FAILS = "claude-transcript/claude-code-2.1.330/shell-fails.jsonl"
THINKS = "codex-mcp/codex-0.120/reasoning-edit.jsonl"


def first(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    return next(one for one in events if one["kind"] == kind)


def rename(events: list[dict[str, Any]]) -> None:
    for one in events:
        if one.get("name") == "Read":
            one["name"] = "Edit"


def double(events: list[dict[str, Any]]) -> None:
    again = deepcopy([one for one in events if one["kind"] in ("tool-call", "tool-result")])
    events += [{**one, "callId": "again"} for one in again]


def lose(kind: str) -> Callable[[list[dict[str, Any]]], None]:
    def change(events: list[dict[str, Any]]) -> None:
        events.remove(next(one for one in events if one["kind"] == kind and one.get("role") != "user"))

    return change


def put(kind: str, **values: Any) -> Callable[[list[dict[str, Any]]], None]:
    def change(events: list[dict[str, Any]]) -> None:
        first(events, kind).update(values)

    return change


def say_twice(events: list[dict[str, Any]]) -> None:
    events.insert(0, next(one for one in events if one["kind"] == "message" and one["role"] == "assistant"))


def cancel(events: list[dict[str, Any]]) -> None:
    events[-1 - [one["kind"] for one in reversed(events)].index("turn")]["state"] = "cancelled"


@pytest.mark.parametrize(
    ("name", "change", "about"),
    [
        (READ, rename, "call"),
        (READ, double, "call"),
        (READ, lose("message"), "text"),
        (READ, say_twice, "text"),
        (READ, lose("tool-call"), "call"),
        (READ, lose("tool-result"), "result"),
        (READ, put("tool-result", output={}), "output"),
        (READ, put("tool-call", input={"file_path": "src/other.py"}), "call"),
        (READ, cancel, "end"),
        (READ, put("message", role="assistant"), "prompt"),
        (THINKS, lose("reasoning"), "thought"),
        (FAILS, put("tool-result", status="completed"), "status"),
        (FAILS, put("tool-result", output={"stdout": "partial output\nboom: something broke"}), "exit-code"),
    ],
)
def test_altered_events_are_missed(name: str, change: Callable[[list[dict[str, Any]]], None], about: str) -> None:
    events = events_of(name)
    change(events)

    assert about in {miss.about for miss in missed(name, events)}
