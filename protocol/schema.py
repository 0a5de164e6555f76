"""The structs of `tooltap.protocol` as one JSON Schema, with their docstrings as descriptions.

msgspec knows the types. This module turns them into what is on the wire: nothing is null, keys that are always written
are required, and internal fields are left out. TypeScript and the reference page are generated from the same schema.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple, TypeAlias

import msgspec

from tooltap.protocol import PROTOCOL_VERSION, SCHEMA_VERSION
from tooltap.protocol.display import AnyDisplayEvent
from tooltap.protocol.events import AnyEvent
from tooltap.protocol.frames import ClientFrame, DaemonFrame
from tooltap.protocol.payloads import OpenStruct
from tooltap.protocol.replies import RESULTS
from tooltap.protocol.tools import TOOLS, McpInput, McpResult

Schema: TypeAlias = dict[str, Any]

REF = "#/$defs/"


class Union(NamedTuple):
    """Tagged union: structs distinguished by the value of one key."""

    members: Any
    title: str
    doc: str


UNIONS = {
    "AnyEvent": Union(AnyEvent, "Events", "An event line; `kind` says which."),
    "AnyDisplayEvent": Union(
        AnyDisplayEvent,
        "Display events",
        "A line of a subscription with `as` set to `display`: what a user interface shows of one event; `kind` says"
        " which.",
    ),
    "ClientFrame": Union(ClientFrame, "Frames of clients", "A line to the daemon; `op` says which."),
    "DaemonFrame": Union(
        DaemonFrame, "Frames of the daemon", "A line from the daemon that is not an event; `op` says which."
    ),
}

COMPATIBILITY = (
    f"Within schema {SCHEMA_VERSION} and protocol {PROTOCOL_VERSION}, things are only added: kinds, frames, keys,"
    " values of enumerations, tools. What exists keeps its name, its type, its default, and whether it is always"
    " present; a new key of a client's frame is optional, and a limit of what clients may send only gets"
    " looser. So clients must ignore keys, kinds and values that they do"
    " not know. An absent key means that the value is not known, or is the default. Nothing is ever `null`, except"
    " inside `_raw` and other open objects of providers."
)


class Definition(NamedTuple):
    """A struct: its whole schema, and its own keys."""

    name: str
    schema: Schema
    base: str | None
    """The definition from which it inherits the other keys."""
    own: dict[str, Schema]
    """Key -> schema of its value."""
    is_open: bool
    """Whether it may have further keys."""

    @property
    def doc(self) -> str:
        text: str = self.schema.get("description", "")
        return text

    def is_required(self, key: str) -> bool:
        return key in self.schema["required"]


def json_schema() -> Schema:
    """The whole schema, in draft 2020-12. It describes an event line; everything else is under `$defs`."""
    unions, _ = _msgspec_components()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:tooltap:schema:{SCHEMA_VERSION}",
        "title": f"tooltap: events (schema {SCHEMA_VERSION}) and socket frames (protocol {PROTOCOL_VERSION})",
        "description": COMPATIBILITY,
        "$ref": f"{REF}AnyEvent",
        "$defs": {
            **{
                name: {"title": name, "description": UNIONS[name].doc, "anyOf": union["anyOf"]}
                for name, union in zip(UNIONS, unions, strict=True)
            },
            "Tools": _tools(),
            "Results": _results(),
            **{name: definition.schema for name, definition in definitions().items()},
        },
    }


@cache
def definitions() -> dict[str, Definition]:
    """Name -> struct, module by module in the order of the source."""
    _, components = _msgspec_components()
    structs = [struct for struct in _structs(msgspec.Struct) if struct.__name__ in components]
    structs.sort(key=lambda struct: (struct.__module__, list(_class_docs(struct.__module__)).index(struct.__name__)))
    return {struct.__name__: _definition(struct, components[struct.__name__]) for struct in structs}


def discriminators() -> dict[str, Schema]:
    """Union -> which key says which struct it is, as OpenAPI has it; JSON Schema does not know that keyword."""
    unions, _ = _msgspec_components()
    return {name: union["discriminator"] for name, union in zip(UNIONS, unions, strict=True)}


def schema_of(struct: type[msgspec.Struct]) -> Schema:
    """The schema of a struct outside of the protocol, as it is written."""
    _, components = msgspec.json.schema_components([struct], ref_template=REF + "{name}")
    return _definition(struct, components[struct.__name__]).schema


@cache
def _msgspec_components() -> tuple[list[Schema], dict[str, Schema]]:
    """Return the schemas of the unions; and those of every struct in them and in the tools, and of their bases."""
    payloads = [payload for tool in TOOLS.values() for payload in tool]
    named = [union.members for union in UNIONS.values()]
    roots = [*named, *payloads, McpInput, McpResult, *RESULTS.values()]
    schemas, reached = msgspec.json.schema_components(roots, ref_template=REF + "{name}")
    structs = [struct for struct in _structs(msgspec.Struct) if struct.__name__ in reached]
    bases = {base for struct in structs for base in struct.__mro__ if _is_public(base)}
    _, components = msgspec.json.schema_components([*roots, *bases], ref_template=REF + "{name}")
    return list(schemas)[: len(named)], components


def _tools() -> Schema:
    return {
        "title": "Tools",
        "description": "Canonical name of a tool -> its `input` and `output`. Unknown keys of a provider, and values of"
        " another type under a known key, are passed on unchanged. A result that as a whole has a form that its"
        " protocol does not have is only in `_raw` and in `modelView`.",
        "type": "object",
        "properties": {
            name: {
                "type": "object",
                "properties": {
                    "input": {"$ref": REF + tool.input.__name__},
                    "output": {"$ref": REF + tool.result.__name__},
                },
                "required": ["input", "output"],
            }
            for name, tool in TOOLS.items()
        },
        "required": [],
    }


def _results() -> Schema:
    return {
        "title": "Results",
        "description": "`op` of a request -> the `result` of its reply. The result of `stats` is an open object.",
        "type": "object",
        "properties": {op: {"$ref": REF + struct.__name__} for op, struct in RESULTS.items()},
        "required": [],
    }


def _structs(of: type[msgspec.Struct]) -> Iterator[type[msgspec.Struct]]:
    """All public structs of the protocol that extend `of`."""
    for struct in of.__subclasses__():
        if _is_public(struct):
            yield struct
        yield from _structs(struct)


def _is_public(struct: type) -> bool:
    ours = struct.__module__.startswith("tooltap.protocol.") and not struct.__name__.startswith("_")
    return ours and struct is not OpenStruct


def _base(struct: type[msgspec.Struct]) -> type[msgspec.Struct] | None:
    base = struct.__mro__[1]
    return base if _is_public(base) else None


def _definition(struct: type[msgspec.Struct], schema: Schema) -> Definition:
    config, docs = struct.__struct_config__, _field_docs(struct)
    schema, base = dict(schema), _base(struct)
    properties = {key: _on_the_wire(value) for key, value in schema["properties"].items()}
    required = schema["required"]
    if not config.omit_defaults:
        required = list(properties)
        for value in properties.values():
            value.pop("default", None)
    if issubclass(struct, OpenStruct):
        del properties["extra"]
    if config.tag == struct.__name__:  # set by msgspec for a base that is never written
        properties[str(config.tag_field)] = {"type": "string"}
    for field in msgspec.structs.fields(struct):
        if field.encode_name in properties and field.name in docs:
            properties[field.encode_name]["description"] = docs[field.name]
    for text in (schema, *properties.values()):
        if "description" in text:
            # msgspec before 0.23 leaves a docstring's indentation.
            text["description"] = _with_wire_names(inspect.cleandoc(text["description"]), struct)
    inherited = {field.encode_name for field in msgspec.structs.fields(base)} if base else set()
    return Definition(
        struct.__name__,
        {**schema, "properties": properties, "required": required},
        base.__name__ if base else None,
        {key: value for key, value in properties.items() if key not in inherited},
        issubclass(struct, OpenStruct),
    )


def _with_wire_names(text: str, struct: type[msgspec.Struct]) -> str:
    """Replace Python's field names in a docstring with the names on the wire."""
    for field in msgspec.structs.fields(struct):
        if "_" in field.name and field.name != field.encode_name:
            text = re.sub(rf"\b{field.name}\b", field.encode_name, text)
    return text


