"""The spool: whole records or none, whatever the disk does and whoever is killed."""

from __future__ import annotations

import json
import os
import random
import resource
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tooltap.daemon.taps.delivery.outbox import Entry
from tooltap.daemon.taps.delivery.spool import (
    DAMAGED,
    Ending,
    Header,
    QuarantineLimits,
    Spool,
    SpoolError,
    encode,
    encode_lost,
    frame,
    quarantine,
    spools,
)
from tooltap.protocol.frames import Ingest

DAMAGES = int(os.environ.get("TOOLTAP_DAMAGES", "30"))
"""Random damages; more with `TOOLTAP_DAMAGES`."""


def created(directory: Path, stream: str = "s", after: int = 0) -> Spool:
    header = Header(socket="/run/t.sock", ingest=Ingest(stream=stream, framing="tapped"), after=after)
    return Spool.create(directory, header)


def record(number: int) -> bytes:
    return encode(Entry(number, 1, 1, b"%d" % number))


def framed(number: int) -> bytes:
    """The record as it is on disk."""
    return frame(record(number), number)


def filled(directory: Path, lines: int) -> Spool:
    spool = created(directory)
    for number in range(1, lines + 1):
        spool.append(framed(number), 1)
    return spool


def adopted(path: Path) -> Spool:
    spool = Spool.adopt(path)
    assert spool is not None
    return spool


def copy_of(header: bytes) -> bytes:
    """The first copy of a header on disk, with its checksum."""
    text = b"4096 " + header + b"\n"
    return b"tooltap-spool-1 %08x " % zlib.crc32(text) + text


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
    tmp_path.chmod(0o707)

    with pytest.raises(SpoolError, match=rf"spools cannot be in {tmp_path}: other users may write to it \(mode 0"):
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
    spool.append(frame(looks_like_a_loss, 3) + frame(encode_lost(5, 70, "full"), 8) + framed(9), 7)

    assert spool.lines == 9
    assert spool.read(2) == (looks_like_a_loss + encode_lost(5, 70, "full") + record(9), 9)
    assert spool.read(3) == (encode_lost(5, 70, "full") + record(9), 9)
    assert spool.read(5) == (encode_lost(3, 70, "full") + record(9), 9)
    assert spool.read(8) == (record(9), 9)
    assert not spool.is_damaged
    spool.close()


def test_line_longer_than_a_chunk_is_read_whole(tmp_path: Path) -> None:
    spool = created(tmp_path)
    long = encode(Entry(1, 1, 1, b"x" * 300_000))
    spool.append(frame(long, 1), 1)
    spool.append(framed(2), 1)

    assert everything(spool) == long + record(2)
    spool.close()


@pytest.mark.parametrize("torn", [1, 10])
def test_torn_record_is_left_out(torn: int, tmp_path: Path) -> None:
    filled(tmp_path, 2).close()
    path = tmp_path / "s.spool"
    with path.open("ab") as file:
        file.write(framed(3)[:torn])
    spool = adopted(path)

    assert everything(spool) == record(1) + record(2)
    assert spool.torn == torn
    spool.close()


def test_failed_append_changes_nothing(tmp_path: Path) -> None:
    spool = filled(tmp_path, 2)
    with file_size_limit(spool.size + 10):
        with pytest.raises(OSError, match="File too large"):
            spool.append(framed(3), 1)
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
    spool.append(framed(101), 1)

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
        (b"no header\n", "its header cannot be read"),
        (b"\0" * 9_000, "its header cannot be read"),
        (copy_of(b"{}"), "its header is invalid: "),
        (copy_of(b'{"socket":"s","ingest'), "its header is invalid: "),
        (b"tooltap-spool-3 12345678 ", "it has format 3, but this daemon reads only format 1"),
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

    assert list(spools(tmp_path).items()) == [(tmp_path / "old.spool", 8_192), (tmp_path / "new.spool", 8_192)]
    assert spools(tmp_path / "none") == {}


# -- damage ----------------------------------------------------------------------------------------------------------


def damaged(directory: Path, lines: int, damage: Callable[[bytearray], None]) -> Spool:
    """A spool of this many lines that somebody has damaged since."""
    spool = filled(directory, lines)
    spool.close()
    content = bytearray(spool.path.read_bytes())
    damage(content)
    spool.path.write_bytes(content)
    return adopted(spool.path)


def at(content: bytearray, number: int) -> slice:
    """Where the record of a line is."""
    start = content.index(framed(number))
    return slice(start, start + len(framed(number)))


def zero(content: bytearray) -> None:
    content[at(content, 4).start : at(content, 6).stop] = bytes(at(content, 6).stop - at(content, 4).start)


def flip(content: bytearray) -> None:
    for number in (4, 5, 6):
        content[at(content, number).start + 12] ^= 1


def tear(content: bytearray) -> None:
    del content[at(content, 4).start + 5 : at(content, 6).stop - 3]


def cut_out(content: bytearray) -> None:
    del content[at(content, 4).start : at(content, 6).stop]


def insert(content: bytearray) -> None:
    """Lines 4 to 6 of another file."""
    content[at(content, 4).start : at(content, 6).stop] = b"".join(encode(Entry(n, 1, 1, b"x")) for n in (4, 5, 6))


def repeat(content: bytearray) -> None:
    """The blocks before, once more."""
    content[at(content, 4).start : at(content, 6).stop] = b"".join(map(framed, (1, 2, 3)))


