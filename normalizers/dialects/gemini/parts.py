"""Parts of a Gemini message (`PartListUnion`): a string, one part, or a list of both."""

from __future__ import annotations

from typing import Any

__all__ = ["parts_of", "records", "text_of"]


def parts_of(content: Any) -> list[dict[str, Any]]:
    parts = content if isinstance(content, list) else [content]
    return [{"text": part} if isinstance(part, str) else part for part in parts if isinstance(part, str | dict)]


def text_of(content: Any) -> str:
    """The text that is said, thoughts left out."""
    texts = [part.get("text") for part in parts_of(content) if part.get("thought") is not True]
    return "".join(text for text in texts if isinstance(text, str))


def records(value: Any) -> list[dict[str, Any]]:
    """The objects of a list."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []
