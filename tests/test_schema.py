"""The published schema: it is fresh, valid for every recorded event, and only grows."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, get_args

import orjson
import pytest
from jsonschema import Draft202012Validator

from tests.cli.command import here, sentence
from tests.schema import FILES, SNAPSHOT, broken_promises
from tooltap.cli.schema.schema import write
from tooltap.normalizers.catalog.registry import dialects
from tooltap.normalizers.core.items import Context
from tooltap.protocol.events import AnyEvent, encode
from tooltap.protocol.filters import Filter
from tooltap.protocol.frames import (
    ClientFrame,
    DaemonFrame,
    Done,
    EventRequest,
    Gap,
    Ingest,
    Problem,
    Reply,
    Subscribe,
    encode_frame,
)
from tooltap.protocol.schema import Schema, definitions, json_schema
from tooltap.protocol.tools import TOOLS
from tooltap.testing import normalize, read_recording

FIXTURES = Path(__file__).parent / "fixtures"
PAYLOADS = {"tool-call": "input", "tool-update": "input", "tool-result": "output"}


@cache
def validator(name: str) -> Draft202012Validator:
    """Return a validator of one definition. The union of all events takes a dozen times as long."""
    return Draft202012Validator({**json_schema(), "$ref": f"#/$defs/{name}"})


DEFINITIONS = {str(kind.__struct_config__.tag): kind.__name__ for kind in get_args(AnyEvent)}


# -- valid --------------------------------------------------------------------------------------------------------


def test_schema_is_valid() -> None:
    Draft202012Validator.check_schema(json_schema())


def test_every_keyword_is_one_of_json_schema() -> None:
    """A strict validator refuses keywords that it does not know, such as those of OpenAPI."""
    known = set(Draft202012Validator.VALIDATORS) | {"$schema", "$id", "$defs", "title", "description", "default"}
    found: set[str] = set()
    waiting = [json_schema()]
    while waiting:
        schema = waiting.pop()
        found |= schema.keys()
        for key in ("properties", "$defs", "patternProperties"):
            waiting += schema.get(key, {}).values()
        for key in ("anyOf", "prefixItems"):
            waiting += schema.get(key, [])
        waiting += [one for key in ("items", "additionalProperties") if isinstance(one := schema.get(key), dict)]
    assert found <= known


def test_it_is_named_and_so_is_every_definition() -> None:
    schema = json_schema()

    assert schema["$id"] == "urn:tooltap:schema:2"
    assert [name for name, one in schema["$defs"].items() if one.get("title") != name] == []


@pytest.mark.parametrize("dialect", dialects())
def test_recorded_events_are_valid(dialect: str) -> None:
    seen = 0
    for path in sorted((FIXTURES / dialect).rglob("*.json*")):
        for event in normalize(dialect, read_recording(path.read_bytes()), Context(stream="s")):
            value = orjson.loads(encode(event))
            validator(DEFINITIONS[value["kind"]]).validate(value)
            if value["kind"] in PAYLOADS and value["name"] in TOOLS:
                side = PAYLOADS[value["kind"]]
                payload = getattr(TOOLS[value["name"]], "input" if side == "input" else "result").__name__
                validator(payload).validate(value.get(side, {}))
            seen += 1

    assert seen


@pytest.mark.parametrize(
    "frame",
    [
        Subscribe(after="start", filter=Filter(kind=("tool-call",)), follow=False),
        Ingest(stream="a/b~1", mcp_servers=("x",), from_=7),
        EventRequest(id="e", seq=5),
        Gap(from_=1, to=0, reason="reset"),
        Done(stream="s", dialect="acp", provider="gemini"),
        Reply(id=1, ok=False, error=Problem(code="not-found", message="there is no event 9")),
    ],
)
def test_frames_are_valid(frame: ClientFrame | DaemonFrame) -> None:
    value = orjson.loads(encode_frame(frame))

    validator("ClientFrame" if isinstance(frame, get_args(ClientFrame)) else "DaemonFrame").validate(value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("AnyEvent", {"kind": "message", "v": 2, "text": "no envelope"}),
        ("ClientFrame", {"op": "subscribe", "since": 1}),
        ("ClientFrame", {"op": "ingest", "stream": "a b"}),
        ("ClientFrame", {"op": "ingest", "stream": None}),
        ("DaemonFrame", {"op": "done", "stream": "s", "dialect": "acp", "provider": "gemini"}),
    ],
)
def test_invalid_values_are_rejected(name: str, value: Schema) -> None:
    assert not validator(name).is_valid(value)


def test_internals_are_left_out() -> None:
    text = json.dumps(json_schema())

    assert '"null"' not in text
    assert '"extra"' not in text
    assert "output_id" not in text  # names of the wire, also where docstrings use those of Python
    assert r"\\Z" not in text


def test_keys_have_their_docstrings() -> None:
    properties = json_schema()["$defs"]["ReadInput"]["properties"]

    assert properties["limit"] == {"type": "integer", "description": "Number of lines."}
    assert properties["file_paths"]["description"] == "Instead of `file_path`, if one call is about several files."


# -- fresh --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_generated_files_are_fresh(path: Path) -> None:
    assert path.read_text() == write(FILES[path]), "run `make schema`"


@pytest.mark.parametrize("form", FILES.values())
def test_command_prints_every_format(form: str) -> None:
    assert here("schema", "--format", form).stdout.decode() == write(form)


def test_unknown_format_is_refused() -> None:
    finished = here("schema", "--format", "xml")

    assert finished.returncode == 2
    assert "'xml' is not one of 'json-schema', 'typescript', 'markdown'" in sentence(finished)


def test_every_struct_is_on_the_page() -> None:
    headings = [line[4:] for line in write("markdown").splitlines() if line.startswith("### ")]

    assert sorted(headings) == sorted(definitions())


# -- growing ------------------------------------------------------------------------------------------------------


def test_committed_schema_only_grows() -> None:
    """`COMPATIBILITY` is the rule."""
    assert broken_promises(json.loads(SNAPSHOT.read_text()), json.loads(write("json-schema"))) == []


def changed(change: Callable[[dict[str, Any]], object]) -> list[str]:
    new = copy.deepcopy(json_schema())
    change(new["$defs"])
    return broken_promises(json_schema(), new)


@pytest.mark.parametrize(
    "addition",
    [
        lambda new: new.update(Verdict={"type": "object", "properties": {}, "required": []}),
        lambda new: new["AnyEvent"]["anyOf"].append({"$ref": "#/$defs/Verdict"}),
        lambda new: new["Usage"]["properties"].update(audioTokens={"type": "integer"}),
        lambda new: new["Statistics"]["required"].append("audio"),
        lambda new: new["ToolResult"]["properties"]["status"]["enum"].append("skipped"),
        lambda new: new["Subscribe"]["properties"].update(backwards={"type": "boolean", "default": False}),
        lambda new: new["Message"].update(description="Words."),
        lambda new: new["SessionsRequest"]["properties"]["limit"].update(maximum=1_000_000),
        lambda new: new["SearchRequest"]["properties"]["query"].pop("maxLength"),
    ],
)
def test_additions_are_allowed(addition: Callable[[dict[str, Any]], object]) -> None:
    assert changed(addition) == []


@pytest.mark.parametrize(
    ("change", "sentences"),
    [
        (lambda new: new.pop("Notice"), ["Notice is gone"]),
        (
            lambda new: new["SearchRequest"]["properties"]["query"].update(maxLength=10),
            ["SearchRequest.query: maxLength was 1000 and is 10"],
        ),
        (lambda new: new["AnyEvent"]["anyOf"].pop(0), ['AnyEvent: {"$ref": "#/$defs/SessionEvent"} is gone']),
        (lambda new: new["BashResult"]["properties"].pop("stdout"), ["BashResult.stdout is gone"]),
        (lambda new: new["Tools"]["properties"].pop("LS"), ["Tools.LS is gone"]),
        (
            lambda new: new["Turn"]["properties"].update(reason={"type": "integer"}),
            ['Turn.reason: type was "string" and is "integer"'],
        ),
        (
            lambda new: new["GlobResult"]["properties"]["matches"]["items"].update(type="integer"),
            ['GlobResult.matches: type was "string" and is "integer"'],
        ),
        (
            lambda new: new["Message"]["properties"]["role"]["enum"].remove("system"),
            ['Message.role: the value "system" is gone'],
        ),
        (
            lambda new: new["Turn"]["properties"].update(state={"type": "string"}),
            [
                'Turn.state: type was null and is "string"',
                *(
                    f'Turn.state: the value "{state}" is gone'
                    for state in ("cancelled", "completed", "failed", "started")
                ),
                'Turn.state: was {"enum": ["cancelled", "completed", "failed", "started"]} and is {"type": "string"}',
            ],
        ),
        (
            lambda new: new["Subscribe"]["properties"]["follow"].update(default=False),
            ["Subscribe.follow: default was true and is false"],
        ),
        (
            lambda new: new["ToolResult"]["required"].remove("isError"),
            ["ToolResult.isError was required and is not any more"],
        ),
        (lambda new: new["Ingest"]["required"].append("stream"), ["Ingest.stream was optional and is not any more"]),
        (
            lambda new: new["Subscribe"]["required"].append("token"),
            ["Subscribe.token is a new required key, which existing clients do not send"],
        ),
        (
            lambda new: new["SessionsRequest"]["properties"]["limit"].update(maximum=10),
            ["SessionsRequest.limit: maximum was 1000 and is 10"],
        ),
    ],
)
def test_broken_promises_are_named(change: Callable[[dict[str, Any]], object], sentences: list[str]) -> None:
    assert changed(change) == sentences
