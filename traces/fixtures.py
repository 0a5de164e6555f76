"""Curated fixtures in a folder: extracted from traces, checked against the current normalizer, brought up to date.

    FOLDER/allowlist.txt                    the keys that are wanted, one a line (`fixture_keys.py`)
    FOLDER/<protocol>/<provider>.json       their examples (`examples.py`), an array of objects

What is written depends on nothing but the examples: the same input gives the same bytes.
"""

from __future__ import annotations

import difflib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson

from tooltap.normalizers.registry import UnknownDialectError
from tooltap.protocol.tapped import NotTappedError
from tooltap.traces.choosing import choose
from tooltap.traces.examples import Example, Given
from tooltap.traces.extracting import find_examples
from tooltap.traces.fixture_keys import ALLOWLIST, Allowlist, fault_of
from tooltap.traces.streams import TracedStream

__all__ = ["FixtureError", "Fixtures"]

CONTEXT = 2
"""Unchanged lines around a changed one."""


class FixtureError(Exception):
    """A file of fixtures cannot be read; the message says which and why."""


class Fixtures:
    """The examples of a folder. Nothing is written before `save`."""

    def __init__(self, folder: Path, allowlist: Allowlist) -> None:
        self.folder = folder
        self.allowlist = allowlist
        self.examples: list[Example] = []
        self._read: dict[Path, bytes] = {}
        """The files as they are on disk."""

    @classmethod
    def load(cls, folder: Path, allowlist: Path | None = None) -> Fixtures:
        """`allowlist`: one that takes the place of the folder's. Raises `AllowlistError`, `FixtureError`, `OSError`."""
        own = folder / ALLOWLIST
        fixtures = cls(folder, Allowlist.read(allowlist or own))
        if own.exists():
            fixtures._read[own] = own.read_bytes()
        for path in sorted(folder.glob("*/*.json")):
            fixtures._read[path] = path.read_bytes()
            try:
                examples = msgspec.convert(orjson.loads(fixtures._read[path]), list[Example])
            except (orjson.JSONDecodeError, msgspec.ValidationError) as error:
                raise FixtureError(f"{path}: {error}") from None
            if faults := [fault for example in examples if (fault := fault_of(example.key)) is not None]:
                raise FixtureError(f"{path}: {faults[0]}")
            fixtures.examples += examples
        return fixtures

    def update(self) -> list[str]:
        """Make every expectation what the current normalizer gives, and drop examples that are not on the allowlist.

        Gives what changed, each in one sentence, with the difference below it.
        """
        dropped = {example.key for example in self.examples} - set(self.allowlist.lines)
        self.examples = [example for example in self.examples if example.key not in dropped]
        changes = [f"{self._path(key)}: {key} dropped, it is not in {self.allowlist.path}" for key in sorted(dropped)]
        for title, example in self._titled():
            try:
                events = example.run()
            except (UnknownDialectError, NotTappedError):
                continue  # a problem, and no other expectation
            if events != example.events:
                changes.append(f"{title}: gives other events\n{_difference(example.events, events)}")
                example.events = events
        return changes

    def extract(self, streams: list[TracedStream], maximum: int) -> None:
        """Choose among the examples there are, which are to be up to date, and those in the streams.

        Raises `UnknownDialectError`.
        """
        found = find_examples(streams, self.allowlist, maximum)
        for example in self.examples:
            found.setdefault(example.key, []).append(example)
        self.examples = [example for examples in found.values() for example in choose(examples, maximum)]

    def missing(self) -> dict[str, int]:
        """Keys of the allowlist without an example -> their line in it."""
        there = {example.key for example in self.examples}
        return {key: line for key, line in self.allowlist.lines.items() if key not in there}

    def problems(self) -> Iterator[str]:
        """What is wrong, each in one sentence, and for an expectation that does not hold the difference below it."""
        for key, line in self.missing().items():
            yield f"{self.allowlist.path}:{line}: there is no example of {key}"
        for key in sorted({example.key for example in self.examples} - set(self.allowlist.lines)):
            yield f"{self._path(key)}: {key} is not in {self.allowlist.path}"
        for title, example in self._titled():
            try:
                events = example.run()
            except (UnknownDialectError, NotTappedError) as error:
                yield f"{title}: {error}"
                continue
            if events != example.events:
                yield f"{title}: its lines give other events\n{_difference(example.events, events)}"
            elif not example.kept_for():
                yield f"{title}: its last line gives no event of that key"
        for path, data in self._files().items():
            if self._read.get(path) != data:
                yield f"{path}: not as `tooltap fixtures update` writes it"

    def save(self) -> list[Path]:
        """Write what changed and take away files without examples; gives the files."""
        files = self._files()
        changed = [path for path in sorted({*files, *self._read}) if files.get(path) != self._read.get(path)]
        for path in changed:
            if path in files:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(files[path])
            else:
                path.unlink()
        self._read = files
        return changed

    def _path(self, key: str) -> Path:
        protocol, provider, *_ = key.split("/")
        return self.folder / protocol / f"{provider}.json"

    def _files(self) -> dict[Path, bytes]:
        files: defaultdict[Path, list[Example]] = defaultdict(list)
        for example in sorted(self.examples, key=_order):
            files[self._path(example.key)].append(example)
        written = {path: _written(examples) for path, examples in files.items()}
        return {self.folder / ALLOWLIST: self.allowlist.data, **written}

    def _titled(self) -> Iterator[tuple[str, Example]]:
        """(file, key and number, example), in the order of the files."""
        numbers: Counter[str] = Counter()
        for example in sorted(self.examples, key=_order):
            numbers[example.key] += 1
            yield f"{self._path(example.key)}: {example.key}, example {numbers[example.key]}", example


def _order(example: Example) -> tuple[str, str, str, bytes]:
    """Nothing in it changes with the normalizer."""
    return example.key, example.agent_version or "", example.dialect, example.raw


def _written(examples: list[Example]) -> bytes:
    """A JSON array that reviews well: every raw line is one line of it, and every value of an event."""
    return b"[\n" + b",\n".join(map(_object, examples)) + b"\n]\n"


def _object(example: Example) -> bytes:
    members: dict[str, Any] = msgspec.to_builtins(example)
    lines, events = members.pop("lines"), members.pop("events")
    head = orjson.dumps(members)[:-1]
    return head + b',\n "lines": [' + _list(lines) + b'],\n "events": [' + _list(events) + b"]}"


def _list(values: list[Any]) -> bytes:
    return b",".join(b"\n  " + orjson.dumps(value) for value in values) + b"\n "


def _difference(before: list[Given], after: list[Given]) -> str:
    shown = difflib.unified_diff(_pretty(before), _pretty(after), "expected", "now", lineterm="", n=CONTEXT)
    return "\n".join(f"    {line}" for line in shown)


def _pretty(events: list[Given]) -> list[str]:
    return json.dumps(events, indent=1, ensure_ascii=False).splitlines()
