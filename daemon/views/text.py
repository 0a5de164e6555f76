"""The text of a result, from its canonical output: what a person would read of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from tooltap.protocol.events import OutputRef

TEXTS = (
    ("file", "content"),
    ("content",),
    ("text",),
    ("unified_diff",),
    ("message",),
    ("value",),
    ("errorMessage",),
)
"""Keys of the text of a tool that prints nothing; the first that is present counts."""


class Text(NamedTuple):
    text: str
    """The text, as far as the event holds it."""
    bytes: int
    """Size of the whole text; so is `lines`."""
    lines: int


def result_text(output: dict[str, Any], outputs: dict[str, OutputRef] | None) -> Text:
    """The text of a result, or its JSON if it has none. `outputs`: the event's, for the size of a text that was cut."""
    printed = [_text(output, "/output", (key,), outputs) for key in ("stdout", "stderr")]
    if any(printed):
        return _joined([one for one in printed if one is not None and one.text])
    texts = (_text(output, "/output", keys, outputs) for keys in TEXTS)
    found = next((one for one in texts if one is not None), None)
    return found or _whole(msgspec.json.encode(without_meta(output)).decode())


def written_text(call_input: dict[str, Any], outputs: dict[str, OutputRef] | None) -> Text | None:
    """The text that a call writes to a file."""
    return _text(call_input, "/input", ("content",), outputs)


def without_meta(payload: dict[str, Any]) -> dict[str, Any]:
    """Only the tool's own keys, without those that tooltap adds."""
    return {key: value for key, value in payload.items() if key not in ("_happy", "_raw")}


def _text(
    payload: dict[str, Any], pointer: str, keys: tuple[str, ...], outputs: dict[str, OutputRef] | None
) -> Text | None:
    value: Any = payload
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    if not isinstance(value, str):
        return None
    whole = (outputs or {}).get("/".join((pointer, *keys)))
    return _whole(value) if whole is None else Text(value, whole.bytes, whole.lines)


def _whole(text: str) -> Text:
    return Text(text, len(text.encode()), text.count("\n") + (text != "" and not text.endswith("\n")))


def _joined(texts: list[Text]) -> Text:
    """Join the texts, each on a new line."""
    joined = _whole("")
    for one in texts:
        gap = "\n" if joined.text and not joined.text.endswith("\n") else ""
        joined = Text(joined.text + gap + one.text, joined.bytes + len(gap) + one.bytes, joined.lines + one.lines)
    return joined
