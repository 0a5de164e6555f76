"""Makes a case: a short stream cut from recordings of a dialect, damaged in ways that follow from a random
generator."""

from __future__ import annotations

import copy
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import orjson

from tests.fuzz.corpus import Corpus, Material
from tooltap.normalizers.core.items import Context, Limits
from tooltap.normalizers.wire.framing import LongLine
from tooltap.testing import Line, Step

__all__ = ["Case", "make"]

WINDOW = 28
"""Maximum number of a recording's lines in a case."""
TIME = 1_760_000_000_000
SMALL = Limits(
    line_bytes=20_000,
    depth=12,
    string_bytes=120,
    event_bytes=3_000,
    view_bytes=40,
    view_blocks=2,
    open_calls=3,
    call_bytes=300,
    tombstones=4,
    open_texts=2,
    open_permissions=2,
    open_turns=2,
    held_lines=4,
    held_bytes=2_000,
)
"""Limits that a few lines reach."""


class Case(NamedTuple):
    dialect: str
    """Dialect of the recordings."""
    read_as: str
    """Dialect passed to the normalizer, or `auto`."""
    context: Context
    steps: list[Step]
    at_every_point: bool = False
    """Whether the parser is reloaded after every line, however many there are."""


def make(random: Random, dialect: str, corpus: Corpus) -> Case:
    material = corpus[dialect]
    lines = _window(random, material)
    if random.random() < 0.25:
        lines = _interleaved(random, lines, _window(random, material))
    elif random.random() < 0.06:
        other = corpus[random.choice(list(corpus))]
        lines = _interleaved(random, lines, _window(random, other)[:6])
    if random.random() < 0.7:
        for _ in range(random.choice((1, 1, 2, 3, 6))):
            lines = random.choice(_ORDERS)(random, lines)
    if random.random() < 0.9:
        share = random.choice((0.05, 0.15, 0.4, 0.9))
        lines = [_damaged(random, line, lines, material) if random.random() < share else line for line in lines]
    if random.random() < 0.2:
        lines = _colliding(random, lines)
    with_times = random.random() < 0.5
    if not with_times:
        lines = [line._replace(t=None) for line in lines]
    read_as = "auto" if random.random() < 0.08 else dialect
    if random.random() < 0.01:
        read_as = random.choice(list(corpus))
    context = _context(random)
    return Case(dialect, read_as, context, _steps(random, lines, context.limits))


def _context(random: Random) -> Context:
    """Return the context that a publisher declares; mostly empty."""
    limits = SMALL if random.random() < 0.12 else Limits()
    if random.random() < 0.85:
        return Context(stream="s", limits=limits)
    return Context(
        stream=random.choice(("s", 'a"b\\c', "é/1")),
        limits=limits,
        provider=random.choice((None, "other")),
        session=random.choice((None, "known")),
        agent=random.choice((None, "child")),
        parent=random.choice((None, "call_1")),
        mcp_servers=random.choice(((), ("fixture", "happier"))),
        prompt=random.choice((None, "", "Say hi", "Run `ls`")),
    )


# -- which lines ------------------------------------------------------------------------------------------------------


def _window(random: Random, material: Material) -> list[Line]:
    stream = random.choice(material.streams)
    length = random.randint(1, WINDOW)
    start = 0 if random.random() < 0.4 else random.randrange(len(stream))
    return stream[start : start + length]


def _interleaved(random: Random, one: list[Line], other: list[Line]) -> list[Line]:
    rest = [list(reversed(one)), list(reversed(other))]
    lines = []
    while any(rest):
        lines.append(random.choice([lines for lines in rest if lines]).pop())
    return lines


def _repeat_one(random: Random, lines: list[Line]) -> list[Line]:
    line = random.choice(lines)
    at = random.randint(0, len(lines))
    return [*lines[:at], line, *lines[at:]]


