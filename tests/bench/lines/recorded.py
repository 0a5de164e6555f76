"""Recorded streams for the benchmark. Each run reads copies with new ids: repeated ids would find every cache warm, as
they never do in a daemon."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import msgspec

from tests.bench.harness import ROOT
from tooltap.normalizers.catalog.registry import dialects
from tooltap.testing import Line, read_recording

__all__ = ["FIXTURES", "Recorded", "amount", "enough", "golden_records", "recordings", "renewed"]

FIXTURES = ROOT / "tests" / "fixtures"
NO_RECORDINGS = ("curated",)
"""Folders of fixtures that are not the recordings of one dialect."""
ID = re.compile(rb'"[A-Za-z_]*(?:id|Id|ID)"\s*:\s*"(?=[^"]*[0-9])(?=[^"]*[A-Za-z])([\w.:-]{8,})"')
"""Matches an id: a long value with a letter and a digit, under a key that names an id."""
NO_ID = re.compile(rb'"[A-Za-z_]*(?:model|provider|method|option|mode)_?(?:id|Id|ID)"\s*:\s*"([^"]*)"')

UUID = re.compile(rb"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")

_copies = count()


class Recorded(NamedTuple):
    dialect: str
    provider: str | None
    lines: list[Line]
    before: Sequence[Line] = ()
    """Lines of the stream that are fed before the time is measured."""


class Row(msgspec.Struct):
    """An entry of a manifest. Its other keys are ignored."""

    file: str
    dialect: str
    provider: str | None = None


class Golden(msgspec.Struct):
    """A case of the ancestor. Its other keys are ignored."""

    event: msgspec.Raw


def recordings(captures: Sequence[Path]) -> Iterator[Recorded]:
    """Yield the recordings of known dialects in the manifest.json of each folder; without folders, the fixtures. Raises
    `OSError` or `msgspec.DecodeError`."""
    known = frozenset(dialects())
    for folder in captures:
        rows = msgspec.json.decode((folder / "manifest.json").read_bytes(), type=list[Row])
        for row in (one for one in rows if one.dialect in known):
            yield Recorded(row.dialect, row.provider, read_recording((folder / row.file).read_bytes()))
    if captures:
        return
    for path in sorted(FIXTURES.glob("*/*/*.jsonl")):
        dialect = path.relative_to(FIXTURES).parts[0]
        if dialect not in NO_RECORDINGS:
            yield Recorded(dialect, None, read_recording(path.read_bytes()))


def golden_records(path: Path) -> Recorded:
    """Return the ancestor's records as one stream. Raises `OSError` or `msgspec.DecodeError`."""
    cases = [msgspec.json.decode(line, type=Golden) for line in path.read_bytes().splitlines()]
    return Recorded("happier-trace", None, [Line(bytes(case.event)) for case in cases])


def enough(recorded: Sequence[Recorded], lines: float) -> list[Recorded]:
    """Return each recording once, or in several copies if they have too few lines. Every copy has ids of its own."""
    copies = max(1, round(lines / max(1, sum(len(one.lines) for one in recorded))))
    return [renewed(one) for _ in range(copies) for one in recorded]


def renewed(recorded: Recorded) -> Recorded:
    """Return a copy of the stream with ids that no other copy has."""
    lines = [*recorded.before, *recorded.lines]
    data = b"\n".join(_raw(line) for line in lines)
    number = next(_copies)
    ids = set(ID.findall(data)) - set(NO_ID.findall(data))
    for one in ids:
        if not any(other in one for other in ids if other != one):  # it changes with the id that it contains
            data = data.replace(one, _renewed(one, number))
    fresh = [
        line._replace(data=raw) if isinstance(line.data, bytes) else line
        for line, raw in zip(lines, data.split(b"\n"), strict=True)
    ]
    cut = len(recorded.before)
    return recorded._replace(before=fresh[:cut], lines=fresh[cut:])


def _renewed(one: bytes, number: int) -> bytes:
    """Return another id. A UUID keeps its beginning, which may be a time."""
    if UUID.fullmatch(one):
        return b"%b%012x" % (one[:24], int(one[24:], 16) ^ (number + 1))
    return b"%br%d" % (one, number)


def amount(recorded: Iterable[Recorded]) -> str:
    """Return a description of the amount of input: recordings, lines, megabytes."""
    listed = list(recorded)
    lines = [line for one in listed for line in one.lines]
    size = sum(map(len, map(_raw, lines)))
    return f"{len(listed):,} recording{'s' * (len(listed) != 1)}, {len(lines):,} lines, {size / 1e6:,.2f} MB"


def _raw(line: Line) -> bytes:
    return line.data if isinstance(line.data, bytes) else b""
