"""Requests of the Responses API: which of the items they carry are new.

A request repeats the conversation, unless it names the response it continues.
"""

from __future__ import annotations

import zlib
from typing import Any

import msgspec

from tooltap.normalizers.dialects.openai.responses_items import is_answer

__all__ = ["PromptsState", "first_new", "new_prompts"]

_CLIENT_ROLES = ("user", "system", "developer")


class PromptsState(msgspec.Struct):
    """The user's messages of the last request."""

    count: int = 0
    crc: int = 0


def first_new(items: list[dict[str, Any]]) -> int:
    """Index of the first item since the model's last."""
    for index in range(len(items) - 1, -1, -1):
        item = items[index]
        if not (is_answer(item) or item.get("role") in _CLIENT_ROLES or item.get("type") == "mcp_approval_response"):
            return index + 1
    return 0


def new_prompts(items: list[dict[str, Any]], new: int, known: PromptsState, *, continues: bool) -> list[dict[str, Any]]:
    """The user's messages that the last request did not hold, which is told to `known`; `new`: see `first_new`.

    Where its messages do not begin this request, those since the model's last item are new."""
    prompts = [(index, item) for index, item in enumerate(items) if item.get("role") == "user"]
    crc, repeated = 0, 0
    for count, (_, item) in enumerate(prompts, 1):
        crc = zlib.crc32(msgspec.json.encode(item.get("content")), crc)
        if (count, crc) == (known.count, known.crc) and not continues:
            repeated = count
    known.count, known.crc = len(prompts), crc
    if repeated:
        return [item for _, item in prompts[repeated:]]
    return [item for index, item in prompts if index >= new]
