"""The shape of a JSON value: its types without its values, over one example or many.

A shape is a union. An object's variants are kept apart by their tag, the words under `type`, `subtype`, `method` and
the like: what tells one message or block from another is the one value that is part of a shape. Elements of an array
are one shape, whatever their number. A key is optional if an example of its variant lacks it.

Everything is bounded: nesting, keys per object, variants per place. Keys that are data (paths, ids, model names,
questions) stand together as `*`, and what a caller of a tool makes up (`input`, `arguments`, …) is not looked into: it
is an `object`.

Written as JSON, a shape looks like what it describes: `{"type": "=text", "text": "string", "id?": "null|string",
"parts": [{…}, {…}]}`. `=text` is a word, `…?` an optional key, a list holds what the elements may be, and
`{"|": […]}` is any other choice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

__all__ = ["ANYTHING", "Change", "Shape", "brief", "compare", "example", "has_key", "render", "shape_of"]

ANYTHING = "…"
"""The type of what lies too deep to be looked at."""
OBJECT = "object"
"""The type of an object that is not looked into."""
DATA_KEY = "*"
CHOICE = "|"

MAX_DEPTH = 12
MAX_KEYS = 64
MAX_VARIANTS = 96

TAG_KEYS = ("type", "subtype", "method", "sessionUpdate", "role", "object", "operation")
MADE_UP = frozenset(
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
"""Objects under these keys are arguments and results of tools, or other peoples' data: the tool's, not the wire's."""

_WORD = re.compile(r"[A-Za-z_$][\w./$:-]{0,63}")
_NAME = re.compile(r"[A-Za-z_$@][\w$-]{0,47}")
_DIGIT = re.compile(r"\d")
_STEP = re.compile(r"\.(?P<key>[^.<\[]+)|(?P<item>\[\])|<(?P<tag>[^>]*)>")


def _is_name(key: str) -> bool:
    """Whether a key of an object is a name somebody gave a field, rather than data."""
    if _NAME.fullmatch(key) is None:
        return False
    digits = len(_DIGIT.findall(key))
    return digits < 4 and not (digits and "-" in key)  # no id, no `model-5`


@dataclass
class Fields:
    """One variant of an object."""

    keys: dict[str, Shape] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    examples: int = field(default=1, compare=False)

    @property
    def tag(self) -> str:
        """`system/init`; empty where no word tells the object from others."""
        words = (self.keys[key].word for key in TAG_KEYS if key in self.keys)
        return "/".join(word for word in words if word is not None)

    def add(self, other: Fields, *, demands: bool) -> None:
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
        """A key that is data, or one too many, is none of its own."""
        if key in self.keys or (_is_name(key) and len(self.keys) < MAX_KEYS):
            self.keys[key] = shape
            return
        self.keys.setdefault(DATA_KEY, Shape()).add(shape if not _is_name(key) else Shape({ANYTHING}))
        self.optional.add(DATA_KEY)


@dataclass
class Shape:
    types: set[str] = field(default_factory=set)
    """Of `null boolean number string object …`, and `=word`."""
    item: Shape | None = None
    """What elements of arrays are; None: it was never an array."""
    variants: dict[str, Fields] = field(default_factory=dict)
    """Objects by tag."""

    @property
    def word(self) -> str | None:
        """The word, if it is never anything else."""
        only = next(iter(self.types)) if len(self.types) == 1 and self.item is None and not self.variants else ""
        return only[1:] if only.startswith("=") else None

    def copy(self) -> Shape:
        variants = {
            tag: Fields({key: one.copy() for key, one in fields.keys.items()}, set(fields.optional), fields.examples)
            for tag, fields in self.variants.items()
        }
        return Shape(set(self.types), None if self.item is None else self.item.copy(), variants)

    def add(self, other: Shape, *, demands: bool = True) -> None:
        """Take in what `other` is; its parts become parts of this one. Without `demands`, a key that `other` lacks does
        not become optional by that."""
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
        """Make optional whatever has been there in fewer examples than that: it may have been so by chance."""
        if self.item is not None:
            self.item.demand(examples)
        for fields in self.variants.values():
            if fields.examples < examples:
                fields.optional = set(fields.keys)
            for shape in fields.keys.values():
                shape.demand(examples)

    # -- as JSON ------------------------------------------------------------------------------------------------

    def alternatives(self) -> list[Any]:
        """What it may be, as JSON values; empty where there was no example."""
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
        """Raises `ValueError` where the value is no shape."""
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
            if key in MADE_UP and isinstance(item, dict):
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
    """Where what was found is not what was known."""

    kind: Literal["new-variant", "new-key", "vanished-key", "other-type"]
    path: str
    """`$<assistant>.message.content[]<tool_use>.name`: keys, elements of arrays, tags of objects."""
    known: str
    found: str
    """Both in words; empty where there is nothing."""


def compare(known: Shape, found: Shape, path: str = "$") -> Iterator[Change]:
    """What of `found` does not fit `known`: that less was found than may be there is no change."""
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
    """The types that were never there, in words."""
    types = set(found.types)
    if "string" in known.types:
        types = {one for one in types if not one.startswith("=")}
    if known.variants:
        types.discard(OBJECT)
    other = Shape(types - known.types)
    if not known.types and known.item is None and not known.variants:  # of an array that was always empty
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
    """Whether some example had the key at a change's path."""
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
    """A readable diff, a line for each change: `+` is new, `-` has vanished, `~` is something else."""
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
    """The first value at a change's path; for a key that has vanished, the object it is missing from."""
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
