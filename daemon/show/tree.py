"""Generic forms of payloads: a tree of their keys, or lines; the keys that their struct does not know; and the texts
and objects in a provider's object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from tooltap.daemon.show.blocks import Body, Excerpt, RenderContext, block, excerpt, plain
from tooltap.protocol.payloads import OpenStruct, fields_of

META = frozenset({"_happy", "_raw"})
"""Keys that tooltap adds to a payload."""
OURS = META | {"_acp", "_mcp"}
"""Keys that tooltap adds, and that no tree shows."""
DEPTH = 12
"""Maximum levels of a tree, or of lines; deeper values are shown as JSON."""
SUMMARY_VALUES = 12
FULL_VALUES = 2_000
"""Maximum values in one tree; the raw view has the rest."""


class Node(NamedTuple):
    kind: str
    """mapping, sequence, string, address or scalar."""
    text: Excerpt
    children: list[tuple[str, Node]]
    hidden: int
    """Number of children that are not shown."""


def text_or_tree(value: Any, context: RenderContext, pointer: str) -> Body:
    """Show text as text; JSON, and anything that is not text, as a tree."""
    if not isinstance(value, str):
        return tree(value, context, pointer)
    if value.lstrip()[:1] in ("{", "["):
        try:
            # Values inside the JSON text have no place in the event that a pointer could name.
            return tree(msgspec.json.decode(value), context, f"{pointer}#")
        except (msgspec.DecodeError, RecursionError):
            pass
    return plain(value, context, pointer)


def tree(value: Any, context: RenderContext, pointer: str = "") -> Body:
    """Show a value as a tree; an empty one as nothing. `pointer`: the place of the value in the event."""
    if isinstance(value, dict):
        value = {key: one for key, one in value.items() if key not in OURS}
    if value is None or (isinstance(value, dict | list | str) and not value):
        return ()
    budget = [FULL_VALUES if context.is_full else SUMMARY_VALUES]
    return block("tree", root=_node(value, context, pointer, budget, DEPTH))


def _node(value: Any, context: RenderContext, pointer: str, budget: list[int], depth: int) -> Node:
    if isinstance(value, dict | list) and not depth:
        return Node("string", excerpt(msgspec.json.encode(value).decode(), context), [], 0)
    if isinstance(value, dict | list):
        children: list[tuple[str, Node]] = []
        for key, one in _pairs(value):
            if budget[0] <= 0:
                break
            budget[0] -= 1
            below = f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"
            children.append((str(key), _node(one, context, below, budget, depth - 1)))
        kind = "mapping" if isinstance(value, dict) else "sequence"
        return Node(kind, Excerpt(""), children, len(value) - len(children))
    if isinstance(value, str):
        part = excerpt(value, context, pointer)
        is_address = part.text == value and value.startswith(("http://", "https://")) and len(value.split()) == 1
        return Node("address" if is_address else "string", part, [], 0)
    return Node("scalar", Excerpt(msgspec.json.encode(value).decode()), [], 0)


def unknown_keys(payload: OpenStruct, known: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return the keys and values that the payload's struct does not know, at every depth, without values that only
    repeat known ones under the provider's own names. `known`: a payload that is shown beside it."""
    beside = {key: value for key, value in (known or {}).items() if key not in OURS}
    strings: set[str] = set()
    scalars: set[tuple[str, str]] = set()
    for key, value in (*_known_values(payload), *_leaves(beside)):
        if isinstance(value, str):
            strings.add(value)
        elif value is not None:
            scalars.add((_spelling(key), repr(value)))

    def is_new(key: str, value: Any) -> bool:
        if isinstance(value, str):
            return value not in strings
        return isinstance(value, dict | list) or (_spelling(key), repr(value)) not in scalars

    left = _unknown(payload)
    return {key: value for key, value in left.items() if any(is_new(*leaf) for leaf in _leaves(value, key))}


def _fields(payload: OpenStruct) -> dict[str, Any]:
    fields = fields_of(type(payload))
    return {key: getattr(payload, field.name) for key, field in fields.items() if key not in OURS}


def _unknown(payload: OpenStruct) -> dict[str, Any]:
    left = dict(payload.extra)
    for name, value in _fields(payload).items():
        if isinstance(value, OpenStruct):
            below = _unknown(value)
        else:
            pairs = _pairs(value) if isinstance(value, dict | list) else ()
            found = {str(key): _unknown(one) for key, one in pairs if isinstance(one, OpenStruct)}
            below = {key: one for key, one in found.items() if one}
        if below:
            left[name] = below
    return left


