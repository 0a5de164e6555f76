"""Base64 data inside a provider's objects -> output bodies, so that no event carries it inline.

The same picture is often on a line several times (a content block, the tool's raw result, an attachment's data URL); it
is stored once.
"""

from __future__ import annotations

import base64
from typing import Any

from tooltap.normalizers.core.writer import Writer
from tooltap.protocol.events import Attachment

_MIME_KEYS = ("mimeType", "media_type", "mediaType", "mime", "mime_type")
_BODY_KEYS = ("data", "blob", "base64", "url", "image_url")
_ANY_BODY_KEY = frozenset(_BODY_KEYS)
_UNKNOWN = "application/octet-stream"


class Bodies:
    """Takes the base64 data out of the objects of one line."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._kept: dict[str, Attachment] = {}

    @property
    def attachments(self) -> list[Attachment] | None:
        return list(self._kept.values()) or None

    def take(self, value: Any) -> Any:
        """The value with `outputId` in place of base64 data; the original where there is none."""
        return self._take(value) if _may_hold(value) else value

    def _take(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self._take(item) if isinstance(item, (dict, list)) else item for item in value]
        if not isinstance(value, dict):
            return value
        for key in () if _ANY_BODY_KEY.isdisjoint(value) else _BODY_KEYS:
            body = value.get(key)
            if isinstance(body, str) and (kept := self._take_body(key, body, value)) is not None:
                # Kimi 1.40 says `"id": null` beside it.
                rest = {name: item for name, item in value.items() if name != key and item is not None}
                return {**rest, "outputId": kept.output_id}
        return {key: self._take(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}

    def _take_body(self, key: str, body: str, owner: dict[str, Any]) -> Attachment | None:
        if body.startswith("data:"):
            head, _, body = body.partition(";base64,")
            return self._keep(body, head.removeprefix("data:")) if body else None
        if key in ("url", "image_url"):
            return None
        mime_type = next((owner[name] for name in _MIME_KEYS if isinstance(owner.get(name), str)), None)
        if mime_type is None and key == "base64":
            mime_type = owner.get("type")
        # Text lies under `data`, too: only a stated type makes it a body.
        return None if mime_type is None and key == "data" else self._keep(body, mime_type)

    def _keep(self, body: str, mime_type: Any) -> Attachment | None:
        if body in self._kept:
            return self._kept[body]
        try:
            data = base64.b64decode(body, validate=True)
        except ValueError:
            return None
        mime_type = mime_type if isinstance(mime_type, str) and "/" in mime_type else _UNKNOWN
        output_id = self._writer.put_output(data, mime_type)
        self._kept[body] = Attachment(mime_type=mime_type, output_id=output_id, bytes=len(data))
        return self._kept[body]


def _may_hold(value: Any) -> bool:
    """Whether an object in the value has a key under which base64 data may lie."""
    if type(value) is dict:
        if not _ANY_BODY_KEY.isdisjoint(value):
            return True
        for item in value.values():  # a loop without calls for the values that are no containers: most are none
            kind = type(item)
            if kind is not str and (kind is dict or kind is list) and _may_hold(item):
                return True
    elif type(value) is list:
        for item in value:
            if (type(item) is dict or type(item) is list) and _may_hold(item):
                return True
    return False


def take_bodies(writer: Writer, value: Any) -> tuple[Any, list[Attachment] | None]:
    """The value with `outputId` in place of base64 data, and the attachments that this data became."""
    if not _may_hold(value):
        return value, None
    bodies = Bodies(writer)
    return bodies.take(value), bodies.attachments
