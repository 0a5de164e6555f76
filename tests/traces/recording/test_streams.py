"""Reading streams from traces and recordings, including torn ones."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest

from tooltap.normalizers.wire.framing import LongLine
from tooltap.traces.recording.reader import read_stream, read_streams

FIXTURES = Path(__file__).parents[2] / "fixtures"
ODDITIES = FIXTURES / "tooltap-trace/tooltap-0.1/recorder-oddities.jsonl"
PLAIN = FIXTURES / "gemini-stream/gemini-0.61.0/edit.jsonl"
TAPPED = FIXTURES / "acp/gemini-0.61.0/edit.jsonl"
ANCESTORS = FIXTURES / "happier-trace/happier-1-written/codex.jsonl"


def record(n: int, stream: str = "s", **more: Any) -> bytes:
    return json.dumps({"v": 1, "stream": stream, "n": n, "line": f"{stream}{n}", **more}).encode() + b"\n"


def write(path: Path, *records: bytes) -> Path:
    path.write_bytes(b"".join(records))
    return path


def test_recording_is_one_stream() -> None:
    [plain] = read_streams([PLAIN])
    [tapped] = read_streams([TAPPED])
    [ancestors] = read_streams([ANCESTORS], dialect="happier-trace")

    assert (plain.name, plain.dialect, len(plain.lines)) == ("edit", "auto", 11)
    assert plain.lines[0] == (PLAIN.read_bytes().split(b"\n")[0], None, None)
    assert {line.direction for line in tapped.lines} == {"in", "out"}
    assert (ancestors.dialect, len(ancestors.lines)) == ("happier-trace", 14)


def test_trace_holds_named_streams(tmp_path: Path) -> None:
    trace = write(
        tmp_path / "trace.jsonl",
        record(1, "a"),
        record(1, "b", dialect="acp", provider="gemini", agentVersion="0.61.0", dir="in", t=1795293851050),
        record(2, "a", dialect="codex-exec"),
        record(2, "b", b64="/w==", line=None),
        record(3, "b", bytes=70_000_000),
    )
    a, b = sorted(read_streams([trace]), key=lambda stream: stream.name)

    assert (a.dialect, a.provider, [line.data for line in a.lines]) == ("codex-exec", None, [b"a1", b"a2"])
    assert (b.dialect, b.provider, b.agent_version) == ("acp", "gemini", "0.61.0")
    assert [tuple(line) for line in b.lines] == [
        (b"b1", 1795293851050, "in"),
        (b"\xff", None, None),
        (LongLine(b"b3", 70_000_000), None, None),
    ]


def test_repeated_line_is_dropped_and_restarted_stream_is_separate() -> None:
    """The trace has lines 1 to 13 of `run-a` without 7 and 8 and with 6 twice, and then lines 1 and 2."""
    streams = {(stream.name, len(stream.lines)): stream for stream in read_streams([ODDITIES])}

    assert set(streams) == {("run-a", 11), ("run-a", 2), ("run-b", 1)}
    assert streams["run-b", 1].dialect == "babel-stream"


def test_stream_in_several_traces_is_joined(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "1.jsonl", record(1), record(2), record(1, "other")),
        write(tmp_path / "2.jsonl", record(3, dialect="acp"), record(2, "other")),
        write(tmp_path / "3.jsonl", record(4), record(5)),
        write(tmp_path / "4.jsonl", record(9)),
    ]

    for order in itertools.permutations(paths):
        found = {(stream.name, tuple(line.data for line in stream.lines)) for stream in read_streams(order)}

        assert found == {
            ("s", (b"s1", b"s2", b"s3", b"s4", b"s5")),
            ("s", (b"s9",)),
            ("other", (b"other1", b"other2")),
        }


@pytest.mark.parametrize("torn", [b'{"v":1,"stream":"s","n":3,"li', b"\x00\x00\x00\x00", b'{"v":1}'])
def test_torn_record_is_skipped(tmp_path: Path, torn: bytes) -> None:
    [at_the_end] = read_streams([write(tmp_path / "end.jsonl", record(1), record(2), torn)])
    [before_others] = read_streams([write(tmp_path / "start.jsonl", torn + b"\n", record(1), record(2))])

    assert len(at_the_end.lines) == len(before_others.lines) == 2


def test_torn_last_line_of_recording_is_dropped(tmp_path: Path) -> None:
    lines = PLAIN.read_bytes().split(b"\n")
    [torn] = read_streams([write(tmp_path / "torn.jsonl", b"\n".join(lines[:4]), b"\n", lines[4][:40])])
    [whole] = read_streams([write(tmp_path / "whole.jsonl", b"\n".join(lines[:4]))])
    [text] = read_streams([write(tmp_path / "text.jsonl", b"\n".join(lines[:4]), b"\nbye")])

    assert (len(torn.lines), len(whole.lines), len(text.lines)) == (4, 4, 5)


def test_empty_file_is_a_stream_without_lines(tmp_path: Path) -> None:
    [stream] = read_streams([write(tmp_path / "empty.jsonl")])

    assert stream.lines == []


def test_name_of_a_file_need_not_be_utf8(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"a\xff\xed\xa0\x80.jsonl")
    path.write_bytes(b"{}\n")

    assert read_stream(path).name == "a\ufffd\ufffd\ufffd\ufffd"
