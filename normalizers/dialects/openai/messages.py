"""Messages of Chat Completions, as servers send them and clients send them back: texts, reasoning, calls.

Streamed calls arrive in deltas, which `collect` puts together."""

from __future__ import annotations

import zlib
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.core.tokens import token_counts
from tooltap.normalizers.tools.payload import nonblank, strings
from tooltap.normalizers.wire.decode import decode_text
from tooltap.normalizers.wire.values import dollars, first_string, record, records, whole
from tooltap.protocol.events import Attachment

_MIME_TYPES = {"image_url": "image/*", "video_url": "video/*", "audio_url": "audio/*"}
MANY_CALLS = 128
"""Calls of one answer."""

_NO_ARGUMENTS = ("", "None", "null")
"""What stands in for an empty object; `None` comes from OpenRouter."""


class ToolUse(NamedTuple):
    id: str | None
    name: str | None
    arguments: Any
    raw: Line

    @property
    def value(self) -> Any:
        """What the tool was called with: the object that the arguments spell."""
        if not isinstance(self.arguments, str):
            return {} if self.arguments is None else self.arguments
        if self.arguments.strip() in _NO_ARGUMENTS:
            return {}
        try:
            return decode_text(self.arguments)
        except ValueError:
            return self.arguments


class PendingCall(msgspec.Struct, omit_defaults=True):
    """A call whose arguments are still coming."""

    id: str | None = None
    index: int | None = None
    name: str | None = None
    arguments: str = ""

    def as_use(self) -> ToolUse:
        function = {"name": self.name, "arguments": self.arguments}
        raw = {"index": self.index, "id": self.id, "type": "function", "function": function}
        return ToolUse(self.id, self.name, self.arguments, {key: one for key, one in raw.items() if one is not None})


def text_of(message: Line) -> str:
    """The text of a message. Mistral sends parts; a refusal replaces the content."""
    content = message.get("content")
    if content:
        if type(content) is str:
            return content
        texts = _texts([part for part in records(content) if part.get("type", "text") == "text"])
        if text := "".join(texts):
            return text
    return first_string(message, "refusal") or ""


def media_in(content: Any) -> list[Line]:
    """The parts of a prompt, those with a file as `{url, mime, name}` or `{data, mime}`. A key of the part's own type
    holds it: a link or a data URL (Mistral 2025 sends `document_url`, others an object), a file, or a sound."""
    media: list[Line] = []
    for part in records(content):
        kind = str(part.get("type"))
        held = part.get(kind)
        inner = record(held)
        if isinstance(url := held if type(held) is str and kind.endswith("_url") else inner.get("url"), str):
            media.append({"url": url, "mime": _MIME_TYPES.get(kind), "name": None})
        elif isinstance(inner.get("file_data"), str):
            media.append({"url": inner["file_data"], "mime": None, "name": first_string(inner, "filename")})
        elif isinstance(inner.get("data"), str):
            media.append({"data": inner["data"], "mime": f"audio/{first_string(inner, 'format') or '*'}"})
        else:
            media.append(part)
    return media


def links_in(media: list[Line]) -> list[Attachment]:
    """The links to what a prompt does not hold itself."""
    return [
        Attachment(mime_type=one["mime"] or "application/octet-stream", uri=one["url"], name=one["name"])
        for one in media
        if "url" in one and "name" in one and not str(one["url"]).startswith("data:")
    ]


def texts_of(message: Line) -> list[tuple[str, str]]:
    """(role, text) of the reasoning and of the text, where the message has them."""
    texts: list[tuple[str, str]] = []
    if reasoning := _reasoning_of(message):
        texts.append(("reasoning", reasoning))
    if text := text_of(message):
        texts.append(("assistant", text))
    return texts


def _reasoning_of(message: Line) -> str:
    """The reasoning, which servers put in one of several places, or in two at once."""
    if stated := first_string(message, "reasoning_content", "reasoning"):
        return stated
    content, details = message.get("content"), message.get("reasoning_details")
    if type(content) is not list and not details:
        return ""
    thinking = [part for one in records(content) for part in records(one.get("thinking"))]
    return "".join(_texts(records(details)) or _texts(thinking))


