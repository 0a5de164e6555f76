"""Base64 bodies in provider objects -> outputs kept aside, so that no event carries one inline."""

from __future__ import annotations

import base64
import binascii
import re
from typing import TYPE_CHECKING, Any

from tooltap.protocol.events import Attachment

if TYPE_CHECKING:
    from tooltap.normalizers.base import Parser

__all__ = ["Bodies"]

_DATA_URL = re.compile(r"data:(?P<type>[\w.+-]+/[\w.+-]+)(?:;[\w=.+-]+)*;base64,(?P<body>[A-Za-z0-9+/=\s]*)\Z")
_BODY_KEYS = ("data", "blob")
_TYPE_KEYS = ("mimeType", "mime_type", "media_type")


class Bodies:
    """Takes the bodies out of one object; a body found twice is kept once."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._kept: dict[str, Attachment] = {}

    @property
    def attachments(self) -> list[Attachment] | None:
        return list(self._kept.values()) or None

    def take(self, value: Any) -> Any:
        """The value with `outputId` where a body was."""
        if isinstance(value, list):
            return [self.take(item) for item in value]
        if not isinstance(value, dict):
            return value
        mime_type = next((value[key] for key in _TYPE_KEYS if isinstance(value.get(key), str)), None)
        taken: dict[str, Any] = {}
        for key, item in value.items():
            url = _DATA_URL.match(item) if isinstance(item, str) and item.startswith("data:") else None
            if url is not None:
                kept = self.keep(url["body"], url["type"])
            elif key in _BODY_KEYS and isinstance(item, str) and mime_type is not None:
                kept = self.keep(item, mime_type)
            else:
                kept = None
            if kept is None:
                taken[key] = self.take(item)
            else:
                taken["outputId"] = kept.output_id
        return taken

    def keep(self, body: str, mime_type: str) -> Attachment | None:
        """Put a base64 body aside; None if it is none."""
        if body in self._kept:
            return self._kept[body]
        try:
            data = base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError):
            return None
        output_id = self._parser.put_output(data, mime_type)
        self._kept[body] = Attachment(mime_type=mime_type, output_id=output_id, bytes=len(data))
        return self._kept[body]
