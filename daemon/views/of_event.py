"""The views of an event: what the model sees, what the user sees, or everything."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

__all__ = ["View", "view_of"]

View: TypeAlias = Literal["assistant", "display", "raw"]


def view_of(event: dict[str, Any], view: View) -> dict[str, Any]:
    """`raw`: the event as journaled.

    `assistant`: without the provider's own object, and without what only the user saw. If the stream has nothing else,
    `assistantView` is `unknown`.

    `display`: like `assistant`, except that a stored display replaces the output, and that a silent result has neither.
    """
    if view == "raw":
        return event
    hidden = _hidden(event, view)
    shown = {key: value for key, value in event.items() if key not in hidden}
    for key in shown.keys() & {"input", "output"}:
        shown[key] = {name: value for name, value in shown[key].items() if name != "_raw"}
    if outputs := {pointer: ref for pointer, ref in shown.pop("outputs", {}).items() if _contains(pointer, shown)}:
        shown["outputs"] = outputs
    return shown


def _hidden(event: dict[str, Any], view: View) -> tuple[str, ...]:
    if view == "assistant":
        return ("display", "silent", *(["output", "attachments"] if "assistantView" in event else []))
    if event.get("silent"):
        return ("display", "output", "attachments")
    return ("output",) if "display" in event else ()


def _contains(pointer: str, event: dict[str, Any]) -> bool:
    """Whether a JSON pointer leads to a part of the view."""
    _, field, *path = pointer.split("/")
    return field in event and path[:1] != ["_raw"]
