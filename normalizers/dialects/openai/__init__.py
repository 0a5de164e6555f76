"""OpenAI-compatible APIs: Chat Completions and Responses."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect
from tooltap.normalizers.wire.values import record, records

_EVENT_KEYS = frozenset({"response", "item", "output_index", "item_id"})
_REQUEST_KEYS = frozenset(
    {"instructions", "tools", "store", "stream", "include", "reasoning", "text", "previous_response_id"}
)
_CHAT_ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_CHAT_OBJECTS = ("chat.completion", "chat.completion.chunk")


def _is_openai_chat(value: dict[str, Any]) -> bool:
    choices = value.get("choices")
    if isinstance(choices, list):
        first = record(choices[0]) if choices else {}
        is_choice = any(isinstance(first.get(key), dict) for key in ("delta", "message"))
        return is_choice or value.get("object") in _CHAT_OBJECTS
    messages = value.get("messages")
    if not isinstance(messages, list):
        return False
    roles = [message.get("role") for message in records(messages)]
    if isinstance(value.get("model"), str):
        return any(isinstance(role, str) for role in roles)
    # A recorded conversation, without the request around it.
    return (
        bool(roles) and len(roles) == len(messages) and "type" not in value and _CHAT_ROLES.issuperset(map(str, roles))
    )


def _is_openai_responses(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if isinstance(kind, str):
        if "event_id" in value:  # the realtime API has events of the same names
            return False
        if kind.startswith("response."):
            return kind == "response.create" or not value.keys().isdisjoint(_EVENT_KEYS)
        return kind == "error" and "sequence_number" in value
    if value.get("object") == "response":
        return isinstance(value.get("output"), list)
    # Requests for embeddings also have a model and an input, but no other of these keys.
    return value.keys() >= {"model", "input"} and not value.keys().isdisjoint(_REQUEST_KEYS)


def _is_agents(value: dict[str, Any]) -> bool:
    if value.get("type") == "raw_response_event":
        return isinstance(value.get("data"), dict)
    return value.get("type") == "run_item_stream_event" and isinstance(value.get("item"), dict)


PRODUCT = "OpenAI"
LISTED_AS = "OpenAI-compatible servers"

DIALECTS = (
    Dialect(
        "openai-chat",
        "chat:OpenAIChat",
        _is_openai_chat,
        reads="Chat Completions of OpenAI-compatible servers, whole and streamed, and recorded conversations",
        tapped_with="`tooltap gateway openai --upstream URL`",
        arrives="one burst; with `stream: true`: streams text",
        omits="permission requests; whether a tool failed, unless the agent wrote it into the text of the result",
        unproven="what llama.cpp does not print: shapes from public recordings of many servers",
        apis=("/chat/completions",),
    ),
    Dialect(
        "openai-responses",
        "responses:OpenAIResponses",
        _is_openai_responses,
        reads="the Responses API, whole and streamed",
        tapped_with="`tooltap gateway openai --upstream URL`",
        arrives="one burst; with `stream: true`: streams text",
        omits="–; what the model saw of a tool that runs at the API",
        unproven="what llama.cpp does not print: shapes from public recordings; `file_search_call` only from the "
        "schema",
        apis=("/responses",),
    ),
    Dialect(
        "openai-agents",
        "agents:OpenAIAgents",
        _is_agents,
        reads="the events of runs of OpenAI's Agents SDK (`stream_events`), as JSON",
        tapped_with="`tooltap ingest FILE`",
        arrives="streams text",
        omits="prompts, permission requests, cost; the session's id, and who runs",
        unproven="reasoning, approvals, handoffs, tools that run at the API",
        shows_prompts=False,
        product="OpenAI Agents SDK",
    ),
)
