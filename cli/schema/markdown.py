"""The schema as a Markdown page: a table for each struct, in the order in which the author of a client needs them."""

from __future__ import annotations

import json
from collections import deque

from tooltap.cli.schema.model import COMPATIBILITY, REF, UNIONS, Definition, Schema, definitions, json_schema
from tooltap.protocol import PROTOCOL_VERSION, SCHEMA_VERSION
from tooltap.protocol.frames import ERROR_CODES

HEAD = f"""\
# Schema {SCHEMA_VERSION}, protocol {PROTOCOL_VERSION}

Everything that is sent over the daemon's socket: one JSON object per line. `make schema` generates this page from the
structs in `protocol/`. `tooltap schema --format json-schema` prints the same as JSON Schema, `--format typescript` as
types.

**Compatibility.** {COMPATIBILITY}

A key marked * is always present. An absent key means its default.
"""

PAYLOADS = ("ToolInput", "ToolResultPayload")
"""The structs that all payloads of tools extend."""


def markdown() -> str:
    """Return the page."""
    page = _Page()
    page.add(HEAD)
    page.add_union("AnyEvent")
    page.add_tools()
    for name in UNIONS:
        if name != "AnyEvent":
            page.add_union(name)
    page.add_results()
    codes = (f"| `{code}` | {meaning} |" for code, meaning in ERROR_CODES.items())
    page.add("## Error codes", "", "| `code` | meaning |", "|---|---|", *codes)
    return "\n".join(page.parts)


class _Page:
    def __init__(self) -> None:
        self.parts: list[str] = []
        self._schemas = json_schema()["$defs"]
        self._structs = definitions()
        self._written: set[str] = set()

    def add(self, *lines: str) -> None:
        self.parts.append("\n".join(lines).rstrip() + "\n")

    def add_union(self, name: str) -> None:
        """Add a section for a union: what its members have in common, each member, and the structs in them."""
        members = [_name(member) for member in self._schemas[name]["anyOf"]]
        bases = {self._structs[member].base for member in members}
        common = [base for base in bases if base is not None and len(bases) == 1]
        all_have = [f"All have the keys of {_link(base)}." for base in common]
        self.add(f"## {UNIONS[name].title}", "", " ".join([UNIONS[name].doc, *all_have]))
        self._add_structs([*common, *members])

    def add_tools(self) -> None:
        schema = self._schemas["Tools"]
        self.add("## Tools", "", "The `input` of a call and the `output` of a result. " + schema["description"])
        named = {name: tool["properties"] for name, tool in schema["properties"].items()}
        rows = [(name, _name(sides["input"]), _name(sides["output"])) for name, sides in named.items()]
        rows.append(("mcp__<server>__<tool>", "McpInput", "McpResult"))
        lines = (f"| `{name}` | {_link(given)} | {_link(result)} |" for name, given, result in rows)
        self.add("| `name` | `input` | `output` |", "|---|---|---|", *lines)
        self._add_structs([*PAYLOADS, *(name for name, one in self._structs.items() if one.is_open and one.base)])

    def add_results(self) -> None:
        schema = self._schemas["Results"]
        self.add("## Results of requests", "", schema["description"])
        results = {op: _name(result) for op, result in schema["properties"].items()}
        lines = (f"| `{op}` | {_link(name)} |" for op, name in results.items())
        self.add("| `op` | `result` |", "|---|---|", *lines)
        self._add_structs(list(results.values()))

    def _add_structs(self, names: list[str]) -> None:
        """Add these structs, and then those that they refer to."""
        waiting = deque(names)
        while waiting:
            name = waiting.popleft()
            if name not in self._written:
                self._written.add(name)
                self.add(*_struct(self._structs[name]))
                waiting.extend(_references(self._structs[name]))


def _references(definition: Definition) -> list[str]:
    return [*([definition.base] if definition.base else []), *_references_in(definition.own)]


def _references_in(value: object) -> list[str]:
    if isinstance(value, dict):
        own = [_name(value)] if "$ref" in value else []
        return own + [name for inner in value.values() for name in _references_in(inner)]
    return [name for inner in value for name in _references_in(inner)] if isinstance(value, list) else []


def _struct(definition: Definition) -> list[str]:
    doc = " ".join(definition.doc.split())
    base = [f"It also has the keys of {_link(definition.base)}."] if definition.base else []
    text = " ".join([*([doc] if doc else []), *base])
    return [f"### {definition.name}", "", *([text, ""] if text else []), *_table(definition)]


def _table(definition: Definition) -> list[str]:
    if not definition.own:
        return []
    rows = (_row(key, schema, definition.is_required(key)) for key, schema in definition.own.items())
    return ["| key | type | meaning |", "|---|---|---|", *rows]


def _row(key: str, schema: Schema, required: bool) -> str:
    default = schema.get("default")
    meaning = [schema["description"]] if "description" in schema else []
    if default not in (None, False, [], {}):
        meaning.append(f"Default: `{json.dumps(default)}`.")
    return f"| `{key}`{'*' if required else ''} | {_type(schema)} | {_cell(' '.join(meaning))} |"


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return _link(_name(schema))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(option) for option in schema["anyOf"]))
    match schema.get("type"):
        case None:
            return "anything"
        case "array":
            return f"list of {_type(schema['items'])}" if "items" in schema else "list"
        case "object":
            values = schema.get("additionalProperties")
            return f"object: string → {_type(values)}" if values else "object"
        case name:
            return str(name)


def _name(reference: Schema) -> str:
    name: str = reference["$ref"].removeprefix(REF)
    return name


def _link(name: str) -> str:
    return f"[{name}](#{name.lower()})"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
