"""The views of an event: what the model sees, what the user sees, or everything."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

__all__ = ["View", "view_of"]

View: TypeAlias = Literal["assistant", "display", "raw"]


def view_of(event: dict[str, Any], view: View) -> dict[str, Any]:
    """`raw`: the event as journaled.

    `assistant`: without the provider's own object, and without what only the user saw. Of a result it has
    `modelView` in place of the output, unless texts in it are still to be put together. If the stream does not say
    what the model saw, `assistantView` is `unknown`.

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
        known_elsewhere = "assistantView" in event or ("modelView" in event and not _needs_output(event["modelView"]))
        return ("display", "silent", *(["output", "attachments"] if known_elsewhere else []))
    if event.get("silent"):
        return ("display", "output", "attachments", "modelView")
    return ("modelView", "output") if "display" in event else ("modelView",)


def _needs_output(model_view: dict[str, Any]) -> bool:
    return any("parts" in block for block in model_view["blocks"])


def _contains(pointer: str, event: dict[str, Any]) -> bool:
    """Whether a JSON pointer leads to a part of the view."""
    _, field, *path = pointer.split("/")
    return field in event and path[:1] != ["_raw"]