@pytest.mark.parametrize("damage", [zero, flip, tear, cut_out, insert, repeat])
@pytest.mark.parametrize("after", [0, 2, 5, 7])
def test_lines_around_damage_are_read(damage: Callable[[bytearray], None], after: int, tmp_path: Path) -> None:
    spool = damaged(tmp_path, 9, damage)
    records = everything(spool, after).splitlines(keepends=True)

    lost = [json.loads(one) for one in records if b'"lost"' in one]
    assert [one for one in records if b'"lost"' not in one] == [record(n) for n in (1, 2, 3, 7, 8, 9) if n > after]
    assert [(one["lines"], one["reason"]) for one in lost] == [(6 - max(after, 3), DAMAGED)] * (after < 6)
    assert all(one["bytes"] > 0 for one in lost) or damage is cut_out
    assert spool.is_damaged or after >= 6
    spool.close()


@pytest.mark.parametrize("copy", [0, 1])
def test_one_copy_of_the_header_suffices(copy: int, tmp_path: Path) -> None:
    def damage(content: bytearray) -> None:
        content[copy * 4_096 : (copy + 1) * 4_096] = bytes(4_096)

    spool = damaged(tmp_path, 3, damage)
    assert (spool.header.socket, everything(spool)) == ("/run/t.sock", b"".join(map(record, (1, 2, 3))))
    assert spool.is_damaged
    spool.close()


def test_a_header_torn_between_its_copies_loses_nothing(tmp_path: Path) -> None:
    """Its publisher was killed while it created the spool."""
    spool = filled(tmp_path, 0)
    spool.close()
    os.truncate(spool.path, spool.size // 2)
    spool = adopted(spool.path)

    assert spool.header.socket == "/run/t.sock"
    assert list(spool.left_after(0)) == []
    spool.close()


def test_large_zeroed_part_takes_no_memory(tmp_path: Path) -> None:
    spool = filled(tmp_path, 2)
    size = 64 * 1024 * 1024
    spool.close()
    os.truncate(spool.path, spool.size + size)
    spool = adopted(spool.path)
    tracemalloc.start()
    assert everything(spool) == record(1) + record(2)
    assert list(spool.left_after(2)) == [encode_lost(1, size, DAMAGED)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 4 * 1024 * 1024
    spool.close()


def test_random_damage_loses_no_intact_record(tmp_path: Path) -> None:
    """Each line is read as it was or is part of a loss, in order, whatever happened to the file."""
    chance = random.Random(DAMAGES)
    lines = 200
    for _ in range(DAMAGES):
        touched: set[int] = set()

        def damage(content: bytearray) -> None:
            begin = chance.randrange(8_192, len(content))
            end = min(len(content), begin + chance.choice((1, 3, 40, 512, 3_000)))
            touched.update(n for n in range(1, lines + 1) if at(content, n).start < end and at(content, n).stop > begin)  # noqa: B023
            match chance.choice(("zero", "flip", "random", "cut", "truncate")):
                case "zero":
                    content[begin:end] = bytes(end - begin)
                case "flip":
                    content[begin] ^= 1 << chance.randrange(8)
                case "random":
                    content[begin:end] = chance.randbytes(end - begin)
                case "cut":
                    del content[begin:end]
                case "truncate":
                    touched.update(n for n in range(1, lines + 1) if at(content, n).stop > begin)  # noqa: B023
                    del content[begin:]

        spool = damaged(tmp_path, lines, damage)
        spool.header.ending = Ending(lines)
        found, number = set(), 0
        for one in b"".join(spool.left_after(0)).splitlines(keepends=True):
            if one.startswith(b'{"op":"lost"'):
                number += json.loads(one)["lines"]
            else:
                number += 1
                found.add(number)
                assert one == record(number)
        assert number == lines
        assert found >= set(range(1, lines + 1)) - touched
        assert spool.is_damaged or len(found) == lines or found == set(range(1, max(found, default=0) + 1))
        spool.remove()
        spool.close()


def test_damage_of_our_own_spool_is_a_loss(tmp_path: Path) -> None:
    """The publisher knows how many lines it has written."""
    spool = filled(tmp_path, 5)
    with spool.path.open("r+b") as file:
        file.seek(spool.size - len(framed(4) + framed(5)))
        file.write(bytes(len(framed(4) + framed(5))))

    assert everything(spool) == b"".join(map(record, (1, 2, 3))) + encode_lost(2, len(framed(4) + framed(5)), DAMAGED)
    assert spool.read(5) == (b"", 5)
    spool.append(framed(6), 1)
    assert everything(spool, 5) == record(6)
    assert spool.is_damaged
    spool.close()


# -- quarantine ------------------------------------------------------------------------------------------------------


def test_quarantine_retains_every_file(tmp_path: Path) -> None:
    limits = QuarantineLimits(files=3, bytes=25)
    places = []
    for content in (b"one", b"two", b"x" * 20, b"three", b"four"):
        path = tmp_path / "s.spool"
        path.write_bytes(content)
        places.append(quarantine(path, limits))

    folder = tmp_path / "quarantined"
    assert [place and place.name for place in places] == ["s.spool", "s.2.spool", None, "s.3.spool", None]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == {
        "s.spool": b"one",
        "s.2.spool": b"two",
        "s.3.spool": b"three",
    }
    assert path.read_bytes() == b"four"
    assert folder.stat().st_mode & 0o777 == 0o700
