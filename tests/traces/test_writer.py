"""The trace is a private JSONL file of raw lines that reads back as it was written, and never gets in the way."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tooltap.normalizers.framing import LongLine
from tooltap.traces.reader import TraceReader
from tooltap.traces.writer import BUFFER, TraceWriter, trace_path

NOW = datetime(2026, 11, 21, 22, 37, 5, 42_000, tzinfo=UTC)


def write(writer: TraceWriter, n: int, line: bytes | LongLine, **changed: Any) -> None:
    about: dict[str, Any] = {
        "stream": "run-1",
        "dialect": "acp",
        "provider": "gemini",
        "agent_version": "0.61.0",
        "t": 1_795_293_851_000,
        "direction": "out",
    }
    writer.write(n=n, line=line, **{**about, **changed})


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"HAPPIER_STACK_TOOL_TRACE": "0", "HAPPIER_STACK_TOOL_TRACE_FILE": "/x/t.jsonl"}, None),
        ({"HAPPIER_STACK_TOOL_TRACE_FILE": "/x/t.jsonl"}, None),
        ({"HAPPIER_STACK_TOOL_TRACE": "1", "HAPPIER_HOME_DIR": "/h"}, "/h/tool-traces/{name}"),
        (
            {"HAPPIER_STACK_TOOL_TRACE": "Yes", "HAPPIER_HOME_DIR": "/h", "HAPPIER_STACK_TOOL_TRACE_DIR": "/d"},
            "/d/{name}",
        ),
        (
            {
                "HAPPIER_STACK_TOOL_TRACE": "on",
                "HAPPIER_STACK_TOOL_TRACE_DIR": "/d",
                "HAPPIER_STACK_TOOL_TRACE_FILE": "/x/t.jsonl",
            },
            "/x/t.jsonl",
        ),
        ({"HAPPIER_STACK_TOOL_TRACE": "TRUE"}, str(Path.home() / ".happier/tool-traces/{name}")),
    ],
)
def test_the_variables_say_whether_and_where(environ: dict[str, str], expected: str | None) -> None:
    path = trace_path(environ, NOW, 77)

    assert (None if path is None else str(path)) == (
        expected and expected.format(name="tooltap-2026-11-21T22-37-05-042Z-pid-77.jsonl")
    )


def test_a_record_has_the_promised_keys_and_no_others(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "new" / "t.jsonl", pytest.fail)
    write(writer, 1, b'{"a":1}')
    write(writer, 2, b"\xff\xfe", dialect=None, agent_version=None, t=None, direction=None)
    write(writer, 3, b"token ghp_" + b"a1" * 18)
    write(writer, 4, LongLine(b"head", 70_000_000))
    writer.close()

    records = [json.loads(line) for line in writer.path.read_bytes().splitlines()]

    common = {"v": 1, "t": 1_795_293_851_000, "stream": "run-1", "dialect": "acp", "provider": "gemini"}
    common |= {"agentVersion": "0.61.0", "dir": "out"}
    assert records == [
        common | {"n": 1, "line": '{"a":1}'},
        {"v": 1, "stream": "run-1", "provider": "gemini", "n": 2, "b64": "//4="},
        common | {"n": 3, "line": "token [masked github-token]", "masked": True},
        common | {"n": 4, "line": "head", "bytes": 70_000_000},
    ]
    assert stat.S_IMODE(writer.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(writer.path.parent.stat().st_mode) == 0o700


def test_the_reader_gives_the_bytes_back(tmp_path: Path) -> None:
    lines = [b'{"text":"\xc3\xa9\\u0000"}', b"\xff", b"", b" x\r"]
    writer = TraceWriter(tmp_path / "t.jsonl", pytest.fail)
    for n, line in enumerate(lines, 1):
        write(writer, n, line)
    writer.close()

    reader = TraceReader(writer.path)

    assert [(record.n, record.raw) for record in reader] == list(enumerate(lines, 1))
    assert reader.damaged == 0


def test_records_wait_in_a_buffer_until_flush_or_size(tmp_path: Path) -> None:
    writer = TraceWriter(tmp_path / "t.jsonl", pytest.fail)
    write(writer, 1, b"one")

    assert not writer.path.exists()
    writer.flush()
    assert len(writer.path.read_bytes().splitlines()) == 1
    write(writer, 2, b"x" * BUFFER)
    assert len(writer.path.read_bytes().splitlines()) == 2
    writer.close()


def test_a_torn_record_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    killed = TraceWriter(path, pytest.fail)
    write(killed, 1, b"one")
    write(killed, 2, b"two")
    killed.close()
    path.write_bytes(path.read_bytes()[:-9])

    torn = TraceReader(path)
    assert [record.n for record in torn] == [1]
    assert torn.damaged == 1

    next_one = TraceWriter(path, pytest.fail)
    write(next_one, 3, b"three")
    next_one.close()
    mended = TraceReader(path)
    assert [record.n for record in mended] == [1, 3]
    assert mended.damaged == 1


def test_a_trace_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    warnings: list[str] = []
    writer = TraceWriter(tmp_path, warnings.append)

    for n in range(1, 4):
        write(writer, n, b"x" * BUFFER)
    writer.close()

    assert warnings == [f"the trace {tmp_path} cannot be written, tracing stops: Is a directory"]


def test_a_full_disk_is_one_warning() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    warnings: list[str] = []
    writer = TraceWriter(full, warnings.append)

    write(writer, 1, b"one")
    writer.flush()
    write(writer, 2, b"two")
    writer.close()

    assert warnings == ["the trace /dev/full cannot be written, tracing stops: No space left on device"]


def test_without_the_variable_there_is_no_writer() -> None:
    assert TraceWriter.from_environment({}, pytest.fail) is None
