"""The prompt that a publisher knows becomes one message of the user, at the start of the stream."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer

FIXTURES = Path(__file__).parents[2] / "fixtures"
PROMPT = "What the agent was asked."
SILENT = sorted(name for name, dialect in builtin().items() if not dialect.shows_prompts)
"""Dialects that never show a prompt."""
RECORDED = [
    pytest.param(name, path, id=f"{name}-{path.parent.name}-{path.stem}")
    for name in SILENT
    for path in sorted((FIXTURES / name).glob("*/*.jsonl"))
]


def events_of(
    lines: Sequence[bytes], dialect: str, prompt: str | None, *, reload: bool = False
) -> list[dict[str, Any]]:
    """The events of a stream. `reload`: its state is dumped and loaded after every line."""
    context = Context(stream="s", prompt=prompt)
    normalizer = StreamNormalizer(context, dialect)
    outputs = []
    for line in lines:
        outputs += normalizer.feed(line)
        if reload:
            known = Context(stream="s", prompt=prompt if normalizer.needs_prompt else None)
            normalizer = StreamNormalizer.load(normalizer.dump(), known)
    outputs += normalizer.close("end")
    return [json.loads(one.body) for one in outputs if isinstance(one, Produced)]


def is_prompt(event: dict[str, Any]) -> bool:
    return event["kind"] == "message" and event["role"] == "user" and "agent" not in event


@pytest.mark.parametrize(("dialect", "path"), RECORDED)
def test_stream_that_lacks_the_prompt_gets_it(dialect: str, path: Path) -> None:
    lines = path.read_bytes().splitlines()
    without = events_of(lines, dialect, None)
    events = events_of(lines, dialect, PROMPT)
    prompts = [event for event in events if is_prompt(event)]

    if any(is_prompt(event) for event in without):  # a bidirectional recording
        assert [one["text"] for one in prompts if one["text"] == PROMPT] in ([], [PROMPT])
        return
    assert [one["text"] for one in prompts] == [PROMPT]
    at = events.index(prompts[0])
    assert {one["kind"] for one in events[:at]} <= {"session", "notice", "turn", "unparsed"}
    assert events[:at] + events[at + 1 :] == without
    turns = [one for one in events if one["kind"] == "turn"]
    assert prompts[0].get("turn") == (turns[0]["turn"] if turns else None)
    assert prompts[0]["session"] == next(one["session"] for one in [*events[at + 1 :], *events[:at]])
    assert events_of(lines, dialect, PROMPT, reload=True) == events


@pytest.mark.parametrize(
    ("dialect", "recording"),
    [
        ("gemini-stream", "gemini-0.61.0/api-error"),
        ("vibe-json", "vibe-3.0.2/api-error"),
        ("pi-json", "pi-0.73.1/edit"),
        ("copilot-json", "copilot-1.0.102/api-error"),
        ("cursor-stream", "cursor-written/session"),
    ],
)
def test_stream_that_shows_a_prompt_is_left_alone(dialect: str, recording: str) -> None:
    lines = (FIXTURES / dialect / f"{recording}.jsonl").read_bytes().splitlines()

    assert events_of(lines, dialect, PROMPT) == events_of(lines, dialect, None)


def claude(kind: str, **fields: Any) -> bytes:
    return json.dumps({"type": kind, "session_id": "1", "uuid": "u", "parent_tool_use_id": None, **fields}).encode()


INIT = claude("system", subtype="init", model="m", tools=[])
REPLAYED = claude("user", message={"role": "user", "content": PROMPT})
OTHER = claude("user", message={"role": "user", "content": "Something else."})
ANSWER = claude("assistant", message={"id": "m1", "role": "assistant", "content": [{"type": "text", "text": "Yes."}]})


def test_shown_all_the_same_it_is_there_once() -> None:
    texts = [one["text"] for one in events_of([INIT, REPLAYED, ANSWER], "claude-stream", PROMPT) if is_prompt(one)]

    assert texts == [PROMPT]


def test_later_prompts_are_others() -> None:
    events = events_of([INIT, ANSWER, OTHER, REPLAYED, ANSWER], "claude-stream", PROMPT)

    assert [one["text"] for one in events if is_prompt(one)] == [PROMPT, "Something else.", PROMPT]


def test_stream_that_ends_at_once_has_it() -> None:
    assert [one["text"] for one in events_of([b'{"type":"x"}'], "auto", PROMPT) if is_prompt(one)] == [PROMPT]


def test_partials_change_nothing() -> None:
    """Whether a subscriber wants them must not change ids."""
    lines = (FIXTURES / "copilot-json/copilot-1.0.102/api-error.jsonl").read_bytes().splitlines()
    context = Context(stream="s", prompt=PROMPT, partials=True)
    normalizer = StreamNormalizer(context, "copilot-json")
    outputs = [one for line in lines for one in normalizer.feed(line)] + normalizer.close("end")
    events = [json.loads(one.body) for one in outputs if isinstance(one, Produced) and not one.partial]

    assert events == events_of(lines, "copilot-json", PROMPT)


def test_partials_leave_the_prompt_where_it_is() -> None:
    """The line that ends a thought begins a message of the user."""

    def chunk(kind: str, text: str) -> bytes:
        update = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
        return json.dumps({"method": "session/update", "params": {"update": update}}).encode()

    lines = [chunk("agent_thought_chunk", "Hm."), chunk("user_message_chunk", "Go on.")]
    found = []
    for partials in (False, True):
        normalizer = StreamNormalizer(Context(stream="s", prompt=PROMPT), "acp")
        normalizer.want_partials(partials)
        outputs = [one for line in lines for one in normalizer.feed(line)] + normalizer.close("end")
        found.append([one.body for one in outputs if isinstance(one, Produced) and not one.partial])

    assert found[0] == found[1]
    assert [event["text"] for event in map(json.loads, found[0]) if is_prompt(event)] == [PROMPT, "Go on."]