def _known_values(payload: OpenStruct) -> Iterator[tuple[str, Any]]:
    for name, value in _fields(payload).items():
        if isinstance(value, OpenStruct):
            yield from _known_values(value)
            continue
        for key, one in _pairs(value) if isinstance(value, dict | list) else ((name, value),):
            if isinstance(one, OpenStruct):
                yield from _known_values(one)
            else:
                yield from _leaves(one, str(key))


def _leaves(value: Any, key: str = "", depth: int = DEPTH) -> Iterator[tuple[str, Any]]:
    """Yield the key and value of each leaf. An empty object or list has none. Values below `DEPTH` are not divided."""
    if isinstance(value, dict | list) and depth:
        for name, one in _pairs(value):
            yield from _leaves(one, key if isinstance(value, list) else str(name), depth - 1)
    else:
        yield key, value


def _pairs(value: dict[str, Any] | list[Any]) -> Iterable[tuple[Any, Any]]:
    return value.items() if isinstance(value, dict) else enumerate(value)


def _spelling(key: str) -> str:
    """Normalize the spelling of a key: `replaceAll` and `replace_all` are the same."""
    return key.replace("_", "").replace("-", "").lower()


# -- payloads as lines, which a diff can compare; texts and objects in them ------------------------------------------


PLACES = 500
"""Maximum texts and objects that are examined in one provider's object."""


class ValuePath(NamedTuple):
    """A value in a provider's object, and its path."""

    path: str
    """Keys that lead to the value, such as `tool_use_result.stdout`; empty for the object itself."""
    value: Any


def lines_of(value: Any, indent: str = "", depth: int = DEPTH) -> str:
    """Write a payload with a line for each key; texts of several lines stand below their key, indented."""
    if isinstance(value, str):
        return value
    if not isinstance(value, dict | list) or not value or not depth:
        return msgspec.json.encode(value).decode()
    pairs = value.items() if isinstance(value, dict) else (("-", one) for one in value)
    lines: list[str] = []
    for key, one in pairs:
        if key in META:
            continue
        mark = key if isinstance(value, list) else f"{key}:"
        text = lines_of(one, "", depth - 1)
        if (isinstance(one, dict | list) and one) or "\n" in text:
            lines += [f"{indent}{mark}", *(f"{indent}  {line}" for line in text.rstrip("\n").split("\n"))]
        else:
            lines.append(f"{indent}{mark} {text}")
    return "\n".join(lines)


def texts_in(value: Any) -> list[ValuePath]:
    """The texts in a provider's object; those of a list of content blocks also as one."""
    found: list[ValuePath] = []
    for place in _places(value):
        if isinstance(place.value, str):
            found.append(place)
        elif isinstance(place.value, list) and len(parts := list(_block_texts(place.value))) > 1:
            found += [ValuePath(place.path, "".join(parts)), ValuePath(place.path, "\n".join(parts))]
    return found


def objects_in(value: Any) -> list[ValuePath]:
    """The objects in a provider's object, itself included, and those that a text in it encodes as JSON."""
    found: list[ValuePath] = []
    for place in _places(value):
        if isinstance(place.value, dict):
            found.append(place)
        elif isinstance(place.value, str) and place.value.lstrip().startswith("{"):
            try:
                decoded = msgspec.json.decode(place.value)
            except (msgspec.DecodeError, RecursionError):
                continue
            if isinstance(decoded, dict):
                found.append(ValuePath(place.path, decoded))
    return found


def _places(value: Any) -> Iterator[ValuePath]:
    """Yield the value and all values in it, outer ones first."""
    waiting = [ValuePath("", value)]
    for _ in range(PLACES):
        if not waiting:
            return
        place = waiting.pop(0)
        yield place
        path, inside = place
        if isinstance(inside, dict):
            waiting += [ValuePath(f"{path}.{key}" if path else str(key), one) for key, one in inside.items()]
        elif isinstance(inside, list):
            waiting += [ValuePath(f"{path}[{at}]", one) for at, one in enumerate(inside)]


def _block_texts(blocks: list[Any]) -> Iterator[str]:
    for one in blocks:
        inner = one.get("content") if isinstance(one, dict) and isinstance(one.get("content"), dict) else one
        text = inner.get("text") if isinstance(inner, dict) else None
        if isinstance(text, str):
            yield text
