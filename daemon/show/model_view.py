"""What the model saw of a result, beside what the card shows: the difference as a diff, and then its blocks."""

from __future__ import annotations

from typing import Any

import msgspec

from tooltap.daemon.show.blocks import Body, folded, joined, note, plain
from tooltap.daemon.show.diff import Change, between
from tooltap.daemon.show.render_options import Look
from tooltap.daemon.show.tools.edits import changes_body
from tooltap.daemon.show.typed_text import DIFFS
from tooltap.daemon.views.text import result_text
from tooltap.protocol.events import ToolResult
from tooltap.protocol.model_view import model_blocks, model_text

DIFFERS = "model saw other text"
ADDED = "+ marks what only the model saw, − marks what only you see."
BEGINNING = "This is only the beginning; the event's output bodies contain the rest."
SAME = "The model saw the same text."
NUMBERED = "The model saw the same text, with line numbers."
CHANGE = "You see the change; the model saw this:"
NOTHING = "The model did not see it."


def is_different(event: ToolResult) -> bool:
    """Whether the user reads something else than the model did, as far as the stream says what the model saw."""
    if event.model_view is None:
        return False
    return event.model_view.differs or (event.display is not None and event.display.mime_type is None)


def model_view_body(event: ToolResult, look: Look) -> Body:
    """Show what the model saw, folded; nothing if the stream does not say it."""
    if event.model_view is None:
        return ()
    decoded = msgspec.to_builtins(event)
    return folded("what the model saw", _body(decoded, event, look))


def _body(decoded: dict[str, Any], event: ToolResult, look: Look) -> Body:
    blocks = model_blocks(decoded, _not_here) or []
    if not blocks:
        return note(NOTHING)
    beginning = note(BEGINNING) if any(block.get("incomplete") for block in blocks) else ()
    whole = [
        plain(block["text"], look, f"/modelView/blocks/{index}/text") if "text" in block else _elsewhere(block)
        for index, block in enumerate(blocks)
    ]
    seen = model_text(decoded, _not_here, numbers=False) or ""
    shown = result_text(event.output, event.outputs).text if event.display is None else event.display.text or ""
    if seen.strip() == shown.strip():
        is_same = not any("numbers" in part for block in decoded["modelView"]["blocks"] for part in _parts(block))
        return joined(note(SAME if is_same else NUMBERED), beginning, *whole)
    if event.display is not None and event.display.mime_type in DIFFS:
        return joined(note(CHANGE), beginning, *whole)
    hunks, remark = between(shown, seen)
    difference = changes_body([Change.of("", "", hunks, note=f"{ADDED} {remark}".strip())], look)
    return joined(difference, beginning, folded("all of it", joined(*whole)))


def _parts(block: dict[str, Any]) -> list[dict[str, Any]]:
    return [part for part in block.get("parts") or () if isinstance(part, dict)]


def _elsewhere(block: dict[str, Any]) -> Body:
    return note(f"A block of type {block.get('type')}: {block.get('mimeType') or block.get('uri') or 'stored'}.")


def _not_here(output_id: str) -> bytes | None:
    """Bodies are not read for a card: it links to them."""
    return None
