"""The contract kit finds whatever a parser remembers beside its dump, and what was found in the built-in dialects."""

from __future__ import annotations

import functools
import itertools
from typing import Any

import pytest

from tests.normalizers.reading import lines_of, of, read
from tooltap.normalizers.catalog import registry
from tooltap.normalizers.catalog.dialect import Dialect
from tooltap.normalizers.core.items import Context, Limits, Produced
from tooltap.normalizers.core.lines import Line, Skip
from tooltap.normalizers.core.parser import Parser
from tooltap.normalizers.core.state import State
from tooltap.protocol.events import Message, ToolCall, ToolResult, Turn, Usage
from tooltap.testing import ContractError, check_framing, check_recording, check_survives, run, steps_of

HUGE = 2**64 - 1


class Forgetful(Parser):
    """A dialect whose lines all become the same notice; each test lets it remember something."""

    dialect = "forgetful"
    protocol = default_provider = "forgetful"
    count = 0

    def read(self, value: Line) -> Skip:
        self.notice("note", self.remembered(value))
        return None

    def remembered(self, value: Line) -> str:
        return ""


class InAnAttribute(Forgetful):
    def remembered(self, value: Line) -> str:
        self.count += 1
        return ""


class InAHelper(Forgetful):
    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        known: list[str] = []
        self.helper = functools.partial(lambda: known)

    def remembered(self, value: Line) -> str:
        self.helper().append("x")
        return ""


class InTheScopeOfTheLine(Forgetful):
    OF_LINE = frozenset({"count"})

    def remembered(self, value: Line) -> str:
        if "count" in value:
            self.count = value["count"]
        return str(self.count)


class InTheOrderOfATable(Forgetful):
    def __init__(self, context: Context, state: State | None = None) -> None:
        super().__init__(context, state)
        self.index = dict.fromkeys(sorted(self.state.texts.open))

    def remembered(self, value: Line) -> str:
        for key in "ba":
            self.texts.append("user", "x", key=key)
        self.index = dict.fromkeys(self.state.texts.open)
        return ""


class InItsLifetime(Forgetful):
    """No attribute shows it: how many lines were read since the parser was made."""

    def remembered(self, value: Line) -> str:
        read = _lines[id(self)] = _lines.get(id(self), 0) + 1
        return str(read)


_lines: dict[int, int] = {}


@pytest.mark.parametrize("parser", [InAnAttribute, InAHelper, InTheScopeOfTheLine, InTheOrderOfATable, InItsLifetime])
def test_what_is_not_in_the_dump_is_found(parser: type[Parser], monkeypatch: pytest.MonkeyPatch) -> None:
    _lines.clear()
    parsers = {"forgetful": parser}
    monkeypatch.setattr("tooltap.normalizers.stream.normalizer.parser_class", parsers.__getitem__)
    monkeypatch.setattr("tooltap.testing.parser_class", parsers.__getitem__)
    monkeypatch.setitem(registry.builtin(), "forgetful", _described())

    with pytest.raises(ContractError):
        check_survives("forgetful", lines_of(({"count": 1}, {}, {"count": 2}, {})))


def _described() -> Dialect:
    return Dialect("forgetful", "", lambda line: False, reads="", tapped_with="", arrives="", omits="")


def test_bytes_are_split_at_every_place() -> None:
    lines = [b'{"a":1}', b"", b"x", b"\xff\x00", b"y" * 30]
    data = b"\n".join(lines) + b"\n"
    for first in range(len(data) + 1):
        for second in range(first, len(data) + 1):
            check_framing(lines, (first, second), 100)


# -- what was found ---------------------------------------------------------------------------------------------------


def acp(kind: str, **update: Any) -> dict[str, Any]:
    return {"method": "session/update", "params": {"update": {"sessionUpdate": kind, **update}}}


def codex(msg: dict[str, Any], turn: str | None = None, request: int = 1) -> dict[str, Any]:
    params = {"_meta": {"requestId": request, "threadId": "T"}, "id": turn, "msg": msg}
    return {"jsonrpc": "2.0", "method": "codex/event", "params": params}


