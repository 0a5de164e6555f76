"""Generated lines: what agents print, as in the recordings, with one property at a time. All ids are distinct, also
between runs.

`short` has a text of a hundred characters, without anything that JSON escapes; `escaped` is a text in Cyrillic and
Chinese of the same length, as `ensure_ascii` writes it; `spaced` is short, with Python's spaces after commas and
colons; `4 kB` and `50 kB` are texts of several lines. `results` are the results of calls that are open. `deltas` and
`skipped` give nothing, since nobody wants partials. Every line of `codex exec` gives an event.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import count
from types import MappingProxyType
from typing import Any, NamedTuple

from tests.bench.lines.recorded import Recorded
from tooltap.testing import Line

__all__ = ["DIALECTS", "KINDS", "conversation", "generate"]

Value = dict[str, Any]
STREAM_LINES = 200
"""Lines of one generated stream."""
SHORT = "The quick brown fox jumps over the lazy dog, and then it runs back into the dark forest to sleep. "
FOREIGN = "Съешь ещё этих мягких французских булок. 敏捷的棕色狐狸跳过懒狗。"
CODE = "def greet(name):\n    return 'Hello, ' + name + '!'\n\n\n"
SHORT_SIZE, RESULT_SIZE = 100, 300
"""Length of a short text and of a result, in characters."""
_numbers = count(1)


def _id(prefix: str = "") -> str:
    """Return an id, distinct within the process, and as long as agents' ids."""
    digits = uuid.uuid5(uuid.NAMESPACE_OID, str(next(_numbers)))
    return f"{prefix}{digits.hex[:24]}" if prefix else str(digits)


class Shapes(NamedTuple):
    """Functions that make one agent's lines."""

    begin: Callable[[str], list[Value]]
    """Lines before the first that is measured, of a session."""
    text: Callable[[str, str], Value]
    """A message, of a session and a text."""
    call_id: Callable[[], str]
    call: Callable[[str, str], Value]
    """A call, of a session and the call's id."""
    result: Callable[[str, str, str], Value]
    """Its result: the session, the call's id, the text."""
    nothing: Mapping[str, Callable[[str, str], Value]] = MappingProxyType({})
    """Lines that give no event, of a session and a text."""


# -- Claude Code, `--output-format stream-json` -------------------------------------------------------------------


def _claude(session: str, value: Value) -> Value:
    return {**value, "parent_tool_use_id": None, "session_id": session, "uuid": _id()}


