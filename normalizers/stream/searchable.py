"""Searchable text of an event, and the fields that a search filters by.

The text is derived from the encoded event alone, so the same event always has the same text: to highlight or compare
it, the text is extracted from the journal again. `VERSION` rises when any event's text changes. The text has parts,
such as the arguments of a call: words may be found in several of them, but an excerpt is of one.

Searchable are messages and reasoning; the tool, title, command, path, pattern, query, URL and prompt of a call; the
lines that it adds to a file; and its output. Of a long text these are the beginning and the end, which are parts of
their own, and of the output of a failed call the lines between that name an error. The provider's own objects are left
out. Replayed history has no text: it is found in the original events.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tooltap.protocol.events import EventHead, head_of, raw_tool_of

Payload: TypeAlias = dict[str, msgspec.Raw]
"""The values of an input or an output, still encoded."""
Parts: TypeAlias = list[tuple[str, str]]
"""The parts of a text, each with the name of the argument of a call that it is; other parts have no name."""

VERSION = 3

LONGEST = 16_384
"""Maximum length of an event's whole text, in code points."""


class Ends(NamedTuple):
    """How much of a long text is searched, in code points."""

    head: int
    tail: int


SAID = Ends(8_192, 2_048)
"""Of a message, reasoning, or a prompt."""
PART = Ends(512, 512)
"""Of any other text: one argument, one output."""
FAILED = Ends(1_024, 2_048)
"""Of the output of a call that failed."""
WRITTEN = Ends(2_048, 512)
"""Of the lines that a call adds to files."""
ERRORS = 1_024
"""Maximum length of the lines that name an error, in code points."""
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
"""Keys of an input that are not searched as they are."""
NEW_TEXTS = {
    "new_string": "old_string",
    "newString": "oldString",
    "new_str": "old_str",
    "new_source": "old_source",
    "new_content": "old_content",
    "content": "",
    "contents": "",
    "file_text": "",
    "insert_text": "",
}
"""Keys of a text that a call writes -> the key of the text that it replaces."""
OUTPUTS = ("stdout", "stderr", "content", "text", "error", "errorMessage", "message")
"""Keys of an output that are searched."""

_CONTROLS = re.compile(r"[\x00-\x08\x0e-\x1d\x1f]")
_ERROR = re.compile("error|exception|fail|panic|fatal", re.IGNORECASE)
_SPACE = re.compile(r"\s")


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
    is_prose: bool = False
    """Whether the text is what the model said or thought, which is Markdown."""
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
        event.kind == "reasoning" or (event.kind == "message" and event.role == "assistant"),
        event.status if event.is_end and not event.replay else None,
    )


def _joined(parts: list[str]) -> str:
    """Join the parts of a text, without control characters."""
    text = PART_END.join(parts)
    if text.count(PART_END) >= max(len(parts), 1):  # a part has one
        text = PART_END.join([part.replace(PART_END, " ") for part in parts])
    return _CONTROLS.sub(" ", text[:LONGEST])


def _nothing(event: EventHead, payload: Payload) -> Parts:
    return []


def _session(event: EventHead, payload: Payload) -> Parts:
    return [("", event.title or ""), ("", event.cwd or ""), ("", event.model or "")]


def _text(event: EventHead, payload: Payload) -> Parts:
    return _ends("", event.text, SAID)


def _line(event: EventHead, payload: Payload) -> Parts:
    return _ends("", event.text, PART)


def _call(event: EventHead, payload: Payload) -> Parts:
    arguments = _arguments(payload)
    title = (event.title or "")[: PART.head]
    is_said = any(title == text for _, text in arguments)
    return [("", event.name or ""), ("", "" if is_said else title), *arguments]


def _update(event: EventHead, payload: Payload) -> Parts:
    return _call(event, payload) if payload else [("", event.title or "")]


def _response(event: EventHead, payload: Payload) -> Parts:
    return [("", event.message or "")]


def _result(event: EventHead, payload: Payload) -> Parts:
    has_failed = event.status == "failed"
    parts: Parts = []
    for key in OUTPUTS:
        if key in payload:
            text = _strings(payload[key])
            parts += _ends("", text, FAILED if has_failed else PART, has_errors=has_failed)
    return parts


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
_decoder = msgspec.json.Decoder(Any)
_keys_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])


