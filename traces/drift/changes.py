"""Compares shapes: what of one found value does not fit the known shape, where, and in which words.

A key that is always there may be missing because it has another name now. Where it is gone and a new key with a value
of its shape is there, `compare` says so: few examples are enough to notice that, while a key that is just missing tells
something only if many recordings had it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Any, Literal, NamedTuple

from tooltap.traces.drift.shapes import ANYTHING, DATA_KEY, OBJECT, Fields, Shape, shape_of

_ERROR = re.compile("err", re.IGNORECASE)
_STEP = re.compile(r"\.(?P<key>[^.<\[]+)|(?P<item>\[\])|<(?P<tag>[^<>]*)>")


class Change(NamedTuple):
    """One difference between a found and the known shape."""

    kind: Literal["new-variant", "new-key", "vanished-key", "other-type"]
    path: str
    """`$<assistant>.message.content[]<tool_use>.name`: keys, elements of arrays, tags of objects."""
    known: str
    found: str
    """The known and the found shape in a few words; empty if absent. Of a vanished key: the new key that its value may
    have now."""
    mild: bool = False
    """Of another type: it is one that may be there as well. Of a new or a vanished key: none took the other's place."""


def compare(known: Shape, found: Shape, path: str = "$", *, few: bool = False) -> Iterator[Change]:
    """Yield what in `found` does not fit `known`. Alternatives of `known` that were not found are not a change."""
    if ANYTHING in known.types | found.types:
        return
    if other := _other_types(known, found, few=few):
        mild = few or path.endswith(f".{DATA_KEY}") or _is_content(known, found)
        yield Change("other-type", path, brief(known), other, mild)
    if known.item is not None and found.item is not None:
        yield from compare(known.item, found.item, f"{path}[]", few=few)
    for tag, fields in found.variants.items():
        place = f"{path}<{tag}>" if tag else path
        if tag in known.variants:
            yield from _compare_fields(known.variants[tag], fields, place)
        elif known.variants and OBJECT not in known.types:
            yield Change("new-variant", place, "", brief(Shape(variants={tag: fields})))


def _other_types(known: Shape, found: Shape, *, few: bool) -> str:
    """The types in `found` that `known` does not have, in words; empty if there are none."""
    types = set(found.types)
    if "string" in known.types:
        types = {one for one in types if not one.startswith("=")}
    if known.variants:
        types.discard(OBJECT)
    if few:
        types.discard("null")
    if known.types <= {"null"} and known.item is None and not known.variants:
        return ""  # nothing was ever there: elements of an array that was always empty, a value that was always null
    other = Shape(types - known.types)
    if known.item is None:
        other.item = found.item
    if not known.variants and OBJECT not in known.types:
        other.variants = found.variants
    return brief(other) if other != Shape() else ""


def _is_content(known: Shape, found: Shape) -> bool:
    """Whether a text became content blocks or an object that says more, or the reverse. Every protocol has both."""
    for text, other in ((known, found), (found, known)):
        if "string" in text.types and (other.variants or OBJECT in other.types or _has_blocks(other)):
            return True
    return False


def _has_blocks(shape: Shape) -> bool:
    return shape.item is not None and any(shape.item.variants)


def _compare_fields(known: Fields, found: Fields, path: str) -> Iterator[Change]:
    free = known.keys.get(DATA_KEY)
    is_map = free is not None and len(known.keys) == 1
    new: dict[str, Shape] = {}
    for key, shape in found.keys.items():
        if key in known.keys:
            yield from compare(known.keys[key], shape, f"{path}.{key}", few=known.few)
        elif free is None or (changes := list(compare(free, shape, f"{path}.{DATA_KEY}"))):
            if is_map:
                yield from changes
            else:
                new[key] = shape
    gone = [key for key in known.keys if key not in known.optional and (key not in found.keys or key in found.optional)]
    now = _names_now({key: known.keys[key] for key in sorted(gone)}, new)
    for key, shape in new.items():
        yield Change("new-key", f"{path}.{key}", "", brief(shape), not gone)
    for key in sorted(gone):
        if key in now or not known.few:
            yield Change("vanished-key", f"{path}.{key}", brief(known.keys[key]), now.get(key, ""), key not in now)


