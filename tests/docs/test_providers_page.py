"""docs/reference/providers.md says how each dialect's events arrive and what they leave out; the recordings agree."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import pytest

from tests.docs.pages import DOCS
from tests.same_task import FIXTURES
from tooltap.daemon.show.skins.display import display_of
from tooltap.normalizers.catalog.registry import dialects
from tooltap.normalizers.core.items import Context
from tooltap.protocol.display import DisplayEvent, DisplaySession, DisplayText, DisplayToolUse
from tooltap.protocol.events import Event, Message, PermissionRequest, Reasoning, ToolResult, Usage
from tooltap.testing import normalize, read_recording

PAGE = (DOCS / "reference" / "providers.md").read_text()
REPORTS: dict[str, Callable[[Event], bool]] = {
    "prompts": lambda event: isinstance(event, Message) and event.role == "user",
    "reasoning": lambda event: isinstance(event, Reasoning),
    "permission requests": lambda event: isinstance(event, PermissionRequest),
    "tokens": lambda event: isinstance(event, Usage) and event.input_tokens is not None,
    "cost": lambda event: isinstance(event, Usage) and event.cost_usd is not None,
}


class Row(NamedTuple):
    tapped_with: str
    arrives: str
    left_out: str


ROWS = {
    cells[1].strip(" `"): Row(*(cell.strip() for cell in cells[2:5]))
    for cells in (line.split("|") for line in PAGE.splitlines() if line.startswith("| `"))
}


@cache
def events_of(dialect: str) -> list[list[Event]]:
    """Of every recording, with previews."""
    paths = [path for path in sorted((FIXTURES / dialect).glob("*/*")) if path.suffix != ".md"]
    context = Context(stream="recording", partials=True)
    return [normalize(dialect, read_recording(path.read_bytes()), context) for path in paths]


def shown(events: list[Event]) -> list[tuple[int, DisplayEvent]]:
    """(line, what it shows)"""
    return [(event.line, one) for event in events if (one := display_of(event)) is not None]


def test_every_dialect_has_a_row() -> None:
    assert set(ROWS) == set(dialects())


@pytest.mark.parametrize("dialect", dialects())
def test_page_says_where_the_models_view_is_unknown(dialect: str) -> None:
    """Of background work that ends without a word to the model, nothing need be said."""
    events = [event for events in events_of(dialect) for event in events]
    results = [one for one in events if isinstance(one, ToolResult) and not one.synthetic and not one.final]
    assert all((one.assistant_view is None) is (one.model_view is not None) for one in results)
    if any(one.assistant_view == "unknown" for one in results):
        assert "what the model saw" in ROWS[dialect].left_out


@pytest.mark.parametrize("dialect", dialects())
def test_recordings_lack_what_is_left_out(dialect: str) -> None:
    events = [event for run in events_of(dialect) for event in run]
    stated = ROWS[dialect].left_out.partition(";")[0].split(", ")

    assert stated == ["–"] or set(stated) <= set(REPORTS)
    assert not [name for name in stated if name in REPORTS and any(map(REPORTS[name], events))]


@pytest.mark.parametrize("dialect", dialects())
def test_text_is_streamed_exactly_where_stated(dialect: str) -> None:
    pieces = any(isinstance(one, DisplayText) and one.partial for run in events_of(dialect) for _, one in shown(run))

    if ROWS[dialect].arrives != "recorded":
        assert pieces == ("streams text" in ROWS[dialect].arrives)


APIS = ["anthropic-messages", "gemini-api", "openai-chat", "openai-responses"]


@pytest.mark.parametrize("dialect", APIS)
def test_us5_openai_compatible_servers_answer_in_one_burst(dialect: str) -> None:
    assert ROWS[dialect].arrives.startswith("one burst")
    assert [name for name, row in ROWS.items() if "burst" in row.arrives and "gateway" in row.tapped_with] == APIS
    assert "- **one burst**: everything in a response arrives at once, when the HTTP response is complete" in PAGE


def test_us5_response_emits_all_display_events_at_once() -> None:
    """Line 2 of this recording is one HTTP response with a text and a call."""
    path = FIXTURES / "openai-chat" / "openai-written" / "agent.jsonl"
    events = normalize("openai-chat", read_recording(path.read_bytes()))
    of_response = [type(one) for line, one in shown(events) if line == 2]

    assert of_response == [DisplaySession, DisplayText, DisplayToolUse]