def _repeat_part(random: Random, lines: list[Line]) -> list[Line]:
    start = random.randrange(len(lines))
    return [*lines, *lines[start : start + random.randint(1, 6)]]


def _swap(random: Random, lines: list[Line]) -> list[Line]:
    one, other = random.randrange(len(lines)), random.randrange(len(lines))
    lines = list(lines)
    lines[one], lines[other] = lines[other], lines[one]
    return lines


def _shuffle(random: Random, lines: list[Line]) -> list[Line]:
    start = random.randrange(len(lines))
    end = start + random.randint(2, 10)
    part = lines[start:end]
    random.shuffle(part)
    return [*lines[:start], *part, *lines[end:]]


def _drop(random: Random, lines: list[Line]) -> list[Line]:
    at = random.randrange(len(lines))
    return lines[:at] + lines[at + 1 :] or lines


def _cut_off(random: Random, lines: list[Line]) -> list[Line]:
    return lines[: random.randint(1, len(lines))]


def _glue(random: Random, lines: list[Line]) -> list[Line]:
    """Join two lines, without the newline between them."""
    return _glue_at(random.randrange(len(lines)), lines)


def _glue_at(at: int, lines: list[Line]) -> list[Line]:
    glued = b"".join(line.data for line in lines[at : at + 2] if isinstance(line.data, bytes))
    return [*lines[:at], lines[at]._replace(data=glued), *lines[at + 2 :]]


def _tear(random: Random, lines: list[Line]) -> list[Line]:
    """Truncate a line anywhere, and join the next one to it."""
    at = random.randrange(len(lines))
    data = lines[at].data
    if not isinstance(data, bytes):
        return lines
    return _glue_at(at, [*lines[:at], lines[at]._replace(data=_truncate(random, data)), *lines[at + 1 :]])


def _break_up(random: Random, lines: list[Line]) -> list[Line]:
    """Break a line into several ones, as raw newlines do."""
    at = random.randrange(len(lines))
    data = lines[at].data
    if not isinstance(data, bytes):
        return lines
    ends = sorted(random.randint(0, len(data)) for _ in range(random.randint(1, 3)))
    parts = [data[start:end] for start, end in zip([0, *ends], [*ends, len(data)], strict=True)]
    return [*lines[:at], *(lines[at]._replace(data=part) for part in parts), *lines[at + 1 :]]


_ORDERS: tuple[Callable[[Random, list[Line]], list[Line]], ...] = (
    _repeat_one, _repeat_one, _repeat_part, _swap, _swap, _shuffle, _drop, _drop, _cut_off, _glue,
    _tear, _break_up, _break_up,
)  # fmt: skip


def _steps(random: Random, lines: list[Line], limits: Limits) -> list[Step]:
    steps: list[Step] = []
    for line in lines:
        data = line.data
        if isinstance(data, bytes) and len(data) > limits.line_bytes:
            data = LongLine(data[:4_096], len(data))
        steps.append(Step("line", data, line.t, line.direction))
    for kind, share in (("lost", 0.08), ("close", 0.15), ("long", 0.05)):
        if random.random() < share:
            at = random.randint(0, len(steps))
            t = random.choice((None, TIME))
            if kind == "long":
                head = steps[at - 1].data
                step = Step("line", LongLine(head[:100] if isinstance(head, bytes) else b"{", 10**8), t, None)
            elif kind == "lost":
                step = Step("lost", b"spool full", t, None, random.randint(1, 40))
            else:
                step = Step("close", random.choice((b"end", b"suspended-too-long")), t, None)
            steps.insert(at, step)
    return steps


# -- one line ---------------------------------------------------------------------------------------------------------


