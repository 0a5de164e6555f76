"""Puts values of every other type into every field of every recorded line.

    python -m tests.normalizers.sweep [SEED] [SAMPLE]

Whatever a field holds, the line is read without an error of ours, and the next one as well. Without a sample, every
field of every different line is swept with every value. Then keys that the dialect's code reads are put where
recordings do not have them.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from tooltap.normalizers.catalog.registry import builtin, recognise
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.normalizers.wire.decode import decode_line
from tooltap.normalizers.wire.framing import LongLine
from tooltap.protocol.events import decode
from tooltap.protocol.inputs import Direction
from tooltap.testing import read_recording

__all__ = ["VALUES", "Field", "fields", "strangers", "sweep"]

FIXTURES = Path(__file__).parent.parent / "fixtures"


class Raw(bytes):
    """Encoded JSON that Python's encoders cannot write."""


VALUES: tuple[Any, ...] = (
    {"a": 1},
    {},
    [{"b": [1]}],
    [],
    True,
    False,
    None,
    Raw(b"1" + b"0" * 5_000),
    Raw(b"-" + b"9" * 400),
    -(2**63) - 1,
    2**53,
    2**64 - 1,
    0,
    -1,
    1.5,
    1e308,
    "NaN",
    "-Infinity",
    "",
    "x" * 10_000,
    Raw(b'"\\ud800"'),
    "0",
    "{",
    "[" * 900 + "]" * 900,
    '{"a":' * 600 + '"' + "x" * 70_000 + '"' + "}" * 600,
    Raw(b"[" * 150 + b"]" * 150),
    Raw(b'{"a":' * 150 + b'"' + b"x" * 70_000 + b'"' + b"}" * 150),
)
"""Values that replace a recorded one."""


SOME: tuple[Any, ...] = ({"type": {"a": 1}}, [{"type": []}], ["x"], True, 7, "x")
"""Values of added keys."""
MANY = 12
"""Maximum number of keys added to an object at once."""
SOURCE = Path(__file__).parent.parent.parent / "src"


class Field(NamedTuple):
    dialect: str
    state: bytes
    """Dump of the normalizer before the line."""
    line: Any
    path: tuple[str | int, ...]
    t: int | None
    direction: Direction | None


def fields(dialects: list[str] | None = None) -> Iterator[Field]:
    """Yield each field of each recorded line; of lines with the same keys and words, those of the first."""
    for dialect in dialects or sorted(builtin()):
        seen: set[object] = set()
        for path in sorted((FIXTURES / dialect).glob("*/*.json*")):
            normalizer = StreamNormalizer(Context(stream="s"), dialect)
            for line in read_recording(path.read_bytes()):
                value = _decoded(line.data)
                before = normalizer.dump() if value is not None else b""
                for place, word in _paths(value):
                    if (key := (_words(value), place, word)) not in seen:
                        seen.add(key)
                        yield Field(dialect, before, value, place, line.t, line.direction)
                normalizer.feed(line.data, line.t, line.direction)


def sweep(found: list[Field] | Iterator[Field], values: tuple[Any, ...] = VALUES) -> Iterator[tuple[Field, Any, str]]:
    """Yield problems as (field, value put into it, problem); and at the end of each field, an empty problem."""
    for field in found:
        for value in values:
            text = _with(field, value)
            if (problem := _problem(field, text)) is not None:
                yield field, value, problem
        yield field, None, ""


def strangers(seed: int, dialects: list[str] | None = None) -> Iterator[tuple[Field, Any, str]]:
    """Like `sweep`, with additional keys: each object of each line gets some of the keys that the code reads."""
    chance = random.Random(seed)
    for field in fields(dialects):
        holder = _at(field.line, field.path)
        if not isinstance(holder, dict):
            continue
        keys = sorted(_keys_read(field.dialect) - holder.keys())
        for value in SOME:
            added = dict.fromkeys(chance.sample(keys, min(MANY, len(keys))), value)
            text = orjson.dumps(_replaced(field.line, field.path, {**holder, **added}))
            if (problem := _problem(field, text)) is not None:
                yield field, {**added}, problem
        yield field, None, ""


