"""The shape of a JSON value: its types without its values, merged over one or more examples.

A shape is a union of scalar types, array elements and object variants:

- Variants of an object are distinguished by their tag: the values of `type`, `subtype`, `method` and similar keys, such
  as `system/init`. These values distinguish messages and blocks, and are the only values that are part of a shape.
- All elements of an array share one shape.
- A key of a variant is optional if at least one example lacked it. Another key is expected, unless too few recordings
  had the variant: then it is only usual.

Shapes are bounded in nesting, in keys per object, and in variants per place. Two things would make them grow with the
data, and are cut off: keys that are data (paths, ids, names of models and tools) are merged into the key `*`, and the
arguments and results of tools (`input`, `arguments`, …) are just `object`. Whether a key is data shows in its
characters, or, once several recordings are known, in how the keys of the object vary (`fold_maps`).

As JSON, a shape looks like the value it describes: `{"type": "=text", "text": "string", "id?": "null|string",
"parts": [{…}, {…}]}`. `=text` is the value of a tag, `…?` an optional key, a list holds the alternatives of its
elements, `{"|": […]}` holds any other alternatives, and `"?": "few"` says that the variant's keys are only usual.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any, NamedTuple

import msgspec

ANYTHING = "…"
"""The type of a value below the maximum depth. It is compatible with everything."""
OBJECT = "object"
"""The type of an object whose keys are not part of the shape."""
DATA_KEY = "*"
CHOICE = "|"
FEW = "?"

MAP_KEYS = 4
"""An object without a fixed set of keys had at least so many different ones …"""
MAP_SHARE = 0.5
"""… and an example of it no more than this share of them."""

MAX_DEPTH = 12
MAX_KEYS = 64
MAX_VARIANTS = 96
MAX_ITEMS = 1_000
"""Elements of an array, the first and the last, that give its shape. The others are nearly always like them."""
MAX_MEMBERS = 1_000
"""Keys of an object, the first, that give its shape."""

TAG_KEYS = ("type", "subtype", "method", "sessionUpdate", "role", "object", "operation")
ANSWERED = "command"
"""A tag key of objects whose type is `response` (Pi 0.73): which command it answers."""
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
_MCP_TOOL = "mcp__"
_OPERATOR = "$"
"""An object under such a key (`$set`) has those keys that it changes."""
_BY_NAME = re.compile(r"by([A-Z_]\w*)")
"""The keys of an object under such a key are names: `byName`, `by_type`."""


def _is_tag(key: str, value: dict[str, Any]) -> bool:
    return key in TAG_KEYS or (key == ANSWERED and value.get("type") == "response")


def _is_name(key: str) -> bool:
    """Whether a key of an object is the name of a field rather than data."""
    if _NAME.fullmatch(key) is None or key.startswith(_MCP_TOOL):
        return False
    digits = len(_DIGIT.findall(key))
    return digits < 4 and not (digits and "-" in key)  # an id or `model-5` is data


class Source(NamedTuple):
    """The origin of a shape."""

    configuration: str
    recording: str


class Fields(msgspec.Struct, eq=False, array_like=True):
    """One variant of an object."""

    keys: dict[str, Shape] = {}
    optional: set[str] = set()
    examples: int = 1
    members: int = 0
    """Keys of all examples together."""
    sources: frozenset[Source] = frozenset()
    """The recordings that had it, if it was marked with them."""
    few: bool = False
    """Too few recordings had it for its keys to be expected."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Fields):
            return NotImplemented
        return (self.keys, self.optional, self.few) == (other.keys, other.optional, other.few)

    @property
    def tag(self) -> str:
        """`system/init`; empty if no tag key has a fixed value."""
        words = (self.keys[key].word for key in (*TAG_KEYS, ANSWERED) if key in self.keys)
        return "/".join(word for word in words if word is not None)

    def add(self, other: Fields, *, demands: bool) -> None:
        """Merge another variant of the same tag into this one; see `Shape.add`."""
        if demands:
            self.optional |= other.optional | (self.keys.keys() - other.keys.keys())
            self.examples += other.examples
            self.members += other.members
            self.sources |= other.sources
            self.few &= other.few
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

    def fold(self) -> None:
        """Merge all keys into `*`."""
        for key in [key for key in self.keys if key != DATA_KEY]:
            self.keys.setdefault(DATA_KEY, Shape()).add(self.keys.pop(key))
        self.optional = {DATA_KEY}

    def is_map(self, name: str) -> bool:
        """Whether the keys are data, as the keys of a map from names or ids to values of one shape. `name` is the key
        of the object itself."""
        if self.tag or not self.keys or not _is_uniform(list(self.keys.values())):
            return False
        varies = len(self.keys) >= MAP_KEYS and self.members <= MAP_SHARE * self.examples * len(self.keys)
        return DATA_KEY in self.keys or varies or _BY_NAME.fullmatch(name) is not None


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
            tag: Fields(
                {key: one.copy() for key, one in fields.keys.items()},
                set(fields.optional),
                fields.examples,
                fields.members,
                fields.sources,
                fields.few,
            )
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
                fields.few |= not demands
            else:
                self.types.add(OBJECT)

    def mark(self, source: Source) -> None:
        """Say which recording the shape is of."""
        for fields in self._fields():
            fields.sources = frozenset((source,))

    def settle(self, recordings: int, configurations: int) -> None:
        """Decide which variants are known well enough for their keys to be expected: those that so many recordings of
        so many configurations had. A key may be in all examples of a few recordings by chance."""
        for fields in self._fields():
            known = {source.configuration for source in fields.sources}
            fields.few = len(fields.sources) < recordings or len(known) < configurations

    def fold_maps(self, name: str = "") -> None:
        """Merge keys into `*` where the examples show that they are data. `name` is the key of the value itself."""
        if self.item is not None:
            self.item.fold_maps()
        for fields in self.variants.values():
            for key, shape in fields.keys.items():
                shape.fold_maps(key)
            if fields.is_map(name):
                fields.fold()
            elif name.startswith(_OPERATOR):
                fields.optional = set(fields.keys)

    def release(self) -> None:
        """Make all keys optional."""
        for fields in self._fields():
            fields.optional = set(fields.keys)

    def _fields(self) -> Iterator[Fields]:
        """All variants of objects in it."""
        if self.item is not None:
            yield from self.item._fields()
        for fields in self.variants.values():
            yield fields
            for shape in fields.keys.values():
                yield from shape._fields()

    # -- as JSON ------------------------------------------------------------------------------------------------

    def alternatives(self) -> list[Any]:
        """The alternatives as JSON values; empty if there was no example."""
        parts: list[Any] = ["|".join(sorted(self.types))] if self.types else []
        if self.item is not None:
            parts.append(self.item.alternatives())
        for _, fields in sorted(self.variants.items()):
            keys = sorted(fields.keys, key=lambda key: (key not in TAG_KEYS, key))
            few = {FEW: "few"} if fields.few and fields.keys.keys() - fields.optional else {}
            shapes = {key + "?" * (key in fields.optional): fields.keys[key].to_json() for key in keys}
            parts.append({**few, **shapes})
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
        fields = Fields(few=FEW in part)
        for key, value in part.items():
            if key == FEW:
                continue
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
        for key, item in islice(value.items(), MAX_MEMBERS):
            if key in OPAQUE and isinstance(item, dict):
                fields.put(key, Shape({OBJECT}))
            elif _is_tag(key, value) and isinstance(item, str) and _WORD.fullmatch(item):
                fields.put(key, Shape({f"={item}"}))
            else:
                fields.put(key, shape_of(item, depth=depth - 1))
        fields.members = len(value)
        return Shape(variants={fields.tag: fields})
    if isinstance(value, list):
        if depth == 0:
            return Shape({ANYTHING})
        items = Shape()
        for item in value if len(value) <= MAX_ITEMS else chain(value[: MAX_ITEMS // 2], value[-MAX_ITEMS // 2 :]):
            items.add(shape_of(item, depth=depth - 1))
        return Shape(item=items)
    return Shape({_type_of(value)})


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    return "string" if isinstance(value, str) else "number"


def _is_uniform(shapes: list[Shape]) -> bool:
    """Whether values are of one kind: scalars of one type, or lists, or objects that share most of their keys."""
    kinds = {one for shape in shapes for one in shape.types} - {"null"}
    is_list = any(shape.item is not None for shape in shapes)
    variants = [fields for shape in shapes for fields in shape.variants.values()]
    if len(kinds) + is_list + bool(variants) != 1:
        return False
    keys = [fields.keys.keys() for fields in variants]
    return not variants or 2 * len(set.intersection(*map(set, keys))) > len(set().union(*keys))
