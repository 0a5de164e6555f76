"""An event with the whole of its texts: what was cut in it is read from its output bodies, up to a limit."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.views.select import whole_body

__all__ = ["whole_event"]

TEXTS = ("text/", "application/json")
"""How the MIME types of displays begin that are texts."""


async def whole_event(event: dict[str, Any], journal: Journal, limit: int) -> dict[str, Any]:
    """Return the event with whole texts in place of cut ones, as far as they have no more than `limit` bytes in all.
    `outputs` of the result has what is still cut. Raises `JournalError`."""
    outputs: dict[str, Any] = event.get("outputs") or {}
    whole = copy.deepcopy(event)
    left = dict(outputs)
    for pointer, ref in sorted(outputs.items(), key=lambda one: one[0].count("/")):  # an object before what is in it
        if ref["bytes"] > limit:
            continue
        data = await whole_body(journal, ref["outputId"])
        if data is not None and _put(whole, pointer, _value(data, ref["mimeType"])):
            limit -= len(data)
            del left[pointer]
    whole["outputs"] = left
    await _read_display(whole.get("display") or {}, journal, limit)
    return whole


async def _read_display(display: dict[str, Any], journal: Journal, limit: int) -> None:
    """Put the text of a display in place of its output body."""
    is_text = (display.get("mimeType") or "text/plain").startswith(TEXTS)
    if "text" in display or "outputId" not in display or not is_text or display.get("bytes", 0) > limit:
        return
    data = await whole_body(journal, display["outputId"])
    if data is not None:
        display["text"] = data.decode("utf-8", "replace")
        del display["outputId"]


def _value(data: bytes, mime_type: str) -> Any:
    if mime_type == "application/json":
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, RecursionError):
            pass
    return data.decode("utf-8", "replace")


def _put(event: dict[str, Any], pointer: str, value: Any) -> bool:
    """Set what a JSON pointer leads to; False if it leads nowhere."""
    *steps, last = (step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:])
    holder: Any = event
    for step in steps:
        if isinstance(holder, list):
            holder = holder[int(step)] if step.isdecimal() and int(step) < len(holder) else None
        else:
            holder = holder.get(step) if isinstance(holder, dict) else None
    if isinstance(holder, list) and last.isdecimal() and int(last) < len(holder):
        holder[int(last)] = value
    elif isinstance(holder, dict):
        holder[last] = value
    else:
        return False
    return True
