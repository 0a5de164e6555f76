"""Cuts a fixture from a recorded stream: `python -m tests.cut SOURCE TARGET`.

Takes out what has no place in a repository (home paths, vendors' prompt texts, long lists of commands and models) and
what nobody would review (long strings), and leaves every line, key and id as the agent printed it. Lines that are not
JSON are kept as they are.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import orjson

LONG = 3_000
KEEP = 400
MANY = 4
HOME = re.compile(r"/tmp/home-[\w.-]+")
PROMPTS = {
    "base_instructions",
    "developer_instructions",
    "host_skills",
    "instructions",
    "system_prompt",
    "user_instructions",
}
CATALOGUES = {
    "availableCommands",
    "availableModels",
    "configOptions",
    "slash_commands",
    "terminalCommands",
    "skills",
    "plugins",
    "agents",
    "authMethods",
    "models",
}
PROMPT_LINES = {"api-request", "api-request-blob", "api-request-shape", "attachment"}
"""Lines of transcripts that hold prompts and requests; what is left shows what they are."""


def cut(value: Any, key: str = "") -> Any:
    if isinstance(value, str):
        if key in PROMPTS or (key == "description" and len(value) > 120):
            return "[removed]"
        value = HOME.sub("/home/user", value)
        return value if len(value) <= LONG else f"{value[:KEEP]}[{len(value) - KEEP} characters removed]"
    if isinstance(value, list):
        if key in CATALOGUES:
            value = value[:MANY]
        return [cut(item, key if isinstance(item, str) else "") for item in value]
    if isinstance(value, dict):
        if value.get("role") in ("developer", "system") and "content" in value:
            return {**value, "content": [{"type": "input_text", "text": "[removed]"}]}
        if value.get("type") in PROMPT_LINES:
            return {name: emptied(item) for name, item in value.items()}
        if value.get("type") == "additional_tools":
            return {**value, "tools": []}
        return {name: cut(item, key if key in PROMPTS else name) for name, item in value.items()}
    return value


def emptied(value: Any) -> Any:
    if isinstance(value, dict):
        return {"type": value["type"]} if "type" in value else {}
    return [] if isinstance(value, list) else cut(value)


def main(source: str, target: str) -> None:
    lines = []
    for line in Path(source).read_bytes().split(b"\n"):
        try:
            lines.append(orjson.dumps(cut(orjson.loads(line))))
        except orjson.JSONDecodeError:
            lines.append(HOME.sub("/home/user", line.decode()).encode())
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    Path(target).write_bytes(b"\n".join(lines))


if __name__ == "__main__":
    main(*sys.argv[1:])
