"""Alters recorded streams as providers have altered their formats."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson

from tests.test_layout import ROOT

__all__ = ["FIXTURES", "altered", "objects", "pascal", "rename", "replaced"]

FIXTURES = ROOT / "tests" / "fixtures"


def altered(target: Path, source: Path, change: Callable[[dict[str, Any]], dict[str, Any] | None]) -> Path:
    """Write a copy with `change` applied to each line of the agent. A result of None drops the line."""
    lines = []
    for line in source.read_bytes().splitlines():
        value = orjson.loads(line)
        is_tapped = "dir" in value
        if is_tapped and value["dir"] != "out":
            lines.append(line)
            continue
        new = change(value["line"] if is_tapped else value)
        if new is not None:
            lines.append(orjson.dumps({**value, "line": new} if is_tapped else new))
    target.write_bytes(b"\n".join(lines) + b"\n")
    return target


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects in a value, including the value itself."""
    if isinstance(value, dict):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from objects(item)


def rename(old: str, new: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A change that renames a key at any depth."""

    def change(line: dict[str, Any]) -> dict[str, Any]:
        for one in objects(line):
            if old in one:
                one[new] = one.pop(old)
        return line

    return change


def replaced(key: str, by: Callable[[Any], Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A change that replaces the value of a key at any depth."""

    def change(line: dict[str, Any]) -> dict[str, Any]:
        for one in objects(line):
            if key in one:
                one[key] = by(one[key])
        return line

    return change


def pascal(word: Any) -> Any:
    """`command_execution` -> `CommandExecution`, `item.started` -> `ItemStarted`."""
    return "".join(part.capitalize() for part in word.replace(".", "_").split("_")) if isinstance(word, str) else word