def _arguments(payload: Payload) -> Parts:
    """Searchable strings of an input. A prompt may be as long as a message."""
    parts: Parts = []
    for key, value in payload.items():
        if key not in BODIES:
            text = _keys(value) if key == "changes" else _strings(value)
            parts += _ends(key, text, SAID if key == "prompt" else PART)
    return [*parts, *_written(payload)]


def _ends(name: str, text: str, ends: Ends, *, has_errors: bool = False) -> Parts:
    """Return a text as one part; a long one as its beginning and its end. `has_errors`: also the lines between that
    name an error."""
    if len(text) <= ends.head + ends.tail:
        return [(name, text)]
    end = len(text) - ends.tail
    if (space := _SPACE.search(text, end, end + PART.tail)) is not None:
        end = space.end()  # so that it begins with a word
    between = _errors(text, ends.head, end) if has_errors else ""
    return [(name, text[: ends.head]), (name, between), (name, text[end:])]


def _errors(text: str, start: int, end: int) -> str:
    """Return the first lines of a part of a text that name an error."""
    lines: list[str] = []
    room = ERRORS
    while room > 0 and (found := _ERROR.search(text, start, end)) is not None:
        first = text.rfind("\n", start, found.start()) + 1 or start
        last = text.find("\n", found.end(), end)
        last = end if last < 0 else last
        lines.append(text[first:last][:room])
        room -= len(lines[-1]) + 1
        start = last
    return "\n".join(lines)


def _strings(value: msgspec.Raw) -> str:
    """Text of a value: a string, or the strings in a list (words of a command, paths, content blocks, questions)."""
    data = bytes(value)
    if data[:1] == b'"':
        return _string_decoder.decode(data)
    if data[:1] != b"[":
        return ""
    found = []
    for one in _list_decoder.decode(data):
        text = (one.get("text") or one.get("question")) if isinstance(one, dict) else one
        if isinstance(text, str):
            found.append(text)
    return " ".join(found)


def _written(payload: Payload) -> Parts:
    """Return the lines that a call adds to files, in one of the forms in which its input has them."""
    for key, old in NEW_TEXTS.items():
        if key in payload and (text := _strings(payload[key])):
            return _ends(key, _added(text, _strings(payload[old]) if old in payload else ""), WRITTEN)
    for key in ("edits", "changes"):
        if key in payload and (text := "\n".join(_in_changes(_decoder.decode(payload[key])))):
            return _ends(key, text, WRITTEN)
    for key in ("patch", "diff"):
        if key in payload and (text := _added_by(_strings(payload[key]))):
            return _ends(key, text, WRITTEN)
    return []


def _in_changes(value: Any) -> Iterator[str]:
    """Yield the added lines of several changes, of one file or of several. They are nested in a few forms: a list of
    edits; by path, by type of change, in hunks."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting += reversed(one)
        elif isinstance(one, dict):
            texts = [(one.get(key), one.get(old)) for key, old in NEW_TEXTS.items()]
            text = next(((new, old) for new, old in texts if isinstance(new, str)), None)
            diff = next((one[key] for key in ("unified_diff", "diff") if isinstance(one.get(key), str)), None)
            if one.get("type") == "delete":
                continue
            if text is not None:
                yield _added(text[0], text[1] if isinstance(text[1], str) else "")
            elif diff is not None:
                yield _added_by(diff)
            else:
                waiting += reversed(one.values())


def _added(new: str, old: str) -> str:
    """Return the lines of a text that the former one does not have."""
    if not old:
        return new
    known = set(old.splitlines())
    return "\n".join([line for line in new.splitlines() if line not in known])


def _added_by(diff: str) -> str:
    """Return the lines that a unified diff, or a patch of Codex, adds."""
    return "\n".join([line[1:] for line in diff.splitlines() if line[:1] == "+" and line[:4] != "+++ "])


def _keys(value: msgspec.Raw) -> str:
    """The paths of a patch: each is the key of a change."""
    data = bytes(value)
    return " ".join(_keys_decoder.decode(data))[: PART.head] if data[:1] == b"{" else ""
