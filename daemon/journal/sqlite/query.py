"""What a filter becomes in SQL: ranges of an index where one finds the events, conditions for the rest.

A filter is resolved to the sources and labels that match it (`tables.py`). A range is what an index has of one source,
one label or both, in the order of `seq`, and SQLite merges the ranges as it reads them. So the first events cost the
same however long the journal is. Where a filter has too many ranges, or none, all events are scanned.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tooltap.protocol.filters import Filter

__all__ = ["MAX_RANGES", "Query", "query_of"]

MAX_RANGES = 100
"""SQLite takes 500. A read costs about 7 µs for each."""

SOURCE = ("session", "stream")
LABEL = ("kind", "provider")


class Query(NamedTuple):
    ranges: Sequence[str] = ()
    """Conditions that an index answers; an event matches one at most. None: all events are scanned."""
    rest: Sequence[str] = ()
    """What an event must match besides."""
    values: Mapping[str, str] = {}
    """The parameters of `rest`."""

    @property
    def scans(self) -> bool:
        """Whether any number of events may be read that do not match."""
        return bool(self.rest) and not self.ranges

    def sql(self, bounds: str, order: str, check: str) -> str:
        """`bounds`: the condition for `seq`. `check`: what an event is verified by."""
        selects = [
            f"SELECT seq, body, {check} FROM events WHERE {' AND '.join([*one, bounds, *self.rest])}"
            for one in ([[condition] for condition in self.ranges] or [[]])
        ]
        return f"{' UNION ALL '.join(selects)} ORDER BY seq {order}"


def query_of(connection: sqlite3.Connection, wanted: Filter) -> Query | None:
    """None if no event matches."""
    values: dict[str, str] = {}

    def among(key: str, column: str) -> str:
        named = {f"{key}{number}": name for number, name in enumerate(getattr(wanted, key))}
        values.update(named)
        return f"{column} IN ({','.join(f':{one}' for one in named)})"

    def ids_of(table: str, conditions: Sequence[str]) -> tuple[list[int] | None, str]:
        """The ids, None if all match or too many; and the condition for an event's column."""
        if not conditions:
            return None, ""
        select = f"SELECT id FROM {table} WHERE {' AND '.join(conditions)}"
        found = connection.execute(f"{select} LIMIT {MAX_RANGES + 1}", values).fetchall()
        return (None if len(found) > MAX_RANGES else [one for (one,) in found]), f"{table[:-1]} IN ({select})"

    of_source = [among(key, key) for key in SOURCE if getattr(wanted, key) is not None]
    of_label = [among(key, key) for key in LABEL if getattr(wanted, key) is not None]
    if wanted.tool is not None:
        of_label.append(f"({among('tool', 'tool')} OR {among('tool', 'raw_tool')})")
    sources, source_condition = ids_of("sources", of_source)
    labels, label_condition = ids_of("labels", of_label)
    if sources == [] or labels == []:
        return None
    agents = "" if wanted.agent is None else among("agent", "agent")
    if labels is not None and min(labels) < 0:
        labels = None  # some are not in the index
    by_label = [f"label={one} AND label>0" for one in labels or ()]
    by_source = [f"source={one}" for one in sources or ()]
    if by_label and by_source and len(by_label) * len(by_source) <= MAX_RANGES:
        ranges, rest = [f"{source} AND {label}" for source in by_source for label in by_label], [agents]
    elif by_source:
        # With +, no index of labels is considered: the range is in the order of `seq`.
        ranges, rest = by_source, [label_condition and f"+{label_condition}", agents]
    elif by_label:
        ranges, rest = by_label, [source_condition, agents]
    else:
        ranges, rest = [], [source_condition, label_condition, agents]
    return Query(ranges, [one for one in rest if one], values)
