"""Google's Gemini API: `generateContent`, as clients and servers exchange it."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect
from tooltap.normalizers.wire.values import record, records

_ENDS = frozenset({"modelVersion", "promptFeedback", "responseId", "usageMetadata"})
"""Keys of an answer, of which one without candidates has some."""


def _is_gemini_api(value: dict[str, Any]) -> bool:
    """Code Assist has requests and answers in an envelope."""
    return any(map(_is_exchange, (value, record(value.get("request")), record(value.get("response")))))


def _is_exchange(value: dict[str, Any]) -> bool:
    if "type" in value:
        return False
    if (candidates := records(value.get("candidates"))) and not _ENDS.isdisjoint(value):
        return any("content" in one or "finishReason" in one for one in candidates)
    if isinstance(value.get("promptFeedback"), dict) or value.keys() >= {"usageMetadata", "modelVersion"}:
        return True
    contents = records(value.get("contents"))
    return bool(contents) and all(isinstance(one.get("parts"), list) for one in contents)


PRODUCT = "Gemini API"

DIALECTS = (
    Dialect(
        "gemini-api",
        "parser:GeminiAPI",
        _is_gemini_api,
        reads="`generateContent` and `streamGenerateContent` of the Gemini API",
        tapped_with="`tooltap gateway openai --upstream URL`",
        arrives="one burst; `streamGenerateContent`: streams text",
        omits="permission requests, cost; whether a tool failed, unless the client wrote it into the result; searches "
        "that ground an answer, the session",
        unproven="thoughts, code that runs at the API, pictures, whole answers, errors, Code Assist's envelope",
        apis=(":generateContent", ":streamGenerateContent"),
    ),
)
