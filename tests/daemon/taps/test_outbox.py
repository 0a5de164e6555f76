"""The outbox: no line leaves it before it is durable, and dropped lines are counted."""

from __future__ import annotations

from tooltap.daemon.taps.delivery.outbox import OVERHEAD, Entry, Outbox
from tooltap.normalizers.wire.framing import LongLine

MUCH = 10**9


def filled(*lines: bytes, max_bytes: int = MUCH) -> Outbox:
    outbox = Outbox(max_bytes)
    outbox.put(lines)
    return outbox


def lines_of(entries: list[Entry] | None) -> list[bytes | LongLine | None]:
    assert entries is not None
    return [entry.line for entry in entries]


def test_entries_are_taken_in_chunks() -> None:
    outbox = filled(b"one", b"two", b"three")

    assert lines_of(outbox.take(2 * OVERHEAD)) == [b"one", b"two"]
    assert lines_of(outbox.take(1)) == [b"three"]
    assert outbox.take(MUCH) == []


def test_unacknowledged_lines_are_sent_again() -> None:
    outbox = filled(b"one", b"two", b"three")
    outbox.take(MUCH)
    outbox.acknowledge(1)
    outbox.put([b"four"])
    outbox.resume(2)

    assert [(entry.last, entry.line) for entry in outbox.take(MUCH) or ()] == [(2, b"two"), (3, b"three"), (4, b"four")]


def test_bytes_count_entries() -> None:
    outbox = filled(b"12345", b"123")
    outbox.put([LongLine(b"head", 10**8)])
    outbox.lose(7, 10**8, "gone")

    assert outbox.bytes == 12 + 4 * OVERHEAD
    outbox.take(MUCH)
    outbox.acknowledge(10)
    assert (outbox.bytes, outbox.lines, outbox.acked) == (0, 10, 10)


def test_full_outbox_drops_newest_lines() -> None:
    outbox = filled(b"one", b"two", b"three!", b"four", max_bytes=2 * OVERHEAD)

    assert outbox.dropped == 2
    assert outbox.take(MUCH) == [
        Entry(1, 1, 3, b"one", memory=3 + OVERHEAD),
        Entry(2, 1, 3, b"two", memory=3 + OVERHEAD),
        Entry(4, 2, 10, None, reason="the daemon did not keep up"),
    ]


def test_sent_loss_is_not_extended() -> None:
    outbox = filled(b"one", b"two", max_bytes=OVERHEAD)
    outbox.take(MUCH)
    outbox.put([b"three"])

    assert [(entry.last, entry.lines) for entry in outbox.take(MUCH) or ()] == [(3, 1)]


def test_acknowledged_lines_free_memory() -> None:
    outbox = filled(b"one", b"two", max_bytes=OVERHEAD)
    outbox.take(MUCH)
    outbox.acknowledge(2)
    outbox.put([b"three"])

    assert lines_of(outbox.take(MUCH)) == [b"three"]
    assert outbox.dropped == 1


def test_replaced_journal_reports_missing_lines() -> None:
    outbox = filled(b"one", b"two", b"three")
    outbox.take(MUCH)
    outbox.acknowledge(2)

    assert outbox.resume(0) == 2
    assert outbox.take(MUCH) == [Entry(3, 1, 5, b"three", memory=5 + OVERHEAD)]


def test_wait_for_room() -> None:
    outbox = filled(b"one")

    assert not outbox.wait_for_room(1, timeout=0.0)
    outbox.take(MUCH)
    outbox.acknowledge(1)
    assert outbox.wait_for_room(1, timeout=0.0)


# -- with a spool ----------------------------------------------------------------------------------------------------


def test_spooled_lines_leave_memory() -> None:
    outbox = filled(b"one", b"two", b"three")
    assert lines_of(outbox.copy(2 * OVERHEAD, None) or []) == [b"one", b"two"]
    outbox.copied(2)

    assert outbox.bytes == 5 + OVERHEAD
    assert outbox.take(MUCH) is None
    outbox.taken(2)
    assert lines_of(outbox.take(MUCH)) == [b"three"]


def test_acknowledged_lines_are_not_copied() -> None:
    outbox = filled(b"one", b"two", b"three")
    outbox.take(2 * OVERHEAD)
    outbox.acknowledge(2)

    assert lines_of(outbox.copy(MUCH, None) or []) == [b"three"]


def test_only_sent_lines_can_be_acknowledged() -> None:
    """The daemon may have more lines of a recording than have been read."""
    outbox = filled(b"one", b"two")
    outbox.take(OVERHEAD)
    outbox.acknowledge(7)
    outbox.put([b"three"])

    assert outbox.acked == 1
    assert lines_of(outbox.take(MUCH)) == [b"two", b"three"]


def test_loss_being_copied_is_not_extended() -> None:
    outbox = filled(b"one", b"two", max_bytes=OVERHEAD)
    outbox.copy(MUCH, None)
    outbox.put([b"three"])
    outbox.copied(2)

    assert [(entry.last, entry.lines) for entry in outbox.copy(MUCH, None) or []] == [(3, 1)]


def test_rest_counts_undelivered_lines() -> None:
    outbox = filled(b"one", b"two", b"three", b"dropped", max_bytes=3 * OVERHEAD)
    outbox.copy(OVERHEAD, None)
    outbox.copied(1)

    assert outbox.rest() == (2, len(b"twothreedropped"))
    outbox.finish(delivered=True)
    assert outbox.rest() == (0, 0)
    assert outbox.copy(MUCH, None) is None
