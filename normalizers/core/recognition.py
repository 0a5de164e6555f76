"""Which dialect a line belongs to, told from one line alone, whatever the order of its keys.

A line that fits the rules of several dialects (`sniff_rules.py`), or of none, decides nothing, and the next one is
looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tooltap.normalizers.core.registry import BUILTIN, dialects, parser_class
from tooltap.normalizers.dialects.rules import RULES

__all__ = ["sniff"]


def sniff(value: Any) -> str | None:
    """The dialect of one decoded line, if it is decisive; of an array of lines that of the first which is."""
    if isinstance(value, list):
        return next((name for item in value if isinstance(item, dict) and (name := sniff(item))), None)
    if not isinstance(value, dict):
        return None
    found = [name for name, rule in RULES.items() if rule(value)]
    if not found:
        found = [name for name in dialects() if name not in BUILTIN and _ask_plugin(name, value)]
    return found[0] if len(found) == 1 else None


def _ask_plugin(name: str, value: dict[str, Any]) -> bool:
    """A fault of an installed package must not cost the streams of other agents: it then claims no line."""
    try:
        rule: Callable[[dict[str, Any]], bool] | None = getattr(parser_class(name), "sniff", None)
        return rule is not None and rule(value)
    except Exception:
        return False
