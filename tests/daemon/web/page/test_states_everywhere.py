"""What the page says of each call is what the journal knows of it: whatever is filtered, and on every page of any
length. The journal has recordings of several agents, some of which were cut off in the middle."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.daemon.events import commit
from tests.daemon.web.browsing import Browser, browsed, socket_lines
from tests.daemon.web.page.reading import Element, shown
from tooltap.daemon.journal.interface import Commit
from tooltap.daemon.web.page.timeline import STATES
from tooltap.normalizers.core.items import Context, Produced
from tooltap.testing import normalize, read_recording

FIXTURES = Path(__file__).parents[3] / "fixtures"
RECORDINGS = {
    "claude-stream": (
        *(f"claude-code-2.1.330/{name}" for name in ("shell-fails", "denied", "subagents-parallel", "subagent-async")),
        *(f"claude-code-2.1.330/{name}" for name in ("interrupted", "grep", "background-shell", "parallel-calls")),
        "claude-code-1.0.128/subagent",
    ),
    "codex-exec": ("codex-0.169/*",),
    "acp": ("gemini-0.61.0/*", "claude-agent-acp-0.100.0/*"),
}
PAGES = (2, 7, 50)
"""Most events of a page, of one daemon each."""
TOGETHER = 3
"""Events of one stream that follow each other."""
OPEN = {"pending", "running", "awaiting-permission"}
OF_CALLS = ("tool-call", "tool-update", "tool-result", "permission-request", "permission-response")
KINDS = (*OF_CALLS, "message", "turn", "usage", "session", "notice")
TEXTS = ("", "greet", "src", "exit", "the", "a", "not there at all", "ä")
TOOLS = ("Bash", "Read", "Grep", "Task", "Edit")


class Journaled(NamedTuple):
    browsers: dict[int, Browser]
    """By the length of a page."""
    states: dict[str, str]
    """Key of a call -> its state after all events of the journal."""
    asked: frozenset[int]
    """`seq` of requests for permission that have no answer."""
    latest: int


def recordings() -> Iterator[tuple[str, Path]]:
    for dialect, names in RECORDINGS.items():
        for name in names:
            for path in sorted((FIXTURES / dialect).glob(f"{name}.jsonl"))[:4]:
                yield dialect, path


def commits() -> Iterator[Commit]:
    """Yield the events of each recording, once whole and some times only to an event of a kind, each in a stream of its
    own: a few of one stream, then a few of the next, so that a call and its result are often far apart."""
    streams: list[list[Produced]] = []
    for number, (dialect, path) in enumerate(recordings()):
        for end in ("", "tool-call", "permission-request", "permission-response"):
            context = Context(stream=f"{number} to {end}", session=f"session-{number}-{end}")
            events = [Produced.of(one) for one in normalize(dialect, read_recording(path.read_bytes()), context)]
            ends = [at for at, one in enumerate(events) if one.kind == end]
            if ends or not end:
                streams.append(events[: ends[-1] + 1] if end else events)
    for at in range(0, max(map(len, streams)), TOGETHER):
        for events in streams:
            if part := events[at : at + TOGETHER]:
                yield commit(*part, stream=part[0].event.stream, base=at // TOGETHER)


def truth(lines: list[bytes]) -> tuple[dict[str, str], frozenset[int]]:
    """Return the state of each call, and which requests wait, after these events."""
    states: dict[str, str] = {}
    asked: dict[str, int] = {}
    waits: dict[int, None] = {}
    for event in map(json.loads, lines):
        key = f"{event['stream']} {event.get('callId')}"
        if event["kind"] == "permission-request":
            asked[f"{event['stream']} {event['permissionId']}"] = event["seq"]
            waits[event["seq"]] = None
        elif event["kind"] == "permission-response":
            waits.pop(asked.get(f"{event['stream']} {event['permissionId']}", 0), None)
        if event["kind"] == "tool-result" and not event.get("async"):
            states[key] = event["status"]
        elif event["kind"] == "tool-call" or states.get(key, "ended") in OPEN:
            states[key] = after(event) or states.get(key, "")
    return states, frozenset(waits)


def after(event: dict[str, Any]) -> str | None:
    """Return the state of an open call after an event about it; None if that is as before."""
    match event["kind"]:
        case "tool-call" | "tool-update":
            return event.get("status")
        case "permission-request":
            return "awaiting-permission"
        case "permission-response":
            return "running" if event["outcome"] in ("allowed", "answered") else None
    return None


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Journaled]:
    with ExitStack() as stack:
        browsers: dict[int, Browser] = {}
        for cards in PAGES:
            daemon, browsers[cards] = stack.enter_context(browsed(tmp_path_factory.mktemp("web"), {"cards": cards}))
            daemon.commit(*commits())
        lines = socket_lines(daemon)
        states, asked = truth(lines)
        assert {*OPEN, "completed", "failed", "denied"} - {*states.values()} <= {"pending"}
        yield Journaled(browsers, states, asked, len(lines))


def some(values: Sequence[str]) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(values), max_size=3, unique=True)


@settings(max_examples=250, deadline=None)
@given(
    cards=st.sampled_from(PAGES),
    place=st.sampled_from(["", "before", "after", "at"]),
    share=st.floats(0, 1),
    wanted=st.fixed_dictionaries(
        {
            "kind": some(KINDS),
            "tool": some(TOOLS),
            "state": some(STATES),
            "text": st.sampled_from(TEXTS),
            "path": st.sampled_from(["/events", "/cards"]),
        }
    ),
)
@example(cards=2, place="after", share=0.0, wanted={"kind": ["tool-update"], "path": "/events"})
@example(cards=2, place="after", share=0.0, wanted={"kind": ["permission-request"], "path": "/events"})
@example(cards=7, place="at", share=0.3, wanted={"kind": ["tool-call"], "path": "/events"})
def test_no_call_looks_other_than_it_is(
    journal: Journaled, cards: int, place: str, share: float, wanted: dict[str, Any]
) -> None:
    query = {name: value for name, value in wanted.items() if value and name != "path"}
    path = wanted["path"]
    if place and not (path == "/cards" and place == "at"):
        query[place] = round(share * (journal.latest + 1))

    page = shown(journal.browsers[cards], f"{path}?{urlencode(query, doseq=True)}")

    for card in page.all("article", class_="card"):
        check(journal, card)


def check(journal: Journaled, card: Element) -> None:
    """Check what a card says of the state of its call. Of what happened before, a call keeps what it was."""
    about = card.attributes
    kinds = set(about["class"].split())
    status = about.get("data-status", "")
    if "tool-call" in kinds:
        assert status == journal.states[about["data-call"]], about
    elif not is_inside(card) and "tool-update" in kinds and status in OPEN:
        assert status == journal.states[about["data-into"]], about
    elif not is_inside(card) and "permission-request" in kinds:
        assert (status == "asked") == (int(about["data-seq"]) in journal.asked), about


def is_inside(card: Element) -> bool:
    return card.parent is not None and "data-slot" in card.parent.attributes
