"""Every dialect keeps the contract on every fixture, and survives damaged ones."""

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.contract import Line, check_recording, check_survives, read_recording
from tooltap.normalizers.stream.normalizer import StreamNormalizer

FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDINGS = sorted(path for dialect in builtin() for path in (FIXTURES / dialect).rglob("*.jsonl"))
SMALL = [path for path in RECORDINGS if path.stat().st_size < 20_000]


def dialect_of(path: Path) -> str:
    return path.relative_to(FIXTURES).parts[0]


def name_of(path: Path) -> str:
    return str(path.relative_to(FIXTURES).with_suffix(""))


def test_dialects_and_fixtures_match() -> None:
    assert {dialect_of(path) for path in RECORDINGS} == set(builtin())
    assert {path.name for path in FIXTURES.iterdir() if path.is_dir()} == {*builtin(), "curated"}


def test_fixtures_stay_small() -> None:
    assert sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()) < 3_000_000


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_recording_keeps_contract(path: Path) -> None:
    check_recording(dialect_of(path), read_recording(path.read_bytes()))


@pytest.mark.parametrize("path", RECORDINGS, ids=name_of)
def test_auto_recognises_shuffled_and_headless_streams(path: Path) -> None:
    lines = read_recording(path.read_bytes())
    shuffled = [Line(shuffle_keys(line.data), line.t, line.direction) for line in lines]

    for start in range(min(21, len(lines))):
        rest = shuffled[start:]
        if start and len(rest) < 2:  # the last line of several need not be decisive
            break
        normalizer = StreamNormalizer(Context(stream="s"))
        for line in rest:
            normalizer.feed(line.data, line.t, line.direction)
            if normalizer.dialect is not None:
                break
        assert normalizer.dialect == dialect_of(path), f"without the first {start} lines"


def shuffle_keys(line: Any) -> bytes:
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:  # agents also print plain text, and server-sent events have lines around their data
        return bytes(line)
    return orjson.dumps(_shuffled(value, random.Random(7)))


def _shuffled(value: Any, source: random.Random) -> Any:
    if isinstance(value, dict):
        pairs = [(key, _shuffled(item, source)) for key, item in value.items()]
        source.shuffle(pairs)
        return dict(pairs)
    if isinstance(value, list):
        return [_shuffled(item, source) for item in value]
    return value


@pytest.mark.parametrize("dialect", sorted(builtin()))
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_damaged_recordings_are_tolerated(dialect: str, data: st.DataObject) -> None:
    path = data.draw(st.sampled_from([path for path in SMALL if dialect_of(path) == dialect]))
    lines = read_recording(path.read_bytes())
    start = data.draw(st.integers(0, len(lines) - 1))
    chosen = lines[start : start + data.draw(st.integers(1, 12))]

    check_survives(dialect, [Line(damaged(line, data), line.t, line.direction) for line in chosen])


def damaged(line: Line, data: st.DataObject) -> bytes:
    """The line cut short, with one value of another type, without one key, or as it is."""
    assert isinstance(line.data, bytes)
    kind = data.draw(st.sampled_from(["cut", "retype", "drop", "keep"]))
    if kind == "keep":
        return line.data
    if kind == "cut" or not line.data.startswith((b"{", b"null", b"true")):  # a server-sent event's field, or blank
        return line.data[: data.draw(st.integers(0, len(line.data)))]
    try:
        value = orjson.loads(line.data)
    except orjson.JSONDecodeError:
        return line.data
    places = list(_places(value))
    if not places:
        return line.data
    container, key = data.draw(st.sampled_from(places))
    if kind == "drop":
        del container[key]
    else:
        container[key] = data.draw(
            st.none() | st.booleans() | st.integers(-1, 3) | st.text(max_size=3) | st.just([]) | st.just({})
            | st.just([[1]]) | st.just({"type": {"type": []}}) | st.floats(allow_nan=False, allow_infinity=False)
        )  # fmt: skip
    return json.dumps(value).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    pairs = list(value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ())
    for key, item in pairs:
        yield value, key
        yield from _places(item)
