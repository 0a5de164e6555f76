"""Functions that the tool families share: reading payloads, aliases of keys, text of content blocks, errors, views.

Canonical keys are added next to the provider's own keys, and unknown keys are retained. A key is removed only if a
canonical key holds its whole value, such as text under `content`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from typing import Any, TypeAlias, TypeGuard

import msgspec

from tooltap.normalizers.wire.decode import decode_text
from tooltap.normalizers.wire.values import record
from tooltap.protocol.events import Display

Payload: TypeAlias = dict[str, Any]

_NUMBER = re.compile(r"-?\d{1,15}", re.ASCII)

# -- reading payloads -------------------------------------------------------------------------------------------------


TEXT_KEYS = ("text", "output", "result", "stdout", "aggregated_output", "formatted_output", "value", "body")
"""Keys under which providers put the text of a result, besides `content`."""


def keys_and_text(value: Any, other_keys: Iterable[str] = ()) -> tuple[Payload, str | None]:
    """Return the keys of a result and its text: `content`, else the first of `other_keys` that is a string.

    Text under `content` is removed, because the caller puts it under the tool's own key. Blocks that are not text stay.
    """
    if isinstance(value, str):
        return {}, value
    if isinstance(value, list):
        text, rest = _text_and_rest(value)
        if text is None:
            return {"value": value}, None
        return ({"content": rest} if rest else {}), text
    if not isinstance(value, dict):
        return {"value": value}, None
    payload = value.copy()
    if "content" in payload:
        content = payload["content"]
        text, rest = _text_and_rest(content) if isinstance(content, list) else (content, [])
        if isinstance(text, str):
            del payload["content"]
            if rest:
                payload["content"] = rest
            return payload, text
    for key in other_keys:
        if key in payload and isinstance(text := payload[key], str):
            return payload, text
    return payload, None


def blocks_text(content: Any) -> str | None:
    """The text of a string, or of a list of content blocks joined by newlines; None if there is none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    return _text_and_rest(content)[0]


def _text_and_rest(content: list[Any]) -> tuple[str | None, list[Any]]:
    """Split a list of content blocks: (their text, the blocks without text)."""
    texts, rest = [], []
    for block in content:
        text = _block_text(block)
        if text is None:
            rest.append(block)
        else:
            texts.append(text)
    return "\n".join(texts) if texts else None, rest


def _block_text(block: Any) -> str | None:
    if not isinstance(block, dict):
        return None
    text = block.get("text")
    if text is None and isinstance(block.get("content"), dict):  # ACP: {type: content, content: {type: text, …}}
        text = block["content"].get("text")
    return text if isinstance(text, str) else None


def decode_json(value: Any) -> Any:
    """Decode a string that is a JSON object or array; return anything else unchanged."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return decode_text(value)
    except ValueError:
        return value


# -- reading values -----------------------------------------------------------------------------------------------


def nonblank(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and value != "" and not value.isspace()


def first_text(payload: Payload, keys: Iterable[str]) -> str | None:
    """The first value under `keys` that is a non-blank string, unstripped."""
    for key in keys:
        if key in payload:
            value = payload[key]
            if isinstance(value, str) and value and not value.isspace():
                return value
    return None


def strings(value: Any) -> list[str]:
    """The non-blank strings of a list; empty if the value is not a list."""
    return [item for item in value if nonblank(item)] if isinstance(value, list) else []


def objects(value: Any) -> list[Payload]:
    """The objects of a list; empty if the value is not a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# -- adding canonical keys ----------------------------------------------------------------------------------------


def add_text(payload: Payload, key: str, *aliases: str) -> None:
    """Set `key` to the first non-blank text under `key` or an alias."""
    found = payload.get(key)
    if isinstance(found, str) and found and not found.isspace():
        return
    for name in aliases:
        if name in payload:
            found = payload[name]
            if isinstance(found, str) and found and not found.isspace():
                payload[key] = found
                return


def add_alias(payload: Payload, key: str, *aliases: str) -> None:
    """Set `key` to the first string under `key` or an alias, even an empty one."""
    if isinstance(payload.get(key), str):
        return
    for name in aliases:
        if name in payload and isinstance(value := payload[name], str):
            payload[key] = value
            return


def add_flag(payload: Payload, key: str, *aliases: str) -> None:
    if isinstance(payload.get(key), bool):
        return
    for name in aliases:
        if name in payload and isinstance(value := payload[name], bool):
            payload[key] = value
            return


def add_number(payload: Payload, key: str, *aliases: str) -> None:
    """Set `key` to the first number under `key` or an alias; a string of digits counts as a number."""
    for name in (key, *aliases):
        value = payload.get(name)
        if type(value) is str and _NUMBER.fullmatch(value):
            value = int(value)
        if type(value) is int:
            payload[key] = value
            return


def is_integer(value: Any) -> TypeGuard[int]:
    return type(value) is int


def without_nulls(payload: Payload) -> Payload:
    """Remove nulls: an unknown value is absent, never null. Returns the same object if there are none."""
    if None not in payload.values():
        return payload
    return {key: value for key, value in payload.items() if value is not None}


# -- errors -------------------------------------------------------------------------------------------------------

