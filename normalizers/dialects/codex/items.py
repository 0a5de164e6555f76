"""The objects inside Codex's lines: events, turn items and response items, and what to read from any of them.

`codex exec --json` and the app-server print the core's own turn items in other words: `command_execution` or
`commandExecution` for `CommandExecution`, keys in snake or camel case, texts under other keys. `core_item` translates
them into the core's words, and `as_event` a call's item into those of the older events, so that one set of readers
reads all of them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from tooltap.normalizers.core.lines import Line
from tooltap.normalizers.core.tokens import token_counts
from tooltap.normalizers.wire.values import first_string, record, whole

__all__ = [
    "CALL_ITEMS",
    "OWN",
    "as_event",
    "call_id_of",
    "core_item",
    "counts_of",
    "duration_of",
    "mode_of",
    "nonempty",
    "own_object",
    "raw_name_of",
    "snake",
    "snake_keys",
]

OWN = "<item>"
"""The key under which a translated object holds the provider's own."""

LONGEST_NAME = 64
"""How long a name that is cached may be. Codex's have 40 characters at most, and come with every line."""

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

CALL_ITEMS = {
    "CollabAgentToolCall": "collab_agent_tool_call",
    "CommandExecution": "exec_command",
    "DynamicToolCall": "dynamic_tool_call",
    "FileChange": "patch_apply",
    "ImageGeneration": "image_generation",
    "ImageView": "view_image",
    "McpToolCall": "mcp_tool_call",
    "WebSearch": "web_search",
}
"""Type of a turn item that is a call -> the older events, without `_begin` or `_end`."""

_COUNTS = ("input", "output", "cached_input", "cache_write_input", "reasoning_output")

_PART_TYPES = {"image": "image", "localImage": "local_image", "local_image": "local_image"}


# -- translations -------------------------------------------------------------------------------------------------


def snake(word: str) -> str:
    if word.islower():
        return word
    return _snake(word) if len(word) <= LONGEST_NAME else _snake.__wrapped__(word)


@lru_cache(1_024)
def _snake(word: str) -> str:
    return _HUMP.sub("_", word).lower()


def snake_keys(value: Any) -> Any:
    """An object of the app-server with the core's keys, at every depth."""
    if isinstance(value, list):
        return [snake_keys(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {snake(key): snake_keys(one) for key, one in value.items()}


def core_item(item: Line) -> Line:
    """A turn item in the core's words."""
    word = snake(first_string(item, "item_type", "type") or "")
    kind = _TYPES.get(word) or word.title().replace("_", "")
    core: Line = {_KEYS.get(name := snake(key), name): value for key, value in item.items()}
    if kind == "AgentMessage":
        core["content"] = [core.get("text")]
    elif kind == "Reasoning":
        core["summary_text"] = core.get("summary_text") or [core.get("text")]
        core["raw_content"] = core.get("content")
    elif kind == "UserMessage":
        core["content"] = [_part(part) for part in core["content"]] if isinstance(core.get("content"), list) else []
    return {**core, "type": kind, OWN: item}


def _part(part: Any) -> Any:
    kind = _PART_TYPES.get(str(part.get("type"))) if isinstance(part, dict) else None
    if kind is None:
        return part
    core = {**part, "type": kind}
    return {**core, "image_url": core.pop("url")} if "url" in core else core


def as_event(item: Line, phase: str) -> Line:
    """The turn item of a call as the older event of its `begin` or `end`: with `call_id`, and paths instead of URLs."""
    paths = {key: item[key].removeprefix("file://") for key in ("cwd", "path") if isinstance(item.get(key), str)}
    kind = f"{CALL_ITEMS[item['type']]}_{phase}"
    return {OWN: own_object(item), **item, **paths, "type": kind, "call_id": item.get("id")}


def own_object(value: Line) -> Any:
    """The provider's own object of one that may have been translated."""
    return value.get(OWN, value)


# -- reading any object -------------------------------------------------------------------------------------------


def call_id_of(value: Line) -> str:
    """The id of the call an object is about; `unknown` where the object has none."""
    return first_string(value, "call_id", "callId", "id") or "unknown"


def raw_name_of(value: Line, event_name: str) -> str:
    """A raw name for a tool that has none on the wire: the type of the item, or `event_name` in an event."""
    return first_string(record(value.get(OWN)), "type", "item_type") or event_name


def duration_of(value: Line) -> int | None:
    """Milliseconds: a number of them, or Rust's `Duration`, `{secs, nanos}`."""
    if (stated := whole(value.get("duration_ms"))) is not None:
        return stated
    duration = record(value.get("duration"))
    secs, nanos = whole(duration.get("secs")), whole(duration.get("nanos"))
    return None if secs is None or nanos is None else round(secs * 1000 + nanos / 1e6)


def nonempty(value: Line, *keys: str) -> Line:
    """The members under these keys, without null and what is empty."""
    return {key: value[key] for key in keys if value.get(key) not in (None, "", [], {})}


def mode_of(msg: Line) -> str | None:
    """How free the agent is: `<approval policy>/<sandbox>`, as far as they are stated."""
    policy, sandbox = msg.get("approval_policy"), msg.get("sandbox_policy")
    policy = next(iter(policy), None) if isinstance(policy, dict) else policy
    sandbox = sandbox.get("type") if isinstance(sandbox, dict) else sandbox
    return "/".join(word for word in (policy, sandbox) if isinstance(word, str)) or None


def counts_of(usage: Line) -> dict[str, int | None]:
    return token_counts(*(usage.get(f"{name}_tokens") for name in _COUNTS))
