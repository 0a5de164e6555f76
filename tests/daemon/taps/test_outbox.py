"""The outbox: nothing leaves it before it is durable, and what there is no room for is counted."""

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


def test_entries_are_taken_in_order_and_in_pieces() -> None:
    outbox = filled(b"one", b"two", b"three")

    assert lines_of(outbox.take(2 * OVERHEAD)) == [b"one", b"two"]
    assert lines_of(outbox.take(1)) == [b"three"]
    assert outbox.take(MUCH) == []


def test_what_was_not_acknowledged_is_sent_again() -> None:
    outbox = filled(b"one", b"two", b"three")
    outbox.take(MUCH)
    outbox.acknowledge(1)
    outbox.put([b"four"])
    outbox.resume(2)

    assert [(entry.last, entry.line) for entry in outbox.take(MUCH) or ()] == [(2, b"two"), (3, b"three"), (4, b"four")]


def test_memory_is_that_of_what_is_kept() -> None:
    outbox = filled(b"12345", b"123")
    outbox.put([LongLine(b"head", 10**8)])
    outbox.lose(7, 10**8, "gone")

    assert outbox.bytes == 12 + 4 * OVERHEAD
    outbox.take(MUCH)
    outbox.acknowledge(10)
    assert (outbox.bytes, outbox.lines, outbox.acked) == (0, 10, 10)


def test_whole_newest_lines_are_dropped_and_counted_where_there_is_no_room() -> None:
    outbox = filled(b"one", b"two", b"three!", b"four", max_bytes=2 * OVERHEAD)

    assert outbox.dropped == 2
    assert outbox.take(MUCH) == [
        Entry(1, 1, 3, b"one", memory=3 + OVERHEAD),
        Entry(2, 1, 3, b"two", memory=3 + OVERHEAD),
        Entry(4, 2, 10, None, reason="the daemon did not keep up"),
    ]


def test_a_loss_that_was_sent_is_not_changed_any_more() -> None:
    outbox = filled(b"one", b"two", max_bytes=OVERHEAD)
    outbox.take(MUCH)
    outbox.put([b"three"])

    assert [(entry.last, entry.lines) for entry in outbox.take(MUCH) or ()] == [(3, 1)]


def test_lines_fit_again_when_earlier_ones_are_durable() -> None:
    outbox = filled(b"one", b"two", max_bytes=OVERHEAD)
    outbox.take(MUCH)
    outbox.acknowledge(2)
    outbox.put([b"three"])

    assert lines_of(outbox.take(MUCH)) == [b"three"]
    assert outbox.dropped == 1


def test_what_another_journal_has_acknowledged_is_gone() -> None:
    outbox = filled(b"one", b"two", b"three")
    outbox.take(MUCH)
    outbox.acknowledge(2)

    assert outbox.resume(0) == 2
    assert outbox.take(MUCH) == [Entry(3, 1, 5, b"three", memory=5 + OVERHEAD)]


def test_room_is_waited_for() -> None:
    outbox = filled(b"one")

    assert not outbox.wait_for_room(1, timeout=0.0)
    outbox.take(MUCH)
    outbox.acknowledge(1)
    assert outbox.wait_for_room(1, timeout=0.0)


# -- with a spool ----------------------------------------------------------------------------------------------------


def test_what_is_on_disk_is_not_kept_in_memory_and_not_taken_from_there() -> None:
    outbox = filled(b"one", b"two", b"three")
    assert lines_of(outbox.copy(2 * OVERHEAD)) == [b"one", b"two"]
    outbox.copied(2)

    assert outbox.bytes == 5 + OVERHEAD
    assert outbox.take(MUCH) is None
    outbox.taken(2)
    assert lines_of(outbox.take(MUCH)) == [b"three"]


def test_what_is_acknowledged_is_not_copied_any_more() -> None:
    outbox = filled(b"one", b"two", b"three")
    outbox.take(2 * OVERHEAD)
    outbox.acknowledge(2)

    assert lines_of(outbox.copy(MUCH)) == [b"three"]


def test_only_what_has_been_taken_can_be_acknowledged() -> None:
    """The daemon may know a recording further than it has been read."""
    outbox = filled(b"one", b"two")
    outbox.take(OVERHEAD)
    outbox.acknowledge(7)
    outbox.put([b"three"])

    assert outbox.acked == 1
    assert lines_of(outbox.take(MUCH)) == [b"two", b"three"]


def test_a_loss_that_is_being_copied_is_not_changed_any_more() -> None:
    outbox = filled(b"one", b"two", max_bytes=OVERHEAD)
    outbox.copy(MUCH)
    outbox.put([b"three"])
    outbox.copied(2)

    assert [(entry.last, entry.lines) for entry in outbox.copy(MUCH)] == [(3, 1)]


def test_the_rest_is_what_is_neither_on_disk_nor_acknowledged_nor_dropped() -> None:
    outbox = filled(b"one", b"two", b"three", b"dropped", max_bytes=3 * OVERHEAD)
    outbox.copy(OVERHEAD)
    outbox.copied(1)

    assert outbox.rest() == (2, len(b"twothreedropped"))
    outbox.finish(delivered=True)
    assert outbox.rest() == (0, 0)
    assert outbox.copy(MUCH) == []
