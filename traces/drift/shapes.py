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
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import chain, islice
from typing import Any, Literal, NamedTuple

import msgspec

ANYTHING = "…"
"""The type of a value below the maximum depth. It is compatible with everything."""
OBJECT = "object"
"""The type of an object whose keys are not part of the shape."""
DATA_KEY = "*"
CHOICE = "|"
FEW = "?"

MAP_KEYS = 4
"""The keys of an object are data if its examples had at least this many different ones …"""
MAP_SHARE = 0.5
"""… and an example had on average no more than this share of them."""

ALIKE = 0.6
"""Two keys are spelt alike if at least this share of their characters is common to both, in order."""

MAX_DEPTH = 12
MAX_KEYS = 64
MAX_VARIANTS = 96
MAX_ITEMS = 1_000
"""Elements of an array, the first and the last, that give its shape. The others are nearly always like them."""
MAX_MEMBERS = 1_000
"""Keys of an object, the first, that give its shape."""

TAG_KEYS = ("type", "subtype", "method", "sessionUpdate", "role", "object", "operation")
ANSWERED = "command"
"""Additional tag key of objects of type `response` (Pi 0.73): the command that the response answers."""
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

ANSWERS = frozenset(
    {
        "rawOutput",
        "raw_output",
        "resultDisplay",
        "structuredContent",
        "structured_content",
        "toolResponse",
        "toolUseResult",
        "tool_response",
        "tool_use_result",
    }
)
"""Values under these keys are a tool's own answer, passed on: each tool has another type of them."""

_WORD = re.compile(r"[A-Za-z_$][\w./$:-]{0,63}")
_NAME = re.compile(r"[A-Za-z_$@][\w$-]{0,47}")
_DIGIT = re.compile(r"\d")
_MCP_TOOL = "mcp__"
_OPERATOR = "$"
"""Prefix of the key of an update (`$set`): its object holds just the keys that it changes, so all are optional."""
_BY_NAME = re.compile(r"by([A-Z_]\w*)")
"""Matches keys of objects whose own keys are names: `byName`, `by_type`."""


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
    """Number of keys, summed over all examples."""
    sources: frozenset[Source] = frozenset()
    """The recordings with this variant, if the shapes were marked (`Shape.mark`)."""
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
        """Whether the keys are data, like those of a map from names or ids to values of one shape. `name` is the key of
        the object itself."""
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
        """Record the recording from which the shape was taken."""
        for fields in self._fields():
            fields.sources = frozenset((source,))

    def settle(self, recordings: int, configurations: int) -> None:
        """Mark variants that fewer recordings or configurations had as `few`: their keys are not expected, because a
        few recordings may all have a key by chance."""
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
        """Yield all object variants in the shape, at any depth."""
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
        """Decode a shape. Raises `ValueError` if the value is not one."""
        shape = cls()
        for part in value[CHOICE] if isinstance(value, dict) and CHOICE in value else [value]:
            shape.add(cls._part_from_json(part))
        return shape

    @classmethod
    def from_alternatives(cls, parts: list[Any]) -> Shape:
        """Decode a list of alternatives. Raises `ValueError`."""
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
            if key in OPAQUE and (isinstance(item, dict) or (key in ANSWERS and isinstance(item, list))):
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


# -- comparing ----------------------------------------------------------------------------------------------------

_ERROR = re.compile("^err|error", re.IGNORECASE)
_STEP = re.compile(r"\.(?P<key>[^.<\[]+)|(?P<item>\[\])|<(?P<tag>[^<>]*)>")


class ShapeChange(NamedTuple):
    """One difference between a found and the known shape."""

    kind: Literal["new-variant", "new-key", "vanished-key", "other-type"]
    path: str
    """`$<assistant>.message.content[]<tool_use>.name`: keys, elements of arrays, tags of objects."""
    known: str
    found: str
    """The known and the found shape in a few words; empty if absent. For a vanished key, `found` is the new key to
    which it may have been renamed."""
    mild: bool = False
    """A lesser change. For another type: it may be legitimate here. For a new key: no known key is missing. For a
    vanished key: it was not renamed."""


