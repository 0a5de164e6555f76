"""The tapped line, whose format is part of the protocol."""

from tooltap.protocol.tapped import (
    Direction,
    End,
    Lost,
    NotTappedError,
    TappedLine,
    looks_tapped,
    read_record,
    read_tapped,
    write_tapped,
)

__all__ = [
    "Direction",
    "End",
    "Lost",
    "NotTappedError",
    "TappedLine",
    "looks_tapped",
    "read_record",
    "read_tapped",
    "write_tapped",
]
