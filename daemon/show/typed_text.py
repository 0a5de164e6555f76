"""Text whose MIME type, language or path is known, as in the `display` of a result."""

from __future__ import annotations

from tooltap.daemon.show.blocks import Body, plain, prose
from tooltap.daemon.show.diff import changes_of_diff
from tooltap.daemon.show.render_options import Look
from tooltap.daemon.show.tools.edits import changes_body
from tooltap.daemon.show.tools.files import source

DIFFS = frozenset({"text/x-diff", "text/x-patch"})


def typed_text(
    text: str,
    look: Look,
    pointer: str = "",
    *,
    mime_type: str | None = None,
    language: str | None = None,
    path: str | None = None,
) -> Body:
    """Show a diff as changes by file, Markdown as prose, source code with colours, and other text like a terminal."""
    if mime_type in DIFFS and (changes := changes_of_diff(text)):
        return changes_body(changes, look, pointer)
    if mime_type == "text/markdown":
        return prose(text, look, pointer)
    if language or path or (mime_type and mime_type != "text/plain"):
        return source(text, look, pointer, path=path, language=language)
    return plain(text, look, pointer)
