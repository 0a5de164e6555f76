"""No state of a stream remains in modules and classes: no line changes what the next stream becomes."""

from __future__ import annotations

import functools
import gc
import sys
import types
from collections.abc import Iterator
from typing import Any

import msgspec

from tests.normalizers.reading import FIXTURES
from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.lines import Lines
from tooltap.normalizers.dialects.codex.items import LONGEST_NAME, MANY_NAMES, Translated
from tooltap.testing import normalize, read_recording

PACKAGES = ("tooltap.normalizers", "tooltap.protocol")
BY_NAME_OF_A_DIALECT = "tooltap.normalizers.catalog.registry"
"""Its caches hold what there is in the folders, and nothing of what a line says: an unknown name raises."""


KEYED_BY_CLASS = {
    "tooltap.protocol.payloads.fields_of",
    "tooltap.protocol.schema._class_docs",
    "tooltap.protocol.schema._msgspec_components",
    "tooltap.protocol.schema.definitions",
}
"""They hold what there is in classes and their modules; not all of these modules need be imported."""


def modules() -> list[types.ModuleType]:
    return [module for name, module in sorted(sys.modules.items()) if name.startswith(PACKAGES)]


def tables() -> Iterator[tuple[str, Any]]:
    """Everything in modules, and in their classes, that can change."""
    for module in modules():
        for name, value in vars(module).items():
            if isinstance(value, dict | list | set) and not isinstance(value, Translated) and name[:2] != "__":
                yield f"{module.__name__}.{name}", value
            if isinstance(value, type) and value.__module__ == module.__name__:
                for attribute, one in vars(value).items():
                    if isinstance(one, dict | list | set) and attribute[:2] != "__":
                        yield f"{module.__name__}.{name}.{attribute}", one


def test_reading_every_recording_changes_no_table() -> None:
    recordings = [
        (dialect, read_recording(path.read_bytes()))
        for dialect in builtin()
        for path in sorted((FIXTURES / dialect).rglob("*.jsonl"))
    ]
    for dialect, lines in dict(recordings).items():  # modules are imported when their dialect is first named
        normalize(dialect, lines)
    before = {place: repr(table) for place, table in tables()}
    for dialect, lines in recordings:
        normalize(dialect, lines)

    after = {place: repr(table) for place, table in tables()}
    assert {place for place in after if after[place] != before.get(place)} == set()
    assert len(after) > 100


def objects() -> list[object]:
    gc.unfreeze()  # else those that earlier tests, or a command in this process, have frozen are left out
    return gc.get_objects()


def test_tables_of_readers_grow_with_classes_only() -> None:
    rows = [table._rows for table in objects() if isinstance(table, Lines)]
    assert rows
    assert all(isinstance(parser, type) for table in rows for parser in table)


def test_caches_are_bounded() -> None:
    caches = [one for one in objects() if isinstance(one, functools._lru_cache_wrapper)]
    ours = [one for one in caches if str(one.__module__).startswith(PACKAGES)]
    unbounded = {f"{one.__module__}.{one.__name__}" for one in ours if one.cache_parameters()["maxsize"] is None}
    assert {name for name in unbounded if not name.startswith(BY_NAME_OF_A_DIALECT)} <= KEYED_BY_CLASS


def test_translations_are_bounded() -> None:
    names = Translated(str.upper)
    for number in range(3 * MANY_NAMES):
        assert names[f"a{number}"] == f"A{number}"
    assert names["x" * (LONGEST_NAME + 1)] == "X" * (LONGEST_NAME + 1)

    assert 0 < len(names) <= MANY_NAMES
    assert all(len(name) <= LONGEST_NAME for name in names)


def test_no_state_is_a_set() -> None:
    """A set is encoded in the order of its hashes, which differs from process to process."""
    states = [one for one in objects() if isinstance(one, type) and issubclass(one, msgspec.Struct)]
    fields = [
        f"{state.__module__}.{state.__name__}.{field.name}"
        for state in states
        if state.__module__.startswith("tooltap.normalizers")
        for field in msgspec.structs.fields(state)
        if "set[" in str(field.type)
    ]
    assert states
    assert fields == []
