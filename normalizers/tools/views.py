"""Splits results into the model's and the user's view, for structures that several dialects share.

The user's view is returned as `Display`, and only if it differs from the model's.
"""

from __future__ import annotations

from typing import Any

from tooltap.normalizers.tools.payload import blocks_text, decode_json
from tooltap.normalizers.wire.values import record, records, string, strings
from tooltap.protocol.events import Display

MODEL, USER = "assistant", "user"
_STRUCTURED = ("structuredContent", "structured_content")


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


def by_structure(answer: dict[str, Any]) -> tuple[dict[str, Any], Display | None]:
    """Split an MCP server's answer as Codex does: its model gets only `structuredContent`, if there is any
    (`FunctionCallOutputPayload` in its `protocol/src/models.rs`)."""
    structured = next((answer[key] for key in _STRUCTURED if answer.get(key) is not None), None)
    text = blocks_text(answer.get("content"))
    if structured is None or text is None or decode_json(text) == structured:
        return answer, None
    rest = {key: item for key, item in answer.items() if key != "content"}
    return rest, Display(origin="provider", text=text)


def printed(event: dict[str, Any]) -> Display | None:
    """The full output of a Codex command (`aggregated_output`), if the model got a shortened one
    (`formatted_output`)."""
    for_model, full = string(event.get("formatted_output")), string(event.get("aggregated_output"))
    if not for_model or full is None or for_model.strip() == full.strip():
        return None
    return Display(origin="provider", text=full)


def diff_of(changed: dict[str, Any]) -> Display | None:
    """Claude Code's `structuredPatch` of a changed file as a unified diff."""
    path = changed.get("filePath")
    lines = [f"--- {path}", f"+++ {path}"]
    for hunk in records(changed.get("structuredPatch")):
        old, new = (f"{hunk.get(f'{side}Start')},{hunk.get(f'{side}Lines')}" for side in ("old", "new"))
        text = strings(hunk.get("lines"))
        lines += [f"@@ -{old} +{new} @@", *text] if text else []
    return Display(origin="provider", text="\n".join(lines) + "\n", mime_type="text/x-diff") if lines[2:] else None


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
