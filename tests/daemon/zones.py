"""Time zones by what their clocks say now."""

from __future__ import annotations

import time


def zone_where_it_is(hour: int) -> str:
    """Return the name of a zone in which this hour of the day is running."""
    ahead = (hour - time.gmtime().tm_hour) % 24
    ahead -= 24 if ahead > 12 else 0
    return f"Etc/GMT{-ahead:+d}" if ahead else "Etc/GMT"
