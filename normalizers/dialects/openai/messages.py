"""Messages of Chat Completions, as servers answer with them and clients send them back: texts, thoughts, calls."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tooltap.normalizers.tools.payload import is_integer, nonblank, objects, strings

__all__ = ["Msg", "ToolUse", "arguments_of", "digest_of", "result_ids", "text_of", "thought_of", "usage_of", "uses_of"]

Msg: TypeAlias = dict[str, Any]

_NO_ARGUMENTS = ("", "None", "null")
"""What stands in for an empty object; `None` comes from OpenRouter."""


class ToolUse(NamedTuple):
    id: str | None
    name: str | None
    arguments: Any
    raw: Msg


def text_of(message: Msg) -> str:
    """The text of a message; Mistral answers with parts, and a refusal takes the place of an answer."""
    content = message.get("content")
    if isinstance(content, str) and content:
        return content
    texts = [part["text"] for part in objects(content) if part.get("type", "text") == "text" and _has_text(part)]
    refusal = message.get("refusal")
    return "".join(texts) or (refusal if isinstance(refusal, str) else "")


def thought_of(message: Msg) -> str:
    """The reasoning, which servers put in one of several places, or in two at once."""
    for key in ("reasoning_content", "reasoning"):
        if isinstance(message.get(key), str) and message[key]:
            return str(message[key])
    details = [part["text"] for part in objects(message.get("reasoning_details")) if _has_text(part)]
    thinking = [part for one in objects(message.get("content")) for part in objects(one.get("thinking"))]
    return "".join(details or [part["text"] for part in thinking if _has_text(part)])


def _has_text(part: Msg) -> bool:
    return isinstance(part.get("text"), str)


def uses_of(message: Msg) -> list[ToolUse]:
    """The calls of a whole message, also the one of the time before there were several."""
    entries = objects(message.get("tool_calls"))
    legacy = message.get("function_call")
    if not entries and isinstance(legacy, dict) and nonblank(legacy.get("name")):
        entries = [{"type": "function", "function": legacy}]
    return [_use(entry) for entry in entries]


def _use(entry: Msg) -> ToolUse:
    """A function, or a custom tool, which is called with text."""
    function, custom = entry.get("function"), entry.get("custom")
    if isinstance(custom, dict) and nonblank(custom.get("name")):
        called, arguments = custom, custom.get("input")
    else:
        called = function if isinstance(function, dict) else {}
        arguments = called.get("arguments")
    name, call_id = called.get("name"), entry.get("id")
    return ToolUse(
        call_id if isinstance(call_id, str) and call_id else None,
        name if isinstance(name, str) and name else None,
        arguments,
        entry,
    )


def arguments_of(stated: Any) -> Any:
    """What a tool was called with: the object that the arguments spell."""
    if not isinstance(stated, str):
        return {} if stated is None else stated
    if stated.strip() in _NO_ARGUMENTS:
        return {}
    try:
        return msgspec.json.decode(stated)
    except msgspec.DecodeError:
        return stated


def result_ids(message: Msg) -> list[str]:
    """The calls that a tool's message answers; SWE-agent names them in a list."""
    call_id = message.get("tool_call_id")
    return [call_id] if nonblank(call_id) else strings(message.get("tool_call_ids"))


def digest_of(message: Msg) -> int:
    """What makes a message the same when it is sent again; servers and clients add and drop everything else."""
    names = [(use.id, use.name) for use in uses_of(message)]
    return zlib.crc32(msgspec.json.encode([message.get("role"), text_of(message), names, result_ids(message)]))


def usage_of(usage: Msg) -> Msg | None:
    """The fields of a usage event. The prompt includes what was cached; the total says whether reasoning is apart."""
    prompt, output, total = (_count(usage, key) for key in ("prompt_tokens", "completion_tokens", "total_tokens"))
    if prompt is None and output is None:
        return None
    inputs, outputs = (
        details if isinstance(details := usage.get(key), dict) else {}
        for key in ("prompt_tokens_details", "completion_tokens_details")
    )
    reasoning = _count(outputs, "reasoning_tokens")
    if None not in (prompt, output, reasoning, total) and prompt + output + reasoning == total:  # type: ignore[operator]
        output = (output or 0) + (reasoning or 0)
    read = _count(inputs, "cached_tokens")
    cost = usage.get("cost")
    return {
        "input_tokens": prompt,
        "output_tokens": output,
        "cache_read_tokens": read if read is not None else _count(usage, "prompt_cache_hit_tokens", "cached_tokens"),
        "cache_write_tokens": _count(inputs, "cache_write_tokens"),
        "reasoning_tokens": reasoning,
        "cost_usd": float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None,
    }


def _count(usage: Msg, *keys: str) -> int | None:
    return next((usage[key] for key in keys if is_integer(usage.get(key))), None)