def _damaged(random: Random, line: Line, lines: list[Line], material: Material) -> Line:
    assert isinstance(line.data, bytes)
    if random.random() < 0.12:
        return line._replace(data=random.choice(_ON_BYTES)(random, line.data).replace(b"\n", b" "))
    prefix = b"data:" if line.data.startswith(b"data:") else b""
    try:
        value = orjson.loads(line.data.removeprefix(prefix))
    except orjson.JSONDecodeError:
        return line
    for _ in range(random.choice((1, 1, 1, 2, 3, 8))):
        places = _places(value)
        if not places:
            break
        container, key = random.choice(places)
        if not _damage_inside(random, container, key, lines, material):
            random.choice(_ON_VALUES)(random, container, key, lines, material)
    if random.random() < 0.05 and isinstance(value, dict):
        items = list(value.items())
        random.shuffle(items)
        value = dict(items)
    try:
        data = orjson.dumps(value)
    except (TypeError, orjson.JSONEncodeError):  # a cycle, or a number that orjson does not write
        return line
    return line._replace(data=prefix + data)


def _damage_inside(random: Random, container: Any, key: Any, lines: list[Line], material: Material) -> bool:
    """Damage JSON inside a text, such as a call's arguments; returns False if the text is not JSON."""
    text = container[key]
    if not isinstance(text, str) or not text.startswith("{") or random.random() < 0.2:
        return False
    try:
        value = orjson.loads(text)
        if places := _places(value):
            random.choice(_ON_VALUES)(random, *random.choice(places), lines, material)
        container[key] = orjson.dumps(value).decode()
    except (TypeError, ValueError):
        return False
    return True


def _places(value: Any) -> list[tuple[Any, Any]]:
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(places) < 400:
        one = waiting.pop()
        if isinstance(one, dict):
            places += [(one, key) for key in one]
            waiting += one.values()
        elif isinstance(one, list):
            places += [(one, index) for index in range(len(one))]
            waiting += one
    return places


_STRINGS = (
    "", " ", "\n", "\x00", "0", "/", "a/b", "..", "null", "{}", "[1]", '{"a":1}', "'", '"', "\\", "\u202e", "é",
    "\u2028", "😀", "id\nwith\nlines", "t1", "t1/1", "x" * 300, "<output>", "<tool_use_error>", "```", "~", "%00",
    "{", "}}", "error", "completed", "failed", "cancelled", "2026-01-01T00:00:00Z", "1", "-1", "true", "exit code: 1",
    "\x1b[0m", "\r\n",
)  # fmt: skip
_NUMBERS = (
    0,
    1,
    -1,
    2,
    127,
    10**12,
    2**31,
    2**53,
    2**63 - 1,
    -(2**63),
    2**64 - 1,
    0.5,
    -0.0,
    1e308,
    -1e308,
    5e-324,
    3.0,
)


def _any(random: Random) -> Any:
    kind = random.randrange(8)
    if kind < 2:
        return random.choice(_STRINGS)
    if kind == 2:
        return random.choice(_NUMBERS)
    return random.choice(
        (None, True, False, [], {}, [[1]], [{}], {"type": {"type": []}}, {"a": 1}, [None], ["x"], {"text": "x"},
         [{"type": "text", "text": "x"}], {"": ""}, [[[]]], {"id": []})
    )  # fmt: skip


def _retype(random: Random, container: Any, key: Any, lines: list[Line], material: Material) -> None:
    container[key] = _any(random)


def _remove(random: Random, container: Any, key: Any, lines: list[Line], material: Material) -> None:
    del container[key]


def _rename(random: Random, container: Any, key: Any, lines: list[Line], material: Material) -> None:
    if isinstance(container, dict):
        container[random.choice(material.keys)] = container.pop(key)
    else:
        container.append(container[key])


def _exchange(random: Random, container: Any, key: Any, lines: list[Line], material: Material) -> None:
    """Replace a value by one that occurs under the same key elsewhere."""
    known = material.values.get(key) if isinstance(key, str) else None
    if known:
        container[key] = copy.deepcopy(random.choice(known))
    else:
        container[key] = _any(random)


