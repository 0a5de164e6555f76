"""The schema as a page to read: a table for each struct, in the order in which a client author meets them."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tooltap.cli.schema_model import COMPATIBILITY, REF, UNIONS, Definition, Schema, definitions, json_schema
from tooltap.protocol import PROTOCOL_VERSION, SCHEMA_VERSION
from tooltap.protocol.frames import ERROR_CODES

__all__ = ["markdown"]

HEAD = f"""\
# Schema {SCHEMA_VERSION}, protocol {PROTOCOL_VERSION}

What comes out of the daemon's socket and what goes in, one JSON object a line; made of the structs in `protocol/` by
`make schema`. `tooltap schema --format json-schema` gives the same for programs, `--format typescript` as types.

**Compatibility.** {COMPATIBILITY}

A key marked * is always there. A default is what an absent key means.
"""

BASES = ("ToolInput", "ToolResultPayload")


def markdown() -> str:
    """The page's text."""
    return "\n".join("\n".join(section).rstrip() + "\n" for section in _sections())


def _sections() -> Iterator[list[str]]:
    known, whole = definitions(), json_schema()["$defs"]
    unions = {name: [_name(member) for member in whole[name]["anyOf"]] for name in UNIONS}
    tools = whole["Tools"]["properties"]
    told = {"Event", "Statistics"} | {name for members in unions.values() for name in members}

    yield [HEAD]
    yield ["## Events", "", f"{UNIONS['AnyEvent'][1]} Every kind has the keys of `Event`."]
    yield _struct(known["Event"])
    for name in unions["AnyEvent"]:
        yield _struct(known[name])
    yield from _parts(known, ["Event", *unions["AnyEvent"]], told)

    yield ["## Tools", "", "What `input` and `output` of calls and results hold. " + whole["Tools"]["description"]]
    yield [
        "| `name` | `input` | `output` |",
        "|---|---|---|",
        *(
            f"| `{name}` | {_link(_name(tool['properties']['input']))} | {_link(_name(tool['properties']['output']))} |"
            for name, tool in tools.items()
        ),
        f"| `mcp__<server>__<tool>` | {_link('McpInput')} | {_link('McpResult')} |",
    ]
    of_tools = [name for name, one in known.items() if one.is_open and (one.base or name in BASES)]
    for name in of_tools:
        yield _struct(known[name])
    yield from _parts(known, of_tools, told | set(of_tools))

    for union, title in (("ClientFrame", "Frames of clients"), ("DaemonFrame", "Frames of the daemon")):
        yield [f"## {title}", "", UNIONS[union][1]]
        for name in unions[union]:
            yield _struct(known[name])
        yield from _parts(known, unions[union], told)
    yield ["### Statistics", "", *_table(known["Statistics"])]
    yield [
        "## Error codes",
        "",
        "| `code` | meaning |",
        "|---|---|",
        *(f"| `{c}` | {d} |" for c, d in ERROR_CODES.items()),
    ]


def _parts(known: dict[str, Definition], of: list[str], told: set[str]) -> Iterator[list[str]]:
    """The structs inside those of the section, that stand nowhere else."""
    waiting = [reference for name in of for reference in _references(known[name].own)]
    while waiting:
        name = waiting.pop(0)
        if name not in told:
            told.add(name)
            yield _struct(known[name])
            waiting += _references(known[name].own)


def _references(value: object) -> list[str]:
    if isinstance(value, dict):
        own = [_name(value)] if "$ref" in value else []
        return own + [name for inner in value.values() for name in _references(inner)]
    return [name for inner in value for name in _references(inner)] if isinstance(value, list) else []


def _struct(definition: Definition) -> list[str]:
    doc = " ".join(definition.doc.split())
    base = [f"With the keys of {_link(definition.base)}."] if definition.base and definition.base != "Event" else []
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
