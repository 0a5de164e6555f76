"""Reconstructs what the model saw of a result, from the event and the output bodies to which it refers.

`modelView` of a tool-result refers to strings of the same event, so that nothing is stored twice
(`events.ModelView`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from tooltap.protocol.events import LineNumbers

__all__ = ["bodies_of", "model_blocks", "model_text", "numbered"]


def numbered(text: str, numbers: LineNumbers | Mapping[str, Any]) -> str:
    """Prefix each line of the text with its number; an empty last line after a final newline gets none."""
    if not isinstance(numbers, LineNumbers):
        numbers = LineNumbers(**{key: numbers[key] for key in ("first", "mark", "width", "pad") if key in numbers})
    first, mark, width, pad = numbers.first, numbers.mark, numbers.width, numbers.pad
    lines = text.split("\n")
    last = lines.pop() if text.endswith("\n") else None
    counted = [f"{str(first + index).rjust(width, pad)}{mark}{line}" for index, line in enumerate(lines)]
    return "\n".join(counted) + ("" if last is None else "\n")


def bodies_of(event: Mapping[str, Any]) -> list[str]:
    """Ids of the output bodies that are needed for the texts of the model view."""
    needed: dict[str, None] = {}
    outputs = event.get("outputs") or {}
    for pointer in _pointers(event):
        steps = pointer.split("/")
        for end in range(2, len(steps) + 1):
            if (cut := outputs.get("/".join(steps[:end]))) is not None:
                needed[cut["outputId"]] = None
    return list(needed)


def model_blocks(
    event: Mapping[str, Any], read: Callable[[str], bytes | None], *, numbers: bool = True
) -> list[dict[str, Any]] | None:
    """The content blocks that the model saw, each with its whole `text`, or with `outputId` or `uri`.

    `event`: a decoded tool-result; `read` returns an output body, or None if it no longer exists: then the block has
    the remaining text, and `incomplete` is set. Without `numbers`, the line numbers that an agent adds are left out, so
    that the text can be compared with the file. Returns None if the stream does not state what the model saw."""
    view = event.get("modelView")
    if not isinstance(view, Mapping):
        return None
    return [_whole(event, index, block, read, numbers) for index, block in enumerate(view["blocks"])]


def model_text(event: Mapping[str, Any], read: Callable[[str], bytes | None], *, numbers: bool = True) -> str | None:
    """The concatenated texts of the blocks; None if the stream does not state what the model saw."""
    blocks = model_blocks(event, read, numbers=numbers)
    return None if blocks is None else "".join(block.get("text", "") for block in blocks)


def _whole(
    event: Mapping[str, Any],
    index: int,
    block: Mapping[str, Any],
    read: Callable[[str], bytes | None],
    with_numbers: bool,
) -> dict[str, Any]:
    whole = {"type": "text", **block}
    parts = whole.pop("parts", None)
    if parts is None and "text" not in whole:
        return whole
    texts: list[str] = []
    whole_text: list[Any] = [{"at": f"/modelView/blocks/{index}/text"}]
    for part in whole_text if parts is None else parts:
        if isinstance(part, str):
            texts.append(part)
            continue
        place: Mapping[str, Any] = part
        text, complete = _string(event, place["at"], read)
        if not complete:
            whole["incomplete"] = True
        if with_numbers and "numbers" in place:
            text = numbered(text, place["numbers"])
        texts.append(text[: place.get("length")])
    whole["text"] = "".join(texts)
    return whole


def _string(event: Mapping[str, Any], pointer: str, read: Callable[[str], bytes | None]) -> tuple[str, bool]:
    """Resolve a JSON pointer to a string, reading it from an output body if it was cut. Returns it, and whether it is
    complete."""
    outputs = event.get("outputs") or {}
    value: Any = event
    complete, path = True, ""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list):
            value = value[int(key)] if key.isdigit() and int(key) < len(value) else None
        else:
            value = value.get(key) if isinstance(value, Mapping) else None
        path = f"{path}/{step}"
        if path in outputs:  # the string, or the object around it, was cut here
            data = read(outputs[path]["outputId"])
            if data is None:
                complete = False
            elif outputs[path]["mimeType"] == "application/json" and path != pointer:
                value = msgspec.json.decode(data)
            else:
                value = data.decode("utf-8", "replace")
    return (value if isinstance(value, str) else ""), complete and isinstance(value, str)


def _pointers(event: Mapping[str, Any]) -> Iterator[str]:
    view = event.get("modelView")
    for index, block in enumerate(view["blocks"] if isinstance(view, Mapping) else ()):
        yield f"/modelView/blocks/{index}/text"
        for part in block.get("parts") or ():
            if not isinstance(part, str):
                yield part["at"]
