"""The text of an event by which it is found, and what a search filters by.

The text is made of the encoded event alone, so that the same event always has the same text: what an index has of it is
made again from the journal to highlight it, and to compare. `VERSION` rises when any event's text changes.

It has what people remember: messages and reasoning; the tool, title, command, path, pattern, query, URL and prompt of
a call; the beginning of what it printed. It has no bodies of edits, which are many and repeat files, and nothing of the
provider's own object. History that an agent sent again has none: it is found where it was first.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import msgspec

__all__ = ["SPACE", "VERSION", "Searchable", "searchable", "spaced"]

VERSION = 1

LONGEST = 8_192
"""Code points of a message, of reasoning, and of an event altogether."""
PART = 512
"""Code points of everything else: one argument, one output."""

SPACE = "\x1f"
"""Separates what is written without spaces. No text has it, nor another control character but those of white space."""

BODIES = frozenset(
    (
        *(
            "_happy",
            "_raw",
            "_acp",
            "_mcp",
            "content",
            "contents",
            "diff",
            "edits",
            "file_text",
            "input",
            "insert_text",
        ),
        *("newString", "new_source", "new_str", "new_string", "oldString", "old_source", "old_str", "old_string"),
        *("patch", "todos", "oldTodos"),
    )
)
"""Keys of an input that are not searched."""
OUTPUTS = ("stdout", "stderr", "content", "text", "error", "errorMessage", "message")
"""Keys of an output that are searched."""

# Han, kana, hangul: a word is any run of characters, so each character is a word, and a word is a phrase.
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1f]")
_UNSPACED = re.compile(
    "([\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0003134f])"
)


class Searchable(NamedTuple):
    kind: str
    stream: str
    session: str
    provider: str
    ts: int | None
    tool: str | None
    raw_tool: str | None
    cwd: str | None
    """Where the session is, if the event says so."""
    alias: str | None
    """An earlier name of the session, if the event says so."""
    text: str
    """Empty: the event is not found by any word."""


def searchable(body: bytes) -> Searchable | None:
    """None for an event that this version cannot read. `body`: the encoded event."""
    try:
        event = _decoder.decode(body)
        text = "" if event.replay else event.searched()[:LONGEST]
        raw_tool = event.raw_tool
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    kind = str(event.__struct_config__.tag)
    text = _CONTROLS.sub(" ", text)
    return Searchable(
        kind, event.stream, event.session, event.provider, event.ts, event.name, raw_tool, event.cwd, event.alias, text
    )


def spaced(text: str) -> str:
    """Put `SPACE` around each character of a script that has no spaces between words."""
    return text if text.isascii() else _UNSPACED.sub(f"{SPACE}\\1{SPACE}", text)


class _Event(msgspec.Struct, rename="camel", tag_field="kind"):
    stream: str
    session: str
    provider: str
    ts: int | None = None
    replay: bool = False
    name: str | None = None
    cwd: str | None = None
    alias: str | None = None

    def searched(self) -> str:
        return ""

    @property
    def raw_tool(self) -> str | None:
        return None


class _Session(_Event, tag="session"):
    title: str | None = None
    model: str | None = None

    def searched(self) -> str:
        return _lines(self.title, self.cwd, self.model)


class _Turn(_Event, tag="turn"):
    pass


class _Usage(_Event, tag="usage"):
    pass


class _Text(_Event):
    text: str = ""
    """Of a message or of reasoning."""

    def searched(self) -> str:
        return self.text[:LONGEST]


class _Message(_Text, tag="message"):
    pass


class _Reasoning(_Text, tag="reasoning"):
    pass


class _Notice(_Text, tag="notice"):
    pass


class _Unparsed(_Event, tag="unparsed"):
    text: str = ""

    def searched(self) -> str:
        return self.text[:PART]


class _Happy(msgspec.Struct, rename="camel"):
    raw_tool_name: str | None = None


class _Call(_Event):
    input: dict[str, msgspec.Raw] | None = None
    title: str | None = None

    def searched(self) -> str:
        arguments = _arguments(self.input or {})
        title = (self.title or "")[:PART]
        return _lines(self.name, "" if title in arguments else title, *arguments)

    @property
    def raw_tool(self) -> str | None:
        return _raw_tool(self.input)


class _ToolCall(_Call, tag="tool-call"):
    pass


class _ToolUpdate(_Call, tag="tool-update"):
    def searched(self) -> str:
        return super().searched() if self.input else _lines(self.title)


class _PermissionRequest(_Call, tag="permission-request"):
    pass


class _PermissionResponse(_Event, tag="permission-response"):
    message: str | None = None

    def searched(self) -> str:
        return _lines(self.message)


class _ToolResult(_Event, tag="tool-result"):
    output: dict[str, msgspec.Raw] = {}

    def searched(self) -> str:
        output = self.output
        return _lines(*[_strings(output[key]) for key in OUTPUTS if key in output])

    @property
    def raw_tool(self) -> str | None:
        return _raw_tool(self.output)


_decoder = msgspec.json.Decoder(
    _Session
    | _Turn
    | _Message
    | _Reasoning
    | _ToolCall
    | _ToolUpdate
    | _ToolResult
    | _PermissionRequest
    | _PermissionResponse
    | _Usage
    | _Notice
    | _Unparsed
)
_happy_decoder = msgspec.json.Decoder(_Happy)
_string_decoder = msgspec.json.Decoder(str)
_list_decoder = msgspec.json.Decoder(list[Any])
_keys_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _raw_tool(payload: dict[str, msgspec.Raw] | None) -> str | None:
    happy = payload.get("_happy") if payload else None
    if happy is None:
        return None
    try:
        return _happy_decoder.decode(happy).raw_tool_name
    except msgspec.DecodeError:
        return None


def _arguments(payload: dict[str, msgspec.Raw]) -> list[str]:
    """The strings of an input, but for bodies. A prompt is as long as a message."""
    return [
        _keys(value) if key == "changes" else _strings(value, LONGEST if key == "prompt" else PART)
        for key, value in payload.items()
        if key not in BODIES
    ]


def _strings(value: msgspec.Raw, longest: int = PART) -> str:
    """A string, or those of a list: a command's words, paths, the texts of content blocks and questions."""
    data = bytes(value)
    if data[:1] == b'"':
        return _string_decoder.decode(data)[:longest]
    if data[:1] != b"[":
        return ""
    found = []
    for one in _list_decoder.decode(data):
        text = (one.get("text") or one.get("question")) if isinstance(one, dict) else one
        if isinstance(text, str):
            found.append(text[:longest])
    return " ".join(found)[:longest]


def _keys(value: msgspec.Raw) -> str:
    """The paths of a patch: each is the key of a change."""
    data = bytes(value)
    return " ".join(_keys_decoder.decode(data))[:PART] if data[:1] == b"{" else ""


def _lines(*parts: str | None) -> str:
    return "\n".join([part[:LONGEST] for part in parts if part])
