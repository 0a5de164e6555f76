"""Searchable text of an event, and the fields that a search filters by.

The text is derived from the encoded event alone, so the same event always has the same text: to highlight or compare
it, the text is extracted from the journal again. `VERSION` rises when any event's text changes.

Searchable are messages and reasoning; the tool, title, command, path, pattern, query, URL and prompt of a call; and the
beginning of its output. Bodies of edits are left out, because they are many and repeat files, and so are the provider's
own objects. Replayed history has no text: it is found in the original events.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tooltap.protocol.events import EventHead, head_of, raw_tool_of

Payload: TypeAlias = dict[str, msgspec.Raw]
"""The values of an input or an output, still encoded."""

VERSION = 1

LONGEST = 8_192
"""Maximum length of a message, of reasoning, and of an event's whole text, in code points."""
PART = 512
"""Maximum length of any other part (one argument, one output), in code points."""

SPACE = "\x1f"
"""Separator between characters of scripts without spaces. Text never contains it, because control characters other than
white space are replaced."""

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
    """The session's directory, if the event states it."""
    alias: str | None
    """An earlier name of the session, if the event says so."""
    text: str
    """Searchable text; empty if no word finds the event."""


def searchable(body: bytes) -> Searchable | None:
    """Extract the searchable text and filter fields; None for an event that this version cannot read. `body`: the
    encoded event."""
    try:
        event = head_of(body)
        payload = event.payload
        text = "" if event.replay else _SEARCHED[event.kind](event, payload)[:LONGEST]
        raw_tool = raw_tool_of(payload)
    except (KeyError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    text = _CONTROLS.sub(" ", text)
    return Searchable(
        event.kind,
        event.stream,
        event.session,
        event.provider,
        event.ts,
        event.name,
        raw_tool,
        event.cwd,
        event.alias,
        text,
    )


def spaced(text: str) -> str:
    """Put `SPACE` around each character of a script that has no spaces between words."""
    return text if text.isascii() else _UNSPACED.sub(f"{SPACE}\\1{SPACE}", text)


def _nothing(event: EventHead, payload: Payload) -> str:
    return ""


def _session(event: EventHead, payload: Payload) -> str:
    return _lines(event.title, event.cwd, event.model)


def _text(event: EventHead, payload: Payload) -> str:
    return event.text[:LONGEST]


def _line(event: EventHead, payload: Payload) -> str:
    return event.text[:PART]


def _call(event: EventHead, payload: Payload) -> str:
    arguments = _arguments(payload)
    title = (event.title or "")[:PART]
    return _lines(event.name, "" if title in arguments else title, *arguments)


def _update(event: EventHead, payload: Payload) -> str:
    return _call(event, payload) if payload else _lines(event.title)


def _response(event: EventHead, payload: Payload) -> str:
    return _lines(event.message)


def _result(event: EventHead, payload: Payload) -> str:
    return _lines(*[_strings(payload[key]) for key in OUTPUTS if key in payload])


_SEARCHED: dict[str, Callable[[EventHead, Payload], str]] = {
    "session": _session,
    "turn": _nothing,
    "message": _text,
    "reasoning": _text,
    "tool-call": _call,
    "tool-update": _update,
    "tool-result": _result,
    "permission-request": _call,
    "permission-response": _response,
    "usage": _nothing,
    "notice": _text,
    "unparsed": _line,
}
_string_decoder = msgspec.json.Decoder(str)
_list_decoder = msgspec.json.Decoder(list[Any])
_keys_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _arguments(payload: dict[str, msgspec.Raw]) -> list[str]:
    """Searchable strings of an input. A prompt may be as long as a message."""
    return [
        _keys(value) if key == "changes" else _strings(value, LONGEST if key == "prompt" else PART)
        for key, value in payload.items()
        if key not in BODIES
    ]


def _strings(value: msgspec.Raw, longest: int = PART) -> str:
    """Text of a value: a string, or the strings in a list (words of a command, paths, content blocks, questions)."""
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
