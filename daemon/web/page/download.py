"""A session as a file that a browser downloads: rendered while it is sent, and never as a page of our origin."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Literal, TypeAlias
from urllib.parse import quote

import anyio
from starlette.responses import Response, StreamingResponse

from tooltap.daemon.export.html import ExportedPage
from tooltap.daemon.export.markdown import MarkdownPage
from tooltap.daemon.export.redaction import Redaction, masked_title
from tooltap.daemon.export.source import Batch, Bodies, JournalSource, Part
from tooltap.daemon.journal.interface import Journal
from tooltap.daemon.taps.stream_ids import stream_name
from tooltap.daemon.web.http.errors import WebError

Form: TypeAlias = Literal["html", "md"]
FORMS: tuple[tuple[Form, str, str], ...] = (
    ("html", "text/html; charset=utf-8", "HTML"),
    ("md", "text/markdown; charset=utf-8", "Markdown"),
)
"""Ending of the file, its type, its name."""
BODY = 1_048_576
BODIES = 33_554_432
"""Bytes of one output body in the file, and of all."""
SANDBOX = "default-src 'none'; sandbox"
CUT = "The session is longer than this file: `tooltap export` writes all of it."


def bodies_for(form: Form) -> Bodies:
    """Return which output bodies a file of this form has: Markdown has none."""
    return Bodies(BODY, BODIES) if form == "html" else Bodies(0, 0)


async def download(
    journal: Journal, session: str, title: str, form: Form, part: Part, redaction: Redaction
) -> Response:
    """Send the file. What fails on the way ends the connection, so that no browser keeps half a file as a whole one.
    Raises `WebError` if there is nothing to send, and `JournalError`."""
    bodies = bodies_for(form)
    masked = masked_title(title, redaction.mask)
    page: ExportedPage | MarkdownPage
    page = MarkdownPage(masked, bodies=bodies) if form == "md" else ExportedPage(masked, level="summary", bodies=bodies)
    source = JournalSource(journal, session, part, bodies, redaction)
    batches = aiter(source)
    first = await anext(batches, None)
    if first is None:
        raise WebError(404, "not-found", "no event of the session is in this part")

    def rendered(batch: Batch) -> str:
        return "".join([page.add(event, found) for event, found in batch])

    async def written() -> AsyncIterator[str]:
        yield await anyio.to_thread.run_sync(rendered, first)
        async for batch in batches:
            yield await anyio.to_thread.run_sync(rendered, batch)
        remarks = [redaction.remark(), *([CUT] if source.is_cut else [])]
        yield await anyio.to_thread.run_sync(lambda: page.end(*remarks))

    name = quote(f"{stream_name(f'{session}.{form}')}.{form}", safe="")
    headers = {
        "Content-Disposition": f"attachment; filename*=UTF-8''{name}",
        "Content-Security-Policy": SANDBOX,
    }
    media_type = next(kind for ending, kind, _ in FORMS if ending == form)
    return StreamingResponse(written(), 200, headers, media_type)
