"""Time stamps of providers -> milliseconds since the epoch."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

__all__ = ["milliseconds"]


def milliseconds(timestamp: Any) -> int | None:
    """Of an ISO 8601 string; one without a zone is UTC, so that the machine's own zone never matters."""
    if not isinstance(timestamp, str):
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
