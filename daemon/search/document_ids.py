"""The ids of documents: when a document happened, and whose it is.

An id is `second << SLOT_BITS | slot`. So a part has its documents in the order in which they happened, whenever they
were ingested, and their ids alone tell the hits of one session from another's. A slot belongs to one source of the
part; a source takes another slot for each further document of the same second while there are spare ones, and then the
next second. An id is unique in its part; with the part it becomes a key, which says the order of all documents.
"""

from __future__ import annotations

import sqlite3

__all__ = ["SLOTS", "SPARE", "Ids", "first_id", "high_before", "key_of", "last_id", "second_of"]

SLOT_BITS = 12
SLOTS = 1 << SLOT_BITS
SPARE = 2_048
"""Slots of a part that sources may take beyond their first one."""
PART_BITS = 6
"""Enough to tell parts apart that have documents of the same second. A key has 53 bits, all that JavaScript reads."""
PARTS = 1 << PART_BITS
LAST_SECOND = (1 << 53 - PART_BITS - SLOT_BITS) - 1


def first_id(second: int) -> int:
    """The least id of this second, and of later ones."""
    return _within(second) << SLOT_BITS


def last_id(second: int) -> int:
    return first_id(second) | (SLOTS - 1)


def key_of(number: int, part: int) -> int:
    return number << PART_BITS | part % PARTS


def second_of(key: int) -> int:
    return key >> PART_BITS + SLOT_BITS


def high_before(key: int, part: int) -> int:
    """The greatest id that a part's documents before a key may have."""
    number, of_part = key >> PART_BITS, key % PARTS
    return number if part % PARTS < of_part else number - 1


class Ids:
    """Gives ids to the documents of one part, in the order of their `seq`. The same documents get the same ids, in
    however many batches they come."""

    def __init__(self, connection: sqlite3.Connection, part: int) -> None:
        self.part = part
        self._execute = connection.execute
        self._slots: dict[int, list[int]] = {}
        """Source -> its slots, in the order in which it took them."""
        owner: dict[int, int] = {}
        for slot, source in self._execute("SELECT slot, source FROM slots WHERE part=? ORDER BY slot", (part,)):
            self._slots.setdefault(source, []).append(slot)
            owner[slot] = source
        self._used = len(owner)
        self._latest: dict[int, tuple[int, int]] = {}
        """Source -> the latest second of its documents, and how many are of it."""
        for (number,) in self._execute(f"SELECT id FROM docs_{part} ORDER BY id"):
            source, second = owner[number % SLOTS], number >> SLOT_BITS
            latest, count = self._latest.get(source, (second, 0))
            self._latest[source] = second, count + 1 if latest == second else 1
        (high,) = self._execute("SELECT max(high) FROM parts WHERE id<?", (part,)).fetchone()
        self._start = 0 if high is None else (high >> SLOT_BITS) + 1

    def take(self, source: int, second: int | None) -> int | None:
        """The id of the next document. Without a time it is as old as the one before it in its source. None if the part
        has no room for another source. All documents that have an id must be in the table."""
        own = self._slots.get(source)
        if own is None:
            if len(self._slots) >= SLOTS - SPARE:
                return None
            own = self._slots[source] = []
        latest, count = self._latest.get(source, (-1, 0))
        if second is None:
            second = max(latest, self._start)
        second = _within(second)
        if second < latest:
            slot = self._slot(source, own, self._taken(own, second))
            if slot is not None:
                return second << SLOT_BITS | slot
        elif second > latest:
            latest, count = second, 0
        slot = self._slot(source, own, count)
        if slot is None:
            latest, count = latest + 1, 0
            slot = own[0]
        self._latest[source] = latest, count + 1
        return latest << SLOT_BITS | slot

    def _slot(self, source: int, own: list[int], place: int) -> int | None:
        """The slot for the document in this place among those of one second; None if the source may have no more."""
        if place < len(own):
            return own[place]
        if own and self._used - len(self._slots) >= SPARE:
            return None
        slot = self._used
        self._execute("INSERT INTO slots VALUES (?, ?, ?)", (self.part, slot, source))
        self._used += 1
        own.append(slot)
        return slot

    def _taken(self, own: list[int], second: int) -> int:
        """How many documents a source has of a second."""
        rows = self._execute(
            f"SELECT id FROM docs_{self.part} WHERE id BETWEEN ? AND ?", (first_id(second), last_id(second))
        )
        slots = set(own)
        return sum(number % SLOTS in slots for (number,) in rows)


def _within(second: int) -> int:
    """Agents write times: any number can come."""
    return min(max(second, 0), LAST_SECOND)
