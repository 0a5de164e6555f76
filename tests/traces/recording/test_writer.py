"""The trace is a private JSONL file that round-trips raw lines and never delays its caller."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.traces.recording.tracing import put, record, trace, writer_to
from tooltap.traces.recording import writer as module
from tooltap.traces.recording.reader import TraceReader
from tooltap.traces.recording.writer import Declared, TraceRecord, TraceWriter, trace_path

NOW = datetime(2026, 11, 21, 22, 37, 5, 42_000, tzinfo=UTC)


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, None),
        ({"TOOLTAP_TRACE": "1", "HAPPIER_HOME_DIR": "/h"}, "/h/tool-traces/{name}"),
        ({"TOOLTAP_TRACE": "1", "TOOLTAP_TRACE_DIR": "/d"}, "/d/{name}"),
        ({"TOOLTAP_TRACE": "1", "TOOLTAP_TRACE_DIR": "/d", "TOOLTAP_TRACE_FILE": "/x/t.jsonl"}, "/x/t.jsonl"),
        ({"TOOLTAP_TRACE": "0", "HAPPIER_STACK_TOOL_TRACE": "1"}, None),
        ({"TOOLTAP_TRACE": "", "HAPPIER_STACK_TOOL_TRACE": "1", "TOOLTAP_TRACE_DIR": "/d"}, "/d/{name}"),
        ({"TOOLTAP_TRACE": "1", "TOOLTAP_TRACE_DIR": "/d", "HAPPIER_STACK_TOOL_TRACE_FILE": "/x"}, "/d/{name}"),
        ({"TOOLTAP_TRACE": "1", "HAPPIER_STACK_TOOL_TRACE_FILE": "/x/t.jsonl"}, "/x/t.jsonl"),
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
def test_environment_selects_path(environ: dict[str, str], expected: str | None) -> None:
    path = trace_path(environ, NOW, 77)

    assert (None if path is None else str(path)) == (
        expected and expected.format(name="tooltap-2026-11-21T22-37-05-042Z-pid-77.jsonl")
    )


def test_record_has_exactly_the_documented_keys(tmp_path: Path) -> None:
    declared = Declared(session="mine", mcp_servers=("files",))
    writer = trace(
        tmp_path / "new" / "t.jsonl",
        record(1, b'{"a":1}'),
        record(2, b"\xff\xfe", dialect=None, agent_version=None, t=None, dir=None, declared=declared),
        record(3, b"token ghp_" + b"a1" * 18),
        record(4, b"head", size=70_000_000),
        record(6, None, op="lost", lines=2, size=9, reason="full", dir=None),
        record(6, None, op="close", reason="end", dir=None),
    )

    records = [json.loads(line) for line in writer.path.read_bytes().splitlines()]

    mark = {"v": 1, "t": 1_795_293_851_000, "stream": "run-1", "dialect": "acp", "provider": "gemini"}
    mark |= {"agentVersion": "0.61.0"}
    common = mark | {"dir": "out"}
    declared_keys = {"session": "mine", "mcpServers": ["files"]}
    assert records == [
        common | {"n": 1, "line": '{"a":1}'},
        {"v": 1, "stream": "run-1", "provider": "gemini", "told": declared_keys, "n": 2, "b64": "//4="},
        common | {"n": 3, "line": "token [masked github-token]", "masked": True},
        common | {"n": 4, "line": "head", "bytes": 70_000_000},
        mark | {"n": 6, "op": "lost", "lines": 2, "bytes": 9, "reason": "full"},
        mark | {"n": 6, "op": "close", "reason": "end"},
    ]
    assert stat.S_IMODE(writer.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(writer.path.parent.stat().st_mode) == 0o700


def test_reader_returns_the_bytes(tmp_path: Path) -> None:
    lines = [b'{"text":"\xc3\xa9\\u0000"}', b"\xff", b"", b" x\r"]
    mark = record(4, None, op="close", reason="end")
    writer = trace(tmp_path / "t.jsonl", *(record(n, line) for n, line in enumerate(lines, 1)), mark)

    reader = TraceReader(writer.path)

    assert [(one.n, one.raw) for one in reader] == list(enumerate(lines, 1))
    assert [one.op for one in reader.records()] == [None] * 4 + ["close"]
    assert reader.damaged == 0


def test_records_are_encoded_in_another_thread(tmp_path: Path) -> None:
    """The caller of `write` does not wait for the lines."""
    made_in = []

    def make() -> Iterator[TraceRecord]:
        for n in range(1_000):
            made_in.append(threading.current_thread().name)
            yield record(n, b"x")

    writer = writer_to(tmp_path / "t.jsonl")
    writer.write(make(), 1_000, 1_000)
    writer.close()

    assert set(made_in) == {"trace-writer"}
    assert len(writer.path.read_bytes().splitlines()) == writer.statistics()["records"] == 1_000


def test_torn_record_loses_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    trace(path, record(1, b"one"), record(2, b"two"))
    path.write_bytes(path.read_bytes()[:-9])

    torn = TraceReader(path)
    assert [one.n for one in torn] == [1]
    assert torn.damaged == 1

    trace(path, record(3, b"three"))
    mended = TraceReader(path)
    assert [one.n for one in mended] == [1, 3]
    assert mended.damaged == 1


def test_unwritable_trace_is_one_warning_and_counted(tmp_path: Path) -> None:
    warnings: list[str] = []
    writer = trace(tmp_path, *(record(n, b"x") for n in range(1, 4)), warn=warnings.append)

    assert warnings == [f"the trace {tmp_path} cannot be written, so lines are dropped from it: Is a directory"]
    statistics = writer.statistics()
    assert (statistics["records"], statistics["dropped"], statistics["problem"]) == (0, 3, "Is a directory")


def test_full_disk_is_one_warning() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    warnings: list[str] = []
    writer = trace(full, record(1, b"one"), record(2, b"two"), warn=warnings.append)

    assert warnings == ["the trace /dev/full cannot be written, so lines are dropped from it: No space left on device"]
    assert writer.statistics()["dropped"] == 2


def test_tracing_resumes_after_disk_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY", 0)
    warned = threading.Event()
    path = tmp_path / "t.jsonl"
    path.mkdir()
    writer = writer_to(path, warn=lambda _: warned.set())
    put(writer, record(1, b"one"))
    assert warned.wait(60)
    path.rmdir()
    put(writer, record(2, b"two"))
    writer.close()

    assert [one.n for one in TraceReader(path)] == [2]
    statistics = writer.statistics()
    assert (statistics["records"], statistics["dropped"], statistics["problem"]) == (1, 1, None)


def test_stuck_disk_delays_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe without a reader takes 64 KiB and then blocks its writer for ever."""
    monkeypatch.setattr(module, "CLOSE_TIMEOUT", 0.1)
    path = tmp_path / "pipe"
    os.mkfifo(path)
    warnings: list[str] = []
    writer = writer_to(path, warn=warnings.append, buffer_bytes=200_000)
    put(writer, *(record(n, b"x" * 10_000) for n in range(1, 11)))  # whenever they are taken, the pipe cannot hold them
    for n in range(11, 101):
        put(writer, record(n, b"x" * 10_000))
    writer.close()

    assert warnings == [f"the trace {path} is written too slowly, so lines are dropped from it"]
    assert writer.statistics()["dropped"] == 80
    with open(path, "rb") as pipe:  # release the thread
        while writer._thread.is_alive():
            pipe.read(65_536)


def test_line_longer_than_a_file_is_dropped(tmp_path: Path) -> None:
    warnings: list[str] = []
    lines = [record(1, b"x" * 5_000), record(2, b"short"), record(3, b"x" * 5_000)]
    writer = trace(tmp_path / "t.jsonl", *lines, warn=warnings.append, file_bytes=4_096)

    assert [one.n for one in TraceReader(writer.path)] == [2]
    assert warnings == [
        f"the trace {writer.path} cannot hold lines of more than 4096 bytes and drops them; raise its limits"
    ]
    assert writer.statistics()["dropped"] == 2


def test_no_writer_without_variable() -> None:
    assert TraceWriter.from_environment({}, pytest.fail) is None
