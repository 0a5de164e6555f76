"""A payload nobody knows the form of: what it says as text, the rest as a tree of its keys.

A tree is as deep and as wide as the level shows, and says where something was left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import orjson
from markupsafe import Markup

from tooltap.daemon.web.look import Excerpt, Look, excerpt
from tooltap.daemon.web.markup import link, template, text
from tooltap.daemon.web.render_parts import joined, plain

__all__ = ["any_input", "any_output", "rest", "said", "tree"]

OURS = frozenset({"_happy", "_raw", "_acp", "_mcp"})
"""Keys of a payload that are not the tool's."""
SAID = ("value", "text", "content", "message", "output", "result")
"""Keys under which tools answer in words."""


class Bounds(NamedTuple):
    depth: int
    width: int
    """Entries of one object or list."""
    nodes: int
    """Of the whole tree."""


SUMMARY = Bounds(depth=4, width=12, nodes=60)
FULL = Bounds(depth=16, width=500, nodes=2_000)


class Node(NamedTuple):
    kind: Literal["object", "list", "lines", "string", "scalar", "deeper"]
    shown: Markup = Markup()
    items: Sequence[tuple[str, Any]] = ()
    """Key -> Node."""
    hidden: int = 0
    part: Excerpt | None = None


def any_input(payload: dict[str, Any], look: Look) -> Markup:
    return tree(payload, look, "/input")


def any_output(payload: dict[str, Any], look: Look) -> Markup:
    left = {key: value for key, value in payload.items() if key != "errorMessage"}
    answers = [said(left.pop(key), look, f"/output/{key}") for key in SAID if isinstance(left.get(key), str)]
    return joined(*answers, tree(left, look, "/output"))


def said(value: str | None, look: Look, pointer: str) -> Markup:
    """An answer in words, or, where it is JSON, as a tree."""
    if value and value.lstrip()[:1] in ("{", "["):
        try:
            # What stands in it stands nowhere in the event: no pointer leads there.
            return tree(orjson.loads(value), look, f"{pointer}#")
        except orjson.JSONDecodeError:
            pass
    return plain(value, look, pointer)


def rest(extra: dict[str, Any], look: Look, pointer: str, *known: str) -> Markup:
    """What the card does not show otherwise, at the level that shows everything. `known`: keys that it does."""
    if not look.is_full:
        return Markup()
    return tree({key: value for key, value in extra.items() if key not in known}, look, pointer)


def tree(value: Any, look: Look, pointer: str) -> Markup:
    """Nothing for an empty one. `pointer`: where in the event it stands."""
    if isinstance(value, dict):
        value = {key: one for key, one in value.items() if key not in OURS}
    if value is None or value in ({}, [], ""):
        return Markup()
    return template("tree.html", node=_Builder(look).node(value, pointer, 0))


class _Builder:
    def __init__(self, look: Look) -> None:
        self._look = look
        self._bounds = FULL if look.is_full else SUMMARY
        self._left = self._bounds.nodes

    def node(self, value: Any, pointer: str, depth: int) -> Node:
        self._left -= 1
        if isinstance(value, str):
            return self._string(value, pointer)
        if not isinstance(value, dict | list):
            return Node("scalar", text(json.dumps(value, default=str)))
        is_object = isinstance(value, dict)
        if depth == self._bounds.depth and value:
            return Node("deeper", text(f"{len(value):,} {'keys' if is_object else 'entries'}, deeper than shown"))
        pairs = value.items() if isinstance(value, dict) else enumerate(value)
        items: list[tuple[str, Node]] = []
        for key, one in pairs:
            if len(items) == self._bounds.width or self._left <= 0:
                break
            step = str(key).replace("~", "~0").replace("/", "~1")
            items.append((str(key), self.node(one, f"{pointer}/{step}", depth + 1)))
        return Node("object" if is_object else "list", items=items, hidden=len(value) - len(items))

    def _string(self, value: str, pointer: str) -> Node:
        part = excerpt(value, self._look, pointer)
        if "\n" in part.text:
            return Node("lines", text(part.text), part=part)
        is_address = value.startswith(("http://", "https://")) and not any(char.isspace() for char in value)
        return Node("string", link(part.text) if is_address and part.text == value else text(part.text), part=part)
