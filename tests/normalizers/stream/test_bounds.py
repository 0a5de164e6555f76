"""No string and no event exceeds its bound; an output body holds the whole."""

import itertools
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tooltap.normalizers.core.items import Limits, OutputChunk, Produced
from tooltap.normalizers.stream.bounds import bound
from tooltap.protocol.events import Display, Message, ModelView, SessionEvent, ToolCall, ToolResult, ViewBlock, decode

ENVELOPE: dict[str, Any] = {
    "v": 2,
    "id": "s:1:0",
    "stream": "s",
    "line": 1,
    "session": "s",
    "protocol": "p",
    "provider": "p",
    "dialect": "d",
}
META = {"_happy": {"v": 2}, "_raw": {}}


def run(event: Any, **limits: int) -> tuple[dict[str, Any], list[OutputChunk]]:
    numbers = itertools.count()
    produced, pieces = bound(Produced.of(event), Limits(**limits), lambda: f"o{next(numbers)}")
    assert decode(produced.body) == produced.event
    return orjson.loads(produced.body), pieces


def result(output: dict[str, Any]) -> ToolResult:
    return ToolResult(**ENVELOPE, call_id="c", name="Bash", output=output, status="completed", is_error=False)


def test_short_event_is_unchanged() -> None:
    event = Produced.of(Message(**ENVELOPE, role="user", text="hi"))

    produced, pieces = bound(event, Limits(), lambda: "never")

    assert produced is event
    assert pieces == []


def test_long_string_is_cut_at_code_point() -> None:
    text = "a\n" + "é" * 100

    data, (piece,) = run(result({"stdout": text, "exit_code": 0, **META}), string_bytes=101)

    assert data["output"]["stdout"] == "a\n" + "é" * 49
    assert data["output"]["exit_code"] == 0
    assert piece.data.decode() == text
    assert data["outputs"] == {
        "/output/stdout": {"outputId": "o0", "bytes": 202, "lines": 2, "mimeType": "text/plain"},
    }


def test_pointers_escape_keys() -> None:
    data, _ = run(result({"a/b~c": [{"": "x" * 300}], **META}), string_bytes=200)

    assert list(data["outputs"]) == ["/output/a~1b~0c/0/"]


def test_many_small_values_become_a_json_body() -> None:
    items = [{"n": n} for n in range(1_000)]

    data, (piece,) = run(result({"matches": items, "count": 1_000, **META}), string_bytes=500, event_bytes=4_000)

    assert len(orjson.dumps(data)) <= 4_000
    assert orjson.loads(piece.data) == items
    assert data["outputs"]["/output/matches"]["mimeType"] == "application/json"
    assert data["output"]["count"] == 1_000


def test_no_more_is_moved_out_than_must() -> None:
    output = {"short": "s" * 3_000, "long": "l" * 9_000, "middle": "m" * 4_000}

    data, (piece,) = run(result({**output, **META}), string_bytes=10_000, event_bytes=10_000)

    assert piece.data == b"l" * 9_000
    assert (data["output"]["short"], data["output"]["middle"]) == (output["short"], output["middle"])


def test_many_keys_become_one_body() -> None:
    output = {f"k{n}": n for n in range(1_000)}

    data, (piece,) = run(result({**output, **META}), string_bytes=500, event_bytes=4_000)

    assert len(orjson.dumps(data)) <= 4_000
    assert orjson.loads(piece.data) == {**output, **META}
    assert data["output"] == {"_happy": META["_happy"]}
    assert data["outputs"]["/output"]["mimeType"] == "application/json"


def test_list_field_stays_a_list() -> None:
    servers = [{"name": f"server-{n}"} for n in range(1_000)]
    event = SessionEvent(**ENVELOPE, state="started", mcp_servers=servers)

    data, (piece,) = run(event, string_bytes=500, event_bytes=4_000)

    assert data["mcpServers"] == []
    assert orjson.loads(piece.data) == servers
    assert data["outputs"]["/mcpServers"]["mimeType"] == "application/json"


def test_string_cut_twice_has_one_body() -> None:
    output = {f"k{n}": "x" * 9_000 for n in range(10)}

    data, pieces = run(result({**output, **META}), string_bytes=8_000, event_bytes=20_000)

    assert len(orjson.dumps(data)) <= 20_000
    assert [len(piece.data) for piece in pieces] == [9_000] * 10


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.dictionaries(st.text(max_size=5), st.text(max_size=300) | st.lists(st.text(max_size=50)), max_size=8))
def test_cut_event_can_be_restored(output: dict[str, Any]) -> None:
    output = {key: value for key, value in output.items() if key not in META}

    data, pieces = run(result({**output, **META}), string_bytes=100, event_bytes=100_000)

    bodies = {piece.output_id: piece.data.decode() for piece in pieces}
    for pointer, ref in data.get("outputs", {}).items():
        container, *path = data, *(part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:])
        *above, last = path
        for part in above:
            container = container[int(part) if isinstance(container, list) else part]
        container[int(last) if isinstance(container, list) else last] = bodies[ref["outputId"]]
    data["output"].pop("_happy"), data["output"].pop("_raw")
    assert data["output"] == output


def test_ids_and_names_that_are_too_long_stay_the_same_in_every_event() -> None:
    long = "é" * 40_000
    ids = ENVELOPE | {"session": long}
    happy = {"_happy": {"v": 2, "rawToolName": long, "canonicalToolName": long}, "_raw": {}}
    call = ToolCall(**ids, call_id=f"{long}2", name=long, input=happy, status="running")
    answer = ToolResult(**ids, call_id=f"{long}2", name=long, output=happy, status="completed", is_error=False)

    (first, _), (second, pieces) = run(call), run(answer)

    short = first["session"]
    assert (short[:1_000], len(short)) == ("é" * 1_000, 1_017)
    assert first["callId"] not in (short, f"{long}2")
    for name in ("session", "callId", "name"):
        assert second[name] == first[name]
    assert first["input"]["_happy"] == {"v": 2, "rawToolName": short, "canonicalToolName": short}
    assert pieces == []


def test_what_the_schema_describes_stays_an_object() -> None:
    """A view with many blocks, and a display, in an event that is too large because it has very many keys."""
    view = ModelView(blocks=[ViewBlock(text="x" * 60) for _ in range(64)])
    event = result({f"key {number}": number for number in range(50_000)} | META)
    event.model_view, event.display = (
        view,
        Display(origin="rule", output_id="o", type="text", mime_type="text/plain", text="shown"),
    )

    data, pieces = run(event, event_bytes=100_000)

    assert len(data["modelView"]["blocks"]) == 64
    assert data["display"]["text"] == "shown"
    assert [piece.mime_type for piece in pieces] == ["application/json"]
