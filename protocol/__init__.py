"""The schema that every client sees: events, payloads of canonical tools, socket frames and statistics.

This package holds only values: no clock, no I/O. `SCHEMA_VERSION` is the `v` of every event, `PROTOCOL_VERSION` the
version of the socket's frames.
"""

SCHEMA_VERSION = 2
PROTOCOL_VERSION = 1

EPOCH_MS = 10**12
"""Smallest number that is a time, in milliseconds since the epoch; as `t` of a line, a smaller one is an offset from
the start of a recording."""
LATEST_MS = 10**14
"""Exclusive upper limit of times, in milliseconds since the epoch: after the year 5000."""

__all__ = ["EPOCH_MS", "LATEST_MS", "PROTOCOL_VERSION", "SCHEMA_VERSION"]