def test_codex_mcp_keeps_nothing_of_an_earlier_line() -> None:
    """The request and the turn of a line were those of the last line that stated them, but not after a reload."""
    asked = {"method": "tools/call", "id": 1, "params": {"arguments": {"prompt": "list"}}}
    begun = codex({"type": "session_configured", "session_id": "T"}, "7")
    params = {"threadId": "T", "codex_elicitation": "exec-approval", "codex_call_id": "c", "codex_command": ["ls"]}
    wanted = {"method": "elicitation/create", "id": 5, "params": params}
    failed = {"id": 1, "result": {"isError": True, "content": [{"type": "text", "text": "no"}]}}
    lines = (asked, begun, wanted, failed)
    for order in itertools.permutations(lines):
        check_recording("codex-mcp", lines_of((*order, begun, wanted)))


def test_qwen_ends_as_its_main_agent_whoever_had_the_last_line() -> None:
    lines = [
        {"type": "assistant", "message": {"content": [{"type": "tool_use", "id": "a"}]}},
        {"type": "result"},
        {"type": "assistant", "parent_tool_use_id": "b", "message": {"content": []}},
    ]
    check_recording("qwen-stream", lines_of(tuple(lines)))


def test_a_turn_whose_oldest_call_has_ended_is_found_after_a_reload() -> None:
    """There was no room for the first call of the first turn; a later one of that turn is open."""
    lines = [acp("tool_call", toolCallId=one) for one in ("a", "b", "c", "d")]
    for number, session in enumerate("xyxx"):
        lines[number]["params"]["sessionId"] = session
    check_recording("acp", lines_of(tuple(lines)), Context(stream="s", limits=Limits(open_calls=3)))


def test_a_duration_without_end_is_no_duration() -> None:
    ended = codex({"type": "exec_command_end", "call_id": "a", "duration": {"secs": HUGE, "nanos": 1}})
    for first in ({"type": "raw_response_item"}, {"type": "exec_command_begin", "call_id": "a", "command": ["ls"]}):
        check_recording("codex-mcp", lines_of((codex(first), ended)))


def output(message: dict[str, Any], kind: str = "assistant", **keys: Any) -> dict[str, Any]:
    return {"role": "agent", "content": {"type": "output", "data": {"type": kind, "message": message, **keys}}}


def stored(payload: dict[str, Any]) -> dict[str, Any]:
    return {"role": "agent", "content": {"type": "acp", "provider": "gemini", "data": payload}}


