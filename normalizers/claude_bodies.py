"""Base64 bodies in Claude's messages and results -> outputs kept aside, so that no event carries one inline.

The same picture comes up to twice on a line (in the `tool_result` block and in `tool_use_result`); it is kept once.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any

from tooltap.normalizers.base import Parser
from tooltap.protocol.events import Attachment

__all__ = ["Bodies"]


class Bodies:
    """Takes the bodies out of the objects of one block."""

    def __init__(self, parser: Parser) -> None:
        self._parser = parser
        self._kept: dict[str, Attachment] = {}

    @property
    def attachments(self) -> list[Attachment] | None:
        return list(self._kept.values()) or None

    def take(self, value: Any) -> Any:
        """The value with `outputId` where a body was; shared with the original where there is none."""
        if isinstance(value, list):
            return [self.take(item) for item in value]
        if not isinstance(value, dict):
            return value
        for key, mime_type in (("data", value.get("media_type")), ("base64", value.get("type"))):
            body = value.get(key)
            if isinstance(body, str) and (kept := self._keep(body, mime_type)) is not None:
                rest = {name: item for name, item in value.items() if name != key}
                return {**rest, "outputId": kept.output_id}
        return {key: self.take(item) for key, item in value.items()}

    def _keep(self, body: str, mime_type: Any) -> Attachment | None:
        if body in self._kept:
            return self._kept[body]
        try:
            data = base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError):
            return None
        mime_type = mime_type if isinstance(mime_type, str) and "/" in mime_type else "application/octet-stream"
        output_id = self._parser.put_output(data, mime_type)
        self._kept[body] = Attachment(mime_type=mime_type, output_id=output_id, bytes=len(data))
        return self._kept[body]
