"""Structs for objects that may have unknown keys, and the keys that the payloads of all tools have.

`from_payload` never raises: a key that the struct does not have, or whose value has another type, goes to `extra`.
`to_payload` returns the object as it was.
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Any, Self, get_args, get_origin

import msgspec

__all__ = ["Happy", "OpenStruct", "ToolInput", "ToolResultPayload", "fields_of"]


class OpenStruct(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An object that may have unknown keys."""

    extra: dict[str, Any] = {}
    """Unknown keys, and keys whose value has another type."""

    @classmethod
    def from_payload(cls, payload: dict[str, Any]) -> Self:
        """Read an object, as decoded from JSON."""
        fields = fields_of(cls)
        known: dict[str, Any] = {}
        extra: dict[str, Any] = {}
        for key, value in payload.items():
            try:
                known[fields[key].name] = _read(fields[key].type, value)
            except (KeyError, msgspec.ValidationError):
                extra[key] = value
        return cls(**known, extra=extra)

    def to_payload(self) -> dict[str, Any]:
        """Return the object, ready to be encoded as JSON."""
        known = {key: _written(getattr(self, field.name)) for key, field in fields_of(type(self)).items()}
        return {**{key: value for key, value in known.items() if value is not None}, **self.extra}


@cache
def fields_of(struct: type[OpenStruct]) -> dict[str, msgspec.structs.FieldInfo]:
    """Map each key on the wire to its field, except `extra`. Cached, because msgspec takes a millisecond."""
    return {field.encode_name: field for field in msgspec.structs.fields(struct) if field.name != "extra"}


def _read(annotation: Any, value: Any) -> Any:
    """Convert a value to its annotated type. Raises `msgspec.ValidationError` if it has another type."""
    if value is None:
        raise msgspec.ValidationError("null is not absent")
    if isinstance(annotation, UnionType):
        options = [option for option in get_args(annotation) if option is not NoneType]
        annotation = options[0] if len(options) == 1 else annotation
    if isinstance(annotation, type) and issubclass(annotation, OpenStruct):
        return annotation.from_payload(msgspec.convert(value, dict[str, Any]))
    if get_origin(annotation) is list:
        return [_read(get_args(annotation)[0], item) for item in msgspec.convert(value, list[Any])]
    if get_origin(annotation) is dict:
        items = msgspec.convert(value, dict[str, Any]).items()
        return {key: _read(get_args(annotation)[1], item) for key, item in items}
    return msgspec.convert(value, annotation)


def _written(value: Any) -> Any:
    if isinstance(value, OpenStruct):
        return value.to_payload()
    if isinstance(value, list):
        return [_written(item) for item in value]
    if isinstance(value, dict):
        return {key: _written(item) for key, item in value.items()}
    return value


class Happy(OpenStruct):
    """The origin of the payload: the tool as the provider named it, and its canonical name."""

    v: int | None = None
    """Version of the payloads: 2."""
    protocol: str | None = None
    """The wire family: acp, codex, claude, …"""
    provider: str | None = None
    rawToolName: str | None = None
    """The tool's name on the wire, else the type of its item; `unknown` if only a result was seen."""
    canonicalToolName: str | None = None


class ToolInput(OpenStruct):
    """The keys that every input has."""

    happy: Happy | None = msgspec.field(default=None, name="_happy")
    raw: Any = msgspec.field(default=None, name="_raw")
    """The provider's own object for the call, truncated. Of a string, 2,000 code points are left, followed by
    `…(truncated N chars)`; of a list, 50 items, and `…(truncated N items)` as the last one; of an object, 200 keys, and
    `_truncatedKeys` with the number of the others. What is nested more than 6 levels deep is `[truncated depth]`."""
    acp: dict[str, Any] | None = msgspec.field(default=None, name="_acp")
    """In traces of Happier: kind, title, raw input and locations of the ACP update."""


class ToolResultPayload(OpenStruct):
    """The keys that every result has."""

    happy: Happy | None = msgspec.field(default=None, name="_happy")
    raw: Any = msgspec.field(default=None, name="_raw")
    """The provider's own object for the result, truncated as in the input."""
    errorMessage: str | None = None
    """The provider's message, if the call did not complete."""
    error: str | dict[str, Any] | None = None
    """As the provider states it."""
    value: Any = None
    """A result in a form that the tool does not define."""
