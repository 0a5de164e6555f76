"""The shape of a JSON value: its types without its values, merged over one or more examples.

A shape is a union of scalar types, array elements and object variants:

- Variants of an object are distinguished by their tag: the values of `type`, `subtype`, `method` and similar keys, such
  as `system/init`. These values distinguish messages and blocks, and are the only values that are part of a shape.
- All elements of an array share one shape.
- A key of a variant is optional if at least one example lacked it.

Shapes are bounded in nesting, in keys per object, and in variants per place. Two things would make them grow with the
data, and are cut off: keys that are data (paths, ids, model names) are merged into the key `*`, and the arguments and
results of tools (`input`, `arguments`, …) are just `object`.

As JSON, a shape looks like the value it describes: `{"type": "=text", "text": "string", "id?": "null|string",
"parts": [{…}, {…}]}`. `=text` is the value of a tag, `…?` an optional key, a list holds the alternatives of its
elements, and `{"|": […]}` holds any other alternatives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, NamedTuple

import msgspec

__all__ = ["Change", "Shape", "brief", "compare", "example", "has_key", "render", "shape_of"]

ANYTHING = "…"
"""The type of a value below the maximum depth. It is compatible with everything."""
OBJECT = "object"
"""The type of an object whose keys are not part of the shape."""
DATA_KEY = "*"
CHOICE = "|"

MAX_DEPTH = 12
MAX_KEYS = 64
MAX_VARIANTS = 96

TAG_KEYS = ("type", "subtype", "method", "sessionUpdate", "role", "object", "operation")
OPAQUE = frozenset(
    {
        "args",
        "arguments",
        "environment",
        "env",
        "headers",
        "input",
        "inputSchema",
        "input_schema",
        "metadata",
        "parameters",
        "rawInput",
        "rawOutput",
        "raw_input",
        "raw_output",
        "schema",
        "structuredContent",
        "structured_content",
        "toolResponse",
        "toolUseResult",
        "tool_params",
        "tool_input",
        "tool_response",
        "tool_use_result",
    }
)
"""Objects under these keys are arguments and results of tools, or data of users. The wire format does not define
them."""

_WORD = re.compile(r"[A-Za-z_$][\w./$:-]{0,63}")
_NAME = re.compile(r"[A-Za-z_$@][\w$-]{0,47}")
_DIGIT = re.compile(r"\d")
_STEP = re.compile(r"\.(?P<key>[^.<\[]+)|(?P<item>\[\])|<(?P<tag>[^>]*)>")


def _is_name(key: str) -> bool:
    """Whether a key of an object is the name of a field rather than data."""
    if _NAME.fullmatch(key) is None:
        return False
    digits = len(_DIGIT.findall(key))
    return digits < 4 and not (digits and "-" in key)  # an id or `model-5` is data


class Fields(msgspec.Struct, eq=False, array_like=True):
    """One variant of an object."""

    keys: dict[str, Shape] = {}
    optional: set[str] = set()
    examples: int = 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Fields) and (self.keys, self.optional) == (other.keys, other.optional)

    @property
    def tag(self) -> str:
        """`system/init`; empty if no tag key has a fixed value."""
        words = (self.keys[key].word for key in TAG_KEYS if key in self.keys)
        return "/".join(word for word in words if word is not None)

    def add(self, other: Fields, *, demands: bool) -> None:
        """Merge another variant of the same tag into this one; see `Shape.add`."""
        if demands:
            self.optional |= other.optional | (self.keys.keys() - other.keys.keys())
            self.examples += other.examples
        for key, shape in other.keys.items():
            if key in self.keys:
                self.keys[key].add(shape, demands=demands)
            else:
                self.put(key, shape)
                self.optional.add(key)

    def put(self, key: str, shape: Shape) -> None:
        """Set a key. A key that is data, or beyond the maximum number of keys, is merged into `*`."""
        if key in self.keys or (_is_name(key) and len(self.keys) < MAX_KEYS):
            self.keys[key] = shape
            return
        self.keys.setdefault(DATA_KEY, Shape()).add(shape if not _is_name(key) else Shape({ANYTHING}))
        self.optional.add(DATA_KEY)


class Shape(msgspec.Struct, array_like=True):
    types: set[str] = set()
    """Any of `null boolean number string object …`, and `=word` for the value of a tag key."""
    item: Shape | None = None
    """The shape of array elements; None if the value was never an array."""
    variants: dict[str, Fields] = {}
    """Object variants by tag."""

    @property
    def word(self) -> str | None:
        """The fixed value, if the shape is nothing but one `=word`; else None."""
        only = next(iter(self.types)) if len(self.types) == 1 and self.item is None and not self.variants else ""
        return only[1:] if only.startswith("=") else None

    def copy(self) -> Shape:
        variants = {
            tag: Fields({key: one.copy() for key, one in fields.keys.items()}, set(fields.optional), fields.examples)
            for tag, fields in self.variants.items()
        }
        return Shape(set(self.types), None if self.item is None else self.item.copy(), variants)

    def add(self, other: Shape, *, demands: bool = True) -> None:
        """Merge another shape into this one. Parts of `other` are reused, so it must not be used afterwards.

        `demands`: whether `other` takes part in deciding what is optional. If not, a key that only `other` lacks stays
        required. Keys that only `other` has are known in either case, but optional.
        """
        self.types |= other.types
        if self.item is None:
            self.item = other.item
        elif other.item is not None:
            self.item.add(other.item, demands=demands)
        for tag, fields in other.variants.items():
            if tag in self.variants:
                self.variants[tag].add(fields, demands=demands)
            elif len(self.variants) < MAX_VARIANTS:
                self.variants[tag] = fields
            else:
                self.types.add(OBJECT)

    def demand(self, examples: float) -> None:
        """Make the keys of variants with fewer examples optional: a key may be in all of a few examples by chance."""
        if self.item is not None:
            self.item.demand(examples)
        for fields in self.variants.values():
            if fields.examples < examples:
                fields.optional = set(fields.keys)
            for shape in fields.keys.values():
                shape.demand(examples)

    # -- as JSON ------------------------------------------------------------------------------------------------

    def alternatives(self) -> list[Any]:
        """The alternatives as JSON values; empty if there was no example."""
        parts: list[Any] = ["|".join(sorted(self.types))] if self.types else []
        if self.item is not None:
            parts.append(self.item.alternatives())
        for _, fields in sorted(self.variants.items()):
            keys = sorted(fields.keys, key=lambda key: (key not in TAG_KEYS, key))
            parts.append({key + "?" * (key in fields.optional): fields.keys[key].to_json() for key in keys})
        return parts

    def to_json(self) -> Any:
        parts = self.alternatives()
        return parts[0] if len(parts) == 1 else {CHOICE: parts}

    @classmethod
    def from_json(cls, value: Any) -> Shape:
        """Raises `ValueError` if the value is not a shape."""
        shape = cls()
        for part in value[CHOICE] if isinstance(value, dict) and CHOICE in value else [value]:
            shape.add(cls._part_from_json(part))
        return shape

    @classmethod
    def from_alternatives(cls, parts: list[Any]) -> Shape:
        """Raises `ValueError`."""
        return cls.from_json({CHOICE: parts})

    @classmethod
    def _part_from_json(cls, part: Any) -> Shape:
        if isinstance(part, str):
            return cls(set(part.split("|")))
        if isinstance(part, list):
            return cls(item=cls.from_alternatives(part))
        if not isinstance(part, dict):
            raise ValueError(f"not a shape: {part!r}")
        fields = Fields()
        for key, value in part.items():
            name = key.removesuffix("?")
            fields.keys[name] = cls.from_json(value)
            if name != key:
                fields.optional.add(name)
        return cls(variants={fields.tag: fields})


def shape_of(value: Any, *, depth: int = MAX_DEPTH) -> Shape:
    """The shape of one decoded JSON value."""
    if isinstance(value, dict):
        if depth == 0:
            return Shape({ANYTHING})
        fields = Fields()
        for key, item in value.items():
            if key in OPAQUE and isinstance(item, dict):
                fields.put(key, Shape({OBJECT}))
            elif key in TAG_KEYS and isinstance(item, str) and _WORD.fullmatch(item):
                fields.put(key, Shape({f"={item}"}))
            else:
                fields.put(key, shape_of(item, depth=depth - 1))
        return Shape(variants={fields.tag: fields})
    if isinstance(value, list):
        if depth == 0:
            return Shape({ANYTHING})
        items = Shape()
        for item in value:
            items.add(shape_of(item, depth=depth - 1))
        return Shape(item=items)
    return Shape({_type_of(value)})


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


# -- comparison -------------------------------------------------------------------------------------------------------


class Change(NamedTuple):
    """One difference between a found and the known shape."""

    kind: Literal["new-variant", "new-key", "vanished-key", "other-type"]
    path: str
    """`$<assistant>.message.content[]<tool_use>.name`: keys, elements of arrays, tags of objects."""
    known: str
    found: str
    """The known and the found shape in a few words; empty if absent."""


def compare(known: Shape, found: Shape, path: str = "$") -> Iterator[Change]:
    """Yield what in `found` does not fit `known`. Alternatives of `known` that were not found are not a change."""
    if ANYTHING in known.types | found.types:
        return
    if other := _other_types(known, found):
        yield Change("other-type", path, brief(known), other)
    if known.item is not None and found.item is not None:
        yield from compare(known.item, found.item, f"{path}[]")
    for tag, fields in found.variants.items():
        place = f"{path}<{tag}>" if tag else path
        if tag in known.variants:
            yield from _compare_fields(known.variants[tag], fields, place)
        elif known.variants and OBJECT not in known.types:
            yield Change("new-variant", place, "", brief(Shape(variants={tag: fields})))


def _other_types(known: Shape, found: Shape) -> str:
    """The types in `found` that `known` does not have, in words; empty if there are none."""
    types = set(found.types)
    if "string" in known.types:
        types = {one for one in types if not one.startswith("=")}
    if known.variants:
        types.discard(OBJECT)
    other = Shape(types - known.types)
    if not known.types and known.item is None and not known.variants:  # elements of an array that was always empty
        return ""
    if known.item is None:
        other.item = found.item
    if not known.variants and OBJECT not in known.types:
        other.variants = found.variants
    return brief(other) if other != Shape() else ""


def _compare_fields(known: Fields, found: Fields, path: str) -> Iterator[Change]:
    for key, shape in found.keys.items():
        if key in known.keys:
            yield from compare(known.keys[key], shape, f"{path}.{key}")
        elif DATA_KEY not in known.keys:
            yield Change("new-key", f"{path}.{key}", "", brief(shape))
    for key in sorted(known.keys.keys() - known.optional):
        if key not in found.keys or key in found.optional:
            yield Change("vanished-key", f"{path}.{key}", brief(known.keys[key]), "")


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


def _walk(value: Any, steps: list[re.Match[str]]) -> Iterator[Any]:
    if not steps:
        yield value
        return
    step, rest = steps[0], steps[1:]
    if step["item"]:
        below = value if isinstance(value, list) else []
    elif step["key"] == DATA_KEY:
        below = [item for key, item in value.items() if not _is_name(key)] if isinstance(value, dict) else []
    elif step["key"]:
        below = [value[step["key"]]] if isinstance(value, dict) and step["key"] in value else []
    else:
        below = [value] if isinstance(value, dict) and step["tag"] in shape_of(value, depth=1).variants else []
    for item in below:
        yield from _walk(item, rest)
