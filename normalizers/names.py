"""Raw tool name -> canonical tool name."""

from __future__ import annotations

from typing import Any

__all__ = ["canonical_name"]


def canonical_name(raw_name: str, value: Any, call_id: str) -> str:
    """The canonical tool for a call named `raw_name` with input `value`; the name unchanged where there is none."""
    return raw_name
