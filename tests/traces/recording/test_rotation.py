"""A trace is bounded: full files are rotated, the oldest are removed, and foreign files are not touched."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.traces.recording.tracing import put, record, trace, writer_to
from tooltap.traces.recording.reader import TraceReader
from tooltap.traces.recording.writer import RotatingFile, expand, next_rotated, parts

OURS = "tooltap-2026-11-21T22-37-05-042Z-pid-{pid}.jsonl"


def numbers(paths: list[Path]) -> list[int]:
    return [one.n for path in paths for one in TraceReader(path)]


def test_full_files_get_ascending_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    writer = trace(path, *(record(n, b"x" * 850) for n in range(1, 11)), file_bytes=4_096)

    assert [one.name for one in parts(path)] == ["t.0001.jsonl", "t.0002.jsonl", "t.jsonl"]
    assert parts(path) == sorted(tmp_path.iterdir())  # as a shell lists them
    assert numbers(parts(path)) == list(range(1, 11))
    assert all(one.stat().st_size <= 4_096 for one in parts(path))
    assert writer.statistics()["rotated"] == 2


def test_next_daemon_continues_file_and_numbers(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    trace(path, *(record(n, b"x" * 850) for n in range(1, 8)), file_bytes=4_096)
    trace(path, *(record(n, b"x" * 850) for n in range(8, 11)), file_bytes=4_096)

    assert [one.name for one in parts(path)] == ["t.0001.jsonl", "t.0002.jsonl", "t.jsonl"]
    assert numbers(parts(path)) == list(range(1, 11))


def test_oldest_files_are_removed_beyond_budget(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    writer = writer_to(path, file_bytes=4_096, total_bytes=16_384)
    put(writer, *(record(n, b"x" * 850) for n in range(1, 101)))
    writer.close()

    left = numbers(parts(path))
    assert left == list(range(left[0], 101))
    assert len(left) == 16  # four full files
    assert sum(one.stat().st_size for one in tmp_path.iterdir()) <= 16_384
    statistics = writer.statistics()
    assert statistics["totalBytes"] == sum(one.stat().st_size for one in tmp_path.iterdir())
    assert statistics["rotated"] - statistics["removed"] == len(parts(path)) - 1
    assert statistics["dropped"] == 0


def test_budget_covers_folder_but_not_foreign_files(tmp_path: Path) -> None:
    """Each daemon starts its own file; the ancestor's recorder writes to the same folder."""
    ancestors = tmp_path / "2026-02-01T10-00-00-000Z-pid-9.jsonl"
    ancestors.write_bytes(b"x" * 50_000)
    for pid in range(1, 9):
        path = tmp_path / OURS.format(pid=pid)
        trace(path, *(record(n, b"x" * 850) for n in range(1, 4)), total_bytes=16_384)
        os.utime(path, (pid, pid))

    ours = sorted(path.name for path in tmp_path.iterdir() if path != ancestors)
    assert ours == [OURS.format(pid=pid) for pid in (4, 5, 6, 7, 8)]
    assert ancestors.exists()


def test_file_of_a_live_daemon_is_not_removed(tmp_path: Path) -> None:
    busy = writer_to(tmp_path / OURS.format(pid=1), total_bytes=16_384)
    put(busy, record(1, b"x" * 3_500))
    while not busy.statistics()["records"]:
        os.sched_yield()
    for pid in range(2, 9):
        trace(tmp_path / OURS.format(pid=pid), record(1, b"x" * 3_500), total_bytes=16_384)
    busy.close()

    assert busy.path.exists()
    assert not (tmp_path / OURS.format(pid=2)).exists()


@pytest.mark.parametrize("is_removed", [True, False])
def test_trace_that_is_gone_is_started_again(is_removed: bool, tmp_path: Path) -> None:
    path, kept = tmp_path / "t.jsonl", tmp_path / "kept"
    warnings: list[str] = []
    writer = writer_to(path, warn=warnings.append)
    for n in (1, 2, 3):
        put(writer, record(n, b"text"))
        while writer.statistics()["records"] < n:
            os.sched_yield()
        path.unlink() if is_removed else path.rename(kept)
    put(writer, record(4, b"text"))
    writer.close()

    assert numbers([path]) == [4]
    assert is_removed or numbers([kept]) == [3]
    assert warnings == [f"the trace {path} was removed or renamed in use; lines go on into a new file there"]
    assert writer.statistics()["restarted"] == 3


def test_no_record_is_only_in_a_removed_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is removed between the look at it and the write."""
    path = tmp_path / "t.jsonl"
    write = os.write

    def remove_and_write(file: int, data: bytes) -> int:
        monkeypatch.undo()
        path.unlink()
        return write(file, data)

    monkeypatch.setattr(os, "write", remove_and_write)
    disk = RotatingFile(path, 2**20, 2**30)
    disk.write(b"{}\n")
    disk.close()

    assert path.read_bytes() == b"{}\n"


def test_device_is_not_rotated() -> None:
    writer = trace(Path("/dev/null"), *(record(n, b"x" * 850) for n in range(1, 11)), file_bytes=4_096)

    statistics = writer.statistics()
    assert (statistics["records"], statistics["rotated"], statistics["dropped"]) == (10, 0, 0)


def test_expand_accepts_trace_part_and_folder(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    trace(path, *(record(n, b"x" * 850) for n in range(1, 11)), file_bytes=4_096)
    other = trace(tmp_path / "run.jsonl", record(1, b"x")).path
    first = tmp_path / "t.0001.jsonl"

    assert expand([path]) == parts(path)
    assert expand([first]) == [first]
    assert expand([first, path]) == expand(sorted(tmp_path.glob("t.*"))) == parts(path)
    assert expand([path, other, *reversed(parts(path))]) == [*parts(path), other]
    assert expand([tmp_path]) == [other, *parts(path)]
    with pytest.raises(FileNotFoundError):
        expand([tmp_path / "none.jsonl"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="no trace in this folder"):
        expand([tmp_path / "empty"])


def test_any_file_name_is_numbered(tmp_path: Path) -> None:
    for name, numbered in (("trace", "trace.0001"), ("a.b.log", "a.b.0001.log"), ("[x]*.jsonl", "[x]*.0001.jsonl")):
        path = tmp_path / name
        trace(path, *(record(n, b"x" * 850) for n in range(1, 6)), file_bytes=4_096)
        assert [one.name for one in parts(path)] == [numbered, name]


def test_numbers_grow_beyond_9999(tmp_path: Path) -> None:
    for number in (9_998, 9_999):
        (tmp_path / f"t.{number}.jsonl").write_text(json.dumps({"v": 1}))
    path = tmp_path / "t.jsonl"
    path.touch()

    assert next_rotated(path).name == "t.10000.jsonl"
    (tmp_path / "t.10000.jsonl").touch()
    assert [one.name for one in parts(path)] == ["t.9998.jsonl", "t.9999.jsonl", "t.10000.jsonl", "t.jsonl"]