def _names_now(gone: dict[str, Shape], new: dict[str, Shape]) -> dict[str, str]:
    """The new keys that may be other names of those that are gone, the most similar ones. Where more keys are gone than
    new, it is another kind of object rather than one with other names; an error comes in place of a result."""
    names: dict[str, str] = {}
    for key, shape in gone.items() if len(gone) <= len(new) else ():
        able = [
            one
            for one, value in new.items()
            if one not in names.values() and (_ERROR.match(key) or not _ERROR.match(one)) and _may_be(shape, value)
        ]
        if able:
            names[key] = max(able, key=lambda one: SequenceMatcher(None, key, one).ratio())
    return names


def _may_be(known: Shape, found: Shape) -> bool:
    """Whether a value may be the known one under another key. Of an object, most keys must be known."""
    types = {"string" if one.startswith("=") and "string" in known.types else one for one in found.types}
    if ANYTHING in known.types or not types <= known.types:
        return False
    if found.item is not None and not (known.item is not None and _may_be_items(known.item, found.item)):
        return False
    if not found.variants or OBJECT in known.types:
        return True
    pairs = (
        (one.keys.keys(), other.keys.keys()) for one in known.variants.values() for other in found.variants.values()
    )
    return any(DATA_KEY in one or 2 * len(one & other) >= len(other) for one, other in pairs)


def _may_be_items(known: Shape, found: Shape) -> bool:
    return Shape() in (known, found) or _may_be(known, found)


def has_key(shape: Shape, path: str) -> bool:
    """Whether some example had the key at the path of a change."""
    shapes = [shape]
    for step in _STEP.finditer(path):
        shapes = [below for one in shapes for below in _below(one, step)]
    return bool(shapes)


def _below(shape: Shape, step: re.Match[str]) -> Iterator[Shape]:
    if step["item"]:
        if shape.item is not None:
            yield shape.item
    elif step["key"]:
        yield from (fields.keys[step["key"]] for fields in shape.variants.values() if step["key"] in fields.keys)
    elif step["tag"] in shape.variants:
        yield Shape(variants={step["tag"]: shape.variants[step["tag"]]})


def brief(shape: Shape, width: int = 60) -> str:
    """A shape in a few words: `string or null`, `[string]`, `{type, text, …}`."""
    parts = sorted(one.removeprefix("=") if one.startswith("=") else one for one in shape.types)
    if shape.item is not None:
        parts.append(f"[{brief(shape.item, width)}]")
    for _, fields in sorted(shape.variants.items()):
        parts.append(f"{{{', '.join(fields.keys)}}}")
    text = " or ".join(parts)
    return text if len(text) <= width else f"{text[: width - 1]}…"


def render(changes: list[Change]) -> Iterator[str]:
    """Render a diff with a line per change: `+` is new, `-` has vanished, `~` has another type."""
    width = max((len(change.path) for change in changes), default=0)
    for change in changes:
        path = change.path.ljust(width)
        if change.kind == "vanished-key":
            yield f"- {path}  {change.known}"
        elif change.kind == "other-type":
            yield f"~ {path}  {change.known} → {change.found}"
        else:
            yield f"+ {path}  {change.found}"


def example(value: Any, path: str) -> Any:
    """The first value at the path of a change; for a vanished key, the object that lacks it."""
    steps = list(_STEP.finditer(path))
    for found in _walk(value, steps):
        return found
    return next(_walk(value, steps[:-1]), value)


def objects_at(value: Any, path: str) -> tuple[list[dict[str, Any]], str]:
    """The objects in which the path's last step is a key, and that key."""
    *above, last = _STEP.finditer(path)
    return [one for one in _walk(value, above) if isinstance(one, dict) and last["key"] in one], last["key"]


def _walk(value: Any, steps: list[re.Match[str]]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if step["item"]:
        below = value if isinstance(value, list) else []
    elif step["key"] == DATA_KEY:
        below = list(value.values()) if isinstance(value, dict) else []
    elif step["key"]:
        below = [value[step["key"]]] if isinstance(value, dict) and step["key"] in value else []
    else:
        below = [value] if isinstance(value, dict) and step["tag"] in shape_of(value, depth=1).variants else []
    for item in below:
        yield from _walk(item, rest)
