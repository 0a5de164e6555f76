"""Thoughts in the text of an answer: `<think>…</think>` at its beginning.

Servers of open models (vLLM, llama.cpp, Ollama, …) that do not know how a model marks its thoughts pass them on as
text, and so does every agent that such a server answers. White space around the marks belongs to neither text.
"""

from __future__ import annotations

OPENING, CLOSING = "<think>", "</think>"
_HELD = 256
"""Maximum length of the white space that is held back, in code points."""


def split_thought(text: str) -> tuple[str, str]:
    """Split an answer into (thought, the rest). A thought that is not closed was cut, and is all there is."""
    if text[:1] not in "< \n\t\r":
        return "", text
    begun = text.lstrip()
    if not begun.startswith(OPENING):
        return "", text
    thought, _, rest = begun[len(OPENING) :].partition(CLOSING)
    return thought.strip(), rest.lstrip()


def may_open(text: str) -> bool:
    """Whether more of an answer that begins so may make it one that begins with a thought."""
    begun = text.lstrip()
    return OPENING.startswith(begun) and len(text) <= _HELD


def read_thought(text: str) -> tuple[str, str, str | None]:
    """Split a piece of a thought: (what belongs to it, what may belong to its end, the text behind it if that ends
    it)."""
    thought, mark, rest = text.partition(CLOSING)
    if mark:
        return thought.rstrip(), "", rest
    size = next((size for size in range(len(CLOSING) - 1, 0, -1) if text.endswith(CLOSING[:size])), 0)
    kept = text[: len(text) - size].rstrip()
    return (kept, text[len(kept) :], None) if len(text) - len(kept) <= _HELD else (text, "", None)
