"""The endpoints as an OpenAPI 3.1 document, made of the table of endpoints and of the structs that they parse."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from typing import Any

import msgspec

from tooltap.daemon.web.http.endpoints import ENDPOINTS, STREAM, Endpoint
from tooltap.protocol.schema import REF, Schema, discriminators, json_schema, schema_of

OPENAPI = "3.1.1"
NOT_IN_A_QUERY = ("op", "id", "speaks")
"""Keys of the frames on the socket that requests over HTTP do not have."""
COMPONENTS = "#/components/schemas/"
JSON = "application/json"
OPEN = ("/healthz",)
"""What needs no token."""

_PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
_REFERENCE = re.compile(r'"#/\$defs/([^"]+)"')
_NUMBERS = ("seq",)
"""Parameters in paths that are numbers."""
_ERROR: Schema = {
    "type": "object",
    "properties": {
        "error": {
            "type": "object",
            "properties": {"code": {"type": "string"}, "message": {"type": "string", "description": "One sentence."}},
            "required": ["code", "message"],
        }
    },
    "required": ["error"],
}


@cache
def document() -> bytes:
    """Return the document as JSON."""
    paths: dict[str, dict[str, Any]] = {}
    for one in ENDPOINTS:
        paths.setdefault(path_of(one), {})[one.method.lower()] = _operation(one)
    schemas = {"Error": _ERROR, **_reached(msgspec.json.encode(paths))}
    made = {
        "openapi": OPENAPI,
        "info": {
            "title": "tooltap",
            "version": version("tooltap"),
            "description": "The events, sessions and questions of coding agents that the daemon knows. Clients must"
            " ignore keys and values that they do not know. Nothing is ever `null`.",
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The token of this user."}
            },
            "schemas": schemas,
        },
    }
    return msgspec.json.encode(made).replace(f'"{REF}'.encode(), f'"{COMPONENTS}'.encode())


def path_of(endpoint: Endpoint) -> str:
    return _PARAMETER.sub(r"{\1}", endpoint.path)


def _operation(endpoint: Endpoint) -> Schema:
    in_path = _PARAMETER.findall(endpoint.path)
    operation: Schema = {
        "operationId": "".join(part.title() if at else part for at, part in enumerate(endpoint.name.split("_"))),
        "summary": endpoint.does,
        "parameters": [
            *({"name": name, "in": "path", "required": True, "schema": _type_of(name)} for name in in_path),
            *_query(endpoint.query, in_path),
        ],
        "responses": {
            "200": {"description": "The answer.", "content": _content(endpoint)},
            "default": {
                "description": "An error.",
                "content": {JSON: {"schema": {"$ref": f"{REF}Error"}}},
            },
        },
    }
    if endpoint.body is not None:
        body = schema_of(endpoint.body)
        operation["requestBody"] = {
            "required": True,
            "content": {JSON: {"schema": _without(body, NOT_IN_A_QUERY)}},
        }
    if endpoint.path in OPEN:
        operation["security"] = []
    return operation


def _type_of(parameter: str) -> Schema:
    return {"type": "integer", "minimum": 0} if parameter in _NUMBERS else {"type": "string"}


def _query(struct: type[msgspec.Struct] | None, in_path: list[str]) -> Iterator[Schema]:
    if struct is None:
        return
    stated = {field.encode_name for field in msgspec.structs.fields(struct) if field.name in in_path}
    schema = _without(schema_of(struct), (*NOT_IN_A_QUERY, *stated))
    for name, value in schema["properties"].items():
        kind = dict(value)
        parameter: Schema = {"name": name, "in": "query", "required": name in schema["required"]}
        if "description" in kind:
            parameter["description"] = kind.pop("description")
        yield {**parameter, "schema": kind}


def _without(schema: Schema, keys: tuple[str, ...]) -> Schema:
    """An object's schema without some of its keys."""
    properties = {key: value for key, value in schema["properties"].items() if key not in keys}
    return {**schema, "properties": properties, "required": [key for key in schema["required"] if key not in keys]}


def _content(endpoint: Endpoint) -> Schema:
    result = endpoint.result
    content: Schema = {}
    if result is not None:
        content[JSON] = {"schema": result if isinstance(result, dict) else {"$ref": f"{REF}{result.__name__}"}}
    if endpoint.other is not None:
        content[endpoint.other] = {"schema": {"type": "string"} if endpoint.other != STREAM else {}}
    return content


def _reached(text: bytes) -> dict[str, Schema]:
    """The definitions that a text refers to, and those that these refer to."""
    known = json_schema()["$defs"]
    found: dict[str, Schema] = {}
    names = _named_in(text)
    while names:
        name = names.pop()
        if name in known and name not in found:
            found[name] = known[name]
            names |= _named_in(msgspec.json.encode(known[name]))
    for name, discriminator in discriminators().items():
        if name in found:
            found[name] = {**found[name], "discriminator": discriminator}
    return dict(sorted(found.items()))


def _named_in(text: bytes) -> set[str]:
    return set(_REFERENCE.findall(text.decode()))