@cache
def _keys_read(dialect: str) -> frozenset[str]:
    """Return the quoted words in the code of a dialect and of the tools, which include the keys that they read."""
    folder = Path(builtin()[dialect].parser.replace(".", "/")).parent
    places = (*(SOURCE / folder).glob("*.py"), *(SOURCE / "tooltap/normalizers/tools").glob("*.py"))
    return frozenset(word for path in places for word in re.findall(r'"([A-Za-z_]{2,30})"', path.read_text()))


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        value = value[key]
    return value


def _problem(field: Field, text: bytes) -> str | None:
    normalizer = StreamNormalizer.load(field.state, Context(stream="s"))
    errors: list[Exception] = []
    normalizer.on_failure = errors.append
    try:
        outputs = normalizer.feed(text, field.t, field.direction)
        normalizer.dump()
        outputs += normalizer.close("end")
        for one in outputs:
            if isinstance(one, Produced):
                decode(one.body)
        for value in decode_line(text, 200).values:
            recognise(value)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    reasons = [one.fields.reason for one in outputs if isinstance(one, Produced) and one.kind == "unparsed"]
    if errors or any(reason.startswith("parser-error") for reason in reasons):
        return f"{reasons} {errors}"
    if "not-json" in reasons and field.path[-1] != "b64":
        return "not-json"
    return None


def _decoded(line: bytes | LongLine) -> Any:
    if isinstance(line, LongLine):
        return None
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:
        return None


def _paths(value: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield every path in a value, with the type of the value there; of a list, the first two items."""
    pending: list[tuple[tuple[str | int, ...], Any]] = [((), value)]
    while pending:
        path, one = pending.pop()
        if path:
            yield path, type(one).__name__
        if isinstance(one, dict):
            pending += [((*path, key), item) for key, item in one.items()]
        elif isinstance(one, list):
            pending += [((*path, index), item) for index, item in enumerate(one[:2])]


def _words(value: Any) -> tuple[Any, ...]:
    """Return the words that distinguish kinds of lines: those that name their types and tools."""
    found: list[Any] = []
    for path, _ in _paths(value):
        one = value
        for key in path:
            one = one[key]
        if path[-1] in ("type", "kind", "method", "name", "sessionUpdate", "tool", "role", "subtype", "event", "op"):
            found.append(one if isinstance(one, str) else None)
    return tuple(found)


def _with(field: Field, value: Any) -> bytes:
    """Return the line with the value in the field."""
    mark = "\x00here\x00"
    changed = _replaced(field.line, field.path, mark)
    shown = value if isinstance(value, Raw) else str(value).encode() if type(value) is int else orjson.dumps(value)
    return orjson.dumps(changed).replace(orjson.dumps(mark), shown)


def _replaced(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    copy: Any = value.copy()
    root = copy
    for key in path[:-1]:
        copy[key] = copy[key].copy()
        copy = copy[key]
    copy[path[-1]] = new
    return root


def main(seed: int, sample: int) -> int:
    found = list(fields())
    if sample:
        found = random.Random(seed).sample(found, sample)
    problems: Counter[str] = Counter()
    swept = 0
    for field, value, problem in chain(sweep(found), () if sample else strangers(seed)):
        if not problem:
            swept += 1
            continue
        key = f"{field.dialect} {'.'.join(map(str, field.path))}: {problem[:200]}"
        if not problems[key]:
            print(f"{key}  with {str(value)[:200]}", flush=True)
        problems[key] += 1
    print(f"seed {seed}: {len(found)} fields, {len(found) * len(VALUES)} lines")
    print(f"{swept - len(found)} objects with other keys, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(*(int(one) for one in [*sys.argv[1:3], "0", "0"][:2])))
