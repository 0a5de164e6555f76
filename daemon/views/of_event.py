"""What of an event each audience gets to see: the model's view, the user's view, or all of it."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

__all__ = ["View", "view_of"]

View: TypeAlias = Literal["assistant", "display", "raw"]


def view_of(event: dict[str, Any], view: View) -> dict[str, Any]:
    """`raw`: the event as journaled. `assistant`: without the provider's own object and what only the user saw; where
    that is all the wire has, `assistantView` is `unknown`. `display`: the same, save that a stored display stands in
    place of the output, and that of a silent result there is neither; otherwise both views are equal.
    """
    if view == "raw":
        return event
    hidden = _hidden(event, view)
    shown = {key: value for key, value in event.items() if key not in hidden}
    for key in shown.keys() & {"input", "output"}:
        shown[key] = {name: value for name, value in shown[key].items() if name != "_raw"}
    if outputs := {pointer: ref for pointer, ref in shown.pop("outputs", {}).items() if _leads(pointer, shown)}:
        shown["outputs"] = outputs
    return shown


def _hidden(event: dict[str, Any], view: View) -> tuple[str, ...]:
    if view == "assistant":
        return ("display", "silent", *(["output", "attachments"] if "assistantView" in event else []))
    if event.get("silent"):
        return ("display", "output", "attachments")
    return ("output",) if "display" in event else ()


def _leads(pointer: str, event: dict[str, Any]) -> bool:
    """Whether what a JSON pointer points to is in a view."""
    _, field, *path = pointer.split("/")
    return field in event and path[:1] != ["_raw"]
