"""`_raw`: the provider's own object beside the canonical one, truncated to a bounded size.

The limits are those of the ancestor's V2 (depth 6, strings 2,000, lists 50, objects 200), counted in code points, so
that no surrogate pair is split.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

__all__ = ["truncate_raw"]

MAX_DEPTH = 6
MAX_STRING = 2_000
MAX_ITEMS = 50
MAX_KEYS = 200

_SCALARS = (int, bool, float, type(None))


def truncate_raw(value: Any, depth: int = 0) -> Any:
    """A truncated copy of a decoded JSON value; values that are short enough are shared with it."""
    if depth > MAX_DEPTH:
        return "[truncated depth]"
    if isinstance(value, str):
        if len(value) <= MAX_STRING:
            return value
        return f"{value[:MAX_STRING]}…(truncated {len(value) - MAX_STRING} chars)"
    if isinstance(value, dict):
        members = value.items() if len(value) <= MAX_KEYS else islice(value.items(), MAX_KEYS)
        cut: dict[str, Any]
        if depth == MAX_DEPTH:
            cut = {key: "[truncated depth]" for key, _ in members}
        else:  # short values are recognised here: a call for each member would cost most of the walk
            cut = {
                key: item
                if (type(item) is str and len(item) <= MAX_STRING) or type(item) in _SCALARS
                else truncate_raw(item, depth + 1)
                for key, item in members
            }
        if len(value) > MAX_KEYS:
            cut["_truncatedKeys"] = len(value) - MAX_KEYS
        return cut
    if isinstance(value, list):
        items = [truncate_raw(item, depth + 1) for item in value[:MAX_ITEMS]]
        if len(value) > MAX_ITEMS:
            items.append(f"…(truncated {len(value) - MAX_ITEMS} items)")
        return items
    return value
