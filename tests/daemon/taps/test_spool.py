"""The spool: whole records or none, whatever the disk does and whoever is killed."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tooltap.daemon.taps.delivery.outbox import Entry
from tooltap.daemon.taps.delivery.records import encode, encode_lost
from tooltap.daemon.taps.delivery.spool import Ending, Header, Spool, SpoolError, spools
from tooltap.protocol.frames import Ingest


def created(directory: Path, stream: str = "s", after: int = 0) -> Spool:
    header = Header(socket="/run/t.sock", ingest=Ingest(stream=stream, framing="tapped"), after=after)
    return Spool.create(directory, header)


def record(number: int) -> bytes:
    return encode(Entry(number, 1, 1, b"%d" % number))


def filled(directory: Path, lines: int) -> Spool:
    spool = created(directory)
    for number in range(1, lines + 1):
        spool.append(record(number), 1)
    return spool


def adopted(path: Path) -> Spool:
    spool = Spool.adopt(path)
    assert spool is not None
    return spool


def everything(spool: Spool, after: int = 0) -> bytes:
    read = b""
    while records := spool.read(after)[0]:
        read += records
        after = spool.read(after)[1]
    return read


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    """Limit file sizes: writing more fails like on a full disk, after a part of it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_spool_is_private(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        spool = created(tmp_path / "data" / "spool")
    finally:
        os.umask(old)

    assert spool.path.stat().st_mode & 0o777 == 0o600
    assert spool.path.parent.stat().st_mode & 0o777 == 0o700
    spool.close()


def test_directory_writable_by_others_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o770)

    with pytest.raises(SpoolError, match=f"other users may write to {tmp_path}"):
        created(tmp_path)


def test_unused_spool_is_adopted(tmp_path: Path) -> None:
    spool = filled(tmp_path, 3)
    assert Spool.adopt(spool.path) is None
    spool.close()
    left = adopted(spool.path)
    assert Spool.adopt(spool.path) is None

    assert everything(left) == record(1) + record(2) + record(3)
    assert (left.header.socket, left.header.ingest.stream, left.header.ending) == ("/run/t.sock", "s", None)
    left.remove()
    left.close()
    assert Spool.adopt(spool.path) is None


def test_spool_is_read_in_chunks_from_any_line(tmp_path: Path) -> None:
    spool = filled(tmp_path, 12_000)  # three pieces
    first, last = spool.read(0)

    assert first == b"".join(map(record, range(1, last + 1)))
    assert last < 5_000
    for after in (11_999, 1, last - 1, last, last + 1, 12_000):
        assert everything(spool, after) == b"".join(map(record, range(after + 1, 12_001)))
    assert spool.read(12_500) == (b"", 12_000)
    spool.close()


def test_loss_counts_all_its_lines(tmp_path: Path) -> None:
    spool = filled(tmp_path, 2)
    looks_like_a_loss = encode(Entry(3, 1, 1, b'{"op":"lost"}'))
    spool.append(looks_like_a_loss + encode_lost(5, 70, "full") + record(9), 7)

    assert spool.lines == 9
    assert spool.read(2) == (looks_like_a_loss + encode_lost(5, 70, "full") + record(9), 9)
    assert spool.read(3) == (encode_lost(5, 70, "full") + record(9), 9)
    assert spool.read(8) == (record(9), 9)
    spool.close()


def test_line_longer_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    spool = created(tmp_path)
    long = encode(Entry(1, 1, 1, b"x" * 300_000))
    spool.append(long, 1)
    spool.append(record(2), 1)

    assert everything(spool) == long + record(2)
    spool.close()


@pytest.mark.parametrize("torn", [1, 10])
def test_torn_record_is_left_out(torn: int, tmp_path: Path) -> None:
    filled(tmp_path, 2).close()
    path = tmp_path / "s.spool"
    with path.open("ab") as file:
        file.write(record(3)[:torn])
    spool = adopted(path)

    assert everything(spool) == record(1) + record(2)
    assert spool.torn == torn
    spool.close()


def test_failed_append_changes_nothing(tmp_path: Path) -> None:
    spool = filled(tmp_path, 2)
    with file_size_limit(spool.size + 10):
        with pytest.raises(OSError, match="File too large"):
            spool.append(record(3), 1)
        spool.end(Ending(lines=3, bytes=1, reason="the disk is full"))
    spool.close()
    left = adopted(spool.path)

    assert everything(left) == record(1) + record(2)
    assert (left.torn, left.header.ending) == (0, Ending(3, 1, "the disk is full"))
    left.close()


def test_restart_empties_the_spool(tmp_path: Path) -> None:
    spool = filled(tmp_path, 100)
    before = spool.size
    spool.restart(100)
    spool.append(record(101), 1)

    assert spool.size < before
    assert spool.read(100) == (record(101), 101)
    spool.close()
    left = adopted(spool.path)
    assert (left.header.after, left.read(100)) == (100, (record(101), 101))
    left.close()


def test_failed_creation_leaves_no_file(tmp_path: Path) -> None:
    with file_size_limit(100), pytest.raises(OSError, match="File too large"):
        created(tmp_path)

    assert spools(tmp_path) == {}


def test_empty_spool_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "s.spool"
    path.touch()

    assert Spool.adopt(path) is None
    assert not path.exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"not JSON\n", "its header is invalid: "),
        (b'{"v":1}\n', "its header is invalid: "),
        (
            b'{"v":2,"socket":"s","ingest":{"op":"ingest"},"rest":1}\n',
            "it has format 2, but this daemon reads only format 1",
        ),
    ],
)
def test_invalid_spool_is_refused(content: bytes, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "s.spool"
    path.write_bytes(content)

    with pytest.raises(SpoolError, match=reason):
        Spool.adopt(path)


def test_fifo_or_link_does_not_block(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.spool")
    (tmp_path / "b.spool").symlink_to("/etc/passwd")

    with pytest.raises(SpoolError, match="it is not a file of this user"):
        Spool.adopt(tmp_path / "a.spool")
    with pytest.raises(OSError, match="symbolic links"):
        Spool.adopt(tmp_path / "b.spool")


def test_spools_are_listed_oldest_first(tmp_path: Path) -> None:
    for stream, time in (("new", 2_000), ("old", 1_000)):
        spool = created(tmp_path, stream)
        spool.close()
        os.utime(spool.path, (time, time))
    (tmp_path / "else").touch()

    assert list(spools(tmp_path).items()) == [(tmp_path / "old.spool", 4_096), (tmp_path / "new.spool", 4_096)]
    assert spools(tmp_path / "none") == {}
