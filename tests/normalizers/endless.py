"""The endless stream of each dialect, as lines."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import orjson

from tooltap.normalizers.core.registry import builtin, load
from tooltap.normalizers.stream.contract import Line

__all__ = ["lines"]


def lines(dialect: str, number: int) -> Iterator[Line]:
    for value in itertools.islice(load(builtin()[dialect].endless)(), number):
        yield Line(orjson.dumps(value))
