"""The page that describes the endpoints for programs: what `/api/openapi.json` says, for people."""

from __future__ import annotations

from typing import Any, NamedTuple

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tooltap.daemon.web.http.logins import Logins
from tooltap.daemon.web.http.openapi import COMPONENTS, document
from tooltap.daemon.web.page.routing import PageRoute, html, preferences_of


class Row(NamedTuple):
    """A parameter, or a key of an object."""

    name: str
    kind: str
    required: bool
    description: str


class Object(NamedTuple):
    description: str
    options: list[str]
    """Names of the objects, of which it is one."""
    keys: list[Row]


class Described(NamedTuple):
    method: str
    path: str
    does: str
    parameters: list[Row]
    body: list[Row]
    answers: list[str]
    """MIME types of the answer."""
    result: str | None
    """Name of the schema of the JSON that is answered."""
    keys: list[Row]
    """What the answer has."""


def routes(logins: Logins) -> list[BaseRoute]:
    async def page(request: Request) -> Response:
        endpoints, objects = await anyio.to_thread.run_sync(_described)
        return await html(
            "api_docs.html",
            endpoints=endpoints,
            objects=objects,
            file_url=logins.signed_url("/api/openapi.json"),
            preferences=preferences_of(request),
        )

    return [PageRoute("/api/docs", page)]


def _described() -> tuple[list[Described], dict[str, Object]]:
    made: dict[str, Any] = msgspec.json.decode(document())
    schemas = made["components"]["schemas"]
    endpoints = [
        _endpoint(method, path, operation, schemas)
        for path, operations in made["paths"].items()
        for method, operation in operations.items()
    ]
    objects = {
        name: Object(schema.get("description", ""), [kind_of(one) for one in schema.get("anyOf", [])], _rows(schema))
        for name, schema in schemas.items()
    }
    return endpoints, objects


def _endpoint(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> Described:
    parameters = [
        Row(one["name"], kind_of(one["schema"]), one["required"], one.get("description", ""))
        for one in operation["parameters"]
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    content = operation["responses"]["200"]["content"]
    answered = content.get("application/json", {}).get("schema", {})
    name = answered.get("$ref", "").removeprefix(COMPONENTS) or None
    keys = _rows(schemas[name] if name else answered)
    return Described(method.upper(), path, operation["summary"], parameters, _rows(body), list(content), name, keys)


def _rows(schema: dict[str, Any]) -> list[Row]:
    required = schema.get("required", ())
    return [
        Row(name, kind_of(one), name in required, one.get("description", ""))
        for name, one in schema.get("properties", {}).items()
    ]


def kind_of(schema: dict[str, Any]) -> str:
    """The type of a value, in words: `integer`, `list of string`, `"seq" or "time"`, `Session`."""
    if "$ref" in schema:
        return str(schema["$ref"]).removeprefix(COMPONENTS)
    if "enum" in schema:
        return " or ".join(f'"{value}"' if isinstance(value, str) else str(value) for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(kind_of(one) for one in schema["anyOf"])
    if schema.get("type") == "array":
        return f"list of {kind_of(schema.get('items', {}))}"
    return str(schema.get("type", "any"))
