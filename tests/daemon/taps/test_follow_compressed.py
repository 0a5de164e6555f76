"""Session files that the agent compresses or moves: the same stream goes on."""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import Any

import pytest
import zstandard

from tests.daemon.taps.following import CODEX, Follower, append, lines_of
from tooltap.daemon.taps.follow import stores
from tooltap.daemon.taps.follow.stores import Position, ReplacedError, Root, position_after, read_from, read_head, scan
from tooltap.daemon.taps.stream_ids import recording_id, stream_name
from tooltap.normalizers.catalog.registry import stores as known_stores
from tooltap.traces.recording import compressed

NAME = "rollout-2026-11-21T20-43-41-01a1ffd9-ba6f-7181-86d4-0540301f722d.jsonl"
LINES = lines_of(CODEX)
SAID = ["[[S25]] Move, add and delete files in one patch.", "Moved, added and deleted."]


def compress(path: Path) -> Path:
    """Replace a file by its compressed form, as Codex does."""
    packed = path.with_name(f"{path.name}.zst")
    packed.write_bytes(zstandard.ZstdCompressor().compress(path.read_bytes()))
    path.unlink()
    return packed


def streams(follower: Follower) -> dict[str, int]:
    return {one["stream"]: one["lines"] for one in follower.stats()["perStream"]}


def messages(events: list[dict[str, Any]]) -> list[str]:
    return [event["text"] for event in events if event["kind"] == "message"]


# -- followed files ---------------------------------------------------------------------------------------------------


def test_compressed_and_archived_sessions_are_followed(tmp_path: Path) -> None:
    follower = Follower(tmp_path, backfill="all")
    plain = follower.rollouts / NAME
    append(plain, LINES)
    archive = tmp_path / "codex" / "archived_sessions"
    archive.mkdir()
    other = [line.replace(b"01a1ffd9-ba6f", b"01a1ffd9-ba70") for line in LINES]
    append(archive / NAME.replace("01a1ffd9-ba6f", "01a1ffd9-ba70"), other)
    compress(plain)

    with follower:
        events = follower.events_when(lambda events: len(messages(events)) == 2 * len(SAID))

    assert len({event["session"] for event in events}) == 2


@pytest.mark.parametrize("restarts", [False, True], ids=["while followed", "while the daemon is away"])
def test_moved_and_compressed_file_is_the_same_stream(tmp_path: Path, restarts: bool) -> None:
    """Written, then compressed in the archive, then unpacked, put back and written again."""
    archive = tmp_path / "codex" / "archived_sessions"
    archive.mkdir(parents=True)
    with Follower(tmp_path) as follower:
        path = follower.rollouts / NAME
        stream = recording_id(str(path))
        append(path, LINES[:8])
        follower.read(path, 8)
        if restarts:
            follower.stop()
            follower.wait()
        archived = path.rename(tmp_path / NAME)  # where nobody looks, until it is compressed
        append(archived, LINES[8:12])
        packed = compress(archived)
        packed = packed.rename(archive / packed.name)
        if restarts:
            follower.start()
        follower.wait_stats(lambda _: streams(follower) == {stream: 12})
        path.write_bytes(zstandard.ZstdDecompressor().decompress(packed.read_bytes()))
        packed.unlink()
        append(path, LINES[12:])
        follower.wait_stats(lambda _: streams(follower) == {stream: len(LINES)})
        events = follower.events_when(lambda events: len(messages(events)) == len(SAID))

    assert messages(events) == SAID
    assert {event["stream"] for event in events} == {stream}


# -- reading ----------------------------------------------------------------------------------------------------------


def packed(path: Path, data: bytes) -> str:
    path.write_bytes(zstandard.ZstdCompressor().compress(data))
    return str(path)


def test_parts_of_a_compressed_file_are_those_of_the_plain_one(tmp_path: Path) -> None:
    data = b"".join(b"%d\n" % number for number in range(50_000))
    path = packed(tmp_path / "a.jsonl.zst", data)

    position, parts = Position(), []
    while (chunk := read_from(path, position, 65_536)).data:
        parts.append(chunk.data)
        position = chunk.after

    assert b"".join(parts) == data
    assert {len(part) for part in parts[:-1]} == {65_536}
    assert position.offset == len(data)
    assert read_head(path, 10)[0] == data[:10]


def test_position_is_found_again_in_a_compressed_file(tmp_path: Path) -> None:
    data = b"".join(b"%d\n" % number for number in range(200_000))
    path = packed(tmp_path / "a.jsonl.zst", data)
    offset = data.index(b"\n150000\n") + 1

    position = position_after(path, offset, zlib.crc32(b"149999"))

    assert read_from(path, position, 7).data == b"150000\n"


@pytest.mark.parametrize(
    ("offset", "crc"), [(4, zlib.crc32(b"xyz")), (3, None), (100, None)], ids=["other line", "within a line", "shorter"]
)
def test_other_content_is_not_continued(tmp_path: Path, offset: int, crc: int | None) -> None:
    path = packed(tmp_path / "a.jsonl.zst", b"abc\ndef\n")

    with pytest.raises(ReplacedError):
        position_after(path, offset, crc)


def test_last_line_without_newline_may_have_been_read(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.jsonl.zst", b"abc\ndef")

    position = position_after(path, 8, zlib.crc32(b"def"))

    assert read_from(path, position, 100) == stores.Chunk(b"", position, os.stat(path).st_mtime_ns // 1_000_000)


def test_file_that_is_not_compressed_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.zst"
    path.write_bytes(b'{"type":"session_meta"}\n')

    with pytest.raises(OSError, match="cannot be decompressed"):
        read_head(str(path), 10)


def test_bytes_that_come_out_of_a_file_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "MAX_BYTES", 1_000_000)
    path = packed(tmp_path / "a.jsonl.zst", bytes(2_000_000))

    with pytest.raises(OSError, match="holds more than 1000000 bytes"):
        position_after(path, 1_900_000, None)


def test_memory_of_a_decompressor_is_bounded(tmp_path: Path) -> None:
    """A frame may refer to bytes that are as far back as it says."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=28)
    path = tmp_path / "a.jsonl.zst"
    with path.open("wb") as file, zstandard.ZstdCompressor(compression_params=parameters).stream_writer(file) as writer:
        writer.write(b"a\n" * 1000)

    with pytest.raises(OSError, match="cannot be decompressed"):
        read_head(str(path), 10)


def test_few_decompressors_are_kept(tmp_path: Path) -> None:
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    paths = [packed(tmp_path / f"{number}.jsonl.zst", bytes(300_000)) for number in range(20)]

    for path in paths:
        read_from(path, Position(), 1_000)

    if before:
        assert len(os.listdir("/proc/self/fd")) <= before + compressed.KEPT


# -- names ------------------------------------------------------------------------------------------------------------


def test_compression_does_not_change_the_name_of_a_stream(tmp_path: Path) -> None:
    assert stream_name("/a/b.jsonl.zst") == stream_name("/a/b.jsonl") == "b"
    assert recording_id(str(tmp_path / "b.jsonl.zst")) == recording_id(str(tmp_path / "b.jsonl"))


def test_file_is_listed_once_while_it_is_compressed(tmp_path: Path) -> None:
    (store,) = known_stores()["codex"]
    (tmp_path / NAME).write_bytes(b"{}\n")
    packed(tmp_path / f"{NAME}.zst", b"{}\n")

    found = scan(Root("codex", store, str(tmp_path)), str(tmp_path), lambda error: None)

    assert [Path(one.path).name for one in found] == [NAME]
