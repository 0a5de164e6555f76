"""Lines that would block a careless daemon for long, in the format of Claude Code's stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

MB = 1_000_000
SESSION = "s-adversary"


def line(kind: str, **keys: Any) -> bytes:
    return json.dumps({"type": kind, "session_id": SESSION, "uuid": "u", "parent_tool_use_id": None, **keys}).encode()


def start() -> bytes:
    return line("system", subtype="init", cwd="/ws", tools=[], model="m", claude_code_version="2.1.330")


def call(number: int, name: str = "Bash", **given: Any) -> bytes:
    used = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": given or {"command": "x"}}
    return line("assistant", message={"id": f"m{number}", "role": "assistant", "content": [used]})


def answer(number: int, text: Any, **result: Any) -> bytes:
    content = [{"type": "tool_result", "tool_use_id": f"toolu_{number}", "content": text}]
    return line("user", message={"role": "user", "content": content}, **({"tool_use_result": result} if result else {}))


def said(number: int, text: str) -> bytes:
    return line("assistant", message={"id": f"t{number}", "content": [{"type": "text", "text": text}]})


def outputs(size: int) -> Iterator[bytes]:
    """Yield results of different tools with texts on which a regular expression may be slow."""
    number = 0
    for name in ("Bash", "Read", "Grep", "Task", "WebSearch", "Edit"):
        for unit in ("<output>", "\x1b[", "1\t", "a:1:", "](", "\r", "```", "<a ", "\\", '"', "{", " \n"):
            number += 1
            text = unit * (size // len(unit))
            yield call(number, name, command="x", file_path="/x", pattern=unit, prompt=unit)
            yield answer(number, text, stdout=text, stderr="", content=text)


def deltas(count: int) -> Iterator[bytes]:
    yield line("stream_event", event={"type": "message_start", "message": {"id": "d", "role": "assistant"}})
    block = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    yield line("stream_event", event=block)
    delta = {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "."}}
    one = line("stream_event", event=delta)
    for _ in range(count):
        yield one


def open_calls(count: int) -> Iterator[bytes]:
    """Yield calls that get no result."""
    for number in range(count):
        yield call(number)


def keys(count: int) -> bytes:
    return call(1, "Bash", **{f"k{number}": number for number in range(count)})


def values(count: int) -> bytes:
    return answer(1, [{"type": "text", "text": str(number)} for number in range(count)])


def nested(depth: int) -> bytes:
    return b'{"type":"assistant","session_id":"s","message":' + b'{"a":[' * depth + b"]}" * depth + b"}"


def junk(count: int) -> Iterator[bytes]:
    for number in range(count):
        yield b"x%d" % number


def escaped(size: int) -> bytes:
    return answer(1, "\x00\u2028\U0001f600" * (size // 24))


ADVERSARIES: dict[str, Callable[[float], Iterator[bytes]]] = {
    "outputs of 20 kB": lambda scale: outputs(round(20_000 * scale)),
    "outputs of 200 kB": lambda scale: outputs(round(200_000 * scale)),
    "deltas": lambda scale: deltas(round(100_000 * scale)),
    "open calls": lambda scale: open_calls(round(12_000 * scale)),
    "junk": lambda scale: junk(round(200_000 * scale)),
    "10⁶ keys": lambda scale: iter([keys(round(1_000_000 * scale))]),
    "10⁵ blocks": lambda scale: iter([call(1), values(round(100_000 * scale))]),
    "nesting": lambda scale: iter([nested(round(500_000 * scale))] * 2),
    "a text of 8 MB": lambda scale: iter([said(n, "word " * round(1_600_000 * scale)) for n in range(3)]),
    "a result of 8 MB": lambda scale: iter([call(1), answer(1, "word\n" * round(1_600_000 * scale))]),
    "an argument of 8 MB": lambda scale: iter([call(1, "Write", file_path="/x", content="a\n" * round(4e6 * scale))]),
    "escapes": lambda scale: iter([call(1), escaped(round(8 * MB * scale))]),
}
