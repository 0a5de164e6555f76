"""Converts providers' time stamps to milliseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

__all__ = ["milliseconds"]


def milliseconds(timestamp: Any) -> int | None:
    """Convert an ISO 8601 string. Without a zone it is UTC, so that the result does not depend on the machine."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
