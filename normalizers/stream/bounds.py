"""Keeps an event within bounds: long strings are truncated, and an output body holds the whole.

Nearly every event is short enough. Only one whose encoded form exceeds the limit of a single string is inspected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tooltap.normalizers.core.items import Limits, OutputChunk, Produced
from tooltap.protocol.events import AnyEvent, OutputRef

__all__ = ["bound"]

_HEAD_WHEN_CROWDED = 1_024
"""Bytes that remain of a value moved to an output body because the event as a whole is too large."""
_FIXED_KEYS = frozenset({"id", "stream", "session", "kind", "callId", "name", "_happy", "outputs", "attachments"})


def bound(event: Produced, limits: Limits, new_output_id: Callable[[], str]) -> tuple[Produced, list[OutputChunk]]:
    """The event within `limits`, and the output bodies made of what was truncated."""
    if len(event.body) <= limits.string_bytes:
        return event, []
    cutter = _Cutter(msgspec.json.decode(event.body), new_output_id)
    cutter.cut_strings(limits.string_bytes)
    cut = cutter.move_out(limits.event_bytes)
    if not cutter.chunks:
        return event, []
    return Produced.of(msgspec.convert(cutter.event, AnyEvent), cut), cutter.chunks


class _Cutter:
    def __init__(self, event: dict[str, Any], new_output_id: Callable[[], str]) -> None:
        self.event = event
        self.chunks: list[OutputChunk] = []
        self._new_output_id = new_output_id
        self._kept: dict[bytes, OutputRef] = {}
        """By what is in them."""

    def cut_strings(self, limit: int) -> None:
        for pointer, container, key, value in list(_strings(self.event, limit // 4)):
            if len(data := value.encode()) > limit:
                self._move(pointer, container, key, data, limit, "text/plain")

    def move_out(self, limit: int) -> bytes:
        """Move the largest values out until the event is small enough; returns it encoded."""
        while len(body := msgspec.json.encode(self.event)) > limit:
            sizes = [
                (len(data), pointer, container, key, data, mime)
                for pointer, container, key, data, mime in _movable(self.event)
                if len(data) > 2 * _HEAD_WHEN_CROWDED
            ]
            if not sizes:
                return body
            _, pointer, container, key, data, mime = max(sizes, key=lambda one: one[0])
            self._move(pointer, container, key, data, _HEAD_WHEN_CROWDED, mime)
            if container is self.event and mime == "application/json":
                container[key] = []  # a list by the schema: the beginning of its text is none
        return body

    def _move(self, pointer: str, container: Any, key: Any, data: bytes, keep: int, mime_type: str) -> None:
        if pointer == "/display/text" and data in self._kept:  # the whole of what the model was given a part of
            container["outputId"], container["mimeType"] = self._kept[data].output_id, self._kept[data].mime_type
            del container[key]
            return
        outputs = self.event.setdefault("outputs", {})
        container[key] = data[:keep].decode("utf-8", "ignore")
        if pointer in outputs:  # cut before: the body is already kept
            return
        output_id = self._new_output_id()
        self.chunks.append(OutputChunk(output_id, 0, data, mime_type))
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        ref = self._kept[data] = OutputRef(output_id=output_id, bytes=len(data), lines=lines, mime_type=mime_type)
        outputs[pointer] = msgspec.to_builtins(ref)


def _strings(value: Any, length: int, pointer: str = "") -> Iterator[tuple[str, Any, Any, str]]:
    """(pointer, container, key, string) of every longer string that may be cut. Depth is bounded by the line's."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in pairs:
        if key in _FIXED_KEYS and isinstance(key, str):
            continue
        if isinstance(item, str) and len(item) > length:
            yield f"{pointer}/{_escape(key)}", value, key, item
        elif isinstance(item, dict | list):
            yield from _strings(item, length, f"{pointer}/{_escape(key)}")


def _movable(event: dict[str, Any]) -> Iterator[tuple[str, Any, Any, bytes, str]]:
    """Members of the event's objects, and its own strings and lists, with their size."""
    for name, value in event.items():
        if name in _FIXED_KEYS:
            continue
        if isinstance(value, dict):
            for key, item in value.items():
                if key not in _FIXED_KEYS:
                    yield f"/{_escape(name)}/{_escape(key)}", value, key, *_body(item)
        else:
            yield f"/{_escape(name)}", event, name, *_body(value)


def _body(value: Any) -> tuple[bytes, str]:
    if isinstance(value, str):
        return value.encode(), "text/plain"
    return msgspec.json.encode(value), "application/json"


def _escape(key: object) -> str:
    return str(key).replace("~", "~0").replace("/", "~1")
