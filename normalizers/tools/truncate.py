"""`_raw`: the provider's own object beside the canonical one, truncated to a bounded size.

The limits are those of the ancestor's V2 (depth 6, strings 2,000, lists 50, objects 200), counted in code points, so
that no surrogate pair is split.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

MAX_DEPTH = 6
MAX_STRING = 2_000
MAX_ITEMS = 50
MAX_KEYS = 200


def truncate_raw(value: Any, depth: int = 0) -> Any:
    """A decoded JSON value truncated; the value itself, or parts of it, where nothing has to go."""
    return value if _is_short(value, depth) else _truncated(value, depth)


def _is_short(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind is str:
        return len(value) <= MAX_STRING
    if kind is dict:
        if len(value) > MAX_KEYS or depth >= MAX_DEPTH:
            return not value
        items = value.values()
    elif kind is list:
        if len(value) > MAX_ITEMS or depth >= MAX_DEPTH:
            return not value
        items = value
    else:
        return True
    for item in items:  # a loop without calls for the values that are short strings: most are
        kind = type(item)
        if kind is str:
            if len(item) > MAX_STRING:
                return False
        elif (kind is dict or kind is list) and not _is_short(item, depth + 1):
            return False
    return True


def _truncated(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return "[truncated depth]"
    if isinstance(value, str):
        if len(value) <= MAX_STRING:
            return value
        return f"{value[:MAX_STRING]}…(truncated {len(value) - MAX_STRING} chars)"
    if isinstance(value, dict):
        members = value.items() if len(value) <= MAX_KEYS else islice(value.items(), MAX_KEYS)
        cut = {key: _truncated(item, depth + 1) if depth < MAX_DEPTH else "[truncated depth]" for key, item in members}
        if len(value) > MAX_KEYS:
            cut["_truncatedKeys"] = len(value) - MAX_KEYS
        return cut
    if isinstance(value, list):
        items = [_truncated(item, depth + 1) for item in value[:MAX_ITEMS]]
        if len(value) > MAX_ITEMS:
            items.append(f"…(truncated {len(value) - MAX_ITEMS} items)")
        return items
    return value