def _claude_message(session: str, block: Value) -> Value:
    usage = {"input_tokens": 1200, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 900}
    message = {"id": _id("msg_"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-20250514"}
    ends = {"stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 42}}
    return _claude(session, {"type": "assistant", "message": {**message, "content": [block], **ends}})


def _claude_call(session: str, call_id: str) -> Value:
    values = {"command": f"grep -rn greet src/{call_id[-6:]}", "description": "Find the greeting"}
    return _claude_message(session, {"type": "tool_use", "id": call_id, "name": "Bash", "input": values})


def _claude_result(session: str, call_id: str, text: str) -> Value:
    block = {"tool_use_id": call_id, "type": "tool_result", "content": text, "is_error": False}
    return _claude(session, {"type": "user", "message": {"role": "user", "content": [block]}})


def _claude_delta(session: str, text: str) -> Value:
    delta = {"type": "text_delta", "text": text[:20]}
    return _claude(
        session, {"type": "stream_event", "event": {"type": "content_block_delta", "index": 0, "delta": delta}}
    )


CLAUDE = Shapes(
    begin=lambda session: [
        _claude(session, {"type": "system", "subtype": "init", "cwd": "/tmp/ws", "tools": ["Bash", "Read"]})
    ],
    text=lambda session, text: _claude_message(session, {"type": "text", "text": text}),
    call_id=partial(_id, "toolu_"),
    call=_claude_call,
    result=_claude_result,
    nothing={
        "deltas": _claude_delta,
        "skipped": lambda session, _: _claude(session, {"type": "system", "subtype": "status", "status": "requesting"}),
    },
)

# -- `codex exec --json` ------------------------------------------------------------------------------------------


def _codex_id() -> str:
    return f"item_{next(_numbers)}"


def _codex_item(when: str, item: Value) -> Value:
    return {"type": f"item.{when}", "item": item}


def _codex_command(when: str, call_id: str, output: str, code: int | None) -> Value:
    item = {"id": call_id, "type": "command_execution", "command": f"/bin/bash -lc 'cat src/{call_id[-6:]}'"}
    ends = {"aggregated_output": output, "exit_code": code}
    return _codex_item(when, {**item, **ends, "status": "in_progress" if code is None else "completed"})


CODEX = Shapes(
    begin=lambda session: [{"type": "thread.started", "thread_id": session}, {"type": "turn.started"}],
    text=lambda _, text: _codex_item("completed", {"id": _codex_id(), "type": "agent_message", "text": text}),
    call_id=_codex_id,
    call=lambda _, call_id: _codex_command("started", call_id, "", None),
    result=lambda _, call_id, text: _codex_command("completed", call_id, text, 0),
)

# -- ACP ----------------------------------------------------------------------------------------------------------


def _acp(session: str, kind: str, update: Value) -> Value:
    params = {"sessionId": session, "update": {"sessionUpdate": kind, **update}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": params}


def _acp_text(session: str, text: str, message_id: str) -> Value:
    return _acp(session, "agent_message_chunk", {"content": {"type": "text", "text": text}, "messageId": message_id})


def _acp_call(session: str, call_id: str) -> Value:
    path = f"/tmp/ws/src/{call_id[-6:]}.py"
    call = {"toolCallId": call_id, "name": "read_file", "kind": "read", "title": f"Read {path}", "status": "pending"}
    return _acp(session, "tool_call", {**call, "locations": [{"path": path}], "rawInput": {"path": path}})


def _acp_result(session: str, call_id: str, text: str) -> Value:
    content = [{"type": "content", "content": {"type": "text", "text": text}}]
    values = {"toolCallId": call_id, "status": "completed", "rawOutput": text, "content": content}
    return _acp(session, "tool_call_update", values)


ACP = Shapes(
    begin=lambda session: [
        {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": {"cwd": "/tmp/ws", "mcpServers": []}},
        {"jsonrpc": "2.0", "id": 2, "result": {"sessionId": session}},
    ],
    text=lambda session, text: _acp_text(session, text, _id("msg_")),
    call_id=partial(_id, "call_"),
    call=_acp_call,
    result=_acp_result,
    nothing={"deltas": lambda session, text: _acp_text(session, text[:20], "msg_011a2b3c4d5e6f")},
)

DIALECTS = {"claude-stream": CLAUDE, "codex-exec": CODEX, "acp": ACP}

# -- kinds of lines -----------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    dialect: str
    what: str
    encode: Callable[[Value], str]
    line: Callable[[str, int], Value] | None
    """Makes the line of a session with this number; None: results."""
    share: float = 1.0
    """Factor for the number of lines in a run; below 1 for long lines."""


def _compact(value: Value) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _escaped(value: Value) -> str:
    return json.dumps(value, separators=(",", ":"))


def _words(words: str, size: int, number: int) -> str:
    return f"{number} {words * (1 + size // len(words))}"[:size]


def _line(make: Callable[[str, str], Value], words: str, size: int, session: str, number: int) -> Value:
    return make(session, _words(words, size, number))


def _kinds() -> Iterator[Kind]:
    for dialect, shapes in DIALECTS.items():
        short = partial(_line, shapes.text, SHORT, SHORT_SIZE)
        yield Kind(dialect, "short", _compact, short)
        yield Kind(dialect, "escaped", _escaped, partial(_line, shapes.text, FOREIGN, SHORT_SIZE))
        yield Kind(dialect, "spaced", json.dumps, short)
        yield Kind(dialect, "4 kB", _compact, partial(_line, shapes.text, CODE, 4_000), 0.5)
        yield Kind(dialect, "50 kB", _compact, partial(_line, shapes.text, CODE, 50_000), 0.1)
        yield Kind(dialect, "results", _compact, None)
        for what, make in shapes.nothing.items():
            yield Kind(dialect, what, _compact, partial(_line, make, SHORT, SHORT_SIZE))


KINDS = {f"{one.dialect}, {one.what}": one for one in _kinds()}


def generate(kind: Kind, lines: float) -> list[Recorded]:
    """Return streams with about this many lines of a kind."""
    wanted = max(1, round(lines * kind.share))
    sizes = [min(STREAM_LINES, wanted - first) for first in range(0, wanted, STREAM_LINES)]
    return [_stream(kind, size) for size in sizes]


def conversation(dialect: str, lines: int) -> Recorded:
    """Return a stream of this many lines: a message, a call and its result in turn."""
    shapes, session = DIALECTS[dialect], _id()
    values = shapes.begin(session)
    for number in range(-(-lines // 3)):
        call_id = shapes.call_id()
        values.append(shapes.text(session, _words(SHORT, SHORT_SIZE, number)))
        values.append(shapes.call(session, call_id))
        values.append(shapes.result(session, call_id, _words(CODE, RESULT_SIZE, number)))
    return Recorded(dialect, None, [Line(_compact(one).encode()) for one in values[:lines]])


def _stream(kind: Kind, size: int) -> Recorded:
    shapes, session = DIALECTS[kind.dialect], _id()
    before = shapes.begin(session)
    if kind.line is None:
        calls = [shapes.call_id() for _ in range(size)]
        before += [shapes.call(session, one) for one in calls]
        values = [shapes.result(session, one, _words(CODE, RESULT_SIZE, number)) for number, one in enumerate(calls)]
    else:
        values = [kind.line(session, number) for number in range(size)]
    lines, first = ([Line(kind.encode(one).encode()) for one in some] for some in (values, before))
    return Recorded(kind.dialect, None, lines, first)
