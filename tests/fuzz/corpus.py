"""The fuzzing corpus: recordings to damage, and the keys and values in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson

from tooltap.normalizers.catalog.registry import builtin
from tooltap.testing import Line, read_recording

__all__ = ["Corpus", "Material", "load"]

FIXTURES = Path(__file__).parents[1] / "fixtures"
LONGEST_LINE = 24_000
"""Maximum bytes of a line. Longer ones are left out: in the same time, many short ones can be tried."""
MANY_VALUES = 400


class _Row(msgspec.Struct):
    """An entry of a manifest. Its other keys are ignored."""

    file: str
    dialect: str


class Material(NamedTuple):
    """The recordings of one dialect, and the values that they hold."""

    streams: list[list[Line]]
    values: dict[str, list[Any]]
    """Key -> distinct values that occur under it."""
    keys: list[str]


Corpus = dict[str, Material]


def load(captures: Sequence[Path] = ()) -> Corpus:
    """Load the fixtures, and the recordings in the manifest.json of each folder, by dialect."""
    streams: dict[str, list[list[Line]]] = {dialect: [] for dialect in sorted(builtin())}
    for dialect, path in _files(captures):
        if dialect in streams:
            lines = [line for line in read_recording(path.read_bytes()) if _is_short(line)]
            if lines:
                streams[dialect].append(lines)
    return {dialect: _material(found) for dialect, found in streams.items() if found}


def _files(captures: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for dialect in sorted(builtin()):
        for path in sorted((FIXTURES / dialect).rglob("*.jsonl")):
            yield dialect, path
    for folder in captures:
        for row in msgspec.json.decode((folder / "manifest.json").read_bytes(), type=list[_Row]):
            yield row.dialect, folder / row.file


def _is_short(line: Line) -> bool:
    return isinstance(line.data, bytes) and len(line.data) <= LONGEST_LINE


def _material(streams: list[list[Line]]) -> Material:
    values: dict[str, dict[bytes, Any]] = {}
    for lines in streams:
        for line in lines:
            assert isinstance(line.data, bytes)
            try:
                value = orjson.loads(line.data.removeprefix(b"data:"))
            except orjson.JSONDecodeError:
                continue
            for key, item in _members(value):
                known = values.setdefault(key, {})
                if len(known) < MANY_VALUES and len(encoded := orjson.dumps(item)) < 2_000:
                    known.setdefault(encoded, item)
    return Material(streams, {key: list(known.values()) for key, known in values.items()}, list(values))


def _members(value: Any) -> Iterator[tuple[str, Any]]:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            yield from one.items()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