def compare(known: Shape, found: Shape, path: str = "$", *, few: bool = False) -> Iterator[ShapeChange]:
    """Yield the deviations of `found` from `known`. Alternatives of `known` that were not found are not a change.

    An expected key may be missing because it was renamed. If a new key has a value of the same shape, the change names
    it. A few examples suffice to notice that, while a key that is merely missing counts only if many recordings had it.
    """
    if ANYTHING in known.types | found.types:
        return
    if other := _other_types(known, found, few=few):
        key = path.rpartition(".")[2]
        mild = few or key == DATA_KEY or key in ANSWERS or _is_content(known, found)
        yield ShapeChange("other-type", path, brief(known), other, mild)
    if known.item is not None and found.item is not None:
        yield from compare(known.item, found.item, f"{path}[]", few=few)
    for tag, fields in found.variants.items():
        place = f"{path}<{tag}>" if tag else path
        if tag in known.variants:
            yield from _compare_fields(known.variants[tag], fields, place)
        elif known.variants and OBJECT not in known.types:
            yield ShapeChange("new-variant", place, "", brief(Shape(variants={tag: fields})))


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
    """Whether a text became content blocks or an object with more details, or the reverse. Every protocol has both
    forms."""
    for text, other in ((known, found), (found, known)):
        if "string" in text.types and (other.variants or OBJECT in other.types or _has_blocks(other)):
            return True
    return False


def _has_blocks(shape: Shape) -> bool:
    return shape.item is not None and any(shape.item.variants)


def _compare_fields(known: Fields, found: Fields, path: str) -> Iterator[ShapeChange]:
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
        yield ShapeChange("new-key", f"{path}.{key}", "", brief(shape), not gone)
    for key in sorted(gone):
        if key in now or not known.few:
            yield ShapeChange("vanished-key", f"{path}.{key}", brief(known.keys[key]), now.get(key, ""), key not in now)


def _names_now(gone: dict[str, Shape], new: dict[str, Shape]) -> dict[str, str]:
    """Map missing keys to the new keys to which they may have been renamed, chosen by similar spelling. If more keys
    are missing than new, the object is of another kind, and none was renamed. A new error key replaces an error key
    only: an error comes in place of a result."""
    names: dict[str, str] = {}
    for key, shape in gone.items() if len(gone) <= len(new) else ():
        able = [
            one
            for one, value in new.items()
            if one not in names.values() and (_ERROR.search(key) or not _ERROR.search(one)) and _may_be(shape, value)
        ]
        if able:
            names[key] = max(able, key=lambda one: SequenceMatcher(None, key, one).ratio())
    return names


def _may_be(known: Shape, found: Shape) -> bool:
    """Whether a value may be the known one under a new key: it has the same types and, if it is an object, mostly known
    keys."""
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


def places(shape: Shape, depth: int, path: str = "$") -> Iterator[str]:
    """Yield the paths of all tagged objects in the shape, outside arrays, down to `depth` keys."""
    for tag, fields in shape.variants.items():
        place = f"{path}<{tag}>" if tag else path
        if tag:
            yield place
        if depth:
            for key, below in fields.keys.items():
                yield from places(below, depth - 1, f"{place}.{key}")


def shapes_at(shape: Shape, path: str) -> list[Shape]:
    """The parts of the shape at the path of a change; none if no example has it."""
    shapes = [shape]
    for step in _STEP.finditer(path):
        shapes = [below for one in shapes for below in _below(one, step)]
    return shapes


def kinds_of(shapes: Iterable[Shape]) -> set[str]:
    """The kinds of JSON values in shapes, but null: `string`, `number`, `boolean`, `list`, `object`."""
    kinds = {"string" if kind.startswith("=") else kind for shape in shapes for kind in shape.types}
    kinds |= {"list" for shape in shapes if shape.item is not None}
    kinds |= {OBJECT for shape in shapes if shape.variants}
    return kinds - {"null", ANYTHING}


def is_alike(key: str, other: str) -> bool:
    """Whether a key is spelt like another one, or is a part of it, so that it may be its new name."""
    key, other = key.lower(), other.lower()
    return key in other or other in key or SequenceMatcher(None, key, other).ratio() >= ALIKE


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


def render(changes: list[ShapeChange]) -> Iterator[str]:
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
