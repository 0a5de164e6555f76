"""The endpoints of the board: the page, and what keeps it up to date."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import anyio
import msgspec
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.types import ASGIApp

from tooltap.daemon.show.tools.registry import TOOL_CARDS
from tooltap.daemon.web.http.query import parse_query
from tooltap.daemon.web.http.services import Services
from tooltap.daemon.web.page.board.columns import Board
from tooltap.daemon.web.page.board.live import LiveBoard
from tooltap.daemon.web.page.fragments import Fragments
from tooltap.daemon.web.page.preferences import COOKIE, from_cookie
from tooltap.daemon.web.templating import template

__all__ = ["BoardEndpoints"]

MOST_VERSIONS = 64
Version: TypeAlias = Annotated[str, msgspec.Meta(max_length=32)]


class BoardQuery(msgspec.Struct, kw_only=True, frozen=True):
    """Of the page, which has no filters."""


class LiveBoardQuery(msgspec.Struct, kw_only=True, frozen=True):
    after: str = "now"
    """What every reader of live events sends. The board is always about now."""
    has: Annotated[tuple[Version, ...], msgspec.Meta(max_length=MOST_VERSIONS)] = ()
    """The versions of the columns that the browser shows."""


class BoardEndpoints:
    def __init__(self, services: Services, fragments: Fragments) -> None:
        self._services = services
        self._board = Board(services, fragments)

    async def page(self, request: Request) -> Response:
        parse_query(request.scope["query_string"], BoardQuery)
        board, preferences = await self._board.columns(), from_cookie(request.cookies.get(COOKIE))
        tools = sorted(TOOL_CARDS)
        return HTMLResponse(
            await anyio.to_thread.run_sync(
                lambda: template("board.html", board=board, preferences=preferences, tools=tools)
            )
        )

    async def live(self, request: Request) -> ASGIApp:
        query = parse_query(request.scope["query_string"], LiveBoardQuery)
        return LiveBoard(self._services, self._board, query.has).stream()
