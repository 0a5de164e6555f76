"""JSON objects printed over several lines, and streams stored as one array."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from tests.normalizers.dialects.gemini.helpers import RECORDED, WRITTEN
from tests.normalizers.reading import FIXTURES, emitted, outline, recording
from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Context, Limits, Produced
from tooltap.normalizers.dialects.gemini.parser import GeminiChat
from tooltap.normalizers.stream.normalizer import AUTO, Output, StreamNormalizer
from tooltap.normalizers.wire.decode import beginning
from tooltap.protocol.events import Event, Message, Unparsed
from tooltap.testing import Line, check_recording, read_recording

DOCUMENT = {"sessionId": "a", "projectHash": 'b"]}', "messages": [{"id": "m", "n": [1, {}]}, {}], "x": None}


def test_beginning_of_document_is_completed() -> None:
    lines = json.dumps(DOCUMENT, indent=2).encode().split(b"\n")

    assert beginning(lines[:1]) == {}
    assert beginning(lines[:3]) == {"sessionId": "a", "projectHash": 'b"]}'}
    assert beginning(lines[:6]) == {"sessionId": "a", "projectHash": 'b"]}', "messages": [{"id": "m"}]}
    assert beginning(lines) == DOCUMENT


def test_lines_without_document_give_nothing() -> None:
    assert beginning([]) is None
    assert beginning([b'{"a": 1}']) is None
    assert beginning([b"{", b"  code: 403,", b"}"]) is None
    assert beginning([b"{", b'  "a": "cut']) is None
    assert beginning([b"[", b"  'a',", b"]"]) is None


def test_noise_before_document_is_skipped() -> None:
    assert beginning([b"Loading", b"", b"{", b'  "a": 1,']) == {"a": 1}


def test_any_indentation_and_line_end_is_accepted() -> None:
    for text in (json.dumps(DOCUMENT, indent="\t"), json.dumps(DOCUMENT, indent=8).replace("\n", "\r\n")):
        assert beginning(text.encode().split(b"\n")) == DOCUMENT


def test_oversized_document_is_abandoned() -> None:
    lines = [line.data for line in recording("gemini-chat", "document.json", WRITTEN)]
    parser = GeminiChat(Context(stream="s", limits=Limits(line_bytes=1_000)))

    found = [item for line in lines if isinstance(line, bytes) for item in emitted(parser.feed(line)[1])]

    assert isinstance(found[0], Unparsed)
    assert found[0].reason == "truncated"
    assert parser.state.documents.lines == []


def test_line_dialect_ignores_documents() -> None:
    """A Node process that prints an object is noise in a stream of lines."""
    normalizer = StreamNormalizer(Context(stream="s"), "gemini-stream")
    for line in (b"{", b"  code: 403,", b"}"):
        normalizer.feed(line)

    assert normalizer.statistics.unparsed == 3


def test_auto_chooses_only_document_dialects() -> None:
    line = recording("gemini-stream", "read", RECORDED)[0].data
    assert isinstance(line, bytes)
    normalizer = StreamNormalizer(Context(stream="s"))

    for part in json.dumps(orjson.loads(line), indent=2).encode().split(b"\n"):
        normalizer.feed(part)

    assert normalizer.dialect is None


# -- arrays -----------------------------------------------------------------------------------------------------------


def objects_of(path: Path) -> list[object]:
    found: list[object] = []
    for line in read_recording(path.read_bytes()):
        try:
            value = orjson.loads(line.data if isinstance(line.data, bytes) else b"")
        except orjson.JSONDecodeError:
            continue
        found += [value] if isinstance(value, dict) else []
    return found


SMALLEST = {
    dialect: min((FIXTURES / dialect).rglob("*.jsonl"), key=lambda path: (path.stat().st_size, path))
    for dialect, described in builtin().items()
    if described.recognises_text is None and dialect != "cline-tasks"  # whose documents are arrays themselves
}
LAYOUTS: dict[str, Callable[[list[object]], str]] = {
    "one line": json.dumps,
    "a line each": lambda values: "[\n" + ",\n".join(map(json.dumps, values)) + "\n]",
    "two spaces": lambda values: json.dumps(values, indent=2),
    "tabs, CRLF, BOM": lambda values: "\ufeff" + json.dumps(values, indent="\t").replace("\n", "\r\n"),
}


def events(outputs: list[Output]) -> list[Event]:
    return [output.event for output in outputs if isinstance(output, Produced)]


def run(dialect: str, lines: list[bytes]) -> tuple[StreamNormalizer, list[Event]]:
    normalizer = StreamNormalizer(Context(stream="s"), dialect)
    outputs = [output for line in lines for output in normalizer.feed(line)]
    return normalizer, events(outputs + normalizer.close("end"))


def without_position(event: Event) -> dict[str, Any]:
    """An event without fields that depend on its line number."""
    numbered = ("id", "line", "replaces", "outputs", "attachments")
    return {key: value for key, value in msgspec.to_builtins(event).items() if key not in numbered}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dialect", SMALLEST)
def test_array_gives_the_events_of_its_lines(dialect: str, layout: str) -> None:
    values = objects_of(SMALLEST[dialect])
    _, wanted = run(dialect, [orjson.dumps(value) for value in values])
    lines = LAYOUTS[layout](values).encode().split(b"\n")

    if layout == "two spaces":
        found = check_recording(dialect, [Line(line) for line in lines], Context(stream="s"))
    else:
        _, found = run(dialect, lines)

    assert [without_position(event) for event in found] == [without_position(event) for event in wanted]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dialect", [dialect for dialect in SMALLEST if dialect != "legacy"])
def test_auto_recognises_the_dialect_of_an_array(dialect: str, layout: str) -> None:
    lines = LAYOUTS[layout](objects_of(SMALLEST[dialect])).encode().split(b"\n")
    normalizer, _ = run(AUTO, lines)

    assert normalizer.dialect == dialect
    assert normalizer.statistics.lines == len(lines)


def test_bus_snapshot_is_read_per_event() -> None:
    lines = read_recording((FIXTURES / "opencode-bus/opencode-written/snapshot.json").read_bytes())
    found = check_recording("opencode-bus", lines)

    assert outline(found) == [
        "session",
        "turn started",
        "message user",
        "tool-call Bash",
        "tool-result Bash completed",
        "message assistant",
        "usage",
        "turn completed",
    ]
    assert [event.text for event in found if isinstance(event, Message)] == [
        "Print two lines",
        "Printed {\n  two }\n] lines.",
    ]


def test_truncated_array_gives_complete_objects() -> None:
    whole = (FIXTURES / "opencode-bus/opencode-written/snapshot.json").read_bytes().split(b"\n")
    normalizer, found = run("opencode-bus", whole[:150])

    assert "tool-call Bash" in outline(found)
    assert [event.reason for event in found if isinstance(event, Unparsed)] == ["truncated"]
    assert normalizer.statistics.lines == 150


def test_truncated_object_loses_only_itself() -> None:
    whole = (FIXTURES / "opencode-bus/opencode-written/snapshot.json").read_bytes().split(b"\n")
    title = whole.index(b'        "title": "New session",')
    _, found = run("opencode-bus", whole[:title] + whole[whole.index(b"  {", title) :])

    assert [event.reason for event in found if isinstance(event, Unparsed)] == ["truncated"]
    told_otherwise = ("session", "unparsed")
    rest, wanted = (
        [one for one in outline(events) if one not in told_otherwise]
        for events in (found, run("opencode-bus", whole)[1])
    )
    assert rest == wanted


def test_oversized_object_in_array_is_abandoned() -> None:
    lines = LAYOUTS["two spaces"](objects_of(SMALLEST["gemini-stream"])).encode().split(b"\n")
    normalizer = StreamNormalizer(Context(stream="s", limits=Limits(line_bytes=50)), "gemini-stream")
    found = events([output for line in lines for output in normalizer.feed(line)])

    assert isinstance(found[0], Unparsed)
    assert len(normalizer.dump()) < 2_000


def test_array_like_noise_is_unparsed_per_line() -> None:
    """A Node process that prints an array, between the lines of a stream."""
    line = orjson.dumps(objects_of(SMALLEST["gemini-stream"])[0])
    normalizer, found = run("gemini-stream", [b"[", b"  'a',", b"  'b'", b"]", line])

    assert normalizer.statistics.unparsed == 3
    assert normalizer.statistics.skipped == {"blank": 1}
    assert not isinstance(found[-1], Unparsed)


def test_array_of_unknown_objects_is_unparsed_per_line() -> None:
    lines = json.dumps([{"step": number, "note": "x" * 50} for number in range(1_000)], indent=2).encode().split(b"\n")
    normalizer, _ = run(AUTO, lines)

    assert normalizer.dialect is None
    assert normalizer.statistics.unparsed == len(lines)


def test_auto_holds_long_object_within_its_limit() -> None:
    """The output of `claude -p --output-format json --verbose | jq` starts with a list of tools."""
    init = {"type": "system", "subtype": "init", "tools": [f"Tool{number}" for number in range(100)]}
    lines = json.dumps([{**init, "session_id": "s", "uuid": "u"}], indent=2).encode().split(b"\n")
    normalizer, found = run(AUTO, lines)

    assert normalizer.dialect == "claude-stream"
    assert normalizer.statistics.unparsed == 0
    assert found[0].line == len(lines) - 1


def test_objects_of_an_array_have_separate_scopes() -> None:
    used = {"type": "tool_use", "id": "toolu_1", "name": "Task", "input": {}}
    common = {"session_id": "s"}
    spawn = {"type": "assistant", "message": {"content": [used]}, "parent_tool_use_id": None, **common}
    child = {"type": "assistant", "message": {"content": [{"type": "text", "text": "in"}]}, **common}
    _, found = run(
        "claude-stream",
        [orjson.dumps([spawn, {**child, "parent_tool_use_id": "toolu_1"}, {"type": "result", **common}])],
    )

    assert {event.agent for event in found} == {None, "toolu_1"}
    assert found[-1].agent is None