def _texts(parts: list[Line]) -> list[str]:
    return [part["text"] for part in parts if isinstance(part.get("text"), str)]


def uses_of(message: Line) -> list[ToolUse]:
    """The calls of a whole message, and the `function_call` of the API before it had `tool_calls`."""
    called, calls = message.get("function_call"), message.get("tool_calls")
    if not calls and not called:
        return []
    entries, legacy = records(calls), record(called)
    if not entries and nonblank(legacy.get("name")):
        entries = [{"type": "function", "function": legacy}]
    return [_use(entry) for entry in entries]


def _use(entry: Line) -> ToolUse:
    """A function, or a custom tool, which is called with text."""
    called, custom = record(entry.get("function")), record(entry.get("custom"))
    arguments = called.get("arguments")
    if nonblank(custom.get("name")):
        called, arguments = custom, custom.get("input")
    return ToolUse(_id_of(entry.get("id")), first_string(called, "name"), arguments, entry)


def result_ids(message: Line) -> list[str]:
    """The calls that a tool's message answers; SWE-agent names them in a list."""
    call_id = _id_of(message.get("tool_call_id"))
    return [call_id] if call_id is not None else strings(message.get("tool_call_ids"))


def _id_of(value: Any) -> str | None:
    """The id of a call; Text Generation Inference numbers them."""
    return str(value) if type(value) is int else value if nonblank(value) else None


def digest_of(message: Line) -> int:
    """A CRC that stays the same when a message is sent again: servers and clients add and drop everything else."""
    names = [(use.id, use.name) for use in uses_of(message)]
    return zlib.crc32(msgspec.json.encode([message.get("role"), text_of(message), names, result_ids(message)]))


def usage_of(usage: Line) -> Line | None:
    """The fields of a usage event. The prompt includes cached tokens; the total tells whether reasoning is separate."""
    prompt, output, total = (whole(usage.get(key)) for key in ("prompt_tokens", "completion_tokens", "total_tokens"))
    if prompt is None and output is None:
        return None
    inputs, outputs = record(usage.get("prompt_tokens_details")), record(usage.get("completion_tokens_details"))
    reasoning = whole(outputs.get("reasoning_tokens"))
    if None not in (prompt, output, reasoning, total) and prompt + output + reasoning == total:  # type: ignore[operator]
        output = (output or 0) + (reasoning or 0)
    cached = (inputs.get("cached_tokens"), usage.get("prompt_cache_hit_tokens"), usage.get("cached_tokens"))
    read = next((count for count in map(whole, cached) if count is not None), None)
    counts = token_counts(prompt, output, read, inputs.get("cache_write_tokens"), reasoning)
    return {**counts, "cost_usd": dollars(usage.get("cost"))}


def collect(pending: list[PendingCall], entry: Line, limit: int) -> None:
    """Add a delta to the call it continues: the one of its id, else of its index, else the last.

    A new id begins a call, even at an index that is taken; so does a name where no call can be continued. Arguments
    end before `limit` characters.
    """
    function = record(entry.get("function"))
    call_id, name, index = _id_of(entry.get("id")), first_string(function, "name"), entry.get("index")
    index = whole(index)
    if (call := _continued(pending, call_id, index, name)) is None:
        call = PendingCall(index=index)
        pending.append(call)
        del pending[:-MANY_CALLS]
    call.id, call.name = call.id or call_id, call.name or name
    arguments = function.get("arguments")
    if arguments is not None and not isinstance(arguments, str):
        arguments = msgspec.json.encode(arguments).decode()
    if arguments and len(call.arguments) + len(arguments) <= limit:
        call.arguments += arguments


def _continued(
    pending: list[PendingCall], call_id: str | None, index: int | None, name: str | None
) -> PendingCall | None:
    if call_id is not None and (known := next((call for call in pending if call.id == call_id), None)) is not None:
        return known
    at_index = next((call for call in reversed(pending) if index is not None and call.index == index), None)
    if at_index is not None:
        return at_index if call_id is None or at_index.id is None else None
    can_continue = call_id is None and pending and (name is None or pending[-1].name is None)
    return pending[-1] if can_continue else None
