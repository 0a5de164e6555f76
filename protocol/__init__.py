"""The schema that every client sees: events, payloads of canonical tools, socket frames and statistics.

This package holds only values: no clock, no I/O. `SCHEMA_VERSION` is the `v` of every event, `PROTOCOL_VERSION` the
version of the socket's frames.
"""

SCHEMA_VERSION = 2
PROTOCOL_VERSION = 1

__all__ = ["PROTOCOL_VERSION", "SCHEMA_VERSION"]
