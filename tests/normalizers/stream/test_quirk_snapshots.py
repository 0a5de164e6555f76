"""The events of every stream in `quirks.py` as clients get them, one line per event, and the classes of its lines.

`test_quirks.py` and the tests of the dialects explain the quirks.
"""

import json
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from tests.normalizers.stream.quirks import QUIRKS
from tooltap.normalizers.core.items import Context, Produced
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Event
from tooltap.testing import check_recording, read_recording

COUNTED = 28
"""Quirks counted in public recordings; those that were searched for and not found have no number."""
STRING = 80
ENVELOPE = frozenset({"v", "id", "stream", "ts", "session", "turn", "protocol", "provider", "dialect", "kind", "line"})


def test_every_quirk_has_a_stream() -> None:
    assert {name.split()[0] for name in QUIRKS} == {*(f"{number:02}" for number in range(1, COUNTED + 1)), "not"}


@pytest.mark.parametrize("name", QUIRKS)
def test_quirk(name: str, snapshot: SnapshotAssertion) -> None:
    dialect, data = QUIRKS[name]
    lines = read_recording(data)
    normalizer = StreamNormalizer(Context(stream="s"), dialect)
    outputs = [output for line in lines for output in normalizer.feed(line.data, line.t, line.direction)]
    outputs += normalizer.close("end")
    statistics = normalizer.statistics

    check_recording(dialect, lines)
    assert {
        "events": [summary(output.event) for output in outputs if isinstance(output, Produced)],
        "lines": {
            "with events": statistics.with_events,
            "unparsed": statistics.unparsed,
            "skipped": statistics.skipped,
            "repaired": statistics.repaired,
        },
    } == snapshot


def summary(event: Event) -> str:
    """Line, kind, and the fields that are not of the envelope."""
    fields = {key: value for key, value in msgspec.to_builtins(event).items() if key not in ENVELOPE}
    for side in ("input", "output"):
        if side in fields:
            fields[side] = {key: value for key, value in fields[side].items() if key not in ("_happy", "_raw")}
    return f"{event.line} {type(event).__struct_config__.tag} {json.dumps(cut(fields), ensure_ascii=False)}"


def cut(value: Any) -> Any:
    if isinstance(value, str) and len(value) > STRING:
        return f"{value[:STRING]}… ({len(value)})"
    if isinstance(value, list):
        return [cut(item) for item in value]
    return {key: cut(item) for key, item in value.items()} if isinstance(value, dict) else value
