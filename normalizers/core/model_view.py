"""Model view of a result: what the model saw, byte for byte, beside the normalized output.

Most of a result's text is also in the output. Therefore a text is stored as parts: pointers into the event, and the
text in between. Each pointer was checked to give the same code points when it was made. If too much text is left, an
output body holds the whole of it.

Outputs have few long strings or many short ones: each search is linear in the text, and the number of searches is
bounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from tooltap.normalizers.core.writer import Writer
from tooltap.protocol.events import LineNumbers, ModelView, OutputRef, ViewBlock, ViewPart
from tooltap.protocol.model_view import numbered

SHOWN_STRINGS = 16
"""Maximum number of output strings to search for in the text, longest first."""
SHORTEST = 12
"""Minimum length of a string to search for, in code points; shorter ones count only if they are the whole text."""
HEAD = 48
"""Length of a string's prefix to search for, in code points, in case the model saw only the beginning of the string."""
TELLING = 64
"""Length from which a string counts as shown to a reader, in code points."""
EXCERPT = 200
"""Length of the excerpt in the event if an output body holds the whole text, in code points."""
_SHORT = 4
"""Divisor of the inline limit: shorter texts are kept whole, because their parts would be as long."""
_MARK = 4
"""Maximum length of the separator between a line number and the line."""
_HEADING = 4
"""Number of leading lines searched for the first numbered one; an agent's heading may precede it."""


class _Shown(NamedTuple):
    pointer: str
    text: str


def model_view(writer: Writer, value: Any, output: dict[str, Any]) -> tuple[ModelView, dict[str, OutputRef] | None]:
    """The view, and the references to the bodies that hold its long texts.

    `value`: a text, or a list of content blocks; `output`: the canonical payload of the result."""
    longest = sorted(_strings(output, "/output"), key=lambda one: -len(one[2]))[:SHOWN_STRINGS]
    shown = [_Shown(f"{path}/{escaped(key)}", text) for path, key, text in longest]
    blocks: list[ViewBlock] = []
    refs: dict[str, OutputRef] = {}
    used: set[str] = set()
    differs = False
    for one in _blocks_of(value, writer.context.limits.view_blocks):
        text = _text_of(one)
        if text is None:
            blocks.append(_body_block(one))
            continue
        if text == "" and not isinstance(value, list):
            continue
        kind = one.get("type") if isinstance(one, dict) else "text"
        block, differ = _text_block(writer, text, shown, used, refs, len(blocks))
        if kind != "text":
            block.type = str(kind)
        blocks.append(block)
        differs = differs or differ
    differs = differs or any(one.pointer not in used and _tells(one, blocks) for one in shown)
    return ModelView(blocks=blocks, differs=differs), refs or None


def _blocks_of(value: Any, limit: int) -> list[Any]:
    """Content blocks; those beyond `limit` are merged into one text, their JSON."""
    if not isinstance(value, list):
        return [value]
    if len(value) <= limit:
        return value
    rest = msgspec.json.encode(value[limit - 1 :]).decode()
    return [*value[: limit - 1], rest]


def _tells(one: _Shown, blocks: list[ViewBlock]) -> bool:
    """Return whether an output string that is not in the view counts as something that only the user sees."""
    return len(one.text) >= TELLING or (not blocks and bool(one.text.strip()))


def _text_of(block: Any) -> str | None:
    """The text of a content block; None for one that has a stored body or an address instead."""
    if isinstance(block, str):
        return block
    if isinstance(block, dict):
        text = block.get("text")
        if isinstance(text, str) and block.get("type") in (None, "text", "input_text", "output_text"):
            return text
        if _stored(block) is not None:
            return None
    return msgspec.json.encode(block).decode()


def _stored(block: dict[str, Any]) -> dict[str, Any] | None:
    """The part of a content block that names a body or an address."""
    for one in (block, block.get("source"), block.get("resource"), block.get("image_url"), block.get("imageUrl")):
        if isinstance(one, dict) and any(isinstance(one.get(key), str) for key in ("outputId", "url", "image_url")):
            return one
    return None


def _body_block(block: dict[str, Any]) -> ViewBlock:
    stored = _stored(block) or {}
    mime = next((one[key] for one in (stored, block) for key in ("mimeType", "media_type") if key in one), None)
    uri = stored.get("url", stored.get("image_url"))
    return ViewBlock(
        type=str(block.get("type", "data")),
        output_id=stored.get("outputId"),
        uri=uri if isinstance(uri, str) and "outputId" not in stored else None,
        mime_type=mime if isinstance(mime, str) else None,
    )


