"""The page of the files that all sessions changed, each with the sessions that changed it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal, NamedTuple
from urllib.parse import urlencode

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from tooltap.daemon.sessions.listing import ProjectNames, folder_name
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.choices import Choices, Offered
from tooltap.daemon.web.page.home import PERIOD_WORDS
from tooltap.daemon.web.page.routing import PageRoute, html, preferences_of, query_of
from tooltap.daemon.web.page.tabs.digests import place_url
from tooltap.daemon.web.page.tabs.tabs import session_tab_url
from tooltap.normalizers.tools.paths import relative
from tooltap.protocol.frames import ChangedFilesRequest
from tooltap.protocol.replies import ChangedFile

MOST = 200
"""Files of the list."""
ORDERS = {"": "Most changes", "lines": "Most lines", "time": "Latest"}
"""Value in the address -> its words."""


class FilesQuery(Choices, kw_only=True, frozen=True):
    PATH: ClassVar = "/files"

    file: Annotated[str, msgspec.Meta(max_length=4_096)] = ""
    """A part of the path."""
    order: Literal["", "lines", "time"] = ""


class ShownFile(NamedTuple):
    file: ChangedFile
    project: str
    folder: str
    """Within the project; with a slash at its end, or empty."""
    name: str
    worktree: str
    """Name of the worktree; empty in the project's own folder."""


def routes(services: Services) -> list[BaseRoute]:
    journal = services.journal

    async def page(request: Request) -> Response:
        query = query_of(request, FilesQuery)
        offered = await Offered.of(journal, query)
        found = await journal.changed_files(_asked(query, offered))
        files = await anyio.to_thread.run_sync(_shown, found.files, offered.names)
        return await html(
            "files.html",
            query=query,
            offered=offered,
            found=found,
            files=files,
            hidden=found.total - len(files),
            orders=ORDERS,
            periods=PERIOD_WORDS,
            place_url=place_url,
            diff_url=diff_url,
            preferences=preferences_of(request),
            waits=offered.waiting,
            here=query.address(),
        )

    return [PageRoute("/files", page)]


def diff_url(session: str, path: str) -> str:
    """Return the address of what a session changed in a file."""
    return f"{session_tab_url(session, 'files')}?{urlencode({'open': path})}"


def _asked(query: FilesQuery, offered: Offered) -> ChangedFilesRequest:
    return ChangedFilesRequest(
        limit=MOST,
        order=query.order or "changes",
        provider=query.agent or None,
        project=offered.folders,
        host=query.host or None,
        file=query.file or None,
        since=query.since,
    )


def _shown(files: Sequence[ChangedFile], names: ProjectNames) -> list[ShownFile]:
    shown = []
    for one in files:
        inside = relative(one.path, one.worktree or one.project)
        folder, slash, name = inside.rpartition("/")
        project = "" if one.project is None or inside == one.path else names.of({"project": one.project})
        shown.append(ShownFile(one, project, folder + slash, name, folder_name(one.worktree or "")))
    return shown
