"""AI SDK: the UI message streams of agents that are built with it, or speak its protocol."""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.catalog.dialect import Dialect

_METADATA = frozenset({"callProviderMetadata", "dynamic", "providerExecuted", "providerMetadata", "title", "type"})
_KEYS: dict[str, tuple[set[str], set[str]]] = {
    "finish": ({"finishReason"}, {"messageMetadata"}),
    "finish-step": (set(), set()),
    "message-metadata": ({"messageMetadata"}, set()),
    "reasoning-delta": ({"delta", "id"}, set()),
    "reasoning-end": ({"id"}, set()),
    "reasoning-start": ({"id"}, set()),
    "source-document": ({"mediaType", "sourceId"}, {"filename"}),
    "source-url": ({"sourceId", "url"}, set()),
    "start": (set(), {"messageId", "messageMetadata"}),
    "start-step": (set(), set()),
    "text-delta": ({"delta", "id"}, set()),
    "text-end": ({"id"}, set()),
    "text-start": ({"id"}, set()),
}
"""Type -> the keys that such a line has, and further keys that it may have; others have types of these names."""
_OWN = ("tool-approval-", "tool-input-", "tool-output-")


def _is_chunk(value: dict[str, Any]) -> bool:
    kind = value.get("type")
    if not isinstance(kind, str):
        return False
    if kind.startswith(_OWN):
        return isinstance(value.get("toolCallId"), str) or isinstance(value.get("approvalId"), str)
    needed, more = _KEYS.get(kind, (None, None))
    return needed is not None and more is not None and needed <= value.keys() <= needed | more | _METADATA


PRODUCT = "AI SDK"

DIALECTS = (
    Dialect(
        "ai-sdk-ui",
        "parser:AiSdkUi",
        _is_chunk,
        reads="UI message streams of the AI SDK (`toUIMessageStream`), as server-sent events or as lines",
        tapped_with="`tooltap ingest FILE`",
        arrives="streams text",
        omits="prompts, tokens, cost; what the model saw, times, the session's id, the model, and the folder",
        unproven="reasoning, approvals, errors, sources, files, tools that run at the API",
        shows_prompts=False,
    ),
)
