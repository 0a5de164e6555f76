"""Results with a side for the model and a side for the user, where several dialects have them alike.

What is given here is the user's side, where it is something else than the model's.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import record, records, string
from tooltap.protocol.events import Display

__all__ = ["by_audience", "by_structure", "diff_of", "printed"]

MODEL, USER = "assistant", "user"
_STRUCTURED = ("structuredContent", "structured_content")


def by_audience(value: Any) -> tuple[Any, Display | None]:
    """The model's part of an answer that is a list of content blocks, or has one under `content`; and the user's, where
    blocks say whom they are for (`annotations.audience`: MCP since 2025-03-26, ACP v1). One that does not is for both.
    """
    content = value.get("content") if isinstance(value, dict) else value
    if not isinstance(content, list) or not any(map(_audience, content)):
        return value, None
    told, shown = ([block for block in content if _is_for(role, block)] for role in (MODEL, USER))
    answer = {**value, "content": told} if isinstance(value, dict) else told
    text = blocks_text(shown) or ""
    return answer, None if text == (blocks_text(told) or "") else Display(origin="provider", text=text)


def by_structure(answer: dict[str, Any]) -> tuple[dict[str, Any], Display | None]:
    """An MCP server's answer as Codex takes it: its model gets `structuredContent`, where there is any, and no other
    content (`FunctionCallOutputPayload` in its `protocol/src/models.rs`)."""
    structured = next((answer[key] for key in _STRUCTURED if answer.get(key) is not None), None)
    text = blocks_text(answer.get("content"))
    if structured is None or text is None or decode_json(text) == structured:
        return answer, None
    rest = {key: item for key, item in answer.items() if key != "content"}
    return rest, Display(origin="provider", text=text)


def printed(event: dict[str, Any]) -> Display | None:
    """What a command of Codex printed (`aggregated_output`), where the model was given less of it
    (`formatted_output`)."""
    told, shown = string(event.get("formatted_output")), string(event.get("aggregated_output"))
    if not told or shown is None or told.strip() == shown.strip():
        return None
    return Display(origin="provider", text=shown)


def diff_of(changed: dict[str, Any]) -> Display | None:
    """The change of a file as Claude Code shows it: `structuredPatch` as a unified diff."""
    path = changed.get("filePath")
    lines = [f"--- {path}", f"+++ {path}"]
    for hunk in records(changed.get("structuredPatch")):
        old, new = (f"{hunk.get(f'{side}Start')},{hunk.get(f'{side}Lines')}" for side in ("old", "new"))
        text = hunk.get("lines")
        lines += [f"@@ -{old} +{new} @@", *(line for line in text if isinstance(line, str))] if text else []
    return Display(origin="provider", text="\n".join(lines) + "\n", mime_type="text/x-diff") if lines[2:] else None


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
