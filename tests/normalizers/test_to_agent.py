"""What recorded clients wrote to their agents, and what tooltap would have written in their place.

For every request in the recordings that a client answered, the answer is taken from the events, worded for the agent,
and compared with what the client wrote. Then the client's line is replaced by it: the events must be the same.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest

from tests.normalizers.reading import FIXTURES
from tooltap.normalizers.catalog.registry import builtin, parser_class
from tooltap.normalizers.core.answers import CannotWriteError, Chosen, NotOfferedError
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.answers import response_key
from tooltap.testing import Line, read_recording

ANSWERED = ("acp", "claude-stream", "codex-app-server", "kimi-json", "opencode-bus")
CAN = {name for name in builtin() if parser_class(name).word_answer is not Parser.word_answer}
"""Dialects that have a way back to the agent."""
RECORDINGS = sorted(
    path
    for dialect in ANSWERED
    for path in (FIXTURES / dialect).glob("*/*.jsonl")
    if b'"dir":"in"' in path.read_bytes().replace(b'": "', b'":"')
)


class Answered(NamedTuple):
    """A request that a client answered."""

    before: bytes
    """State before the answer."""
    request: dict[str, Any]
    response: dict[str, Any]
    """The event of the client's answer."""
    line: Line
    """The client's answer."""


def answered(dialect: str, lines: list[Line]) -> list[Answered]:
    normalizer = StreamNormalizer(Context(stream="s"), dialect)
    open_requests: dict[str, dict[str, Any]] = {}
    found = []
    for line in lines:
        before = normalizer.dump() if line.direction == "in" and open_requests else b""
        for event in events_of(normalizer, line):
            if event["kind"] == "permission-request":
                open_requests[event["permissionId"]] = event
            elif event["kind"] == "permission-response":
                request = open_requests.pop(event["permissionId"], None)
                if request is not None and before and not event.get("synthetic"):
                    found.append(Answered(before, request, event, line))
    return found


def events_of(normalizer: StreamNormalizer, line: Line) -> list[dict[str, Any]]:
    outputs = normalizer.feed(line.data, line.t, line.direction)
    return [orjson.loads(one.body) for one in outputs if isinstance(one, Produced)]


def chosen(response: dict[str, Any]) -> Chosen:
    """The choice that an answer shows."""
    answers = response.get("answers")
    if isinstance(answers, dict):  # Codex repeats the form on the wire
        answers = {key: one.get("answers", one) if isinstance(one, dict) else one for key, one in answers.items()}
    return Chosen(
        id="a1",
        outcome=response["outcome"],
        option_id=response.get("optionId"),
        answers=answers,
        message=response.get("message"),
    )


def meant(value: Any) -> Any:
    """A client's line without what means nothing: members that are empty."""
    if isinstance(value, dict):
        return {key: meant(one) for key, one in value.items() if one is not None}
    return value


def test_page_lists_the_dialects_that_have_a_way_back() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "dialects.md").read_text()
    section = page.partition("## The way back")[2].partition("\n\nAll other dialects")[0]
    cells = [row.split(" | ")[0] for row in section.splitlines() if row.startswith("| `")]

    assert {name for cell in cells for name in re.findall(r"`([\w-]+)`", cell)} == CAN


@pytest.mark.parametrize("dialect", [name for name in builtin() if name not in CAN])
def test_any_other_dialect_says_in_a_sentence_why_it_has_none(dialect: str) -> None:
    normalizer = StreamNormalizer(Context(stream="s"), dialect)

    with pytest.raises(CannotWriteError, match="no way back to an agent"):
        normalizer.prompt("s", "go on", "p1")
    with pytest.raises(CannotWriteError, match="no way back to an agent"):
        normalizer.interrupt("s", "i1")


@pytest.mark.parametrize("dialect", ANSWERED)
def test_recordings_have_answers(dialect: str) -> None:
    paths = [path for path in RECORDINGS if path.parent.parent.name == dialect]

    assert any(answered(dialect, read_recording(path.read_bytes())) for path in paths)


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_recorded_answers_are_worded_alike(path: Path) -> None:
    check(path.parent.parent.name, read_recording(path.read_bytes()))


def check(dialect: str, lines: list[Line]) -> int:
    """Check one recording; returns the number of its answers. Answers that were not offered are refused."""
    found = answered(dialect, lines)
    for one in found:
        normalizer = StreamNormalizer.load(one.before, Context(stream="s"))
        offered = {option["id"] for option in one.request.get("options", ())}
        if offered and one.response.get("optionId") not in offered:
            with pytest.raises(NotOfferedError):
                normalizer.answer(one.request, chosen(one.response))
            continue
        written = normalizer.answer(one.request, chosen(one.response))
        assert isinstance(one.line.data, bytes)
        stated = orjson.loads(one.line.data)
        body = orjson.loads(written.line)
        if written.path is not None:
            body = {"POST": written.path, "body": body}
        assert meant(body) == meant(stated)
        assert written.answers == response_key(stated)
        (again,) = [
            event
            for event in events_of(normalizer, one.line._replace(data=orjson.dumps(body)))
            if event["kind"] == "permission-response"
        ]
        assert again == one.response
    return len(found)
