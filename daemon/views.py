"""What of an event each audience gets to see: the model's view, the user's view, or all of it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

__all__ = ["View", "view_of"]

View: TypeAlias = Literal["assistant", "display", "raw"]


def view_of(event: dict[str, Any], view: View) -> dict[str, Any]:
    """`raw`: the event as journaled. `assistant`: without the provider's own object and what only the user saw.
    `display`: the same, save that a stored display stands in place of the output, and nothing in place of a silent one;
    without either both views are equal.
    """
    if view == "raw":
        return event
    shown = {key: _without_raw(value) if key in ("input", "output") else value for key, value in event.items()}
    if view == "display" and ("display" in shown or "silent" in shown):
        shown.pop("output", None)
    else:
        shown.pop("display", None)
        shown.pop("silent", None)
    return shown


def _without_raw(payload: Any) -> Any:
    return {key: value for key, value in payload.items() if key != "_raw"} if isinstance(payload, dict) else payload
