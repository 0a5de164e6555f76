"""OpenAI-compatible APIs: Chat Completions and Responses."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.core.dialect import Dialect

__all__ = ["DIALECTS", "PRODUCT"]


def _is_openai_chat(value: dict[str, Any]) -> bool:
    choices = value.get("choices")
    if isinstance(choices, list):
        if value.get("object") in ("chat.completion", "chat.completion.chunk"):
            return True
        first = choices[0] if choices else None
        return isinstance(first, dict) and any(isinstance(first.get(key), dict) for key in ("delta", "message"))
    messages = value.get("messages")
    return (
        isinstance(messages, list)
        and isinstance(value.get("model"), str)
        and any(isinstance(message, dict) and isinstance(message.get("role"), str) for message in messages)
    )


def _is_openai_responses(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if isinstance(kind, str):
        if "event_id" in value:  # the realtime API has events of the same names
            return False
        if kind.startswith("response."):
            return kind == "response.create" or not value.keys().isdisjoint(_RESPONSES_EVENT_KEYS)
        return kind == "error" and "sequence_number" in value
    if value.get("object") == "response":
        return isinstance(value.get("output"), list)
    # Requests for embeddings have a model and an input, too, and nothing else of these.
    return value.keys() >= {"model", "input"} and not value.keys().isdisjoint(_RESPONSES_REQUEST_KEYS)


_RESPONSES_EVENT_KEYS = frozenset({"response", "item", "output_index", "item_id"})


_RESPONSES_REQUEST_KEYS = frozenset(
    {"instructions", "tools", "store", "stream", "include", "reasoning", "text", "previous_response_id"}
)


PRODUCT = "OpenAI-compatible servers"

DIALECTS = (
    Dialect(
        "openai-chat",
        "chat:OpenaiChat",
        _is_openai_chat,
        reads="Chat Completions of OpenAI-compatible servers, whole and streamed",
        tapped_with="`tooltap gateway openai --upstream URL`",
        arrives="one burst; with `stream: true`: streams text",
        omits="permission requests; whether a command failed",
        unproven="everything of ours: shapes from public recordings of many servers",
        endless="endless:openai_chat",
    ),
    Dialect(
        "openai-responses",
        "responses:OpenAIResponses",
        _is_openai_responses,
        reads="the Responses API, whole and streamed",
        tapped_with="`tooltap gateway openai --upstream URL`",
        arrives="one burst; with `stream: true`: streams text",
        omits="–",
        unproven="everything of ours: shapes from public recordings; by the schema alone `file_search_call`",
        endless="endless:openai_responses",
    ),
)
