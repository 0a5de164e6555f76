"""Searchable text of an event, and the fields that a search filters by.

The text is derived from the encoded event alone, so the same event always has the same text: to highlight or compare
it, the text is extracted from the journal again. `VERSION` rises when any event's text changes. The text has parts,
such as the arguments of a call: words may be found in several of them, but an excerpt is of one.

Searchable are messages and reasoning; the tool, title, command, path, pattern, query, URL and prompt of a call; and the
beginning of its output. Bodies of edits are left out, because they are many and repeat files, and so are the provider's
own objects. Replayed history has no text: it is found in the original events.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tooltap.protocol.events import EventHead, head_of, raw_tool_of

Payload: TypeAlias = dict[str, msgspec.Raw]
"""The values of an input or an output, still encoded."""
Parts: TypeAlias = list[tuple[str, str]]
"""The parts of a text, each with the name of the argument of a call that it is; other parts have no name."""

VERSION = 2

LONGEST = 8_192
"""Maximum length of a message, of reasoning, and of an event's whole text, in code points."""
PART = 512
"""Maximum length of any other part (one argument, one output), in code points."""

SPACE = "\x1f"
"""Separator between characters of scripts without spaces. Text never contains it, because control characters other than
white space are replaced."""
PART_END = "\x1e"
"""Separator between the parts of a text, whose parts never contain it either."""

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
_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1d\x1f]")
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
    """Searchable text, its parts joined by `PART_END`; empty if no word finds the event."""
    arguments: tuple[str, ...] = ()
    """Of a call: for each part of the text, the name of the argument that it is; empty for the tool's name and a title.
    """
    call: int | None = None
    """Key of the call that the event is about: see `key_of_call`."""
    outcome: str | None = None
    """Status of a result. None for all other events, and for a result that only confirms that background work has
    started."""


def key_of_call(stream: str, call_id: str) -> int:
    """Return a number that stands for a call: the events of a call have the same, and no other events have it."""
    digest = blake2b(f"{stream}\0{call_id}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest) >> 1  # SQLite's integers have a sign


def searchable(body: bytes) -> Searchable | None:
    """Extract the searchable text and filter fields; None for an event that this version cannot read. `body`: the
    encoded event."""
    try:
        event = head_of(body)
        payload = event.payload
        parts = [] if event.replay else [one for one in _SEARCHED[event.kind](event, payload) if one[1]]
        raw_tool = raw_tool_of(payload)
        call = None if event.replay or not event.call_id else key_of_call(event.stream, event.call_id)
    except (KeyError, msgspec.DecodeError, UnicodeError, RecursionError):
        return None
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
        _joined([text for _, text in parts]),
        tuple([name for name, _ in parts]) if event.kind in CALLS else (),
        call,
        event.status if event.is_end and not event.replay else None,
    )


def _joined(parts: list[str]) -> str:
    """Join the parts of a text, without control characters."""
    text = PART_END.join(parts)
    if text.count(PART_END) >= max(len(parts), 1):  # a part has one
        text = PART_END.join([part.replace(PART_END, " ") for part in parts])
    return _CONTROLS.sub(" ", text[:LONGEST])


def spaced(text: str) -> str:
    """Put `SPACE` around each character of a script that has no spaces between words."""
    return text if text.isascii() else _UNSPACED.sub(f"{SPACE}\\1{SPACE}", text)


def _nothing(event: EventHead, payload: Payload) -> Parts:
    return []


def _session(event: EventHead, payload: Payload) -> Parts:
    return [("", event.title or ""), ("", event.cwd or ""), ("", event.model or "")]


def _text(event: EventHead, payload: Payload) -> Parts:
    return [("", event.text[:LONGEST])]


def _line(event: EventHead, payload: Payload) -> Parts:
    return [("", event.text[:PART])]


def _call(event: EventHead, payload: Payload) -> Parts:
    arguments = _arguments(payload)
    title = (event.title or "")[:PART]
    is_said = any(title == text for _, text in arguments)
    return [("", event.name or ""), ("", "" if is_said else title), *arguments]


def _update(event: EventHead, payload: Payload) -> Parts:
    return _call(event, payload) if payload else [("", event.title or "")]


def _response(event: EventHead, payload: Payload) -> Parts:
    return [("", event.message or "")]


def _result(event: EventHead, payload: Payload) -> Parts:
    return [("", _strings(payload[key])) for key in OUTPUTS if key in payload]


CALLS = frozenset({"tool-call", "tool-update", "permission-request"})
"""Kinds of the events that have the arguments of a call."""
_SEARCHED: dict[str, Callable[[EventHead, Payload], Parts]] = {
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


def _arguments(payload: dict[str, msgspec.Raw]) -> Parts:
    """Searchable strings of an input. A prompt may be as long as a message."""
    return [
        (key, _keys(value) if key == "changes" else _strings(value, LONGEST if key == "prompt" else PART))
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
