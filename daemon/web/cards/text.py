"""Text whose form is told beside it, as results have that are shown to the user: by MIME type, language, path."""

from __future__ import annotations

from markupsafe import Markup

from tooltap.daemon.web.cards.edits import changes_body
from tooltap.daemon.web.cards.files import source
from tooltap.daemon.web.cards.parts import plain, prose
from tooltap.daemon.web.html.diffs import changes_of_diff
from tooltap.daemon.web.html.look import Look

__all__ = ["DIFFS", "shown_text"]

DIFFS = frozenset({"text/x-diff", "text/x-patch"})


def shown_text(
    text: str,
    look: Look,
    pointer: str = "",
    *,
    mime_type: str | None = None,
    language: str | None = None,
    path: str | None = None,
) -> Markup:
    """A diff as changes by file, Markdown as such, source code with its colours, all else as a terminal shows it."""
    if mime_type in DIFFS and (changes := changes_of_diff(text)):
        return changes_body(changes, look, pointer)
    if mime_type == "text/markdown":
        return prose(text, look, pointer)
    if language or path or (mime_type and mime_type != "text/plain"):
        return source(text, look, pointer, path=path, language=language)
    return plain(text, look, pointer)
