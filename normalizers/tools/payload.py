"""What the families share: taking payloads apart, aliases, text of content blocks, errors.

Canonical keys are put beside the provider's own, and what nobody knows is kept. A key goes only where a canonical one
has all it says: text that was under `content`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import msgspec

__all__ = [
    "TEXT_KEYS",
    "Family",
    "Payload",
    "add_alias",
    "add_flag",
    "add_number",
    "add_text",
    "blocks_text",
    "decode_json",
    "error_message",
    "first_text",
    "input_payload",
    "keep_input",
    "keep_output",
    "keys_and_text",
    "nonblank",
    "objects",
    "strings",
    "without_nulls",
]

Payload: TypeAlias = dict[str, Any]


class Family(NamedTuple):
    """How one canonical tool's payloads are made."""

    input: Callable[[Payload, str], Payload]
    """From the keys of a provider's input and the raw tool name. May change and return the payload it is given."""
    output: Callable[[Any, str], Payload]
    """From what the tool answered (a string, a list of blocks or an object; never None) and the raw tool name."""
    string_key: str = "value"
    """What an input that is a bare string stands for."""
    list_key: str = "items"
    """What an input that is a bare list stands for."""
    json_result: bool = False
    """Whether a result that is a string of JSON is the object it describes."""


# -- taking apart -------------------------------------------------------------------------------------------------


def input_payload(value: Any, family: Family) -> Payload:
    """The keys of an input, whatever it is."""
    if isinstance(value, dict):
        return without_nulls(dict(value))
    if isinstance(value, str):
        return {family.string_key: value}
    if isinstance(value, list):
        return {family.list_key: value}
    return {} if value is None else {"value": value}


TEXT_KEYS = ("text", "output", "result", "stdout", "aggregated_output", "formatted_output", "value", "body")
"""Where providers put the text of a result, if not under `content`."""


def keys_and_text(value: Any, other_keys: Iterable[str] = ()) -> tuple[Payload, str | None]:
    """The keys of a result, and its text: `content`, else the first of `other_keys` that is a string.

    Text under `content` is taken out, because the family puts it where its tool has text; blocks that are no text stay.
    """
    if isinstance(value, str):
        return {}, value
    if isinstance(value, list):
        text = blocks_text(value)
        if text is None:
            return {"value": value}, None
        rest = _other_blocks(value)
        return ({"content": rest} if rest else {}), text
    if not isinstance(value, dict):
        return {"value": value}, None
    payload = dict(value)
    text = blocks_text(payload.get("content"))
    if text is not None:
        content = payload.pop("content")
        rest = _other_blocks(content) if isinstance(content, list) else []
        if rest:
            payload["content"] = rest
        return payload, text
    for key in other_keys:
        if isinstance(text := payload.get(key), str):
            return payload, text
    return payload, None


def blocks_text(content: Any) -> str | None:
    """The text of a string or of a list of content blocks, one line each; None if there is none."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    texts = [text for text in map(_block_text, content) if text is not None]
    return "\n".join(texts) if texts else None


def _block_text(block: Any) -> str | None:
    if not isinstance(block, dict):
        return None
    text = block.get("text")
    if text is None and isinstance(block.get("content"), dict):  # ACP: {type: content, content: {type: text, …}}
        text = block["content"].get("text")
    return text if isinstance(text, str) else None


def _other_blocks(content: list[Any]) -> list[Any]:
    return [block for block in content if _block_text(block) is None]


def decode_json(value: Any) -> Any:
    """The object or list that a string describes, else the value itself."""
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return value
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError:
        return value


# -- reading values -----------------------------------------------------------------------------------------------


def nonblank(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and value != "" and not value.isspace()


def first_text(payload: Payload, keys: Iterable[str]) -> str | None:
    """The first value under `keys` that is a string and not blank, with its whitespace."""
    for key in keys:
        value = payload.get(key)
        if isinstance(value, str) and value and not value.isspace():
            return value
    return None


def strings(value: Any) -> list[str]:
    """The strings of a list that are not blank."""
    return [item for item in value if nonblank(item)] if isinstance(value, list) else []


def objects(value: Any) -> list[Payload]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


# -- adding canonical keys ----------------------------------------------------------------------------------------


def add_text(payload: Payload, key: str, *aliases: str) -> None:
    """Fill `key`, unless it holds text, from the first alias that does."""
    found = first_text(payload, (key, *aliases))
    if found is not None:
        payload[key] = found


def add_alias(payload: Payload, key: str, *aliases: str) -> None:
    """Fill `key`, unless it is a string, from the first alias that is one, be it empty or blank."""
    for name in (key, *aliases):
        if isinstance(value := payload.get(name), str):
            payload[key] = value
            return


def add_flag(payload: Payload, key: str, *aliases: str) -> None:
    for name in (key, *aliases):
        if isinstance(value := payload.get(name), bool):
            payload[key] = value
            return


def add_number(payload: Payload, key: str, *aliases: str) -> None:
    for name in (key, *aliases):
        if is_integer(value := payload.get(name)):
            payload[key] = value
            return


def is_integer(value: Any) -> TypeGuard[int]:
    return type(value) is int


def without_nulls(payload: Payload) -> Payload:
    """Absent means not known; null is never written for it. The payload itself where it has none."""
    if None not in payload.values():
        return payload
    return {key: value for key, value in payload.items() if value is not None}


# -- errors -------------------------------------------------------------------------------------------------------

_FAILED_WORDS = ("failed", "error", "cancelled")


def error_message(payload: Payload) -> str | None:
    """What a result says went wrong: `error`, or where it is marked as failed, also `stderr`, `message` or `text`."""
    if nonblank(payload.get("errorMessage")):
        return str(payload["errorMessage"])
    error = payload.get("error")
    if isinstance(error, dict):
        error = first_text(error, ("message", "text", "error")) or msgspec.json.encode(error).decode()
    if nonblank(error):
        return error.strip()
    if not _says_it_failed(payload):
        return None
    words = first_text(payload, ("stderr", "message", "text"))
    return words.strip() if words is not None else None


def _says_it_failed(payload: Payload) -> bool:
    exit_code = payload.get("exit_code")
    return (
        payload.get("isError") is True
        or payload.get("is_error") is True
        or payload.get("ok") is False
        or payload.get("success") is False
        or payload.get("applied") is False
        or payload.get("deleted") is False
        or payload.get("status") in _FAILED_WORDS
        or (is_integer(exit_code) and exit_code != 0)
    )


# -- tools without rules of their own -----------------------------------------------------------------------------


def keep_input(payload: Payload, raw_name: str) -> Payload:
    return payload


def keep_output(value: Any, raw_name: str) -> Payload:
    return dict(value) if isinstance(value, dict) else {"value": value}