def _transplant(random: Random, container: Any, key: Any, lines: list[Line], material: Material) -> None:
    """Replace a value by one that occurs under another key."""
    known = material.values[random.choice(material.keys)] if material.keys else []
    if known:
        container[key] = copy.deepcopy(random.choice(known))


def _add_key(random: Random, container: Any, key: Any, lines: list[Line], material: Material) -> None:
    if isinstance(container, dict) and material.keys:
        name = random.choice(material.keys)
        if known := material.values[name]:
            container[name] = copy.deepcopy(random.choice(known))


def _wrap(random: Random, container: Any, key: Any, lines: list[Line], material: Material) -> None:
    value = container[key]
    container[key] = random.choice(([value], {"value": value}, str(value)[:500], [value, value]))


def _splice(random: Random, container: Any, key: Any, lines: list[Line], material: Material) -> None:
    """Replace a value by the one that another line of the case has under the same key."""
    other = random.choice(lines)
    try:
        value = orjson.loads(other.data if isinstance(other.data, bytes) else b"")
    except orjson.JSONDecodeError:
        return
    found = [one[name] for one, name in _places(value) if name == key]
    container[key] = random.choice(found) if found else value


def _lengthen(random: Random, container: Any, key: Any, lines: list[Line], material: Material) -> None:
    value = container[key]
    if isinstance(value, str):
        container[key] = value + random.choice(_STRINGS)
    elif isinstance(value, list) and value:
        container[key] = [*value, copy.deepcopy(random.choice(value))]
    elif isinstance(value, int | float):
        container[key] = random.choice(_NUMBERS)


_ON_VALUES: tuple[Callable[[Random, Any, Any, list[Line], Material], None], ...] = (
    _retype, _retype, _retype, _remove, _remove, _rename, _exchange, _exchange, _exchange, _transplant, _add_key, _wrap,
    _splice, _splice, _lengthen,
)  # fmt: skip


def _truncate(random: Random, data: bytes) -> bytes:
    return data[: random.randint(0, len(data))]


def _flip(random: Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(random.randint(1, 3)):
        if changed:
            changed[random.randrange(len(changed))] = random.randrange(256)
    return bytes(changed)


def _insert(random: Random, data: bytes) -> bytes:
    at = random.randint(0, len(data))
    return data[:at] + random.choice(_BYTES) + data[at:]


_BYTES = (
    b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b'"', b"\\", b"{", b"}", b"[", b"]", b",", b" ", b"\r", b"NaN", b"1e999",
    b'"a":1,', b'\\ud800', b"9" * 30, b"//", b"data: ", b"{}", b"null", b"[" * 300,
)  # fmt: skip


def _frame(random: Random, data: bytes) -> bytes:
    return random.choice((b"data: " + data, b"[" + data + b"]", data + b",", b" " + data, b"\xef\xbb\xbf" + data, b"["))


_ON_BYTES: tuple[Callable[[Random, bytes], bytes], ...] = (_truncate, _truncate, _flip, _insert, _frame)


def _colliding(random: Random, lines: list[Line]) -> list[Line]:
    """Make ids collide: replace one id of the case by another one, in some or all lines."""
    ids: dict[str, None] = {}
    decoded = []
    for line in lines:
        try:
            value = orjson.loads(line.data if isinstance(line.data, bytes) else b"")
        except orjson.JSONDecodeError:
            value = None
        decoded.append(value)
        for container, key in _places(value):
            if isinstance(key, str) and key[-2:].lower() == "id" and isinstance(container[key], str):
                ids[container[key]] = None
    known = list(ids)
    if len(known) < 2:
        return lines
    old, new = orjson.dumps(random.choice(known)), orjson.dumps(random.choice(known))
    share = random.choice((0.5, 1.0))
    return [
        line._replace(data=line.data.replace(old, new))
        if isinstance(line.data, bytes) and random.random() < share
        else line
        for line in lines
    ]
