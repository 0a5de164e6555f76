"""Thread items: what a turn is made of, as `codex exec --json` and the app-server tell it.

They are the core's own turn items in other words: `command_execution` or `commandExecution` for `CommandExecution`,
keys in snake or camel case, texts under other keys. Here they are put into the core's, so that one set of readers reads
all.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from tooltap.normalizers.dialects.codex.state import ITEM, Msg, text_of

__all__ = ["core_item", "snake", "snake_keys"]

NAMES = 1_024
"""Names whose form is remembered, …"""
LONGEST_NAME = 64
"""… and how long they may be. Codex's have 40 characters at most, and come with every line."""

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_TYPES = {
    "assistant_message": "AgentMessage",  # to 0.44, under the key `item_type`
    "collab_tool_call": "CollabAgentToolCall",
    "tool_call": "DynamicToolCall",
}
"""Type in snake case -> the core's, where that is another word."""

_KEYS = {
    "command_actions": "parsed_cmd",
    "output": "aggregated_output",
    "summary": "summary_text",
    "name": "tool",
}
"""Key in snake case -> the core's."""

_PART_TYPES = {"image": "image", "localImage": "local_image", "local_image": "local_image"}


def snake(word: str) -> str:
    if word.islower():
        return word
    return _snake_name(word) if len(word) <= LONGEST_NAME else _snake(word)


def _snake(word: str) -> str:
    return _HUMP.sub("_", word).lower()


_snake_name = lru_cache(NAMES)(_snake)


def snake_keys(value: Any) -> Any:
    """An object of the app-server's with the core's keys, all the way down."""
    if isinstance(value, list):
        return [snake_keys(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {snake(key): snake_keys(one) for key, one in value.items()}


def core_item(item: Msg) -> Msg:
    """The item as the core would tell it; the item itself is kept under `ITEM`."""
    word = snake(text_of(item, "item_type", "type") or "")
    kind = _TYPES.get(word) or word.title().replace("_", "")
    keys = map(snake, item)
    core: Msg = {_KEYS.get(key, key): value for key, value in zip(keys, item.values(), strict=True)}
    if kind == "AgentMessage":
        core["content"] = [core.get("text")]
    elif kind == "Reasoning":
        core["summary_text"] = core.get("summary_text") or [core.get("text")]
        core["raw_content"] = core.get("content")
    elif kind == "UserMessage":
        core["content"] = [_part(part) for part in core["content"]] if isinstance(core.get("content"), list) else []
    return {**core, "type": kind, ITEM: item}


def _part(part: Any) -> Any:
    kind = _PART_TYPES.get(str(part.get("type"))) if isinstance(part, dict) else None
    if kind is None:
        return part
    core = {**part, "type": kind}
    return {**core, "image_url": core.pop("url")} if "url" in core else core
