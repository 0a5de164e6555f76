"""`make schema`: generates files from the structs in `protocol/`, unless a change would break clients; and the page of
the exported tables.

The committed JSON Schema is a promise to clients. It may only grow: see `COMPATIBILITY` in `protocol/schema.py`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests import tables
from tooltap.cli.schema.schema import write
from tooltap.protocol.schema import Schema
from tooltap.traces.recording.whole_file import write_whole

ROOT = Path(__file__).parent.parent
SNAPSHOT = ROOT / "docs" / "schema.json"
FILES = {
    SNAPSHOT: "json-schema",
    ROOT / "docs" / "schema.md": "markdown",
    ROOT / "clients" / "typescript" / "src" / "schema.ts": "typescript",
}

NOT_TYPES = ("title", "description", "properties", "required", "enum", "anyOf", "$defs", "discriminator")


def broken_promises(old: Schema, new: Schema) -> list[str]:
    """Return a sentence for each promise of `old` to clients that `new` breaks."""
    clients = {option["$ref"].rpartition("/")[2] for option in old["$defs"]["ClientFrame"]["anyOf"]}
    found: list[str] = []
    for name, definition in old["$defs"].items():
        if name not in new["$defs"]:
            found.append(f"{name} is gone")
        else:
            found += _broken(name, definition, new["$defs"][name], from_clients=name in clients)
    return found


def _is_looser(keyword: str, before: Any, after: Any) -> bool:
    """Return whether a limit of what a client may send allows more than before."""
    if keyword in ("minLength", "minItems", "minimum") and before is not None:
        return after is None or bool(after < before)
    if keyword in ("maxLength", "maxItems", "maximum") and before is not None:
        return after is None or bool(after > before)
    return False


def _broken(place: str, old: Schema, new: Schema, *, from_clients: bool) -> Iterator[str]:
    """Check one schema and its nested schemas."""
    for keyword in sorted({*old, *new} - {*NOT_TYPES}):
        before, after = old.get(keyword), new.get(keyword)
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _broken(place, before, after, from_clients=from_clients)
        elif before != after and not (from_clients and _is_looser(keyword, before, after)):
            yield f"{place}: {keyword} was {_json(before)} and is {_json(after)}"
    yield from (f"{place}: the value {_json(value)} is gone" for value in _removed(old, new, "enum"))
    yield from (f"{place}: {_json(option)} is gone" for option in _removed(old, new, "anyOf"))
    if ("enum" in old) != ("enum" in new) or ("anyOf" in old) != ("anyOf" in new):
        yield f"{place}: was {_json(old)} and is {_json(new)}"
    properties = new.get("properties", {})
    for key, value in old.get("properties", {}).items():
        if key not in properties:
            yield f"{place}.{key} is gone"
            continue
        yield from _broken(f"{place}.{key}", value, properties[key], from_clients=from_clients)
        was, now = (key in schema["required"] for schema in (old, new))
        if was != now:
            yield f"{place}.{key} was {'required' if was else 'optional'} and is not any more"
    if from_clients:
        for key in sorted(set(new.get("required", [])) - set(old.get("properties", []))):
            yield f"{place}.{key} is a new required key, which existing clients do not send"


def _removed(old: Schema, new: Schema, keyword: str) -> list[Any]:
    return [value for value in old.get(keyword, []) if value not in new.get(keyword, [])]


def _json(value: Any) -> str:
    return json.dumps(value)


def main() -> int:
    if broken := broken_promises(json.loads(SNAPSHOT.read_text()), json.loads(write("json-schema"))):
        print("\n".join(["within a version the schema may only grow, but:", *broken]), file=sys.stderr)
        return 1
    for path, form in FILES.items():
        write_whole(path, write(form))
    write_whole(tables.PAGE, tables.page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
