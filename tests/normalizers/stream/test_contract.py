"""Every dialect keeps the contract on every fixture; `tests/fuzz` reads damaged ones."""

import os
import random
from pathlib import Path
from typing import Any

import orjson
import pytest

from tooltap.normalizers.catalog.registry import builtin
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.testing import Line, check_recording, read_recording

WHOLE = bool(os.environ.get("TOOLTAP_CONTRACT"))
"""Whether each recording is reloaded at every point: `make lab-contract`."""
FIXTURES = Path(__file__).parents[2] / "fixtures"
RECORDINGS = sorted(path for dialect in builtin() for path in (FIXTURES / dialect).rglob("*.jsonl"))
DIALECTS = sorted(builtin())


def dialect_of(path: Path) -> str:
    return path.relative_to(FIXTURES).parts[0]


def name_of(path: Path) -> str:
    return str(path.relative_to(FIXTURES).with_suffix(""))


def test_dialects_and_fixtures_match() -> None:
    assert {dialect_of(path) for path in RECORDINGS} == set(builtin())
    assert {path.name for path in FIXTURES.iterdir() if path.is_dir()} == {*builtin(), "curated"}


def test_fixtures_stay_small() -> None:
    assert sum(path.stat().st_size for path in FIXTURES.rglob("*") if path.is_file()) < 4 * 2**20


def recordings_of(dialect: str) -> list[Path]:
    return [path for path in RECORDINGS if dialect_of(path) == dialect]


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("dialect", DIALECTS)
def test_recordings_keep_the_contract(dialect: str, subtests: pytest.Subtests) -> None:
    for path in recordings_of(dialect):
        with subtests.test(name_of(path)):
            check_recording(dialect, read_recording(path.read_bytes()), every_point=WHOLE)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_auto_recognises_shuffled_and_headless_streams(dialect: str, subtests: pytest.Subtests) -> None:
    for path in recordings_of(dialect):
        with subtests.test(name_of(path)):
            _check_recognised(dialect, read_recording(path.read_bytes()))


def _check_recognised(dialect: str, lines: list[Line]) -> None:
    shuffled = [Line(shuffle_keys(line.data), line.t, line.direction) for line in lines]

    for start in range(min(21, len(lines))):
        rest = shuffled[start:]
        if start and (len(rest) < 2 or not any(b"{" in line.data for line in rest)):
            break  # the last line of several need not be decisive, nor what an agent prints for a person after its work
        normalizer = StreamNormalizer(Context(stream="s"))
        for line in rest:
            normalizer.feed(line.data, line.t, line.direction)
            if normalizer.dialect is not None:
                break
        assert normalizer.dialect == dialect, f"without the first {start} lines"


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
