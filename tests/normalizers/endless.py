"""The endless stream of each dialect, as lines."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from tooltap.normalizers.catalog.registry import builtin, load
from tooltap.normalizers.stream.contract import Line

__all__ = ["lines"]

FIXTURES = Path(__file__).parents[1] / "fixtures"
ID_KEYS = re.compile(r"(?i:id|session|uuid)$|_id$|Id$")


def lines(dialect: str, number: int) -> Iterator[Line]:
    sample = builtin()[dialect].endless
    for value in itertools.islice(load(sample)() if sample else repeated(dialect), number):
        yield Line(orjson.dumps(value))


def repeated(dialect: str) -> Iterator[Any]:
    """Repeat the dialect's recordings without end, each time with new ids."""
    files = sorted((FIXTURES / dialect).glob("*/*.jsonl"))
    values = [orjson.loads(line) for file in files for line in file.read_bytes().splitlines() if line]
    for n in itertools.count():
        yield from (with_new_ids(value, f"-{n}") for value in values)


def with_new_ids(value: Any, suffix: str) -> Any:
    if isinstance(value, list):
        return [with_new_ids(item, suffix) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item + suffix if isinstance(item, str) and ID_KEYS.search(key) else with_new_ids(item, suffix)
        for key, item in value.items()
    }
