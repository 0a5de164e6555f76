"""`python -m tests.model_texts FOLDER …`: checks that the events contain every text that went to the model in a
recording.

Reads the recorded lines on its own, without the dialects, and compares with what `modelView` gives. A folder has a
`manifest.json` that names its files and their dialects. Exits with 1 if a text is missing or differs by a byte.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tooltap.normalizers.catalog.registry import dialects
from tooltap.normalizers.core.items import Context, OutputChunk, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.model_view import model_text
from tooltap.testing import Line, read_recording

__all__ = ["Compared", "compared", "wire_texts"]


class Compared(NamedTuple):
    found: int
    missing: list[tuple[str, str]]
    """(call id, text on the wire) of each text that the events do not contain."""


def compared(dialect: str, data: bytes) -> Compared:
    """Compare the texts of a recording with what the events give."""
    lines = read_recording(data)
    told = _told(dialect, lines)
    found, missing = 0, []
    for call_id, text in wire_texts(dialect, lines):
        if any(text in texts for told_id, texts in told.items() if told_id == call_id or _is_of(told_id, call_id)):
            found += 1
        else:
            missing.append((call_id, text))
    return Compared(found, missing)


def _is_of(told_id: str, call_id: str) -> bool:
    """Whether an event's call id was made from that of a call, changed because another call had the same."""
    return told_id.startswith(call_id) or told_id.endswith(call_id)


def _told(dialect: str, lines: list[Line]) -> dict[str, set[str]]:
    """Return the texts that the events contain, by call id."""
    normalizer = StreamNormalizer(Context(stream="s"), dialect)
    outputs: list[Any] = []
    for line in lines:
        outputs += normalizer.feed(line.data, line.t, line.direction)
    outputs += normalizer.close("end")
    bodies: dict[str, bytes] = defaultdict(bytes)
    for one in outputs:
        if isinstance(one, OutputChunk):
            bodies[one.output_id] += one.data
    told: dict[str, set[str]] = defaultdict(set)
    for one in outputs:
        if isinstance(one, Produced) and one.kind == "tool-result":
            event = orjson.loads(one.body)
            text = model_text(event, bodies.get)
            if text is not None:
                told[event["callId"]].add(text)
    return told


def wire_texts(dialect: str, lines: list[Line]) -> Iterator[tuple[str, str]]:
    """Yield (call id, text) of each result whose text for the model is on the wire, read from the raw lines."""
    read = _READERS.get(dialect)
    if read is None:
        return
    for line in lines:
        try:
            value = json.loads(line.data) if isinstance(line.data, bytes) else None
        except ValueError:
            continue
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, dict):
                yield from ((call_id, text) for call_id, text in read(one) if text.strip())


def _flat(content: Any) -> str:
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else []
    return "".join(block.get("text", "") for block in blocks if isinstance(block, dict))


def _claude(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    message = value.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in content if isinstance(content, list) else []:
        if isinstance(block, dict) and block.get("type") == "tool_result":
            yield str(block["tool_use_id"]), _flat(block.get("content"))


def _codex(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    item = value.get("payload")
    if item is None and isinstance(value.get("params"), dict):
        item = value["params"].get("msg", {}).get("item")
    if isinstance(item, dict) and item.get("type") in ("function_call_output", "custom_tool_call_output"):
        yield str(item["call_id"]), _flat(item.get("output"))


def _responses(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    items = value.get("input")
    for item in items if isinstance(items, list) else []:
        if isinstance(item, dict) and item.get("type") == "function_call_output":
            yield str(item["call_id"]), _flat(item.get("output"))


def _chat(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    messages = value.get("messages")
    for message in messages if isinstance(messages, list) else [value]:
        if isinstance(message, dict) and message.get("role") == "tool":
            yield message.get("tool_call_id") or "", _flat(message.get("content"))


def _pi(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if value.get("type") == "tool_execution_end":
        yield str(value["toolCallId"]), _flat((value.get("result") or {}).get("content"))


def _copilot(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    data = value.get("data")
    if (
        value.get("type") == "tool.execution_complete"
        and isinstance(data, dict)
        and isinstance(data.get("result"), dict)
    ):
        yield str(data["toolCallId"]), _flat(data["result"].get("content"))


def _opencode(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    part = value.get("part") or (value.get("properties") or {}).get("part") or {}
    state = part.get("state")
    if part.get("type") == "tool" and isinstance(state, dict) and state.get("status") == "completed":
        yield str(part["callID"]), _flat(state.get("output"))


def _gemini(value: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for message in [value, *((value.get("$set") or {}).get("messages") or [])]:
        for call in message.get("toolCalls") or []:
            for part in call.get("result") or []:
                answer = ((part.get("functionResponse") or {}).get("response") or {}) if isinstance(part, dict) else {}
                if isinstance(answer.get("output"), str):
                    yield str(call["id"]), answer["output"]


_READERS = {
    "claude-stream": _claude,
    "claude-transcript": _claude,
    "codex-mcp": _codex,
    "codex-rollout": _codex,
    "copilot-json": _copilot,
    "gemini-chat": _gemini,
    "kimi-json": _chat,
    "openai-chat": _chat,
    "openai-responses": _responses,
    "opencode-bus": _opencode,
    "opencode-run": _opencode,
    "pi-json": _pi,
    "qwen-stream": _claude,
}
"""Dialect -> function that reads the texts of one object. The other dialects' wires address a client or a user."""


def main(*folders: str) -> int:
    totals: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    known = set(dialects())
    for folder in map(Path, folders):
        for row in json.loads((folder / "manifest.json").read_bytes()):
            if row.get("dialect") not in known:
                continue
            found, missing = compared(row["dialect"], (folder / row["file"]).read_bytes())
            totals[row["dialect"]][0] += found
            totals[row["dialect"]][1] += len(missing)
            for call_id, text in missing:
                print(f"{row['file']}: {call_id}: {text[:100]!r}")
    for dialect, (found, absent) in sorted(totals.items()):
        if found or absent:
            print(f"{dialect}: {found} found, {absent} missing")
    return 1 if any(absent for _, absent in totals.values()) or not totals else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
