"""The cost of normalizing relative to bare `orjson.loads` + `orjson.dumps` of the same lines: recordings of each
dialect, all of them together, and generated lines of one length.

One core, from lines to event bytes, without partials. Processor time of the thread is measured, which depends less on
other load.

`at best` is the limit if interpreting were free: it parses each line once, and then only makes and encodes the events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson

from tests.bench.harness import Figure, Options, alternate, median
from tooltap.normalizers.core.items import Context
from tooltap.normalizers.stream.contract import Line, normalize, read_recording
from tooltap.normalizers.stream.normalizer import StreamNormalizer
from tooltap.protocol.events import Event, encode

__all__ = ["TITLE", "measure", "recordings"]

TITLE = "normalize: throughput of recorded lines, × that of orjson.loads + orjson.dumps"
FIXTURES = Path(__file__).parent.parent / "fixtures"
NO_RECORDINGS = ("curated",)
"""Folders of fixtures that are not the recordings of one dialect."""
LINES = 1_000
"""One run reads at least this many."""
SIZES = {"0.3 kB": 300, "4 kB": 4_000, "50 kB": 50_000}


class Recorded(NamedTuple):
    dialect: str
    provider: str | None
    lines: list[Line]


class Row(msgspec.Struct):
    """An entry of a manifest. Its other keys are ignored."""

    file: str
    dialect: str
    provider: str | None = None


def measure(options: Options) -> list[Figure]:
    by_dialect: dict[str, list[Recorded]] = {}
    for one in recordings(options.captures):
        by_dialect.setdefault(one.dialect, []).append(one)
    figures = []
    totals = {side: [0.0] * options.runs for side in SIDES}
    for dialect, recorded in sorted(by_dialect.items()):
        sides, rounds = _compare(recorded, options)
        figures.append(_figure(dialect, sides, target=0.3))
        for side, total in totals.items():
            totals[side] = [sum(pair) for pair in zip(total, (one / rounds for one in sides[side]), strict=True)]
    figures.insert(0, _figure("all together", totals, target=1.0))
    figures.insert(1, _at_best([one for recorded in by_dialect.values() for one in recorded], options))
    for name, size in SIZES.items():
        generated = Recorded("claude-stream", None, list(_generate(size, max(3, round(LINES * options.scale)))))
        figures.append(_figure(f"generated, {name}", _compare([generated], options)[0]))
    return figures


def recordings(captures: Path | None) -> Iterator[Recorded]:
    """The recordings in the manifest.json of a folder, else the fixtures. Raises `OSError` or `msgspec.DecodeError`."""
    if captures is not None:
        for row in msgspec.json.decode((captures / "manifest.json").read_bytes(), type=list[Row]):
            yield Recorded(row.dialect, row.provider, read_recording((captures / row.file).read_bytes()))
        return
    for path in sorted(FIXTURES.glob("*/*/*.jsonl")):
        dialect = path.relative_to(FIXTURES).parts[0]
        if dialect not in NO_RECORDINGS:
            yield Recorded(dialect, None, read_recording(path.read_bytes()))


def _compare(recorded: list[Recorded], options: Options) -> tuple[dict[str, list[float]], int]:
    """The seconds of each run of each side, and how often a run reads everything."""
    rounds = max(1, round(LINES * options.scale / sum(len(one.lines) for one in recorded)))
    return alternate({side: _timed(read, recorded, rounds) for side, read in SIDES.items()}, options.runs), rounds


def _at_best(recorded: list[Recorded], options: Options) -> Figure:
    events: list[tuple[type[Event], dict[str, Any]]] = []
    for one in recorded:
        for event in normalize(one.dialect, one.lines, Context(stream="bench", provider=one.provider)):
            fields = {name: getattr(event, name) for name in event.__struct_fields__}
            events.append((type(event), {name: value for name, value in fields.items() if value is not None}))

    def make(one: Recorded) -> None:
        for _ in _parsed(one):
            pass
        if one is recorded[-1]:
            for kind, fields in events:
                encode(kind(**fields))

    sides = {"bare": _timed(_bare, recorded, 1), "normalized": _timed(make, recorded, 1)}
    return _figure("all together, at best", alternate(sides, options.runs))


def _timed(read: Callable[[Recorded], None], recorded: list[Recorded], rounds: int) -> Callable[[], float]:
    def run() -> float:
        start = time.thread_time()
        for _ in range(rounds):
            for one in recorded:
                read(one)
        return time.thread_time() - start

    return run


def _bare(recorded: Recorded) -> None:
    for value in _parsed(recorded):
        orjson.dumps(value)


def _parsed(recorded: Recorded) -> Iterator[Any]:
    for line in recorded.lines:
        if isinstance(line.data, bytes):
            try:
                yield orjson.loads(line.data)
            except orjson.JSONDecodeError:
                continue


def _normalized(recorded: Recorded) -> None:
    normalizer = StreamNormalizer(Context(stream="bench", provider=recorded.provider), recorded.dialect)
    for line in recorded.lines:
        normalizer.feed(line.data, line.t, line.direction)
    normalizer.close("end")


SIDES = {"bare": _bare, "normalized": _normalized}


def _figure(name: str, sides: dict[str, list[float]], **target: float) -> Figure:
    pairs = zip(sides["bare"], sides["normalized"], strict=True)
    return median(name, (bare / normalized for bare, normalized in pairs), "×", **target)


def _generate(size: int, lines: int) -> Iterable[Line]:
    """Lines of Claude Code of about `size` bytes: a text, a call, its result."""
    text = ("The quick brown fox\njumps over the lazy dog. " * size)[: size - 200]
    for number in range(lines):
        call_id = f"toolu_{number // 3}"
        use = {"type": "tool_use", "id": call_id, "name": "Write", "input": {"file_path": "/tmp/a", "content": text}}
        result = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        message_text = {"type": "text", "text": text}
        role, block = [("assistant", message_text), ("assistant", use), ("user", result)][number % 3]
        message = {"id": f"msg_{number}", "role": role, "content": [block]}
        yield Line(orjson.dumps({"type": role, "message": message, "session_id": "5e55", "uuid": f"u{number}"}))
