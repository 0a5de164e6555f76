"""Payloads as lines that a person can read and a diff can compare, and the texts inside of a provider's object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

DEPTH = 12
"""Levels that become lines of their own; deeper values are JSON."""
PLACES = 500
"""Texts and objects that are looked at in one provider's object."""
OURS = frozenset({"_happy", "_raw"})


class Place(NamedTuple):
    """A value in a provider's object, and the keys that lead to it."""

    path: str
    """Such as `tool_use_result.stdout`; empty for the object itself."""
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
        if key in OURS:
            continue
        mark = key if isinstance(value, list) else f"{key}:"
        text = lines_of(one, "", depth - 1)
        if (isinstance(one, dict | list) and one) or "\n" in text:
            lines += [f"{indent}{mark}", *(f"{indent}  {line}" for line in text.rstrip("\n").split("\n"))]
        else:
            lines.append(f"{indent}{mark} {text}")
    return "\n".join(lines)


def texts_in(value: Any) -> list[Place]:
    """The texts in a provider's object; those of a list of content blocks also as one."""
    found: list[Place] = []
    for place in _places(value):
        if isinstance(place.value, str):
            found.append(place)
        elif isinstance(place.value, list) and len(parts := list(_block_texts(place.value))) > 1:
            found += [Place(place.path, "".join(parts)), Place(place.path, "\n".join(parts))]
    return found


def objects_in(value: Any) -> list[Place]:
    """The objects in a provider's object, itself included, and those that a text in it encodes as JSON."""
    found: list[Place] = []
    for place in _places(value):
        if isinstance(place.value, dict):
            found.append(place)
        elif isinstance(place.value, str) and place.value.lstrip().startswith("{"):
            try:
                decoded = msgspec.json.decode(place.value)
            except (msgspec.DecodeError, RecursionError):
                continue
            if isinstance(decoded, dict):
                found.append(Place(place.path, decoded))
    return found


def _places(value: Any) -> Iterator[Place]:
    """Yield the value and all that is in it, outer ones first."""
    waiting = [Place("", value)]
    for _ in range(PLACES):
        if not waiting:
            return
        place = waiting.pop(0)
        yield place
        path, inside = place
        if isinstance(inside, dict):
            waiting += [Place(f"{path}.{key}" if path else str(key), one) for key, one in inside.items()]
        elif isinstance(inside, list):
            waiting += [Place(f"{path}[{at}]", one) for at, one in enumerate(inside)]


def _block_texts(blocks: list[Any]) -> Iterator[str]:
    for block in blocks:
        inner = block.get("content") if isinstance(block, dict) and isinstance(block.get("content"), dict) else block
        text = inner.get("text") if isinstance(inner, dict) else None
        if isinstance(text, str):
            yield text
