"""Small edits of JSON files that people write: everything else in the file stays as it is, byte for byte.

Settings may have comments and trailing commas, as several agents allow them, and any indentation.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

_SPACE = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_SCALAR = re.compile(r"[^\s,\]}/\"\[{]+")
DEPTH = 200


class NotJsonError(ValueError):
    """The text is not JSON; the message says where."""


class Node(NamedTuple):
    """A value in a text, from `start` to `end`."""

    start: int
    end: int
    value: Any
    """The decoded value."""
    items: list[tuple[str | int, int, Node]]
    """Key or index, where the member begins, and its value."""

    def get(self, *path: str | int) -> Node | None:
        """Return the value at a path; None if there is none."""
        node: Node | None = self
        for step in path:
            node = None if node is None else next((one for key, _, one in node.items if key == step), None)
        return node


def parse(text: str) -> Node:
    """Parse a text. Raises `NotJsonError`."""
    node = _value(text, _skip(text, 0), 0)
    if _skip(text, node.end) != len(text):
        raise _error(text, node.end)
    return node


def _error(text: str, at: int) -> NotJsonError:
    return NotJsonError(f"line {text.count(chr(10), 0, at) + 1} is not JSON")


def _skip(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return at if match is None else match.end()


def _value(text: str, at: int, depth: int) -> Node:
    if depth > DEPTH:
        raise _error(text, at)
    if text[at : at + 1] in ("{", "["):
        return _container(text, at, depth)
    match = (_STRING if text[at : at + 1] == '"' else _SCALAR).match(text, at)
    if match is None:
        raise _error(text, at)
    try:
        return Node(at, match.end(), json.loads(match[0]), [])
    except ValueError:
        raise _error(text, at) from None


def _container(text: str, start: int, depth: int) -> Node:
    is_object = text[start] == "{"
    closing = "}" if is_object else "]"
    items: list[tuple[str | int, int, Node]] = []
    at = _skip(text, start + 1)
    while text[at : at + 1] != closing:
        begin, key = at, len(items)
        name: str | int = key
        if is_object:
            if text[at : at + 1] != '"':
                raise _error(text, at)
            named = _value(text, at, depth)
            name, at = named.value, _skip(text, named.end)
            if text[at : at + 1] != ":":
                raise _error(text, at)
            at = _skip(text, at + 1)
        node = _value(text, at, depth + 1)
        if any(known == name for known, _, _ in items):
            raise NotJsonError(f"line {text.count(chr(10), 0, begin) + 1} has the key {name!r} again")
        items.append((name, begin, node))
        at = _skip(text, node.end)
        if text[at : at + 1] == ",":
            at = _skip(text, at + 1)
        elif text[at : at + 1] != closing:
            raise _error(text, at)
    values = [node.value for _, _, node in items]
    value: Any = dict(zip((name for name, _, _ in items), values, strict=True)) if is_object else values
    return Node(start, at + 1, value, items)


def add(text: str, *path: str | int, key: str | None = None, value: Any) -> str:
    """Add a member (`key`), or an item (None), at the end of the object or array at `path`. Raises `NotJsonError`."""
    root = parse(text)
    node = root.get(*path)
    if node is None or not isinstance(node.value, list if key is None else dict):
        raise NotJsonError(
            f"{'.'.join(map(str, path)) or 'the file'} is not {'a list' if key is None else 'an object'}"
        )
    end = node.items[-1][2].end if node.items else node.start + 1
    tail, closing = text[end : node.end - 1], text[node.end - 1 :]
    name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}: "
    has_comma = text[(comma := _skip(text, end)) : comma + 1] == ","
    if node.items and "\n" not in text[node.start : node.end]:
        separator = "" if has_comma else ","
        return f"{text[:end]}{separator}{tail.rstrip()} {name}{json.dumps(value, ensure_ascii=False)}{closing}"
    line, unit, outer = "\r\n" if "\r\n" in text else "\n", _unit(text, root), _indent_at(text, node.start)
    inner = _indent_at(text, node.items[-1][1]) if node.items else outer + unit
    member = name + json.dumps(value, indent=unit, ensure_ascii=False).replace("\n", line + inner)
    separator = "," if node.items and not has_comma else ""
    kept = tail.rstrip()
    space = tail[len(kept) :] if "\n" in tail[len(kept) :] else line + outer
    return f"{text[:end]}{separator}{kept}{line}{inner}{member}{space}{closing}"


def remove(text: str, *path: str | int) -> str:
    """Remove the member or item at `path`, which must exist, with a comma beside it. Comments stay. Raises
    `NotJsonError`."""
    parent = parse(text).get(*path[:-1])
    assert parent is not None
    index = next(number for number, (key, _, _) in enumerate(parent.items) if key == path[-1])
    _, begin, node = parent.items[index]
    if index:
        before = parent.items[index - 1][2].end
        return text[:before] + _without_comma(text[before:begin]).rstrip() + text[node.end :]
    if len(parent.items) > 1:
        following = parent.items[1][1]
        kept = _without_comma(text[node.end : following]).strip()
        return text[:begin] + (f"{kept}\n{_indent_at(text, following)}" if kept else "") + text[following:]
    inside = text[parent.start + 1 : begin].rstrip() + _without_comma(text[node.end : parent.end - 1])
    return text[: parent.start + 1] + (inside if inside.strip() else "") + text[parent.end - 1 :]


def _without_comma(between: str) -> str:
    """Return the text between two members without the comma in it."""
    at = _skip(between, 0)
    return between[:at] + between[at + 1 :] if between[at : at + 1] == "," else between


def _unit(text: str, root: Node) -> str:
    """Return the file's indentation of one level."""
    return (_indent_at(text, root.items[0][1]) if root.items else "") or "  "


def _indent_at(text: str, at: int) -> str:
    """Return the white space at the beginning of the line with this position."""
    begin = text.rfind("\n", 0, at) + 1
    match = re.compile(r"[ \t]*").match(text, begin)
    return match[0] if match is not None else ""