def _on_the_wire(schema: Schema) -> Schema:
    """Remove from the schema of a value what is never written."""
    schema = {key: value for key, value in schema.items() if (key, value) != ("default", None)}
    options = [option for option in schema.get("anyOf", []) if option != {"type": "null"}]
    if len(options) == 1:
        del schema["anyOf"]
        schema = {**options[0], **schema}
    elif options:
        schema["anyOf"] = options
    if "pattern" in schema:
        schema["pattern"] = schema["pattern"].replace(r"\Z", "$")  # other languages do not know `\Z`
    return schema


def _field_docs(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Map each field to the docstring that follows it."""
    found: dict[str, str] = {}
    for owner in reversed(struct.__mro__):
        if owner.__module__.startswith("tooltap."):
            found |= _class_docs(owner.__module__)[owner.__name__]
    return found


@cache
def _class_docs(module: str) -> dict[str, dict[str, str]]:
    """Map each class to its fields and their docstrings, in the order of the source: Python drops them."""
    found: dict[str, dict[str, str]] = {}
    for struct in ast.parse(inspect.getsource(sys.modules[module])).body:
        if isinstance(struct, ast.ClassDef):
            docs = found[struct.name] = {}
            for field, text in zip(struct.body, struct.body[1:], strict=False):
                match field, text:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(doc))):
                        docs[name] = " ".join(doc.split())
    return found
