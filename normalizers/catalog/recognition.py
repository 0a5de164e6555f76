"""Recognition of a dialect by one line alone, whatever the order of its keys.

A line that fits several dialects, or none, decides nothing, and the next one is looked at. Where the lines of one
dialect look like another's with small marks of their own, the rule with the marks wins (`Dialect.takes_from`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tooltap.normalizers.catalog.registry import builtin, dialects, parser_class


def recognise(value: Any) -> str | None:
    """The dialect of one decoded line, if it is decisive; of an array of lines that of the first which is."""
    if isinstance(value, list):
        return next((name for item in value if isinstance(item, dict) and (name := recognise(item))), None)
    if not isinstance(value, dict):
        return None
    fitting = [dialect for dialect in builtin().values() if dialect.recognises(value)]
    taken = {name for dialect in fitting for name in dialect.takes_from}
    found = [dialect.name for dialect in fitting if dialect.name not in taken]
    if not found:
        found = [name for name in dialects() if name not in builtin() and _ask_plugin(name, value)]
    return found[0] if len(found) == 1 else None


def _ask_plugin(name: str, value: dict[str, Any]) -> bool:
    """A fault of an installed package must not cost the streams of other agents: it then claims no line."""
    try:
        rule: Callable[[dict[str, Any]], bool] | None = getattr(parser_class(name), "recognises", None)
        return rule is not None and rule(value)
    except Exception:
        return False
