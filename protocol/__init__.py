"""The schema every client sees: events, canonical tool payloads, socket frames and statistics.

Values only: no clock, no I/O. `SCHEMA_VERSION` is the `v` of every event, `PROTOCOL_VERSION` that of the socket.
"""

SCHEMA_VERSION = 2
PROTOCOL_VERSION = 1

__all__ = ["PROTOCOL_VERSION", "SCHEMA_VERSION"]