def _text_block(
    writer: Writer, text: str, shown: list[_Shown], used: set[str], refs: dict[str, OutputRef], index: int
) -> tuple[ViewBlock, bool]:
    for one in shown:
        if one.text == text:
            used.update(other.pointer for other in shown if len(other.text) >= TELLING and other.text in text)
            used.add(one.pointer)
            return ViewBlock(parts=[ViewPart(at=one.pointer)]), False
    parts: list[str | ViewPart] = [text]
    for one in shown:
        if len(one.text) < SHORTEST:
            break
        for place, part in enumerate(parts):
            if isinstance(part, str) and (found := _find(one, part)) is not None:
                used.add(one.pointer)
                parts[place : place + 1] = [piece for piece in found if piece != ""]
                break
    rest = [part for part in parts if isinstance(part, str)]
    differs = any(not part.isspace() for part in rest)
    limit = writer.context.limits.view_bytes
    if len(text) <= limit // _SHORT or (len(rest) == len(parts) and len(text.encode()) <= limit):
        return ViewBlock(text=text), differs
    if sum(len(part.encode()) for part in rest) <= limit and len(rest) < len(parts):
        return ViewBlock(parts=parts), differs
    data = text.encode()
    refs[f"/modelView/blocks/{index}/text"] = OutputRef(
        output_id=writer.put_output(data, "text/plain"),
        bytes=len(data),
        lines=data.count(b"\n") + (not data.endswith(b"\n")),
        mime_type="text/plain",
    )
    return ViewBlock(text=text[:EXCERPT]), differs


def _find(one: _Shown, text: str) -> list[str | ViewPart] | None:
    """Split the text around a pointer to the shown string, or to its beginning; None if the text has neither."""
    wanted = one.text
    at = text.find(wanted)
    if at >= 0:
        return [text[:at], ViewPart(at=one.pointer), text[at + len(wanted) :]]
    numbers = _numbers_of(wanted, text)
    if numbers is not None:
        whole = numbered(wanted, numbers)
        at = text.find(whole)
        if at >= 0:
            return [text[:at], ViewPart(at=one.pointer, numbers=numbers), text[at + len(whole) :]]
    at = text.find(wanted[:HEAD])
    if at < 0:
        return None
    length = _common(wanted, text[at:])
    if length < min(len(wanted) // 2, TELLING):
        return None
    return [text[:at], ViewPart(at=one.pointer, length=length), text[at + length :]]


def _numbers_of(wanted: str, text: str) -> LineNumbers | None:
    """The format of the line numbers that the text has and the string lacks, judged by the first line."""
    first_line = wanted.split("\n", 1)[0]
    at = 0
    for _ in range(_HEADING):
        end = text.find("\n", at)
        line = text[at:] if end < 0 else text[at:end]
        if line.endswith(first_line):
            number = line[: len(line) - len(first_line)]
            digits = number.lstrip(" ")
            count = next((i for i, char in enumerate(digits) if char not in "0123456789"), len(digits))
            mark = digits[count:]
            if 0 < count < 12 and len(mark) <= _MARK:
                width = len(number) - len(mark)
                pad = "0" if digits[0] == "0" and count > 1 else " "
                return LineNumbers(
                    first=int(digits[:count]), mark=mark, width=width if width > count or pad == "0" else 0, pad=pad
                )
        if end < 0:
            break
        at = end + 1
    return None


def _common(left: str, right: str) -> int:
    """Length of the common prefix of two strings."""
    low, high = 0, min(len(left), len(right))
    while low < high:
        middle = (low + high + 1) // 2
        if left[low:middle] == right[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _strings(value: Any, pointer: str) -> Iterator[tuple[str, object, str]]:
    """Yield the non-empty strings of an output as (pointer to the container, key, string). Containers nested deeper
    than in any payload are not searched."""
    pending = [(value, pointer, 0)]
    while pending:
        holder, path, depth = pending.pop()
        for key, item in holder.items() if isinstance(holder, dict) else enumerate(holder):
            if type(item) is str:
                if item:
                    yield path, key, item
            elif isinstance(item, dict | list) and depth < 4:
                pending.append((item, f"{path}/{escaped(key)}", depth + 1))


def escaped(key: object) -> str:
    """A key or an index as a step of a JSON pointer."""
    return str(key).replace("~", "~0").replace("/", "~1")