_FAILED_STATUSES = ("failed", "error", "cancelled")
_MARKS = ("isError", "is_error", "ok", "success", "applied", "deleted", "status", "exit_code")
OF_ERRORS = frozenset({"errorMessage", "error", *_MARKS})
"""Keys that indicate an error; a result with none of them has no error message."""


def error_message(payload: Payload) -> str | None:
    """Return the error message of a result: `errorMessage` or `error`; or, if the result is marked as failed, `stderr`,
    `message` or `text`."""
    if "errorMessage" in payload and nonblank(payload["errorMessage"]):
        return str(payload["errorMessage"])
    if "error" in payload:
        error = payload["error"]
        if isinstance(error, dict):
            error = first_text(error, ("message", "text", "error")) or msgspec.json.encode(error).decode()
        if nonblank(error):
            return error.strip()
    if not _is_marked_failed(payload):
        return None
    message = first_text(payload, ("stderr", "message", "text"))
    return message.strip() if message is not None else None


def _is_marked_failed(payload: Payload) -> bool:
    exit_code = payload.get("exit_code")
    return (
        payload.get("isError") is True
        or payload.get("is_error") is True
        or payload.get("ok") is False
        or payload.get("success") is False
        or payload.get("applied") is False
        or payload.get("deleted") is False
        or payload.get("status") in _FAILED_STATUSES
        or (is_integer(exit_code) and exit_code != 0)
    )


# -- defaults -----------------------------------------------------------------------------


def keep_input(payload: Payload, raw_name: str) -> Payload:
    return payload


def keep_output(value: Any, raw_name: str) -> Payload:
    return value.copy() if isinstance(value, dict) else {"value": value}


# -- `_raw`: the provider's own object beside the canonical one ---------------------------------------------------

MAX_DEPTH = 6
MAX_STRING = 2_000
MAX_ITEMS = 50
MAX_KEYS = 200


def truncate_raw(value: Any) -> Any:
    """Truncate a decoded JSON value. Returns the same object, or shares parts of it, if nothing has to be cut.

    The limits are those of V2 of Happier, tooltap's ancestor, counted in code points so that no surrogate pair is
    split."""
    return value if _is_short(value, 0) else _truncated(value, 0)


def _is_short(value: Any, depth: int) -> bool:
    kind = type(value)
    if kind is str:
        return len(value) <= MAX_STRING
    if kind is dict:
        if len(value) > MAX_KEYS or depth >= MAX_DEPTH:
            return not value
        items = value.values()
    elif kind is list:
        if len(value) > MAX_ITEMS or depth >= MAX_DEPTH:
            return not value
        items = value
    else:
        return True
    for item in items:  # a loop without calls for the values that are short strings: most are
        kind = type(item)
        if kind is str:
            if len(item) > MAX_STRING:
                return False
        elif (kind is dict or kind is list) and not _is_short(item, depth + 1):
            return False
    return True


def _truncated(value: Any, depth: int) -> Any:
    if depth > MAX_DEPTH:
        return "[truncated depth]"
    if isinstance(value, str):
        if len(value) <= MAX_STRING:
            return value
        return f"{value[:MAX_STRING]}…(truncated {len(value) - MAX_STRING} chars)"
    if isinstance(value, dict):
        members = value.items() if len(value) <= MAX_KEYS else islice(value.items(), MAX_KEYS)
        cut = {key: _truncated(item, depth + 1) if depth < MAX_DEPTH else "[truncated depth]" for key, item in members}
        if len(value) > MAX_KEYS:
            cut["_truncatedKeys"] = len(value) - MAX_KEYS
        return cut
    if isinstance(value, list):
        items = [_truncated(item, depth + 1) for item in value[:MAX_ITEMS]]
        if len(value) > MAX_ITEMS:
            items.append(f"…(truncated {len(value) - MAX_ITEMS} items)")
        return items
    return value


# -- the model's and the user's view -------------------------------------------------------------------------------


MODEL, USER = "assistant", "user"


def by_view(value: Any) -> tuple[Any, Display | None]:
    """Split content blocks by `annotations.audience` (MCP since 2025-03-26, ACP v1) into the model's and the user's
    view.

    `value` is a list of content blocks, or an object with one under `content`. A block without an audience is for both.
    """
    content = value.get("content") if isinstance(value, dict) else value
    if not isinstance(content, list) or not _states_audience(content):
        return value, None
    for_model, for_user = ([block for block in content if _is_for(role, block)] for role in (MODEL, USER))
    answer = {**value, "content": for_model} if isinstance(value, dict) else for_model
    text = blocks_text(for_user) or ""
    return answer, None if text == (blocks_text(for_model) or "") else Display(origin="provider", text=text)


def _states_audience(content: list[Any]) -> bool:
    for block in content:
        if type(block) is dict and ("annotations" in block or type(block.get("content")) is dict) and _audience(block):
            return True
    return False


def _audience(block: Any) -> list[Any]:
    block = record(block)
    for owner in (block, record(block.get("content"))):  # ACP: {type: content, content: {type: text, …}}
        found = record(owner.get("annotations")).get("audience")
        if isinstance(found, list):
            return found
    return []


def _is_for(role: str, block: Any) -> bool:
    audience = _audience(block)
    return not audience or role in audience