def test_a_stored_decision_has_no_scope_but_its_own() -> None:
    decided = {"type": "tool_result", "tool_use_id": "a", "permissions": {"date": 1, "result": "denied"}}
    call = {"content": [{"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}}]}
    lines = (output(call, sessionId="other", isSidechain=True), output({"content": [decided]}, "user"))
    check_recording("legacy", lines_of((*lines, *lines)))


def test_calls_of_a_stored_agent_and_of_its_transcript_are_different_calls() -> None:
    used = {"content": [{"type": "tool_use", "id": "a", "name": "Bash", "input": {"command": "ls"}}]}
    answered = {"content": [{"type": "tool_result", "tool_use_id": "a", "content": "x"}]}
    lines = (
        stored({"type": "tool-call", "callId": "a", "name": "read", "input": {"file_path": "f"}}),
        output(used),
        output(answered, "user"),
        stored({"type": "tool-result", "callId": "a", "output": "y"}),
        stored({"type": "tool-call", "callId": "b", "name": "read", "input": {"file_path": "f"}}),
        output({"content": [{"type": "tool_result", "tool_use_id": "b", "content": "z"}]}, "user"),
    )
    found = check_recording("legacy", lines_of(lines))
    assert [(call.call_id, call.name) for call in of(ToolCall, found)][:2] == [("a", "Read"), ("t1/a", "Bash")]
    assert [result.call_id for result in of(ToolResult, found)][:2] == ["t1/a", "a"]


def test_a_session_that_only_the_transcript_names_is_that_of_all_lines() -> None:
    lines = (stored({"type": "thinking", "text": "look"}), output({"content": []}, sessionId="S"))
    found = check_recording("legacy", lines_of(lines))
    assert {turn.session for turn in of(Turn, found) if turn.state != "started"} == {"S"}


def trace(line: str, n: int, stream: str, **keys: Any) -> dict[str, Any]:
    return {"v": 1, "stream": stream, "n": n, "dialect": "gemini-stream", "line": line, **keys}


def called(call_id: str) -> str:
    return f'{{"type":"tool_use","tool_name":"read_file","tool_id":"{call_id}","parameters":{{"file_path":"a"}}}}'


def answered(call_id: str) -> str:
    return f'{{"type":"tool_result","tool_id":"{call_id}","status":"success","output":"x"}}'


def test_a_traced_stream_that_begins_again_has_other_calls() -> None:
    """Its ids were those of the first one: a second call under the same id."""
    first = (trace(called("c"), 2, "a"), trace(answered("c"), 3, "a"))
    found = check_recording("tooltap-trace", lines_of((*first, trace("", 1, "a"), *first, trace(called("c"), 4, "b"))))
    assert [call.call_id for call in of(ToolCall, found)] == ["c", "a@3/c", "b@6/c"]


def test_ids_of_traced_streams_never_meet() -> None:
    """The first stream's ids have no prefix, and may look like another's that have one."""
    lines = (trace(called("b/c"), 1, "a"), trace(called("c"), 1, "b"), trace(answered("c"), 2, "b"))
    found = check_recording("tooltap-trace", lines_of((*lines, trace(answered("b/c"), 2, "a"))))
    assert [call.call_id for call in of(ToolCall, found)] == ["b/c", "b/t1/c"]
    assert [result.call_id for result in of(ToolResult, found)] == ["b/t1/c", "b/c"]


def test_a_trace_in_a_trace_is_reloaded() -> None:
    inner = trace(called("c"), 1, "a")
    lines = ({"v": 1, "stream": "o", "n": n, "line": {**inner, "n": n}} for n in (1, 2))
    check_recording("tooltap-trace", lines_of(tuple(lines)))


@pytest.mark.parametrize("limit", [120, 65_536])
def test_long_partials_leave_the_ids_of_other_bodies_alone(limit: int) -> None:
    """A delta longer than a string of an event took the id that the text's own output body has otherwise."""
    text = "é" * 100_000
    end = acp("tool_call_update", toolCallId="c", status="completed", rawOutput={"stdout": text, "stderr": text})
    delta = {"terminal_output_delta": {"data": text}}
    lines = lines_of((acp("tool_call", toolCallId="c"), acp("tool_call_update", toolCallId="c", _meta=delta), end))
    check_recording("acp", lines, Context(stream="s", limits=Limits(string_bytes=limit)))


def test_a_long_partial_becomes_several_that_join() -> None:
    text = "é" * 50_000
    steps = steps_of(lines_of((acp("agent_message_chunk", content={"type": "text", "text": text}),)))
    outputs = run("acp", steps, Context(stream="s", partials=True)).outputs
    events = [one.event for one in outputs[0] if isinstance(one, Produced)]
    parts = [event for event in of(Message, events) if event.partial]
    assert len(parts) > 1
    assert "".join(part.text for part in parts) == text
    assert [part.offset for part in parts] == [sum(len(one.text) for one in parts[:at]) for at in range(len(parts))]


def test_counts_beyond_what_clients_can_hold_are_none() -> None:
    """Their sum was remembered, and no dump could be made any more: nothing of the stream could be committed."""
    usage = {"cache_creation_input_tokens": HUGE, "cache_read_input_tokens": 900, "output_tokens": 3}
    lines = (
        {"type": "assistant", "message": {"id": "m", "usage": usage}},
        {"type": "assistant", "message": {"id": "n"}},
    )
    check_survives("claude-transcript", lines_of(tuple(lines)))
    check_survives("claude-stream", lines_of(tuple(lines)))
    usages = of(Usage, read("claude-transcript", *lines))
    assert all((one.input_tokens or 0) < HUGE for one in usages)


def test_a_review_of_an_unknown_kind_is_no_verdict() -> None:
    review = {"reviewId": "r", "targetItemId": "t", "review": {"status": {}}}
    check_survives("acp", lines_of((acp("tool_call", toolCallId="c", rawInput=review, title={}),)))


def test_a_type_that_is_no_name_is_recognised_as_nothing() -> None:
    check_survives("auto", lines_of(({"sessionId": "s", "type": {"a": 1}}, {"sessionId": "s", "type": []})))
