"""`tooltap schema`: print the schema of events and frames, for programs and for people."""

from __future__ import annotations

import click

from tooltap.cli.common.commands import Choice, Command
from tooltap.cli.common.printing import say_text

FORMATS = ("json-schema", "typescript", "markdown", "openapi")


@click.command(
    "schema",
    cls=Command,
    examples=(
        "tooltap schema > tooltap.schema.json",
        "tooltap schema --format typescript > tooltap.ts",
    ),
)
@click.option(
    "--format",
    "form",
    type=Choice(FORMATS),
    default="json-schema",
    show_default=True,
    help="JSON Schema (draft 2020-12), TypeScript types, a Markdown page, or the daemon's HTTP (OpenAPI 3.1).",
)
def command(form: str) -> None:
    """Print the schema of events, tool payloads and socket frames.

    The JSON Schema describes an event line; frames, tool payloads and statistics are under its $defs.
    """
    say_text(write(form))


def write(form: str) -> str:
    """Return the schema in one of `FORMATS`."""
    import orjson

    from tooltap.cli.schema import formats
    from tooltap.protocol.schema import json_schema

    if form == "typescript":
        return formats.typescript()
    if form == "markdown":
        return formats.markdown()
    if form == "openapi":
        from tooltap.daemon.web.http.openapi import document

        return orjson.dumps(orjson.loads(document()), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
    return orjson.dumps(json_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
