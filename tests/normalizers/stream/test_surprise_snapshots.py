"""What comes of every shape in `surprises.py`, as clients get it, one line per event; and where each line was counted.

`test_surprises.py` and the tests of the dialects say what is behind them.
"""

import json
from typing import Any

import msgspec
import pytest
from syrupy.assertion import SnapshotAssertion

from tests.normalizers.stream.surprises import SURPRISES
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.bounds import Produced
from tooltap.normalizers.stream.contract import check_recording, read_recording
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Event

COUNTED = 28
"""Shapes counted in public recordings; those that were looked for and not found have no number."""
STRING = 80
ENVELOPE = frozenset({"v", "id", "stream", "ts", "session", "turn", "protocol", "provider", "dialect", "kind", "line"})


def test_every_shape_has_a_stream() -> None:
    assert {name.split()[0] for name in SURPRISES} == {*(f"{number:02}" for number in range(1, COUNTED + 1)), "not"}


@pytest.mark.parametrize("name", SURPRISES)
def test_a_surprise(name: str, snapshot: SnapshotAssertion) -> None:
    dialect, data = SURPRISES[name]
    lines = read_recording(data)
    normalizer = StreamNormalizer(Context(stream="s"), dialect)
    outputs = [output for line in lines for output in normalizer.feed(line.data, line.t, line.direction)]
    outputs += normalizer.close("end")
    statistics = normalizer.statistics

    check_recording(dialect, lines)
    assert {
        "events": [told(output.event) for output in outputs if isinstance(output, Produced)],
        "lines": {
            "with events": statistics.with_events,
            "unparsed": statistics.unparsed,
            "skipped": statistics.skipped,
            "repaired": statistics.repaired,
        },
    } == snapshot


def told(event: Event) -> str:
    """Line, kind and what the event has of its own."""
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
