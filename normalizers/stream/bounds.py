"""Keeps an event within bounds: long strings are truncated, and an output body holds the whole.

An id or a name that is too long is cut and ends with a digest, so that it is the same in every event.

Nearly every event is short enough. Only one whose encoded form exceeds the limit of a single string is inspected.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

import msgspec

from tooltap.normalizers.core.items import Item, Limits, OutputChunk, Produced
from tooltap.normalizers.core.model_view import escaped
from tooltap.protocol.events import AnyEvent, OutputRef

_HEAD_WHEN_CROWDED = 1_024
"""Bytes that remain of a value moved to an output body because the event as a whole is too large."""
_LONGEST_NAME = 4_096
"""Maximum length of an id or name, in bytes, unless `string_bytes` is larger."""
_NAME_HEAD = 1_000
_NAMES = ("session", "callId", "name")
_RAW_NAMES = ("rawToolName", "canonicalToolName")
_SHAPED = frozenset({"modelView", "display"})
"""Fields that the schema defines as objects: no text may replace them, and apart from their strings they are small."""
_FIXED_KEYS = frozenset(
    {"id", "stream", "session", "kind", "callId", "name", "_happy", "outputs", "attachments", "assistantView"}
)


def bound(event: Produced, limits: Limits, new_output_id: Callable[[], str]) -> tuple[Produced, list[OutputChunk]]:
    """The event within `limits`, and the output bodies made of what was truncated."""
    if len(event.body) <= limits.string_bytes:
        return event, []
    cutter = _Cutter(msgspec.json.decode(event.body), new_output_id)
    is_renamed = cutter.cut_names(max(limits.string_bytes, _LONGEST_NAME))
    cutter.cut_strings(limits.string_bytes)
    cut = cutter.move_out(limits.event_bytes)
    if len(cut) > limits.event_bytes:
        cut = cutter.move_objects_out(limits.event_bytes)
    if not cutter.chunks and not is_renamed:
        return event, []
    return Produced.of(msgspec.convert(cutter.event, AnyEvent), cut), cutter.chunks


def bounded(items: Sequence[Item], limits: Limits, new_output_id: Callable[[], str]) -> list[Item]:
    """The items of a line within `limits`, each with its output bodies before it."""
    outputs: list[Item] = []
    for item in items:
        if isinstance(item, Produced):
            # Output bodies of a partial must not use up the ids of the line.
            item, chunks = bound(item, limits, _ids_in(item.id) if item.partial else new_output_id)
            outputs += chunks
        outputs.append(item)
    return outputs


def _ids_in(event_id: str) -> Callable[[], str]:
    numbers = count()
    return lambda: f"{event_id}:o{next(numbers)}"


class _Cutter:
    def __init__(self, event: dict[str, Any], new_output_id: Callable[[], str]) -> None:
        self.event = event
        self.chunks: list[OutputChunk] = []
        self._new_output_id = new_output_id
        self._kept: dict[bytes, OutputRef] = {}
        """Output bodies of this event, by content: equal values share one."""

    def cut_names(self, limit: int) -> bool:
        """Cut ids and names longer than `limit` bytes. Returns whether there were any."""
        payloads = (self.event.get(key) for key in ("input", "output"))
        happy = (one.get("_happy") for one in payloads if isinstance(one, dict))
        places = [(self.event, _NAMES), *((one, _RAW_NAMES) for one in happy if isinstance(one, dict))]
        is_any = False
        for holder, keys in places:
            for key in keys:
                name = holder.get(key)
                if isinstance(name, str) and len(name) > limit // 4 and len(data := name.encode()) > limit:
                    from hashlib import sha256  # hardly ever needed, and no command should wait for it

                    holder[key] = f"{name[:_NAME_HEAD]}…{sha256(data).hexdigest()[:16]}"
                    is_any = True
        return is_any

    def cut_strings(self, limit: int) -> None:
        for pointer, container, key, value in list(_strings(self.event, limit // 4)):
            if len(data := value.encode()) > limit:
                self._move(pointer, container, key, data, limit, "text/plain")

    def move_out(self, limit: int) -> bytes:
        """Move the largest values to output bodies until the event fits; returns the encoded event.

        Many values may have to go, so the event is encoded again only once the estimated size fits."""
        body = msgspec.json.encode(self.event)
        if len(body) <= limit:
            return body
        movable = [one for one in _movable(self.event) if len(one[3]) > 2 * _HEAD_WHEN_CROWDED]
        movable.sort(key=lambda one: -len(one[3]))
        size = len(body)
        for pointer, container, key, data, mime in movable:
            before = _encoded_size(container, key)
            known = len(self._outputs)
            self._move(pointer, container, key, data, _HEAD_WHEN_CROWDED, mime)
            if container is self.event and mime == "application/json":
                container[key] = []  # a list by the schema: the beginning of its text is none
            size += _encoded_size(container, key) - before
            if len(self._outputs) > known:
                size += _encoded_size(self._outputs, pointer) + len(pointer)
            if size <= limit and len(body := msgspec.json.encode(self.event)) <= limit:
                return body
        return msgspec.json.encode(self.event)

    @property
    def _outputs(self) -> dict[str, Any]:
        outputs: dict[str, Any] = self.event.get("outputs") or {}
        return outputs

    def move_objects_out(self, limit: int) -> bytes:
        """Move whole objects to output bodies: those that are large although none of their members is, such as a
        million keys."""
        objects = [
            name for name, one in self.event.items() if isinstance(one, dict) and name not in _FIXED_KEYS | _SHAPED
        ]
        for name in sorted(objects, key=lambda name: -len(self.event[name])):
            members = self.event[name]
            self._move(f"/{escaped(name)}", self.event, name, msgspec.json.encode(members), 0, "application/json")
            self.event[name] = {key: members[key] for key in _FIXED_KEYS & members.keys()}
            if len(body := msgspec.json.encode(self.event)) <= limit:
                return body
        return msgspec.json.encode(self.event)

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
    """Yield (pointer, container, key, string) of every string longer than `length` that may be cut, in document
    order."""
    levels = [(pointer, value, _pairs(value))]
    while levels:
        pointer, holder, pairs = levels[-1]
        for key, item in pairs:
            if key in _FIXED_KEYS and isinstance(key, str):
                continue
            if isinstance(item, str) and len(item) > length:
                yield f"{pointer}/{escaped(key)}", holder, key, item
            elif isinstance(item, dict | list):
                below = f"{pointer}/{escaped(key)}"
                levels.append((below, item, _pairs(item)))
                break
        else:
            levels.pop()


def _pairs(value: dict[str, Any] | list[Any]) -> Iterator[tuple[Any, Any]]:
    return iter(list(value.items())) if isinstance(value, dict) else iter(list(enumerate(value)))


def _movable(event: dict[str, Any]) -> Iterator[tuple[str, Any, Any, bytes, str]]:
    """Yield the values that may be moved to output bodies: members of the event's objects, and its own strings and
    lists, as (pointer, container, key, encoded value, MIME type)."""
    for name, value in event.items():
        if name in _FIXED_KEYS or name == "modelView":
            continue
        if isinstance(value, dict):
            for key, item in value.items():
                if key not in _FIXED_KEYS:
                    yield f"/{escaped(name)}/{escaped(key)}", value, key, *_body(item)
        else:
            yield f"/{escaped(name)}", event, name, *_body(value)


def _encoded_size(container: Any, key: Any) -> int:
    return len(msgspec.json.encode(container[key])) if key in container else 0


def _body(value: Any) -> tuple[bytes, str]:
    if isinstance(value, str):
        return value.encode(), "text/plain"
    return msgspec.json.encode(value), "application/json"
